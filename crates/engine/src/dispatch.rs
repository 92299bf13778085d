//! What each event does: the routing from tracepoints to state machines.

use crate::{
    at::At,
    states::{
        Waker,
        irqs::Handler,
        occupant::Occupant,
        slots::Slot,
        stages::WokenFor,
        thread::{OpenSyscall, Place, Wake},
        vcpu::HaltEnd,
        wakeups::{WakeEvent, Woken},
    },
    world::{World, env},
};
use transect_model::{
    event::{Access, Comm, CoreEvent, PrevState},
    exit::ExitReason,
    ids::{CpuId, MachineId, MachineKind, Tid, VcpuId},
    interrupt::{Context, IrqSource},
    table::TableSink,
};

/// `sched_switch` without what only the names need.
#[derive(Clone, Copy)]
struct Switch {
    prev: Tid,
    prev_comm: Comm,
    prev_state: PrevState,
    next: Tid,
    next_comm: Comm,
}

/// `sched_waking`, or (`done`) `sched_wakeup`.
#[derive(Clone, Copy)]
struct WakeOf {
    tid: Tid,
    comm: Comm,
    target_cpu: CpuId,
    context: Option<Context>,
    done: bool,
}

/// `sched_process_fork`.
#[derive(Clone, Copy)]
struct Fork {
    parent: Tid,
    child: Tid,
    child_pid: Option<Tid>,
    child_comm: Comm,
}

impl World {
    /// A core event.
    #[inline]
    pub(crate) fn event(&mut self, at: At, event: &CoreEvent, sink: &mut dyn TableSink) {
        self.now = at.t;
        if let CoreEvent::Xen(event) = event {
            self.xen_event(at, event, sink);
            return;
        }
        if let CoreEvent::SchedExec { tid, old_tid } = event
            && tid != old_tid
        {
            // The event itself is already in the new number's name.
            self.exec(at, *tid, *old_tid, sink);
        }
        self.any(at, sink);
        self.core(at, event, sink);
    }

    /// An event of a kind that moves no state machine.
    #[inline]
    pub(crate) fn other(&mut self, at: At, sink: &mut dyn TableSink) {
        self.now = at.t;
        match self.machines[at.m].info.kind {
            // No thread is current then.
            MachineKind::Hypervisor => self.seen(at),
            _ => self.any(at, sink),
        }
    }

    /// The CPU tells something at this time.
    #[inline]
    pub(crate) fn seen(&mut self, at: At) {
        self.machines[at.m].cpus[at.c].see(at.t);
    }

    /// What every event tells: who is current on its CPU; and a guest's must fit its vCPU.
    #[inline]
    fn any(&mut self, at: At, sink: &mut dyn TableSink) {
        let machine = &self.machines[at.m];
        if let Some(Some(v)) = machine.vcpu_of_cpu.get(at.c) {
            self.check.guest_event(*v, at.t);
        }
        if machine.has_switch && machine.cpus[at.c].occupant.tid() != Some(at.tid) {
            self.observe(at, sink);
        }
        self.seen(at);
    }

    fn core(&mut self, at: At, event: &CoreEvent, sink: &mut dyn TableSink) {
        if self.wants.follows_causes() {
            self.follow(at, event, sink);
        }
        match *event {
            CoreEvent::SchedSwitch { prev, prev_comm, prev_state, next, next_comm, .. } => {
                let switch = Switch { prev, prev_comm, prev_state, next, next_comm };
                self.switch(at, switch, sink);
            }
            CoreEvent::SchedWaking { tid, comm, target_cpu, context, .. } => {
                let wake = WakeOf { tid, comm, target_cpu, context, done: false };
                self.wake(at, wake, sink);
            }
            CoreEvent::SchedWakeup { tid, comm, target_cpu, context, .. } => {
                let wake = WakeOf { tid, comm, target_cpu, context, done: true };
                self.wake(at, wake, sink);
            }
            CoreEvent::SchedWakeupNew { tid, comm, target_cpu, .. } => {
                self.wake_new(at, tid, comm, target_cpu, sink);
            }
            CoreEvent::SchedMigrate { tid, dest_cpu, .. } => self.migrate(at, tid, dest_cpu, sink),
            CoreEvent::SchedFork { parent, child, child_pid, child_comm } => {
                self.fork(at, Fork { parent, child, child_pid, child_comm }, sink);
            }
            CoreEvent::TaskRename { tid, new_comm } => {
                if let Some(slot) = self.slot(at.m, tid) {
                    self.name(at.m, slot, new_comm);
                }
            }
            CoreEvent::SyscallEnter { nr } => self.syscall_enter(at, nr, sink),
            CoreEvent::SyscallExit { ret, .. } => self.syscall_exit(at, ret, sink),
            _ => self.interrupt(at, event, sink),
        }
    }

