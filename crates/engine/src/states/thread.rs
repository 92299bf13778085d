//! Threads of one machine: running, runnable, blocked – and who woke whom.
//!
//! ```text
//!                 switch in                      switch out, runnable
//!   Waiting ───────────────────▶ OnCpu ─────────────────────────────▶ Waiting (preempted)
//!      ▲                           │ switch out, asleep
//!      └──────── waking ───────── Asleep          switch out, dead ──▶ Gone
//! ```
//!
//! **Boundary state.** A thread starts `Unknown`. Its first event also tells what it was before:
//! a `sched_switch` away from it says that it ran since `known_from`, the moment from which the
//! machine's streams are complete, because an earlier change would have been recorded. That is
//! certain only if the machine records `sched_switch` at all (`Env::deduce`); without it no state is
//! known. A thread that is switched in from sleep without a waking slept and then waited, and
//! nothing tells when: that stretch is `unknown`.
//!
//! **Lost events.** Every thread that does not demonstrably run on another CPU may have been woken,
//! run and put to sleep in the hole, so it becomes `Unknown` from the hole's start. As long as the
//! hole lasts (`Threads::hidden_until`), this holds for each thread that leaves its CPU, too.
//!
//! **Filters.** A thread that does not pass the filter (`Thread::whole`) has no known state: the
//! events about it that are in the recording are those about another thread.

use super::{
    Env,
    slots::{PID_MAX, Slot, Slots},
    waker::Waker,
};
use serde::{Deserialize, Serialize};
use transect_model::{
    event::Comm,
    ids::{CpuId, MachineId, Tid},
    state::ThreadState,
    table::{Row, ThreadStateRow},
};

/// Where a thread is in its machine's scheduler.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Place {
    /// No knowledge.
    Unknown,
    /// On this CPU.
    OnCpu(CpuId),
    /// Wants to run; on the run queue of `cpu`, where known.
    Waiting { cpu: Option<CpuId>, woken: bool },
    /// Asleep, with the letter of the kernel's sleep state; last on `cpu`.
    Asleep { cpu: Option<CpuId>, letter: Option<char> },
    /// Not there: exited, or not yet created.
    Gone,
}

impl Place {
    /// The CPU the thread is on, waits for or was last on.
    pub(crate) fn cpu(self) -> Option<CpuId> {
        match self {
            Place::OnCpu(cpu) => Some(cpu),
            Place::Waiting { cpu, .. } | Place::Asleep { cpu, .. } => cpu,
            Place::Unknown | Place::Gone => None,
        }
    }

    fn state(self) -> Option<ThreadState> {
        match self {
            Place::Unknown => Some(ThreadState::Unknown),
            Place::OnCpu(_) => Some(ThreadState::Running),
            Place::Waiting { .. } => Some(ThreadState::Runnable),
            Place::Asleep { .. } => Some(ThreadState::Blocked),
            Place::Gone => None,
        }
    }
}

/// A wakeup that has not yet led to a switch-in.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(crate) struct Wake {
    pub(crate) ts: i64,
    pub(crate) waker: Waker,
}

/// A system call that has not yet returned.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(crate) struct OpenSyscall {
    pub(crate) ts: i64,
    pub(crate) nr: i64,
}

/// One thread's state between two events.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Thread {
    pub(crate) tid: Tid,
    pub(crate) comm: Comm,
    pub(crate) pid: Option<Tid>,
    /// Index of its control group in the windows analysis.
    pub(crate) cgroup: Option<usize>,
    pub(crate) cgroup_name: Option<String>,
    /// Index of the vCPU this thread runs, if it is a vCPU thread.
    pub(crate) vcpu: Option<usize>,
    /// The VM this thread works for (vCPU, VMM or vhost thread).
    pub(crate) vm: Option<MachineId>,
    pub(crate) place: Place,
    /// Start of the current, not yet emitted interval.
    pub(crate) since: i64,
    /// From when on the first event tells the state before it.
    pub(super) known_from: i64,
    pub(crate) wake: Option<Wake>,
    /// Its waker, for the row of the current wait.
    waker: Option<Waker>,
    /// It was woken while its state was unknown, to a CPU that may have been running it. The waking
    /// counts if that CPU's next event shows that it was not.
    pub(super) woken_in_doubt: Option<Wake>,
    /// Every event about it was recorded.
    pub(crate) whole: bool,
    /// Its fork was recorded, and its first waking is to come.
    pub(crate) forked: bool,
    pub(crate) syscall: Option<OpenSyscall>,
}

