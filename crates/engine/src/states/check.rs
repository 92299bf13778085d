//! Does the merged time hold? Every guest event must lie inside a guest-mode interval of its vCPU.
//!
//! Tested are guest events between the first and the last known guest-mode interval of their vCPU,
//! both edges included; events beside holes are not testable. The check is a bound and not a proof:
//! a wrong offset smaller than the *slack* (how far the nearest event is from its interval's edge)
//! goes unseen, so the slack is reported both ways. And because the smallest distance says little
//! about how fast the check becomes sharp, [`ShiftTest`] counts how many events would fall outside
//! if the guest's time were shifted by given amounts.
//!
//! **Boundary state.** Per vCPU: the last interval, the events outside that wait for the next
//! interval to be judged, and for the shift test the events and intervals of the last
//! `2 × MAX_SHIFT_NS`. Totals add up over shards ([`Totals::add`]).

use serde::{Deserialize, Serialize};
use std::collections::VecDeque;
use transect_model::{
    ids::MachineId,
    table::{ClockCheck, Row, TableSink},
};

/// Shifts tried, ns; guest time later by this much (negative: earlier).
const SHIFTS_NS: [i64; 14] = [
    -1_000_000, -100_000, -50_000, -20_000, -10_000, -5_000, -1_000, 1_000, 5_000, 10_000, 20_000,
    50_000, 100_000, 1_000_000,
];
const MAX_SHIFT_NS: i64 = 1_000_000;
/// Events and intervals the shift test keeps per vCPU; beyond that it skips events.
const MAX_KEPT: usize = 16_384;
/// Outside events kept per vCPU until the next interval tells how far out they are.
const MAX_OUTSIDE: usize = 65_536;

/// How the check would look if the guest's time were wrong by `shift_ns`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ShiftTest {
    /// Added to every guest stamp, ns.
    pub shift_ns: i64,
    /// Events tested at that shift.
    pub tested: u64,
    /// Of these, outside every guest-mode interval of their vCPU.
    pub outside: u64,
}

/// One guest's counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Totals {
    pub(crate) inside: u64,
    pub(crate) outside: u64,
    pub(crate) untested: u64,
    pub(crate) worst_ns: i64,
    pub(crate) slack_later_ns: Option<i64>,
    pub(crate) slack_earlier_ns: Option<i64>,
}

impl Totals {
    /// Adds what another shard of the same guest counted.
    pub(crate) fn add(&mut self, other: &Totals) {
        let min = |a: Option<i64>, b: Option<i64>| match (a, b) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        };
        self.inside += other.inside;
        self.outside += other.outside;
        self.untested += other.untested;
        self.worst_ns = self.worst_ns.max(other.worst_ns);
        self.slack_later_ns = min(self.slack_later_ns, other.slack_later_ns);
        self.slack_earlier_ns = min(self.slack_earlier_ns, other.slack_earlier_ns);
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
enum Interval {
    /// None since the beginning or since a hole.
    None,
    Open {
        from: i64,
        last_event: Option<i64>,
    },
    Closed {
        to: i64,
    },
}

#[derive(Clone, Debug, Serialize, Deserialize)]
struct VcpuCheck {
    machine: MachineId,
    interval: Interval,
    waiting: Vec<i64>,
    waiting_more: u64,
    totals: Totals,
    shifts: ShiftState,
}

/// The causality check of all guests, by vCPU index; none for those whose guest tells nothing.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Check(Vec<Option<Box<VcpuCheck>>>);

impl Check {
    pub(crate) fn push(&mut self, machine: MachineId, traced: bool) {
        self.0.push(traced.then(|| {
            Box::new(VcpuCheck {
                machine,
                interval: Interval::None,
                waiting: Vec::new(),
                waiting_more: 0,
                totals: Totals::default(),
                shifts: ShiftState::default(),
            })
        }));
    }

    /// `kvm_entry` of the vCPU.
    pub(crate) fn guest_mode_begins(&mut self, at: usize, t: i64) {
        if let Some(check) = &mut self.0[at] {
            check.begins(t);
        }
    }

