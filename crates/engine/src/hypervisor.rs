//! What the records of Xen's tracer do: their part of the routing. Domains and vCPUs are added as
//! records name them; their state machines are in `states/xen`.

use crate::{
    at::At,
    states::{
        lost::Hole,
        occupant::Occupant,
        vcpu::By,
        xen::{
            MAX_VCPUS,
            domain::Domain,
            vcpu::{Change, Outcome, Vcpu},
        },
    },
    topology::MachineInfo,
    world::{World, env},
};
use transect_model::{
    ids::{CpuId, MachineId, MachineKind, Tid, VcpuId},
    table::TableSink,
    xen::{IDLE_DOMAIN, Runstate, XenCall, XenEvent, XenVcpu},
};

/// `__HYPERVISOR_grant_table_op`.
const GRANT_TABLE_OP: u32 = 20;
/// `__HYPERVISOR_event_channel_op`, and before it `event_channel_op_compat`.
const EVENT_CHANNEL_OPS: [u32; 2] = [32, 16];
/// Commands of `grant_table_op` that exchange pages: map, transfer, copy.
const EXCHANGES: [u32; 3] = [0, 4, 5];
/// `TRAP_page_fault`.
const PAGE_FAULT: u16 = 14;

impl World {
    /// A record of Xen's tracer; no thread is current then, and no kernel's state changes.
    pub(crate) fn xen_event(&mut self, at: At, event: &XenEvent, sink: &mut dyn TableSink) {
        self.seen(at);
        if self.machines[at.m].info.kind == MachineKind::Hypervisor {
            self.xen(at, event, sink);
        }
    }

    fn xen(&mut self, at: At, event: &XenEvent, sink: &mut dyn TableSink) {
        match *event {
            XenEvent::Runstate { vcpu, old, new } => self.runstate(at, vcpu, (old, new), sink),
            XenEvent::Switch { prev, next } => {
                self.runs_here(at, prev, sink);
                self.xen.pcpu(at.c).next = Some(next);
            }
            XenEvent::Continue { vcpu } | XenEvent::InfPrev { vcpu, .. } => {
                self.runs_here(at, vcpu, sink);
            }
            XenEvent::Current { vcpu } => {
                self.xen.told += 1;
                self.runs_here(at, vcpu, sink);
            }
            XenEvent::InfCont { vcpu, slice_ns, .. } => {
                self.runs_here(at, vcpu, sink);
                self.granted(at, vcpu, slice_ns, sink);
            }
            XenEvent::InfNext { vcpu, slice_ns, .. } => self.granted(at, vcpu, slice_ns, sink),
            XenEvent::Block { vcpu } | XenEvent::Yield { vcpu } => {
                if let Some(v) = self.xen.find(vcpu) {
                    self.xen.vcpus[v].gives_up(at.t);
                }
            }
            XenEvent::DomainAdded { dom } => {
                let _domain = self.xen_domain(at.m, dom);
            }
            XenEvent::DomainRemoved { dom } => self.domain_removed(at, dom, sink),
            _ => self.in_guest(at, event, sink),
        }
    }

    /// A record in the name of the vCPU that has the pCPU.
    fn in_guest(&mut self, at: At, event: &XenEvent, sink: &mut dyn TableSink) {
        let Some(v) = self.xen.current(at.c) else {
            let tells = matches!(
                event,
                XenEvent::VmExit { .. }
                    | XenEvent::Hypercall(_)
                    | XenEvent::PvTrap { .. }
                    | XenEvent::PvPageFault { .. }
            );
            self.notes.unattributed_xen += u64::from(tells);
            return;
        };
        let calls = match *event {
            XenEvent::HvmHypercall { op } => Some(op),
            XenEvent::Hypercall(call) | XenEvent::Subcall(call) => Some(call.op),
            _ => None,
        };
        if calls.is_some_and(|op| EVENT_CHANNEL_OPS.contains(&op)) {
            let index = self.xen.vcpus[v].index;
            self.domain_rings(at, index);
        }
        let machine = &mut self.machines[at.m];
        let env = env!(self, machine, sink);
        let vcpu = &mut self.xen.vcpus[v];
        match *event {
            XenEvent::VmEntry => vcpu.entry(at.t, env),
            XenEvent::VmExit { reason, rip } => vcpu.exit(at.t, reason, rip, env),
            XenEvent::HvmHypercall { op } => {
                vcpu.detail(u64::from(op));
                let index = vcpu.index;
                if EVENT_CHANNEL_OPS.contains(&op) {
                    env.windows.vcpu_io(index, at.t, 1);
                }
            }
            XenEvent::Hypercall(call) => {
                vcpu.hypercall(at.t, call, env);
                env.windows.vcpu_io(vcpu.index, at.t, io_of(call));
            }
            XenEvent::Subcall(call) => {
                vcpu.still_in(at.t, false);
                env.windows.vcpu_io(vcpu.index, at.t, io_of(call));
            }
            XenEvent::PvTrap { trap, rip } => vcpu.trap(at.t, trap, rip, None, env),
            XenEvent::PvPageFault { addr, rip } => {
                vcpu.trap(at.t, PAGE_FAULT, rip, Some(addr), env);
            }
            XenEvent::PvEmulation => vcpu.still_in(at.t, true),
            // The call's own count has them already, where it is recorded.
            XenEvent::GrantPage { .. } if vcpu.in_hypercall() != Some(GRANT_TABLE_OP) => {
                env.windows.vcpu_io(vcpu.index, at.t, 1);
            }
            _ => {}
        }
    }

