//! Under Xen: from which vCPU of another domain a waiting vCPU's CPU was taken up.
//!
//! No thread of a host is there to be named: of who has the CPU the domain is known, and which of its
//! vCPUs it was, the CPU's slices tell. It need not have had the CPU when the wait began: Xen first
//! takes it from the one, then gives it to the other. So of each wait the first slice of that domain
//! counts which overlaps it on its CPU.

use super::failed;
use crate::row::{Row, id, int, rows_of};
use std::collections::{BTreeSet, HashMap};
use transect_http::Response;
use transect_timeline::{Condition, Lookup, Rows, View, Wanted};

/// A slice of before the range may reach into it; none is believed to be longer than this.
const LONGEST_NS: i64 = 10_000_000_000;
/// Waits looked at: the memory of a question is bounded. In a range with more the later ones have no
/// arrows.
const MAX_WAITS: usize = 1_000_000;

/// A wait of a vCPU, whose CPU another domain had.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Handover {
    pub(super) ts: i64,
    /// Where the wait ends; an instant takes a nanosecond.
    end: i64,
    cpu: u32,
    pub(super) machine: u32,
    pub(super) vcpu: u32,
    pub(super) by_machine: u32,
    /// The vCPU of that domain, once a slice has told it.
    pub(super) by_vcpu: Option<u32>,
}

/// A vCPU of a domain that had a CPU.
#[derive(Clone, Copy, Debug)]
struct Slice {
    ts: i64,
    end: i64,
    cpu: u32,
    machine: u32,
    vcpu: u32,
}

/// Waits that begin in a range and satisfy `only`, in order of time, as far as the vCPU is known: the
/// first `limit` of them.
pub(super) fn handovers(
    view: &View,
    lookup: &Lookup,
    (from, to): (i64, i64),
    only: Condition,
    limit: usize,
) -> Result<Vec<Handover>, Response> {
    let mut waits = waits(lookup, (from, to), only)?;
    let Some(end) = waits.iter().map(|wait| wait.end).max() else { return Ok(Vec::new()) };
    let roots = view.machines().iter().filter(|machine| machine.parent_id.is_none());
    let roots = roots.map(|machine| i64::from(machine.machine_id)).collect();
    let set = |get: fn(&Handover) -> u32| -> BTreeSet<i64> {
        waits.iter().map(|wait| i64::from(get(wait))).collect()
    };
    let wanted = Wanted {
        columns: vec!["ts", "dur", "cpu", "vcpu_machine_id", "vcpu"],
        ts: Some(from.saturating_sub(LONGEST_NS)..to.saturating_add(LONGEST_NS).min(end)),
        only: Condition::All(vec![
            Condition::In("machine_id", roots),
            Condition::Known("vcpu"),
            Condition::In("vcpu_machine_id", set(|wait| wait.by_machine)),
            Condition::In("cpu", set(|wait| wait.cpu)),
        ]),
        limit: usize::MAX,
    };
    let mut sweep = Sweep { waits: &mut waits, next: 0, cpus: HashMap::new() };
    each_row(lookup.open("cpu_slices", &wanted), |row| {
        if let Some(slice) = slice_of(row) {
            sweep.take(slice);
        }
    })?;
    sweep.begin_waits_before(i64::MAX);
    waits.retain(|wait| wait.by_vcpu.is_some());
    waits.truncate(limit);
    Ok(waits)
}

fn waits(
    lookup: &Lookup,
    (from, to): (i64, i64),
    only: Condition,
) -> Result<Vec<Handover>, Response> {
    let wanted = Wanted {
        columns: vec!["ts", "dur", "machine_id", "vcpu", "cpu", "by_machine_id"],
        ts: Some(from..to),
        only: Condition::All(vec![
            Condition::Is("state", "preempted".to_owned()),
            Condition::Null("by_tid"),
            Condition::Known("by_machine_id"),
            Condition::Known("cpu"),
            only,
        ]),
        limit: MAX_WAITS,
    };
    let mut waits: Vec<Handover> = Vec::new();
    each_row(lookup.open("vcpu_states", &wanted), |row| waits.extend(wait_of(row)))?;
    Ok(waits)
}

fn each_row(
    rows: Result<Rows, transect_timeline::TimelineError>,
    mut take: impl FnMut(&Row),
) -> Result<(), Response> {
    for batch in rows.map_err(|error| failed(&error))? {
        let batch = batch.map_err(|error| failed(&error))?;
        rows_of(&[batch])?.iter().for_each(&mut take);
    }
    Ok(())
}

fn end_of(row: &Row, ts: i64) -> Option<i64> {
    Some(ts.saturating_add(int(row, "dur")?.max(1)))
}

