//! VM exits: one row from `kvm_exit` to the next `kvm_entry` of the same vCPU.
//!
//! **Boundary state.** The open exit. Every `kvm_exit` event makes exactly one row, so that counts
//! by reason equal the events': an exit whose entry is beyond the end, inside a hole, or was not
//! recorded has a null `dur`.

use super::Env;
use serde::{Deserialize, Serialize};
use transect_model::{
    exit::ExitReason,
    ids::{MachineId, VcpuId},
    table::{Exit, Row},
};

/// An exit that waits for its entry.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(crate) struct OpenExit {
    pub(crate) ts: i64,
    pub(crate) reason: ExitReason,
    pub(crate) rip: u64,
    pub(crate) to_user: bool,
    pub(crate) detail: Option<u64>,
    /// The vCPU thread's time on CPUs when the exit began, ns.
    pub(crate) on_cpu_ns: i64,
}

impl OpenExit {
    /// Emits the row. `entry` is the next entry's stamp and the thread's time on CPUs by then.
    pub(crate) fn close(
        &self,
        machine_id: MachineId,
        vcpu: VcpuId,
        entry: Option<(i64, i64)>,
        env: &mut Env<'_>,
    ) {
        if self.ts < env.start || !env.wants.exits {
            return;
        }
        env.sink.row(Row::Exit(Exit {
            ts: self.ts,
            dur: entry.map(|(t, _)| t - self.ts),
            // Without the scheduler's events it is not known how long the thread was on a CPU.
            handling_ns: entry
                .filter(|_| env.deduce)
                .map(|(_, on_cpu_ns)| on_cpu_ns - self.on_cpu_ns),
            machine_id,
            vcpu,
            reason: self.reason,
            rip: self.rip,
            to_user: self.to_user,
            detail: self.detail,
        }));
    }
}
