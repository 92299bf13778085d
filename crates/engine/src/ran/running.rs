//! The running intervals of every vCPU, from Xen's records.
//!
//! That a vCPU comes to run and that it leaves its pCPU again are both recorded by that pCPU, so
//! each pCPU's records are read on their own. What lost records hide is no interval: one that is
//! open there is dropped.

use super::Share;
use std::collections::BTreeMap;
use transect_model::ids::CpuId;
use transect_xentrace::{IDLE_DOMAIN, Runstate, Stream, XenEvent, XenTrace, XenVcpu};

/// Intervals kept for each vCPU at most: an hour of a thousand switches a second.
const MAX_INTERVALS: usize = 1 << 22;
/// Emulations kept for each vCPU at most.
const MAX_EMULATIONS: usize = 1 << 23;

/// A vCPU ran from one stamp of Xen's TSC to another, without a break.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Interval {
    /// When it was switched in.
    pub from: u64,
    /// When it was switched out.
    pub to: u64,
}

/// One vCPU's intervals in order, and the holes in what is known of it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct VcpuRuns {
    intervals: Vec<Interval>,
    /// When Xen recorded that it had emulated an instruction of its kernel: among others each
    /// reading of an emulated TSC.
    emulations: Vec<u64>,
    /// Stretches of lost records: nobody knows what it did in them.
    holes: Vec<Interval>,
}

/// When the vCPUs of all domains ran.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Running {
    vcpus: BTreeMap<(u16, u16), VcpuRuns>,
}

impl Running {
    /// Reads all of a trace.
    pub fn of(trace: &XenTrace<'_>) -> Running {
        let mut running = Running::default();
        let mut holes = Vec::new();
        for cpu in trace.cpus() {
            running.read(trace.stream(cpu), &mut holes);
        }
        holes.sort_unstable();
        for runs in running.vcpus.values_mut() {
            runs.intervals.sort_unstable();
            runs.emulations.sort_unstable();
            runs.holes.clone_from(&holes);
        }
        running
    }

    fn read(&mut self, stream: Stream<'_>, holes: &mut Vec<Interval>) {
        let mut open: Option<(XenVcpu, u64)> = None;
        for record in stream {
            match record.typed() {
                XenEvent::RunstateChange { vcpu, new: Runstate::Running, .. } => {
                    open = Some((vcpu, record.tsc));
                }
                XenEvent::RunstateChange { vcpu, old: Runstate::Running, .. } => {
                    if let Some((who, from)) = open.take()
                        && who == vcpu
                        && vcpu.dom < IDLE_DOMAIN
                    {
                        let runs = self.vcpus.entry((vcpu.dom, vcpu.vcpu)).or_default();
                        if runs.intervals.len() < MAX_INTERVALS {
                            runs.intervals.push(Interval { from, to: record.tsc });
                        }
                    }
                }
                XenEvent::PvPrivop { .. } => {
                    if let Some((vcpu, _)) = open.filter(|(vcpu, _)| vcpu.dom < IDLE_DOMAIN) {
                        let runs = self.vcpus.entry((vcpu.dom, vcpu.vcpu)).or_default();
                        if runs.emulations.len() < MAX_EMULATIONS {
                            runs.emulations.push(record.tsc);
                        }
                    }
                }
                XenEvent::Lost(lost) => {
                    open = None;
                    let (from, to) =
                        (lost.from_tsc.min(lost.to_tsc), lost.to_tsc.max(lost.from_tsc));
                    if holes.len() < MAX_INTERVALS {
                        holes.push(Interval { from, to });
                    }
                }
                _ => {}
            }
        }
    }

    /// The domains in it, in order.
    pub fn domains(&self) -> Vec<u16> {
        let mut domains: Vec<u16> = self.vcpus.keys().map(|(dom, _)| *dom).collect();
        domains.dedup();
        domains
    }

    /// How many vCPUs of a domain ran: the highest number and one.
    pub fn vcpus(&self, dom: u16) -> u32 {
        let last = self.vcpus.range((dom, 0)..=(dom, u16::MAX)).next_back();
        last.map_or(0, |((_, vcpu), _)| u32::from(*vcpu) + 1)
    }

    /// The vCPU that is this CPU of a domain's kernel: PV domains and all that do not renumber have
    /// the same numbers.
    pub fn vcpu(&self, dom: u16, cpu: CpuId) -> Option<&VcpuRuns> {
        self.vcpus.get(&(dom, u16::try_from(cpu.0).ok()?))
    }
}

impl VcpuRuns {
    /// Its intervals, in order.
    pub fn intervals(&self) -> &[Interval] {
        &self.intervals
    }

    /// When Xen recorded emulations from one stamp to another, edges included.
    pub(crate) fn emulations(&self, from: u64, to: u64) -> &[u64] {
        let begin = self.emulations.partition_point(|t| *t < from);
        let end = self.emulations.partition_point(|t| *t <= to);
        self.emulations.get(begin..end).unwrap_or_default()
    }

    /// The place of the last interval that begins by then.
    pub(crate) fn at(&self, t: i128) -> Option<usize> {
        self.intervals.partition_point(|i| i128::from(i.from) <= t).checked_sub(1)
    }

    /// Is it outside of what is known, or in or beside a hole?
    fn is_unknown(&self, t: i128, interval: Option<usize>) -> bool {
        let Some(before) = interval.and_then(|at| self.intervals.get(at)) else { return true };
        let after = interval.and_then(|at| self.intervals.get(at + 1));
        let until = match after {
            Some(after) => after.from,
            None if t <= i128::from(before.to) => before.to,
            None => return true,
        };
        let hole = self.holes.partition_point(|hole| hole.to < before.from);
        self.holes.get(hole).is_some_and(|hole| hole.from <= until)
    }

    pub(crate) fn share(&self, stamps: impl Iterator<Item = i128>) -> Share {
        let mut share = Share::default();
        for t in stamps {
            let at = self.at(t);
            if self.is_unknown(t, at) {
                continue;
            }
            let interval = at.and_then(|at| self.intervals.get(at));
            share.tested += 1;
            share.inside += u64::from(interval.is_some_and(|i| t <= i128::from(i.to)));
        }
        let (ran, span) = self.ran_of();
        let by_chance = u128::from(share.tested) * ran / span.max(1);
        share.by_chance = u64::try_from(by_chance).unwrap_or(share.tested);
        share
    }

    /// How long it ran, of how long.
    fn ran_of(&self) -> (u128, u128) {
        let ran = self.intervals.iter().map(|i| u128::from(i.to.saturating_sub(i.from))).sum();
        let ends = self.intervals.first().zip(self.intervals.last());
        (ran, ends.map_or(0, |(first, last)| u128::from(last.to.saturating_sub(first.from))))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_inside_outside_and_unknown() {
        let interval = |(from, to)| Interval { from, to };
        let runs = VcpuRuns {
            intervals: [(10, 20), (30, 40), (50, 60), (70, 80)].map(interval).to_vec(),
            emulations: Vec::new(),
            holes: vec![interval((42, 45))],
        };
        let share = |stamps: &[i128]| {
            let share = runs.share(stamps.iter().copied());
            (share.tested, share.inside)
        };
        assert_eq!(share(&[5, 81]), (0, 0), "before the first and after the last");
        assert_eq!(share(&[10, 15, 20, 25, 80]), (5, 4));
        assert_eq!(share(&[41, 35]), (0, 0), "a hole follows before the next interval");
        assert_eq!(share(&[55, 65, 70]), (3, 2));
    }
}
