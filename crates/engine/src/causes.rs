//! What each event tells of causes: their part of the routing.

use crate::{
    at::At,
    states::{
        causes::{
            Edge, Effect, Origin,
            delivery::{Accepted, Kick, PORT, into_vcpu, kind_of},
            on_cpu::Message,
        },
        occupant::Occupant,
        packets::packet_id,
    },
    world::{World, env},
};
use std::ops::Range;
use transect_model::{
    cause::{CauseKind, Evidence},
    event::{Access, BlockRequest, Comm, CoreEvent},
    ids::{MachineId, Tid, VcpuId},
    interrupt::Context,
    stack::StackPoint,
    table::{IrqLine, Row, StackSample, TableSink},
};

/// Where the registers of a CPU's interrupt controller are, if the guest has not moved them.
const LOCAL_APIC: Range<u64> = 0xfee0_0000..0xfee0_1000;

impl World {
    /// A core event, before it does anything else.
    #[inline]
    pub(crate) fn follow(&mut self, at: At, event: &CoreEvent, sink: &mut dyn TableSink) {
        let cpu = &mut self.machines[at.m].cpus[at.c];
        match *event {
            CoreEvent::VectorEntry { .. } => self.machines[at.m].has_vectors = true,
            CoreEvent::NetReceive { skb, bytes, device } => {
                cpu.on_its_way.receives(at.t, cpu.irqs.within(None).1);
                self.packet_given(at, skb, device, bytes);
            }
            CoreEvent::BlockComplete { request, .. } => {
                let id = request.id.map_or(request.sector, u64::from);
                cpu.on_its_way.completes(at.t, id, cpu.irqs.within(None).1);
            }
            CoreEvent::NetPacket { flow, seq, sent: false, .. } => {
                let id = packet_id((flow, seq));
                cpu.on_its_way.names_packet(id, cpu.irqs.within(None).1);
            }
            CoreEvent::KvmMsi { address, data } => {
                cpu.on_its_way.sends(at, Message { address, data });
            }
            CoreEvent::SoftirqRaise { vector, context } => self.raised(at, vector, context),
            CoreEvent::SoftirqEntry { vector } => self.softirq_runs(at, vector, sink),
            CoreEvent::Stack { point, kernel, user, woken } => {
                self.stack(at, (point, woken), (kernel, user), sink);
            }
            _ => {}
        }
        if !self.causes.is_hidden(at.m, at.t) {
            self.follow_between(at, event, sink);
        }
    }

    /// The stack of the event before.
    fn stack(
        &mut self,
        at: At,
        (point, woken_tid): (StackPoint, Option<Tid>),
        (kernel_stack_id, user_stack_id): (Option<u32>, Option<u32>),
        sink: &mut dyn TableSink,
    ) {
        if !self.wants.stack_samples || at.t < self.start {
            return;
        }
        let stage_ts = match point {
            StackPoint::Wake => {
                self.current_vcpu(at).and_then(|v| self.causes.of_vcpu(v).doorbell_ts())
            }
            _ => Some(at.t),
        };
        sink.row(Row::from(StackSample {
            ts: at.t,
            machine_id: self.machines[at.m].id,
            cpu: at.cpu,
            tid: at.tid,
            point,
            stage_ts,
            kernel_stack_id,
            user_stack_id,
            woken_tid,
        }));
    }

    /// What concerns more than one CPU.
    fn follow_between(&mut self, at: At, event: &CoreEvent, sink: &mut dyn TableSink) {
        match *event {
            CoreEvent::SchedSwitch { .. } => {
                if let Some(v) = self.vcpu_of_guest(at) {
                    self.causes.of_vcpu(v).switches();
                }
            }
            CoreEvent::WorkQueue { .. } | CoreEvent::WorkStart { .. } => {
                self.follow_work(at, event, sink);
            }
            CoreEvent::IrqEntry { irq, name } => self.line_runs(at, irq, name, sink),
            CoreEvent::VectorEntry { vector, .. } => self.vector_runs(at, vector, sink),
            CoreEvent::BlockIssue(request) => self.request_issued(at, request),
            CoreEvent::BlockComplete { request, .. } => self.request_done(at, request),
            CoreEvent::NetPacket { skb, flow, seq, sent: true } => {
                let from = self.origin(at, None);
                self.packet_sent(at, skb, (flow, seq), from, sink);
            }
            CoreEvent::NetPacket { skb, flow, seq, sent: false } => {
                self.packet_received(at, skb, (flow, seq), sink);
            }
            CoreEvent::NetXmit { skb, device, bytes, .. } => {
                self.packet_left(at, skb, device, bytes);
            }
            // The others run no line, and are not injected by their vector.
            CoreEvent::KvmAccept { vcpu, vector, mode: 0 | 1, hardware, context } => {
                self.accepted(at, (vcpu, vector, hardware), context, sink);
            }
            CoreEvent::KvmInjVirq { vector, reinjected: false } => self.injected(at, vector, sink),
            CoreEvent::KvmMmio { access: Access::Write, gpa, .. }
            | CoreEvent::KvmFastMmio { gpa } => self.kick(at, gpa),
            CoreEvent::KvmPio { access: Access::Write, port, .. } => {
                self.kick(at, PORT | u64::from(port));
            }
            CoreEvent::KvmUserspaceExit { .. } => {
                if let Some(v) = self.current_vcpu(at) {
                    self.kicked(at, v, Some(at.tid), sink);
                }
            }
            CoreEvent::KvmEntry { .. } => {
                if let Some(v) = self.current_vcpu(at) {
                    self.packets.card(v).leave();
                    if let Some(kick) = self.causes.of_vcpu(v).leave() {
                        self.emit_kick(at, kick, None, sink);
                    }
                }
            }
            _ => {}
        }
    }

