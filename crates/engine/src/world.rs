//! All actors of a recording between two events, and what each event does to them.
//!
//! This file holds who there is and how a hole is handled; `dispatch.rs` holds the events.

use crate::{
    infer::{self, Found},
    notes::Notes,
    states::{
        block::Blocks,
        check::{Check, ShiftTest},
        effective::Joins,
        lost::Hole,
        pcpu::{Cpu, Occupant, VcpuName},
        thread::{Deduced, Place, Slot, Threads},
        vcpu::{By, Vcpu},
        windows::Windows,
        work::Works,
        xen::Xen,
    },
    stream::LostCause,
    topology::{MachineInfo, ThreadInfo, Topology},
    wanted::Wanted,
};
use rustc_hash::FxHashMap;
use serde::{Deserialize, Serialize};
use transect_model::{
    event::Comm,
    ids::{CpuId, MachineId, MachineKind, Tid, VcpuId},
    table::{self, Row, TableSink},
    xen::XenVcpu,
};

/// More CPUs than any Linux is built for (`NR_CPUS` is at most 8192); numbers beyond are broken
/// input.
pub(crate) const MAX_CPUS: u32 = 8192;
/// VMs inferred at most.
const MAX_MACHINES: usize = 4096;

/// One machine between two events.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Machine {
    pub(crate) info: MachineInfo,
    pub(crate) id: MachineId,
    pub(crate) root: bool,
    /// Has it events of its own?
    traced: bool,
    pub(crate) threads: Threads,
    pub(crate) cpus: Vec<Cpu>,
    pub(crate) vcpu_of_cpu: Vec<Option<usize>>,
    pub(crate) blocks: Blocks,
    pub(crate) works: Works,
    pub(crate) has_switch: bool,
    /// Wakings and births have been seen, so that a thread's coming from nowhere tells something.
    pub(crate) has_waking: bool,
    /// `sched_wakeup` has been seen: the end of a waking is told.
    pub(crate) has_wakeup: bool,
    pub(crate) has_births: bool,
    known: FxHashMap<i32, ThreadInfo>,
}

/// All actors.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct World {
    pub(crate) start: i64,
    pub(crate) machines: Vec<Machine>,
    pub(crate) vcpus: Vec<Vcpu>,
    pub(crate) joins: Joins,
    pub(crate) windows: Windows,
    pub(crate) check: Check,
    pub(crate) xen: Xen,
    pub(crate) seen_entry: bool,
    /// Is trace time in nanoseconds, as durations inside events are?
    pub(crate) in_ns: bool,
    pub(crate) notes: Notes,
    /// What the sink of this shard wants; the next one's is asked anew.
    #[serde(skip)]
    pub(crate) wants: Wanted,
    found: Vec<Found>,
    open_holes: Vec<(MachineId, Option<CpuId>, Hole)>,
}

/// The environment of a step, borrowing the parts of the world that a machine's own state is not.
macro_rules! env {
    ($world:ident, $machine:ident, $sink:ident) => {
        &mut $crate::states::Env {
            sink: &mut *$sink,
            wants: &$world.wants,
            start: $world.start,
            machine: $machine.id,
            deduce: $machine.has_switch,
            seen_entry: $world.seen_entry,
            vcpu_of_cpu: &$machine.vcpu_of_cpu,
            joins: &mut $world.joins,
            windows: &mut $world.windows,
            check: &mut $world.check,
        }
    };
}
pub(crate) use env;

impl World {
    /// `first[m]` is the stamp of machine m's first event.
    pub(crate) fn new(
        topology: &Topology,
        start: i64,
        window_ns: i64,
        first: &[Option<i64>],
        sink: &mut dyn TableSink,
    ) -> Self {
        let mut world = World {
            start,
            machines: Vec::new(),
            vcpus: Vec::new(),
            joins: Joins::default(),
            windows: Windows::new(start, window_ns),
            check: Check::default(),
            xen: Xen::default(),
            seen_entry: false,
            in_ns: true,
            notes: Notes::default(),
            wants: Wanted::by(sink),
            found: Vec::new(),
            open_holes: Vec::new(),
        };
        for info in &topology.machines {
            let first = first.get(info.id.0 as usize).copied().flatten();
            world.add_machine(info.clone(), first);
        }
        for thread in &topology.threads {
            let machine = &mut world.machines[thread.machine.0 as usize];
            machine.known.insert(thread.tid.0, thread.clone());
        }
        for vcpu in &topology.vcpus {
            let machine = &world.machines[vcpu.machine.0 as usize].info;
            if let (Some(domid), Some(xen)) = (machine.domid, machine.parent)
                && let (Ok(dom), Ok(number)) = (u16::try_from(domid), u16::try_from(vcpu.vcpu.0))
            {
                world.xen_vcpu(xen.0 as usize, XenVcpu { dom, vcpu: number }, sink);
                continue;
            }
            world.add_vcpu(vcpu.machine, vcpu.vcpu, vcpu.vmm_tid, vcpu.guest_cpu, sink);
        }
        world
    }

