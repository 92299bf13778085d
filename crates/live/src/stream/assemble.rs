//! From one window's sums to its snapshot.

use super::{
    rivals::{heaviest, rivals},
    tally::{Durations, IoKind, Rival, Tally, ThreadSums, VcpuSums},
};
use crate::{
    histogram::Histogram,
    snapshot::{
        ActorWindow, Antagonist, CpuWindow, ExitWindow, IoWindow, Snapshot, ThreadWindow,
        WindowDetail,
    },
};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use transect_model::{
    ids::{CpuId, MachineId, MachineKind, Tid, VcpuId},
    state::{Metric, VcpuState},
    table::{Machine, Thread, Window},
};

const HOST: MachineId = MachineId(0);

/// What the window itself does not tell.
pub(crate) struct Scene<'a> {
    /// VMs that a device's packets belong to.
    pub(crate) vm_of_device: &'a HashMap<String, MachineId>,
    /// Under Xen the domains there are, where that is known.
    pub(crate) domains: Option<&'a BTreeSet<u32>>,
}

/// A vCPU under Xen is nobody's thread: its number here says which one it is, below 0.
pub(crate) fn xen_tid(domid: u32, vcpu: VcpuId) -> Tid {
    let number = (domid.min(0x7fff) << 16) | (vcpu.0 & 0xffff);
    Tid(-1 - i32::try_from(number).unwrap_or(0))
}

/// Makes the rows of the window.
pub(crate) fn snapshot(tally: &mut Tally, machines: &[Machine], scene: &Scene<'_>) -> Snapshot {
    let dur = tally.to - tally.from;
    let mut snapshot =
        Snapshot { ts: tally.from, dur, machines: machines.to_vec(), ..Snapshot::default() };
    let is_xen = machines.first().is_some_and(|m| m.kind == MachineKind::Hypervisor);
    if is_xen {
        xen_gone(tally, &mut snapshot, scene);
        xen(tally, &mut snapshot);
    } else {
        linux(tally, &mut snapshot, scene);
    }
    exits(tally, &mut snapshot);
    snapshot
}

/// Sums of several actors, for the row of all of them.
#[derive(Default)]
struct Sum {
    threads: u64,
    preempted_ns: i64,
    waking_ns: i64,
    unattributed_ns: i64,
    migrations: u64,
    halts: u64,
    waits: Histogram,
    wait_max_ns: u64,
}

impl Sum {
    fn add_vcpu(&mut self, vcpu: &VcpuSums) {
        self.threads += 1;
        self.preempted_ns += vcpu.preempted_ns;
        self.waking_ns += vcpu.waking_ns;
        self.unattributed_ns += vcpu.unattributed_ns;
        self.migrations += vcpu.migrations;
        self.halts += vcpu.halts;
        self.waits.add_all(&vcpu.waits.lengths);
        self.wait_max_ns = self.wait_max_ns.max(vcpu.waits.max_ns);
    }

    fn add_thread(&mut self, thread: &ThreadSums, unattributed_ns: i64, halts: u64) {
        self.threads += 1;
        self.preempted_ns += thread.preempted_ns;
        self.waking_ns += thread.waking_ns;
        self.unattributed_ns += unattributed_ns;
        self.migrations += thread.migrations;
        self.halts += halts;
        self.waits.add_all(&thread.waits.lengths);
        self.wait_max_ns = self.wait_max_ns.max(thread.waits.max_ns);
    }

    fn row(self, window: Window) -> ActorWindow {
        let [wait_p50_ns, wait_p90_ns, wait_p99_ns] = self.waits.quantiles_ns([500, 900, 990]);
        let detail = WindowDetail {
            ts: window.ts,
            dur: window.dur,
            machine_id: window.machine_id,
            vcpu: window.vcpu,
            cgroup: window.cgroup.clone(),
            threads: self.threads,
            preempted_ns: self.preempted_ns,
            waking_ns: self.waking_ns,
            migrations: self.migrations,
            waits: self.waits.count(),
            wait_p50_ns,
            wait_p90_ns,
            wait_p99_ns,
            wait_max_ns: self.wait_max_ns,
            unattributed_ns: self.unattributed_ns,
            injections: 0,
            halts: self.halts,
            halts_polled: 0,
            poll_ns: 0,
        };
        ActorWindow { window, detail, waits: self.waits }
    }
}

