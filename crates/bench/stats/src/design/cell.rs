//! One point of the matrix.

use serde::{Deserialize, Serialize};
use transect_bench_core::{Better, CacheState, Family};

/// One combination of everything that is varied. It is run once in every block.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cell {
    /// Its name, unique in the plan.
    pub id: String,
    /// The platform's name in its registry.
    pub platform: String,
    /// The state of the page cache.
    pub cache: CacheState,
    /// The workload with its parameters, as the plan calls it.
    pub workload: String,
    /// How many guests run it at once.
    pub guests: u32,
    /// The tracer arm.
    pub arm: String,
    /// Which questions are corrected together.
    pub family: Family,
    /// Which way the metric is good.
    pub better: Better,
    /// Under which of two labels the same thing runs.
    #[serde(default)]
    pub label: Label,
}

/// The reference runs twice in every block, under two labels. That nothing else differs is the point (A/A).
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize,
)]
#[serde(rename_all = "snake_case")]
pub enum Label {
    /// What everything is compared with.
    #[default]
    First,
    /// The same once more.
    Again,
}

/// What the arms of a comparison have in common: platform, cache, workload, guests.
pub(super) type Group<'a> = (&'a str, CacheState, &'a str, u32);

impl Cell {
    /// A cell of which only the arm and the metric's nature are known: platform and workload empty, any cache, one
    /// guest.
    pub fn new(
        id: impl Into<String>,
        arm: impl Into<String>,
        family: Family,
        better: Better,
    ) -> Self {
        Self {
            id: id.into(),
            platform: String::new(),
            cache: CacheState::Any,
            workload: String::new(),
            guests: 1,
            arm: arm.into(),
            family,
            better,
            label: Label::First,
        }
    }

    pub(super) fn group(&self) -> Group<'_> {
        (&self.platform, self.cache, &self.workload, self.guests)
    }

    /// The same thing under the other label.
    pub(super) fn again(&self) -> Self {
        Self { id: Self::again_id(&self.id), label: Label::Again, ..self.clone() }
    }

    /// The name of the second measurement of the cell of this name.
    #[must_use]
    pub fn again_id(id: &str) -> String {
        format!("{id}~again")
    }

    /// The logarithm of what a value costs: of a time itself, of a rate its inverse.
    pub(super) fn log_cost(&self, value: f64) -> f64 {
        match self.better {
            Better::Less => value.ln(),
            Better::More => -value.ln(),
        }
    }
}