    fn runstate(
        &mut self,
        at: At,
        name: XenVcpu,
        (old, new): (Runstate, Runstate),
        sink: &mut dyn TableSink,
    ) {
        if name.is_idle() {
            self.idle_runstate(at, old, new, sink);
            return;
        }
        let Some(v) = self.xen_vcpu(at.m, name, sink) else { return };
        let by = self.takes_over(at, old);
        let index = self.xen.vcpus[v].index;
        if old == Runstate::Running {
            self.had(at, Occupant::Vcpu(index), sink);
            self.xen.pcpu(at.c).current = None;
        }
        let on = if new == Runstate::Running { Some(at.cpu) } else { self.xen.vcpus[v].cpu() };
        self.waited(at.m, at.t, v, on, sink);
        let before = self.xen.vcpus[v].runstate();
        let change = Change { cpu: at.cpu, old, new, by, holes_until: self.xen.holes_until };
        let machine = &mut self.machines[at.m];
        let outcome = self.xen.vcpus[v].change(at.t, change, env!(self, machine, sink));
        self.tell_domain(at, v, before, outcome, sink);
        if new == Runstate::Running {
            self.gets(at, Occupant::Vcpu(index), sink);
            self.xen.pcpu(at.c).current = Some(v);
        }
    }

    /// If it waited until now: it did so behind whoever had this pCPU, which it gets, or was last on.
    fn waited(&mut self, m: usize, t: i64, v: usize, on: Option<CpuId>, sink: &mut dyn TableSink) {
        let vcpu = &mut self.xen.vcpus[v];
        let Some(cpu) = on else { return };
        let Some(since) = vcpu.waits_for(cpu).filter(|since| *since < t) else { return };
        let Some(pcpu) = self.xen.pcpus.get(cpu.0 as usize) else { return };
        let machine = &mut self.machines[m];
        // A switch takes a moment, for which the pCPU still was the preempted vCPU's.
        let mut is_own = vcpu.is_preempted();
        let mut piece: Option<(i64, By)> = None;
        for (to, by) in pcpu.history.since(since) {
            let by = if std::mem::take(&mut is_own) { By::default() } else { by };
            let by = vcpu.behind(by);
            if let Some((to, before)) = piece.filter(|(_, before)| *before != by) {
                vcpu.waited_behind(to, before, env!(self, machine, sink));
            }
            piece = Some((to.min(t), by));
        }
        if let Some((to, by)) = piece {
            vcpu.waited_behind(to, by, env!(self, machine, sink));
        }
    }

    fn idle_runstate(&mut self, at: At, old: Runstate, new: Runstate, sink: &mut dyn TableSink) {
        if old == Runstate::Running {
            self.had(at, Occupant::Idle, sink);
        }
        if new == Runstate::Running {
            self.gets(at, Occupant::Idle, sink);
            self.xen.pcpu(at.c).current = None;
        }
    }

