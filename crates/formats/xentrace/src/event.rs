//! Typed events: the records states and metrics are made of, without a look at their fields' names.

pub use crate::runstate::Runstate;

use crate::{
    hypercall::Hypercall,
    records::{Kind, RecordDef},
    word::{NESTED_FLAG, word_at},
};
use std::fmt;
use transect_model::exit::Isa;

/// `DOMID_IDLE`: the domain of the idle vCPUs, one per pCPU.
pub const IDLE_DOMAIN: u16 = 0x7fff;

/// A vCPU of a domain.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct XenVcpu {
    /// The domain.
    pub dom: u16,
    /// Its vCPU; with core scheduling, in scheduling records, the first of the unit.
    pub vcpu: u16,
}

impl XenVcpu {
    /// Is it an idle vCPU?
    pub fn is_idle(self) -> bool {
        self.dom == IDLE_DOMAIN
    }

    /// `struct { uint16_t vcpu, dom; }`.
    #[inline]
    fn packed(word: u32) -> XenVcpu {
        // Two halves of 16 bits, each kept whole.
        XenVcpu { dom: (word >> 16) as u16, vcpu: (word & 0xffff) as u16 }
    }

    pub(crate) fn to_packed(self) -> u32 {
        u32::from(self.dom) << 16 | u32::from(self.vcpu)
    }

    /// A word each; None if that is not a vCPU Xen can have.
    #[inline]
    fn wide(dom: u32, vcpu: u32) -> Option<XenVcpu> {
        Some(XenVcpu { dom: u16::try_from(dom).ok()?, vcpu: u16::try_from(vcpu).ok()? })
    }
}

impl fmt::Display for XenVcpu {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "d{}v{}", self.dom, self.vcpu)
    }
}

/// Records that did not fit in a CPU's buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lost {
    /// How many.
    pub count: u32,
    /// When the first of them was to be written.
    pub from_tsc: u64,
    /// When there was room again; between the two this CPU has no records.
    pub to_tsc: u64,
    /// The vCPU that ran on the CPU then.
    pub current: XenVcpu,
}

