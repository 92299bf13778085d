//! A host that never was, whose windows come as fast as they are asked for: for tests.

use transect_live::{
    ActorWindow, Antagonist, ContainerWindow, CpuWindow, ExitWindow, Health, Histogram, IoWindow,
    LiveError, Missing, PressureWindow, Snapshot, Source, ThreadWindow, WindowDetail,
};
use transect_model::exit::{ExitReason, Isa};
use transect_model::ids::{CpuId, MachineId, MachineKind, Tid, VcpuId};
use transect_model::table::{Machine, Window};

/// When its first window begins: at a multiple of an hour.
pub const START_UNIX_NS: u64 = 1_790_000_400_000_000_000;
const S: i64 = 1_000_000_000;

/// So many VMs, each with a vCPU and a thread, and control groups.
pub struct Made {
    vms: u32,
    groups: u32,
    number: i64,
    /// As fast as asked for, or as time goes by.
    pub pace: std::time::Duration,
    /// Windows that may be given so far, if somebody says so.
    pub allowed: Option<std::sync::Arc<std::sync::atomic::AtomicI64>>,
    /// Ends the source after so many.
    pub last: Option<i64>,
}

impl Made {
    /// A host with so many VMs and control groups.
    pub fn new(vms: u32, groups: u32) -> Self {
        Made { vms, groups, number: 0, pace: std::time::Duration::ZERO, allowed: None, last: None }
    }

    /// Goes on so many windows later.
    pub fn skip(&mut self, windows: i64) {
        self.number += windows;
    }

    /// The next window.
    pub fn next_window(&mut self) -> Snapshot {
        let number = self.number;
        self.number += 1;
        let ts = number * S;
        let ended = START_UNIX_NS + u64::try_from(ts + S).unwrap_or(0);
        let mut window = Snapshot { ts, dur: S, ended_unix_ns: ended, ..Snapshot::default() };
        window.machines.push(machine(0, MachineKind::Host, "host", None));
        window.cpus = (0..2).map(|cpu| cpu_row(ts, cpu)).collect();
        for vm in 1..=self.vms {
            window.machines.push(machine(
                vm,
                MachineKind::Guest,
                &format!("vm{vm}"),
                Some(Tid(1000 + id(vm))),
            ));
            for vcpu in [None, Some(VcpuId(0))] {
                window.actors.push(actor(ts, number, vm, vcpu, None));
            }
            window.threads.push(thread(ts, number, vm));
            window.exits.push(exits(ts, number, vm));
            window.io.push(io(ts, vm));
        }
        for group in 0..self.groups {
            let path = Some(format!("/machine.slice/group{group}.scope"));
            window.actors.push(actor(ts, number, 0, None, path));
        }
        for group in 0..self.groups {
            window.containers.push(container(ts, group));
        }
        window.pressure.push(pressure(ts));
        if self.vms > 1 {
            window.antagonists.push(antagonist(ts));
        }
        window.missing.push(Missing {
            metric: "net_durations".to_owned(),
            machine_id: None,
            why: "nothing tells \"them\" apart".to_owned(),
        });
        window.health = Health { own_cpu_ns: 1_000_000, ..Health::default() };
        window
    }
}

impl Source for Made {
    fn window_ns(&self) -> u64 {
        1_000_000_000
    }

    fn next_edge_ns(&self) -> Option<u64> {
        None
    }

    fn missing(&self) -> Vec<Missing> {
        Vec::new()
    }