    /// A record shows the vCPU to be running on this pCPU.
    fn runs_here(&mut self, at: At, name: XenVcpu, sink: &mut dyn TableSink) {
        if name.is_idle() {
            self.had(at, Occupant::Idle, sink);
            return;
        }
        let Some(v) = self.xen_vcpu(at.m, name, sink) else { return };
        if self.xen.current(at.c) == Some(v) && self.xen.vcpus[v].runs_on(at.cpu) {
            return;
        }
        self.had(at, Occupant::Vcpu(self.xen.vcpus[v].index), sink);
        let before = self.xen.vcpus[v].runstate();
        let machine = &mut self.machines[at.m];
        let outcome = self.xen.vcpus[v].runs(at.t, at.cpu, env!(self, machine, sink));
        self.tell_domain(at, v, before, outcome, sink);
        self.xen.pcpu(at.c).current = Some(v);
    }

    /// A record shows that the pCPU was this one's until now.
    fn had(&mut self, at: At, who: Occupant, sink: &mut dyn TableSink) {
        let known = self.machines[at.m].cpus[at.c].occupant;
        if known == who {
            return;
        }
        if !matches!(known, Occupant::Unknown { .. }) {
            self.displace(at.m, at.c, who, sink);
        }
        self.occupy(at.m, at.c, at.t, who, who, sink);
        // As far back as records are complete, if nothing else is known.
        let is_first = self.xen.pcpu(at.c).history.is_empty();
        let since = if is_first { self.start.max(self.xen.holes_until) } else { at.t };
        self.remember(at, since, who);
    }

    fn remember(&mut self, at: At, since: i64, who: Occupant) {
        let by = self.by(at.m, who);
        self.xen.pcpu(at.c).history.push(since, by);
    }

    /// The pCPU goes to this one.
    fn gets(&mut self, at: At, who: Occupant, sink: &mut dyn TableSink) {
        let known = self.machines[at.m].cpus[at.c].occupant;
        self.occupy(at.m, at.c, at.t, known, who, sink);
        self.remember(at, at.t, who);
        self.xen.pcpu(at.c).next = None;
    }

    /// Who takes the pCPU of a vCPU that leaves it.
    fn takes_over(&mut self, at: At, old: Runstate) -> By {
        let Some(next) = self.xen.pcpu(at.c).next.filter(|_| old == Runstate::Running) else {
            return By::default();
        };
        if next.is_idle() {
            return By { machine: Some(self.machines[at.m].id), tid: Some(Tid::IDLE) };
        }
        let domain = self.xen_domain(at.m, next.dom);
        By { machine: domain.map(|d| self.xen.domains[d].machine), tid: None }
    }

    /// Keeps the count of the domain a vCPU belongs to.
    fn tell_domain(
        &mut self,
        at: At,
        v: usize,
        before: Option<Runstate>,
        outcome: Outcome,
        sink: &mut dyn TableSink,
    ) {
        self.notes.xen_contradictions += u64::from(outcome.contradicts);
        let vcpu = &mut self.xen.vcpus[v];
        let now = vcpu.runstate();
        let counted = std::mem::replace(&mut vcpu.counted, true);
        let machine = &mut self.machines[at.m];
        let domain = &mut self.xen.domains[vcpu.domain];
        let env = env!(self, machine, sink);
        let mut before = before;
        match (outcome.learned, counted) {
            (Some((from, told)), false) => {
                domain.joined(from, Some(told), env);
                before = Some(told);
            }
            (Some((from, told)), true) => {
                domain.changed(from.max(env.start), before, Some(told), env);
                before = Some(told);
            }
            (None, false) => domain.joined(at.t, before, env),
            (None, true) => {}
        }
        domain.changed(at.t, before, now, env);
    }

    /// The scheduler grants a slice.
    fn granted(&mut self, at: At, name: XenVcpu, slice_ns: Option<u32>, sink: &mut dyn TableSink) {
        if let Some(slice_ns) = slice_ns.filter(|_| !name.is_idle() && self.in_ns)
            && let Some(v) = self.xen_vcpu(at.m, name, sink)
        {
            self.windows.granted(self.xen.vcpus[v].index, at.cpu, at.t, i64::from(slice_ns));
        }
    }

    fn domain_removed(&mut self, at: At, domid: u16, sink: &mut dyn TableSink) {
        let Some(domain) = self.xen.domain(domid) else { return };
        for n in 0..self.xen.domains[domain].vcpus.len() {
            let v = self.xen.domains[domain].vcpus[n];
            let before = self.xen.vcpus[v].runstate();
            let machine = &mut self.machines[at.m];
            self.xen.vcpus[v].remove(at.t, env!(self, machine, sink));
            if self.xen.current(at.c) == Some(v) {
                self.xen.pcpu(at.c).current = None;
            }
            self.tell_domain(at, v, before, Outcome::default(), sink);
        }
    }

