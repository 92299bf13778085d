//! How a guest's file says its time to trace-cmd: the TIMESHIFT option, where KVM's own numbers
//! are known. (Estimates are not written: trace-cmd could not say how far to trust them.)

use crate::manifest::{Manifest, SourceEntry, SourceFormat};
use transect_clock::evidence::Evidence;
use transect_model::ids::MachineId;
use transect_tracedat::{ShiftSample, TimeShift};

const TSC: &str = "x86-tsc";

/// The option for a guest's source: `host = guest - offset`, per vCPU. `None` if both sides are
/// not on the TSC, if KVM scales it (trace-cmd applies one sample without its scaling), or if an
/// offset changed while recording (then no single one is true).
pub(crate) fn of_source(
    manifest: &Manifest,
    entry: &SourceEntry,
    evidence: &[Evidence],
) -> Option<TimeShift> {
    let machine = manifest.machines.get(usize::try_from(entry.machine_id.0).ok()?)?;
    let host = manifest.sources.iter().find(|source| Some(source.machine_id) == machine.parent)?;
    // trace-cmd could not find a file that is none of its own.
    if host.format != SourceFormat::TraceDat {
        return None;
    }
    if host.clock != TSC || entry.clock != TSC {
        return None;
    }
    let mut cpus: Vec<Vec<ShiftSample>> = Vec::new();
    for (vcpu, offset) in offsets(evidence, entry.machine_id)? {
        let at = usize::try_from(vcpu).ok().filter(|at| *at < MAX_VCPUS)?;
        cpus.resize(cpus.len().max(at + 1), Vec::new());
        if cpus[at].iter().any(|sample| sample.offset != offset) {
            return None;
        }
        cpus[at] = vec![ShiftSample { time: 0, offset, scaling: 1, fraction: 0 }];
    }
    let known = !cpus.is_empty() && cpus.iter().all(|samples| !samples.is_empty());
    known.then_some(TimeShift { peer_trace_id: host.trace_id, flags: 0, cpus })
}

/// KVM allows 4096 (`KVM_MAX_VCPU_IDS` for x86 in 6.x).
const MAX_VCPUS: usize = 4096;

/// (vCPU, what to add to guest stamps) in order of time; `None` if one is scaled.
fn offsets(evidence: &[Evidence], guest: MachineId) -> Option<Vec<(u32, i64)>> {
    let of_guest = evidence.iter().filter_map(|record| match record {
        Evidence::TscOffset { machine, vcpu, offset, ratio, frac_bits, .. }
            if *machine == guest =>
        {
            let unity =
                |ratio: u64| frac_bits.and_then(|bits| 1u64.checked_shl(bits)) == Some(ratio);
            let plain = ratio.is_none_or(unity);
            Some(plain.then(|| offset.checked_neg().map(|shift| (vcpu.0, shift))).flatten())
        }
        _ => None,
    });
    of_guest.collect()
}
