//! A simulator of kernels, KVM and guests' kernels: consistent recordings with their true states.
//!
//! Every step gives one CPU of the host its turn. The CPU then does one thing that is possible in
//! its state, usually with one event. A CPU whose vCPU thread is in guest mode passes most turns
//! to the guest's kernel. Times increase strictly over all CPUs.
//!
//! The order of events follows Linux 6.1, `kernel/sched/core.c`: a thread that gives up its CPU
//! makes no further event before its switch-out, and a waking can come in between
//! (`try_to_wake_up`); `sched_migrate_task` and `sched_wakeup` follow `sched_waking` on the
//! waker's CPU with interrupts off, or the target's CPU records `sched_wakeup` (`ttwu_queue`).

use super::{
    system::{
        HOST, Handler, Kernel, Kvm, Leaving, Life, Phase, Plan, Recorded, Recording, Rest, Step,
        Thread, TrueState, key,
    },
    wire::Wire,
};
use transect_model::{
    event::{Comm, CoreEvent, PrevState},
    ids::{CpuId, MachineId, Tid},
    interrupt::{Context, VectorSource},
};

/// The source and vector of the timer (`LOCAL_TIMER_VECTOR`).
const TIMER: (VectorSource, u32) = (VectorSource::LocalTimer, 0xec);

/// Threads of one kernel at a time, at most.
const MAX_THREADS: usize = 12;

/// Runs the steps.
pub fn simulate(plan: &Plan, steps: &[Step]) -> Recording {
    let kernels = plan.kernels();
    let mut recording = Recording { topology: plan.topology(&kernels), ..Recording::default() };
    for (machine, kernel) in kernels.iter().enumerate() {
        recording.keys.extend((0..kernel.cpus.len()).map(|cpu| key(machine, cpu)));
        for thread in &kernel.threads {
            let state = match thread.phase {
                Phase::Queued(_) => TrueState::Runnable,
                _ => TrueState::Blocked('S'),
            };
            let machine = MachineId(machine as u32);
            recording.truth.insert((machine, thread.tid), vec![(0, state)]);
            recording.lives.push(Life {
                machine,
                tid: thread.tid,
                pid: thread.pid,
                cgroup: thread.cgroup,
                from: 0,
            });
        }
    }
    let mut simulator =
        Simulator { plan: *plan, kernels, recording, now: 1000, wire: Wire::default() };
    simulator.record_vcpu_truth();
    for step in steps {
        simulator.now += 1 + i64::from(step.after_ns);
        let cpu = usize::from(step.cpu) % plan.host_cpus;
        let pick = Pick { action: u64::from(step.action), detail: u64::from(step.detail) };
        simulator.take_turn(HOST, cpu, pick);
        simulator.record_vcpu_truth();
    }
    simulator.recording
}

/// The random part of a step: fractions of 65,536 that are used up digit by digit.
#[derive(Clone, Copy, Debug)]
pub struct Pick {
    action: u64,
    detail: u64,
}

impl Pick {
    fn take(fraction: &mut u64, choices: usize) -> usize {
        let wide = *fraction * choices.max(1) as u64;
        *fraction = wide & 0xffff;
        (wide >> 16) as usize
    }

    /// One of the choices, for the action itself.
    pub fn action(&mut self, choices: usize) -> usize {
        Self::take(&mut self.action, choices)
    }

    /// One of the choices, for a property of the action.
    pub fn detail(&mut self, choices: usize) -> usize {
        Self::take(&mut self.detail, choices)
    }
}

pub struct Simulator {
    pub plan: Plan,
    pub kernels: Vec<Kernel>,
    pub recording: Recording,
    pub now: i64,
    pub wire: Wire,
}

/// What the scheduler of a CPU can do in a turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Turn {
    SwitchIn,
    Preempt,
    Sleep(char),
    Wake(usize),
    Arrive,
    Balance(usize),
    Fork,
    WakeNew,
    Exit,
    Die,
    EnterHandler(Handler),
    LeaveHandler,
    Other(super::activity::Activity),
}