    /// Its `kvm_exit`, or the switch-out that shows it had exited.
    pub(crate) fn guest_mode_ends(&mut self, at: usize, t: i64) {
        if let Some(check) = &mut self.0[at] {
            check.ends(t);
        }
    }

    /// The vCPU's host events are missing from here on.
    pub(crate) fn interrupted(&mut self, at: usize) {
        if let Some(check) = &mut self.0[at] {
            check.interrupted();
        }
    }

    /// An event of the guest on this vCPU.
    pub(crate) fn guest_event(&mut self, at: usize, g: i64) {
        if let Some(check) = &mut self.0[at] {
            check.event(g);
        }
    }

    /// A guest event beyond the host's last event.
    pub(crate) fn untestable(&mut self, at: usize) {
        if let Some(check) = &mut self.0[at] {
            check.totals.untested += 1;
        }
    }

    /// Emits one row per guest that has events; returns the shift tests per guest.
    pub(crate) fn finish(&mut self, sink: &mut dyn TableSink) -> Vec<(MachineId, Vec<ShiftTest>)> {
        let mut guests: Vec<(MachineId, Totals, [ShiftTest; SHIFTS_NS.len()])> = Vec::new();
        for vcpu in self.0.iter_mut().flatten() {
            vcpu.interrupted();
            vcpu.shifts.step(i64::MAX);
            let at = guests.iter().position(|g| g.0 == vcpu.machine).unwrap_or_else(|| {
                guests.push((vcpu.machine, Totals::default(), ShiftState::default().tests));
                guests.len() - 1
            });
            guests[at].1.add(&vcpu.totals);
            for (sum, test) in guests[at].2.iter_mut().zip(&vcpu.shifts.tests) {
                sum.tested += test.tested;
                sum.outside += test.outside;
            }
        }
        guests.retain(|(_, t, _)| t.inside + t.outside + t.untested > 0);
        for (machine_id, totals, _) in &guests {
            sink.row(Row::ClockCheck(ClockCheck {
                machine_id: *machine_id,
                tested: totals.inside + totals.outside,
                inside: totals.inside,
                outside: totals.outside,
                untested: totals.untested,
                worst_ns: totals.worst_ns,
                slack_later_ns: totals.slack_later_ns.unwrap_or(0),
                slack_earlier_ns: totals.slack_earlier_ns.unwrap_or(0),
            }));
        }
        guests.into_iter().map(|(machine, _, tests)| (machine, tests.to_vec())).collect()
    }
}

impl VcpuCheck {
    fn begins(&mut self, t: i64) {
        let before = match self.interval {
            Interval::Closed { to } => Some(to),
            Interval::Open { .. } | Interval::None => None,
        };
        for g in self.waiting.drain(..) {
            self.totals.outside += 1;
            let distance = before.map_or(t - g, |to| (g - to).min(t - g));
            self.totals.worst_ns = self.totals.worst_ns.max(distance);
        }
        self.totals.outside += std::mem::take(&mut self.waiting_more);
        self.interval = Interval::Open { from: t, last_event: None };
        self.shifts.begins(t);
    }

    fn ends(&mut self, t: i64) {
        if let Interval::Open { last_event: Some(g), .. } = self.interval {
            let slack = self.totals.slack_later_ns.map_or(t - g, |s| s.min(t - g));
            self.totals.slack_later_ns = Some(slack);
        }
        self.interval = Interval::Closed { to: t };
        self.shifts.ends(t);
    }

    fn interrupted(&mut self) {
        let waiting = u64::try_from(self.waiting.len()).unwrap_or(u64::MAX);
        self.totals.untested += waiting + std::mem::take(&mut self.waiting_more);
        self.waiting.clear();
        self.interval = Interval::None;
        self.shifts.interrupted();
    }

