//! The words for what came out.

use super::estimate::Estimate;
use serde::{Deserialize, Serialize};
use std::fmt;

/// What may be said of a difference.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// It costs more than its base.
    Slower,
    /// It costs less.
    Faster,
    /// Nothing may be said. That is not "no difference": the interval says how large one could be.
    NotResolved(Unresolved),
    /// There are too few blocks for an interval; or it does not hold 1, but of so few blocks no answer at all would be a
    /// surprise among as many questions as the family asks.
    TooFew,
}

/// Why nothing may be said.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Unresolved {
    /// The interval holds 1.
    Interval,
    /// Among as many questions as the family asks, one such answer is no surprise.
    Family,
    /// It is no larger than what the machine makes of nothing at all.
    Floor,
    /// What the machine makes of nothing is not known: there is no A/A, or too little of it.
    NoFloor,
}

impl fmt::Display for Verdict {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            Self::Slower => "slower",
            Self::Faster => "faster",
            Self::NotResolved(Unresolved::Interval) => "not resolved",
            Self::NotResolved(Unresolved::Family) => "not resolved (one of many)",
            Self::NotResolved(Unresolved::Floor) => "not resolved (below floor)",
            Self::NotResolved(Unresolved::NoFloor) => "not resolved (no floor)",
            Self::TooFew => "too few blocks",
        })
    }
}

/// The largest effect that the same thing run twice could have, as a ratio above 1.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Floor {
    /// An effect of at most this, either way, is not resolved.
    pub ratio: f64,
    /// Did the A/A interval hold 1, as it should 19 times in 20? If not, the two labels were not treated alike or the
    /// machine is restless.
    pub is_quiet: bool,
}

impl Floor {
    /// The floor that an A/A estimate shows: the end of its interval that is farther from 1.
    #[must_use]
    pub fn of(again: &Estimate) -> Option<Self> {
        let (low, high) = (again.low?, again.high?);
        Some(Self { ratio: high.max(1.0 / low), is_quiet: low <= 1.0 && high >= 1.0 })
    }

    /// The floor of a comparison across two groups: the higher one.
    #[must_use]
    pub fn or(self, other: Self) -> Self {
        Self { ratio: self.ratio.max(other.ratio), is_quiet: self.is_quiet && other.is_quiet }
    }
}

/// How much of a surprise an answer is.
#[derive(Clone, Copy, Debug)]
pub(super) struct Surprise {
    /// Its probability, adjusted by Holm's correction if it is one of many.
    pub(super) adjusted: Option<f64>,
    /// The smallest one that so few values could have, were all of the family's questions answered as clearly.
    pub(super) least: f64,
    /// At most this is a surprise.
    pub(super) level: f64,
}

/// What may be said of a ratio with its interval, probability and floor.
pub(super) fn judge(
    ratio: Option<f64>,
    interval: Option<(f64, f64)>,
    surprise: Surprise,
    floor: Option<Floor>,
) -> Verdict {
    let (Some(ratio), Some((low, high))) = (ratio, interval) else { return Verdict::TooFew };
    if low <= 1.0 && high >= 1.0 {
        return Verdict::NotResolved(Unresolved::Interval);
    }
    if surprise.adjusted.is_none_or(|p| p > surprise.level) {
        return match surprise.least > surprise.level {
            true => Verdict::TooFew,
            false => Verdict::NotResolved(Unresolved::Family),
        };
    }
    match floor {
        None => Verdict::NotResolved(Unresolved::NoFloor),
        Some(floor) if ratio.max(1.0 / ratio) <= floor.ratio => {
            Verdict::NotResolved(Unresolved::Floor)
        }
        Some(_) if ratio > 1.0 => Verdict::Slower,
        Some(_) => Verdict::Faster,
    }
}