impl Simulator {
    pub fn take_turn(&mut self, m: usize, c: usize, mut pick: Pick) {
        if let Some(rest) = self.kernels[m].cpus[c].rest.pop_front() {
            return self.finish_wake(m, c, rest);
        }
        if self.kernels[m].cpus[c].leaving.is_some() {
            return self.switch_out(m, c);
        }
        // A driver does not sleep.
        let cpu = &self.kernels[m].cpus[c];
        if cpu.sending.is_some() || cpu.forwarding.is_some() {
            return self.send_packet(m, c);
        }
        if self.pass_to_guest(m, c, &mut pick) {
            return;
        }
        let turns = self.turns(m, c);
        if turns.is_empty() {
            return;
        }
        let turn = turns[pick.action(turns.len())];
        self.perform(m, c, turn, &mut pick);
    }

    fn turns(&self, m: usize, c: usize) -> Vec<Turn> {
        let kernel = &self.kernels[m];
        let cpu = &kernel.cpus[c];
        let mut turns = Vec::new();
        let mut add = |turn: Turn, weight: usize| {
            turns.extend(std::iter::repeat_n(turn, weight));
        };
        let in_handler = !cpu.handlers.is_empty();
        if !in_handler {
            match cpu.current {
                None if !cpu.queue.is_empty() => add(Turn::SwitchIn, 8),
                None => {}
                Some(current) => self.thread_turns(m, c, current, &mut add),
            }
        }
        if let Some(top) = cpu.handlers.last() {
            add(Turn::LeaveHandler, 4);
            if matches!(top, Handler::Soft(_)) {
                add(Turn::EnterHandler(Handler::Hard(7)), 1);
                add(Turn::EnterHandler(Handler::Timer), 1);
            }
        } else {
            add(Turn::EnterHandler(Handler::Hard(5)), 1);
            add(Turn::EnterHandler(Handler::Timer), 1);
            add(Turn::EnterHandler(Handler::Soft(1)), 1);
        }
        if !cpu.arrivals.is_empty() {
            add(Turn::Arrive, 6);
        }
        let longest = (0..kernel.cpus.len()).filter(|other| *other != c);
        if let Some(from) = longest.max_by_key(|other| kernel.cpus[*other].queue.len())
            && !kernel.cpus[from].queue.is_empty()
        {
            add(Turn::Balance(from), 2);
        }
        if in_handler || cpu.current.is_some() {
            for (thread, state) in kernel.threads.iter().enumerate() {
                add(Turn::Wake(thread), self.wake_weight(m, c, state, thread));
            }
        }
        self.activities(m, c, &mut |activity, weight| add(Turn::Other(activity), weight));
        turns
    }

    /// A running thread's own turns of the scheduler.
    fn thread_turns(&self, m: usize, c: usize, at: usize, add: &mut dyn FnMut(Turn, usize)) {
        let kernel = &self.kernels[m];
        let thread = &kernel.threads[at];
        if !kernel.cpus[c].queue.is_empty() {
            add(Turn::Preempt, 4);
        }
        if thread.child.is_some() {
            return add(Turn::WakeNew, 8);
        }
        if thread.exiting {
            return add(Turn::Die, 8);
        }
        if self.can_sleep(thread) {
            add(Turn::Sleep('S'), 4);
            add(Turn::Sleep('D'), 1);
        }
        if thread.vcpu.is_none() && thread.work.is_none() && thread.syscall.is_none() {
            let alive = kernel.threads.iter().filter(|t| t.phase != Phase::Dead).count();
            if alive < MAX_THREADS {
                add(Turn::Fork, 1);
            }
            if alive > 1 {
                add(Turn::Exit, 1);
            }
        }
    }

    /// Sleeping, on its way out, or (full collector only) about to sleep and still running.
    fn wake_weight(&self, m: usize, c: usize, thread: &Thread, at: usize) -> usize {
        match thread.phase {
            Phase::Sleeping => 3,
            Phase::OnCpu => {
                let cpu = &self.kernels[m].cpus[thread.last_cpu];
                match cpu.leaving {
                    Some(Leaving::Asleep(_)) if cpu.current == Some(at) => {
                        if thread.woken_on_way_out { 0 } else { 5 }
                    }
                    Some(_) => 0,
                    None => {
                        let is_elsewhere = thread.last_cpu != c;
                        usize::from(self.plan.full && is_elsewhere && self.can_sleep(thread))
                    }
                }
            }
            _ => 0,
        }
    }

