//! Quotas of control groups whose ends were not recorded: a group that has used its quota waits for the next period.
//!
//! Periods of a group follow each other without gaps while it runs, so that waits for a quota end at one phase of the period:
//! that phase is looked for. Without one nothing is inferred.

use crate::{group::groups_of, piece::ThreadId, spans::Spans};
use rustc_hash::FxHashMap;
use std::collections::BTreeMap;
use transect_model::{
    ids::MachineId,
    state::ThreadState,
    table::{Cgroup, Tables},
};

/// A group that has used this share of its quota, in percent, has none left on some CPU: CPUs take it in slices.
const USED_PERCENT: i64 = 95;
/// What a group ran beyond its quota until the tick that ended it, it lacks in the next period: so much may be less, if so many
/// periods together reach [`USED_PERCENT`].
const SHORT_PERCENT: i64 = 75;
/// The same if the wait lasts to the end of the period: of a quota of a few ticks, a tick is a large part.
const SHORT_TO_THE_END_PERCENT: i64 = 60;
const PERIODS: i64 = 3;
/// Waits for a quota end within this part of the period, and at least so many do.
const PHASE_PART: i64 = 100;
const LEAST_ENDS: usize = 3;
/// Others keep a thread from the CPU for up to this part of the period when its quota is there again.
const BEHIND_OTHERS_PART: i64 = 10;
/// Shorter waits, as a part of the period, are not for the quota.
const SHORTEST_PART: i64 = 20;

#[derive(Debug)]
struct Quota {
    quota: i64,
    period: i64,
    /// A moment at which a period begins.
    phase: i64,
    used: Spans,
    /// When the first known state of its threads begins. What they ran before is not recorded.
    known_from: i64,
}

impl Quota {
    /// Had the group used its quota when a wait began and until it ended, of which something lasts from `from`?
    fn is_used(&self, (began, ended): (i64, i64), from: i64) -> bool {
        let into = began.saturating_sub(self.phase).rem_euclid(self.period);
        let start = began.saturating_sub(into);
        // What is waited for behind the end of the period is something else.
        let end = start.saturating_add(self.period);
        if from >= end {
            return false;
        }
        // It may go on behind the end, for a CPU that another has meanwhile.
        let near = self.period / PHASE_PART;
        let is_to_the_end = ended >= end.saturating_sub(near)
            && end.saturating_sub(began) >= self.period / SHORTEST_PART;
        let reaches = |periods: i64, percent: i64, and: i64| {
            let since = start.saturating_sub(self.period.saturating_mul(periods - 1));
            let used = self.used.until(began).wrapping_sub(self.used.until(since));
            let quota = self.quota.saturating_mul(periods);
            used.saturating_add(and).saturating_mul(100) >= quota.saturating_mul(percent)
        };
        let not_recorded = self.known_from.saturating_sub(start).max(0);
        reaches(1, USED_PERCENT, 0)
            || reaches(1, SHORT_PERCENT, 0) && reaches(PERIODS, USED_PERCENT, 0)
            || is_to_the_end && reaches(1, SHORT_TO_THE_END_PERCENT, not_recorded)
    }
}

/// The phase of the period at which waits end that are for the quota; none if they end anywhere.
///
/// After a period begins, others may have the CPU for some ticks, and most waits may end at one of these: it is the first phase near
/// that at which one ends, as none ends before the period does, unless so many end there by chance.
fn phase(ends: &[i64], period: i64) -> Option<i64> {
    if period < PHASE_PART {
        return None;
    }
    let mut phases: Vec<i64> = ends.iter().map(|end| end.rem_euclid(period)).collect();
    phases.sort_unstable();
    let width = period / PHASE_PART;
    // Around the begin and the end of the period as well.
    let shifted = |by: i64| phases.iter().map(move |at| at + by);
    let around: Vec<i64> = shifted(-period).chain(shifted(0)).chain(shifted(period)).collect();
    let count_from = |at: usize| around[at..].partition_point(|phase| *phase < around[at] + width);
    let all = phases.len();
    let (most, count) =
        (all..2 * all).map(|at| (at, count_from(at))).max_by_key(|(_, count)| *count)?;
    let by_chance = all * 3 / usize::try_from(PHASE_PART).unwrap_or(1);
    let is_clear = count >= LEAST_ENDS && count * 5 >= all && count > by_chance;
    let near = period / BEHIND_OTHERS_PART;
    let within = |from: i64, to: i64| {
        around.partition_point(|phase| *phase < to) - around.partition_point(|phase| *phase < from)
    };
    let (before, behind) = (around[most].saturating_sub(near), around[most].saturating_add(near));
    let elsewhere = all - within(before, behind).min(all);
    let parts_elsewhere = usize::try_from(BEHIND_OTHERS_PART - 2).unwrap_or(1);
    let is_more_than_chance = within(before, around[most]) * parts_elsewhere > elsewhere * 3;
    let from = around.partition_point(|phase| *phase < before);
    let first = if is_more_than_chance { from } else { most };
    is_clear.then(|| around[first].rem_euclid(period))
}

