//! Instructions that leave a guest.
#![allow(unsafe_code, reason = "port writes and hypercalls have no other form")]

use std::{arch::asm, arch::x86_64::__cpuid, hint::black_box, io};

/// How KVM calls itself (Linux, arch/x86/include/uapi/asm/kvm_para.h).
pub(super) const KVM: &[u8; 12] = b"KVMKVMKVM\0\0\0";
/// Where firmware writes how far it has come; nothing listens.
const PORT: u16 = 0x80;
/// Linux itself uses small numbers; KVM refuses this one, which takes as long as any.
const HYPERCALL_NR: u64 = 1000;

/// How the hypervisor calls itself: leaf 0x40000000.
pub(super) fn hypervisor() -> [u8; 12] {
    let leaf = __cpuid(0x4000_0000);
    let mut name = [0; 12];
    for (at, part) in [leaf.ebx, leaf.ecx, leaf.edx].into_iter().enumerate() {
        name[4 * at..4 * at + 4].copy_from_slice(&part.to_le_bytes());
    }
    name
}

/// Intercepted always on Intel, and on AMD by every hypervisor.
pub(super) fn cpuid() {
    black_box(__cpuid(0));
}

/// Lets this process, and what it forks, write to the port.
pub(super) fn allow_port() -> io::Result<()> {
    // SAFETY: changes which ports this process may use, no memory.
    match unsafe { libc::ioperm(PORT.into(), 1, 1) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// After [`allow_port`]; else the kernel ends the process.
pub(super) fn write_port() {
    // SAFETY: the port is a diagnostic display, touches no memory, and changes no register or flag.
    unsafe { asm!("out 0x80, al", in("al") 0u8, options(nomem, nostack, preserves_flags)) }
}

/// The hypercall of this vendor's CPUs.
pub(super) fn hypercall() -> fn() {
    let leaf = __cpuid(0);
    // "GenuineIntel": the others have AMD's instruction.
    if leaf.ebx == u32::from_le_bytes(*b"Genu") { vmcall } else { vmmcall }
}

fn vmcall() {
    // SAFETY: KVM answers in rax (-EPERM to a program, -ENOSYS to the number) and changes nothing else.
    unsafe { asm!("vmcall", inout("rax") HYPERCALL_NR => _, options(nostack)) }
}

fn vmmcall() {
    // SAFETY: as above.
    unsafe { asm!("vmmcall", inout("rax") HYPERCALL_NR => _, options(nostack)) }
}
