//! Why a VM exit happened: hardware exit reasons and the reasons `KVM_RUN` returned for.
//!
//! A reason is kept as the number the hardware gave plus the instruction set that numbered it;
//! names are looked up only when something is printed.

mod names;

use serde::{Deserialize, Serialize};
use std::{borrow::Cow, collections::HashMap, fmt, sync::OnceLock};

/// Who numbered the exit reason.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Isa {
    /// Intel VMX basic exit reasons (`isa == 1` in `kvm_exit`).
    Vmx,
    /// AMD SVM exit codes (`isa == 2`).
    Svm,
    /// arm64 exception classes (`esr_ec` of arm64's `kvm_exit`).
    Arm64,
    /// arm64 exits that are not traps (`ret`: IRQ, SError, …).
    Arm64Ret,
    /// No exit of the hardware: a hypercall of a Xen PV guest (`__HYPERVISOR_*`).
    XenHypercall,
    /// No exit of the hardware: an exception of a Xen PV guest, by its x86 vector.
    XenTrap,
    /// An instruction set this version does not know; the number is still kept.
    Other(u32),
}

/// One exit reason. `Display` prints the kernel's name, or the number if it has none.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct ExitReason {
    /// Who numbered it.
    pub isa: Isa,
    /// The number, as `kvm_exit` recorded it.
    pub code: u32,
}

/// Set in a VMX exit reason when the entry itself failed (`VMX_EXIT_REASONS_FAILED_VMENTRY`).
const VMX_FAILED_VMENTRY: u32 = 0x8000_0000;

impl ExitReason {
    /// The name as the kernel prints it at `kvm:kvm_exit` (`hlt`, `EPT_VIOLATION`, `WFx`).
    pub fn name(self) -> Cow<'static, str> {
        let table = match self.isa {
            Isa::Vmx => names::VMX,
            Isa::Svm => names::SVM,
            Isa::Arm64 => names::ARM64_EC,
            Isa::Arm64Ret => return arm64_ret_name(self.code),
            Isa::XenHypercall => return xen_hypercall_name(self.code),
            Isa::XenTrap => return xen_trap_name(self.code),
            Isa::Other(isa) => return format!("isa{isa}:0x{:x}", self.code).into(),
        };
        let basic = if self.isa == Isa::Vmx { self.code & 0xffff } else { self.code };
        let name = match table.binary_search_by_key(&basic, |row| row.0) {
            Ok(at) => Cow::Borrowed(table[at].1),
            Err(_) => Cow::Owned(format!("0x{basic:x}")),
        };
        if self.isa == Isa::Vmx && self.code & VMX_FAILED_VMENTRY != 0 {
            return format!("{name} FAILED_VMENTRY").into();
        }
        name
    }

    /// The reason of this name, such that [`name`](Self::name) gives the name again; none if no
    /// reason is called so. Instruction sets that call different numbers the same (`0x7777`) cannot
    /// be told apart: it is of the first of them.
    pub fn by_name(name: &str) -> Option<Self> {
        if let Some(known) = known().get(name) {
            return Some(*known);
        }
        let reason = Self::by_number(name)?;
        (reason.name() == name).then_some(reason)
    }

    /// Of a name that holds its number, for want of a better one.
    fn by_number(name: &str) -> Option<Self> {
        let hex = |text: &str| u32::from_str_radix(text.strip_prefix("0x")?, 16).ok();
        let reason = |isa, code: Option<u32>| Some(ExitReason { isa, code: code? });
        if let Some(basic) = name.strip_suffix(" FAILED_VMENTRY") {
            let code = Self::by_name(basic).filter(|r| r.isa == Isa::Vmx).map(|r| r.code);
            return reason(Isa::Vmx, code.or(hex(basic)).map(|code| code | VMX_FAILED_VMENTRY));
        }
        if let Some((isa, code)) = name.strip_prefix("isa").and_then(|rest| rest.split_once(':')) {
            return reason(Isa::Other(isa.parse().ok()?), hex(code));
        }
        if let Some(code) = name.strip_prefix("hypercall ") {
            return reason(Isa::XenHypercall, code.parse().ok());
        }
        if let Some(code) = name.strip_prefix("trap ") {
            return reason(Isa::XenTrap, code.parse().ok());
        }
        if let Some(code) = name.strip_prefix("ret") {
            return reason(Isa::Arm64Ret, code.parse().ok());
        }
        let code = hex(name)?;
        let candidates = [Isa::Vmx, Isa::Svm, Isa::Arm64].map(|isa| ExitReason { isa, code });
        candidates.into_iter().find(|reason| reason.name() == name)
    }

    /// Is this the guest halting on purpose (HLT, WFI)? Its time until the next entry is
    /// `halted`, not exit handling.
    pub fn is_halt(self) -> bool {
        matches!(
            (self.isa, self.code),
            (Isa::Vmx, 12) | (Isa::Svm, 0x78) | (Isa::Svm, 0xa6) | (Isa::Arm64, 0x01)
        )
    }

    /// Is this the guest pausing in a loop (PAUSE, or a yielding instruction of that kind)?
    pub fn is_pause(self) -> bool {
        matches!((self.isa, self.code), (Isa::Vmx, 40) | (Isa::Svm, 0x77))
    }

    /// Is this a hypercall (VMCALL, VMMCALL, HVC)?
    pub fn is_hypercall(self) -> bool {
        matches!(
            (self.isa, self.code),
            (Isa::Vmx, 18) | (Isa::Svm, 0x81) | (Isa::Arm64, 0x12 | 0x16) | (Isa::XenHypercall, _)
        )
    }
}

