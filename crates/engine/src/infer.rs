//! vCPUs that nothing but the trace names: which thread is which vCPU of which VM.
//!
//! `kvm_entry` says which vCPU the current thread runs (`vcpu_id`), not of which VM. VMs are told
//! apart by what is known, best first: the process of the thread; else by thread numbers: a VMM
//! creates its vCPU threads one after the other, so vCPU k+1 of the same VM is the thread with the
//! next higher number that is vCPU k+1. Every inference is logged, so that nobody takes it for more
//! than it is.

use serde::{Deserialize, Serialize};
use transect_model::ids::{MachineId, Tid, VcpuId};

/// Threads further apart than this are not taken for vCPUs of one VM. A VMM starts its vCPU threads
/// within a second; other threads of the machine may be created in between.
const MAX_TID_DISTANCE: i32 = 64;

/// A vCPU thread seen in the trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Found {
    pub(crate) vm: MachineId,
    pub(crate) host: MachineId,
    pub(crate) vcpu: VcpuId,
    pub(crate) tid: Tid,
    pub(crate) pid: Option<Tid>,
}

/// Groups (vCPU, thread) pairs of one host into VMs, numbered from `first`: what a look through the
/// whole recording gives before the run, so that states are known from the beginning.
pub(crate) fn group(
    pairs: impl IntoIterator<Item = (VcpuId, Tid)>,
    host: MachineId,
    first: u32,
) -> Vec<(MachineId, VcpuId, Tid)> {
    let mut known: Vec<Found> = Vec::new();
    let mut next = first;
    let mut sorted: Vec<(VcpuId, Tid)> = pairs.into_iter().collect();
    sorted.sort_by_key(|(vcpu, tid)| (tid.0, *vcpu));
    for (vcpu, tid) in sorted {
        let vm = vm_of(&known, host, vcpu, tid, None).unwrap_or_else(|| {
            next += 1;
            MachineId(next - 1)
        });
        known.push(Found { vm, host, vcpu, tid, pid: None });
    }
    known.into_iter().map(|f| (f.vm, f.vcpu, f.tid)).collect()
}

/// The VM among `known` that the new thread belongs to; none if it starts another.
pub(crate) fn vm_of(
    known: &[Found],
    host: MachineId,
    vcpu: VcpuId,
    tid: Tid,
    pid: Option<Tid>,
) -> Option<MachineId> {
    let here = || known.iter().filter(move |f| f.host == host);
    if let Some(pid) = pid
        && let Some(found) = here().find(|f| f.pid == Some(pid))
    {
        return Some(found.vm);
    }
    let candidates = here().filter(|f| pid.is_none() || f.pid.is_none());
    candidates
        .filter(|f| fits(f, vcpu, tid))
        .filter(|f| !here().any(|other| other.vm == f.vm && other.vcpu == vcpu))
        .min_by_key(|f| f.tid.0.abs_diff(tid.0))
        .map(|f| f.vm)
}

/// Do number and thread order agree with one VM's?
fn fits(found: &Found, vcpu: VcpuId, tid: Tid) -> bool {
    let near = found.tid.0.abs_diff(tid.0) <= MAX_TID_DISTANCE.unsigned_abs();
    near && (found.tid < tid) == (found.vcpu < vcpu)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Feeds (vcpu, tid) pairs and returns the VM each was given.
    fn group(seen: &[(u32, i32)]) -> Vec<u32> {
        let mut known: Vec<Found> = Vec::new();
        let mut next = 1;
        for (vcpu, tid) in seen {
            let (vcpu, tid) = (VcpuId(*vcpu), Tid(*tid));
            let vm = vm_of(&known, MachineId(0), vcpu, tid, None).unwrap_or_else(|| {
                next += 1;
                MachineId(next - 1)
            });
            known.push(Found { vm, host: MachineId(0), vcpu, tid, pid: None });
        }
        known.iter().map(|f| f.vm.0).collect()
    }

    #[test]
    fn two_vms_of_two_vcpus_in_any_order() {
        assert_eq!(group(&[(0, 162), (1, 163), (0, 180), (1, 181)]), [1, 1, 2, 2]);
        assert_eq!(group(&[(1, 163), (0, 180), (0, 162), (1, 181)]), [1, 2, 1, 2]);
    }

    #[test]
    fn far_threads_are_other_vms() {
        assert_eq!(group(&[(0, 100), (1, 5000)]), [1, 2]);
    }
}