/// vCPUs of a machine one after the other, then the machine; control groups at the end.
fn in_order(windows: &mut [Window]) {
    windows.sort_by(|a, b| {
        let key = |w: &Window| (w.cgroup.clone(), w.machine_id, w.vcpu.is_none(), w.vcpu, w.cpu);
        key(a).cmp(&key(b))
    });
}

/// Domains that are not there any more, and did nothing.
fn xen_gone(tally: &mut Tally, snapshot: &mut Snapshot, scene: &Scene<'_>) {
    let Some(there) = scene.domains else { return };
    let mut gone: BTreeSet<MachineId> = snapshot
        .machines
        .iter()
        .filter(|machine| machine.domid.is_some_and(|domid| !there.contains(&domid)))
        .map(|machine| machine.machine_id)
        .collect();
    for window in tally.windows.iter().filter(|w| w.vcpu.is_some()) {
        if window.executions > 0 || window.offline_ns + window.unknown_ns < window.dur {
            gone.remove(&window.machine_id);
        }
    }
    tally.windows.retain(|w| !gone.contains(&w.machine_id));
    snapshot.machines.retain(|machine| !gone.contains(&machine.machine_id));
    tally.keep_vcpus(|machine, _| !gone.contains(&machine));
}

fn xen(tally: &mut Tally, snapshot: &mut Snapshot) {
    let domids: HashMap<MachineId, u32> =
        snapshot.machines.iter().filter_map(|m| Some((m.machine_id, m.domid?))).collect();
    let mut windows = std::mem::take(&mut tally.windows);
    in_order(&mut windows);
    let unknown = VcpuSums::default();
    for window in windows {
        let id = window.machine_id;
        match (window.cpu, window.vcpu) {
            (Some(cpu), _) if id == HOST => snapshot.cpus.push(CpuWindow {
                ts: window.ts,
                dur: window.dur,
                machine_id: HOST,
                cpu,
                busy_ns: window.gotten_ns,
                idle_ns: window.blocked_ns,
                unknown_ns: window.unknown_ns,
            }),
            // What each domain does on each pCPU, no live view shows.
            (Some(_), _) => {}
            (None, Some(vcpu)) => {
                let sums = tally.vcpus.get(&(id, vcpu)).unwrap_or(&unknown);
                let tid = xen_tid(domids.get(&id).copied().unwrap_or(0), vcpu);
                xen_antagonists(snapshot, &window, sums, tid, &domids);
                snapshot.threads.push(xen_thread(&window, vcpu, sums, tid));
                let mut sum = Sum::default();
                sum.add_vcpu(sums);
                snapshot.actors.push(sum.row(window));
            }
            (None, None) => {
                let mut sum = Sum::default();
                let own = tally.vcpus.range((id, VcpuId(0))..=(id, VcpuId(u32::MAX)));
                own.for_each(|(_, vcpu)| sum.add_vcpu(vcpu));
                snapshot.actors.push(sum.row(window));
            }
        }
    }
    snapshot.cpus.sort_by_key(|row| row.cpu);
}

fn xen_thread(window: &Window, vcpu: VcpuId, sums: &VcpuSums, tid: Tid) -> ThreadWindow {
    let [wait_p50_ns, wait_p99_ns] = sums.waits.lengths.quantiles_ns([500, 990]);
    ThreadWindow {
        ts: window.ts,
        dur: window.dur,
        machine_id: HOST,
        tid,
        pid: tid,
        name: format!("vCPU {vcpu}"),
        role: "vcpu",
        vm_machine_id: Some(window.machine_id),
        vcpu: Some(vcpu),
        cgroup: None,
        cpu: sums.cpu.unwrap_or(CpuId(0)),
        state: match sums.state {
            Some(VcpuState::Preempted) => "preempted",
            Some(VcpuState::Waking) => "waking",
            Some(VcpuState::Halted) => "halted",
            Some(VcpuState::Blocked) => "asleep",
            Some(VcpuState::Offline) => "gone",
            Some(state) if state.metric() == Metric::Gotten => "running",
            _ => "unknown",
        },
        executions: window.executions,
        gotten_ns: window.gotten_ns,
        waited_ns: window.waited_ns,
        preempted_ns: sums.preempted_ns,
        waking_ns: sums.waking_ns,
        blocked_ns: window.blocked_ns,
        offline_ns: window.offline_ns,
        unknown_ns: window.unknown_ns,
        guest_ns: window.guest_ns,
        halted_ns: window.halted_ns,
        allocations: window.allocations,
        allocated_avg_ns: window.allocated_avg_ns,
        allocated_min_ns: window.allocated_min_ns,
        allocated_max_ns: window.allocated_max_ns,
        migrations: sums.migrations,
        wait_p50_ns,
        wait_p99_ns,
        wait_max_ns: sums.waits.max_ns,
        unattributed_ns: sums.unattributed_ns,
        exits: window.exits,
        io_count: window.io_count,
        injections: 0,
    }
}