/// What a record says, for the kinds with a meaning to states and metrics.
///
/// Durations Xen records in 32 bits are the low word of nanoseconds: they wrap at 4.29 s, so that
/// the stamps are to be preferred.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum XenEvent {
    /// `lost_records`.
    Lost(Lost),
    /// `sched_runstate_change`.
    RunstateChange {
        /// Whose.
        vcpu: XenVcpu,
        /// It leaves this state.
        old: Runstate,
        /// For this one.
        new: Runstate,
    },
    /// `sched_continue_running`.
    ContinueRunning {
        /// Who stays on the pCPU.
        vcpu: XenVcpu,
    },
    /// `sched_switch_infprev`: before `Switch`.
    SwitchInfPrev {
        /// Who leaves.
        vcpu: XenVcpu,
        /// How long it ran (low word).
        ran_ns: u32,
    },
    /// `sched_switch_infnext`: before `Switch`.
    SwitchInfNext {
        /// Who comes.
        vcpu: XenVcpu,
        /// How long it was runnable (low word); 0 if it was not.
        waited_ns: u32,
        /// The slice granted; None: without limit.
        slice_ns: Option<u32>,
    },
    /// `sched_switch_infcont`.
    SwitchInfCont {
        /// Who stays.
        vcpu: XenVcpu,
        /// How long it has run (low word).
        ran_ns: u32,
        /// The slice granted; None: without limit.
        slice_ns: Option<u32>,
    },
    /// `sched_switch`.
    Switch {
        /// Who leaves.
        prev: XenVcpu,
        /// Who comes.
        next: XenVcpu,
    },
    /// `sched_wake`.
    Wake {
        /// Who.
        vcpu: XenVcpu,
    },
    /// `sched_sleep`.
    Sleep {
        /// Who.
        vcpu: XenVcpu,
    },
    /// `sched_block`.
    Block {
        /// Who.
        vcpu: XenVcpu,
    },
    /// `sched_yield`.
    Yield {
        /// Who.
        vcpu: XenVcpu,
    },
    /// `sched_shutdown`.
    Shutdown {
        /// By which vCPU.
        vcpu: XenVcpu,
        /// `SHUTDOWN_*`.
        reason: u32,
    },
    /// `sched_dom_add`: a scheduler gets a domain.
    DomainScheduled {
        /// Which.
        dom: u16,
    },
    /// `sched_dom_rem`: a scheduler loses a domain.
    DomainUnscheduled {
        /// Which.
        dom: u16,
    },
    /// `dom0_dom_add`: a domain is created.
    DomainCreated {
        /// Which.
        dom: u16,
    },
    /// `dom0_dom_rem`: a domain is being destroyed.
    DomainDestroyed {
        /// Which.
        dom: u16,
    },
    /// `hvm_vmentry`.
    VmEntry {
        /// Of a guest's guest?
        nested: bool,
    },
    /// `hvm_vmexit`.
    VmExit {
        /// The hardware's number; see [`isa_of_reason`] where `isa` is None.
        reason: u32,
        /// Where the guest was.
        rip: u64,
        /// Of a guest's guest?
        nested: bool,
        /// Who numbered the reason, where the record says so (from Xen 4.19 on).
        isa: Option<Isa>,
    },
    /// `hvm_inj_virq`.
    Injection {
        /// Vector.
        vector: u32,
    },
    /// `hvm_intr`: an interrupt of the hardware ended the guest's turn.
    Interrupt {
        /// Vector, with VMX.
        vector: Option<u32>,
    },
    /// `hvm_vmmcall`: a hypercall of an HVM or PVH guest, without arguments.
    HvmHypercall {
        /// Which; see [`crate::hypercall::name`].
        op: u32,
    },
    /// `hvm_hlt`.
    Halt {
        /// There is something to do already, so it will not sleep.
        pending: bool,
    },
    /// `pv_hypercall_v2`.
    Hypercall(Hypercall),
    /// `pv_hypercall_subcall`: within a multicall.
    Subcall(Hypercall),
    /// `pv_trap`.
    PvTrap {
        /// Exception vector.
        trap: u16,
        /// Error code, if the exception has one.
        error_code: Option<u16>,
        /// Where the guest was.
        rip: u64,
    },
    /// `pv_page_fault`.
    PvPageFault {
        /// Where the guest was.
        rip: u64,
        /// What it touched.
        addr: u64,
        /// Error code.
        error_code: u32,
    },
    /// `pv_emulate_privop`.
    PvPrivop {
        /// Where the guest was.
        rip: u64,
    },
    /// `pv_math_state_restore`.
    PvMathState,
    /// `pv_ptwr_emulation`.
    PvPtwr {
        /// Where the guest was.
        rip: u64,
        /// What it wrote to.
        addr: u64,
        /// What it wrote.
        pte: u64,
    },
    /// `mem_page_grant_map`.
    GrantMap {
        /// Whose page.
        dom: u16,
    },
    /// `mem_page_grant_unmap`.
    GrantUnmap {
        /// Whose page.
        dom: u16,
    },
    /// `mem_page_grant_transfer`.
    GrantTransfer {
        /// To whom.
        dom: u16,
    },
    /// `hw_irq_handled`.
    IrqHandled {
        /// Xen's number of the interrupt.
        irq: u32,
        /// How long its handler took.
        took_tsc: u32,
    },
    /// `pm_idle_entry`.
    IdleEntry {
        /// C-state.
        state: u32,
    },
    /// `pm_idle_exit`.
    IdleExit {
        /// C-state.
        state: u32,
    },
    /// `pm_freq_change`.
    FrequencyChange {
        /// Before.
        from_mhz: u32,
        /// After.
        to_mhz: u32,
    },
    /// Anything else: look at the record's fields.
    Other,
}

/// Who must have numbered an exit reason, if its value tells: VMX has fewer than 0x60 (and bit 31
/// for failed entries), SVM has its most frequent ones (interrupts 0x60, HLT 0x78, VMMCALL 0x81,
/// nested faults 0x400) above. None for numbers both have.
pub fn isa_of_reason(reason: u32) -> Option<Isa> {
    match reason {
        0..0x60 => None,
        0x60..0x1000 | 0xffff_ffff => Some(Isa::Svm),
        _ => Some(Isa::Vmx),
    }
}

/// Who gets the typed events of a stream ([`crate::Stream::give`]).
///
/// The decoder has one arm for each kind of record, and what is done with its event is compiled into
/// each of them: an event is never put together in one place to be taken apart in another. For
/// readers of millions of records that is most of what decoding costs; all others use
/// [`crate::Record::typed`].
pub trait EventTaker {
    /// Takes the event of a record with this stamp. To be inlined.
    fn take(&mut self, tsc: u64, event: XenEvent);
}

