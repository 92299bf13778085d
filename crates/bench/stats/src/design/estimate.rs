//! How much more one cell costs than another.

use crate::statistics::{
    Interval, bootstrap, hodges_lehmann,
    signed_rank::{self, Zeros},
};
use serde::{Deserialize, Serialize};

/// Below so many blocks there are points and no interval: no rank statistic reaches 95 % with 5.
pub const MIN_BLOCKS: usize = 6;

/// The ratio of one block.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Point {
    /// The block.
    pub block: u32,
    /// Cost of the cell over cost of its base.
    pub ratio: f64,
}

/// A ratio of costs, with what is known about it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Estimate {
    /// The Hodges–Lehmann estimate of the blocks' log-ratios, as a ratio. `None` without blocks.
    pub ratio: Option<f64>,
    /// Lower end of the interval. `None` below [`MIN_BLOCKS`], or where so few cannot have the confidence.
    pub low: Option<f64>,
    /// Upper end.
    pub high: Option<f64>,
    /// The confidence that was asked for, 0 to 1.
    pub confidence: f64,
    /// The confidence that the interval has: a little more.
    pub achieved: Option<f64>,
    /// Blocks in which both have a value that counts.
    pub n: usize,
    /// Two-sided probability of the signed-rank test that the ratio is 1 (zeros after Pratt). `None` without interval.
    pub p: Option<f64>,
    /// The BCa bootstrap's interval: a cross-check, nothing is decided by it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub check: Option<(f64, f64)>,
    /// Every block's.
    pub points: Vec<Point>,
}

impl Estimate {
    /// Of log-ratios by block.
    #[must_use]
    pub fn paired(log_ratios: &[(u32, f64)], confidence: f64) -> Self {
        let logs: Vec<f64> = log_ratios.iter().map(|(_, log)| *log).collect();
        let interval = interval(&logs, confidence);
        let test = || signed_rank::test(&logs, Zeros::Pratt).map_or(1.0, |test| test.p);
        Self {
            ratio: hodges_lehmann::centre(&logs).map(f64::exp),
            low: interval.map(|interval| interval.low.exp()),
            high: interval.map(|interval| interval.high.exp()),
            confidence,
            achieved: interval.map(|interval| interval.achieved),
            n: logs.len(),
            p: interval.map(|_| test()),
            check: None,
            points: log_ratios
                .iter()
                .map(|(block, log)| Point { block: *block, ratio: log.exp() })
                .collect(),
        }
    }

    /// Adds the bootstrap's interval, from 1,000 samples.
    #[must_use]
    pub fn with_check(mut self, seed: u64) -> Self {
        let logs = self.log_ratios();
        let centre = |values: &[f64]| hodges_lehmann::centre(values).unwrap_or(f64::NAN);
        if logs.len() >= MIN_BLOCKS {
            let drawn = bootstrap::distribution(&logs, centre, 1000, seed);
            let check = bootstrap::bca(&logs, centre, &drawn, self.confidence);
            self.check = check.map(|(low, high)| (low.exp(), high.exp()));
        }
        self
    }

    /// The interval with another confidence, as ratios.
    #[must_use]
    pub fn interval(&self, confidence: f64) -> Option<(f64, f64)> {
        interval(&self.log_ratios(), confidence)
            .map(|interval| (interval.low.exp(), interval.high.exp()))
    }

    /// Half of the interval's width as a share: 0.01 if it reaches from 1 % below its middle to 1 % above.
    #[must_use]
    pub fn half_width(&self) -> Option<f64> {
        Some((self.high? / self.low?).sqrt() - 1.0)
    }

    fn log_ratios(&self) -> Vec<f64> {
        self.points.iter().map(|point| point.ratio.ln()).collect()
    }
}

/// [`Estimate::half_width`] of log-ratios, without all the rest.
pub(super) fn half_width(log_ratios: &[(u32, f64)], confidence: f64) -> Option<f64> {
    let logs: Vec<f64> = log_ratios.iter().map(|(_, log)| *log).collect();
    interval(&logs, confidence).map(|interval| ((interval.high - interval.low) / 2.0).exp() - 1.0)
}

fn interval(logs: &[f64], confidence: f64) -> Option<Interval> {
    signed_rank::interval(logs, confidence).filter(|_| logs.len() >= MIN_BLOCKS)
}