/// Xen's records tell the domain behind which a vCPU waited, not which of its vCPUs.
fn xen_antagonists(
    snapshot: &mut Snapshot,
    window: &Window,
    sums: &VcpuSums,
    tid: Tid,
    domids: &HashMap<MachineId, u32>,
) {
    // There are no more rivals than domains: all are told.
    let mut rivals: Vec<_> = sums.rivals.iter().collect();
    rivals.sort_by_key(|(rival, way)| (std::cmp::Reverse(way.ns), **rival));
    for (Rival { machine, tid: by_tid }, way) in rivals {
        let of_domain = domids.get(machine).map(|domid| xen_tid(*domid, VcpuId(0)));
        snapshot.antagonists.push(Antagonist {
            ts: window.ts,
            dur: window.dur,
            machine_id: window.machine_id,
            vcpu: window.vcpu,
            tid,
            name: window.vcpu.map(|vcpu| format!("vCPU {vcpu}")).unwrap_or_default(),
            by_machine_id: *machine,
            by_vcpu: None,
            by_tid: by_tid.or(of_domain).unwrap_or(Tid::IDLE),
            by_name: if *machine == HOST { "idle" } else { "vCPUs" }.to_owned(),
            times: way.times,
            ns: way.ns,
        });
    }
}

/// A kernel's threads, by name.
struct Names<'a>(HashMap<Tid, &'a Thread>);

impl Names<'_> {
    fn name(&self, tid: Tid) -> String {
        self.0.get(&tid).map(|thread| thread.name.clone()).unwrap_or_default()
    }
}