    /// Where an event happens whose context is `told`.
    fn origin(&self, at: At, told: Option<Context>) -> Origin {
        let machine = &self.machines[at.m];
        Origin::of(at, machine.id, told, (&machine.cpus[at.c].irqs, machine.has_vectors))
    }

    fn raised(&mut self, at: At, vector: u32, told: Option<Context>) {
        let from = self.origin(at, told);
        let machine = &mut self.machines[at.m];
        // Between what the filter leaves, another cause may be missing.
        if !machine.is_filtered() {
            machine.cpus[at.c].on_its_way.raise(vector, from);
        }
    }

    fn softirq_runs(&mut self, at: At, vector: u32, sink: &mut dyn TableSink) {
        let machine = &mut self.machines[at.m];
        let env = env!(self, machine, sink);
        machine.cpus[at.c].on_its_way.softirq(at, vector, env);
    }

    fn follow_work(&mut self, at: At, event: &CoreEvent, sink: &mut dyn TableSink) {
        let machine = &mut self.machines[at.m];
        if machine.is_filtered() {
            return;
        }
        match *event {
            CoreEvent::WorkQueue { work, context, .. } => {
                let from = self.origin(at, context);
                self.causes.queued.queue(work, from);
            }
            CoreEvent::WorkStart { work, .. } => {
                let env = env!(self, machine, sink);
                self.causes.queued.begins(at, work, env);
            }
            _ => {}
        }
    }

    /// The vCPU that a guest's CPU is.
    pub(crate) fn vcpu_of_guest(&self, at: At) -> Option<usize> {
        self.machines[at.m].vcpu_of_cpu.get(at.c).copied().flatten()
    }

    /// Takes the bounds of the machines' clocks, ns.
    pub(crate) fn know_bounds(&mut self, bounds: &[(MachineId, u64)]) {
        for (machine, bound) in bounds {
            let at = machine.0 as usize;
            if self.bounds.len() <= at {
                self.bounds.resize(at + 1, None);
            }
            self.bounds[at] = Some(*bound);
        }
    }

    /// How far off the length of a cause between two machines can be.
    pub(crate) fn error_between(&self, from: MachineId, to: MachineId) -> Option<u64> {
        if from == to {
            return Some(0);
        }
        self.bound(from)?.checked_add(self.bound(to)?)
    }

    /// The bound of a machine's clock, ns.
    pub(crate) fn bound(&self, machine: MachineId) -> Option<u64> {
        self.bounds.get(machine.0 as usize).copied().flatten()
    }

    pub(crate) fn emit_edge(&mut self, at: At, edge: Edge, sink: &mut dyn TableSink) {
        let error_ns = self.error_between(edge.from.machine, edge.to.machine);
        let machine = &mut self.machines[at.m];
        env!(self, machine, sink).cause(Edge { error_ns, ..edge });
    }

    fn line_runs(&mut self, at: At, irq: i32, name: Comm, sink: &mut dyn TableSink) {
        self.causes.see_line(at.m, irq, name);
        if let Some(v) = self.vcpu_of_guest(at)
            && let Some(line) = self.causes.of_vcpu(v).line(irq, at.t)
        {
            if let Some(delivered) = self.causes.of_vcpu(v).delivered() {
                self.causes.queues.entry(at.m).or_default().handles(delivered);
            }
            let edge = Edge {
                kind: CauseKind::Line,
                from: line.from,
                to: Effect::handler(at, self.machines[at.m].id),
                id: u64::try_from(irq).ok(),
                evidence: line.evidence,
                candidates: line.candidates,
                error_ns: None,
            };
            self.emit_edge(at, edge, sink);
        }
    }

