//! What held a run: the kinds there are, those that rules suspect, and the one that is named.

use serde::{Deserialize, Serialize};

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
    pub(crate) fn of(held: f64, samples: u64) -> Self {
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
