//! Hand-made tables for tests: 10 µs in which a hog keeps a periodic VM from its only CPU.
//!
//! Every table has rows, and most of the odd cases are here: null columns, rows without an end, a
//! stamp before trace time 0, interrupts that nest, a lost stretch of a whole machine.

use transect_model::cause::Evidence;
use transect_model::event::{BlockOp, DeviceName};
use transect_model::exit::{ExitReason, Isa};
use transect_model::ids::{BlockDevice, CpuId, MachineId, MachineKind, Tid, VcpuId};
use transect_model::interrupt::IrqSource;
use transect_model::state::{EffectiveState, ThreadState, VcpuState};
use transect_model::table::*;

const HOST: MachineId = MachineId(0);
const PERIODIC: MachineId = MachineId(1);
const HOG: MachineId = MachineId(2);
const PERIODIC_TID: Tid = Tid(101);
const HOG_TID: Tid = Tid(202);

/// An exit of an AMD CPU.
pub fn svm(code: u32) -> ExitReason {
    ExitReason { isa: Isa::Svm, code }
}

fn machine_row(id: MachineId, kind: MachineKind, name: &str) -> Machine {
    let guest = kind == MachineKind::Guest;
    Machine {
        machine_id: id,
        parent_id: guest.then_some(HOST),
        kind,
        name: name.to_owned(),
        vmm_pid: guest.then_some(Tid(100)),
        domid: None,
        cgroup: None,
        clock: (id != HOG).then(|| "x86-tsc".to_owned()),
        error_bound_ns: (id != HOG).then_some(0),
        time_unit: Some("ns".to_owned()),
    }
}

fn state(ts: i64, dur: i64, machine: MachineId, state: VcpuState, by: Option<Tid>) -> VcpuStateRow {
    VcpuStateRow {
        ts,
        dur,
        machine_id: machine,
        vcpu: VcpuId(0),
        cpu: Some(CpuId(0)),
        state,
        reason: matches!(state, VcpuState::Exit | VcpuState::User).then(|| svm(0x7b)),
        by_machine_id: by.map(|tid| if tid == HOG_TID { HOG } else { HOST }),
        by_tid: by,
    }
}

fn exit(
    ts: i64,
    dur: Option<i64>,
    handling_ns: Option<i64>,
    machine: MachineId,
    code: u32,
) -> Exit {
    Exit {
        ts,
        dur,
        handling_ns,
        machine_id: machine,
        vcpu: VcpuId(0),
        reason: svm(code),
        rip: 0xffff_ffff_8100_0000,
        to_user: code == 0x7b,
        detail: (code == 0x7b).then_some(0x3f8),
    }
}

fn thread(machine_id: MachineId, tid: Tid, name: &str) -> Thread {
    Thread {
        machine_id,
        tid,
        pid: Some(tid),
        name: name.to_owned(),
        cgroup: None,
        allowed_cpus: None,
        policy: None,
        nice: None,
        rt_priority: None,
    }
}

fn thread_state(
    (ts, dur): (i64, i64),
    machine_id: MachineId,
    tid: Tid,
    state: ThreadState,
    effective: Option<EffectiveState>,
) -> ThreadStateRow {
    ThreadStateRow {
        ts,
        dur,
        machine_id,
        tid,
        cpu: Some(CpuId(0)),
        state,
        effective,
        reason: (state == ThreadState::Blocked).then_some('S'),
        waker_tid: None,
        waker_context: None,
    }
}

fn wakeup(ts: i64, dur: Option<i64>) -> Wakeup {
    Wakeup {
        ts,
        dur,
        machine_id: HOST,
        tid: PERIODIC_TID,
        waker_tid: None,
        waker_cpu: CpuId(0),
        context: None,
        source: None,
        vector: None,
        cpu: dur.map(|_| CpuId(0)),
    }
}