    fn vector_runs(&mut self, at: At, vector: u32, sink: &mut dyn TableSink) {
        if let Some(v) = self.vcpu_of_guest(at)
            && let Some(line) = self.causes.of_vcpu(v).vector(vector)
        {
            let edge = Edge {
                kind: CauseKind::Line,
                from: line.from,
                to: Effect::handler(at, self.machines[at.m].id),
                id: None,
                evidence: line.evidence,
                candidates: line.candidates,
                error_ns: None,
            };
            self.emit_edge(at, edge, sink);
        }
    }

    fn request_issued(&mut self, at: At, request: BlockRequest) {
        if let Some(v) = self.vcpu_of_guest(at) {
            let key = (request.device, request.sector);
            let parent = self.machines[at.m].info.parent;
            if parent.is_some_and(|host| self.causes.is_hidden(host.0 as usize, at.t)) {
                return;
            }
            self.causes.of_vcpu(v).issue(key);
            self.causes.queues.entry(at.m).or_default().issue(key);
        }
    }

    fn request_done(&mut self, at: At, request: BlockRequest) {
        if let Some(v) = self.vcpu_of_guest(at) {
            let by = self.causes.of_vcpu(v).delivered();
            let queues = self.causes.queues.entry(at.m).or_default();
            queues.complete((request.device, request.sector), by);
        }
    }

    /// The vCPU of a VM of this host that takes an interrupt from whom this event is of: of the current
    /// thread's VM, if the thread is the sender.
    fn vcpu_addressed(&self, at: At, id: VcpuId, by_thread: bool) -> Option<usize> {
        let vm = if by_thread { self.vm_of_current(at) } else { None };
        let host = self.machines[at.m].id;
        let is_it = |v: &&crate::states::vcpu::Vcpu| match vm {
            Some(vm) => v.machine == vm && v.id == id,
            None => {
                let parent = self.machines[v.machine.0 as usize].info.parent;
                v.id == id && parent == Some(host)
            }
        };
        let mut found = self.vcpus.iter().filter(is_it);
        let only = found.next()?.index;
        found.next().is_none().then_some(only)
    }

    fn accepted(
        &mut self,
        at: At,
        (id, vector, hardware): (VcpuId, u32, bool),
        told: Option<Context>,
        sink: &mut dyn TableSink,
    ) {
        let cpu = &mut self.machines[at.m].cpus[at.c];
        let before = cpu.seen_before;
        let message = cpu.on_its_way.accepts(at, before);
        let from = self.origin(at, told);
        let by_thread = !from.is_interrupt();
        let Some(v) = self.vcpu_addressed(at, id, by_thread) else { return };
        let sender = self.current_vcpu(at).filter(|_| by_thread);
        let kind = kind_of(message, vector, sender == Some(v), sender.is_some());
        let is_partial = self.machines[at.m].is_filtered();
        let from = Origin { vector: i32::try_from(vector).ok(), ..from };
        let new = Accepted { from, message, kind, count: 1, last: at.t, is_partial };
        if hardware {
            // Delivered without an injection: there is nothing to wait for.
            let to = Effect::here(at, from.machine);
            self.causes.of_vcpu(v).deliver(vector, new);
            self.emit_injection(at, v, new, to, sink);
        } else {
            self.causes.of_vcpu(v).accept(vector, new);
        }
    }

    fn injected(&mut self, at: At, vector: u32, sink: &mut dyn TableSink) {
        let Some(v) = self.current_vcpu(at) else { return };
        // The vCPU's thread does this, in its own context.
        let from = self.origin(at, Some(Context::Task));
        let to = Effect::here(at, from.machine);
        if let Some(accepted) = self.causes.of_vcpu(v).inject(vector, from) {
            self.emit_injection(at, v, accepted, to, sink);
        }
    }

    fn emit_injection(
        &mut self,
        at: At,
        v: usize,
        accepted: Accepted,
        to: Effect,
        sink: &mut dyn TableSink,
    ) {
        let (vm, vcpu) = (self.vcpus[v].machine, self.vcpus[v].id);
        let evidence = match accepted {
            Accepted { is_partial: true, .. } => Evidence::Order,
            Accepted { count, .. } => Evidence::of_number(count),
        };
        let edge = Edge {
            kind: accepted.kind,
            from: accepted.from,
            to: into_vcpu(to, vm, vcpu),
            id: accepted.message.map(Message::id),
            evidence,
            candidates: accepted.count,
            // The injection is an event of the host's.
            error_ns: Some(0),
        };
        let machine = &mut self.machines[at.m];
        env!(self, machine, sink).cause(edge);
    }

