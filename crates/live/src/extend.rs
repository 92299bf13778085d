//! Windows that follow each other as one longer window.

use crate::{
    groups::{ContainerWindow, PressureWindow},
    histogram::Histogram,
    snapshot::{ActorWindow, Antagonist, CpuWindow, ExitWindow, IoWindow, Snapshot, ThreadWindow},
};
use std::{
    collections::{HashMap, hash_map::Entry},
    hash::{BuildHasher as _, Hash, RandomState},
};
use transect_model::{
    exit::ExitReason,
    ids::{CpuId, MachineId, Tid, VcpuId},
    table::Window,
};

/// Adds the columns of `$from` to those of `$into`.
macro_rules! sum {
    ($into:expr, $from:expr, $($column:ident)*) => {
        $( $into.$column += $from.$column; )*
    };
}

impl Snapshot {
    /// Makes this window longer by the one that follows it. A row lasts as long as the windows it was in:
    /// one that was not in all of them is shorter than the others.
    pub fn extend(&mut self, next: &Snapshot) {
        sum!(self, next, dur missed_windows);
        self.ended_unix_ns = next.ended_unix_ns;
        self.machines.clone_from(&next.machines);
        self.missing.clone_from(&next.missing);
        fold(&mut self.actors, &next.actors, add_actor);
        fold(&mut self.threads, &next.threads, add_thread);
        fold(&mut self.cpus, &next.cpus, add_cpu);
        fold(&mut self.exits, &next.exits, add_exits);
        fold(&mut self.antagonists, &next.antagonists, add_antagonist);
        fold(&mut self.io, &next.io, add_io);
        fold(&mut self.containers, &next.containers, add_container);
        fold(&mut self.pressure, &next.pressure, add_pressure);
        let (into, from) = (&mut self.health, &next.health);
        sum!(into, from, late_threads own_cpu_ns);
        into.untracked_events = from.untracked_events;
        into.no_room = from.no_room;
        into.missed_events = from.missed_events;
    }
}

/// Whom a row is about: rows of one key are one actor's.
trait Keyed {
    type Key<'r>: Eq + Hash
    where
        Self: 'r;

    fn key(&self) -> Self::Key<'_>;
}

macro_rules! keyed {
    ($($row:ty: |$r:pat_param| $key:expr => $of:ty;)*) => {
        $(impl Keyed for $row {
            type Key<'r> = $of;

            fn key(&self) -> Self::Key<'_> {
                let $r = self;
                $key
            }
        })*
    };
}

