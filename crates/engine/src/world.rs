//! All actors of a recording between two events, and what each event does to them.
//!
//! This file holds the actors, `existence.rs` since when a thread exists and whether all its events were
//! recorded, `moves.rs` where the actors are, `holes.rs` what lost events hide, and `vms.rs` the VMs that
//! only the trace names; `dispatch.rs` of the crate holds the events.

mod existence;
mod holes;
mod live;
mod moves;
mod vms;

use crate::{
    filter::Filter,
    infer::Found,
    notes::Notes,
    states::{
        block::Blocks,
        causes::Causes,
        check::{Check, ShiftTest},
        effective::Joins,
        lost::Hole,
        occupant::Occupant,
        packets::Packets,
        pcpu::{Cpu, VcpuName},
        slots::Slot,
        stages::Ways,
        thread::{Place, Threads},
        vcpu::{By, Vcpu},
        waits::Waits,
        windows::Windows,
        work::Works,
        xen::Xen,
    },
    topology::{MachineInfo, ThreadInfo, Topology},
    wanted::Wanted,
};
use rustc_hash::FxHashMap;
use serde::{Deserialize, Serialize};
use transect_model::{
    event::Comm,
    ids::{CpuId, MachineId, MachineKind, Tid, VcpuId},
    setting::ThreadSettings,
    table::{self, Row, TableSink},
    xen::XenVcpu,
};

/// More CPUs than any Linux is built for (`NR_CPUS` is at most 8192); numbers beyond are broken
/// input.
pub(crate) const MAX_CPUS: u32 = 8192;

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
    pub(crate) waits: Waits,
    pub(crate) has_switch: bool,
    /// Wakings and births have been seen, so that a thread's coming from nowhere tells something.
    pub(crate) has_waking: bool,
    /// `sched_waking` has been seen: the waker is in it, and not in a `sched_wakeup`.
    pub(crate) has_sched_waking: bool,
    /// Are wakings recorded with their contexts, so that without one in a thread's nobody was woken by it?
    pub(crate) has_contexts: bool,
    /// Are the CPU's own vectors recorded, so that what happens in no handler happens in no interrupt?
    pub(crate) has_vectors: bool,
    /// `sched_wakeup` has been seen: the end of a waking is told.
    pub(crate) has_wakeup: bool,
    pub(crate) has_births: bool,
    /// What its sources let through.
    pub(crate) filter: Filter,
    known: FxHashMap<i32, ThreadInfo>,
}

