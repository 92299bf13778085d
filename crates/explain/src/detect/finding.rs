//! What a finding is, and the range in which it is made.

use crate::{
    blame::Party,
    piece::{ThreadId, Why},
};
use transect_model::{
    exit::ExitReason,
    ids::{BlockDevice, CpuId},
};

/// A rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Detector {
    /// It waits for a CPU that others have.
    Starved,
    /// Its quota or cap ends.
    Throttled,
    /// It waits for a CPU while another one is idle.
    Affinity,
    /// Who has a lock waits for a CPU.
    LockHolder,
    /// It is scheduled for each request.
    PingPong,
    /// Exits of one reason take its time.
    ExitStorm,
    /// The host polls in vain while it is halted.
    HaltPoll,
    /// Timers interrupt it all the time.
    TimerStorm,
    /// Other CPUs interrupt it all the time.
    IpiStorm,
    /// The kernel reclaims memory for it.
    Reclaim,
    /// A device takes most of the slowest requests' time.
    SlowDevice,
    /// The back end (VMM or vhost worker) takes long to pick requests or packets up, or to tell of them.
    SlowVmm,
    /// Interrupts wait long for their vCPU.
    Delivery,
    /// The host keeps in its cache what the guest keeps in its own.
    DoubleCache,
    /// Events are lost.
    Lost,
    /// Clocks do not fit.
    Clock,
    /// The host has no part in it.
    HostInnocent,
}

impl Detector {
    /// Every detector.
    pub const ALL: [Detector; 17] = [
        Detector::Starved,
        Detector::Throttled,
        Detector::Affinity,
        Detector::LockHolder,
        Detector::PingPong,
        Detector::ExitStorm,
        Detector::HaltPoll,
        Detector::TimerStorm,
        Detector::IpiStorm,
        Detector::Reclaim,
        Detector::SlowDevice,
        Detector::SlowVmm,
        Detector::Delivery,
        Detector::DoubleCache,
        Detector::Lost,
        Detector::Clock,
        Detector::HostInnocent,
    ];

    /// Its name.
    pub fn as_str(self) -> &'static str {
        match self {
            Detector::Starved => "starved",
            Detector::Throttled => "throttled",
            Detector::Affinity => "affinity",
            Detector::LockHolder => "lock_holder",
            Detector::PingPong => "ping_pong",
            Detector::ExitStorm => "exit_storm",
            Detector::HaltPoll => "halt_poll",
            Detector::TimerStorm => "timer_storm",
            Detector::IpiStorm => "ipi_storm",
            Detector::Reclaim => "reclaim",
            Detector::SlowDevice => "slow_device",
            Detector::SlowVmm => "slow_vmm",
            Detector::Delivery => "delivery",
            Detector::DoubleCache => "double_cache",
            Detector::Lost => "lost",
            Detector::Clock => "clock",
            Detector::HostInnocent => "host_innocent",
        }
    }
}

/// How sure a finding is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Confidence {
    /// The recording shows it.
    Certain,
    /// The recording shows what is most often that.
    Likely,
}

impl Confidence {
    /// The word in tables.
    pub fn as_str(self) -> &'static str {
        match self {
            Confidence::Certain => "certain",
            Confidence::Likely => "likely",
        }
    }
}

/// What goes between a VM and its host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Carries {
    /// Requests to a block device.
    Requests,
    /// Packets of its network cards.
    Packets,
}

