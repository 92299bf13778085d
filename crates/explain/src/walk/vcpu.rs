//! A vCPU without a thread that is known (Xen): its own states are its path.

use super::{
    place::{is_parked, work_of},
    state::{Walk, Walked},
};
use crate::{
    piece::{Doing, Piece, ThreadId},
    rows::{Before, Rows},
};
use transect_model::{
    ids::{MachineId, VcpuId},
    state::VcpuState,
};

/// How the vCPU spent the window. Whoever ended its sleep is not known: event channels are not recorded.
pub(super) fn walk_vcpu(
    rows: &Rows<'_>,
    vcpu: (MachineId, VcpuId),
    (from, until): (i64, i64),
    see: &mut dyn FnMut(&Piece),
) -> Walked {
    let nobody = ThreadId::nobody(vcpu.0);
    let mut walk = Walk::new(rows, nobody, (from, until), see);
    while walk.t > from {
        walk.walked.steps += 1;
        let piece = |walk: &Walk<'_, '_>, cpu, doing| Piece {
            tid: None,
            vcpu: Some(vcpu.1),
            ..walk.of_thread(nobody, cpu, doing)
        };
        let row = match walk.vcpu(vcpu) {
            Before::Row(row) => row,
            Before::Gap(since) => {
                walk.emit(since.max(from), piece(&walk, None, Doing::Unknown));
                continue;
            }
        };
        let low = row.ts.max(from);
        let doing = match row.state {
            VcpuState::Guest | VcpuState::Running => Doing::Running,
            VcpuState::Preempted | VcpuState::Waking => Doing::VcpuWait,
            VcpuState::Halted | VcpuState::Blocked => Doing::Unrecorded,
            VcpuState::Offline if is_parked(rows, vcpu, &row) => Doing::VcpuWait,
            VcpuState::Offline => Doing::Offline,
            state => work_of(state).unwrap_or(Doing::Unknown),
        };
        let piece = Piece { reason: row.reason(), ..piece(&walk, row.cpu(), doing) };
        match doing {
            Doing::VcpuWait => {
                walk.emit_vcpu_wait(low, &row, vcpu, Piece { reason: None, ..piece })
            }
            _ => walk.emit(low, piece),
        }
    }
    walk.finish()
}
