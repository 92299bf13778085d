//! The states that divide time. For one actor they tile its window: no gap, no overlap.
//!
//! Definitions are the design's; the state machines that produce them are in the engine.

use serde::{Deserialize, Serialize};

/// Where a vCPU is, under KVM or Xen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub enum VcpuState {
    /// Guest code runs: from VM entry to VM exit.
    Guest,
    /// In the kernel between exit and next entry; the row's reason says which exit.
    Exit,
    /// `KVM_RUN` returned to the VMM, whose vCPU thread runs in user space (or in other syscalls).
    User,
    /// Halted, but the host still spins for a wakeup before it sleeps.
    HaltPoll,
    /// The guest halted and the vCPU thread sleeps in KVM.
    Halted,
    /// The vCPU thread wants the CPU and was switched out for another.
    Preempted,
    /// Woken, not yet on a CPU.
    Waking,
    /// Asleep for another cause (a lock or I/O in the VMM).
    Blocked,
    /// On a pCPU, but the trace does not tell whether in guest mode, in the kernel or in the VMM
    /// (scheduler events without KVM events, or before the vCPU's first KVM event).
    Running,
    /// A PV guest is in a hypercall, as far as Xen's records prove it: from the record of the call
    /// to the last record that can only come from within it. Xen does not record its end.
    Hypercall,
    /// A PV guest's exception is being handled by Xen; proved as for `Hypercall`.
    Trap,
    /// Its thread does not exist: not yet created, or exited (the VM ended). Under Xen: runstate
    /// offline (paused, or its domain is not there).
    Offline,
    /// Inside lost events, or before the first event that tells: no claim is made.
    Unknown,
}

impl VcpuState {
    /// Every state, in the order reports list them.
    pub const ALL: [VcpuState; 13] = [
        VcpuState::Guest,
        VcpuState::Exit,
        VcpuState::User,
        VcpuState::HaltPoll,
        VcpuState::Halted,
        VcpuState::Preempted,
        VcpuState::Waking,
        VcpuState::Blocked,
        VcpuState::Running,
        VcpuState::Hypercall,
        VcpuState::Trap,
        VcpuState::Offline,
        VcpuState::Unknown,
    ];

    /// The word in tables and reports.
    pub fn as_str(self) -> &'static str {
        match self {
            VcpuState::Guest => "guest",
            VcpuState::Exit => "exit",
            VcpuState::User => "user",
            VcpuState::HaltPoll => "halt_poll",
            VcpuState::Halted => "halted",
            VcpuState::Preempted => "preempted",
            VcpuState::Waking => "waking",
            VcpuState::Blocked => "blocked",
            VcpuState::Running => "running",
            VcpuState::Hypercall => "hypercall",
            VcpuState::Trap => "trap",
            VcpuState::Offline => "offline",
            VcpuState::Unknown => "unknown",
        }
    }

    /// Which of the domain metrics this state counts towards.
    pub fn metric(self) -> Metric {
        match self {
            VcpuState::Guest
            | VcpuState::Exit
            | VcpuState::User
            | VcpuState::HaltPoll
            | VcpuState::Hypercall
            | VcpuState::Trap
            | VcpuState::Running => Metric::Gotten,
            VcpuState::Preempted | VcpuState::Waking => Metric::Waited,
            VcpuState::Halted | VcpuState::Blocked => Metric::Blocked,
            VcpuState::Offline => Metric::Offline,
            VcpuState::Unknown => Metric::Unknown,
        }
    }
}

/// XenMon's division of time: gotten + waited + blocked (+ offline + unknown) = the window.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Metric {
    /// On a pCPU.
    Gotten,
    /// Runnable, not running.
    Waited,
    /// Asleep.
    Blocked,
    /// Without a thread that could run.
    Offline,
    /// Not known: lost events.
    Unknown,
}