    fn interrupt(&mut self, at: At, event: &CoreEvent, sink: &mut dyn TableSink) {
        let begins = |world: &mut World, handler: Option<Handler>| {
            let irqs = &mut world.machines[at.m].cpus[at.c].irqs;
            match handler {
                Some(handler) if handler.source == IrqSource::Softirq => {
                    irqs.soft_entry(at.t, handler);
                }
                Some(handler) => irqs.hard_entry(at.t, handler),
                None => {}
            }
        };
        match *event {
            CoreEvent::IrqEntry { irq, .. } => begins(self, Some(Handler::line(irq))),
            CoreEvent::VectorEntry { source, vector } => {
                begins(self, Handler::vector(source, vector));
            }
            CoreEvent::SoftirqEntry { vector } => begins(self, Handler::softirq(vector)),
            CoreEvent::IrqExit { irq, .. } => self.handled(at, Some(Handler::line(irq)), sink),
            CoreEvent::VectorExit { source, vector } => {
                self.handled(at, Handler::vector(source, vector), sink);
            }
            CoreEvent::SoftirqExit { vector } => self.handled(at, Handler::softirq(vector), sink),
            _ => self.kvm(at, event, sink),
        }
    }

    fn kvm(&mut self, at: At, event: &CoreEvent, sink: &mut dyn TableSink) {
        match *event {
            CoreEvent::KvmEntry { vcpu, .. } => self.kvm_entry(at, vcpu, sink),
            CoreEvent::KvmExit { vcpu, reason, rip, .. } => {
                self.kvm_exit(at, vcpu, reason, rip, sink);
            }
            CoreEvent::KvmUserspaceExit { .. } => {
                if let Some(v) = self.running_vcpu(at, None, sink) {
                    let machine = &mut self.machines[at.m];
                    self.vcpus[v].userspace_exit(at.t, env!(self, machine, sink));
                }
            }
            CoreEvent::KvmVcpuWakeup { ns, waited, .. } => {
                self.seen_halt_end = true;
                if let Some(v) = self.running_vcpu(at, None, sink) {
                    let machine = &mut self.machines[at.m];
                    let halt = HaltEnd { ns: self.in_ns.then_some(ns), waited };
                    self.vcpus[v].wakeup(at.t, halt, env!(self, machine, sink));
                }
            }
            CoreEvent::KvmHaltPollNs { new_ns, old_ns, .. } => {
                if let Some(v) = self.current_vcpu(at) {
                    let machine = &mut self.machines[at.m];
                    self.vcpus[v].poll_window(at.t, new_ns, old_ns, env!(self, machine, sink));
                }
            }
            CoreEvent::KvmHypercall { nr, .. } => self.exit_detail(at, nr),
            CoreEvent::KvmPio { access, port, .. } => {
                self.exit_detail(at, u64::from(port));
                self.vcpu_io(at, access == Access::Write);
            }
            CoreEvent::KvmMmio { access, .. } => self.vcpu_io(at, access == Access::Write),
            CoreEvent::KvmFastMmio { .. } => self.vcpu_io(at, true),
            CoreEvent::KvmSetIrq { level, .. } => self.vm_io(at, level != 0),
            CoreEvent::KvmMsi { .. } => self.vm_io(at, true),
            _ => self.io(at, event, sink),
        }
    }

    /// A handler has ended.
    fn handled(&mut self, at: At, handler: Option<Handler>, sink: &mut dyn TableSink) {
        let Some(handler) = handler else { return };
        let machine = &mut self.machines[at.m];
        let env = env!(self, machine, sink);
        let irqs = &mut machine.cpus[at.c].irqs;
        if handler.source == IrqSource::Softirq {
            irqs.soft_exit(at.t, handler, at.cpu, env);
        } else {
            irqs.hard_exit(at.t, handler, at.cpu, env);
        }
    }

