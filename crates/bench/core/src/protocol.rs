//! What the procedure and the worker inside a machine say to each other: JSON lines, one message a line.
//!
//! ```text
//! procedure                         worker
//!                       ◀── Hello    who I am, on what kernel, what this binary is
//! Prepare(job)          ──▶          installs, fills, drops or warms caches, starts the tracer, up to the brink
//!                       ◀── Prepared what is listened on, what the cache proved to be
//! Go                    ──▶          runs the measured part
//!                       ◀── Done     everything that was measured
//! …
//! End                   ──▶          cleans up and exits
//! ```
//! Instead of `Prepared` or `Done` there may be `Faulted`; the worker is then ready for the next `Prepare`. `Cancel`
//! between `Prepare` and `Done` ends a job that waits for nothing (a server whose generator is done): its `Done` follows.
//! Several machines are made to start together by sending `Go` to all when all have said `Prepared`.

use crate::{lever::Lever, metric::Metric, refusal::Fault, samples::Samples};
use serde::{Deserialize, Serialize};
use std::{collections::BTreeMap, fmt};

/// To the worker.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ToWorker {
    /// Make everything ready.
    Prepare(Box<Job>),
    /// Run the measured part.
    Go,
    /// End the measured part of a job that has no end of its own.
    Cancel,
    /// Clean up and exit.
    End,
}

/// From the worker.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FromWorker {
    /// The first message.
    Hello(Box<WorkerFacts>),
    /// Ready for `Go`.
    Prepared {
        /// TCP ports that the job's workload listens on.
        ports: Vec<u16>,
        /// What the caches were when all was ready.
        cache: CacheProof,
    },
    /// The measured part is over.
    Done(Box<RunResult>),
    /// There will be no result of this job.
    Faulted(Fault),
}

/// Who the worker is. The procedure compares machines by it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct WorkerFacts {
    /// Version of this protocol.
    pub protocol: u32,
    /// SHA-256 of the worker's own binary, hex.
    pub binary_sha256: String,
    /// `uname -srvm`.
    pub kernel: String,
    /// CPUs that it may run on.
    pub cpus: Vec<u32>,
    /// `MemTotal`, or the control group's limit where that is less.
    pub memory_bytes: u64,
    /// Clock source, hypervisor, mitigations and whatever else is worth comparing; sorted.
    pub notes: BTreeMap<String, String>,
}

/// The protocol that this binary speaks.
pub const PROTOCOL: u32 = 1;

/// In what state the page cache is when the measured part begins.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize,
)]
#[serde(rename_all = "snake_case")]
pub enum CacheState {
    /// As the preparation left it; for what reads no files.
    #[default]
    Any,
    /// Nothing of the workload's files is in memory, verified by the bytes that are then read.
    Cold,
    /// All of them are, verified.
    Hot,
    /// What LTTng-Xen's paper did: the cache is filled with another file, so that the workload's are displaced.
    Displaced,
}

impl CacheState {
    /// As plans and tables write it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Any => "any",
            Self::Cold => "cold",
            Self::Hot => "hot",
            Self::Displaced => "displaced",
        }
    }
}

/// What the cache was found to be.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct CacheProof {
    /// What was asked for.
    pub asked: CacheState,
    /// Bytes of the workload's files.
    pub file_bytes: u64,
    /// Bytes of them in the page cache before the measured part; `None` where it cannot be known (9p without cache).
    pub resident_before_bytes: Option<u64>,
    /// Bytes read from block devices by this machine, whoever asked for them, while it ran; `None` where no block device
    /// is below. What the workload's own processes read stands in `why`.
    pub read_bytes: Option<u64>,
    /// Does all that agree with what was asked for? `None` for [`CacheState::Any`].
    pub verified: Option<bool>,
    /// Why (not), for people.
    pub why: String,
}