fn wait_of(row: &Row) -> Option<Handover> {
    let ts = int(row, "ts")?;
    Some(Handover {
        ts,
        end: end_of(row, ts)?,
        cpu: id(row, "cpu")?,
        machine: id(row, "machine_id")?,
        vcpu: id(row, "vcpu")?,
        by_machine: id(row, "by_machine_id")?,
        by_vcpu: None,
    })
}

fn slice_of(row: &Row) -> Option<Slice> {
    let ts = int(row, "ts")?;
    Some(Slice {
        ts,
        end: end_of(row, ts)?,
        cpu: id(row, "cpu")?,
        machine: id(row, "vcpu_machine_id")?,
        vcpu: id(row, "vcpu")?,
    })
}

/// Goes through waits and slices in order of time.
struct Sweep<'w> {
    waits: &'w mut [Handover],
    /// The wait that begins next.
    next: usize,
    cpus: HashMap<u32, Cpu>,
}

/// What has begun on a CPU and may not have ended.
#[derive(Default)]
struct Cpu {
    slices: Vec<Slice>,
    /// Numbers of waits that no slice has answered.
    waits: Vec<usize>,
}

impl Sweep<'_> {
    fn take(&mut self, slice: Slice) {
        self.begin_waits_before(slice.ts);
        let cpu = self.cpus.entry(slice.cpu).or_default();
        cpu.slices.retain(|earlier| earlier.end > slice.ts);
        cpu.slices.push(slice);
        let waits = &mut *self.waits;
        cpu.waits.retain(|number| {
            let Some(wait) = waits.get_mut(*number).filter(|wait| wait.end > slice.ts) else {
                return false;
            };
            if wait.by_machine == slice.machine {
                wait.by_vcpu = Some(slice.vcpu);
            }
            wait.by_vcpu.is_none()
        });
    }

    fn begin_waits_before(&mut self, ts: i64) {
        while let Some(wait) = self.waits.get_mut(self.next).filter(|wait| wait.ts < ts) {
            let cpu = self.cpus.entry(wait.cpu).or_default();
            let mut begun = cpu.slices.iter();
            let slice = begun.find(|s| s.end > wait.ts && s.machine == wait.by_machine);
            match slice {
                Some(slice) => wait.by_vcpu = Some(slice.vcpu),
                None => cpu.waits.push(self.next),
            }
            self.next += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Numbers below `end` that are the same in every run.
    fn random(state: &mut u64, end: u32) -> u32 {
        *state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        u32::try_from(*state >> 33).unwrap_or(0) % end
    }

    fn slices(state: &mut u64) -> Vec<Slice> {
        let mut slices = Vec::new();
        for cpu in 0..3 {
            let mut ts = 0;
            for _ in 0..40 {
                ts += i64::from(random(state, 5));
                let length = i64::from(random(state, 9));
                let (machine, vcpu) = (random(state, 3), random(state, 4));
                slices.push(Slice { ts, end: ts + length.max(1), cpu, machine, vcpu });
                ts += length;
            }
        }
        slices.sort_by_key(|slice| slice.ts);
        slices
    }

    fn waits(state: &mut u64) -> Vec<Handover> {
        let mut waits: Vec<Handover> = (0..60)
            .map(|_| {
                let ts = i64::from(random(state, 300));
                let end = ts + i64::from(random(state, 30)).max(1);
                let (cpu, by_machine) = (random(state, 3), random(state, 3));
                Handover { ts, end, cpu, machine: 9, vcpu: 0, by_machine, by_vcpu: None }
            })
            .collect();
        waits.sort_by_key(|wait| wait.ts);
        waits
    }

    #[test]
    fn a_wait_is_answered_by_the_first_slice_that_overlaps_it() {
        let (mut state, mut answered) = (7, 0);
        for _ in 0..200 {
            let slices = slices(&mut state);
            let mut swept = waits(&mut state);
            let expected: Vec<Option<(i64, u32)>> = swept
                .iter()
                .map(|wait| {
                    let of_domain = slices.iter().filter(|slice| {
                        slice.cpu == wait.cpu
                            && slice.machine == wait.by_machine
                            && slice.ts < wait.end
                            && slice.end > wait.ts
                    });
                    let begin = |slice: &&Slice| slice.ts.max(wait.ts);
                    of_domain.min_by_key(begin).map(|slice| (wait.ts, slice.vcpu))
                })
                .collect();
            let mut sweep = Sweep { waits: &mut swept, next: 0, cpus: HashMap::new() };
            slices.iter().for_each(|slice| sweep.take(*slice));
            sweep.begin_waits_before(i64::MAX);
            let found: Vec<_> =
                swept.iter().map(|wait| wait.by_vcpu.map(|vcpu| (wait.ts, vcpu))).collect();
            assert_eq!(found, expected);
            answered += found.iter().flatten().count();
        }
        assert!(answered > 1000, "{answered}");
    }
}