/// What [`Threads::change`] found out about the time before the change.
pub(crate) struct Deduced {
    /// From when on the thread was in `told`.
    pub(crate) from: i64,
    pub(crate) told: Place,
}

/// The threads of one machine.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Threads {
    slots: Slots,
    all: Vec<Thread>,
    /// Places of threads that are gone and forgotten.
    free: Vec<u32>,
    /// From when on the machine's streams are complete (they began, or a hole ended).
    pub(crate) known_from: i64,
    /// Before this, a CPU's events are missing: a thread that is on no CPU may be on that one.
    pub(crate) hidden_until: i64,
    /// The events of some threads only are recorded.
    pub(crate) filtered: bool,
}

impl Threads {
    /// No threads yet; the machine's streams are complete from `known_from` on.
    pub(crate) fn new(known_from: i64) -> Self {
        Threads { known_from, hidden_until: i64::MIN, ..Threads::default() }
    }

    pub(crate) fn find(&self, tid: Tid) -> Option<Slot> {
        self.slots.get(tid)
    }

    /// The thread's slot, made on first sight. None for numbers that no Linux thread can have:
    /// those come from broken input, and must not fill the memory. Whether the thread existed before
    /// the streams were complete is not known, so its life begins there.
    pub(crate) fn slot(&mut self, tid: Tid, start: i64) -> Option<Slot> {
        if let Some(slot) = self.find(tid) {
            return Some(slot);
        }
        if tid.0 <= 0 || tid.0 > PID_MAX {
            return None;
        }
        let thread = Thread {
            tid,
            comm: Comm::default(),
            pid: None,
            cgroup: None,
            cgroup_name: None,
            vcpu: None,
            vm: None,
            place: Place::Unknown,
            since: start,
            known_from: self.known_from,
            wake: None,
            waker: None,
            woken_in_doubt: None,
            whole: true,
            forked: false,
            syscall: None,
        };
        if let Some(slot) = self.free.pop() {
            self.slots.set(tid, slot);
            self.all[slot as usize] = thread;
            return Some(slot as usize);
        }
        let slot = u32::try_from(self.all.len()).ok()?;
        self.slots.set(tid, slot);
        self.all.push(thread);
        Some(slot as usize)
    }

    /// Forgets threads that were gone before `t`, but for those in `kept`; `forgotten` is told. For runs
    /// without an end.
    pub(crate) fn forget_gone(&mut self, t: i64, kept: &[Slot], mut forgotten: impl FnMut(Tid)) {
        for (slot, thread) in self.all.iter_mut().enumerate() {
            let is_gone = thread.place == Place::Gone && thread.since < t && thread.tid.0 > 0;
            if !is_gone || thread.vcpu.is_some() || kept.contains(&slot) {
                continue;
            }
            // A number that was used again is another slot's.
            if self.slots.get(thread.tid) == Some(slot) {
                self.slots.set(thread.tid, Slots::NONE);
                forgotten(thread.tid);
            }
            thread.tid = Tid::IDLE;
            thread.cgroup_name = None;
            self.free.extend(u32::try_from(slot));
        }
    }

    pub(crate) fn get(&self, slot: Slot) -> &Thread {
        &self.all[slot]
    }