    /// `first` is the stamp of its first event; none if its own kernel tells nothing.
    pub(crate) fn add_machine(&mut self, info: MachineInfo, first: Option<i64>) {
        self.machines.push(Machine {
            traced: first.is_some(),
            id: info.id,
            root: info.parent.is_none(),
            info,
            threads: Threads::new(first.unwrap_or(self.start)),
            cpus: Vec::new(),
            vcpu_of_cpu: Vec::new(),
            blocks: Blocks::default(),
            works: Works::default(),
            has_switch: false,
            has_waking: false,
            has_wakeup: false,
            has_births: false,
            known: FxHashMap::default(),
        });
    }

    /// Adds a vCPU and ties it to its thread and to the guest's CPU.
    pub(crate) fn add_vcpu(
        &mut self,
        vm: MachineId,
        id: VcpuId,
        tid: Option<Tid>,
        guest_cpu: CpuId,
        sink: &mut dyn TableSink,
    ) -> usize {
        let index = self.vcpus.len();
        self.vcpus.push(Vcpu::new(index, vm, id, tid, self.start));
        let traced = self.machines[vm.0 as usize].traced;
        self.joins.push(vm, guest_cpu, traced);
        self.windows.push_vcpu(vm, id);
        self.check.push(vm, traced);
        if guest_cpu.0 < MAX_CPUS {
            let map = &mut self.machines[vm.0 as usize].vcpu_of_cpu;
            let at = guest_cpu.0 as usize;
            if map.len() <= at {
                map.resize(at + 1, None);
            }
            map[at] = Some(index);
        }
        let host = self.machines[vm.0 as usize].info.parent;
        if let (Some(host), Some(tid)) = (host, tid)
            && let Some(slot) = self.slot(host.0 as usize, tid)
        {
            self.tie(host.0 as usize, slot, index, vm, sink);
        }
        index
    }

    fn tie(
        &mut self,
        host: usize,
        slot: Slot,
        index: usize,
        vm: MachineId,
        sink: &mut dyn TableSink,
    ) {
        let machine = &mut self.machines[host];
        let thread = machine.threads.get_mut(slot);
        thread.vcpu = Some(index);
        thread.vm = Some(vm);
        self.windows.vcpu_in_cgroup(index, thread.cgroup);
        let (place, since) = (thread.place, thread.since);
        if place != Place::Unknown {
            let head = since <= machine.threads.known_from;
            self.vcpus[index].adopt(since, place, head, env!(self, machine, sink));
        }
    }

    /// The vCPU that thread `tid` runs, inferring it if nothing has named it before.
    pub(crate) fn infer_vcpu(
        &mut self,
        m: usize,
        tid: Tid,
        vcpu: VcpuId,
        sink: &mut dyn TableSink,
    ) -> Option<usize> {
        let host = self.machines[m].id;
        let slot = self.slot(m, tid)?;
        let pid = self.machines[m].threads.get(slot).pid;
        let known_vm = pid.and_then(|pid| {
            self.machines
                .iter()
                .find(|g| g.info.parent == Some(host) && g.info.vmm_pid == Some(pid))
                .map(|g| g.id)
        });
        let vm = known_vm
            .or_else(|| self.vm_without_thread(host, vcpu))
            .or_else(|| infer::vm_of(&self.found, host, vcpu, tid, pid))
            .or_else(|| self.infer_machine(host, tid, pid))?;
        self.found.push(Found { vm, host, vcpu, tid, pid });
        self.notes.inferred_vcpu(&self.machines[vm.0 as usize].info.name, vcpu, tid);
        if let Some(index) = self.vcpus.iter().position(|v| v.machine == vm && v.id == vcpu) {
            // The vCPU was known without its thread, or has another thread now (a VM was restarted).
            if let Some(old) = self.vcpus[index].vmm_tid.replace(tid)
                && let Some(old) = self.machines[m].threads.find(old)
            {
                self.machines[m].threads.get_mut(old).vcpu = None;
            }
            self.unqueue(m, index, self.vcpus[index].place);
            self.tie(m, slot, index, vm, sink);
            return Some(index);
        }
        Some(self.add_vcpu(vm, vcpu, Some(tid), CpuId(vcpu.0), sink))
    }

