//! What held a run back: the *suspected limiter* of every result.
//!
//! # What
//! Gregg printed a "suspected limiter" beside each of his numbers, since a number without one says nothing of what was
//! tested (seed 004, *Network Throughput Results*). [`suspect`] names it by rules from [`Samples`]; [`perturb`] says how
//! to confirm it: halve the suspect, and see whether the result follows.
//!
//! # Data flow
//! ```text
//! Samples of machine, host, generator + RunFacts ─▶ every rule ─▶ suspects ─▶ causes before symptoms ─▶ Limiter
//! ```
//!
//! # Design constraints
//! - All rules speak of one quantity, [`Suspect::held`]: the share of the measured time for which the run was held by the
//!   resource. So they can be ranked.
//! - A rule that fires says with which figures. One that cannot see says so in [`Limiter::blind`].
//! - When no rule fires the answer is [`LimiterKind::Unknown`], with what was looked at. There is no guess.
//! - Pure: no I/O but in [`perturb`].

pub mod perturb;
mod rank;
mod rules;
pub mod sampling;
#[cfg(test)]
mod tests;
mod view;

pub use rules::{RULES, Rule};

use serde::{Deserialize, Serialize};
use transect_bench_core::{
    protocol::{Exits, TracerCost},
    samples::Samples,
};

/// What held it.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize,
)]
#[serde(rename_all = "snake_case")]
pub enum LimiterKind {
    /// One thread, or one after the other, had a CPU all the time: more CPUs would not help.
    SingleThread,
    /// All CPUs it may use were its own.
    AllCpus,
    /// A control group's CPU quota.
    CpuQuota,
    /// The hypervisor did not run its vCPUs.
    Steal,
    /// It waited for a CPU that somebody else had.
    RunQueue,
    /// A disk was busy with large or many requests.
    DiskBandwidth,
    /// It waited for a disk, request by request.
    DiskLatency,
    /// A control group's I/O limit.
    IoThrottled,
    /// Reclaim and refaults: memory was too small.
    Memory,
    /// Swapping.
    Swap,
    /// A network interface was at its speed.
    NicBandwidth,
    /// CPU time per packet.
    PacketRate,
    /// A listen queue was full.
    ListenQueue,
    /// Packets were lost.
    PacketLoss,
    /// A lock between its threads.
    Lock,
    /// Nothing was busy: it waited for time, a peer or a device's answer.
    Latency,
    /// The load generator.
    Generator,
    /// Exits of the guest and what the host does for them.
    ExitHandling,
    /// The emulator that executes the guest's instructions.
    Emulator,
    /// What reads the tracer's buffers.
    TracerConsumer,
    /// No rule fired.
    #[default]
    Unknown,
}

impl LimiterKind {
    /// In words, for a table's column.
    #[must_use]
    pub fn words(self) -> &'static str {
        match self {
            Self::SingleThread => "CPU, one thread",
            Self::AllCpus => "CPU, all",
            Self::CpuQuota => "CPU quota",
            Self::Steal => "steal",
            Self::RunQueue => "run queue",
            Self::DiskBandwidth => "disk bandwidth",
            Self::DiskLatency => "disk latency",
            Self::IoThrottled => "I/O limit",
            Self::Memory => "memory",
            Self::Swap => "swap",
            Self::NicBandwidth => "network bandwidth",
            Self::PacketRate => "packet rate",
            Self::ListenQueue => "listen queue",
            Self::PacketLoss => "packet loss",
            Self::Lock => "lock",
            Self::Latency => "latency",
            Self::Generator => "load generator",
            Self::ExitHandling => "exit handling",
            Self::Emulator => "emulator",
            Self::TracerConsumer => "tracer's consumer",
            Self::Unknown => "unknown",
        }
    }
}

/// On which machine it was seen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Place {
    /// Where the workload ran.
    #[default]
    Machine,
    /// The host below it.
    Host,
    /// Where the load came from.
    Generator,
}

