//! Why a VM exit happened: hardware exit reasons and the reasons `KVM_RUN` returned for.
//!
//! A reason is kept as the number the hardware gave plus the instruction set that numbered it;
//! names are looked up only when something is printed.

mod names;

use serde::{Deserialize, Serialize};
use std::{borrow::Cow, fmt};

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

    /// Is this the guest halting on purpose (HLT, WFI)? Its time until the next entry is
    /// `halted`, not exit handling.
    pub fn is_halt(self) -> bool {
        matches!(
            (self.isa, self.code),
            (Isa::Vmx, 12) | (Isa::Svm, 0x78) | (Isa::Svm, 0xa6) | (Isa::Arm64, 0x01)
        )
    }

    /// Is this a hypercall (VMCALL, VMMCALL, HVC)?
    pub fn is_hypercall(self) -> bool {
        matches!(
            (self.isa, self.code),
            (Isa::Vmx, 18) | (Isa::Svm, 0x81) | (Isa::Arm64, 0x12 | 0x16) | (Isa::XenHypercall, _)
        )
    }
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