    /// The only VM of this host that is known to have such a vCPU, but not by which thread.
    fn vm_without_thread(&self, host: MachineId, vcpu: VcpuId) -> Option<MachineId> {
        let mut candidates = self.vcpus.iter().filter(|v| {
            let parent = self.machines[v.machine.0 as usize].info.parent;
            v.vmm_tid.is_none() && v.id == vcpu && parent == Some(host)
        });
        let only = candidates.next()?.machine;
        candidates.next().is_none().then_some(only)
    }

    fn infer_machine(&mut self, host: MachineId, tid: Tid, pid: Option<Tid>) -> Option<MachineId> {
        if self.machines.len() >= MAX_MACHINES {
            return None;
        }
        let id = MachineId(u32::try_from(self.machines.len()).ok()?);
        let name = format!("vm-{}", pid.unwrap_or(tid));
        let info = MachineInfo { vmm_pid: pid, ..MachineInfo::guest(id, host, name) };
        self.add_machine(info, None);
        Some(id)
    }

    /// The slot of a thread, made on first sight with what is known about it.
    pub(crate) fn slot(&mut self, m: usize, tid: Tid) -> Option<Slot> {
        if let Some(slot) = self.machines[m].threads.find(tid) {
            return Some(slot);
        }
        let start = self.start;
        let machine = &mut self.machines[m];
        let slot = machine.threads.slot(tid, start)?;
        if let Some(known) = machine.known.get(&tid.0) {
            let thread = machine.threads.get_mut(slot);
            thread.comm = Comm::new(known.name.as_bytes());
            thread.pid = known.pid;
            thread.cgroup_name.clone_from(&known.cgroup);
            let (id, pid) = (machine.id, known.pid);
            thread.cgroup = known.cgroup.as_deref().map(|name| self.windows.cgroup(id, name));
            let vm = pid.and_then(|pid| self.vm_of_process(m, pid));
            self.machines[m].threads.get_mut(slot).vm = vm;
        }
        Some(slot)
    }

    /// The VM whose VMM process this is.
    pub(crate) fn vm_of_process(&self, m: usize, pid: Tid) -> Option<MachineId> {
        let host = self.machines[m].id;
        let guests = self.machines.iter().filter(|g| g.info.parent == Some(host));
        guests.filter(|g| g.info.vmm_pid == Some(pid)).map(|g| g.id).next()
    }

    /// The index of a CPU, made on first sight; none for numbers no kernel has.
    pub(crate) fn cpu(&mut self, m: usize, cpu: CpuId) -> Option<usize> {
        let at = cpu.0 as usize;
        let start = self.start;
        let machine = &mut self.machines[m];
        if at >= machine.cpus.len() {
            if cpu.0 >= MAX_CPUS {
                return None;
            }
            let known_from = machine.threads.known_from;
            for id in machine.cpus.len()..=at {
                let id = CpuId(u32::try_from(id).ok()?);
                machine.cpus.push(Cpu::new(id, start, known_from));
            }
        }
        Some(at)
    }

    /// A stream tells about this CPU: its slices will tile the window.
    pub(crate) fn has_stream(&mut self, m: usize, cpu: CpuId) {
        let Some(c) = self.cpu(m, cpu) else { return };
        let machine = &mut self.machines[m];
        machine.cpus[c].has_stream = true;
        if machine.info.kind == MachineKind::Hypervisor {
            machine.cpus[c].in_windows = Some(self.windows.whole_pcpu(machine.id, cpu));
        }
    }