/// The tables.
pub fn tables() -> Tables {
    use VcpuState::{Exit as InExit, Guest, Halted, Preempted, Unknown, User, Waking};
    let mut t = Tables {
        machines: vec![
            machine_row(HOST, MachineKind::Host, "kvmhost"),
            machine_row(PERIODIC, MachineKind::Guest, "periodic"),
            machine_row(HOG, MachineKind::Guest, "hog"),
        ],
        threads: vec![
            thread(HOST, PERIODIC_TID, "CPU 0/KVM"),
            thread(HOST, HOG_TID, "CPU 0/KVM"),
            thread(HOST, Tid(7), "kworker/0:1"),
            thread(PERIODIC, Tid(50), "ticker"),
        ],
        ..Tables::default()
    };
    for (machine_id, tid) in [(PERIODIC, PERIODIC_TID), (HOG, HOG_TID)] {
        t.vcpus.push(Vcpu { machine_id, vcpu: VcpuId(0), vmm_tid: Some(tid) });
    }
    t.vcpu_states = vec![
        state(0, 1_000, PERIODIC, Halted, None),
        state(1_000, 6_000, PERIODIC, Waking, Some(HOG_TID)),
        state(7_000, 500, PERIODIC, Waking, Some(Tid(7))),
        state(7_500, 500, PERIODIC, InExit, None),
        state(8_000, 500, PERIODIC, Guest, None),
        state(8_500, 1_500, PERIODIC, Preempted, Some(HOG_TID)),
        state(0, 6_000, HOG, Guest, None),
        state(6_000, 600, HOG, InExit, None),
        state(6_600, 400, HOG, User, None),
        state(7_000, 1_500, HOG, Preempted, Some(Tid(7))),
        state(8_500, 1_000, HOG, Guest, None),
        state(9_500, 500, HOG, Unknown, None),
    ];
    t.exits = vec![
        exit(0, Some(8_000), Some(500), PERIODIC, 0x78),
        exit(6_000, Some(2_500), Some(1_000), HOG, 0x7b),
        exit(9_500, None, None, HOG, 0x400),
    ];
    t.thread_states = vec![
        thread_state((0, 6_600), HOST, HOG_TID, ThreadState::Running, None),
        thread_state((1_000, 6_500), HOST, PERIODIC_TID, ThreadState::Runnable, None),
        thread_state((7_500, 1_000), HOST, PERIODIC_TID, ThreadState::Running, None),
        thread_state(
            (2_000, 6_000),
            PERIODIC,
            Tid(50),
            ThreadState::Running,
            Some(EffectiveState::VcpuPreempted),
        ),
        thread_state(
            (8_000, 500),
            PERIODIC,
            Tid(50),
            ThreadState::Running,
            Some(EffectiveState::Running),
        ),
        thread_state((8_500, 1_500), PERIODIC, Tid(50), ThreadState::Blocked, None),
    ];
    t.wakeups = vec![wakeup(1_000, Some(6_500)), wakeup(9_000, None)];
    let wall = |ts, dur, unix_ns, step_ns| WallClock {
        ts,
        dur,
        unix_ns,
        unix_dur: dur,
        error_ns: 41,
        step_ns,
    };
    // 02:41:38 UTC; set back by an hour while the hog ran.
    t.wall_clock.push(wall(0, 4_000, 1_795_574_498_000_000_000, None));
    let an_hour = 3_600_000_000_000;
    let unix_ns = 1_795_574_498_000_005_000 - an_hour;
    t.wall_clock.push(wall(5_000, 5_000, unix_ns, Some(-an_hour)));
    t.clock_check.push(ClockCheck {
        machine_id: PERIODIC,
        tested: 9_489,
        inside: 9_489,
        outside: 0,
        untested: 12,
        worst_ns: 0,
        slack_later_ns: 20_400,
        slack_earlier_ns: 21_000,
    });
    t.lost.push(Lost {
        ts: 9_500,
        dur: 500,
        machine_id: HOST,
        cpu: Some(CpuId(0)),
        count: Some(1_234),
        cause: "buffer_overrun".to_owned(),
    });
    t.cpu_slices = vec![
        cpu_slice((0, 6_600), HOST, Some(HOG_TID), Some(HOG)),
        cpu_slice((6_600, 100), HOST, Some(Tid::IDLE), None),
        cpu_slice((6_700, 800), HOST, Some(Tid(7)), None),
        cpu_slice((7_500, 1_000), HOST, Some(PERIODIC_TID), Some(PERIODIC)),
        cpu_slice((8_500, 1_000), HOST, Some(HOG_TID), Some(HOG)),
        cpu_slice((9_500, 500), HOST, None, None),
        cpu_slice((2_000, 6_500), PERIODIC, Some(Tid(50)), None),
        cpu_slice((8_500, 1_500), PERIODIC, Some(Tid::IDLE), None),
    ];
    t.io_requests = vec![request(2_600, true), request(4_000, false)];
    t.packets = vec![packet(4_500, Seen::Whole), packet(5_000, Seen::FromOutside)];
    t.packets.push(packet(9_000, Seen::Sent));
    t.irqs = vec![irq(-50, 20, false, 33), irq(100, 50, true, 1), irq(110, 10, false, 33)];
    t.irqs.push(irq(155, 10, true, 7));
    t.syscalls = vec![syscall(2_500, Some(5_700), Some(-4)), syscall(8_300, None, None)];
    t.windows = vec![window(PERIODIC, Some(VcpuId(0)), None), window(PERIODIC, None, None)];
    t.windows.push(window(HOST, None, Some("/machine/web, the first")));
    t.lost.push(Lost {
        ts: 0,
        dur: 2_000,
        machine_id: PERIODIC,
        cpu: None,
        count: None,
        cause: "guest_disconnected".to_owned(),
    });
    t
}