    pub(crate) fn get_mut(&mut self, slot: Slot) -> &mut Thread {
        &mut self.all[slot]
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Thread> {
        // Those that are forgotten have no number.
        self.all.iter().filter(|thread| thread.tid != Tid::IDLE)
    }

    pub(crate) fn len(&self) -> usize {
        self.all.len()
    }

    /// The thread goes to `new` at `t`; `told` is where the event says it was until then.
    pub(crate) fn change(
        &mut self,
        slot: Slot,
        t: i64,
        told: Option<Place>,
        new: Place,
        env: &mut Env<'_>,
    ) -> Option<Deduced> {
        if new != Place::Gone {
            self.revive(slot);
        }
        let new = self.certain(slot, t, new);
        let hidden_until = self.hidden_until;
        let thread = &mut self.all[slot];
        let deduced = thread.deduce(t, told, hidden_until, env);
        thread.woken_in_doubt = None;
        if !matches!(new, Place::Waiting { woken: true, .. }) {
            thread.forget_sleep(matches!(new, Place::OnCpu(_)), env);
        }
        if new == Place::Unknown && thread.whole {
            thread.known_from = thread.known_from.max(hidden_until);
        }
        if new == Place::Unknown {
            thread.give_up(env);
        }
        let moves = thread.place != new;
        if moves {
            thread.close(t, env);
            thread.place = new;
        }
        thread.waker = match new {
            Place::Waiting { woken: true, .. } => thread.wake.map(|w| w.waker),
            _ => None,
        };
        if let Place::OnCpu(cpu) = new
            && (moves || deduced.is_some())
        {
            env.run_begins(cpu, thread.tid, thread.since);
        }
        deduced
    }

    /// Where a thread certainly is from `t` on, if an event at `t` shows it at `new`.
    fn certain(&self, slot: Slot, t: i64, new: Place) -> Place {
        let is_shown = match new {
            Place::Unknown | Place::Gone => true,
            Place::OnCpu(_) => self.all[slot].whole,
            Place::Waiting { .. } | Place::Asleep { .. } => {
                self.all[slot].whole && t >= self.hidden_until
            }
        };
        if is_shown { new } else { Place::Unknown }
    }

    /// A new life begins at `t`: no row covers the time before, not even an `unknown` one, unless
    /// the end of an earlier life under the same number was not seen.
    pub(crate) fn born(&mut self, slot: Slot, t: i64, new: Place, env: &mut Env<'_>) {
        let new = self.certain(slot, t, new);
        let hidden_until = self.hidden_until;
        let thread = &mut self.all[slot];
        if thread.place != Place::Unknown {
            thread.close(t, env);
        }
        thread.since = t;
        thread.place = new;
        thread.known_from = if thread.whole { t.max(hidden_until) } else { i64::MAX };
        thread.wake = None;
        thread.waker = None;
        thread.woken_in_doubt = None;
        thread.syscall = None;
    }

    /// The thread in `old` goes on under the number of its process's first thread, which is gone.
    pub(crate) fn rename(&mut self, old: Slot, slot: Slot, t: i64) {
        let known_from = self.hidden_until.max(t);
        let Thread { pid, cgroup, cgroup_name, vm, whole, .. } = self.all[old].clone();
        let thread = &mut self.all[slot];
        if thread.place == Place::Gone {
            (thread.place, thread.since) = (Place::Unknown, t);
            thread.known_from = if whole { known_from } else { i64::MAX };
        }
        (thread.pid, thread.vm) = (pid.or(thread.pid), vm.or(thread.vm));
        if cgroup.is_some() {
            (thread.cgroup, thread.cgroup_name) = (cgroup, cgroup_name);
        }
        thread.whole |= whole;
    }

    /// The thread was switched in, so it did not run before. The CPU that it was woken to was idle last
    /// at `last_idle`.
    pub(crate) fn was_not_running(&mut self, slot: Slot, last_idle: i64, env: &mut Env<'_>) {
        let thread = &mut self.all[slot];
        thread.settle_doubt(last_idle >= thread.known_from, env);
    }

    /// A waking that counts only if the thread turns out not to have run on its CPU.
    pub(super) fn doubt(&mut self, slot: Slot, wake: Wake) {
        self.all[slot].woken_in_doubt.get_or_insert(wake);
    }

    /// A thread under the number of one that is gone, whose birth was not recorded: its process and control group
    /// are not known. With a filter, the births of whole threads are recorded.
    pub(crate) fn revive(&mut self, slot: Slot) {
        let thread = &mut self.all[slot];
        if thread.place != Place::Gone {
            return;
        }
        thread.pid = None;
        thread.cgroup = None;
        thread.cgroup_name = None;
        if self.filtered {
            thread.whole = false;
            thread.never_known();
        }
    }

    /// The thread was switched in: its wakeup is complete.
    pub(crate) fn complete_wake(&mut self, slot: Slot, t: i64, cpu: CpuId, env: &mut Env<'_>) {
        let thread = &mut self.all[slot];
        if let Some(wake) = thread.wake.take() {
            env.wakeup(thread.tid, wake, Some((t, cpu)));
        }
    }

    /// Events about the thread may be missing from `t` on; from `until` on they are complete again.
    /// True if that ended a known state.
    pub(crate) fn lose(&mut self, slot: Slot, t: i64, until: i64, env: &mut Env<'_>) -> bool {
        let thread = &mut self.all[slot];
        thread.forget_sleep(false, env);
        thread.known_from = thread.known_from.max(until);
        thread.woken_in_doubt = None;
        thread.give_up(env);
        if matches!(thread.place, Place::Unknown | Place::Gone) {
            return false;
        }
        thread.close(t, env);
        thread.place = Place::Unknown;
        thread.waker = None;
        true
    }

    /// Emits what is open.
    pub(crate) fn finish(&mut self, end: i64, env: &mut Env<'_>) {
        for thread in &mut self.all {
            thread.forget_sleep(false, env);
            thread.close(end, env);
            thread.give_up(env);
        }
    }
}

impl Thread {
    /// Uses the first event about the thread to say what it was since `known_from`; off the CPUs, since
    /// the events of all CPUs are complete.
    fn deduce(
        &mut self,
        t: i64,
        told: Option<Place>,
        hidden_until: i64,
        env: &mut Env<'_>,
    ) -> Option<Deduced> {
        let told = told.filter(|_| self.place == Place::Unknown && env.deduce)?;
        let mut from = self.known_from.max(self.since);
        if !matches!(told, Place::OnCpu(_)) {
            from = from.max(hidden_until);
        }
        if from > t {
            return None;
        }
        self.close(from, env);
        self.place = told;
        self.waker = None;
        Some(Deduced { from, told })
    }

