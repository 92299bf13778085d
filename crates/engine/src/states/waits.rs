//! What threads and CPUs wait for besides each other: locks, quotas, memory.
//!
//! **Boundary state.** The open waits of a machine. An end without a beginning makes no row; a
//! beginning without an end, or with a hole that may hide it, makes one with null `dur`.

use super::Env;
use crate::at::At;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use transect_model::{
    cause::LockKind,
    ids::{CpuId, Tid},
    table::{LockWait, Reclaim, Row, Throttle},
};

/// More open waits of one kind than this are broken input: all are given up, as in a hole.
const MAX_OPEN: usize = 1 << 16;

/// A thread, and the CPU for the idle threads, which share a number.
type Who = (Tid, Option<CpuId>);

const FIRST: Who = (Tid(i32::MIN), None);
const LAST: Who = (Tid(i32::MAX), Some(CpuId(u32::MAX)));

fn who(at: At) -> Who {
    (at.tid, at.tid.is_idle().then_some(at.cpu))
}

#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
struct Begun {
    ts: i64,
    cpu: CpuId,
}

impl Begun {
    fn at(at: At) -> Self {
        Begun { ts: at.t, cpu: at.cpu }
    }
}

/// A lock that a thread waits for.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
struct OpenLock {
    begun: Begun,
    flags: u32,
    /// Who was said to have it last, and when.
    owner: Option<(i64, Tid)>,
}

/// Who has got a lock for which others wait, and when; nobody who can be named, if others may have it too.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
struct Acquired {
    ts: i64,
    by: Option<Tid>,
}

/// The open waits of one machine.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Waits {
    locks: BTreeMap<(u64, Who), OpenLock>,
    /// Of the locks for which somebody waits.
    acquired: BTreeMap<u64, Acquired>,
    throttles: BTreeMap<(CpuId, u64), i64>,
    reclaims: BTreeMap<(Who, bool), (Begun, i32)>,
    /// How often too many were open.
    pub(crate) given_up: u64,
}

/// A wait for a lock that has ended with the lock, and who had it.
pub(crate) struct Unlocked {
    pub(crate) owner: Option<Tid>,
}

impl Waits {
    /// `contention_begin`. A thread that spins and then sleeps tells both: it is one wait.
    pub(crate) fn lock(
        &mut self,
        at: At,
        lock: u64,
        (flags, owner): (u32, Option<Tid>),
        env: &mut Env<'_>,
    ) {
        if self.locks.len() >= MAX_OPEN {
            self.given_up += 1;
            self.finish(env);
        }
        let owner = owner.map(|owner| (at.t, owner));
        let new = OpenLock { begun: Begun::at(at), flags, owner };
        let open = self.locks.entry((lock, who(at))).or_insert(new);
        open.flags |= flags;
        open.owner = owner.or(open.owner);
    }

    /// `contention_end`, with the lock or without; none for a wait without a beginning.
    pub(crate) fn locked(
        &mut self,
        at: At,
        lock: u64,
        has_it: bool,
        env: &mut Env<'_>,
    ) -> Option<Unlocked> {
        let open = self.locks.remove(&(lock, who(at)))?;
        let mut open = open.with_owner(self.acquired.get(&lock));
        if open.begun.ts < env.hidden_until {
            // Another may have got it meanwhile, unseen.
            open.owner = None;
        }
        open.emit(at.tid, lock, Some(at.t), env);
        if self.locks.range((lock, FIRST)..=(lock, LAST)).next().is_none() {
            self.acquired.remove(&lock);
        } else if has_it {
            // Readers share it: who of them lets it go last is not known.
            let by = (!LockKind::from_flags(open.flags).is_shared()).then_some(at.tid);
            self.acquired.insert(lock, Acquired { ts: at.t, by });
        }
        Some(Unlocked { owner: open.owner.map(|(_, owner)| owner) })
    }

    /// The quota of a group has ended on the CPU.
    pub(crate) fn throttle(&mut self, t: i64, group: (CpuId, u64), env: &mut Env<'_>) {
        if self.throttles.len() >= MAX_OPEN {
            self.given_up += 1;
            self.finish(env);
        }
        self.throttles.entry(group).or_insert(t);
    }

    /// The group may run again on the CPU.
    pub(crate) fn unthrottle(&mut self, t: i64, group: (CpuId, u64), env: &mut Env<'_>) {
        if let Some(ts) = self.throttles.remove(&group) {
            throttled(ts, group, Some(t), env);
        }
    }

