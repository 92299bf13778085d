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
//! certain only if the machine records `sched_switch` at all (`Env::deduce`). Where wakings are not
//! recorded, `blocked` lasts until the switch-in, the time on the run queue included.
//!
//! **Lost events.** Every thread that does not demonstrably run on another CPU may have been woken,
//! run and put to sleep in the hole, so it becomes `Unknown` from the hole's start.

use super::Env;
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
    pub(crate) waker: Tid,
    pub(crate) waker_cpu: CpuId,
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
    known_from: i64,
    pub(crate) wake: Option<Wake>,
    /// Who woke it, for the row of the current wait.
    waker: Option<Tid>,
    pub(crate) syscall: Option<OpenSyscall>,
}

/// What [`Threads::change`] found out about the time before the change.
pub(crate) struct Deduced {
    /// From when on the thread was in `told`.
    pub(crate) from: i64,
    pub(crate) told: Place,
}

/// Index of a thread in [`Threads`].
pub(crate) type Slot = usize;

/// The largest thread id Linux can give (`PID_MAX_LIMIT`, include/linux/threads.h).
const PID_MAX: i32 = 4 * 1024 * 1024;

/// Slots by thread number: pages of a table that is as long as the largest number, of which only
/// those exist that numbers were used of. Every waking and switch looks one up.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
struct Slots(Vec<Vec<u32>>);

impl Slots {
    const PAGE_BITS: u32 = 8;
    const NONE: u32 = u32::MAX;

    fn place(tid: Tid) -> Option<(usize, usize)> {
        let number = usize::try_from(tid.0).ok()?;
        Some((number >> Self::PAGE_BITS, number & ((1 << Self::PAGE_BITS) - 1)))
    }

    #[inline]
    fn get(&self, tid: Tid) -> Option<Slot> {
        let (page, at) = Self::place(tid)?;
        let slot = *self.0.get(page)?.get(at)?;
        (slot != Self::NONE).then_some(slot as usize)
    }

    /// For numbers up to [`PID_MAX`] only, which bounds the table.
    fn set(&mut self, tid: Tid, slot: u32) {
        let Some((page, at)) = Self::place(tid) else { return };
        if self.0.len() <= page {
            self.0.resize(page + 1, Vec::new());
        }
        let page = &mut self.0[page];
        page.resize(1 << Self::PAGE_BITS, Self::NONE);
        page[at] = slot;
    }
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
}

impl Threads {
    /// No threads yet; the machine's streams are complete from `known_from` on.
    pub(crate) fn new(known_from: i64) -> Self {
        Threads { known_from, ..Threads::default() }
    }

    pub(crate) fn find(&self, tid: Tid) -> Option<Slot> {
        self.slots.get(tid)
    }

    /// The thread's slot, made on first sight. None for numbers that no Linux thread can have:
    /// those come from broken input, and must not fill the memory.
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
        let thread = &mut self.all[slot];
        let deduced = thread.deduce(t, told, env);
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

    /// A new life begins at `t`: nothing is said about the time before, not even `unknown`, unless
    /// an earlier life under the same number was not seen to end.
    pub(crate) fn born(&mut self, slot: Slot, t: i64, new: Place, env: &mut Env<'_>) {
        let thread = &mut self.all[slot];
        if thread.place != Place::Unknown {
            thread.close(t, env);
        }
        thread.since = t;
        thread.place = new;
        thread.known_from = t;
        thread.wake = None;
        thread.waker = None;
        thread.syscall = None;
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
        thread.known_from = thread.known_from.max(until);
        if let Some(wake) = thread.wake.take() {
            env.wakeup(thread.tid, wake, None);
        }
        if let Some(call) = thread.syscall.take() {
            env.syscall(thread.tid, call, None);
        }
        if matches!(thread.place, Place::Unknown | Place::Gone) {
            return false;
        }
        thread.close(t, env);
        thread.place = Place::Unknown;
        true
    }

    /// Emits what is open.
    pub(crate) fn finish(&mut self, end: i64, env: &mut Env<'_>) {
        for thread in &mut self.all {
            thread.close(end, env);
            if let Some(wake) = thread.wake.take() {
                env.wakeup(thread.tid, wake, None);
            }
            if let Some(call) = thread.syscall.take() {
                env.syscall(thread.tid, call, None);
            }
        }
    }
}

impl Thread {
    /// Uses the first event about the thread to say what it was since `known_from`.
    fn deduce(&mut self, t: i64, told: Option<Place>, env: &mut Env<'_>) -> Option<Deduced> {
        let told = told.filter(|_| self.place == Place::Unknown && env.deduce)?;
        let from = self.known_from.max(self.since);
        if from > t {
            return None;
        }
        self.close(from, env);
        self.place = told;
        Some(Deduced { from, told })
    }

    /// Ends the current interval at `t` and emits it.
    fn close(&mut self, t: i64, env: &mut Env<'_>) {
        let from = self.since.max(env.start);
        self.since = self.since.max(t);
        let Some(state) = self.place.state() else { return };
        if let Place::OnCpu(cpu) = self.place
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
        env.sink.row(Row::ThreadState(ThreadStateRow {
            ts: from,
            dur: t - from,
            machine_id: env.machine,
            tid: self.tid,
            cpu: self.place.cpu(),
            state,
            effective: None,
            reason: match self.place {
                Place::Asleep { letter, .. } => letter,
                _ => None,
            },
            waker_tid: self.waker,
        }));
    }
}