/// All actors.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct World {
    pub(crate) start: i64,
    /// The stamp of the event that is being handled.
    pub(crate) now: i64,
    pub(crate) machines: Vec<Machine>,
    pub(crate) vcpus: Vec<Vcpu>,
    pub(crate) joins: Joins,
    pub(crate) windows: Windows,
    pub(crate) check: Check,
    pub(crate) causes: Causes,
    pub(crate) ways: Ways,
    pub(crate) packets: Packets,
    /// Bounds of the machines' clocks, ns; none where they are not known.
    pub(crate) bounds: Vec<Option<u64>>,
    pub(crate) xen: Xen,
    pub(crate) seen_entry: bool,
    pub(crate) seen_exit: bool,
    pub(crate) seen_halt_end: bool,
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
            partial_kvm: $machine.filter.partial_kvm,
            partial_exits: $machine.filter.has_partial_exits(),
            wakings: $machine.has_waking && !$machine.filter.partial_wakings,
            hidden_until: $machine.threads.hidden_until,
            seen_entry: $world.seen_entry,
            seen_exit: $world.seen_exit,
            seen_halt_end: $world.seen_halt_end,
            vcpu_of_cpu: &$machine.vcpu_of_cpu,
            is_dom0: $machine.info.domid == Some(0),
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
        filters: &[(MachineId, Filter)],
        sink: &mut dyn TableSink,
    ) -> Self {
        let mut world = World {
            start,
            now: i64::MIN,
            machines: Vec::new(),
            vcpus: Vec::new(),
            joins: Joins::default(),
            windows: Windows::new(start, window_ns),
            check: Check::default(),
            causes: Causes::default(),
            ways: Ways::default(),
            packets: Packets::default(),
            bounds: Vec::new(),
            xen: Xen::default(),
            seen_entry: false,
            seen_exit: false,
            seen_halt_end: false,
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
        for (machine, filter) in filters {
            if let Some(machine) = world.machines.get_mut(machine.0 as usize) {
                machine.filter = filter.clone();
                machine.threads.filtered = machine.is_filtered();
            }
        }
        for line in &topology.irq_lines {
            world.causes.know_line(line.machine.0 as usize, line.irq, line.name.clone());
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
            waits: Waits::default(),
            has_switch: false,
            has_waking: false,
            has_sched_waking: false,
            has_contexts: false,
            has_vectors: false,
            has_wakeup: false,
            has_births: false,
            filter: Filter::default(),
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

    /// The slot of a thread, made on first sight with what is known about it.
    pub(crate) fn slot(&mut self, m: usize, tid: Tid) -> Option<Slot> {
        if let Some(slot) = self.machines[m].threads.find(tid) {
            return Some(slot);
        }
        let machine = &mut self.machines[m];
        let since = machine.first_sign_of(tid, self.start, self.now);
        let slot = machine.threads.slot(tid, since)?;
        if let Some(known) = machine.known.get(&tid.0) {
            let thread = machine.threads.get_mut(slot);
            thread.comm = Comm::new(known.name.as_bytes());
            thread.pid = known.pid;
            thread.cgroup_name.clone_from(&known.cgroup);
            let (id, pid, comm) = (machine.id, known.pid, thread.comm);
            thread.cgroup = known.cgroup.as_deref().map(|name| self.windows.cgroup(id, name));
            let vm = self.vm_of_thread(m, pid, &comm);
            self.machines[m].threads.get_mut(slot).vm = vm;
        }
        self.machines[m].judge(slot);
        Some(slot)
    }

    /// The VM that a thread of this process and name works for.
    pub(crate) fn vm_of_thread(
        &self,
        m: usize,
        pid: Option<Tid>,
        comm: &Comm,
    ) -> Option<MachineId> {
        let of = |pid: Option<Tid>| pid.and_then(|pid| self.vm_of_process(m, pid));
        of(pid).or_else(|| of(vhost_owner(comm))).or_else(|| self.domain_of(m, comm))
    }

    /// The domain whose disk a thread of dom0 serves.
    fn domain_of(&self, m: usize, comm: &Comm) -> Option<MachineId> {
        let dom0 = &self.machines[m].info;
        let domid = blkback_owner(comm).filter(|_| dom0.domid == Some(0))?;
        let mut beside = self.machines.iter().filter(|other| other.info.parent == dom0.parent);
        beside.find(|other| other.info.domid == Some(domid)).map(|domain| domain.id)
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
            machine.waits.finish(env!(self, machine, sink));
            let given_up =
                [&machine.blocks.given_up, &machine.works.given_up, &machine.waits.given_up];
            self.notes.given_up += given_up.into_iter().sum::<u64>();
        }
        self.finish_xen(end, sink);
        for vcpu in self.vcpus.iter_mut().filter(|vcpu| !self.xen.owns(vcpu.index)) {
            let vm = &self.machines[vcpu.machine.0 as usize];
            let host = vm.info.parent.map_or(vcpu.machine, |host| host);
            let machine = &self.machines[host.0 as usize];
            vcpu.finish(end, env!(self, machine, sink));
        }
        self.joins.finish(sink);
        self.packets.finish();
        self.tell_packets(sink);
        self.finish_causes(sink);
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
                let known = machine.known.get(&thread.tid.0).map(|known| &known.settings);
                let ThreadSettings { allowed_cpus, policy, nice, rt_priority } =
                    known.cloned().unwrap_or_default();
                sink.row(Row::Thread(table::Thread {
                    machine_id: machine.id,
                    tid: thread.tid,
                    pid: thread.pid,
                    name: thread.comm.to_str().into_owned(),
                    cgroup: thread.cgroup_name.clone(),
                    allowed_cpus,
                    policy,
                    nice,
                    rt_priority,
                }));
            }
        }
    }
}

/// The domain a thread of blkback works for: `DOMID.DEVICE-RING`, once `blkback.DOMID.DEVICE`
/// (drivers/block/xen-blkback/xenbus.c). Dom0 has no disks of its own.
fn blkback_owner(comm: &Comm) -> Option<u32> {
    let name = comm.as_bytes();
    let name = name.strip_prefix(b"blkback.").unwrap_or(name);
    let (digits, _) = std::str::from_utf8(name).ok()?.split_once('.')?;
    digits.parse().ok().filter(|domid| *domid != 0)
}

/// The process a vhost worker works for: `vhost-PID` (drivers/vhost/vhost.c).
fn vhost_owner(comm: &Comm) -> Option<Tid> {
    let digits = comm.as_bytes().strip_prefix(b"vhost-")?;
    std::str::from_utf8(digits).ok()?.parse().ok().map(Tid)
}