keyed! {
    ActorWindow: |row| {
        let Window { machine_id, vcpu, cgroup, .. } = &row.window;
        (*machine_id, *vcpu, cgroup.as_deref())
    } => (MachineId, Option<VcpuId>, Option<&'r str>);
    ThreadWindow: |row| (row.tid, row.pid) => (Tid, Tid);
    CpuWindow: |row| row.cpu => CpuId;
    (ExitWindow, Histogram): |(row, _)| (row.machine_id, row.vcpu, row.reason)
        => (MachineId, VcpuId, ExitReason);
    Antagonist: |row| (row.tid, row.by_tid) => (Tid, Tid);
    (IoWindow, Histogram): |(row, _)| (row.pid, row.name.as_str(), row.kind)
        => (Option<Tid>, &'r str, &'static str);
    (ContainerWindow, Histogram): |(row, _)| row.cgroup.as_str() => &'r str;
    PressureWindow: |row| row.cgroup.as_deref() => Option<&'r str>;
}

/// Adds each row to the one of the same key, or puts it behind them.
///
/// Windows that follow each other have nearly the same rows in nearly the same order: the row behind the
/// last one found is looked at first, and a place looked up only where it is another's.
fn fold<R: Clone + Keyed>(into: &mut Vec<R>, from: &[R], add: impl Fn(&mut R, &R)) {
    // By a hash of the key, which would borrow its row: two keys of one hash are told apart when they are met.
    let mut places: Option<HashMap<u64, usize>> = None;
    let hasher = RandomState::new();
    let hash = |row: &R| hasher.hash_one(row.key());
    let mut next = 0;
    for row in from {
        let is_next = into.get(next).is_some_and(|known| known.key() == row.key());
        let found = if is_next {
            Some(next)
        } else {
            let places = places.get_or_insert_with(|| {
                into.iter().enumerate().map(|(at, row)| (hash(row), at)).collect()
            });
            match places.entry(hash(row)) {
                Entry::Vacant(place) => {
                    place.insert(into.len());
                    None
                }
                Entry::Occupied(place) => {
                    let at = *place.get();
                    let is_same = |known: &R| known.key() == row.key();
                    let found = into.get(at).is_some_and(is_same).then_some(at);
                    found.or_else(|| into.iter().position(is_same))
                }
            }
        };
        match found.and_then(|at| into.get_mut(at)) {
            Some(known) => add(known, row),
            None => into.push(row.clone()),
        }
        next = found.unwrap_or(into.len() - 1) + 1;
    }
}

/// The average of both, each by how many it is the average of.
fn average(one: (Option<i64>, u64), other: (Option<i64>, u64)) -> Option<i64> {
    let parts = [one, other].into_iter().filter_map(|(average, count)| Some((average?, count)));
    let (sum, count) = parts.fold((0_i128, 0_i128), |(sum, all), (average, count)| {
        (sum + i128::from(average) * i128::from(count), all + i128::from(count))
    });
    sum.checked_div(count).and_then(|average| i64::try_from(average).ok())
}

fn least<T: Ord>(one: Option<T>, other: Option<T>) -> Option<T> {
    [one, other].into_iter().flatten().min()
}

fn add_actor(into: &mut ActorWindow, from: &ActorWindow) {
    let (a, b) = (&mut into.window, &from.window);
    a.allocated_avg_ns =
        average((a.allocated_avg_ns, a.allocations), (b.allocated_avg_ns, b.allocations));
    a.allocated_min_ns = least(a.allocated_min_ns, b.allocated_min_ns);
    a.allocated_max_ns = a.allocated_max_ns.max(b.allocated_max_ns);
    sum!(a, b, dur executions gotten_ns waited_ns blocked_ns offline_ns unknown_ns guest_ns halted_ns
        allocations io_count exits steal_ns);
    into.waits.add_all(&from.waits);
    let (a, b) = (&mut into.detail, &from.detail);
    sum!(a, b, dur preempted_ns waking_ns migrations waits unattributed_ns injections halts
        halts_polled poll_ns);
    a.threads = a.threads.max(b.threads);
    a.wait_max_ns = a.wait_max_ns.max(b.wait_max_ns);
    if !from.waits.is_empty() {
        [a.wait_p50_ns, a.wait_p90_ns, a.wait_p99_ns] = into.waits.quantiles_ns([500, 900, 990]);
    }
}

/// Of threads the distribution of waits is not kept: the larger bound stands for both.
fn add_thread(into: &mut ThreadWindow, from: &ThreadWindow) {
    into.allocated_avg_ns = average(
        (into.allocated_avg_ns, into.allocations),
        (from.allocated_avg_ns, from.allocations),
    );
    into.allocated_min_ns = least(into.allocated_min_ns, from.allocated_min_ns);
    into.allocated_max_ns = into.allocated_max_ns.max(from.allocated_max_ns);
    sum!(into, from, dur executions gotten_ns waited_ns preempted_ns waking_ns blocked_ns offline_ns
        unknown_ns guest_ns halted_ns allocations migrations unattributed_ns exits io_count injections);
    into.wait_p50_ns = into.wait_p50_ns.max(from.wait_p50_ns);
    into.wait_p99_ns = into.wait_p99_ns.max(from.wait_p99_ns);
    into.wait_max_ns = into.wait_max_ns.max(from.wait_max_ns);
    (into.cpu, into.vcpu, into.vm_machine_id) = (from.cpu, from.vcpu, from.vm_machine_id);
    (into.state, into.role) = (from.state, from.role);
    into.name.clone_from(&from.name);
    into.cgroup.clone_from(&from.cgroup);
}

fn add_antagonist(into: &mut Antagonist, from: &Antagonist) {
    sum!(into, from, dur times ns);
}

fn add_cpu(into: &mut CpuWindow, from: &CpuWindow) {
    sum!(into, from, dur busy_ns idle_ns unknown_ns);
}

fn add_exits(into: &mut (ExitWindow, Histogram), from: &(ExitWindow, Histogram)) {
    let ((a, histogram), (b, more)) = (into, from);
    histogram.add_all(more);
    sum!(a, b, dur count total_ns handling_ns);
    [a.p50_ns, a.p90_ns, a.p99_ns] = histogram.quantiles_ns([500, 900, 990]);
    a.max_ns = a.max_ns.max(b.max_ns);
}

fn add_io(into: &mut (IoWindow, Histogram), from: &(IoWindow, Histogram)) {
    let ((a, histogram), (b, more)) = (into, from);
    histogram.add_all(more);
    sum!(a, b, dur count bytes);
    a.total_ns = a.total_ns.map(|ns| ns + b.total_ns.unwrap_or(0)).or(b.total_ns);
    [a.p50_ns, a.p90_ns, a.p99_ns] = histogram.quantiles_ns([500, 900, 990]);
}

fn add_container(into: &mut (ContainerWindow, Histogram), from: &(ContainerWindow, Histogram)) {
    let ((a, histogram), (b, more)) = (into, from);
    histogram.add_all(more);
    sum!(a, b, dur executions gotten_ns waited_ns preempted_ns waking_ns blocked_ns unknown_ns guest_ns
        exits migrations waits);
    a.threads = a.threads.max(b.threads);
    a.wait_max_ns = a.wait_max_ns.max(b.wait_max_ns);
    [a.wait_p50_ns, a.wait_p99_ns] = histogram.quantiles_ns([500, 990]);
    // Names are learned, and VMs found, later.
    a.name.clone_from(&b.name);
    a.pod.clone_from(&b.pod);
    a.namespace.clone_from(&b.namespace);
    a.vm_machine_id = b.vm_machine_id;
}

/// Both, as far as they are known; one of them alone would be too little, and is better than nothing.
fn both<T: std::ops::Add<Output = T>>(one: Option<T>, other: Option<T>) -> Option<T> {
    match (one, other) {
        (Some(one), Some(other)) => Some(one + other),
        (one, other) => one.or(other),
    }
}

fn add_pressure(into: &mut PressureWindow, from: &PressureWindow) {
    into.dur += from.dur;
    (into.quota_ns, into.period_ns) = (from.quota_ns, from.period_ns);
    macro_rules! both {
        ($($column:ident)*) => { $( into.$column = both(into.$column, from.$column); )* };
    }
    both!(periods periods_throttled throttled_ns cpu_some_ns cpu_full_ns io_some_ns io_full_ns
        memory_some_ns memory_full_ns);
}

#[cfg(test)]
mod tests {
    use super::*;
    use transect_model::ids::{CpuId, MachineId};

    fn window(ts: i64, busy_ns: i64, cpu: u32) -> Snapshot {
        let row = CpuWindow {
            ts,
            dur: 100,
            machine_id: MachineId(0),
            cpu: CpuId(cpu),
            busy_ns,
            idle_ns: 100 - busy_ns,
            unknown_ns: 0,
        };
        Snapshot { ts, dur: 100, ended_unix_ns: 7, cpus: vec![row], ..Snapshot::default() }
    }

    #[test]
    fn rows_of_the_same_actor_are_added_up_and_others_stand_beside_them() {
        let mut sum = window(0, 30, 0);
        sum.extend(&window(100, 50, 0));
        sum.extend(&window(200, 10, 1));
        assert_eq!((sum.ts, sum.dur, sum.ended_unix_ns), (0, 300, 7));
        let rows: Vec<_> =
            sum.cpus.iter().map(|c| (c.cpu.0, c.dur, c.busy_ns, c.idle_ns)).collect();
        assert_eq!(rows, [(0, 200, 80, 120), (1, 100, 10, 90)]);
    }

    /// Rows in any order, some gone and some new: as if each were looked up.
    #[test]
    fn rows_are_found_wherever_they_stand() {
        let mut state = 1_u64;
        let mut random = |below: usize| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (state >> 33) as usize % below
        };
        for _ in 0..200 {
            let mut sum = Snapshot::default();
            let mut plain: Vec<(u32, i64, i64)> = Vec::new();
            for number in 0..4 {
                let mut cpus: Vec<u32> = (0..8).filter(|_| random(4) > 0).collect();
                for _ in 0..random(3) {
                    let (one, other) = (random(cpus.len().max(1)), random(cpus.len().max(1)));
                    if !cpus.is_empty() {
                        cpus.swap(one, other);
                    }
                }
                let rows = cpus.iter().map(|cpu| window(number, i64::from(*cpu) + 1, *cpu));
                let rows: Vec<_> = rows.flat_map(|window| window.cpus).collect();
                for row in &rows {
                    match plain.iter_mut().find(|(cpu, ..)| *cpu == row.cpu.0) {
                        Some(known) => {
                            (known.1, known.2) = (known.1 + row.dur, known.2 + row.busy_ns)
                        }
                        None => plain.push((row.cpu.0, row.dur, row.busy_ns)),
                    }
                }
                sum.extend(&Snapshot { cpus: rows, ..Snapshot::default() });
            }
            let found: Vec<_> = sum.cpus.iter().map(|c| (c.cpu.0, c.dur, c.busy_ns)).collect();
            assert_eq!(found, plain);
        }
    }

    #[test]
    fn averages_are_weighed() {
        assert_eq!(average((Some(10), 1), (Some(40), 2)), Some(30));
        assert_eq!(average((None, 0), (Some(40), 2)), Some(40));
        assert_eq!(average((None, 0), (None, 0)), None);
        assert_eq!(least(None, Some(3)), Some(3));
    }
}