/// A request of the periodic VM's, from the guest's queue to its thread, or with what a hole leaves.
fn request(ts: i64, is_whole: bool) -> IoRequest {
    let at = |after: i64| is_whole.then_some(ts + after);
    IoRequest {
        ts,
        dur: is_whole.then_some(1_200),
        machine_id: PERIODIC,
        tid: Tid(50),
        device: BlockDevice(254 << 20),
        queue: is_whole.then(|| "virtio1-req.0".to_owned()),
        op: BlockOp::Write,
        sector: 2_048,
        bytes: 4_096,
        issue_ts: Some(ts + 50),
        kick_ts: Some(ts + 90),
        pickup_ts: at(240),
        host_submit_ts: at(300),
        host_issue_ts: at(310),
        host_complete_ts: at(900),
        signal_ts: at(960),
        inject_ts: None,
        guest_irq_ts: at(1_020),
        complete_ts: at(1_050),
        wake_ts: at(1_060),
        run_ts: at(1_200),
        wake_tid: is_whole.then_some(Tid(50)),
        backend_tid: is_whole.then_some(Tid(100)),
        host_device: is_whole.then_some(BlockDevice(8 << 20)),
        error: is_whole.then_some(0),
        evidence: Some(Evidence::Context),
        missing: match is_whole {
            true => "inject",
            false => "pickup,host,signal,inject,guest_irq,complete,wake",
        }
        .to_owned(),
        error_ns: Some(0),
    }
}

/// How much of a packet's way is recorded.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Seen {
    Whole,
    FromOutside,
    Sent,
}

/// A packet from the hog to the periodic VM, one to the latter from outside, or the first event of one.
fn packet(ts: i64, seen: Seen) -> Packet {
    let is_received = seen != Seen::Sent;
    let sent = |after: i64| (seen == Seen::Whole).then_some(ts + after);
    let received = |after: i64| match seen {
        Seen::Whole => Some(ts + 400 + after),
        Seen::FromOutside => Some(ts + after),
        Seen::Sent => None,
    };
    Packet {
        ts,
        dur: match seen {
            Seen::Whole => Some(1_000),
            Seen::FromOutside => Some(600),
            Seen::Sent => None,
        },
        machine_id: if seen == Seen::FromOutside { HOST } else { HOG },
        tid: (seen != Seen::FromOutside).then_some(Tid(60)),
        device: Some(DeviceName::new(b"eth0")),
        to_machine_id: is_received.then_some(PERIODIC),
        to_device: is_received.then(|| DeviceName::new(b"eth0")),
        flow: 0x1234_5678,
        seq: 1_000,
        bytes: (seen != Seen::FromOutside).then_some(1_514),
        send_ts: (seen != Seen::FromOutside).then_some(ts),
        kick_ts: sent(50),
        pickup_ts: sent(200),
        host_receive_ts: received(0),
        host_send_ts: received(30),
        fetch_ts: received(110),
        signal_ts: received(140),
        inject_ts: None,
        guest_irq_ts: received(260),
        receive_ts: received(300),
        wake_ts: received(310),
        run_ts: received(600),
        wake_tid: is_received.then_some(Tid(50)),
        backend_tid: (seen == Seen::Whole).then_some(Tid(7)),
        to_backend_tid: is_received.then_some(Tid(7)),
        evidence: is_received.then_some(Evidence::Id),
        missing: match seen {
            Seen::Whole => "",
            Seen::FromOutside => "inject",
            Seen::Sent => "kick,pickup,host_receive,host_send,fetch,signal,guest_irq,receive,wake",
        }
        .to_owned(),
        error_ns: is_received.then_some(0),
    }
}