/// The quotas of groups, on machines whose recording has no ends of quotas.
#[derive(Debug, Default)]
pub(crate) struct Quotas {
    /// None for a group whose waits show no phase.
    all: Vec<Option<Quota>>,
    /// Those above each thread that has some.
    of: FxHashMap<ThreadId, Vec<usize>>,
}

impl Quotas {
    /// `each_state` gives the states of a thread, each with its begin and end.
    pub(crate) fn new(
        tables: &Tables,
        each_state: impl Fn(ThreadId, &mut dyn FnMut(ThreadState, i64, i64)),
    ) -> Self {
        let is_recorded = |machine| tables.throttles.iter().any(|row| row.machine_id == machine);
        let with_quota = tables.cgroups.iter().filter(|group| group.cpu_quota_ns.is_some());
        let groups: Vec<&Cgroup> =
            with_quota.filter(|group| !is_recorded(group.machine_id)).collect();
        let mut quotas = Quotas::default();
        if groups.is_empty() {
            return quotas;
        }
        let numbers: BTreeMap<(MachineId, &str), usize> = groups
            .iter()
            .enumerate()
            .map(|(at, group)| ((group.machine_id, group.cgroup.as_str()), at))
            .collect();
        for row in &tables.threads {
            let Some(path) = row.cgroup.as_deref() else { continue };
            let above = groups_of(path).filter_map(|group| numbers.get(&(row.machine_id, group)));
            let above: Vec<usize> = above.copied().collect();
            if !above.is_empty() {
                quotas.of.insert(ThreadId { machine: row.machine_id, tid: row.tid }, above);
            }
        }
        let mut spans: Vec<Vec<(i64, i64)>> = vec![Vec::new(); groups.len()];
        let mut ends: Vec<Vec<i64>> = vec![Vec::new(); groups.len()];
        let mut known_from = vec![i64::MAX; groups.len()];
        for (thread, above) in &quotas.of {
            each_state(*thread, &mut |state, from, to| {
                for group in above {
                    if state != ThreadState::Unknown {
                        known_from[*group] = known_from[*group].min(from);
                    }
                    let period = groups[*group].cpu_period_ns.unwrap_or(i64::MAX);
                    match state {
                        ThreadState::Running => spans[*group].push((from, to)),
                        ThreadState::Runnable
                            if to.saturating_sub(from) > period / SHORTEST_PART =>
                        {
                            ends[*group].push(to);
                        }
                        _ => {}
                    }
                }
            });
        }
        let quota = |(at, group): (usize, &&Cgroup)| {
            let (quota, period) = group.cpu_quota_ns.zip(group.cpu_period_ns)?;
            let phase = phase(&ends[at], period).filter(|_| quota > 0)?;
            let (used, known_from) = (Spans::new(&spans[at]), known_from[at]);
            Some(Quota { quota, period, phase, used, known_from })
        };
        quotas.all = groups.iter().enumerate().map(quota).collect();
        quotas
    }

    /// Had a group above the thread used its quota in the wait, from its begin to its end, of which something lasts from `from`?
    pub(crate) fn is_used(
        &self,
        thread: ThreadId,
        wait: impl FnOnce() -> (i64, i64),
        from: i64,
    ) -> bool {
        let Some(above) = self.of.get(&thread) else { return false };
        let wait = wait();
        let mut quotas = above.iter().filter_map(|at| self.all[*at].as_ref());
        quotas.any(|quota| quota.is_used(wait, from))
    }
}

#[cfg(test)]
mod tests {
    use super::phase;

    #[test]
    fn a_phase_is_where_waits_end() {
        // At 7 of every 1000, also across its end; others end anywhere.
        let ends: Vec<i64> = (0..10).map(|n| n * 1000 + 7).chain([3100, 4500, 6600]).collect();
        assert_eq!(phase(&ends, 1000), Some(7));
        let around: Vec<i64> =
            (0..10).map(|n| n * 1000 + if n % 2 == 0 { 998 } else { 1002 }).collect();
        assert_eq!(phase(&around, 1000), Some(998));
        let anywhere: Vec<i64> = (0..40).map(|n| n * 1025).collect();
        assert_eq!(phase(&anywhere, 1000), None);
        // Most waits end 40 later, as others have the CPU.
        let later = |n: i64| if n % 7 == 0 { 0 } else { 40 };
        let behind: Vec<i64> = (0..20).map(|n| n * 1000 + 990 + later(n)).collect();
        assert_eq!(phase(&behind, 1000), Some(990));
        // One ends before, as others do anywhere.
        let around: Vec<i64> =
            (0..20).map(|n| n * 1000).chain((0..10).map(|n| n * 1100 + 50)).collect();
        assert_eq!(phase(&around, 1000), Some(0));
        assert_eq!(phase(&[], 1000), None);
        assert_eq!(phase(&[1, 2, 3], 5), None);
    }
}