/// What a sentence says besides who and how long.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Detail {
    /// Who had the CPU for the largest part, and why.
    Behind {
        /// Who.
        who: Party,
        /// Why; none if it is not known.
        why: Option<Why>,
        /// That part.
        ns: i64,
    },
    /// The CPU that was idle for the largest part.
    Idle {
        /// The CPU.
        cpu: CpuId,
        /// May a waiting thread run there? None if that was not recorded.
        is_allowed: Option<bool>,
    },
    /// Who held the lock, and behind whom that waited.
    Holder {
        /// The thread that had it; none if only the vCPUs are known.
        holder: Option<ThreadId>,
        /// Who had the CPU meanwhile.
        behind: Option<Party>,
    },
    /// What was carried between VM and host, by which thread, and behind whom that thread, or the vCPU, waited.
    BackEnd {
        /// Requests or packets.
        what: Carries,
        /// The thread; none if it is not known, or if a vCPU waited.
        holder: Option<ThreadId>,
        /// Who had the CPU meanwhile.
        behind: Option<Party>,
    },
    /// What most exits are.
    Exit {
        /// The reason.
        reason: ExitReason,
        /// Port, address or number of the most common one.
        detail: Option<u64>,
        /// Its instruction.
        rip: Option<u64>,
    },
    /// The CPU of the machine, and the thread that most of it is about.
    Interrupts {
        /// The CPU.
        cpu: CpuId,
        /// The thread; none if that is not known.
        thread: Option<ThreadId>,
    },
    /// In how many periods its quota had ended, and of how many.
    Periods {
        /// Periods in which it had.
        ended: u64,
        /// All periods in which something wanted to run.
        all: u64,
    },
    /// The device.
    Device {
        /// Which.
        device: BlockDevice,
        /// Is it the host's?
        is_host: bool,
    },
    /// Stalls that the kernel counts, whatever they were for.
    Pressure,
    /// How many requests there are in each run, times 100.
    PerRun(u64),
    /// The largest distance.
    Distance(i64),
    /// Nothing.
    None,
}

/// Something that a rule found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// The rule.
    pub detector: Detector,
    /// Whom it is about.
    pub subject: Party,
    /// The time that it took.
    pub held_ns: i64,
    /// Of what time.
    pub of_ns: i64,
    /// How often.
    pub count: u64,
    /// How sure it is.
    pub confidence: Confidence,
    /// What more there is to say.
    pub detail: Detail,
}

impl Finding {
    /// The share of the time, from 0 to 1.
    #[expect(clippy::cast_precision_loss, reason = "a share of a length")]
    pub fn share(&self) -> f64 {
        self.held_ns as f64 / self.of_ns.max(1) as f64
    }
}

/// The range in which findings are made.
#[derive(Clone, Copy, Debug)]
pub struct Range {
    /// Its start, in trace time.
    pub from: i64,
    /// Its end.
    pub until: i64,
    /// How long a second is; none if that is not known (ticks).
    pub second: Option<i64>,
}

impl Range {
    /// How long it is.
    pub fn length(self) -> i64 {
        self.until - self.from
    }

    /// From when to when.
    pub(super) fn span(self) -> (i64, i64) {
        (self.from, self.until)
    }

    /// Is it long enough to judge by? A second; a length in ticks is taken to be.
    pub fn is_long_enough(self) -> bool {
        self.second.is_none_or(|second| self.length() >= second)
    }

    /// How much of a stretch of time lies in it.
    pub(super) fn of(self, row: (i64, i64)) -> i64 {
        row.1.min(self.until).saturating_sub(row.0.max(self.from)).max(0)
    }

    pub(super) fn has(self, ts: i64) -> bool {
        self.from <= ts && ts < self.until
    }

    /// Is something at least this often, per second? Not known without seconds.
    pub(super) fn is_often(self, count: u64, per_second: u64) -> bool {
        let wanted = |second: i64| {
            i128::from(per_second) * i128::from(self.length()) / i128::from(second.max(1))
        };
        self.second.is_some_and(|second| i128::from(count) >= wanted(second).max(1))
    }
}

/// What takes the most time comes first; of the same, what is certain.
pub fn sort(findings: &mut [Finding]) {
    findings.sort_by(|a, b| {
        b.held_ns.cmp(&a.held_ns).then_with(|| {
            (a.confidence, a.detector, &a.subject).cmp(&(b.confidence, b.detector, &b.subject))
        })
    });
}

/// Is the first at least so many percent of the second?
pub(super) fn reaches(part: i64, percent: i64, whole: i64) -> bool {
    whole > 0 && part.saturating_mul(100) >= whole.saturating_mul(percent)
}
