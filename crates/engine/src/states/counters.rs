//! Numbers that hold until they change.
//!
//! **Boundary state.** Each is kept by whom it is about: a vCPU's polling window in
//! [`super::vcpu`], a device's requests in flight in [`super::block`]. A row is made when the
//! number changes, and one without value where a hole leaves it unknown.

use super::Env;
use transect_model::{
    ids::{BlockDevice, MachineId, VcpuId},
    state::CounterName,
    table::{Counter, Row},
};

impl Env<'_> {
    /// One row of the counters table. `vcpu` is the VM and vCPU, for a counter of one.
    pub(crate) fn counter(
        &mut self,
        t: i64,
        name: CounterName,
        vcpu: Option<(MachineId, VcpuId)>,
        device: Option<BlockDevice>,
        value: Option<i64>,
    ) {
        if !self.wants.counters {
            return;
        }
        self.sink.row(Row::Counter(Counter {
            ts: t.max(self.start),
            machine_id: vcpu.map_or(self.machine, |(vm, _)| vm),
            vcpu: vcpu.map(|(_, vcpu)| vcpu),
            cpu: None,
            device,
            name,
            value,
        }));
    }
}
