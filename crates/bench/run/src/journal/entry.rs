//! The lines of a journal.

use crate::plan::{Cell, Label, RefusedCell};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use transect_bench_core::{
    Fault, Lever, Metric, Refusal, RunResult,
    protocol::{Role, WorkerFacts},
};
use transect_bench_limiter::perturb::Elasticity;
use transect_bench_platforms::Facts;
use transect_bench_stats::design::Exclusion;

/// A line.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "entry", rename_all = "snake_case")]
pub enum Entry {
    /// The first line.
    Begun {
        /// Version of this format.
        format: u32,
        /// SHA-256 of `plan.toml`, hex.
        plan_sha256: String,
        /// The program's version.
        version: String,
        /// Wall clock, ns since 1970.
        unix_ns: u64,
        /// What this machine refuses of the plan.
        refused: Vec<RefusedCell>,
    },
    /// It goes on.
    Resumed {
        /// Wall clock, ns since 1970.
        unix_ns: u64,
        /// A line was torn and cut off.
        was_torn: bool,
        /// The run that was under way, and has no result.
        interrupted: Option<RunKey>,
    },
    /// A machine is there.
    Opened(Opened),
    /// This host is about to be rebooted by an entry of its boot loader.
    Rebooting {
        /// The entry.
        boot: String,
        /// `/proc/sys/kernel/random/boot_id` before.
        boot_id: String,
    },
    /// It was.
    Booted {
        /// The entry.
        boot: String,
        /// `/proc/sys/kernel/random/boot_id` since.
        boot_id: String,
        /// What runs since: see [`crate::procedure::Boots::running`]. Older programs did not look.
        #[serde(default)]
        running: String,
    },
    /// The same small piece of work on this host, before and after every block: how fast is it now?
    Sentinel {
        /// The block.
        block: u32,
        /// Seconds; the median of several.
        took_s: f64,
    },
    /// A run begins.
    Started(Started),
    /// A run has ended.
    Ended(Box<Ended>),
    /// Nothing more is measured of a workload.
    Stopped(Stop),
    /// It was seen whether a suspect is the limiter.
    Confirmed(Box<Confirmation>),
    /// Everything is done.
    Finished {
        /// Wall clock, ns since 1970.
        unix_ns: u64,
        /// Why it ended, for people.
        why: String,
    },
}

/// The version of the journal's format.
pub const FORMAT: u32 = 1;

/// Which run: what, where in the order, and which of two references.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct RunKey {
    /// Block, from 0.
    pub block: u32,
    /// What.
    #[serde(flatten)]
    pub cell: Cell,
    /// Which of the two references.
    #[serde(default)]
    pub label: Label,
}

/// A machine is there.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Opened {
    /// The block that it was opened for.
    pub block: u32,
    /// Its platform.
    pub platform: String,
    /// Which of several, from 0.
    pub index: u32,
    /// From the beginning of opening to the worker's first word, ns.
    pub took_ns: u64,
    /// What the platform says of it.
    pub facts: Facts,
    /// What the worker says of it.
    pub worker: WorkerFacts,
}

/// A run begins.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Started {
    /// Unique: block, place in the order, try.
    pub id: String,
    /// Which.
    #[serde(flatten)]
    pub key: RunKey,
    /// The how-many-th time it is tried, from 1.
    pub attempt: u32,
    /// Wall clock, ns since 1970.
    pub unix_ns: u64,
}

/// A run has ended.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Ended {
    /// As it began.
    pub id: String,
    /// Which.
    #[serde(flatten)]
    pub key: RunKey,
    /// What came of it.
    pub outcome: Outcome,
}

/// What came of a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// It was measured.
    Measured(CellResult),
    /// There is no result: with the cause. After the last try it stays so.
    Faulted {
        /// Why.
        fault: Fault,
        /// No further try.
        is_final: bool,
    },
}

/// Everything measured of a cell in one run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct CellResult {
    /// The cell's, put together from its parts; the first is the primary one.
    pub metrics: Vec<Metric>,
    /// What each part measured, as it was.
    pub parts: Vec<PartResult>,
    /// What held it back, as suspected.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limiter: Option<transect_bench_limiter::Limiter>,
    /// Why it must not be counted in, if so: a recorded cause, never the value itself.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub excluded: Vec<Exclusion>,
    /// Anything else that people should know.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub notes: BTreeMap<String, String>,
}

impl CellResult {
    /// Events that the tracer arm lost, over all machines.
    #[must_use]
    pub fn lost_events(&self) -> u64 {
        let tracers = self.parts.iter().filter_map(|part| part.result.tracer.as_ref());
        tracers.filter_map(|tracer| tracer.lost_events).sum()
    }
}

/// What one part of a cell measured.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PartResult {
    /// Where: the platform's name, or `host`.
    pub place: String,
    /// Which of several machines, from 0.
    pub index: u32,
    /// Which part.
    pub role: Role,
    /// What it measured.
    pub result: RunResult,
}

/// Whether a suspect is the limiter.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Confirmation {
    /// Of which cell.
    #[serde(flatten)]
    pub cell: Cell,
    /// What was halved.
    pub lever: Option<Lever>,
    /// How far the result followed.
    pub elasticity: Option<Elasticity>,
    /// Why nothing was halved.
    pub refused: Option<Refusal>,
}

/// Nothing more is measured of a workload.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Stop {
    /// Of which.
    pub workload: String,
    /// After so many blocks.
    pub blocks: u32,
    /// Are its intervals as narrow as wanted?
    pub is_precise: bool,
}
