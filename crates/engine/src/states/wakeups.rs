//! Wakeups: from being made runnable to getting a CPU.
//!
//! `sched_waking` is the cause (it runs in the waker's context), `sched_wakeup` the effect (it may
//! run on the target's CPU, in the name of whoever is interrupted there). The waker is therefore
//! taken from `sched_waking`, and from `sched_wakeup` only where no waking was recorded.
//!
//! In an interrupt the current thread is not the waker: it only happened to be interrupted. Which
//! context a waking is in, its event tells (ftrace's `common_flags`, compact's WAKING_IN), and the open
//! handlers of its CPU tell which interrupt it is. Recordings without the context (compact before
//! version 3) tell of an interrupt only while a handler is open.
//!
//! A waking can hit a thread that has not left its CPU yet (`try_to_wake_up` in
//! kernel/sched/core.c): if it is still on the run queue, `sched_wakeup` follows and the thread just
//! goes on, which is no wakeup; if it is on its way out, `sched_switch` (asleep) follows first, and
//! it is `runnable` at once. Where `sched_wakeup` is not recorded (compact), an event on the thread's
//! CPU between the waking and the switch tells that it went on: a thread on its way out holds its
//! run queue's lock with interrupts off. A thread whose state is unknown is woken *in doubt* if it is
//! not known what its CPU runs: it may run there and just go on.
//!
//! **Boundary state.** The pending wake of each thread.

use super::{
    Env,
    causes::{Edge, Effect, Origin},
    slots::Slot,
    thread::{Deduced, Place, Threads, Wake},
    waker::Waker,
};
use transect_model::{
    cause::{CauseKind, Evidence},
    ids::{CpuId, Tid},
    interrupt::Context,
    table::{Row, Wakeup},
};

/// `sched_waking` or `sched_wakeup` of a thread.
#[derive(Clone, Copy, Debug)]
pub(crate) struct WakeEvent {
    /// Where it will be queued.
    pub(crate) target: CpuId,
    pub(crate) waker: Waker,
    /// Was it `sched_wakeup`?
    pub(crate) done: bool,
    /// Are the machine's wakings recorded by `sched_wakeup` alone?
    pub(crate) alone: bool,
    /// The thread may be the one that `target` is running: what that CPU runs is not known.
    pub(crate) in_doubt: bool,
    /// When `target` was idle last: a thread that waited for it then would have got it.
    pub(crate) last_idle: i64,
}

/// What a wake did to a thread's place.
pub(crate) enum Woken {
    /// Nothing.
    Unmoved,
    /// It waits now, or waits on another CPU than before; with what that told of the time before.
    Moved { deduced: Option<Deduced> },
}

impl Threads {
    /// Handles a wake event.
    pub(crate) fn wake(&mut self, slot: Slot, t: i64, wake: WakeEvent, env: &mut Env<'_>) -> Woken {
        let hidden_until = self.hidden_until;
        self.revive(slot);
        let thread = self.get_mut(slot);
        let pending = Wake { ts: t, waker: wake.waker };
        let new = Place::Waiting { cpu: Some(wake.target), woken: true };
        match thread.place {
            Place::OnCpu(_) => {
                thread.wake = if wake.done { None } else { Some(pending) };
                Woken::Unmoved
            }
            Place::Waiting { cpu, woken } => {
                if cpu == Some(wake.target) {
                    return Woken::Unmoved;
                }
                let new = Place::Waiting { cpu: Some(wake.target), woken };
                self.change(slot, t, None, new, env);
                Woken::Moved { deduced: None }
            }
            Place::Asleep { .. } | Place::Gone => {
                thread.wake = Some(pending);
                let deduced = self.change(slot, t, None, new, env);
                Woken::Moved { deduced }
            }
            // Whether this is a wakeup, and how long it lasts, is among what is hidden.
            Place::Unknown if !thread.whole || t < hidden_until => Woken::Unmoved,
            Place::Unknown if wake.in_doubt => {
                if wake.done {
                    thread.wake = None;
                } else {
                    thread.wake.get_or_insert(pending);
                    self.doubt(slot, pending);
                }
                Woken::Unmoved
            }
            Place::Unknown => {
                // A sched_wakeup alone may be the second half of a wake that is older than the
                // stream: then nothing is known about the time before.
                let told = Place::Asleep { cpu: None, letter: None };
                // A thread that is preempted on its way to sleep is woken while it waits.
                let told = Some(told).filter(|_| !wake.done && wake.last_idle >= thread.known_from);
                if thread.woken_in_doubt.is_some() {
                    // It was woken before, and is on the run queue of another CPU now.
                    self.was_not_running(slot, wake.last_idle, env);
                    let deduced = self.change(slot, t, None, new, env);
                    return Woken::Moved { deduced };
                }
                // A thread that waited already goes on waiting: then this is no wakeup. And of a
                // wakeup without its waking, the waker is among what is missing.
                let is_wakeup = told.is_some() || (wake.done && wake.alone);
                thread.wake = Some(pending).filter(|_| is_wakeup);
                let deduced = self.change(slot, t, told, new, env);
                if is_wakeup { Woken::Moved { deduced } } else { Woken::Unmoved }
            }
        }
    }
}

impl Env<'_> {
    /// The cause that a wakeup is.
    fn woke(&mut self, tid: Tid, wake: Wake, cpu: Option<CpuId>) {
        let Waker { context, handler, about, .. } = wake.waker;
        let evidence = match (context, handler) {
            // The event names both threads.
            (Some(Context::Task), _) => Evidence::Id,
            (Some(_), _) => Evidence::Context,
            (None, _) => Evidence::Order,
        };
        self.cause(Edge {
            kind: about.map_or(CauseKind::Wakeup, |about| about.kind),
            from: Origin {
                ts: about.map_or(wake.ts, |about| about.ts),
                machine: self.machine,
                cpu: Some(wake.waker.cpu),
                tid: wake.waker.tid,
                context,
                vector: handler.map(|handler| handler.vector),
            },
            to: Effect { ts: wake.ts, machine: self.machine, cpu, tid: Some(tid), vcpu: None },
            id: about.and_then(|about| about.id),
            evidence,
            candidates: 1,
            error_ns: Some(0),
        });
    }

    /// One row of the wakeups table; `ran` is when and where the thread got a CPU.
    pub(crate) fn wakeup(&mut self, tid: Tid, wake: Wake, ran: Option<(i64, CpuId)>) {
        self.woke(tid, wake, ran.map(|(_, cpu)| cpu));
        if wake.ts < self.start || !self.wants.wakeups {
            return;
        }
        self.sink.row(Row::Wakeup(Wakeup {
            ts: wake.ts,
            dur: ran.map(|(t, _)| t - wake.ts),
            machine_id: self.machine,
            tid,
            waker_tid: wake.waker.tid,
            waker_cpu: wake.waker.cpu,
            context: wake.waker.context,
            source: wake.waker.handler.map(|handler| handler.source),
            vector: wake.waker.handler.map(|handler| handler.vector),
            cpu: ran.map(|(_, cpu)| cpu),
        }));
    }
}