    /// Who the occupant is, in a vCPU's `by` columns.
    pub(crate) fn by(&self, m: usize, occupant: Occupant) -> By {
        let (tid, slot) = match occupant {
            Occupant::Thread { tid, slot } => (tid, slot),
            Occupant::Idle => (Tid::IDLE, None),
            Occupant::Unknown { .. } => return By::default(),
            Occupant::Vcpu(v) => return By { machine: Some(self.vcpus[v].machine), tid: None },
        };
        let vcpu = slot.and_then(|slot| self.machines[m].threads.get(slot).vcpu);
        let machine = vcpu.map_or(self.machines[m].id, |v| self.vcpus[v].machine);
        By { machine: Some(machine), tid: Some(tid) }
    }

    /// The vCPU that the occupant is, for its CPU's slice.
    pub(crate) fn vcpu_name(&self, m: usize, occupant: Occupant) -> VcpuName {
        let vcpu = match occupant {
            Occupant::Thread { slot: Some(slot), .. } => self.machines[m].threads.get(slot).vcpu?,
            Occupant::Vcpu(vcpu) => vcpu,
            _ => return None,
        };
        Some((self.vcpus[vcpu].machine, self.vcpus[vcpu].id))
    }

    /// A thread's place changes, and its vCPU's with it.
    pub(crate) fn change(
        &mut self,
        m: usize,
        slot: Slot,
        t: i64,
        told: Option<Place>,
        new: Place,
        sink: &mut dyn TableSink,
    ) {
        let machine = &mut self.machines[m];
        let deduced = machine.threads.change(slot, t, told, new, env!(self, machine, sink));
        self.moved(m, slot, t, deduced, new, sink);
    }

    /// Moves the vCPU of a thread whose place has changed.
    pub(crate) fn moved(
        &mut self,
        m: usize,
        slot: Slot,
        t: i64,
        deduced: Option<Deduced>,
        new: Place,
        sink: &mut dyn TableSink,
    ) {
        let Some(v) = self.machines[m].threads.get(slot).vcpu else { return };
        let old = self.vcpus[v].place;
        self.unqueue(m, v, old);
        let mut by = By::default();
        if let Place::Waiting { cpu: Some(cpu), .. } = new
            && let Some(c) = self.cpu(m, cpu)
        {
            self.machines[m].cpus[c].waiters.push(v);
            by = self.by(m, self.machines[m].cpus[c].occupant);
        }
        let machine = &mut self.machines[m];
        self.vcpus[v].moved(t, deduced, new, by, env!(self, machine, sink));
    }

    fn unqueue(&mut self, m: usize, v: usize, place: Place) {
        if let Place::Waiting { cpu: Some(cpu), .. } = place
            && let Some(cpu) = self.machines[m].cpus.get_mut(cpu.0 as usize)
        {
            cpu.waiters.retain(|w| *w != v);
        }
    }

    /// The CPU goes to `new`; whoever waits for it has another to blame.
    pub(crate) fn occupy(
        &mut self,
        m: usize,
        c: usize,
        t: i64,
        told: Occupant,
        new: Occupant,
        sink: &mut dyn TableSink,
    ) {
        let vcpu = self.vcpu_name(m, told);
        let machine = &mut self.machines[m];
        machine.cpus[c].change(t, told, vcpu, new, env!(self, machine, sink));
    }

    /// Tells the vCPUs that wait for this CPU who has it now.
    pub(crate) fn blame(&mut self, m: usize, c: usize, t: i64, sink: &mut dyn TableSink) {
        if self.machines[m].cpus[c].waiters.is_empty() {
            return;
        }
        let by = self.by(m, self.machines[m].cpus[c].occupant);
        for at in 0..self.machines[m].cpus[c].waiters.len() {
            let machine = &mut self.machines[m];
            let v = machine.cpus[c].waiters[at];
            self.vcpus[v].occupant_changed(t, by, env!(self, machine, sink));
        }
    }

