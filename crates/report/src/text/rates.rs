//! Quotients.

use super::{Page, dash};
use crate::facts::TimeUnit;

impl Page<'_> {
    /// A number per second; a dash where the length of a second is unknown.
    pub(super) fn per_second(&self, count: u64, dur: i64) -> String {
        match self.report.facts.unit {
            TimeUnit::Ns => ratio(count as f64 * 1e9, dur as f64),
            TimeUnit::Ticks => dash(),
        }
    }
}

/// A quotient for people; a dash where there is none.
pub(super) fn ratio(part: f64, of: f64) -> String {
    if of > 0.0 { format!("{:.1}", part / of) } else { dash() }
}