/// One run of one workload on one machine.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Job {
    /// Unique within the results: `b003-07`.
    pub id: String,
    /// The workload's name in the registry: `micro/pipe`.
    pub workload: String,
    /// Which part of it: the workload's only one, or a server or generator of a distributed one.
    #[serde(default)]
    pub role: Role,
    /// The workload's parameters as the plan has them, defaults filled in by the workload.
    #[serde(default)]
    pub params: BTreeMap<String, Param>,
    /// Where to find the other side: `host:port` of every server, for a generator.
    #[serde(default)]
    pub peers: Vec<String>,
    /// The state of the page cache.
    #[serde(default)]
    pub cache: CacheState,
    /// The tracer arm's name in the registry, `none` for nobody.
    pub tracer: String,
    /// The tracer's parameters.
    #[serde(default)]
    pub tracer_params: BTreeMap<String, Param>,
    /// Threads of a bystander's host that are the machines: looked at by its sampler.
    #[serde(default)]
    pub watch: Vec<u32>,
    /// CPUs that the workload is pinned to; empty: all.
    #[serde(default)]
    pub cpus: Vec<u32>,
    /// Seed of all that is random in it.
    pub seed: u64,
    /// After this long it is ended and has failed. Seconds.
    pub limit_s: u64,
    /// What of its resources is halved while it runs, to see whether that was the limiter.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lever: Option<Lever>,
    /// Milliseconds between two samples of the sampler; 0: none.
    #[serde(default)]
    pub sample_every_ms: u64,
}

/// A parameter of a workload or tracer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Param {
    /// A whole number.
    Int(i64),
    /// A number.
    Float(f64),
    /// A switch.
    Bool(bool),
    /// A word.
    Text(String),
}

/// As a plan writes it.
impl fmt::Display for Param {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Int(value) => value.fmt(f),
            // With its point: 1.0 is another kind than 1.
            Self::Float(value) => write!(f, "{value:?}"),
            Self::Bool(value) => value.fmt(f),
            Self::Text(value) => write!(f, "{value:?}"),
        }
    }
}

/// Which part of a workload a job is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// There is only one part.
    #[default]
    Whole,
    /// Answers until it is cancelled.
    Server,
    /// Asks servers, and measures.
    Generator,
    /// Runs nothing and waits until it is cancelled: a tracer arm or a sampler on the machine below.
    Bystander,
}

/// Everything measured in one run of a job.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct RunResult {
    /// The job's.
    pub id: String,
    /// Start of the measured part, the machine's `CLOCK_REALTIME`, ns.
    pub started_realtime_ns: u64,
    /// Length of the measured part, the machine's `CLOCK_MONOTONIC`, ns.
    pub took_ns: u64,
    /// The first one is the workload's primary metric. Empty for bystanders; a server has those that only the side that
    /// receives can know ([`crate::crew`] puts them with the generator's).
    pub metrics: Vec<Metric>,
    /// What the tracer arm did and cost; `None` for nobody.
    pub tracer: Option<TracerCost>,
    /// The page cache.
    pub cache: CacheProof,
    /// What the sampler saw while it ran: the limiter's input.
    pub samples: Samples,
    /// Programs that ran, name to SHA-256.
    pub programs: BTreeMap<String, String>,
    /// What people should know, for instance that a server was restarted.
    pub notes: Vec<String>,
}

/// Exits of guests, as transect's tables have them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Exits {
    /// How many.
    pub count: u64,
    /// Time from exit to entry without halts and preemptions, all vCPUs, ns.
    pub handled_ns: u64,
    /// vCPUs.
    pub vcpus: u32,
    /// How long the recording was, ns.
    pub over_ns: u64,
}

/// What a tracer arm recorded and what it cost beside.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct TracerCost {
    /// Events recorded; `None` where the tracer does not tell.
    pub events: Option<u64>,
    /// Bytes written.
    pub bytes: Option<u64>,
    /// Events lost. A lossy run is another arm: it did less than it should have.
    pub lost_events: Option<u64>,
    /// CPU time of the tracer's own processes while it traced, ns.
    pub consumer_cpu_ns: Option<u64>,
    /// Their CPU time after they were told to end, ns: what was left to write, indexes, detaching. The workload has ended before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub closing_cpu_ns: Option<u64>,
    /// Exits of guests of the machine it traced; `None` where it does not tell, or there were none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exits: Option<Exits>,
    /// Its version, as it prints it.
    pub version: String,
}