    /// No event about it tells what it was before.
    pub(crate) fn never_known(&mut self) {
        self.known_from = i64::MAX;
    }

    /// A sleep that no waking ends: it slept and then waited (`has_run`), or wakings are not recorded at all.
    fn forget_sleep(&mut self, has_run: bool, env: &Env<'_>) {
        if matches!(self.place, Place::Asleep { .. }) && (has_run || !env.wakings) {
            self.place = Place::Unknown;
        }
    }

    /// The end of what is open will not be seen.
    fn give_up(&mut self, env: &mut Env<'_>) {
        // A thread that was not seen to leave its CPU may just go on.
        if let Some(wake) = self.wake.take()
            && matches!(self.place, Place::Waiting { .. })
        {
            env.wakeup(self.tid, wake, None);
        }
        if let Some(call) = self.syscall.take() {
            env.syscall(self.tid, call, None);
        }
    }

    /// A thread that was woken while it may have been running turns out not to have run: it slept
    /// until the waking and has waited since.
    fn settle_doubt(&mut self, was_idle: bool, env: &mut Env<'_>) {
        let Some(wake) = self.woken_in_doubt.take() else { return };
        let from = self.known_from.max(self.since);
        if self.place != Place::Unknown || from > wake.ts || !env.deduce {
            return;
        }
        if was_idle {
            self.close(from, env);
            self.place = Place::Asleep { cpu: None, letter: None };
        }
        self.close(wake.ts, env);
        // It may have been moved to another run queue since.
        self.place = Place::Waiting { cpu: None, woken: true };
        // A thread that waited already is not woken.
        self.wake = Some(wake).filter(|_| was_idle);
        self.waker = self.wake.map(|wake| wake.waker);
    }

    /// Ends the current interval at `t` and emits it.
    fn close(&mut self, t: i64, env: &mut Env<'_>) {
        let from = self.since.max(env.start);
        self.since = self.since.max(t);
        let Some(state) = self.place.state() else { return };
        // Without the scheduler's switches it is not known how long a thread stays where it was seen.
        let (place, state) = match env.deduce {
            true => (self.place, state),
            false => (Place::Unknown, ThreadState::Unknown),
        };
        if let Place::OnCpu(cpu) = place
            && let Some(end) = env.run_ends(cpu, self.tid, from, t)
        {
            self.since = self.since.max(end);
            env.windows.thread(self.cgroup, state, from, end);
            return;
        }
        if t <= from {
            return;
        }
        env.windows.thread(self.cgroup, state, from, t);
        if !env.wants.thread_states {
            return;
        }
        let waker = self.waker.filter(|_| state == ThreadState::Runnable);
        env.sink.row(Row::ThreadState(ThreadStateRow {
            ts: from,
            dur: t - from,
            machine_id: env.machine,
            tid: self.tid,
            cpu: place.cpu(),
            state,
            effective: None,
            reason: match place {
                Place::Asleep { letter, .. } => letter,
                _ => None,
            },
            waker_tid: waker.and_then(|waker| waker.tid),
            waker_context: waker.and_then(|waker| waker.context),
        }));
    }
}
