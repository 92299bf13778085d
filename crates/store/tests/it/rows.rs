//! Rows of every table with arbitrary contents, from a seed.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::cast_possible_truncation,
    clippy::cast_possible_wrap,
    clippy::cast_sign_loss,
    reason = "helpers of tests: a failure is what they are for; numbers are small"
)]

use transect_model::cause::{CauseKind, Evidence, LockKind};
use transect_model::event::{BlockOp, Comm};
use transect_model::exit::{ExitReason, Isa};
use transect_model::ids::{BlockDevice, CpuId, MachineId, MachineKind, Tid, VcpuId};
use transect_model::interrupt::{Context, IrqSource};
use transect_model::setting::SchedPolicy;
use transect_model::stack::StackPoint;
use transect_model::state::{
    CounterName, DomainState, EffectiveState, NetDirection, ThreadState, VcpuState,
};
use transect_model::table::*;

/// A small generator of numbers (splitmix64): tests need variety, not quality.
pub(crate) struct Rng(pub(crate) u64);

impl Rng {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub(crate) fn below(&mut self, n: u64) -> u64 {
        self.next() % n
    }

    pub(crate) fn pick<T: Copy>(&mut self, of: &[T]) -> T {
        of[self.below(of.len() as u64) as usize]
    }
}

pub(crate) trait Make {
    fn make(rng: &mut Rng) -> Self;
}

macro_rules! make {
    ($($ty:ty: |$rng:ident| $value:expr;)*) => {
        $(impl Make for $ty {
            fn make($rng: &mut Rng) -> Self { $value }
        })*
    };
}

make! {
    bool: |r| r.below(2) == 1;
    i32: |r| r.next() as i32;
    i64: |r| { let bits = r.below(64); (r.next() >> bits) as i64 };
    u32: |r| r.next() as u32 >> r.below(32);
    u64: |r| { let bits = r.below(64); r.next() >> bits };
    f64: |r| r.next() as f64 / 3.0;
    String: |r| ["", "vm-1", "/machine.slice/ü", "x\u{0}y", "a b"][r.below(5) as usize].to_owned();
    char: |r| r.pick(&['S', 'D', 'I']);
    MachineId: |r| MachineId(r.below(3) as u32);
    CpuId: |r| { let top = r.pick(&[4, u64::from(u32::MAX) + 1]); CpuId(r.below(top) as u32) };
    VcpuId: |r| VcpuId(r.below(300) as u32);
    Tid: |r| Tid(r.next() as i32 >> r.below(32));
    MachineKind: |r| r.pick(&[MachineKind::Host, MachineKind::Guest]);
    VcpuState: |r| r.pick(&VcpuState::ALL);
    ThreadState: |r| r.pick(&[ThreadState::Running, ThreadState::Blocked]);
    EffectiveState: |r| r.pick(&[EffectiveState::Running, EffectiveState::VcpuHalted]);
    ExitReason: |r| ExitReason {
        isa: r.pick(&[Isa::Svm, Isa::Vmx, Isa::Arm64, Isa::Other(9), Isa::Other(u32::MAX)]),
        code: r.below(0x90) as u32,
    };
    DomainState: |r| r.pick(&[DomainState::Blocked, DomainState::FullRun, DomainState::Unknown]);
    BlockDevice: |r| BlockDevice(r.below(1 << 32) as u32);
    BlockOp: |r| r.pick(&[BlockOp::Read, BlockOp::Write]);
    Comm: |r| Comm::new(r.pick(&[&b"eth0"[..], b"a-longer-name", b"\xff\xfe", b""]));
    CauseKind: |r| r.pick(&CauseKind::ALL);
    Evidence: |r| r.pick(&[Evidence::Id, Evidence::Context, Evidence::Order]);
    StackPoint: |r| r.pick(&StackPoint::ALL);
    LockKind: |r| LockKind::from_flags(r.next() as u32);
    Context: |r| r.pick(&[Context::Task, Context::Softirq, Context::Irq, Context::Nmi]);
    IrqSource: |r| { let all: Vec<_> = IrqSource::all().collect(); r.pick(&all) };
    SchedPolicy: |r| r.pick(&SchedPolicy::ALL);
    NetDirection: |r| r.pick(&[NetDirection::Xmit, NetDirection::Receive]);
    CounterName: |r| r.pick(&[CounterName::HaltPollNs, CounterName::BlockInFlight]);
}

impl<T: Make> Make for Option<T> {
    fn make(rng: &mut Rng) -> Self {
        (rng.below(3) > 0).then(|| T::make(rng))
    }
}

macro_rules! rows {
    ($($variant:ident = $row:ident { $($field:ident),* };)*) => {
        /// How many kinds of rows there are.
        pub(crate) const KINDS: u64 = [$(stringify!($row)),*].len() as u64;

        /// A row of kind `kind`.
        pub(crate) fn row(kind: u64, rng: &mut Rng) -> Row {
            let mut at = 0;
            $(
                if at == kind {
                    return Row::from($row { $($field: Make::make(rng)),* });
                }
                at += 1;
            )*
            panic!("kind {kind} of {at}")
        }

        /// Its table, its stamp (if the table has one) and the row itself.
        pub(crate) fn parts(row: &Row) -> (TableDoc, &dyn transect_model::cell::Record) {
            match row {
                $(Row::$variant(_) => ($row::TABLE, row.record()),)*
            }
        }
    };
}