/// Keeps the event.
pub(crate) struct Kept(pub(crate) XenEvent);

impl EventTaker for Kept {
    #[inline(always)]
    fn take(&mut self, _tsc: u64, event: XenEvent) {
        self.0 = event;
    }
}

/// A record without a look at its place in the stream.
#[derive(Clone, Copy)]
pub(crate) struct Raw<'a> {
    pub(crate) kind: Kind,
    pub(crate) row: &'static RecordDef,
    pub(crate) event: u32,
    pub(crate) tsc: u64,
    pub(crate) extra: &'a [u8],
}

/// Gives `to` the record's typed event; [`XenEvent::Other`] where a value cannot be right. The
/// record has as many words as its row wants at least.
#[inline(always)]
pub(crate) fn typed(raw: Raw<'_>, to: &mut impl EventTaker) {
    let Raw { kind, row, event, tsc, extra } = raw;
    let word = |at: usize| word_at(extra, at * 4);
    let wide = |at: usize| u64::from(word(at + 1)) << 32 | u64::from(word(at));
    /// The value, or this is no such record.
    macro_rules! right {
        ($value:expr) => {
            match $value {
                Some(value) => value,
                None => return to.take(tsc, XenEvent::Other),
            }
        };
    }
    macro_rules! vcpu {
        () => {
            right!(XenVcpu::wide(word(0), word(1)))
        };
    }
    macro_rules! dom {
        () => {
            right!(u16::try_from(word(0)).ok())
        };
    }
    match kind {
        Kind::Other | Kind::Wrap | Kind::CpuChange => to.take(tsc, XenEvent::Other),
        Kind::RunstateChange => to.take(
            tsc,
            XenEvent::RunstateChange {
                vcpu: XenVcpu::packed(word(0)),
                old: Runstate::at(event, 8),
                new: Runstate::at(event, 4),
            },
        ),
        Kind::ContinueRunning => {
            to.take(tsc, XenEvent::ContinueRunning { vcpu: XenVcpu::packed(word(0)) })
        }
        Kind::SwitchInfPrev => {
            to.take(tsc, XenEvent::SwitchInfPrev { vcpu: vcpu!(), ran_ns: word(2) })
        }
        Kind::SwitchInfNext => to.take(
            tsc,
            XenEvent::SwitchInfNext { vcpu: vcpu!(), waited_ns: word(2), slice_ns: slice(word(3)) },
        ),
        Kind::SwitchInfCont => to.take(
            tsc,
            XenEvent::SwitchInfCont { vcpu: vcpu!(), ran_ns: word(2), slice_ns: slice(word(3)) },
        ),
        Kind::Switch => to.take(
            tsc,
            XenEvent::Switch { prev: vcpu!(), next: right!(XenVcpu::wide(word(2), word(3))) },
        ),
        Kind::Wake => to.take(tsc, XenEvent::Wake { vcpu: vcpu!() }),
        Kind::Sleep => to.take(tsc, XenEvent::Sleep { vcpu: vcpu!() }),
        Kind::Block => to.take(tsc, XenEvent::Block { vcpu: vcpu!() }),
        Kind::Yield => to.take(tsc, XenEvent::Yield { vcpu: vcpu!() }),
        Kind::Shutdown => to.take(tsc, XenEvent::Shutdown { vcpu: vcpu!(), reason: word(2) }),
        Kind::DomainScheduled => to.take(tsc, XenEvent::DomainScheduled { dom: dom!() }),
        Kind::DomainUnscheduled => to.take(tsc, XenEvent::DomainUnscheduled { dom: dom!() }),
        Kind::DomainCreated => to.take(tsc, XenEvent::DomainCreated { dom: dom!() }),
        Kind::DomainDestroyed => to.take(tsc, XenEvent::DomainDestroyed { dom: dom!() }),
        Kind::VmEntry => to.take(tsc, XenEvent::VmEntry { nested: event & NESTED_FLAG != 0 }),
        Kind::VmExit => to.take(tsc, exit(row, event, word(0), u64::from(word(1)))),
        Kind::VmExit64 => to.take(tsc, exit(row, event, word(0), wide(1))),
        Kind::Injection => to.take(tsc, XenEvent::Injection { vector: word(0) }),
        Kind::Interrupt => {
            to.take(tsc, XenEvent::Interrupt { vector: (!extra.is_empty()).then(|| word(0)) })
        }
        Kind::Hypercall => to.take(tsc, XenEvent::Hypercall(Hypercall::from_extra(extra))),
        Kind::Subcall => to.take(tsc, XenEvent::Subcall(Hypercall::from_extra(extra))),
        Kind::PvTrap => to.take(tsc, trap(word(1), u64::from(word(0)))),
        Kind::PvTrap64 => to.take(tsc, trap(word(2), wide(0))),
        Kind::PvPageFault => to.take(
            tsc,
            XenEvent::PvPageFault {
                rip: u64::from(word(0)),
                addr: u64::from(word(1)),
                error_code: word(2),
            },
        ),
        Kind::PvPageFault64 => {
            to.take(tsc, XenEvent::PvPageFault { rip: wide(0), addr: wide(2), error_code: word(4) })
        }
        Kind::PvPrivop => to.take(tsc, XenEvent::PvPrivop { rip: u64::from(word(0)) }),
        Kind::PvPrivop64 => to.take(tsc, XenEvent::PvPrivop { rip: wide(0) }),
        Kind::PvMathState => to.take(tsc, XenEvent::PvMathState),
        Kind::PvPtwr => {
            to.take(tsc, XenEvent::PvPtwr { pte: wide(0), addr: wide(2), rip: wide(4) })
        }
        Kind::PvPtwrPae => to.take(
            tsc,
            XenEvent::PvPtwr { pte: wide(0), addr: u64::from(word(2)), rip: u64::from(word(3)) },
        ),
        Kind::HvmHypercall => to.take(tsc, XenEvent::HvmHypercall { op: word(0) }),
        Kind::Halt => to.take(tsc, XenEvent::Halt { pending: word(0) != 0 }),
        Kind::GrantMap => to.take(tsc, XenEvent::GrantMap { dom: dom!() }),
        Kind::GrantUnmap => to.take(tsc, XenEvent::GrantUnmap { dom: dom!() }),
        Kind::GrantTransfer => to.take(tsc, XenEvent::GrantTransfer { dom: dom!() }),
        // Both are low words of one counter: their difference is right across a wrap.
        Kind::IrqHandled => to.take(
            tsc,
            XenEvent::IrqHandled { irq: word(0), took_tsc: word(2).wrapping_sub(word(1)) },
        ),
        Kind::IdleEntry => to.take(tsc, XenEvent::IdleEntry { state: word(0) }),
        Kind::IdleExit => to.take(tsc, XenEvent::IdleExit { state: word(0) }),
        Kind::FrequencyChange => {
            to.take(tsc, XenEvent::FrequencyChange { from_mhz: word(0), to_mhz: word(1) })
        }
        Kind::Lost => to.take(
            tsc,
            XenEvent::Lost(Lost {
                count: word(0),
                from_tsc: wide(2),
                to_tsc: tsc,
                // Here, and only here, the domain is the lower half.
                current: XenVcpu { dom: (word(1) & 0xffff) as u16, vcpu: (word(1) >> 16) as u16 },
            }),
        ),
    }
}