    fn perform(&mut self, m: usize, c: usize, turn: Turn, pick: &mut Pick) {
        match turn {
            Turn::SwitchIn => self.switch(m, c, PrevState(0)),
            Turn::Preempt => {
                let current = self.kernels[m].cpus[c].current;
                // Yielding threads have no flag.
                let state = PrevState(if pick.detail(4) == 3 { 0 } else { 0x100 });
                self.switch(m, c, state);
                if let Some(thread) = current {
                    self.enqueue(m, thread, c);
                }
            }
            Turn::Sleep(letter) => {
                self.kernels[m].cpus[c].leaving = Some(Leaving::Asleep(letter));
                if pick.detail(2) == 0 {
                    self.switch_out(m, c);
                }
            }
            Turn::Die => {
                self.kernels[m].cpus[c].leaving = Some(Leaving::Dead);
                self.switch_out(m, c);
            }
            Turn::Wake(thread) => self.wake(m, c, thread, pick),
            Turn::Arrive => {
                if let Some(thread) = self.kernels[m].cpus[c].arrivals.pop_front() {
                    self.finish_wake(m, c, Rest::Wakeup { thread, to: c });
                }
            }
            Turn::Balance(from) => self.balance(m, c, from),
            Turn::Fork => self.fork(m, c, pick),
            Turn::WakeNew => self.wake_new(m, c, pick),
            Turn::Exit => {
                let Some(current) = self.kernels[m].cpus[c].current else { return };
                let tid = self.kernels[m].threads[current].tid;
                self.kernels[m].threads[current].exiting = true;
                self.emit(m, c, CoreEvent::SchedExit { tid, comm: Comm::default() });
            }
            Turn::EnterHandler(handler) => {
                self.kernels[m].cpus[c].handlers.push(handler);
                self.emit(
                    m,
                    c,
                    match handler {
                        Handler::Hard(irq) => CoreEvent::IrqEntry { irq, name: Comm::default() },
                        Handler::Timer => {
                            CoreEvent::VectorEntry { source: TIMER.0, vector: TIMER.1 }
                        }
                        Handler::Soft(vector) => CoreEvent::SoftirqEntry { vector },
                    },
                );
            }
            Turn::LeaveHandler => {
                let Some(handler) = self.kernels[m].cpus[c].handlers.pop() else { return };
                self.emit(
                    m,
                    c,
                    match handler {
                        Handler::Hard(irq) => CoreEvent::IrqExit { irq, handled: true },
                        Handler::Timer => {
                            CoreEvent::VectorExit { source: TIMER.0, vector: TIMER.1 }
                        }
                        Handler::Soft(vector) => CoreEvent::SoftirqExit { vector },
                    },
                );
            }
            Turn::Other(activity) => self.act(m, c, activity, pick),
        }
    }

    /// The thread that gave up its CPU is switched out.
    fn switch_out(&mut self, m: usize, c: usize) {
        let cpu = &mut self.kernels[m].cpus[c];
        let (Some(leaving), Some(current)) = (cpu.leaving.take(), cpu.current) else { return };
        let state = match leaving {
            Leaving::Asleep('D') => 2,
            Leaving::Asleep(_) => 1,
            Leaving::Dead => 0x10,
        };
        self.switch(m, c, PrevState(state));
        let thread = &mut self.kernels[m].threads[current];
        if let Kvm::Exit { slept, .. } = &mut thread.kvm {
            *slept = true;
        }
        match leaving {
            Leaving::Dead => {
                thread.phase = Phase::Dead;
                self.record_truth(m, current, TrueState::Gone);
            }
            Leaving::Asleep(_) if std::mem::take(&mut thread.woken_on_way_out) => {
                thread.phase = Phase::Waking;
                self.record_truth(m, current, TrueState::Runnable);
                if self.plan.full {
                    self.kernels[m].cpus[c].arrivals.push_back(current);
                } else {
                    self.enqueue(m, current, c);
                }
            }
            Leaving::Asleep(letter) => {
                thread.phase = Phase::Sleeping;
                self.record_truth(m, current, TrueState::Blocked(letter));
            }
        }
    }

