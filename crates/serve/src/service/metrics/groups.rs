//! What is counted of containers, and of what control groups were short of.

use super::actor::Lengths;
use transect_live::{ContainerWindow, Histogram, PressureWindow};

/// Where a container's threads' time went.
pub(super) const STATES: [&str; 5] = ["running", "preempted", "waking", "asleep", "unknown"];

/// Sums of one container.
#[derive(Clone, Default)]
pub(super) struct Container {
    pub(super) states_ns: [i64; STATES.len()],
    pub(super) executions: u64,
    pub(super) waits: Lengths,
}

impl Container {
    pub(super) fn add(&mut self, row: &ContainerWindow, lengths: &Histogram) {
        let states =
            [row.gotten_ns, row.preempted_ns, row.waking_ns, row.blocked_ns, row.unknown_ns];
        for (sum, ns) in self.states_ns.iter_mut().zip(states) {
            *sum += ns;
        }
        self.executions += row.executions;
        self.waits.add(lengths, row.waited_ns);
    }
}

/// What some or all tasks waited for.
pub(super) const PRESSURES: [(&str, &str); 6] = [
    ("cpu", "some"),
    ("cpu", "full"),
    ("io", "some"),
    ("io", "full"),
    ("memory", "some"),
    ("memory", "full"),
];

/// Sums of one control group, or of the host. What could never be had is none.
#[derive(Clone, Default)]
pub(super) struct Pressure {
    pub(super) stalls_ns: [Option<i64>; PRESSURES.len()],
    pub(super) periods: Option<u64>,
    pub(super) periods_throttled: Option<u64>,
    pub(super) throttled_ns: Option<i64>,
}

impl Pressure {
    pub(super) fn add(&mut self, row: &PressureWindow) {
        let stalls = [
            row.cpu_some_ns,
            row.cpu_full_ns,
            row.io_some_ns,
            row.io_full_ns,
            row.memory_some_ns,
            row.memory_full_ns,
        ];
        for (sum, ns) in self.stalls_ns.iter_mut().zip(stalls) {
            add(sum, ns);
        }
        add(&mut self.periods, row.periods);
        add(&mut self.periods_throttled, row.periods_throttled);
        add(&mut self.throttled_ns, row.throttled_ns);
    }
}

fn add<N: std::ops::AddAssign + Default>(sum: &mut Option<N>, more: Option<N>) {
    if let Some(more) = more {
        *sum.get_or_insert_with(N::default) += more;
    }
}