    fn event(&mut self, g: i64) {
        match &mut self.interval {
            Interval::None => self.totals.untested += 1,
            Interval::Open { from, last_event } => {
                self.totals.inside += 1;
                let slack = g - *from;
                self.totals.slack_earlier_ns =
                    Some(self.totals.slack_earlier_ns.map_or(slack, |s| s.min(slack)));
                *last_event = Some(g);
                self.shifts.event(g);
            }
            Interval::Closed { to } if *to == g => {
                self.totals.inside += 1;
                self.totals.slack_later_ns = Some(0);
                self.shifts.event(g);
            }
            Interval::Closed { .. } => {
                if self.waiting.len() < MAX_OUTSIDE {
                    self.waiting.push(g);
                } else {
                    self.waiting_more += 1;
                }
            }
        }
    }
}

/// The shift test of one vCPU: inside events are judged again, shifted, once the host's intervals
/// are known `MAX_SHIFT_NS` beyond them.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct ShiftState {
    intervals: VecDeque<(i64, i64)>,
    open: Option<i64>,
    /// Intervals are complete since this stamp.
    since: i64,
    events: VecDeque<i64>,
    tests: [ShiftTest; SHIFTS_NS.len()],
}

impl Default for ShiftState {
    fn default() -> Self {
        ShiftState {
            intervals: VecDeque::new(),
            open: None,
            since: i64::MAX,
            events: VecDeque::new(),
            tests: SHIFTS_NS.map(|shift_ns| ShiftTest { shift_ns, tested: 0, outside: 0 }),
        }
    }
}

impl ShiftState {
    fn begins(&mut self, t: i64) {
        self.since = self.since.min(t);
        self.open = Some(t);
        self.step(t);
    }

    fn ends(&mut self, t: i64) {
        if let Some(from) = self.open.take() {
            if self.intervals.len() == MAX_KEPT {
                self.intervals.pop_front();
                self.since = self.intervals.front().map_or(t, |i| i.0);
            }
            self.intervals.push_back((from, t));
        }
    }

    fn event(&mut self, g: i64) {
        if self.events.len() < MAX_KEPT {
            self.events.push_back(g);
        }
    }

    fn interrupted(&mut self) {
        let until = self.intervals.back().map_or(i64::MIN, |i| i.1);
        self.judge_until(until.checked_sub(MAX_SHIFT_NS).unwrap_or(i64::MIN));
        self.events.clear();
        self.intervals.clear();
        self.open = None;
        self.since = i64::MAX;
    }

    /// The host's intervals are complete before `t`.
    fn step(&mut self, t: i64) {
        let sure = t.checked_sub(MAX_SHIFT_NS).unwrap_or(i64::MIN);
        self.judge_until(sure);
    }

    fn judge_until(&mut self, sure: i64) {
        while let Some(g) = self.events.front().copied().filter(|g| *g < sure) {
            self.events.pop_front();
            if g - MAX_SHIFT_NS < self.since {
                continue;
            }
            while self.intervals.front().is_some_and(|i| i.1 < g - MAX_SHIFT_NS) {
                self.intervals.pop_front();
            }
            for test in &mut self.tests {
                let moved = g + test.shift_ns;
                let at = self.intervals.partition_point(|i| i.1 < moved);
                let inside = self.intervals.get(at).is_some_and(|i| i.0 <= moved);
                test.tested += 1;
                test.outside += u64::from(!inside);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn inside_outside_untested_and_slack() {
        let mut check = Check::default();
        check.push(MachineId(1), true);
        check.guest_event(0, 5);
        check.guest_mode_begins(0, 10);
        check.guest_event(0, 13);
        check.guest_event(0, 18);
        check.guest_mode_ends(0, 20);
        check.guest_event(0, 22);
        check.guest_mode_begins(0, 30);
        check.guest_event(0, 35);
        check.guest_mode_ends(0, 40);
        check.guest_event(0, 41);
        let mut tables = transect_model::table::Tables::default();
        check.finish(&mut tables);
        let row = &tables.clock_check[0];
        assert_eq!((row.tested, row.inside, row.outside, row.untested), (4, 3, 1, 2));
        assert_eq!((row.worst_ns, row.slack_earlier_ns, row.slack_later_ns), (2, 3, 2));
    }
}