/// How much one should believe it before it is confirmed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Confidence {
    /// It held less than half of the time, or was seen in too few samples.
    #[default]
    Weak,
    /// At least half of the time.
    Likely,
    /// At least 85 % of the time.
    Strong,
}

impl Confidence {
    /// Of a share of time, and the samples that saw it: below five, one step less.
    fn of(held: f64, samples: u64) -> Self {
        match (held, samples >= 5) {
            (0.85.., true) => Self::Strong,
            (0.85.., false) | (0.5.., true) => Self::Likely,
            _ => Self::Weak,
        }
    }
}

/// One that a rule suspects.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Suspect {
    /// What.
    pub kind: LimiterKind,
    /// Where.
    pub place: Place,
    /// Share of the measured time for which it held the run, 0 to 1.
    pub held: f64,
    /// How sure.
    pub confidence: Confidence,
    /// With which figures: "disk vda busy 97 % of the time, queue 31".
    pub evidence: String,
}

/// The suspected limiter of a run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Limiter {
    /// What.
    pub kind: LimiterKind,
    /// Where.
    pub place: Place,
    /// Share of the measured time for which it held the run, 0 to 1; 0 if unknown.
    pub held: f64,
    /// How sure.
    pub confidence: Confidence,
    /// With which figures; if unknown: what was looked at and found idle.
    pub evidence: String,
    /// The others that rules suspected, the next first: symptoms of the first one are among them.
    pub runners_up: Vec<Suspect>,
    /// What could not be seen, and why.
    pub blind: Vec<String>,
}

impl Limiter {
    /// In words, and where, if that is not the machine itself.
    #[must_use]
    pub fn name(&self) -> String {
        match self.place {
            Place::Machine => self.kind.words().to_owned(),
            Place::Host => format!("host: {}", self.kind.words()),
            Place::Generator => format!("generator: {}", self.kind.words()),
        }
    }

    /// What a [`Limiter::name`] names, wherever that is.
    #[must_use]
    pub fn kind_of_name(name: &str) -> &str {
        name.split_once(": ").map_or(name, |(_, kind)| kind)
    }
}

/// What is known of a run besides samples. Everything optional: `default()` is a native run without tracer.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RunFacts {
    /// `Facts::accelerator` of the platform.
    pub accelerator: String,
    /// What the tracer arm did and cost.
    pub tracer: Option<TracerCost>,
    /// Exits of the guest, from transect's own tables: where an arm of it recorded its host.
    pub exits: Option<Exits>,
    /// What an open-loop generator was to send, and did.
    pub offered: Option<Offered>,
}

impl RunFacts {
    /// Is the machine a container: threads of the host's own kernel, and no vCPUs?
    fn shares_kernel(&self) -> bool {
        matches!(self.accelerator.as_str(), "crun" | "systemd-nspawn")
    }
}

/// Load of an open-loop generator.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Offered {
    /// Requests a second that were due.
    pub due_per_s: f64,
    /// Requests a second that were sent.
    pub sent_per_s: f64,
    /// Share of requests that left later than they should have, 0 to 1.
    pub late_share: f64,
    /// All of it conformed, and it was the most that was to be tried.
    pub is_most: bool,
}

/// All that is known of a run.
#[derive(Clone, Copy, Debug)]
pub struct Scene<'a> {
    /// Where the workload ran.
    pub machine: &'a Samples,
    /// The host below, with the VMM's threads watched; `None` where the machine is this host.
    pub host: Option<&'a Samples>,
    /// Where the load came from, if somewhere else (or another process).
    pub generator: Option<&'a Samples>,
    /// Besides.
    pub facts: &'a RunFacts,
}

/// Names the suspected limiter.
#[must_use]
pub fn suspect(scene: &Scene<'_>) -> Limiter {
    let suspects = RULES.iter().flat_map(|rule| (rule.check)(scene)).collect();
    let mut limiter = rank::rank(suspects);
    limiter.blind = view::blind(scene);
    if limiter.kind == LimiterKind::Unknown {
        limiter.evidence = view::looked_at(scene);
    }
    limiter
}
