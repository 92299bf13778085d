//! Lost events: one row per hole, as wide as what it hides.
//!
//! A hole in one CPU's stream lasts from that stream's last event before it to its first after it.
//! What it does to states is with the machines that own them ([`super::thread`], [`super::vcpu`],
//! [`super::pcpu`]).

use super::Env;
use crate::stream::LostCause;
use serde::{Deserialize, Serialize};
use transect_model::{
    ids::CpuId,
    table::{Lost, Row},
};

/// A hole in trace time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Hole {
    pub(crate) from: i64,
    /// None if nothing follows it.
    pub(crate) until: Option<i64>,
    pub(crate) count: Option<u64>,
    pub(crate) cause: LostCause,
}

impl Hole {
    /// Emits the row; `cpu` is none if the whole machine is missing.
    pub(crate) fn emit(self, cpu: Option<CpuId>, end: i64, env: &mut Env<'_>) {
        let ts = self.from.max(env.start);
        env.sink.row(Row::Lost(Lost {
            ts,
            dur: (self.until.unwrap_or(end) - ts).max(0),
            machine_id: env.machine,
            cpu,
            count: self.count,
            cause: self.cause.as_str().to_owned(),
        }));
    }
}
