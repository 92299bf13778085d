//! Causes: what lets an actor go on, and how well that is known.

use serde::{Deserialize, Serialize};

/// What kind of cause it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub enum CauseKind {
    /// A thread wakes another; or an interrupt does for a reason that the recording does not tell.
    Wakeup,
    /// A thread starts another.
    Fork,
    /// A timer of the CPU wakes a thread, or one of its vCPU interrupts it.
    Timer,
    /// Another CPU or vCPU interrupts this one.
    Ipi,
    /// A block request that is done wakes a thread.
    Completion,
    /// A packet that came wakes a thread, or comes from another machine.
    Packet,
    /// A softirq is raised, then runs.
    Softirq,
    /// A guest kicks a device by a port or an address, and its back end goes on.
    Kick,
    /// A vCPU's interrupt controller takes an interrupt, which is then injected.
    Injection,
    /// An injected interrupt runs the guest's handler.
    Line,
    /// A work item is queued, then runs in a kworker.
    Work,
    /// A lock is let go by its owner.
    Lock,
}

impl CauseKind {
    /// Every kind, in the order in which they are described.
    pub const ALL: [CauseKind; 12] = [
        CauseKind::Wakeup,
        CauseKind::Fork,
        CauseKind::Timer,
        CauseKind::Ipi,
        CauseKind::Completion,
        CauseKind::Packet,
        CauseKind::Softirq,
        CauseKind::Kick,
        CauseKind::Injection,
        CauseKind::Line,
        CauseKind::Work,
        CauseKind::Lock,
    ];

    /// The word in tables.
    pub fn as_str(self) -> &'static str {
        match self {
            CauseKind::Wakeup => "wakeup",
            CauseKind::Fork => "fork",
            CauseKind::Timer => "timer",
            CauseKind::Ipi => "ipi",
            CauseKind::Completion => "completion",
            CauseKind::Packet => "packet",
            CauseKind::Softirq => "softirq",
            CauseKind::Kick => "kick",
            CauseKind::Injection => "injection",
            CauseKind::Line => "line",
            CauseKind::Work => "work",
            CauseKind::Lock => "lock",
        }
    }
}

/// What joins a cause with its effect, the best first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Evidence {
    /// A number that both events carry, and no other at that time.
    Id,
    /// Both happened in the same place: the thread, the handler, the VM exit.
    Context,
    /// Nothing but their order in time.
    Order,
}

impl Evidence {
    /// Of a number that so many causes carry.
    pub fn of_number(candidates: u32) -> Self {
        if candidates == 1 { Evidence::Id } else { Evidence::Order }
    }

    /// The word in tables.
    pub fn as_str(self) -> &'static str {
        match self {
            Evidence::Id => "id",
            Evidence::Context => "context",
            Evidence::Order => "order",
        }
    }
}

/// What kind of lock a thread waits for: the flags of `lock:contention_begin`
/// (`include/trace/events/lock.h`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub enum LockKind {
    /// A spinlock (or a semaphore, which the kernel tells alike).
    Spinlock,
    /// A spinning lock for reading.
    RwlockRead,
    /// A spinning lock for writing.
    RwlockWrite,
    /// A sleeping lock for reading.
    RwsemRead,
    /// A sleeping lock for writing.
    RwsemWrite,
    /// A mutex.
    Mutex,
    /// A mutex that lends its owner the priority of its waiters.
    RtMutex,
    /// A lock that costs readers next to nothing.
    PercpuRwsem,
}

impl LockKind {
    /// From the tracepoint's flags (`LCB_F_*`).
    pub fn from_flags(flags: u32) -> Self {
        let (spin, read, write, rt, percpu, mutex) = (1, 2, 4, 8, 16, 32);
        let has = |flag: u32| flags & flag != 0;
        match () {
            () if has(percpu) => LockKind::PercpuRwsem,
            () if has(mutex) => LockKind::Mutex,
            () if has(rt) => LockKind::RtMutex,
            () if has(spin) && has(read) => LockKind::RwlockRead,
            () if has(spin) && has(write) => LockKind::RwlockWrite,
            () if has(read) => LockKind::RwsemRead,
            () if has(write) => LockKind::RwsemWrite,
            () => LockKind::Spinlock,
        }
    }

    /// Can several have it at once? Of a per-CPU read-write semaphore the flags do not tell.
    pub fn is_shared(self) -> bool {
        matches!(self, LockKind::RwlockRead | LockKind::RwsemRead | LockKind::PercpuRwsem)
    }

    /// The word in tables.
    pub fn as_str(self) -> &'static str {
        match self {
            LockKind::Spinlock => "spinlock",
            LockKind::RwlockRead => "rwlock_read",
            LockKind::RwlockWrite => "rwlock_write",
            LockKind::RwsemRead => "rwsem_read",
            LockKind::RwsemWrite => "rwsem_write",
            LockKind::Mutex => "mutex",
            LockKind::RtMutex => "rt_mutex",
            LockKind::PercpuRwsem => "percpu_rwsem",
        }
    }
}