    /// The CPU goes to the first thread of its queue, or to the idle thread.
    fn switch(&mut self, m: usize, c: usize, prev_state: PrevState) {
        let next = self.kernels[m].cpus[c].queue.pop_front();
        let (prev, next_tid) = (self.current_tid(m, c), self.tid(m, next));
        self.emit(
            m,
            c,
            CoreEvent::SchedSwitch {
                prev,
                prev_comm: Comm::default(),
                prev_prio: 120,
                prev_state,
                next: next_tid,
                next_comm: Comm::default(),
                next_prio: 120,
            },
        );
        self.kernels[m].cpus[c].current = next;
        if let Some(next) = next {
            let thread = &mut self.kernels[m].threads[next];
            thread.phase = Phase::OnCpu;
            thread.last_cpu = c;
            self.record_truth(m, next, TrueState::Running(c));
        }
    }

    /// The context that ftrace's flags tell of an event on the CPU.
    pub fn context(&self, m: usize, c: usize) -> Option<Context> {
        Some(match self.kernels[m].cpus[c].handlers.last() {
            None => Context::Task,
            Some(Handler::Soft(_)) => Context::Softirq,
            Some(Handler::Hard(_) | Handler::Timer) => Context::Irq,
        })
    }

    fn wake(&mut self, m: usize, c: usize, at: usize, pick: &mut Pick) {
        let thread = &self.kernels[m].threads[at];
        let (tid, target, phase) = (thread.tid, thread.last_cpu, thread.phase);
        let (comm, prio, target_cpu) = (Comm::default(), 120, CpuId(target as u32));
        let context = self.context(m, c);
        self.emit(m, c, CoreEvent::SchedWaking { tid, comm, prio, target_cpu, context });
        if phase == Phase::OnCpu {
            if self.kernels[m].cpus[target].leaving.is_some() {
                self.kernels[m].threads[at].woken_on_way_out = true;
            } else {
                // Still queued: it just goes on (`ttwu_runnable`).
                self.now += 1;
                self.emit(m, c, CoreEvent::SchedWakeup { tid, comm, prio, target_cpu, context });
            }
            return;
        }
        self.kernels[m].threads[at].phase = Phase::Waking;
        self.record_truth(m, at, TrueState::Runnable);
        let cpus = self.kernels[m].cpus.len();
        let to = if pick.detail(2) == 0 { target } else { pick.detail(cpus) };
        let remote = to != c && pick.detail(2) == 1;
        if to != target && self.plan.migrations {
            let rest = Rest::Migrate { thread: at, to, remote };
            self.kernels[m].cpus[c].rest.push_back(rest);
        } else {
            self.queue_wakeup(m, c, at, to, remote);
        }
    }

    fn queue_wakeup(&mut self, m: usize, c: usize, thread: usize, to: usize, remote: bool) {
        if !self.plan.full {
            self.enqueue(m, thread, to);
        } else if remote {
            self.kernels[m].cpus[to].arrivals.push_back(thread);
        } else {
            self.kernels[m].cpus[c].rest.push_back(Rest::Wakeup { thread, to });
        }
    }

    fn finish_wake(&mut self, m: usize, c: usize, rest: Rest) {
        match rest {
            Rest::Migrate { thread, to, remote } => {
                self.emit_migrate(m, c, thread, to);
                self.queue_wakeup(m, c, thread, to, remote);
            }
            Rest::Wakeup { thread, to } => {
                let tid = self.kernels[m].threads[thread].tid;
                let target_cpu = CpuId(to as u32);
                let context = self.context(m, c);
                let (comm, prio) = (Comm::default(), 120);
                let wakeup = CoreEvent::SchedWakeup { tid, comm, prio, target_cpu, context };
                self.emit(m, c, wakeup);
                self.enqueue(m, thread, to);
            }
        }
    }

