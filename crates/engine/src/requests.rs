//! The way of block requests between a guest and its host: their part of the routing.

use crate::{
    at::At,
    states::{
        causes::{delivery::Request, on_cpu::About},
        slots::Slot,
        stages::{
            Interrupt, Named, Rung, Stages, Told,
            parts::{Asked, Part},
            waking::Done,
        },
        thread::{Place, Wake},
    },
    world::{World, env},
};
use transect_model::{
    cause::{CauseKind, Evidence},
    event::BlockRequest,
    ids::{MachineId, Tid},
    table::TableSink,
};

impl World {
    /// A doorbell of the VM's was rung for these.
    pub(crate) fn requests_kicked(
        &mut self,
        at: At,
        vm: MachineId,
        rung: &[(Request, Evidence)],
        doorbell: u64,
    ) {
        let vm = vm.0 as usize;
        // It does not have to be woken if it waits for a CPU already.
        let waiting = self.causes.queues.get(&vm).and_then(|queues| queues.back_end(doorbell));
        let waiting = waiting.filter(|tid| self.is_waiting(at.m, *tid));
        for (request, evidence) in rung {
            let Some(stages) = self.machines[vm].blocks.stages(*request) else { continue };
            if stages.kick.is_some() {
                continue;
            }
            stages.kick = Some(Rung { ts: at.t, doorbell: Some(doorbell), evidence: *evidence });
            if let Some(tid) = waiting {
                stages.backend = Some(tid);
                self.ways.wait_for(at.m, tid, (vm, *request));
            }
        }
    }

    /// A vCPU of a domain tells somebody by an event channel behind these.
    pub(crate) fn domain_requests_kicked(&mut self, at: At, v: usize) {
        let vm = self.vcpus[v].machine.0 as usize;
        // Dom0 asks the host's devices, and nobody by a channel.
        if self.machines[vm].info.domid == Some(0) {
            return;
        }
        for request in self.causes.of_vcpu(v).take_awaiting() {
            let Some(stages) = self.machines[vm].blocks.stages(request) else { continue };
            let rung = Rung { ts: at.t, doorbell: None, evidence: Evidence::Context };
            stages.kick.get_or_insert(rung);
        }
    }

    pub(crate) fn is_waiting(&self, m: usize, tid: Tid) -> bool {
        let threads = &self.machines[m].threads;
        let place = threads.find(tid).map(|slot| threads.get(slot).place);
        matches!(place, Some(Place::Waiting { .. }))
    }

    /// In the exit of vCPU `v` in which a doorbell was rung for these, thread `tid` was woken, or is the current
    /// one and goes on outside of the kernel.
    pub(crate) fn back_end_woken(
        &mut self,
        at: At,
        v: usize,
        (doorbell, requests): (u64, &[Request]),
        tid: Tid,
    ) {
        let host = &self.machines[at.m];
        // Another may have been woken before.
        if host.is_filtered() || host.filter.partial_wakings {
            return;
        }
        let vm = self.vcpus[v].machine.0 as usize;
        if tid != at.tid {
            self.causes.queues.entry(vm).or_default().wakes(doorbell, tid);
        }
        // Of one that goes on, it is not known when it sees what it has to do.
        let is_waiting = self.is_waiting(at.m, tid);
        for request in requests {
            let Some(stages) = self.machines[vm].blocks.stages(*request) else { continue };
            if stages.backend.is_some() {
                continue;
            }
            stages.backend = Some(tid);
            if tid == at.tid {
                stages.pickup = Some(at.t);
            } else if is_waiting {
                self.ways.wait_for(at.m, tid, (vm, *request));
            }
        }
    }

    /// A thread gets a CPU; `wake` is the waking before it, if that is why.
    pub(crate) fn runs(
        &mut self,
        m: usize,
        slot: Slot,
        t: i64,
        wake: Option<Wake>,
        sink: &mut dyn TableSink,
    ) {
        if !self.wants.io_requests && !self.wants.packets {
            return;
        }
        let machine = &mut self.machines[m];
        let thread = machine.threads.get(slot);
        let tid = thread.tid;
        if machine.info.domid == Some(0) && thread.vm.is_some() {
            self.ways.serves(m, tid, t);
        }
        self.packets.come(m, tid, t);
        if let Some(wake) = wake
            && let Some(about) = wake.waker.about
        {
            self.packets.runs(machine.id, about, (wake.ts, t), tid);
            machine.blocks.runs(about, (wake.ts, t), tid, env!(self, machine, sink));
        }
        for (vm, request) in self.ways.come(m, tid) {
            if let Some(stages) = self.machines[vm].blocks.stages(request)
                && stages.backend == Some(tid)
            {
                stages.pickup.get_or_insert(t);
            }
        }
        self.tell_packets(sink);
    }

