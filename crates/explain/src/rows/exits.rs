//! Exits of vCPUs.

use super::keys::{Map, VcpuOf};
use transect_model::{exit::ExitReason, table::Exit};

const _: () = assert!(size_of::<Exited>() <= 48);

/// An exit.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Exited {
    pub(crate) ts: i64,
    /// 0 if it is not known.
    pub(crate) handling_ns: i64,
    /// Where it comes from.
    pub(crate) rip: u64,
    detail: u64,
    has_detail: bool,
    pub(crate) reason: ExitReason,
}

impl Exited {
    /// What it is about.
    pub(crate) fn detail(&self) -> Option<u64> {
        self.has_detail.then_some(self.detail)
    }
}

/// The exits of all vCPUs.
#[derive(Debug, Default)]
pub(crate) struct Exits(Map<VcpuOf, Vec<Exited>>);

impl Exits {
    pub(super) fn push(&mut self, row: &Exit) {
        let exit = Exited {
            ts: row.ts,
            handling_ns: row.handling_ns.unwrap_or(0),
            rip: row.rip,
            detail: row.detail.unwrap_or(0),
            has_detail: row.detail.is_some(),
            reason: row.reason,
        };
        self.0.entry((row.machine_id, row.vcpu)).or_default().push(exit);
    }

    pub(super) fn append(&mut self, other: Exits) {
        self.0.extend(other.0);
    }

    /// Those of one vCPU after another, in order.
    pub(crate) fn by_vcpu(&self) -> Vec<(VcpuOf, &[Exited])> {
        let mut all: Vec<_> = self.0.iter().map(|(of, exits)| (*of, exits.as_slice())).collect();
        all.sort_unstable_by_key(|(of, _)| *of);
        all
    }
}