    /// The trace shows `found` on the CPU, which no switch has led to: whatever happened did so
    /// after the CPU's last event, and nothing is known about either thread since then.
    pub(crate) fn displace(
        &mut self,
        m: usize,
        c: usize,
        found: Occupant,
        sink: &mut dyn TableSink,
    ) {
        self.notes.contradictions += 1;
        let t = self.machines[m].cpus[c].last_seen;
        let occupant = self.machines[m].cpus[c].occupant;
        let vcpu = self.vcpu_name(m, occupant);
        let machine = &mut self.machines[m];
        machine.cpus[c].lose(t, i64::MAX, vcpu, env!(self, machine, sink));
        for thread in [occupant, found] {
            if let Occupant::Thread { slot: Some(slot), .. } = thread {
                self.lose_thread(m, slot, t, i64::MAX, sink);
            }
        }
    }

    /// The thread turns up on CPU `c`. If another CPU was thought to run it, that one's events end
    /// too early (its file was cut off): nothing is known there since its last one.
    pub(crate) fn arrive(&mut self, m: usize, c: usize, slot: Slot, sink: &mut dyn TableSink) {
        if let Place::OnCpu(cpu) = self.machines[m].threads.get(slot).place
            && cpu.0 as usize != c
            && let Some(other) = self.cpu(m, cpu)
        {
            let found = Occupant::Unknown { known_from: i64::MAX };
            self.displace(m, other, found, sink);
        }
    }

    fn lose_thread(&mut self, m: usize, slot: Slot, t: i64, until: i64, sink: &mut dyn TableSink) {
        let machine = &mut self.machines[m];
        machine.threads.lose(slot, t, until, env!(self, machine, sink));
        machine.works.lose_thread(machine.threads.get(slot).tid, env!(self, machine, sink));
        if let Some(v) = machine.threads.get(slot).vcpu {
            self.lose_vcpu(m, v, t, sink);
        }
    }

    fn lose_vcpu(&mut self, m: usize, v: usize, t: i64, sink: &mut dyn TableSink) {
        let place = self.vcpus[v].place;
        if place == Place::Gone {
            return;
        }
        self.unqueue(m, v, place);
        let machine = &mut self.machines[m];
        self.vcpus[v].lose(t, env!(self, machine, sink));
    }

    /// A hole in the stream of one CPU.
    pub(crate) fn lose_cpu(&mut self, m: usize, cpu: CpuId, hole: Hole, sink: &mut dyn TableSink) {
        self.record_hole(m, Some(cpu), hole, sink);
        if self.machines[m].info.kind == MachineKind::Hypervisor {
            self.lose_records(m, Some(cpu), hole, sink);
        }
        let Some(c) = self.cpu(m, cpu) else { return };
        self.hide(m, hole, sink, |place| place == Place::OnCpu(cpu) || place.is_off_cpu());
        self.lose_slices(m, c, hole, sink);
    }

    /// A hole in everything a machine tells.
    pub(crate) fn lose_machine(&mut self, m: usize, hole: Hole, sink: &mut dyn TableSink) {
        self.record_hole(m, None, hole, sink);
        if self.machines[m].info.kind == MachineKind::Hypervisor {
            self.lose_records(m, None, hole, sink);
        }
        self.hide_all(m, hole, sink);
    }

    /// All streams of a guest have ended while the host's go on: whether nothing happened there or
    /// nothing was recorded is not known.
    pub(crate) fn silence(&mut self, m: usize, t: i64, sink: &mut dyn TableSink) {
        // The cause is told nowhere: this is no hole in a stream, and makes no row.
        let cause = LostCause::GuestDisconnected;
        self.hide_all(m, Hole { from: t, until: None, count: None, cause }, sink);
    }

    fn hide_all(&mut self, m: usize, hole: Hole, sink: &mut dyn TableSink) {
        self.hide(m, hole, sink, |_| true);
        for c in 0..self.machines[m].cpus.len() {
            self.lose_slices(m, c, hole, sink);
        }
    }

    /// Makes every thread unknown whose events the hole can hide.
    fn hide(
        &mut self,
        m: usize,
        hole: Hole,
        sink: &mut dyn TableSink,
        concerns: impl Fn(Place) -> bool,
    ) {
        let (t, until) = (hole.from, hole.until.unwrap_or(i64::MAX));
        let threads = &mut self.machines[m].threads;
        threads.known_from = threads.known_from.max(until);
        let machine = &mut self.machines[m];
        machine.blocks.lose(t, env!(self, machine, sink));
        for slot in 0..self.machines[m].threads.len() {
            if concerns(self.machines[m].threads.get(slot).place) {
                self.lose_thread(m, slot, t, until, sink);
            }
        }
        if !self.machines[m].has_switch {
            // Without the scheduler's events a thread may have moved to this CPU unseen.
            let id = self.machines[m].id;
            for v in 0..self.vcpus.len() {
                if self.machines[self.vcpus[v].machine.0 as usize].info.parent == Some(id) {
                    self.lose_vcpu(m, v, t, sink);
                }
            }
        }
    }