fn linux(tally: &mut Tally, snapshot: &mut Snapshot, scene: &Scene<'_>) {
    let named = std::mem::take(&mut tally.named);
    let here = named.iter().filter(|thread| thread.machine_id == HOST);
    let names = Names(here.map(|thread| (thread.tid, thread)).collect());
    let vm_of_pid: HashMap<Tid, MachineId> =
        snapshot.machines.iter().filter_map(|m| Some((m.vmm_pid?, m.machine_id))).collect();
    let all_rivals = rivals(&tally.stretches, &tally.cpus);
    let mut windows = std::mem::take(&mut tally.windows);
    in_order(&mut windows);
    let of_vcpu: HashMap<(MachineId, VcpuId), &Window> =
        windows.iter().filter_map(|w| Some(((w.machine_id, w.vcpu?), w))).collect();
    let mut vcpus: BTreeMap<(MachineId, VcpuId), Sum> = BTreeMap::new();
    let mut groups: BTreeMap<&str, Sum> = BTreeMap::new();
    for (tid, sums) in &tally.threads {
        let known = names.0.get(tid).copied();
        let pid = known.and_then(|thread| thread.pid).unwrap_or(*tid);
        let vcpu = tally.vcpu_threads.get(tid).copied();
        let vm = vcpu.map(|(vm, _)| vm).or_else(|| vm_of_pid.get(&pid).copied());
        let mut kept = 0;
        if let Some(rivals) = all_rivals.get(tid) {
            for (by, way) in heaviest(rivals) {
                kept += way.ns;
                let by_vcpu = tally.vcpu_threads.get(&by).copied();
                let by_pid = names.0.get(&by).and_then(|thread| thread.pid);
                let by_vm = by_vcpu
                    .map(|(vm, _)| vm)
                    .or_else(|| by_pid.and_then(|pid| vm_of_pid.get(&pid).copied()));
                snapshot.antagonists.push(Antagonist {
                    ts: snapshot.ts,
                    dur: snapshot.dur,
                    machine_id: vm.unwrap_or(HOST),
                    vcpu: vcpu.map(|(_, vcpu)| vcpu),
                    tid: *tid,
                    name: names.name(*tid),
                    by_machine_id: by_vm.unwrap_or(HOST),
                    by_vcpu: by_vcpu.map(|(_, vcpu)| vcpu),
                    by_tid: by,
                    by_name: if by == Tid::IDLE { "idle".to_owned() } else { names.name(by) },
                    times: way.times,
                    ns: way.ns,
                });
            }
        }
        let unattributed_ns = sums.preempted_ns + sums.waking_ns - kept;
        let window = vcpu.and_then(|key| of_vcpu.get(&key).copied());
        let halts = vcpu.and_then(|key| tally.vcpus.get(&key)).map_or(0, |sums| sums.halts);
        if let Some(key) = vcpu {
            vcpus.entry(key).or_default().add_thread(sums, unattributed_ns, halts);
        }
        let cgroup = known.and_then(|thread| thread.cgroup.as_deref());
        if let Some(group) = cgroup {
            groups.entry(group).or_default().add_thread(sums, unattributed_ns, halts);
        }
        let row = Member { tid: *tid, pid, vm, vcpu: vcpu.map(|v| v.1), cgroup, unattributed_ns };
        snapshot.threads.push(row.row(snapshot, names.name(*tid), sums, window));
    }
    for window in windows.iter().cloned() {
        let sum = match (&window.cgroup, window.vcpu) {
            (Some(group), _) => groups.remove(group.as_str()).unwrap_or_default(),
            (None, Some(vcpu)) => {
                let sum = vcpus.get(&(window.machine_id, vcpu));
                let mut own = Sum { threads: 1, ..Sum::default() };
                if let Some(sum) = sum {
                    own = sum.copy();
                }
                own
            }
            (None, None) => {
                let id = window.machine_id;
                let mut all = Sum::default();
                let own = vcpus.range((id, VcpuId(0))..=(id, VcpuId(u32::MAX)));
                own.for_each(|(_, sum)| all.add(sum));
                all.threads = of_vcpu.keys().filter(|(vm, _)| *vm == id).count() as u64;
                all
            }
        };
        snapshot.actors.push(sum.row(window));
    }
    cpus(tally, snapshot);
    io(tally, snapshot, &names, &vm_of_pid, scene);
}

impl Sum {
    fn copy(&self) -> Sum {
        Sum { waits: self.waits.clone(), ..*self }
    }

    fn add(&mut self, other: &Sum) {
        self.threads += other.threads;
        self.preempted_ns += other.preempted_ns;
        self.waking_ns += other.waking_ns;
        self.unattributed_ns += other.unattributed_ns;
        self.migrations += other.migrations;
        self.halts += other.halts;
        self.waits.add_all(&other.waits);
        self.wait_max_ns = self.wait_max_ns.max(other.wait_max_ns);
    }
}

/// Who a thread is.
struct Member<'a> {
    tid: Tid,
    pid: Tid,
    vm: Option<MachineId>,
    vcpu: Option<VcpuId>,
    cgroup: Option<&'a str>,
    unattributed_ns: i64,
}

