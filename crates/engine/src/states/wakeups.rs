//! Wakeups: from being made runnable to getting a CPU.
//!
//! `sched_waking` is the cause (it runs in the waker's context), `sched_wakeup` the effect (it may
//! run on the target's CPU, in the name of whoever is interrupted there). The waker is therefore
//! taken from `sched_waking`, and from `sched_wakeup` only where no waking was recorded.
//!
//! A waking can hit a thread that has not left its CPU yet (`try_to_wake_up` in
//! kernel/sched/core.c): if it is still on the run queue, `sched_wakeup` follows and the thread just
//! goes on, which is no wakeup; if it is on its way out, `sched_switch` (asleep) follows first, and
//! it is `runnable` at once. Where `sched_wakeup` is not recorded (compact), an event on the thread's
//! CPU between the waking and the switch tells that it went on: a thread on its way out holds its
//! run queue's lock with interrupts off.
//!
//! **Boundary state.** The pending wake of each thread.

use super::{
    Env,
    thread::{Deduced, Place, Slot, Threads, Wake},
};
use transect_model::{
    ids::{CpuId, Tid},
    table::{Row, Wakeup},
};

/// `sched_waking` or `sched_wakeup` of a thread.
#[derive(Clone, Copy, Debug)]
pub(crate) struct WakeEvent {
    /// Where it will be queued.
    pub(crate) target: CpuId,
    /// The thread that was current at the event, and its CPU.
    pub(crate) waker: Tid,
    pub(crate) waker_cpu: CpuId,
    /// Was it `sched_wakeup`?
    pub(crate) done: bool,
}

/// What a wake did to a thread's place.
pub(crate) enum Woken {
    /// Nothing.
    Unmoved,
    /// It waits now, or waits on another CPU than before; with what that told of the time before.
    Moved { deduced: Option<Deduced>, new: Place },
}

impl Threads {
    /// Handles a wake event.
    pub(crate) fn wake(&mut self, slot: Slot, t: i64, wake: WakeEvent, env: &mut Env<'_>) -> Woken {
        let thread = self.get_mut(slot);
        let pending = Wake { ts: t, waker: wake.waker, waker_cpu: wake.waker_cpu };
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
                Woken::Moved { deduced: None, new }
            }
            Place::Asleep { .. } | Place::Gone => {
                thread.wake = Some(pending);
                let deduced = self.change(slot, t, None, new, env);
                Woken::Moved { deduced, new }
            }
            Place::Unknown => {
                // A sched_wakeup alone may be the second half of a wake that is older than the
                // stream: then nothing is told about the time before.
                let told = Place::Asleep { cpu: None, letter: None };
                thread.wake = Some(pending);
                let deduced = self.change(slot, t, (!wake.done).then_some(told), new, env);
                Woken::Moved { deduced, new }
            }
        }
    }
}

impl Env<'_> {
    /// One row of the wakeups table; `ran` is when and where the thread got a CPU.
    pub(crate) fn wakeup(&mut self, tid: Tid, wake: Wake, ran: Option<(i64, CpuId)>) {
        if wake.ts < self.start || !self.wants.wakeups {
            return;
        }
        self.sink.row(Row::Wakeup(Wakeup {
            ts: wake.ts,
            dur: ran.map(|(t, _)| t - wake.ts),
            machine_id: self.machine,
            tid,
            waker_tid: wake.waker,
            waker_cpu: wake.waker_cpu,
            cpu: ran.map(|(_, cpu)| cpu),
        }));
    }
}
