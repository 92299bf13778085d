//! What Xen's tracer tells the state machines: transitions of vCPUs as the hypervisor sees them.
//!
//! A domain is named by its number and a vCPU by the domain's and its own, because that is all a
//! record says; which machine of the recording that is, the engine knows. Names and meanings are
//! those of `xen/include/public/trace.h` and `xen/include/public/vcpu.h` (Xen 4.17).

use crate::exit::ExitReason;
use serde::{Deserialize, Serialize};

/// `DOMID_IDLE`: the domain of the idle vCPUs, one per pCPU.
pub const IDLE_DOMAIN: u16 = 0x7fff;

/// A vCPU as Xen's records name it.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
pub struct XenVcpu {
    /// Its domain.
    pub dom: u16,
    /// Its number there.
    pub vcpu: u16,
}

impl XenVcpu {
    /// Is it the idle vCPU of some pCPU?
    pub fn is_idle(self) -> bool {
        self.dom == IDLE_DOMAIN
    }
}

/// `RUNSTATE_*`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Runstate {
    /// On a pCPU.
    Running,
    /// Wants one.
    Runnable,
    /// Sleeps until an event.
    Blocked,
    /// Neither: paused, or not there.
    Offline,
}

impl Runstate {
    /// The word in tables.
    pub fn as_str(self) -> &'static str {
        match self {
            Runstate::Running => "running",
            Runstate::Runnable => "runnable",
            Runstate::Blocked => "blocked",
            Runstate::Offline => "offline",
        }
    }
}

/// A hypercall of a PV guest, as far as Xen records its arguments.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct XenCall {
    /// `__HYPERVISOR_*`.
    pub op: u32,
    /// The command, of those that have one.
    pub cmd: Option<u32>,
    /// How many requests it brings, of those that bring several.
    pub count: Option<u32>,
}

/// One transition that Xen recorded, on the pCPU whose stream it is in.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
#[expect(missing_docs, reason = "fields are the records' own, explained per variant")]
pub enum XenEvent {
    /// `sched_runstate_change`.
    Runstate { vcpu: XenVcpu, old: Runstate, new: Runstate },
    /// `sched_continue_running`: the scheduler was asked, and the same vCPU stays.
    Continue { vcpu: XenVcpu },
    /// `sched_switch_infprev`: who leaves, and how long it ran (low 32 bits of ns).
    InfPrev { vcpu: XenVcpu, ran_ns: u32 },
    /// `sched_switch_infnext`: who comes, how long it was runnable, and the slice it is granted
    /// (none: without limit).
    InfNext { vcpu: XenVcpu, waited_ns: u32, slice_ns: Option<u32> },
    /// `sched_switch_infcont`: who stays, how long it has run, and the slice it is granted.
    InfCont { vcpu: XenVcpu, ran_ns: u32, slice_ns: Option<u32> },
    /// `sched_switch`.
    Switch { prev: XenVcpu, next: XenVcpu },
    /// `sched_wake`.
    Wake { vcpu: XenVcpu },
    /// `sched_sleep`: it is taken off the run queue (paused).
    Sleep { vcpu: XenVcpu },
    /// `sched_block`: it gives its pCPU up until an event.
    Block { vcpu: XenVcpu },
    /// `sched_yield`.
    Yield { vcpu: XenVcpu },
    /// `sched_shutdown`: its domain ends by its own wish.
    Shutdown { vcpu: XenVcpu, reason: u32 },
    /// `dom0_dom_add`, `sched_dom_add`: a domain is there from here on.
    DomainAdded { dom: u16 },
    /// `dom0_dom_rem`: a domain is being destroyed; its vCPUs may still run.
    DomainEnding { dom: u16 },
    /// `sched_dom_rem`: the scheduler forgets a domain, whose vCPUs run no more.
    DomainRemoved { dom: u16 },
    /// No record of its own: the vCPU has this pCPU, as `lost_records` says, or as the first record
    /// about the scheduler says of the time before it. Told where that time begins.
    Current { vcpu: XenVcpu },
    /// `hvm_vmentry`: the current vCPU enters guest mode.
    VmEntry,
    /// `hvm_vmexit`.
    VmExit { reason: ExitReason, rip: u64 },
    /// `hvm_vmmcall`: a hypercall of an HVM or PVH guest, whose arguments are not recorded.
    HvmHypercall { op: u32 },
    /// `hvm_inj_virq`: an interrupt is injected.
    Injection { vector: u32 },
    /// `pv_hypercall_v2`: a PV guest enters Xen.
    Hypercall(XenCall),
    /// `pv_hypercall_subcall`: one call of a multicall.
    Subcall(XenCall),
    /// `pv_trap`: an exception of a PV guest.
    PvTrap { trap: u16, rip: u64 },
    /// `pv_page_fault`.
    PvPageFault { addr: u64, rip: u64 },
    /// `pv_emulate_privop`, `pv_ptwr_emulation`, `pv_math_state_restore` and the like: what Xen
    /// does about an exception of a PV guest.
    PvEmulation,
    /// `mem_page_grant_map`, `mem_page_grant_transfer`: a page of `dom` changes hands.
    GrantPage { dom: u16 },
    /// `pm_idle_entry`: the pCPU goes to a C-state.
    IdleEntry { state: u32 },
    /// `pm_idle_exit`.
    IdleExit { state: u32 },
}