/// Every reason that has a name, by its name.
fn known() -> &'static HashMap<Cow<'static, str>, ExitReason> {
    static KNOWN: OnceLock<HashMap<Cow<'static, str>, ExitReason>> = OnceLock::new();
    KNOWN.get_or_init(|| {
        let of = |isa, table: &'static [(u32, &'static str)]| {
            table.iter().map(move |(code, _)| ExitReason { isa, code: *code })
        };
        let tables = of(Isa::Vmx, names::VMX)
            .chain(of(Isa::Svm, names::SVM))
            .chain(of(Isa::Arm64, names::ARM64_EC))
            .chain((0..4).map(|code| ExitReason { isa: Isa::Arm64Ret, code }))
            .chain(of(Isa::XenHypercall, names::XEN_HYPERCALLS))
            .chain(of(Isa::XenTrap, names::XEN_TRAPS));
        let mut known = HashMap::new();
        for reason in tables {
            // The first of a name keeps it.
            known.entry(reason.name()).or_insert(reason);
        }
        known
    })
}

/// A hypercall's name without `__HYPERVISOR_` (`xen/include/public/xen.h`, Xen 4.17), behind a word
/// that says what it is.
fn xen_hypercall_name(op: u32) -> Cow<'static, str> {
    match names::XEN_HYPERCALLS.binary_search_by_key(&op, |row| row.0) {
        Ok(at) => Cow::Borrowed(names::XEN_HYPERCALLS[at].1),
        Err(_) => format!("hypercall {op}").into(),
    }
}

fn xen_trap_name(vector: u32) -> Cow<'static, str> {
    match names::XEN_TRAPS.binary_search_by_key(&vector, |row| row.0) {
        Ok(at) => Cow::Borrowed(names::XEN_TRAPS[at].1),
        Err(_) => format!("trap {vector}").into(),
    }
}

/// `ARM_EXCEPTION_*` of arm64's `kvm_exit` when no trap was taken
/// (`arch/arm64/include/asm/kvm_asm.h`, Linux 6.18).
fn arm64_ret_name(code: u32) -> Cow<'static, str> {
    match code {
        0 => "IRQ".into(),
        1 => "EL1_SERROR".into(),
        2 => "TRAP".into(),
        3 => "IL".into(),
        other => format!("ret{other}").into(),
    }
}

impl fmt::Display for ExitReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name())
    }
}

/// Name of a `KVM_EXIT_*` reason with which `KVM_RUN` returned to the VMM, without the prefix.
pub fn userspace_reason_name(reason: u32) -> Cow<'static, str> {
    match usize::try_from(reason).ok().and_then(|at| names::USERSPACE.get(at)) {
        Some(name) => Cow::Borrowed(name),
        None => Cow::Owned(format!("{reason}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_the_kernels() {
        let name = |isa, code| ExitReason { isa, code }.to_string();
        assert_eq!(name(Isa::Svm, 0x78), "hlt");
        assert_eq!(name(Isa::Svm, 0x400), "npf");
        assert_eq!(name(Isa::Svm, 0xffff_ffff), "invalid_guest_state");
        assert_eq!(name(Isa::Vmx, 48), "EPT_VIOLATION");
        assert_eq!(name(Isa::Vmx, 0x8000_0021), "INVALID_STATE FAILED_VMENTRY");
        assert_eq!(name(Isa::Arm64, 0x24), "DABT_LOW");
        assert_eq!(name(Isa::Svm, 0x7777), "0x7777");
        assert_eq!(name(Isa::XenHypercall, 29), "hypercall sched_op");
        assert_eq!(name(Isa::XenHypercall, 99), "hypercall 99");
        assert_eq!(name(Isa::XenTrap, 14), "trap page_fault");
    }

    /// Every name there is, and numbers without one, give a reason of the same name; of one that is
    /// called so in one instruction set only, the same reason.
    #[test]
    fn a_name_gives_its_reason() {
        use Isa::{Arm64, Arm64Ret, Other, Svm, Vmx, XenHypercall, XenTrap};
        let isas = [Vmx, Svm, Arm64, Arm64Ret, XenHypercall, XenTrap, Other(0), Other(u32::MAX)];
        let codes = (0..0x500).chain([0x8000_0021, 0x8000_7777, u32::MAX]);
        let reasons: Vec<_> =
            codes.flat_map(|code| isas.map(|isa| ExitReason { isa, code })).collect();
        for reason in &reasons {
            let read = ExitReason::by_name(&reason.name()).unwrap();
            assert_eq!(read.name(), reason.name());
            assert!(read == *reason || !reason.is_halt(), "{reason} is another's halt");
            assert!(read == *reason || !reason.is_hypercall(), "{reason}");
        }
        for none in ["", "0x", "0xg", "hlt ", "isa:0x1", "isa1", "hypercall x", "trap x", "ret-1"] {
            assert_eq!(ExitReason::by_name(none), None, "{none:?}");
        }
    }

    #[test]
    fn tables_are_sorted_for_binary_search() {
        for table in
            [names::VMX, names::SVM, names::ARM64_EC, names::XEN_HYPERCALLS, names::XEN_TRAPS]
        {
            assert!(table.windows(2).all(|w| w[0].0 < w[1].0));
        }
    }

    #[test]
    fn userspace_names() {
        assert_eq!(userspace_reason_name(2), "IO");
        assert_eq!(userspace_reason_name(4_000_000), "4000000");
    }
}