    /// A request is done, as `event` tells of its last part.
    pub(crate) fn request_ends(
        &mut self,
        at: At,
        event: BlockRequest,
        (told, mut stages): (Told, Stages),
        sink: &mut dyn TableSink,
    ) {
        if !self.wants.io_requests {
            return;
        }
        self.part_ends(at, &told);
        let named = self.complete_stages(at, &told, &mut stages);
        let id = Some(event.id.map_or(event.sector, u64::from));
        let about = About { kind: CauseKind::Completion, ts: at.t, id };
        let machine = &mut self.machines[at.m];
        let done = Done { told, stages, named, about };
        machine.blocks.waking.add(done, env!(self, machine, sink));
    }

    /// A request of a VMM's to a device of its host may be for one of its guest's.
    fn part_ends(&mut self, at: At, told: &Told) {
        let threads = &self.machines[at.m].threads;
        let Some(vm) = threads.find(told.tid).and_then(|slot| threads.get(slot).vm) else { return };
        let part = Part {
            submit: told.ts,
            issue: told.issue,
            complete: at.t,
            device: told.request.device,
            tid: told.tid,
            served_since: self.ways.served_since(at.m, told.tid, told.ts),
        };
        self.ways.parts(vm.0 as usize).done(told.request, part);
    }

    fn complete_stages(&mut self, at: At, told: &Told, stages: &mut Stages) -> Named {
        let machine = &self.machines[at.m];
        let Some(host) = machine.info.parent.filter(|_| !machine.vcpu_of_cpu.is_empty()) else {
            return Named::default();
        };
        let guest = machine.id;
        let by = machine
            .vcpu_of_cpu
            .get(at.c)
            .copied()
            .flatten()
            .and_then(|v| self.causes.vcpu(v))
            .and_then(|delivery| delivery.delivered());
        let doorbell = stages.kick.and_then(|kick| kick.doorbell);
        let found = match self.causes.queues.get(&at.m) {
            Some(queues) if !stages.is_hidden => {
                queues.interrupt_of(told.request.device, doorbell, by)
            }
            _ => None,
        };
        // Dom0 has the host's devices.
        let is_domain = machine.info.domid.is_some_and(|domid| domid != 0);
        let mut queue = None;
        if let Some((delivered, evidence)) = found {
            queue = Some(self.causes.name(at.m, delivered.irq)).filter(|name| !name.is_empty());
            stages.interrupt = delivered.signals.map(|signals| Interrupt {
                signals: Some(signals),
                inject: delivered.inject,
                handler: delivered.handler,
                evidence,
            });
        } else if is_domain
            && !stages.is_hidden
            && let Some((irq, handler)) = machine.cpus[at.c].irqs.line()
        {
            // What Xen does in between is not told.
            queue = Some(self.causes.name(at.m, irq)).filter(|name| !name.is_empty());
            let evidence = Evidence::Context;
            stages.interrupt = Some(Interrupt { signals: None, inject: None, handler, evidence });
        }
        if !stages.is_hidden {
            // A handler takes up what is done while it runs, too.
            let asked = Asked {
                request: told.request,
                issued: told.issue.unwrap_or(told.ts),
                picked_up: stages.pickup.or(stages.kick.map(|kick| kick.ts)),
                until: at.t,
            };
            stages.part = self.ways.parts(at.m).find(&asked);
            // Nobody woke it in a VM exit.
            if is_domain && let Some((part, _)) = stages.part {
                (stages.pickup, stages.backend) = (part.served_since, Some(part.tid));
            }
        }
        Named { queue, error_ns: self.error_between(guest, host) }
    }

    /// Events are missing: of what is under way, the rest may be among them.
    pub(crate) fn lose_requests(&mut self) {
        self.ways.lose();
        for machine in &mut self.machines {
            machine.blocks.hide_stages();
        }
    }
}