    /// The event's current thread is not the one the CPU was thought to run.
    #[cold]
    fn observe(&mut self, at: At, sink: &mut dyn TableSink) {
        let occupant = self.occupant(at.m, at.tid);
        let known = self.machines[at.m].cpus[at.c].occupant;
        let is_filtered = self.machines[at.m].is_filtered();
        let agrees = matches!(
            known,
            Occupant::Unknown { known_from } if is_filtered || known_from <= at.t
        );
        if !matches!(known, Occupant::Unknown { .. }) {
            self.displace(at.m, at.c, occupant, sink);
        }
        self.occupy(at.m, at.c, at.t, occupant, occupant, sink);
        if let Occupant::Thread { slot: Some(slot), .. } = occupant {
            self.arrive(at.m, at.c, slot, sink);
            let here = Place::OnCpu(at.cpu);
            self.change(at.m, slot, at.t, agrees.then_some(here), here, sink);
        }
        self.blame(at.m, at.c, at.t, sink);
    }

    fn occupant(&mut self, m: usize, tid: Tid) -> Occupant {
        if tid.is_idle() {
            return Occupant::Idle;
        }
        let slot = self.slot(m, tid);
        if let Some(slot) = slot {
            self.machines[m].threads.revive(slot);
        }
        Occupant::Thread { tid, slot }
    }

    fn switch(&mut self, at: At, switch: Switch, sink: &mut dyn TableSink) {
        let At { m, cpu, c, t, .. } = at;
        let here = &mut self.machines[m].cpus[c];
        here.irqs.switches();
        // A driver does not sleep: the end of that was not recorded.
        here.packets.transmit = None;
        if !std::mem::replace(&mut self.machines[m].has_switch, true) {
            self.begin_scheduling(m, t, sink);
        }
        let known = self.machines[m].cpus[c].occupant;
        // Does the CPU's own past agree that `prev` had it, so that more can be told from it?
        let (prev, agrees) = match known {
            Occupant::Unknown { known_from } => {
                (self.occupant(m, switch.prev), self.machines[m].is_filtered() || known_from <= t)
            }
            known if known.tid() == Some(switch.prev) => (known, true),
            _ => {
                let prev = self.occupant(m, switch.prev);
                self.displace(m, c, prev, sink);
                (prev, false)
            }
        };
        let next = self.occupant(m, switch.next);
        self.occupy(m, c, t, prev, next, sink);
        if let Occupant::Thread { slot: Some(slot), .. } = prev {
            self.name(m, slot, switch.prev_comm);
            self.switch_out(at, slot, switch.prev_state, agrees, sink);
        }
        if let Occupant::Thread { slot: Some(slot), .. } = next {
            self.name(m, slot, switch.next_comm);
            self.arrive(m, c, slot, sink);
            let machine = &mut self.machines[m];
            let last_idle = machine.cpus[c].last_idle(t);
            machine.threads.was_not_running(slot, last_idle, env!(self, machine, sink));
            let wake = machine.threads.get(slot).wake;
            machine.threads.complete_wake(slot, t, cpu, env!(self, machine, sink));
            self.runs(m, slot, t, wake, sink);
            let machine = &mut self.machines[m];
            let thread = machine.threads.get(slot);
            if thread.whole {
                self.windows.thread_execution(thread.cgroup, t);
            }
            // First seen when it gets the CPU: it was runnable all the time, provided that it would
            // have been seen to be woken or born otherwise.
            let machine = &self.machines[m];
            let sure = machine.has_waking && machine.has_births && !machine.filter.partial_wakings;
            // On which CPU's run queue it was is not known.
            let told = sure.then_some(Place::Waiting { cpu: None, woken: false });
            self.change(m, slot, t, told, Place::OnCpu(cpu), sink);
            let machine = &mut self.machines[m];
            let thread = machine.threads.get(slot);
            if let Some(v) = thread.vcpu.filter(|_| thread.whole) {
                self.vcpus[v].switched_in(t, env!(self, machine, sink));
            }
        }
        self.blame(m, c, t, sink);
    }

    fn switch_out(
        &mut self,
        at: At,
        slot: Slot,
        state: PrevState,
        agrees: bool,
        sink: &mut dyn TableSink,
    ) {
        let At { m, cpu, t, .. } = at;
        let woken = self.woken_on_its_way_out(at, slot);
        let new = if state.is_dead() {
            Place::Gone
        } else if state.is_runnable() {
            Place::Waiting { cpu: Some(cpu), woken: false }
        } else {
            match woken {
                Some(true) => Place::Waiting { cpu: Some(cpu), woken: true },
                Some(false) => Place::Asleep { cpu: Some(cpu), letter: Some(state.letter()) },
                None => Place::Unknown,
            }
        };
        if !matches!(new, Place::Waiting { woken: true, .. }) {
            self.machines[m].threads.get_mut(slot).wake = None;
        }
        self.change(m, slot, t, agrees.then_some(Place::OnCpu(cpu)), new, sink);
        if new == Place::Gone {
            let machine = &mut self.machines[m];
            if let Some(call) = machine.threads.get_mut(slot).syscall.take() {
                env!(self, machine, sink).syscall(machine.threads.get(slot).tid, call, None);
            }
        }
    }