impl Member<'_> {
    fn row(
        &self,
        snapshot: &Snapshot,
        name: String,
        sums: &ThreadSums,
        window: Option<&Window>,
    ) -> ThreadWindow {
        let [wait_p50_ns, wait_p99_ns] = sums.waits.lengths.quantiles_ns([500, 990]);
        let waited_ns = sums.preempted_ns + sums.waking_ns;
        let there = sums.gotten_ns + waited_ns + sums.blocked_ns + sums.unknown_ns;
        let slices = i64::try_from(sums.slices).unwrap_or(i64::MAX);
        let is_worker = name.starts_with("vhost-");
        ThreadWindow {
            ts: snapshot.ts,
            dur: snapshot.dur,
            machine_id: HOST,
            tid: self.tid,
            pid: self.pid,
            name,
            role: match (self.vm, self.vcpu) {
                (Some(_), Some(_)) => "vcpu",
                (Some(_), None) if is_worker => "vhost",
                (Some(_), None) => "vmm",
                (None, _) => "thread",
            },
            vm_machine_id: self.vm,
            vcpu: self.vcpu,
            cgroup: self.cgroup.map(str::to_owned),
            cpu: sums.cpu.unwrap_or(CpuId(0)),
            state: sums.state.unwrap_or("unknown"),
            executions: sums.executions,
            gotten_ns: sums.gotten_ns,
            waited_ns,
            preempted_ns: sums.preempted_ns,
            waking_ns: sums.waking_ns,
            blocked_ns: sums.blocked_ns,
            offline_ns: (snapshot.dur - there).max(0),
            unknown_ns: sums.unknown_ns,
            guest_ns: window.map_or(0, |w| w.guest_ns),
            halted_ns: window.map_or(0, |w| w.halted_ns),
            allocations: sums.slices,
            allocated_avg_ns: (slices > 0).then(|| sums.slices_ns / slices.max(1)),
            allocated_min_ns: sums.slice_min_ns,
            allocated_max_ns: sums.slice_max_ns,
            migrations: sums.migrations,
            wait_p50_ns,
            wait_p99_ns,
            wait_max_ns: sums.waits.max_ns,
            unattributed_ns: self.unattributed_ns,
            exits: window.map_or(0, |w| w.exits),
            io_count: window.map_or(0, |w| w.io_count),
            injections: 0,
        }
    }
}

fn cpus(tally: &Tally, snapshot: &mut Snapshot) {
    for (cpu, sums) in &tally.cpus {
        snapshot.cpus.push(CpuWindow {
            ts: snapshot.ts,
            dur: snapshot.dur,
            machine_id: HOST,
            cpu: *cpu,
            busy_ns: sums.busy_ns,
            idle_ns: sums.idle_ns,
            unknown_ns: sums.unknown_ns,
        });
    }
}

fn exits(tally: &Tally, snapshot: &mut Snapshot) {
    for ((machine_id, vcpu, reason), sums) in &tally.exits {
        let [p50_ns, p90_ns, p99_ns] = sums.lengths.quantiles_ns([500, 900, 990]);
        let row = ExitWindow {
            ts: snapshot.ts,
            dur: snapshot.dur,
            machine_id: *machine_id,
            vcpu: *vcpu,
            reason: *reason,
            count: sums.count,
            total_ns: sums.total_ns,
            handling_ns: sums.handling_ns,
            p50_ns,
            p90_ns,
            p99_ns,
            max_ns: sums.max_ns,
        };
        snapshot.exits.push((row, sums.lengths.clone()));
    }
}

fn io(
    tally: &mut Tally,
    snapshot: &mut Snapshot,
    names: &Names<'_>,
    vm_of_pid: &HashMap<Tid, MachineId>,
    scene: &Scene<'_>,
) {
    // Requests are a process's, not a thread's.
    let mut by_process: BTreeMap<IoKind, Durations> = BTreeMap::new();
    for (kind, sums) in std::mem::take(&mut tally.io) {
        let kind = match kind {
            IoKind::Block { tid, is_write } => {
                let pid = names.0.get(&tid).and_then(|thread| thread.pid).unwrap_or(tid);
                IoKind::Block { tid: pid, is_write }
            }
            net => net,
        };
        by_process.entry(kind).or_default().join(&sums);
    }
    for (kind, sums) in by_process {
        let [p50_ns, p90_ns, p99_ns] = sums.lengths.quantiles_ns([500, 900, 990]);
        let (kind, pid, name, vm) = match kind {
            IoKind::Block { tid, is_write } => {
                let kind = if is_write { "write" } else { "read" };
                (kind, Some(tid), names.name(tid), vm_of_pid.get(&tid).copied())
            }
            IoKind::Net { device, is_xmit } => {
                let kind = if is_xmit { "xmit" } else { "receive" };
                let vm = scene.vm_of_device.get(&device).copied();
                (kind, None, device, vm)
            }
        };
        let row = IoWindow {
            ts: snapshot.ts,
            dur: snapshot.dur,
            machine_id: vm.unwrap_or(HOST),
            kind,
            pid,
            name,
            count: sums.count,
            bytes: sums.bytes,
            total_ns: pid.map(|_| sums.total_ns),
            p50_ns,
            p90_ns,
            p99_ns,
        };
        snapshot.io.push((row, sums.lengths));
    }
}