    fn enqueue(&mut self, m: usize, thread: usize, cpu: usize) {
        self.kernels[m].threads[thread].phase = Phase::Queued(cpu);
        self.kernels[m].threads[thread].last_cpu = cpu;
        self.kernels[m].cpus[cpu].queue.push_back(thread);
        self.record_truth(m, thread, TrueState::Runnable);
    }

    /// This CPU takes a waiting thread from another CPU's run queue.
    fn balance(&mut self, m: usize, c: usize, from: usize) {
        let Some(thread) = self.kernels[m].cpus[from].queue.pop_back() else { return };
        if self.plan.migrations {
            self.emit_migrate(m, c, thread, c);
        }
        self.enqueue(m, thread, c);
    }

    fn emit_migrate(&mut self, m: usize, c: usize, thread: usize, to: usize) {
        let thread = &self.kernels[m].threads[thread];
        let (orig_cpu, dest_cpu) = (CpuId(thread.last_cpu as u32), CpuId(to as u32));
        let tid = thread.tid;
        self.emit(m, c, CoreEvent::SchedMigrate { tid, orig_cpu, dest_cpu });
    }

    fn fork(&mut self, m: usize, c: usize, pick: &mut Pick) {
        let Some(current) = self.kernels[m].cpus[c].current else { return };
        let kernel = &mut self.kernels[m];
        let parent = kernel.threads[current].clone();
        let alive =
            |tid: Tid| kernel.threads.iter().any(|t| t.tid == tid && t.phase != Phase::Dead);
        let reused = kernel.threads.iter().map(|t| t.tid).find(|tid| !alive(*tid));
        let tid = match reused.filter(|_| pick.detail(2) == 1) {
            Some(tid) => tid,
            None => {
                kernel.next_tid += 1;
                Tid(kernel.next_tid - 1)
            }
        };
        let pid = if pick.detail(2) == 1 { parent.pid } else { tid };
        let mut child = Thread::new(tid.0, pid.0, parent.cgroup, c);
        child.phase = Phase::New;
        let at = kernel.threads.len();
        kernel.threads.push(child);
        kernel.threads[current].child = Some(at);
        let child_pid = (!self.plan.full).then_some(pid);
        let event = CoreEvent::SchedFork {
            parent: parent.tid,
            child: tid,
            child_pid,
            child_comm: Comm::default(),
        };
        self.emit(m, c, event);
        self.record_truth(m, at, TrueState::Runnable);
        let machine = MachineId(m as u32);
        let life = Life { machine, tid, pid, cgroup: parent.cgroup, from: self.now };
        self.recording.lives.push(life);
    }

    fn wake_new(&mut self, m: usize, c: usize, pick: &mut Pick) {
        let Some(current) = self.kernels[m].cpus[c].current else { return };
        let Some(child) = self.kernels[m].threads[current].child.take() else { return };
        let to = pick.detail(self.kernels[m].cpus.len());
        let tid = self.kernels[m].threads[child].tid;
        let (comm, target_cpu) = (Comm::default(), CpuId(to as u32));
        self.emit(m, c, CoreEvent::SchedWakeupNew { tid, comm, prio: 120, target_cpu });
        self.enqueue(m, child, to);
    }

    fn tid(&self, m: usize, thread: Option<usize>) -> Tid {
        thread.map_or(Tid::IDLE, |at| self.kernels[m].threads[at].tid)
    }

    pub fn current_tid(&self, m: usize, c: usize) -> Tid {
        self.tid(m, self.kernels[m].cpus[c].current)
    }

    pub fn emit(&mut self, m: usize, c: usize, event: impl Into<Option<CoreEvent>>) {
        let (key, ts, tid) = (key(m, c), self.now, self.current_tid(m, c));
        self.recording.events.push(Recorded { key, ts, tid, event: event.into() });
    }

    fn record_truth(&mut self, m: usize, thread: usize, state: TrueState) {
        let tid = self.kernels[m].threads[thread].tid;
        let states = self.recording.truth.entry((MachineId(m as u32), tid)).or_default();
        if states.last().is_none_or(|(_, last)| *last != state) {
            states.push((self.now, state));
        }
    }
}