    /// A hole in the records of one pCPU (none: of all) hides what its vCPU did, and every wake-up
    /// and switch-in it may have made.
    pub(crate) fn lose_records(
        &mut self,
        m: usize,
        cpu: Option<CpuId>,
        hole: Hole,
        sink: &mut dyn TableSink,
    ) {
        let (t, until) = (hole.from, hole.until.unwrap_or(i64::MAX));
        self.xen.holes_until = self.xen.holes_until.max(until);
        for v in 0..self.xen.vcpus.len() {
            let vcpu = &mut self.xen.vcpus[v];
            let elsewhere = cpu.is_some_and(|cpu| {
                vcpu.runstate() == Some(Runstate::Running) && !vcpu.runs_on(cpu)
            });
            if elsewhere {
                continue;
            }
            let before = vcpu.runstate();
            let machine = &mut self.machines[m];
            let env = env!(self, machine, sink);
            vcpu.lose(t, until, env);
            if vcpu.counted {
                self.xen.domains[vcpu.domain].changed(t, before, None, env);
            }
        }
        for (c, pcpu) in self.xen.pcpus.iter_mut().enumerate() {
            if cpu.is_none_or(|cpu| cpu.0 as usize == c) {
                (pcpu.current, pcpu.next) = (None, None);
                pcpu.history.forget();
            }
        }
    }

    /// Emits what is open of Xen's guests.
    pub(crate) fn finish_xen(&mut self, end: i64, sink: &mut dyn TableSink) {
        let Some(m) = self.machines.iter().position(|m| m.info.kind == MachineKind::Hypervisor)
        else {
            return;
        };
        for v in 0..self.xen.vcpus.len() {
            self.waited(m, end, v, self.xen.vcpus[v].cpu(), sink);
        }
        let machine = &mut self.machines[m];
        let env = env!(self, machine, sink);
        for vcpu in &mut self.xen.vcpus {
            vcpu.finish(end, env);
        }
        for domain in &mut self.xen.domains {
            domain.finish(end, env);
        }
    }

    /// The domain of this number, made on first sight; none where it cannot be one.
    fn xen_domain(&mut self, m: usize, domid: u16) -> Option<usize> {
        if let Some(domain) = self.xen.domain(domid) {
            return Some(domain);
        }
        if domid >= IDLE_DOMAIN {
            return None;
        }
        let parent = self.machines[m].id;
        let told = |g: &&crate::world::Machine| {
            g.info.parent == Some(parent) && g.info.domid == Some(u32::from(domid))
        };
        let machine = match self.machines.iter().find(told) {
            Some(known) => known.id,
            None => {
                let id = MachineId(u32::try_from(self.machines.len()).ok()?);
                let info = MachineInfo {
                    domid: Some(u32::from(domid)),
                    ..MachineInfo::guest(id, parent, format!("dom{domid}"))
                };
                self.add_machine(info, None);
                id
            }
        };
        Some(self.xen.push_domain(domid, Domain::new(machine)))
    }

    /// The vCPU of this name, made on first sight.
    pub(crate) fn xen_vcpu(
        &mut self,
        m: usize,
        name: XenVcpu,
        sink: &mut dyn TableSink,
    ) -> Option<usize> {
        if let Some(v) = self.xen.find(name) {
            return Some(v);
        }
        let domain = self.xen_domain(m, name.dom)?;
        if self.xen.vcpus.len() >= MAX_VCPUS {
            self.notes.unattributed_xen += 1;
            return None;
        }
        let machine = self.xen.domains[domain].machine;
        let id = VcpuId(u32::from(name.vcpu));
        let index = self.add_vcpu(machine, id, None, CpuId(id.0), sink);
        let known_from = self.start.max(self.xen.holes_until);
        let vcpu = Vcpu::new((index, domain), machine, id, self.start, known_from);
        Some(self.xen.push(name, vcpu))
    }
}

/// How many pages or notifications a hypercall exchanges.
fn io_of(call: XenCall) -> u64 {
    match call {
        XenCall { op: GRANT_TABLE_OP, cmd: Some(cmd), count } if EXCHANGES.contains(&cmd) => {
            u64::from(count.unwrap_or(1))
        }
        XenCall { op, .. } if EVENT_CHANNEL_OPS.contains(&op) => 1,
        _ => 0,
    }
}