    /// A guest rings a doorbell: what its vCPU's thread does from here to the next entry is for it.
    fn kick(&mut self, at: At, doorbell: u64) {
        let host = &self.machines[at.m];
        // Whom it lets go on, and when that is over.
        let is_end_told = host.has_contexts && self.seen_entry && !host.filter.has_partial_exits();
        // The vCPU's own interrupt controller is no device.
        if !is_end_told || LOCAL_APIC.contains(&doorbell) {
            return;
        }
        let Some(v) = self.current_vcpu(at) else { return };
        let vm = self.vcpus[v].machine;
        let guest = &self.machines[vm.0 as usize];
        let cpu = guest.vcpu_of_cpu.iter().position(|of| *of == Some(v));
        let running = cpu.and_then(|c| guest.cpus.get(c)).map(|cpu| (cpu.id, cpu.occupant));
        let tid = match running {
            Some((_, Occupant::Thread { tid, .. })) => Some(tid),
            _ => None,
        };
        let from = Origin {
            ts: at.t,
            machine: vm,
            cpu: running.map(|(cpu, _)| cpu),
            tid,
            context: None,
            vector: None,
        };
        let kick = Kick { from, doorbell, answered: false };
        let is_sending = cpu.and_then(|c| guest.cpus.get(c)).is_some_and(|cpu| cpu.is_sending());
        if is_sending {
            self.causes.of_vcpu(v).ring_for_none(kick);
            self.packets_kicked(at, v, Some(doorbell));
            return;
        }
        let rung = self.causes.of_vcpu(v).ring(kick);
        self.causes.queues.entry(vm.0 as usize).or_default().ring(&rung, doorbell);
        self.requests_kicked(at, vm, &rung, doorbell);
    }

    /// A vCPU's thread wakes `tid`, or goes on itself outside of the kernel.
    pub(crate) fn kicked(&mut self, at: At, v: usize, tid: Option<Tid>, sink: &mut dyn TableSink) {
        if let Some((kick, requests)) = self.causes.of_vcpu(v).answer() {
            self.emit_kick(at, kick, tid, sink);
            if let Some(tid) = tid {
                self.back_end_woken(at, v, (kick.doorbell, &requests), tid);
                let packets = self.packets.card(v).answer();
                self.packets_picked_up(at, &packets, tid);
            }
        }
    }

    fn emit_kick(&mut self, at: At, kick: Kick, tid: Option<Tid>, sink: &mut dyn TableSink) {
        let host = self.machines[at.m].id;
        let edge = Edge {
            kind: CauseKind::Kick,
            from: kick.from,
            to: Effect { ts: at.t, machine: host, cpu: Some(at.cpu), tid, vcpu: None },
            id: Some(kick.doorbell),
            evidence: Evidence::Context,
            candidates: u32::from(tid.is_some()),
            // The doorbell is an event of the host's.
            error_ns: Some(0),
        };
        let machine = &mut self.machines[at.m];
        env!(self, machine, sink).cause(edge);
    }

    /// The rows of what was learned about lines and queues.
    pub(crate) fn finish_causes(&self, sink: &mut dyn TableSink) {
        if self.wants.irq_lines {
            for m in 0..self.machines.len() {
                self.emit_lines(m, sink);
            }
        }
        if self.wants.queues {
            for (m, queues) in &self.causes.queues {
                queues.emit(self.machines[*m].id, |irq| self.causes.name(*m, irq), sink);
            }
        }
    }

    fn emit_lines(&self, m: usize, sink: &mut dyn TableSink) {
        let machine = &self.machines[m];
        let mut told = std::collections::BTreeSet::new();
        let line = |irq: i32| IrqLine {
            machine_id: machine.id,
            cpu: None,
            vector: None,
            irq,
            name: self.causes.name(m, irq),
            runs: None,
            agreement: None,
        };
        for (c, v) in machine.vcpu_of_cpu.iter().enumerate() {
            let delivery = v.and_then(|v| self.causes.vcpu(v));
            let Some((cpu, delivery)) = machine.cpus.get(c).zip(delivery) else { continue };
            for (vector, (irq, runs, all)) in delivery.votes() {
                told.insert(irq);
                #[expect(clippy::cast_precision_loss, reason = "a share of counts")]
                let agreement = runs as f64 / all as f64;
                sink.row(Row::IrqLine(IrqLine {
                    cpu: Some(cpu.id),
                    vector: i32::try_from(vector).ok(),
                    runs: Some(runs),
                    agreement: Some(agreement),
                    ..line(irq)
                }));
            }
        }
        for (irq, _) in self.causes.lines(m).filter(|(irq, _)| !told.contains(irq)) {
            sink.row(Row::IrqLine(line(irq)));
        }
    }
}