    /// A thread that is switched out was woken before: did the waking meet it between giving up and
    /// leaving its CPU? See the wakeups analysis. None if that is hidden.
    fn woken_on_its_way_out(&self, at: At, slot: Slot) -> Option<bool> {
        let machine = &self.machines[at.m];
        let seen_before = machine.cpus[at.c].seen_before;
        let Some(wake) = machine.threads.get(slot).wake else {
            // Right before the end of a hole, a waking may be missing.
            return (seen_before >= machine.threads.hidden_until).then_some(false);
        };
        let had_event = seen_before > wake.ts;
        if !machine.has_wakeup {
            return Some(!had_event);
        }
        // The `sched_wakeup` of a thread that goes on may be missing.
        match wake.ts < machine.threads.hidden_until {
            false => Some(true),
            true => had_event.then_some(false),
        }
    }

    fn wake(&mut self, at: At, wake: WakeOf, sink: &mut dyn TableSink) {
        let WakeOf { tid, comm, target_cpu: target, context, done } = wake;
        let Some(slot) = self.slot(at.m, tid) else { return };
        self.name(at.m, slot, comm);
        let cpu = self.machines[at.m].cpus.get(target.0 as usize);
        let in_doubt = cpu.is_none_or(|cpu| matches!(cpu.occupant, Occupant::Unknown { .. }));
        let last_idle = cpu.map_or(i64::MIN, |cpu| cpu.last_idle(at.t));
        let machine = &mut self.machines[at.m];
        machine.has_sched_waking |= !done;
        machine.has_contexts |= !done && context.is_some();
        let alone = !machine.has_sched_waking && machine.threads.hidden_until == i64::MIN;
        let cpu = &machine.cpus[at.c];
        let here = (&cpu.irqs, &cpu.on_its_way);
        let waker = Waker::of((at.t, at.tid), at.cpu, context, here);
        let event = WakeEvent { target, waker, done, alone, in_doubt, last_idle };
        machine.has_waking = true;
        machine.has_wakeup |= done;
        if tid == at.tid {
            // It wakes itself (a signal, a timer that interrupted it): it runs, and goes on.
            return;
        }
        let slept = matches!(machine.threads.get(slot).place, Place::Asleep { .. });
        let woken = machine.threads.wake(slot, at.t, event, env!(self, machine, sink));
        if let Some(about) = waker.about.filter(|_| !done) {
            let woken = WokenFor { ts: at.t, tid, slept };
            machine.blocks.waking.wakes(about, woken);
            self.packets.wakes(machine.id, about, woken);
        }
        if !done {
            self.packet_wakes(at, tid, waker.context);
        }
        if self.wants.follows_causes()
            && !done
            && waker.context == Some(Context::Task)
            && let Some(v) = self.current_vcpu(at)
        {
            self.kicked(at, v, Some(tid), sink);
        }
        if let Woken::Moved { deduced } = woken {
            self.moved(at.m, slot, at.t, deduced, sink);
        }
    }

    fn wake_new(&mut self, at: At, tid: Tid, comm: Comm, target: CpuId, sink: &mut dyn TableSink) {
        let Some(slot) = self.slot(at.m, tid) else { return };
        self.name(at.m, slot, comm);
        let new = Place::Waiting { cpu: Some(target), woken: true };
        if !matches!(self.machines[at.m].threads.get(slot).place, Place::Waiting { .. }) {
            if !self.machines[at.m].threads.get(slot).forked {
                // Its fork, with its parent, was not recorded.
                let parent = self.machines[at.m].threads.find(at.tid);
                self.machines[at.m].take_foundling(slot, parent);
            }
            self.born(at, slot, new, sink);
        } else {
            self.change(at.m, slot, at.t, None, new, sink);
        }
        let wake = Wake { ts: at.t, waker: Waker::parent(at.t, at.tid, at.cpu) };
        let thread = self.machines[at.m].threads.get_mut(slot);
        thread.forked = false;
        thread.wake = Some(wake).filter(|_| matches!(thread.place, Place::Waiting { .. }));
    }

