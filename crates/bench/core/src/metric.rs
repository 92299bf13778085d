//! A measured quantity.

use serde::{Deserialize, Serialize};

/// What a value counts. Rates and times are never mixed in one metric.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Unit {
    /// Seconds.
    #[serde(rename = "s")]
    Seconds,
    /// Nanoseconds.
    #[serde(rename = "ns")]
    Nanoseconds,
    /// Operations, requests, transactions a second.
    #[serde(rename = "1/s")]
    PerSecond,
    /// Bytes a second.
    #[serde(rename = "B/s")]
    BytesPerSecond,
    /// Bytes.
    #[serde(rename = "B")]
    Bytes,
    /// A number of things.
    #[serde(rename = "1")]
    Count,
    /// A share of something, 0 to 1.
    #[serde(rename = "share")]
    Share,
}

/// Which way is good.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Better {
    /// Times, costs.
    Less,
    /// Rates.
    More,
}

/// One quantity of one run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Metric {
    /// Its name within the workload: `time`, `throughput`, `latency_p99`. Lower case, no unit.
    pub name: String,
    /// What it counts.
    pub unit: Unit,
    /// Which way is good.
    pub better: Better,
    /// The value, finite.
    pub value: f64,
    /// How single operations were distributed, where they were measured one by one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub distribution: Option<Distribution>,
}

impl Metric {
    /// A metric without a distribution.
    pub fn new(name: impl Into<String>, unit: Unit, better: Better, value: f64) -> Self {
        Self { name: name.into(), unit, better, value, distribution: None }
    }

    /// A duration in seconds; less is better.
    pub fn seconds(name: impl Into<String>, value: f64) -> Self {
        Self::new(name, Unit::Seconds, Better::Less, value)
    }

    /// A duration in nanoseconds; less is better.
    pub fn nanoseconds(name: impl Into<String>, value: f64) -> Self {
        Self::new(name, Unit::Nanoseconds, Better::Less, value)
    }

    /// A rate; more is better.
    pub fn per_second(name: impl Into<String>, value: f64) -> Self {
        Self::new(name, Unit::PerSecond, Better::More, value)
    }

    /// Bytes a second; more is better.
    pub fn bytes_per_second(name: impl Into<String>, value: f64) -> Self {
        Self::new(name, Unit::BytesPerSecond, Better::More, value)
    }

    /// Adds how single operations were distributed.
    #[must_use]
    pub fn with(mut self, distribution: Distribution) -> Self {
        self.distribution = Some(distribution);
        self
    }
}

/// How single operations of a run were distributed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Distribution {
    /// Operations measured.
    pub samples: u64,
    /// Those that got no answer, or too late to be counted in: they are worse than every quantile.
    pub failed: u64,
    /// The smallest, in the metric's unit.
    pub min: f64,
    /// The arithmetic mean.
    pub mean: f64,
    /// The largest.
    pub max: f64,
    /// Pairs of quantile (0 to 1) and value, ascending. They are of all operations, failed ones counted as the worst;
    /// those that fall on a failed one or have fewer than ten operations beyond them are left out.
    pub quantiles: Vec<(f64, f64)>,
}