rows! {
    Machine = Machine {
        machine_id, parent_id, kind, name, domid, vmm_pid, cgroup, clock, error_bound_ns,
        time_unit
    };
    Cpu = CpuRow { machine_id, cpu };
    Vcpu = Vcpu { machine_id, vcpu, vmm_tid };
    Thread = Thread {
        machine_id, tid, pid, name, cgroup, allowed_cpus, policy, nice, rt_priority
    };
    Cgroup = Cgroup {
        machine_id, cgroup, cpu_weight, cpu_quota_ns, cpu_period_ns, cpus, memory_max_bytes,
        memory_high_bytes, io_weight
    };
    CpuSlice = CpuSlice { ts, dur, machine_id, cpu, tid, vcpu_machine_id, vcpu };
    VcpuState = VcpuStateRow {
        ts, dur, machine_id, vcpu, cpu, state, reason, by_machine_id, by_tid
    };
    ThreadState = ThreadStateRow {
        ts, dur, machine_id, tid, cpu, state, effective, reason, waker_tid, waker_context
    };
    Exit = Exit { ts, dur, handling_ns, machine_id, vcpu, reason, rip, to_user, detail };
    Wakeup = Wakeup {
        ts, dur, machine_id, tid, waker_tid, waker_cpu, context, source, vector, cpu
    };
    Irq = Irq { ts, dur, machine_id, cpu, softirq, source, vector };
    Syscall = Syscall { ts, dur, machine_id, tid, nr, ret };
    BlockIo = BlockIo {
        ts, dur, machine_id, tid, device, sector, bytes, op, issue_ns, complete_cpu, error
    };
    IoRequest = IoRequest {
        ts, dur, machine_id, tid, device, queue, op, sector, bytes, issue_ts, kick_ts, pickup_ts,
        host_submit_ts, host_issue_ts, host_complete_ts, signal_ts, inject_ts, guest_irq_ts,
        complete_ts, wake_ts, run_ts, wake_tid, backend_tid, host_device, error, evidence, missing,
        error_ns
    };
    NetIo = NetIo { ts, machine_id, cpu, tid, device, direction, bytes, code };
    Packet = Packet {
        ts, dur, machine_id, tid, device, to_machine_id, to_device, flow, seq, bytes, send_ts,
        kick_ts, pickup_ts, host_receive_ts, host_send_ts, fetch_ts, signal_ts, inject_ts,
        guest_irq_ts, receive_ts, wake_ts, run_ts, wake_tid, backend_tid, to_backend_tid, evidence,
        missing, error_ns
    };
    StackSample = StackSample {
        ts, machine_id, cpu, tid, point, stage_ts, kernel_stack_id, user_stack_id, woken_tid
    };
    Stack = Stack { machine_id, stack_id, depth, symbol, module };
    WorkItem = WorkItem { ts, dur, machine_id, cpu, tid, function };
    Cause = Cause {
        ts, dur, kind, machine_id, cpu, tid, vector, context, to_machine_id, to_cpu, to_tid, to_vcpu, id,
        evidence, candidates, error_ns
    };
    IrqLine = IrqLine { machine_id, cpu, vector, irq, name, runs, agreement };
    Queue = Queue {
        machine_id, device, queue, doorbell, msi_address, msi_data, backend_tid, requests, agreement
    };
    LockWait = LockWait { ts, dur, machine_id, cpu, tid, lock, kind, owner_tid };
    Throttle = Throttle { ts, dur, machine_id, cpu, cgroup_id };
    Reclaim = Reclaim { ts, dur, machine_id, cpu, tid, cgroup, order, pages };
    Counter = Counter { ts, machine_id, vcpu, cpu, device, name, value };
    Window = Window {
        ts, dur, machine_id, vcpu, cpu, cgroup, executions, gotten_ns, waited_ns, blocked_ns,
        offline_ns, unknown_ns, guest_ns, halted_ns, allocations, allocated_avg_ns, allocated_min_ns,
        allocated_max_ns, io_count, exits, steal_ns
    };
    DomainState = DomainStateRow { ts, dur, machine_id, state };
    ClockEdge = ClockEdge {
        machine_id, from_clock, to_clock, method, offset, rate, error_bound_ns, samples
    };
    ClockCheck = ClockCheck {
        machine_id, tested, inside, outside, untested, worst_ns, slack_later_ns, slack_earlier_ns
    };
    WallClock = WallClock { ts, dur, unix_ns, unix_dur, error_ns, step_ns };
    Lost = Lost { ts, dur, machine_id, cpu, count, cause };
    ImportLog = ImportLog { source, offset, message, data_loss };
}