    /// `mm_vmscan_direct_reclaim_begin`, or with `memcg` `mm_vmscan_memcg_reclaim_begin`.
    pub(crate) fn reclaim(&mut self, at: At, memcg: bool, order: i32, env: &mut Env<'_>) {
        if self.reclaims.len() >= MAX_OPEN {
            self.given_up += 1;
            self.finish(env);
        }
        let key = (who(at), memcg);
        if let Some(open) = self.reclaims.insert(key, (Begun::at(at), order)) {
            reclaimed(open, at.tid, memcg, None, env);
        }
    }

    /// Its end.
    pub(crate) fn reclaimed(&mut self, at: At, memcg: bool, pages: u64, env: &mut Env<'_>) {
        if let Some(open) = self.reclaims.remove(&(who(at), memcg)) {
            reclaimed(open, at.tid, memcg, Some((at.t, pages)), env);
        }
    }

    /// Events about the thread may be missing.
    pub(crate) fn lose_thread(&mut self, tid: Tid, env: &mut Env<'_>) {
        self.close(|(of, _)| of == tid, |_| false, env);
    }

    /// Events of the CPU are missing: those of its idle thread, and the end of any group's wait.
    pub(crate) fn lose_cpu(&mut self, cpu: CpuId, env: &mut Env<'_>) {
        self.close(|(_, idle)| idle == Some(cpu), |_| true, env);
    }

    /// Emits what is open.
    pub(crate) fn finish(&mut self, env: &mut Env<'_>) {
        self.close(|_| true, |_| true, env);
    }

    fn close(
        &mut self,
        of_thread: impl Fn(Who) -> bool,
        of_cpu: impl Fn(CpuId) -> bool,
        env: &mut Env<'_>,
    ) {
        self.locks.retain(|(lock, who), open| {
            let lost = of_thread(*who);
            if lost {
                open.with_owner(self.acquired.get(lock)).emit(who.0, *lock, None, env);
            }
            !lost
        });
        // Whose it was may have changed unseen.
        self.acquired.clear();
        self.reclaims.retain(|(who, memcg), open| {
            let lost = of_thread(*who);
            if lost {
                reclaimed(*open, who.0, *memcg, None, env);
            }
            !lost
        });
        self.throttles.retain(|(cpu, cgroup), ts| {
            let lost = of_cpu(*cpu);
            if lost {
                throttled(*ts, (*cpu, *cgroup), None, env);
            }
            !lost
        });
    }
}

impl OpenLock {
    /// With who had the lock last, of what was seen.
    fn with_owner(self, acquired: Option<&Acquired>) -> Self {
        let told = self.owner.map_or(self.begun.ts, |(ts, _)| ts);
        let owner = match acquired.filter(|acquired| acquired.ts >= told) {
            Some(acquired) => acquired.by.map(|by| (acquired.ts, by)),
            None => self.owner,
        };
        OpenLock { owner, ..self }
    }

    fn emit(self, tid: Tid, lock: u64, end: Option<i64>, env: &mut Env<'_>) {
        if self.begun.ts < env.start || !env.wants.locks {
            return;
        }
        env.sink.row(Row::LockWait(LockWait {
            ts: self.begun.ts,
            dur: end.map(|t| t - self.begun.ts),
            machine_id: env.machine,
            cpu: self.begun.cpu,
            tid,
            lock,
            kind: LockKind::from_flags(self.flags),
            owner_tid: self.owner.map(|(_, owner)| owner),
        }));
    }
}

fn throttled(ts: i64, (cpu, cgroup_id): (CpuId, u64), end: Option<i64>, env: &mut Env<'_>) {
    if ts < env.start || !env.wants.throttles {
        return;
    }
    let dur = end.map(|t| t - ts);
    let machine_id = env.machine;
    env.sink.row(Row::Throttle(Throttle { ts, dur, machine_id, cpu, cgroup_id }));
}

fn reclaimed(
    (begun, order): (Begun, i32),
    tid: Tid,
    cgroup: bool,
    end: Option<(i64, u64)>,
    env: &mut Env<'_>,
) {
    if begun.ts < env.start || !env.wants.reclaims {
        return;
    }
    env.sink.row(Row::Reclaim(Reclaim {
        ts: begun.ts,
        dur: end.map(|(t, _)| t - begun.ts),
        machine_id: env.machine,
        cpu: begun.cpu,
        tid,
        cgroup,
        order,
        pages: end.map(|(_, pages)| pages),
    }));
}
