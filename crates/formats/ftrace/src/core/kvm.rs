//! `kvm:*` (`arch/x86/kvm/trace.h`, `arch/arm64/kvm/trace_arm.h`,
//! `include/trace/events/kvm.h`).

use super::fields::{Decode, Fields, decoder};
use transect_model::{
    event::{Access, CoreEvent},
    exit::{ExitReason, Isa},
    ids::VcpuId,
};

/// x86: `vcpu_id` and, since 5.12, `rip`. arm64: `vcpu_pc` only.
pub(super) fn entry(f: &Fields<'_>) -> Option<Decode> {
    let (vcpu, rip) = (f.int(&["vcpu_id"]), f.int(&["rip", "vcpu_pc"]));
    if vcpu.is_none() && rip.is_none() {
        return None;
    }
    decoder(move |p| {
        Some(CoreEvent::KvmEntry {
            vcpu: optional(vcpu.map(|v| v.u32(p)))?.map(VcpuId),
            rip: optional(rip.map(|v| v.u64(p)))?,
        })
    })
}

/// A field this kernel lacks is no value; one it has but the record is too short for is an error.
fn optional<T>(field: Option<Option<T>>) -> Option<Option<T>> {
    match field {
        None => Some(None),
        Some(Some(value)) => Some(Some(value)),
        Some(None) => None,
    }
}

pub(super) fn exit(f: &Fields<'_>) -> Option<Decode> {
    if f.int(&["esr_ec"]).is_some() { exit_arm64(f) } else { exit_x86(f) }
}

fn exit_x86(f: &Fields<'_>) -> Option<Decode> {
    let (code, rip, isa) = (f.int(&["exit_reason"])?, f.int(&["guest_rip"])?, f.int(&["isa"])?);
    let (info1, info2) = (f.int(&["info1"]), f.int(&["info2"]));
    let vcpu = f.int(&["vcpu_id"]);
    decoder(move |p| {
        let isa = match isa.u32(p)? {
            1 => Isa::Vmx,
            2 => Isa::Svm,
            other => Isa::Other(other),
        };
        Some(CoreEvent::KvmExit {
            vcpu: optional(vcpu.map(|v| v.u32(p)))?.map(VcpuId),
            reason: ExitReason { isa, code: code.u32(p)? },
            rip: rip.u64(p)?,
            info1: optional(info1.map(|v| v.u64(p)))?.unwrap_or(0),
            info2: optional(info2.map(|v| v.u64(p)))?.unwrap_or(0),
        })
    })
}

/// `ARM_EXCEPTION_TRAP`: the exception class says why.
const ARM_EXCEPTION_TRAP: u32 = 2;

fn exit_arm64(f: &Fields<'_>) -> Option<Decode> {
    let (ret, esr_ec) = (f.int(&["ret"])?, f.int(&["esr_ec"])?);
    let pc = f.int(&["vcpu_pc"])?;
    decoder(move |p| {
        // The upper half of `ret` holds flags (`ARM_EXIT_WITH_SERROR_BIT`).
        let reason = match ret.u32(p)? & 0x7fff_ffff {
            ARM_EXCEPTION_TRAP => ExitReason { isa: Isa::Arm64, code: esr_ec.u32(p)? },
            code => ExitReason { isa: Isa::Arm64Ret, code },
        };
        Some(CoreEvent::KvmExit { vcpu: None, reason, rip: pc.u64(p)?, info1: 0, info2: 0 })
    })
}

pub(super) fn hypercall(f: &Fields<'_>) -> Option<Decode> {
    let nr = f.int(&["nr"])?;
    let args = [f.int(&["a0"])?, f.int(&["a1"])?, f.int(&["a2"])?, f.int(&["a3"])?];
    decoder(move |p| {
        Some(CoreEvent::KvmHypercall {
            nr: nr.u64(p)?,
            args: [args[0].u64(p)?, args[1].u64(p)?, args[2].u64(p)?, args[3].u64(p)?],
        })
    })
}

pub(super) fn userspace_exit(f: &Fields<'_>) -> Option<Decode> {
    let (reason, errno) = (f.int(&["reason"])?, f.int(&["errno"])?);
    decoder(move |p| {
        Some(CoreEvent::KvmUserspaceExit { reason: reason.u32(p)?, errno: errno.i32(p)? })
    })
}

pub(super) fn vcpu_wakeup(f: &Fields<'_>) -> Option<Decode> {
    let (ns, waited) = (f.int(&["ns"])?, f.int(&["waited"])?);
    // `valid` came with Linux 4.6; before, every poll was.
    let valid = f.int(&["valid"]);
    decoder(move |p| {
        Some(CoreEvent::KvmVcpuWakeup {
            ns: ns.u64(p)?,
            waited: waited.bool(p)?,
            valid: optional(valid.map(|v| v.bool(p)))?.unwrap_or(true),
        })
    })
}

