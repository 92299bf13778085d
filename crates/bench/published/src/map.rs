//! What of ours speaks to which row of a paper: the file `map.toml` beside its numbers.
//!
//! ```toml
//! [reasons]
//! absolute = "seconds of another machine"
//!
//! [bare]                                  # a platform and the machines without it, best first
//! xen-dom0 = ["tcg", "native"]
//!
//! [workloads."dbench"]                    # the paper's word and our workload, with the cache state of each of its words
//! name = "dbench"
//! [platforms]                             # the paper's word and our platforms, first one measured speaks
//! "xen-dom0" = ["xen-dom0"]
//! [states]                                # the paper's word and our tracer arms, first one measured speaks
//! "flight-recorder" = ["transect-flight", "ftrace-flight"]
//!
//! [[entry]]                               # which rows: each field a list, absent: any
//! tables = ["Table 6"]
//! theirs = "of-base"                      # how to read the number
//! base = { platform = "native", state = "not-compiled" }
//! relation = "ratio"                      # what is claimed; or: why = "absolute"
//! against = "both"                        # which of our comparisons
//! ```

use super::source::Source;
use serde::Deserialize;
use std::collections::BTreeMap;
use transect_bench_core::{CacheState, Fault, toml};
use transect_bench_run::plan::Params;

/// A map as it is written.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Map {
    /// Who, what, where, when: a line.
    pub citation: String,
    /// Reasons by name.
    #[serde(default)]
    pub reasons: BTreeMap<String, String>,
    /// Platforms and the machines that they are put on, by our names; the first that was measured is taken.
    #[serde(default)]
    pub bare: BTreeMap<String, Vec<String>>,
    /// Workloads by the paper's name.
    #[serde(default)]
    pub workloads: BTreeMap<String, Work>,
    /// Our platforms by the paper's name.
    #[serde(default)]
    pub platforms: BTreeMap<String, Vec<String>>,
    /// Our tracer arms by the paper's name.
    #[serde(default)]
    pub states: BTreeMap<String, Vec<String>>,
    /// What is done with which rows.
    pub entry: Vec<Entry>,
}

/// A workload of ours.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Work {
    /// Its name.
    pub name: String,
    /// Cache state where the paper says hot.
    #[serde(default)]
    pub hot: CacheState,
    /// Cache state where the paper says cold.
    #[serde(default)]
    pub cold: CacheState,
    /// Cache state where the paper says nothing.
    #[serde(default)]
    pub any: CacheState,
    /// Parameters that it must have been measured with.
    #[serde(default)]
    pub params: Params,
}

/// Rows, and what is done with them.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Entry {
    /// Rows of these tables.
    pub tables: Option<Vec<String>>,
    /// Rows of these workloads, in the paper's words.
    pub workloads: Option<Vec<String>>,
    /// Rows with these parameters.
    pub params: Option<Vec<String>>,
    /// Rows of these metrics.
    pub metrics: Option<Vec<String>>,
    /// Rows with these cache states.
    pub caches: Option<Vec<String>>,
    /// Rows of these platforms, in the paper's words.
    pub platforms: Option<Vec<String>>,
    /// Rows of these tracer states, in the paper's words.
    pub states: Option<Vec<String>>,

    /// Why nothing speaks to them: a name from `[reasons]`.
    pub why: Option<String>,
    /// What must be known beside.
    pub note: String,

    /// How the number is made a cost ratio.
    pub theirs: Option<Reading>,
    /// Which row of the paper it is relative to: the fields in which that row differs.
    pub base: Option<Base>,
    /// Error of their ratio where the paper prints no standard deviation, percent.
    pub noise_percent: Option<f64>,

    /// What is claimed.
    pub relation: Option<Relation>,
    /// Which comparison of ours.
    pub against: Option<Against>,
    /// Our workloads in place of the paper's word; of several all are asked.
    pub work: Vec<String>,
    /// The cache state of `work`, or where the row does not tell it.
    pub cache: CacheState,
    /// Our platforms in place of the paper's word.
    pub on: Vec<String>,
    /// Our tracer arms in place of the paper's word.
    pub under: Vec<String>,
    /// Machines at once, and how many they are compared with; the first pair that was measured is taken.
    pub guests: Vec<[u32; 2]>,
    /// Of the relation `falls-more`: on which platform it falls less.
    pub than_on: Vec<String>,
    /// Of the relation `limiter`: names of suspects, one of which it is to be.
    pub limiters: Vec<String>,
}

/// The fields in which a base row differs from the row that is relative to it.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Base {
    /// Its table.
    pub table: Option<String>,
    /// Its metric.
    pub metric: Option<String>,
    /// Its platform.
    pub platform: Option<String>,
    /// Its tracer state.
    pub state: Option<String>,
    /// Its parameters.
    pub params: Option<String>,
}

/// How a number is made a cost ratio.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Reading {
    /// It and the base row's are times or rates.
    OfBase,
    /// It is `100·(2 − value/base)` of times. With a base row: that one's ratio is divided out.
    TwoMinusPercent,
    /// It is `100·value/base` of rates. With a base row: that one's ratio is divided out.
    SpeedPercent,
    /// It is `100·(value/base − 1)`.
    SlowdownPercent,
    /// It is the ratio.
    CostFactor,
    /// It is a cost per event; what nobody's costs is taken off it and off the base row's (relation `added`).
    AddedToNobody,
    /// It and the base row's are sizes (relation `size`).
    SizeOfBase,
}

/// What is claimed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Relation {
    /// The cost ratio.
    Ratio,
    /// It costs at most so many percent.
    AtMost,
    /// It costs at least so many percent.
    AtLeast,
    /// What an arm adds, over what another one adds.
    Added,
    /// The standard deviation is so many percent.
    Spread,
    /// Most standard deviations are below so many percent.
    MostSpreads,
    /// With more machines it falls more than elsewhere.
    FallsMore,
    /// What held it back.
    Limiter,
    /// The size of the trace, over another one's.
    Size,
}

/// Which comparison of ours.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Against {
    /// Nobody on the same platform.
    Tracer,
    /// The same arm on the machine below.
    Platform,
    /// Nobody on the machine below.
    Both,
    /// Another number of machines.
    Guests,
}

impl Map {
    /// Reads a map. Errors name the line.
    pub(super) fn parse(text: &str, paper: &str) -> Result<Self, Fault> {
        toml::from_str(text).map_err(|why| Fault::failed(format!("{paper}/map.toml: {why}")))
    }

    /// The one entry of a row.
    pub(super) fn entry(&self, row: &Source) -> Result<&Entry, Fault> {
        let found: Vec<&Entry> = self.entry.iter().filter(|entry| entry.is_about(row)).collect();
        match found[..] {
            [entry] => Ok(entry),
            _ => Err(Fault::failed(format!(
                "map.toml: {} entries instead of one match {}: {}",
                found.len(),
                row.table,
                row.label()
            ))),
        }
    }
}

impl Entry {
    fn is_about(&self, row: &Source) -> bool {
        let fields = [
            (&self.tables, &row.table),
            (&self.workloads, &row.workload),
            (&self.params, &row.params),
            (&self.metrics, &row.metric),
            (&self.caches, &row.cache),
            (&self.platforms, &row.platform),
            (&self.states, &row.state),
        ];
        fields.iter().all(|(wanted, is)| wanted.as_ref().is_none_or(|list| list.contains(is)))
    }
}
