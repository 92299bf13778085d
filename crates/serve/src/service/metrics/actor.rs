//! What is counted of a VM, a vCPU or a control group, and how long things took.

use std::collections::BTreeMap;
use transect_live::{ActorWindow, Histogram, Snapshot};
use transect_model::ids::MachineId;

/// Upper bounds of the buckets: 2¹⁰ ns (1.024 µs), every fourfold of it, 2³⁴ ns (17 s). At powers of two
/// a bucket is a whole number of those that are counted in the kernel.
pub(super) const BOUNDS: [u64; 13] = {
    let mut bounds = [0; 13];
    let mut n = 0;
    while n < 13 {
        bounds[n] = 1 << (10 + 2 * n);
        n += 1;
    }
    bounds
};

/// How long things took.
#[derive(Clone, Default)]
pub(super) struct Lengths {
    /// By bucket, the last without a bound; not added up.
    pub(super) counts: [u64; BOUNDS.len() + 1],
    pub(super) total_ns: i64,
}

impl Lengths {
    pub(super) fn add(&mut self, lengths: &Histogram, total_ns: i64) {
        self.total_ns += total_ns;
        for ((_, to), count) in lengths.buckets() {
            let fits = |bound: &u64| to.is_some_and(|to| to <= *bound);
            let bucket = BOUNDS.iter().position(fits).unwrap_or(BOUNDS.len());
            if let Some(sum) = self.counts.get_mut(bucket) {
                *sum += count;
            }
        }
    }

    pub(super) fn count(&self) -> u64 {
        self.counts.iter().sum()
    }
}

/// Where time went. Together they are the time that was watched.
pub(super) const STATES: [&str; 7] =
    ["running", "preempted", "waking", "asleep", "halted", "offline", "unknown"];

/// Columns that actors are counted by: of [`STATES`], then the others.
const COLUMNS: [&str; 16] = [
    "gotten_ns",
    "waited_ns",
    "waking_ns",
    "blocked_ns",
    "halted_ns",
    "offline_ns",
    "unknown_ns",
    "guest_ns",
    "poll_ns",
    "executions",
    "migrations",
    "exits",
    "io_count",
    "injections",
    "halts",
    "halts_polled",
];
const HALTED: usize = 4;

/// Which columns cannot be had: asked once a window, for those machines apart that lack something of their
/// own.
pub(super) struct Lacking {
    common: [bool; COLUMNS.len()],
    own: BTreeMap<MachineId, [bool; COLUMNS.len()]>,
}

impl Lacking {
    pub(super) fn in_window(window: &Snapshot) -> Self {
        let ids = window.missing.iter().filter_map(|missing| missing.machine_id);
        let of = |id| COLUMNS.map(|column| window.lacks(column, id));
        Lacking {
            common: COLUMNS.map(|column| window.lacks_everywhere(column)),
            own: ids.map(|id| (id, of(id))).collect(),
        }
    }

    fn of(&self, machine: MachineId) -> &[bool; COLUMNS.len()] {
        self.own.get(&machine).unwrap_or(&self.common)
    }
}

/// Sums of one actor. What could never be had is none.
#[derive(Clone, Default)]
pub(super) struct Actor {
    pub(super) states_ns: [Option<i64>; STATES.len()],
    pub(super) guest_ns: Option<i64>,
    pub(super) executions: Option<u64>,
    pub(super) migrations: Option<u64>,
    pub(super) exits: Option<u64>,
    pub(super) io_count: Option<u64>,
    pub(super) injections: Option<u64>,
    pub(super) halts: Option<u64>,
    pub(super) halts_polled: Option<u64>,
    pub(super) poll_ns: Option<i64>,
    pub(super) waits: Lengths,
}

impl Actor {
    pub(super) fn add(&mut self, row: &ActorWindow, lacking: &Lacking) {
        let (w, d) = (&row.window, &row.detail);
        let lacking = lacking.of(w.machine_id);
        let halted_ns = if lacking[HALTED] { 0 } else { w.halted_ns };
        let states = [
            w.gotten_ns,
            d.preempted_ns,
            d.waking_ns,
            w.blocked_ns - halted_ns,
            halted_ns,
            w.offline_ns,
            w.unknown_ns,
        ];
        let mut lacks = lacking.iter();
        let mut lacks = || lacks.next().copied().unwrap_or_default();
        for (sum, ns) in self.states_ns.iter_mut().zip(states) {
            add(sum, lacks(), ns);
        }
        // In the order of COLUMNS.
        add(&mut self.guest_ns, lacks(), w.guest_ns);
        add(&mut self.poll_ns, lacks(), d.poll_ns);
        add(&mut self.executions, lacks(), w.executions);
        add(&mut self.migrations, lacks(), d.migrations);
        add(&mut self.exits, lacks(), w.exits);
        add(&mut self.io_count, lacks(), w.io_count);
        add(&mut self.injections, lacks(), d.injections);
        add(&mut self.halts, lacks(), d.halts);
        add(&mut self.halts_polled, lacks(), d.halts_polled);
        self.waits.add(&row.waits, w.waited_ns);
    }
}

fn add<N: std::ops::AddAssign + Default>(sum: &mut Option<N>, is_lacking: bool, more: N) {
    if !is_lacking {
        *sum.get_or_insert_with(N::default) += more;
    }
}