pub(super) fn halt_poll_ns(f: &Fields<'_>) -> Option<Decode> {
    let (vcpu, new, old) = (f.int(&["vcpu_id"])?, f.int(&["new"])?, f.int(&["old"])?);
    decoder(move |p| {
        Some(CoreEvent::KvmHaltPollNs {
            vcpu: VcpuId(vcpu.u32(p)?),
            new_ns: new.u32(p)?,
            old_ns: old.u32(p)?,
        })
    })
}

pub(super) fn pio(f: &Fields<'_>) -> Option<Decode> {
    let (rw, port) = (f.int(&["rw"])?, f.int(&["port"])?);
    let (size, count, value) = (f.int(&["size"])?, f.int(&["count"])?, f.int(&["val"]));
    decoder(move |p| {
        let is_write = rw.bool(p)?;
        Some(CoreEvent::KvmPio {
            access: if is_write { Access::Write } else { Access::Read },
            // What is read comes later.
            value: value.filter(|_| is_write).and_then(|value| value.u64(p)),
            port: port.u32(p)?,
            size: size.u32(p)?,
            count: count.u32(p)?,
        })
    })
}

pub(super) fn mmio(f: &Fields<'_>) -> Option<Decode> {
    let (kind, gpa, len) = (f.int(&["type"])?, f.int(&["gpa"])?, f.int(&["len"])?);
    let value = f.int(&["val"]);
    decoder(move |p| {
        let access = match kind.u32(p)? {
            0 => Access::UnsatisfiedRead,
            2 => Access::Write,
            _ => Access::Read,
        };
        let value = value.filter(|_| access == Access::Write).and_then(|value| value.u64(p));
        Some(CoreEvent::KvmMmio { access, gpa: gpa.u64(p)?, len: len.u32(p)?, value })
    })
}

pub(super) fn fast_mmio(f: &Fields<'_>) -> Option<Decode> {
    let gpa = f.int(&["gpa"])?;
    decoder(move |p| Some(CoreEvent::KvmFastMmio { gpa: gpa.u64(p)? }))
}

pub(super) fn page_fault(f: &Fields<'_>) -> Option<Decode> {
    let (gpa, error_code) = (f.int(&["fault_address"])?, f.int(&["error_code"])?);
    decoder(move |p| {
        Some(CoreEvent::KvmPageFault { gpa: gpa.u64(p)?, error_code: error_code.u64(p)? })
    })
}

/// arm64's name for the same thing; its syndrome register takes the error code's place.
pub(super) fn guest_fault(f: &Fields<'_>) -> Option<Decode> {
    let (gpa, syndrome) = (f.int(&["ipa"])?, f.int(&["hsr"])?);
    decoder(move |p| {
        Some(CoreEvent::KvmPageFault { gpa: gpa.u64(p)?, error_code: syndrome.u64(p)? })
    })
}

pub(super) fn set_irq(f: &Fields<'_>) -> Option<Decode> {
    let (gsi, level) = (f.int(&["gsi"])?, f.int(&["level"])?);
    decoder(move |p| Some(CoreEvent::KvmSetIrq { gsi: gsi.u32(p)?, level: level.i32(p)? }))
}

pub(super) fn msi(f: &Fields<'_>) -> Option<Decode> {
    let (address, data) = (f.int(&["address"])?, f.int(&["data"])?);
    decoder(move |p| Some(CoreEvent::KvmMsi { address: address.u64(p)?, data: data.u64(p)? }))
}

/// `apicid` is the vCPU's number (arch/x86/kvm/lapic.c); `dm` is as in the register, from bit 8 on.
pub(super) fn accept(f: &Fields<'_>, hardware: bool) -> Option<Decode> {
    let (vcpu, vector, mode) = (f.int(&["apicid"])?, f.int(&["vec"])?, f.int(&["dm"])?);
    let context = f.context();
    decoder(move |p| {
        Some(CoreEvent::KvmAccept {
            vcpu: VcpuId(vcpu.u32(p)?),
            vector: vector.u32(p)?,
            mode: mode.u32(p)? >> 8 & 7,
            hardware,
            context: context(p),
        })
    })
}

/// `vector` was called `irq` before Linux 6.0.
pub(super) fn inj_virq(f: &Fields<'_>) -> Option<Decode> {
    let vector = f.int(&["vector", "irq"])?;
    let reinjected = f.int(&["reinjected"]);
    decoder(move |p| {
        let reinjected = reinjected.and_then(|reinjected| reinjected.bool(p)).unwrap_or(false);
        Some(CoreEvent::KvmInjVirq { vector: vector.u32(p)?, reinjected })
    })
}

pub(super) fn write_tsc_offset(f: &Fields<'_>) -> Option<Decode> {
    let vcpu = f.int(&["vcpu_id"])?;
    let (previous, next) = (f.int(&["previous_tsc_offset"])?, f.int(&["next_tsc_offset"])?);
    decoder(move |p| {
        Some(CoreEvent::KvmWriteTscOffset {
            vcpu: VcpuId(vcpu.u32(p)?),
            previous: previous.u64(p)?,
            next: next.u64(p)?,
        })
    })
}