    fn take(&mut self) -> Result<Snapshot, LiveError> {
        std::thread::sleep(self.pace);
        let allowed = || {
            self.allowed
                .as_ref()
                .is_none_or(|n| n.load(std::sync::atomic::Ordering::Relaxed) > self.number)
        };
        while !allowed() {
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
        if self.last.is_some_and(|last| self.number >= last) {
            return Err(LiveError::Nothing { why: "that was all".to_owned(), missing: Vec::new() });
        }
        Ok(self.next_window())
    }
}

fn id(number: u32) -> i32 {
    i32::try_from(number).unwrap_or(0)
}

fn machine(number: u32, kind: MachineKind, name: &str, vmm_pid: Option<Tid>) -> Machine {
    let parent_id = (number > 0).then_some(MachineId(0));
    Machine {
        machine_id: MachineId(number),
        parent_id,
        kind,
        name: name.to_owned(),
        domid: None,
        vmm_pid,
        cgroup: None,
        clock: None,
        error_bound_ns: None,
        time_unit: None,
    }
}

fn cpu_row(ts: i64, cpu: u32) -> CpuWindow {
    let (busy_ns, idle_ns) = (S / 4, S - S / 4);
    CpuWindow {
        ts,
        dur: S,
        machine_id: MachineId(0),
        cpu: CpuId(cpu),
        busy_ns,
        idle_ns,
        unknown_ns: 0,
    }
}

/// Every third window of vm1 it waits for 30 % of the time; others never wait.
pub fn waited_ns(number: i64, vm: u32) -> i64 {
    if vm == 1 && number % 12 >= 6 { S / 100 * 30 } else { S / 1000 }
}

fn lengths() -> Histogram {
    let mut lengths = Histogram::default();
    // Buckets begin at powers of two: 1.024 µs, and 262 µs.
    assert!(lengths.add_from(1024, 3) && lengths.add_from(262_144, 1));
    lengths
}

fn actor(
    ts: i64,
    number: i64,
    vm: u32,
    vcpu: Option<VcpuId>,
    cgroup: Option<String>,
) -> ActorWindow {
    let machine_id = MachineId(vm);
    let waited_ns = waited_ns(number, vm);
    let gotten_ns = S / 10;
    let window = Window {
        ts,
        dur: S,
        machine_id,
        vcpu,
        cpu: None,
        cgroup: cgroup.clone(),
        executions: 10,
        gotten_ns,
        waited_ns,
        blocked_ns: S - gotten_ns - waited_ns,
        offline_ns: 0,
        unknown_ns: 0,
        guest_ns: gotten_ns / 2,
        halted_ns: S / 2,
        allocations: 2,
        allocated_avg_ns: Some(20_000),
        allocated_min_ns: Some(10_000),
        allocated_max_ns: Some(30_000),
        io_count: 4,
        exits: 7,
        steal_ns: waited_ns,
    };
    let waits = lengths();
    let detail = WindowDetail {
        ts,
        dur: S,
        machine_id,
        vcpu,
        cgroup,
        threads: 1,
        preempted_ns: waited_ns / 2,
        waking_ns: waited_ns - waited_ns / 2,
        migrations: 1,
        waits: waits.count(),
        wait_p50_ns: waits.quantile_ns(500),
        wait_p90_ns: waits.quantile_ns(900),
        wait_p99_ns: waits.quantile_ns(990),
        wait_max_ns: 270_000,
        unattributed_ns: 0,
        injections: 5,
        halts: 3,
        halts_polled: 1,
        poll_ns: 1_000,
    };
    ActorWindow { window, detail, waits }
}

fn thread(ts: i64, number: i64, vm: u32) -> ThreadWindow {
    let waited_ns = waited_ns(number, vm);
    ThreadWindow {
        ts,
        dur: S,
        machine_id: MachineId(0),
        tid: Tid(2000 + id(vm)),
        pid: Tid(1000 + id(vm)),
        name: "CPU 0/KVM".to_owned(),
        role: "vcpu",
        vm_machine_id: Some(MachineId(vm)),
        vcpu: Some(VcpuId(0)),
        cgroup: Some("/machine.slice".to_owned()),
        cpu: CpuId(1),
        state: "halted",
        executions: 10,
        gotten_ns: S / 10,
        waited_ns,
        preempted_ns: waited_ns / 2,
        waking_ns: waited_ns - waited_ns / 2,
        blocked_ns: S - S / 10 - waited_ns,
        offline_ns: 0,
        unknown_ns: 0,
        guest_ns: S / 20,
        halted_ns: S / 2,
        allocations: 2,
        allocated_avg_ns: Some(20_000),
        allocated_min_ns: Some(10_000),
        allocated_max_ns: Some(30_000),
        migrations: 1,
        wait_p50_ns: Some(1279),
        wait_p99_ns: Some(327_679),
        wait_max_ns: 270_000,
        unattributed_ns: 0,
        exits: 7,
        io_count: 4,
        injections: 5,
    }
}

fn exits(ts: i64, number: i64, vm: u32) -> (ExitWindow, Histogram) {
    let lengths = lengths();
    let code = if number % 2 == 0 { 0x78 } else { 0x400 };
    let row = ExitWindow {
        ts,
        dur: S,
        machine_id: MachineId(vm),
        vcpu: VcpuId(0),
        reason: ExitReason { isa: Isa::Svm, code },
        count: lengths.count(),
        total_ns: 266_000,
        handling_ns: 66_000,
        p50_ns: lengths.quantile_ns(500),
        p90_ns: lengths.quantile_ns(900),
        p99_ns: lengths.quantile_ns(990),
        max_ns: Some(263_000),
    };
    (row, lengths)
}

fn io(ts: i64, vm: u32) -> (IoWindow, Histogram) {
    let lengths = lengths();
    let row = IoWindow {
        ts,
        dur: S,
        machine_id: MachineId(vm),
        kind: "write",
        pid: Some(Tid(1000 + id(vm))),
        name: "qemu".to_owned(),
        count: lengths.count(),
        bytes: 16 << 10,
        total_ns: Some(300_000),
        p50_ns: lengths.quantile_ns(500),
        p90_ns: lengths.quantile_ns(900),
        p99_ns: lengths.quantile_ns(990),
    };
    (row, lengths)
}

fn antagonist(ts: i64) -> Antagonist {
    Antagonist {
        ts,
        dur: S,
        machine_id: MachineId(1),
        vcpu: Some(VcpuId(0)),
        tid: Tid(2001),
        name: "CPU 0/KVM".to_owned(),
        by_machine_id: MachineId(2),
        by_vcpu: Some(VcpuId(0)),
        by_tid: Tid(2002),
        by_name: "CPU 0/KVM".to_owned(),
        times: 2,
        ns: 400_000,
    }
}

fn container(ts: i64, group: u32) -> (ContainerWindow, Histogram) {
    let waits = lengths();
    let row = ContainerWindow {
        ts,
        dur: S,
        machine_id: MachineId(0),
        kind: "machine".to_owned(),
        name: format!("group{group}"),
        id: None,
        pod: (group == 0).then(|| "web".to_owned()),
        namespace: (group == 0).then(|| "shop".to_owned()),
        cgroup: format!("/machine.slice/group{group}.scope"),
        parent: None,
        vm_machine_id: None,
        threads: 2,
        executions: 10,
        gotten_ns: S / 10,
        waited_ns: S / 100,
        preempted_ns: S / 200,
        waking_ns: S / 200,
        blocked_ns: S - S / 10 - S / 100,
        unknown_ns: 0,
        guest_ns: 0,
        exits: 0,
        migrations: 1,
        waits: waits.count(),
        wait_p50_ns: waits.quantile_ns(500),
        wait_p99_ns: waits.quantile_ns(990),
        wait_max_ns: 270_000,
    };
    (row, waits)
}

fn pressure(ts: i64) -> PressureWindow {
    PressureWindow {
        ts,
        dur: S,
        machine_id: MachineId(0),
        cgroup: None,
        quota_ns: None,
        period_ns: None,
        periods: None,
        periods_throttled: None,
        throttled_ns: None,
        cpu_some_ns: Some(S / 100),
        cpu_full_ns: Some(0),
        io_some_ns: None,
        io_full_ns: None,
        memory_some_ns: Some(0),
        memory_full_ns: Some(0),
    }
}
