//! Rows for tests: a host with two guests, a packet between these and a request of the first.

use transect_model::event::{BlockOp, DeviceName};
use transect_model::ids::{BlockDevice, CpuId, MachineId, MachineKind, Tid};
use transect_model::stack::StackPoint;
use transect_model::table::{IoRequest, Machine, Packet, Stack, StackSample, Tables, Thread};

pub(crate) const HOST: MachineId = MachineId(0);
pub(crate) const WEB: MachineId = MachineId(1);
pub(crate) const DB: MachineId = MachineId(2);
pub(crate) const BACKEND: Tid = Tid(70);

pub(crate) fn packet() -> Packet {
    Packet {
        ts: 100,
        dur: Some(900),
        machine_id: WEB,
        tid: Some(Tid(7)),
        device: Some(DeviceName::new(b"eth0")),
        to_machine_id: Some(DB),
        to_device: Some(DeviceName::new(b"eth0")),
        flow: 1,
        seq: 1,
        bytes: Some(60),
        send_ts: Some(100),
        kick_ts: Some(150),
        pickup_ts: Some(250),
        host_receive_ts: Some(300),
        host_send_ts: Some(350),
        fetch_ts: Some(450),
        signal_ts: Some(500),
        inject_ts: None,
        guest_irq_ts: Some(600),
        receive_ts: Some(700),
        wake_ts: Some(800),
        run_ts: Some(1_000),
        wake_tid: Some(Tid(9)),
        backend_tid: Some(BACKEND),
        to_backend_tid: Some(Tid(80)),
        evidence: None,
        missing: "inject".to_owned(),
        error_ns: None,
    }
}

pub(crate) fn request() -> IoRequest {
    IoRequest {
        ts: 2_000,
        dur: Some(1_000),
        machine_id: WEB,
        tid: Tid(7),
        device: BlockDevice(254 << 20),
        queue: None,
        op: BlockOp::Write,
        sector: 8,
        bytes: 4_096,
        issue_ts: Some(2_010),
        kick_ts: Some(2_050),
        pickup_ts: Some(2_150),
        host_submit_ts: Some(2_200),
        host_issue_ts: Some(2_210),
        host_complete_ts: Some(2_710),
        signal_ts: Some(2_760),
        inject_ts: None,
        guest_irq_ts: Some(2_800),
        complete_ts: Some(2_850),
        wake_ts: Some(2_900),
        run_ts: Some(3_000),
        wake_tid: Some(Tid(7)),
        backend_tid: Some(BACKEND),
        host_device: None,
        error: None,
        evidence: None,
        missing: "inject".to_owned(),
        error_ns: None,
    }
}

/// A sample whose frames in the kernel have the number `kernel`.
pub(crate) fn sample(
    (machine_id, point, stage_ts): (MachineId, StackPoint, i64),
    tid: i32,
    kernel: Option<u32>,
) -> StackSample {
    StackSample {
        ts: stage_ts,
        machine_id,
        cpu: CpuId(0),
        tid: Tid(tid),
        point,
        stage_ts: Some(stage_ts),
        kernel_stack_id: kernel,
        user_stack_id: None,
        woken_tid: None,
    }
}

/// A stack; the innermost frame first.
pub(crate) fn stack(machine_id: MachineId, stack_id: u32, symbols: &[&str]) -> Vec<Stack> {
    let frame = |(depth, symbol): (u32, &&str)| Stack {
        machine_id,
        stack_id,
        depth,
        symbol: (*symbol).to_owned(),
        module: None,
    };
    (0..).zip(symbols).map(frame).collect()
}

pub(crate) fn thread(machine_id: MachineId, tid: i32, name: &str) -> Thread {
    Thread {
        machine_id,
        tid: Tid(tid),
        pid: None,
        name: name.to_owned(),
        cgroup: None,
        allowed_cpus: None,
        policy: None,
        nice: None,
        rt_priority: None,
    }
}

fn machine(machine_id: MachineId, name: &str) -> Machine {
    let is_host = machine_id == HOST;
    Machine {
        machine_id,
        parent_id: (!is_host).then_some(HOST),
        kind: if is_host { MachineKind::Host } else { MachineKind::Guest },
        name: name.to_owned(),
        domid: None,
        vmm_pid: None,
        cgroup: None,
        clock: None,
        error_bound_ns: None,
        time_unit: None,
    }
}

/// The machines and the rows, without a stack.
pub(crate) fn tables() -> Tables {
    Tables {
        machines: vec![machine(HOST, "host"), machine(WEB, "web"), machine(DB, "db")],
        threads: vec![thread(WEB, 7, "nginx"), thread(HOST, 60, "CPU 0/KVM")],
        packets: vec![packet()],
        io_requests: vec![request()],
        ..Tables::default()
    }
}
