//! A piece of a path: who did what, for how long, and how that is known.

use transect_model::{
    cause::{CauseKind, Evidence},
    exit::ExitReason,
    ids::{CpuId, MachineId, Tid, VcpuId},
};

/// What happens in a piece.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Doing {
    /// The thread runs; a guest's thread, while its vCPU runs guest code.
    Running,
    /// A VM exit is handled in the host's kernel.
    Exit,
    /// The VMM's thread of the vCPU runs for it, outside of KVM.
    User,
    /// The host polls for a halted vCPU.
    HaltPoll,
    /// A thread that could run waits for a CPU of its machine.
    Runnable,
    /// The vCPU on which something would happen waits for a CPU of the host.
    VcpuWait,
    /// An interrupt or softirq is handled.
    Handler,
    /// A cause is on its way to its effect: a raised softirq, an interrupt for a vCPU, a packet.
    Delivery,
    /// A request is in its device.
    Device,
    /// A timer runs that was asked for.
    Timer,
    /// The kernel reclaims memory for the thread, which runs.
    Reclaim,
    /// A lock is waited for whose owner is not known.
    Lock,
    /// An interrupt ended it that came from outside of what is recorded.
    Outside,
    /// An interrupt ended it whose source was not recorded.
    Unrecorded,
    /// A vCPU that is paused, or not there yet or any more.
    Offline,
    /// It sleeps, and nothing wakes it in the range.
    Asleep,
    /// Not known: lost events, or no cause was recorded.
    Unknown,
}

impl Doing {
    /// Every variant.
    pub const ALL: [Doing; 17] = [
        Doing::Running,
        Doing::Exit,
        Doing::User,
        Doing::HaltPoll,
        Doing::Runnable,
        Doing::VcpuWait,
        Doing::Handler,
        Doing::Delivery,
        Doing::Device,
        Doing::Timer,
        Doing::Reclaim,
        Doing::Lock,
        Doing::Outside,
        Doing::Unrecorded,
        Doing::Offline,
        Doing::Asleep,
        Doing::Unknown,
    ];

    /// The word in tables.
    pub fn as_str(self) -> &'static str {
        match self {
            Doing::Running => "running",
            Doing::Exit => "exit",
            Doing::User => "user",
            Doing::HaltPoll => "halt_poll",
            Doing::Runnable => "runnable",
            Doing::VcpuWait => "vcpu_wait",
            Doing::Handler => "handler",
            Doing::Delivery => "delivery",
            Doing::Device => "device",
            Doing::Timer => "timer",
            Doing::Reclaim => "reclaim",
            Doing::Lock => "lock",
            Doing::Outside => "outside",
            Doing::Unrecorded => "unrecorded",
            Doing::Offline => "offline",
            Doing::Asleep => "asleep",
            Doing::Unknown => "unknown",
        }
    }

    /// Does somebody wait for a CPU that another has?
    pub fn is_wait(self) -> bool {
        matches!(self, Doing::Runnable | Doing::VcpuWait)
    }
}

/// A thread, as the kernel of its machine numbers it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ThreadId {
    /// The machine whose kernel schedules it.
    pub machine: MachineId,
    /// Its number there.
    pub tid: Tid,
}

impl ThreadId {
    /// Stands for the thread of a vCPU that has none which is known.
    pub(crate) fn nobody(machine: MachineId) -> Self {
        ThreadId { machine, tid: Tid(-1) }
    }
}

/// Who is explained.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Actor {
    /// A thread; a vCPU's thread stands for the vCPU.
    Thread(ThreadId),
    /// A vCPU without a thread that is known (Xen).
    Vcpu(MachineId, VcpuId),
}

impl Actor {
    /// The machine whose thread or vCPU it is.
    pub fn machine(self) -> MachineId {
        match self {
            Actor::Thread(thread) => thread.machine,
            Actor::Vcpu(machine, _) => machine,
        }
    }
}

/// Who has the CPU that is waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum By {
    /// A thread.
    Thread(ThreadId),
    /// A vCPU without a thread that is known (Xen).
    Vcpu(MachineId, VcpuId),
    /// Nobody: the CPU has not left its idle state yet.
    Idle,
}

impl By {
    /// A number that differs for most.
    pub(crate) fn number(self) -> u64 {
        match self {
            By::Thread(id) => pair(id.machine.0, id.tid.0.cast_unsigned()),
            By::Vcpu(machine, vcpu) => !pair(machine.0, vcpu.0),
            By::Idle => 1,
        }
    }
}

/// Two numbers in one.
pub(crate) fn pair(a: u32, b: u32) -> u64 {
    u64::from(a) << 32 | u64::from(b)
}

/// The scheduler's reason why who has the CPU has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Why {
    /// The waiting thread's group had no quota left.
    Throttled,
    /// Its class or priority is below that of who has the CPU.
    Class,
    /// A CPU on which it may run was idle for at least half of the wait.
    Affinity,
    /// Its nice value or group's weight is smaller.
    Weight,
    /// Both have a right to a share.
    Share,
    /// The CPU leaves its idle state.
    LeavingIdle,
}

impl Why {
    /// The word in tables.
    pub fn as_str(self) -> &'static str {
        match self {
            Why::Throttled => "throttled",
            Why::Class => "class",
            Why::Affinity => "affinity",
            Why::Weight => "weight",
            Why::Share => "share",
            Why::LeavingIdle => "leaving_idle",
        }
    }
}

/// A piece of a path. The pieces of a path tile its window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Piece {
    /// Start, in trace time.
    pub ts: i64,
    /// Length.
    pub dur: i64,
    /// How many causes lead from the thread that is explained to this one; 0 is itself.
    pub depth: u32,
    /// Where it happens: the machine of the thread, vCPU or handler.
    pub machine: MachineId,
    /// The thread; none in an interrupt or device.
    pub tid: Option<Tid>,
    /// The vCPU, where one is concerned.
    pub vcpu: Option<VcpuId>,
    /// The CPU of the machine.
    pub cpu: Option<CpuId>,
    /// What happens.
    pub doing: Doing,
    /// For exit, user and halt_poll: of which exit.
    pub reason: Option<ExitReason>,
    /// Of a wait: who has the CPU.
    pub by: Option<By>,
    /// Of a wait: why.
    pub why: Option<Why>,
    /// The cause that led here; none at depth 0.
    pub cause: Option<CauseKind>,
    /// The weakest of the causes that led here.
    pub evidence: Evidence,
    /// How far off its ends can be, for causes between machines; none if that is not known.
    pub error_ns: Option<u64>,
}

impl Piece {
    /// Its end.
    pub fn end(&self) -> i64 {
        self.ts + self.dur
    }

    /// Would it be one piece with an earlier one that ends where this begins?
    pub(crate) fn goes_on_from(&self, earlier: &Piece) -> bool {
        let Piece { ts: _, dur: _, depth, machine, tid, vcpu, cpu, doing, .. } = *earlier;
        let Piece { reason, by, why, cause, evidence, error_ns, .. } = *earlier;
        // Most differ in the first of these.
        self.doing == doing
            && (self.by, self.tid, self.reason) == (by, tid, reason)
            && (self.machine, self.vcpu, self.cpu) == (machine, vcpu, cpu)
            && (self.depth, self.why, self.cause) == (depth, why, cause)
            && (self.evidence, self.error_ns) == (evidence, error_ns)
            && earlier.end() == self.ts
    }
}