/// What a Xen domain's vCPUs do together (as xenalyze defines it, `domain_runstate`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub enum DomainState {
    /// No vCPU wants a pCPU: all are blocked or offline.
    Blocked,
    /// Some run, the others are blocked or offline.
    PartialRun,
    /// All run.
    FullRun,
    /// Some wait for a pCPU, none runs, the others are blocked or offline.
    PartialContention,
    /// Some run while others wait for a pCPU: who runs may spin on what a waiting one holds.
    ConcurrencyHazard,
    /// All wait for a pCPU.
    FullContention,
    /// Lost records hide what a vCPU does, and with it the domain's state.
    Unknown,
}

impl DomainState {
    /// The word in tables and reports.
    pub fn as_str(self) -> &'static str {
        match self {
            DomainState::Blocked => "blocked",
            DomainState::PartialRun => "partial_run",
            DomainState::FullRun => "full_run",
            DomainState::PartialContention => "partial_contention",
            DomainState::ConcurrencyHazard => "concurrency_hazard",
            DomainState::FullContention => "full_contention",
            DomainState::Unknown => "unknown",
        }
    }
}

/// Where a thread is, as its own kernel saw it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub enum ThreadState {
    /// On a CPU of its machine.
    Running,
    /// Wants a CPU: preempted, or woken and not yet switched in.
    Runnable,
    /// Asleep; the row's reason says for what, where the trace tells.
    Blocked,
    /// Inside lost events or before the first event about it.
    Unknown,
}

impl ThreadState {
    /// The word in tables and reports.
    pub fn as_str(self) -> &'static str {
        match self {
            ThreadState::Running => "running",
            ThreadState::Runnable => "runnable",
            ThreadState::Blocked => "blocked",
            ThreadState::Unknown => "unknown",
        }
    }
}

/// Where a guest thread *really* was while its own kernel believed it was running.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub enum EffectiveState {
    /// Its vCPU was in guest mode: really running. (Where the recording has no KVM events: its
    /// vCPU was on a pCPU, which includes exit handling.)
    Running,
    /// Its vCPU was switched out (preempted or waking): stolen time.
    VcpuPreempted,
    /// Its vCPU was handling an exit, in the kernel or in the VMM.
    ExitHandling,
    /// Its vCPU was halted or asleep (the guest's belief and the host's differ at the edges).
    VcpuHalted,
    /// The host's view of the vCPU is not known there.
    Unknown,
}

impl EffectiveState {
    /// The word in tables and reports.
    pub fn as_str(self) -> &'static str {
        match self {
            EffectiveState::Running => "running",
            EffectiveState::VcpuPreempted => "vcpu_preempted",
            EffectiveState::ExitHandling => "exit_handling",
            EffectiveState::VcpuHalted => "vcpu_halted",
            EffectiveState::Unknown => "unknown",
        }
    }
}

impl From<VcpuState> for EffectiveState {
    fn from(vcpu: VcpuState) -> Self {
        match vcpu {
            VcpuState::Guest | VcpuState::Running => EffectiveState::Running,
            VcpuState::Exit | VcpuState::User | VcpuState::Hypercall | VcpuState::Trap => {
                EffectiveState::ExitHandling
            }
            VcpuState::Preempted | VcpuState::Waking => EffectiveState::VcpuPreempted,
            VcpuState::HaltPoll | VcpuState::Halted | VcpuState::Blocked => {
                EffectiveState::VcpuHalted
            }
            VcpuState::Offline | VcpuState::Unknown => EffectiveState::Unknown,
        }
    }
}
/// Which way a packet goes, seen from the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum NetDirection {
    /// From the kernel to the driver.
    Xmit,
    /// From the driver to the kernel.
    Receive,
}

impl NetDirection {
    /// The word in tables.
    pub fn as_str(self) -> &'static str {
        match self {
            NetDirection::Xmit => "xmit",
            NetDirection::Receive => "receive",
        }
    }
}

/// Which number a row of the counters table is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum CounterName {
    /// How long the host polls before it lets a halted vCPU sleep, ns.
    HaltPollNs,
    /// Requests of a block device seen to be issued and not yet completed.
    BlockInFlight,
}

impl CounterName {
    /// The word in tables.
    pub fn as_str(self) -> &'static str {
        match self {
            CounterName::HaltPollNs => "halt_poll_ns",
            CounterName::BlockInFlight => "block_in_flight",
        }
    }
}
