//! The machine itself: a small fixed piece of work, run again and again between the cells.
//!
//! It says whether the machine drifted, which the blocks cancel but people should know, and whether it was still
//! warming up, which is the one thing that takes values away. Both look at the sentinel only, never at a cell.

use super::{ledger::Ledger, warm_up::warm_up};
use crate::statistics::{changepoint::Head, quantile, trend::trend};
use serde::{Deserialize, Serialize};

/// What the sentinels say.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SentinelSummary {
    /// How many there are.
    pub n: usize,
    /// Their median, in their unit.
    pub median: f64,
    /// The slowest over the fastest.
    pub range: f64,
    /// The median distance from the median, as a share of it.
    pub spread: f64,
    /// By which factor it changed from the first to the last if it went on as it mostly did (Theil–Sen).
    pub drift: Option<f64>,
    /// Probability of such an order without a trend (Kendall).
    pub drift_p: Option<f64>,
    /// Warm-up, if there was any.
    pub warm_up: Option<Head>,
}

impl SentinelSummary {
    /// Of all sentinels of a ledger; `None` if there are none.
    #[must_use]
    pub fn of(ledger: &Ledger) -> Option<Self> {
        let values: Vec<f64> = ledger.sentinels().map(|(_, value)| value).collect();
        let logs: Vec<f64> = values.iter().map(|value| value.ln()).collect();
        let median = quantile::median(&values)?;
        let trend = trend(&logs);
        Some(Self {
            n: values.len(),
            median,
            range: quantile::quantile(&values, 1.0)? / quantile::quantile(&values, 0.0)?,
            spread: quantile::mad(&values)? / median,
            drift: trend.map(|trend| (trend.slope * (values.len() - 1) as f64).exp()),
            drift_p: trend.map(|trend| trend.p),
            warm_up: warm_up(&values),
        })
    }
}