fn cpu_slice(
    (ts, dur): (i64, i64),
    machine_id: MachineId,
    tid: Option<Tid>,
    vm: Option<MachineId>,
) -> CpuSlice {
    let vcpu = vm.map(|_| VcpuId(0));
    CpuSlice { ts, dur, machine_id, cpu: CpuId(0), tid, vcpu_machine_id: vm, vcpu }
}

fn irq(ts: i64, dur: i64, softirq: bool, vector: i32) -> Irq {
    let source = if softirq { IrqSource::Softirq } else { IrqSource::Line };
    Irq { ts, dur, machine_id: HOST, cpu: CpuId(0), softirq, source, vector }
}

fn syscall(ts: i64, dur: Option<i64>, ret: Option<i64>) -> Syscall {
    Syscall { ts, dur, machine_id: PERIODIC, tid: Tid(50), nr: 35, ret }
}

fn window(machine_id: MachineId, vcpu: Option<VcpuId>, cgroup: Option<&str>) -> Window {
    Window {
        ts: 0,
        dur: 10_000,
        machine_id,
        vcpu,
        cpu: None,
        cgroup: cgroup.map(str::to_owned),
        executions: 1,
        gotten_ns: 1_000,
        waited_ns: 8_000,
        blocked_ns: 1_000,
        offline_ns: 0,
        unknown_ns: 0,
        guest_ns: 500,
        halted_ns: 1_000,
        allocations: 1,
        allocated_avg_ns: Some(1_000),
        allocated_min_ns: Some(1_000),
        allocated_max_ns: Some(1_000),
        io_count: 3,
        exits: 1,
        steal_ns: 8_000,
    }
}

/// Every row of the tables, as the engine would hand them over.
pub fn rows(tables: Tables) -> Vec<Row> {
    let mut rows: Vec<Row> = Vec::new();
    rows.extend(tables.machines.into_iter().map(Row::from));
    rows.extend(tables.vcpus.into_iter().map(Row::Vcpu));
    rows.extend(tables.threads.into_iter().map(Row::Thread));
    rows.extend(tables.cpu_slices.into_iter().map(Row::CpuSlice));
    rows.extend(tables.vcpu_states.into_iter().map(Row::VcpuState));
    rows.extend(tables.thread_states.into_iter().map(Row::ThreadState));
    rows.extend(tables.exits.into_iter().map(Row::Exit));
    rows.extend(tables.wakeups.into_iter().map(Row::Wakeup));
    rows.extend(tables.irqs.into_iter().map(Row::Irq));
    rows.extend(tables.syscalls.into_iter().map(Row::Syscall));
    rows.extend(tables.io_requests.into_iter().map(Row::from));
    rows.extend(tables.packets.into_iter().map(Row::from));
    rows.extend(tables.windows.into_iter().map(Row::from));
    rows.extend(tables.clock_check.into_iter().map(Row::ClockCheck));
    rows.extend(tables.wall_clock.into_iter().map(Row::WallClock));
    rows.extend(tables.lost.into_iter().map(Row::Lost));
    rows
}
