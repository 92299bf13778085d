//! Packets between the kernel and network drivers: one event, one row, no boundary state.

use super::Env;
use crate::at::At;
use transect_model::{
    event::DeviceName,
    state::NetDirection,
    table::{NetIo, Row},
};

impl Env<'_> {
    /// One row of the net_io table; `code` is the driver's answer to what was sent.
    pub(crate) fn packet(&mut self, at: At, device: DeviceName, bytes: u32, code: Option<i32>) {
        if at.t < self.start || !self.wants.net_io {
            return;
        }
        let direction = if code.is_some() { NetDirection::Xmit } else { NetDirection::Receive };
        self.sink.row(Row::NetIo(NetIo {
            ts: at.t,
            machine_id: self.machine,
            cpu: at.cpu,
            tid: at.tid,
            device,
            direction,
            bytes: u64::from(bytes),
            code,
        }));
    }
}