/// A slice as Xen's schedulers return it: negative is "until something happens".
#[inline]
fn slice(word: u32) -> Option<u32> {
    (word <= i32::MAX as u32).then_some(word)
}

#[inline]
fn exit(row: &RecordDef, event: u32, reason: u32, rip: u64) -> XenEvent {
    let isa = match (row.versions.from >= 19, row.id & 0xff) {
        (true, 2) => Some(Isa::Vmx),
        (true, 3) => Some(Isa::Svm),
        _ => None,
    };
    XenEvent::VmExit { reason, rip, nested: event & NESTED_FLAG != 0, isa }
}

#[inline]
fn trap(word: u32, rip: u64) -> XenEvent {
    XenEvent::PvTrap {
        trap: (word & 0x7fff) as u16,
        error_code: (word & 0x8000 != 0).then_some((word >> 16) as u16),
        rip,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reasons_tell_who_numbered_them() {
        assert_eq!(isa_of_reason(0x78), Some(Isa::Svm));
        assert_eq!(isa_of_reason(0x400), Some(Isa::Svm));
        assert_eq!(isa_of_reason(48), None);
        assert_eq!(isa_of_reason(0x8000_0021), Some(Isa::Vmx));
        assert_eq!(isa_of_reason(0xffff_ffff), Some(Isa::Svm), "VMEXIT_INVALID");
    }

    #[test]
    fn negative_slices_are_without_limit() {
        assert_eq!(slice(0xffff_ffff), None);
        assert_eq!(slice(30_000_000), Some(30_000_000));
    }
}
