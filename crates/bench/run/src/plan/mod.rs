//! What is to be measured: a TOML file, checked against a schema before anything runs.
//!
//! ```toml
//! name = "mine"
//! seed = 7
//!
//! [machine]
//! cpus = 1
//! memory_mib = 1024
//!
//! [[matrix]]
//! platforms = ["native", "tcg"]
//! tracers = ["none", "transect-compact"]
//! workloads = ["micro/pipe", "compress"]
//! ```
//! A file may have several matrices; a cell that several of them name is measured once.

mod cell;
mod check;
mod estimate;

pub use cell::{Cell, Group};
pub use check::{Planned, RefusedCell};
pub use estimate::Estimated;
pub use transect_bench_stats::design::Label;

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use transect_bench_core::{CacheState, Fault, Kind, Refusal, protocol::Param, toml};
use transect_bench_platforms::Shape;

/// Plans that are part of the program: name and text.
pub const BUILT_IN: &[(&str, &str)] = &[
    ("quick", include_str!("../../../../../plans/quick.toml")),
    ("full", include_str!("../../../../../plans/full.toml")),
    ("published", include_str!("../../../../../plans/published.toml")),
    ("published-guests", include_str!("../../../../../plans/published-guests.toml")),
    ("published-network", include_str!("../../../../../plans/published-network.toml")),
    ("published-tar", include_str!("../../../../../plans/published-tar.toml")),
    ("published-xen", include_str!("../../../../../plans/published-xen.toml")),
];

/// Parameters of one workload, tracer or platform, by their names.
pub type Params = BTreeMap<String, Param>;

/// A plan as it is written.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Plan {
    /// Its name, for titles.
    pub name: String,
    /// What it is for, a sentence.
    #[serde(default)]
    pub about: String,
    /// Seed of every order and of every workload's own randomness.
    pub seed: u64,
    /// What every machine is like.
    #[serde(default)]
    pub machine: MachinePlan,
    /// How it is measured.
    #[serde(default)]
    pub procedure: ProcedurePlan,
    /// What others are compared with.
    #[serde(default)]
    pub reference: Reference,
    /// What is crossed with what.
    pub matrix: Vec<Matrix>,
    /// Parameters by workload, where they are not its defaults.
    #[serde(default)]
    pub workloads: BTreeMap<String, Params>,
    /// Parameters by tracer arm.
    #[serde(default)]
    pub tracers: BTreeMap<String, Params>,
    /// Parameters by platform.
    #[serde(default)]
    pub platforms: BTreeMap<String, Params>,
}

/// What every machine is like, whatever platform it is on.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct MachinePlan {
    /// CPUs.
    pub cpus: u32,
    /// Memory, MiB.
    pub memory_mib: u32,
    /// Its own disk or folder, MiB.
    pub disk_mib: u32,
    /// CPUs of the host that machines are pinned to; empty: all.
    pub pin: Vec<u32>,
    /// The boot loader's entry that this host must have been booted by, for platforms that do not name another one.
    pub boot: Option<String>,
}

impl Default for MachinePlan {
    fn default() -> Self {
        Self { cpus: 1, memory_mib: 1024, disk_mib: 1024, pin: Vec::new(), boot: None }
    }
}

/// How it is measured.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ProcedurePlan {
    /// Blocks at which it is looked whether the intervals are narrow enough; after the last one it ends. A single
    /// number is a fixed number of blocks.
    pub looks: Vec<u32>,
    /// Half-width of an interval, relative, at which a workload is done; by default its family's.
    pub precision: Option<f64>,
    /// After this long no further block begins. Seconds; absent: no limit.
    pub budget_s: Option<u64>,
    /// After this long a run is ended and has failed. Seconds.
    pub limit_s: u64,
    /// How often a run is tried that failed for a cause outside of it (a machine that died).
    pub tries: u32,
    /// Milliseconds between two samples for the limiter.
    pub sample_every_ms: u64,
    /// Share of a machine's CPU time that may be stolen from it in a run; a run of which more was does not count.
    /// Absent: however much.
    pub stolen_at_most: Option<f64>,
}

impl Default for ProcedurePlan {
    fn default() -> Self {
        Self {
            looks: vec![10, 14, 20, 28, 40],
            precision: None,
            budget_s: None,
            limit_s: 120,
            tries: 2,
            sample_every_ms: 50,
            stolen_at_most: None,
        }
    }
}

/// What others are compared with.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Reference {
    /// The platform others are compared with. Where a workload is not on it: no comparison of platforms.
    pub platform: String,
    /// The tracer arm others are compared with, on each platform.
    pub tracer: String,
}

impl Default for Reference {
    fn default() -> Self {
        Self { platform: "native".to_owned(), tracer: "none".to_owned() }
    }
}

/// What is crossed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Matrix {
    /// Platforms by name.
    pub platforms: Vec<String>,
    /// Tracer arms by name.
    #[serde(default = "nobody")]
    pub tracers: Vec<String>,
    /// Cache states; absent: of each workload the one it has by itself.
    #[serde(default)]
    pub caches: Vec<CacheState>,
    /// Workloads by name; `micro/*` is all of that folder.
    pub workloads: Vec<String>,
    /// How many machines run it together.
    #[serde(default = "one")]
    pub guests: Vec<u32>,
}

fn nobody() -> Vec<String> {
    vec!["none".to_owned()]
}

fn one() -> Vec<u32> {
    vec![1]
}

impl Plan {
    /// Reads a plan. Errors name the line and what was expected there.
    pub fn parse(text: &str, name: &str) -> Result<Self, Fault> {
        toml::from_str(text)
            .map_err(|why| Refusal::new(Kind::Plan, format!("plan {name}"), why).into())
    }

    /// What machine number `index` of a cell is to be like.
    #[must_use]
    pub fn shape(&self, platform: &str, index: u32) -> Shape {
        Shape {
            index,
            memory_mib: self.machine.memory_mib,
            cpus: self.machine.cpus,
            pin: self.machine.pin.clone(),
            disk_mib: self.machine.disk_mib,
            params: self.platforms.get(platform).cloned().unwrap_or_default(),
        }
    }

    /// The boot loader's entry that a platform needs this host to be booted by; `None`: any.
    #[must_use]
    pub fn boot_of(&self, platform: &str) -> Option<String> {
        match self.platforms.get(platform).and_then(|params| params.get("boot")) {
            Some(Param::Text(entry)) => Some(entry.clone()),
            _ => self.machine.boot.clone(),
        }
    }

    /// The most blocks there can be.
    #[must_use]
    pub fn most_blocks(&self) -> u32 {
        self.procedure.looks.last().copied().unwrap_or(0)
    }
}