    fn fork(&mut self, at: At, fork: Fork, sink: &mut dyn TableSink) {
        let Some(slot) = self.slot(at.m, fork.child) else { return };
        let parent = self.slot(at.m, fork.parent).map(|parent| {
            let machine = &self.machines[at.m];
            let parent = machine.threads.get(parent);
            // In which group a thread is that was moved is not known.
            let filter = machine.filter.threads.as_ref();
            let has_moved = filter.is_some_and(|filter| filter.has_moved(parent.tid, parent.pid));
            let group = (!has_moved).then(|| (parent.cgroup, parent.cgroup_name.clone()));
            let (cgroup, name) = group.unwrap_or_default();
            (parent.vm, cgroup, name, parent.comm)
        });
        let mut comm = fork.child_comm;
        if let Some((vm, cgroup, name, parent_comm)) = parent {
            // Sources that do not repeat names leave it to us that a child has its parent's.
            comm = if comm.as_bytes().is_empty() { parent_comm } else { comm };
            let child = self.machines[at.m].threads.get_mut(slot);
            child.vm = child.vm.or(vm);
            child.cgroup = cgroup;
            child.cgroup_name = name;
            if child.place == Place::Gone {
                // The process was that of the thread that had the number before.
                child.pid = None;
            }
        }
        self.machines[at.m].take_child(slot, fork.child_pid);
        self.name(at.m, slot, comm);
        self.born(at, slot, Place::Waiting { cpu: Some(at.cpu), woken: true }, sink);
        self.machines[at.m].threads.get_mut(slot).forked = true;
    }

    /// A thread's life begins; its vCPU was offline before.
    fn born(&mut self, at: At, slot: Slot, new: Place, sink: &mut dyn TableSink) {
        let machine = &mut self.machines[at.m];
        machine.has_births = true;
        let known_from = machine.threads.known_from;
        let thread = machine.threads.get(slot);
        let before = (thread.place == Place::Unknown && known_from <= at.t)
            .then_some(crate::states::thread::Deduced { from: known_from, told: Place::Gone });
        machine.threads.born(slot, at.t, new, env!(self, machine, sink));
        self.moved(at.m, slot, at.t, before, sink);
    }

    fn migrate(&mut self, at: At, tid: Tid, dest: CpuId, sink: &mut dyn TableSink) {
        let Some(slot) = self.machines[at.m].threads.find(tid) else { return };
        if let Place::Waiting { cpu, woken } = self.machines[at.m].threads.get(slot).place
            && cpu != Some(dest)
        {
            let new = Place::Waiting { cpu: Some(dest), woken };
            self.change(at.m, slot, at.t, None, new, sink);
        }
    }

    /// A thread that was not its process's first takes over the first one's number (`de_thread`,
    /// fs/exec.c); the number it had is free.
    fn exec(&mut self, at: At, tid: Tid, old_tid: Tid, sink: &mut dyn TableSink) {
        let At { m, cpu, c, t, .. } = at;
        if let Some(old) = self.machines[m].threads.find(old_tid) {
            self.change(m, old, t, None, Place::Gone, sink);
            if let Some(slot) = self.slot(m, tid) {
                self.machines[m].threads.rename(old, slot, t);
            }
        }
        let occupant = self.occupant(m, tid);
        if self.machines[m].has_switch {
            let known = self.machines[m].cpus[c].occupant.tid();
            if known.is_some_and(|known| known != tid && known != old_tid) {
                self.displace(m, c, occupant, sink);
            }
            self.occupy(m, c, t, occupant, occupant, sink);
            if let Occupant::Thread { slot: Some(slot), .. } = occupant {
                self.change(m, slot, t, None, Place::OnCpu(cpu), sink);
            }
        }
    }

    /// Remembers a thread's name; a vhost worker's name tells whose it is.
    fn name(&mut self, m: usize, slot: Slot, comm: Comm) {
        let machine = &self.machines[m];
        let thread = machine.threads.get(slot);
        if thread.comm == comm || comm.as_bytes().is_empty() {
            return;
        }
        // A later name may be among what a snapshot lacks; a task snapshot has the last one.
        let hidden_until = machine.threads.hidden_until;
        let complete_from = if hidden_until == i64::MAX { self.start } else { hidden_until };
        if self.now < complete_from.max(self.start) && machine.has_name(thread.tid) {
            return;
        }
        let thread = self.machines[m].threads.get_mut(slot);
        thread.comm = comm;
        if thread.vm.is_none() {
            let vm = self.vm_of_thread(m, None, &comm);
            self.machines[m].threads.get_mut(slot).vm = vm;
        }
    }