    fn lose_slices(&mut self, m: usize, c: usize, hole: Hole, sink: &mut dyn TableSink) {
        let occupant = self.machines[m].cpus[c].occupant;
        let vcpu = self.vcpu_name(m, occupant);
        let until = hole.until.unwrap_or(i64::MAX);
        let machine = &mut self.machines[m];
        machine.cpus[c].lose(hole.from, until, vcpu, env!(self, machine, sink));
        machine.works.lose_idle(machine.cpus[c].id, env!(self, machine, sink));
        if let Some(Some(v)) = machine.vcpu_of_cpu.get(c) {
            self.joins.lose(*v);
        }
        self.blame(m, c, hole.from, sink);
    }

    fn record_hole(&mut self, m: usize, cpu: Option<CpuId>, hole: Hole, sink: &mut dyn TableSink) {
        let machine = &mut self.machines[m];
        self.notes.lost(machine.id, cpu, hole.count);
        if hole.until.is_none() {
            self.open_holes.push((machine.id, cpu, hole));
        } else {
            hole.emit(cpu, hole.from, env!(self, machine, sink));
        }
    }

    /// Emits everything open; the recording ends at `end`. Returns the check's shift tests.
    pub(crate) fn finish(
        &mut self,
        end: i64,
        sink: &mut dyn TableSink,
    ) -> Vec<(MachineId, Vec<ShiftTest>)> {
        for (id, cpu, hole) in std::mem::take(&mut self.open_holes) {
            let machine = &mut self.machines[id.0 as usize];
            hole.emit(cpu, end, env!(self, machine, sink));
        }
        for m in 0..self.machines.len() {
            for c in 0..self.machines[m].cpus.len() {
                let vcpu = self.vcpu_name(m, self.machines[m].cpus[c].occupant);
                let machine = &mut self.machines[m];
                machine.cpus[c].finish(end, vcpu, env!(self, machine, sink));
            }
            let machine = &mut self.machines[m];
            machine.threads.finish(end, env!(self, machine, sink));
            machine.blocks.finish(env!(self, machine, sink));
            machine.works.finish(env!(self, machine, sink));
            self.notes.given_up += machine.blocks.given_up + machine.works.given_up;
        }
        self.finish_xen(end, sink);
        for vcpu in self.vcpus.iter_mut().filter(|vcpu| !self.xen.owns(vcpu.index)) {
            let machine = &self.machines[vcpu.machine.0 as usize];
            vcpu.finish(end, env!(self, machine, sink));
        }
        self.joins.finish(sink);
        self.windows.finish(end, sink);
        self.emit_actors(sink);
        self.check.finish(sink)
    }

    /// The rows about who there was, under the names known last.
    fn emit_actors(&self, sink: &mut dyn TableSink) {
        for machine in &self.machines {
            for cpu in machine.cpus.iter().filter(|cpu| cpu.has_stream) {
                sink.row(Row::Cpu(table::CpuRow { machine_id: machine.id, cpu: cpu.id }));
            }
        }
        for vcpu in &self.vcpus {
            sink.row(Row::Vcpu(table::Vcpu {
                machine_id: vcpu.machine,
                vcpu: vcpu.id,
                vmm_tid: vcpu.vmm_tid,
            }));
        }
        for machine in &self.machines {
            for thread in machine.threads.iter() {
                sink.row(Row::Thread(table::Thread {
                    machine_id: machine.id,
                    tid: thread.tid,
                    pid: thread.pid,
                    name: thread.comm.to_str().into_owned(),
                    cgroup: thread.cgroup_name.clone(),
                }));
            }
        }
    }
}

impl Place {
    /// Could a hole in any CPU's stream hide what this thread does?
    fn is_off_cpu(self) -> bool {
        !matches!(self, Place::OnCpu(_))
    }
}
