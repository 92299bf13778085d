//! Exits of vCPUs: what they are about is kept once for all that are alike.

use super::packed::{Map, VcpuOf};
use transect_model::{exit::ExitReason, table::Exit};

const _: () = assert!(size_of::<Exited>() <= 24);

/// What an exit is about, and where it comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct ExitKind {
    pub(crate) reason: ExitReason,
    pub(crate) detail: Option<u64>,
    pub(crate) rip: u64,
}

/// An exit.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Exited {
    pub(crate) ts: i64,
    /// 0 if it is not known.
    pub(crate) handling_ns: i64,
    /// Number of its kind.
    pub(crate) kind: u32,
}

/// The exits of all vCPUs.
#[derive(Debug, Default)]
pub(crate) struct Exits {
    kinds: Vec<ExitKind>,
    numbers: Map<ExitKind, u32>,
    of: Map<VcpuOf, Vec<Exited>>,
}

impl Exits {
    pub(super) fn push(&mut self, row: &Exit) {
        let kind = ExitKind { reason: row.reason, detail: row.detail, rip: row.rip };
        let kinds = &mut self.kinds;
        let number = *self.numbers.entry(kind).or_insert_with(|| {
            kinds.push(kind);
            u32::try_from(kinds.len() - 1).unwrap_or(u32::MAX)
        });
        let handling_ns = row.handling_ns.unwrap_or(0);
        let exit = Exited { ts: row.ts, handling_ns, kind: number };
        self.of.entry((row.machine_id, row.vcpu)).or_default().push(exit);
    }

    /// Those of one vCPU after another, in order.
    pub(crate) fn by_vcpu(&self) -> Vec<(VcpuOf, &[Exited])> {
        let mut all: Vec<_> = self.of.iter().map(|(of, exits)| (*of, exits.as_slice())).collect();
        all.sort_unstable_by_key(|(of, _)| *of);
        all
    }

    /// What exits of the number are about.
    pub(crate) fn kind(&self, number: u32) -> ExitKind {
        self.kinds[number as usize]
    }
}