    fn syscall_enter(&mut self, at: At, nr: i64, sink: &mut dyn TableSink) {
        let Some(slot) = self.current_slot(at) else { return };
        let machine = &mut self.machines[at.m];
        let open = machine.threads.get_mut(slot).syscall.replace(OpenSyscall { ts: at.t, nr });
        if let Some(call) = open {
            env!(self, machine, sink).syscall(at.tid, call, None);
        }
    }

    fn syscall_exit(&mut self, at: At, ret: i64, sink: &mut dyn TableSink) {
        let Some(slot) = self.current_slot(at) else { return };
        let machine = &mut self.machines[at.m];
        if let Some(call) = machine.threads.get_mut(slot).syscall.take() {
            env!(self, machine, sink).syscall(at.tid, call, Some((at.t, ret)));
        }
    }

    /// The slot of the event's current thread.
    fn current_slot(&mut self, at: At) -> Option<Slot> {
        match self.machines[at.m].cpus[at.c].occupant {
            Occupant::Thread { tid, slot } if tid == at.tid => slot,
            _ => self.slot(at.m, at.tid),
        }
    }

    /// The vCPU whose thread is current, if it is a vCPU's.
    #[inline]
    pub(crate) fn current_vcpu(&self, at: At) -> Option<usize> {
        let threads = &self.machines[at.m].threads;
        let slot = match self.machines[at.m].cpus[at.c].occupant {
            Occupant::Thread { tid, slot: Some(slot) } if tid == at.tid => slot,
            _ => threads.find(at.tid)?,
        };
        threads.get(slot).vcpu
    }

    /// The vCPU whose KVM event this is, inferred if need be, with its thread's place made known.
    fn running_vcpu(
        &mut self,
        at: At,
        id: Option<VcpuId>,
        sink: &mut dyn TableSink,
    ) -> Option<usize> {
        let v = match (self.current_vcpu(at), id) {
            (Some(v), id) => {
                if id.is_some_and(|id| id != self.vcpus[v].id) {
                    self.notes.other_vcpu += 1;
                }
                Some(v)
            }
            (None, Some(id)) => self.infer_vcpu(at.m, at.tid, id, sink),
            (None, None) => None,
        };
        let Some(v) = v else {
            self.notes.unattributed += 1;
            return None;
        };
        if !self.machines[at.m].has_switch {
            let machine = &mut self.machines[at.m];
            let known_from = machine.threads.known_from;
            self.vcpus[v].seen_on(at.t, at.cpu, known_from, env!(self, machine, sink));
        }
        Some(v)
    }

    fn kvm_entry(&mut self, at: At, id: Option<VcpuId>, sink: &mut dyn TableSink) {
        self.seen_entry = true;
        if let Some(v) = self.running_vcpu(at, id, sink) {
            let machine = &mut self.machines[at.m];
            self.vcpus[v].entry(at.t, env!(self, machine, sink));
        }
    }

    fn kvm_exit(
        &mut self,
        at: At,
        id: Option<VcpuId>,
        reason: ExitReason,
        rip: u64,
        sink: &mut dyn TableSink,
    ) {
        let v = self.running_vcpu(at, id, sink);
        self.seen_exit = true;
        if let Some(v) = v {
            let machine = &mut self.machines[at.m];
            let is_first = machine.cpus[at.c].is_first_since(self.vcpus[v].since);
            self.vcpus[v].exit(at.t, is_first, reason, rip, env!(self, machine, sink));
        }
    }

    fn exit_detail(&mut self, at: At, detail: u64) {
        if let Some(v) = self.current_vcpu(at) {
            self.vcpus[v].detail(detail);
        }
    }

    fn vcpu_io(&mut self, at: At, counts: bool) {
        if let Some(v) = self.current_vcpu(at).filter(|_| counts) {
            self.windows.vcpu_io(v, at.t, 1);
        }
    }

    fn vm_io(&mut self, at: At, counts: bool) {
        if let Some(vm) = self.vm_of_current(at).filter(|_| counts) {
            self.windows.vm_io(vm, at.t);
        }
    }

    pub(crate) fn vm_of_current(&self, at: At) -> Option<MachineId> {
        let threads = &self.machines[at.m].threads;
        threads.get(threads.find(at.tid)?).vm
    }
}
