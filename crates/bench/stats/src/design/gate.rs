//! An exit code for continuous integration, from intervals and never from a point.

use super::summary::ContrastSummary;
use serde::{Deserialize, Serialize};

/// What must not happen.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Gate {
    /// The largest ratio of costs that is let through: 1.05 for 5 %.
    pub limit: f64,
    /// The confidence that all intervals hold together, 0 to 1.
    pub confidence: f64,
}

/// What the gate says. Ordered: the largest of several is that of all.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// The whole interval is within the limit.
    Passed,
    /// The interval reaches over the limit, or there is none: it is not known.
    Undecided,
    /// The whole interval is beyond the limit.
    Failed,
}

impl Outcome {
    /// The exit code: 0 passed, 1 failed, 2 undecided.
    #[must_use]
    pub fn code(self) -> u8 {
        match self {
            Self::Passed => 0,
            Self::Failed => 1,
            Self::Undecided => 2,
        }
    }
}

/// One comparison at the gate.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Check {
    /// What: `cell / base`.
    pub what: String,
    /// The interval of the ratio with [`Gate::confidence_each`].
    pub interval: Option<(f64, f64)>,
    /// What that means.
    pub outcome: Outcome,
}

/// Everything at the gate.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Report {
    /// The comparisons.
    pub checks: Vec<Check>,
    /// The worst of them; undecided if there are none.
    pub outcome: Outcome,
}

impl Gate {
    /// The confidence of each of `n` intervals, so that all of them hold together with the gate's (C. Bonferroni).
    #[must_use]
    pub fn confidence_each(&self, n: usize) -> f64 {
        1.0 - (1.0 - self.confidence) / n.max(1) as f64
    }

    /// Judges intervals that have [`Gate::confidence_each`] of their number.
    pub fn judge(
        &self,
        intervals: impl IntoIterator<Item = (String, Option<(f64, f64)>)>,
    ) -> Report {
        let check = |(what, interval): (String, Option<(f64, f64)>)| {
            let outcome = match interval {
                Some((_, high)) if high <= self.limit => Outcome::Passed,
                Some((low, _)) if low > self.limit => Outcome::Failed,
                _ => Outcome::Undecided,
            };
            Check { what, interval, outcome }
        };
        let checks: Vec<Check> = intervals.into_iter().map(check).collect();
        let outcome = checks.iter().map(|check| check.outcome).max().unwrap_or(Outcome::Undecided);
        Report { checks, outcome }
    }

    /// Judges comparisons of one result set. Choose them before: which are asked about decides the confidence of each.
    #[must_use]
    pub fn paired(&self, contrasts: &[&ContrastSummary]) -> Report {
        let each = self.confidence_each(contrasts.len());
        self.judge(contrasts.iter().map(|found| {
            let what = format!("{} / {}", found.contrast.cell, found.contrast.base);
            (what, found.estimate.interval(each))
        }))
    }
}
