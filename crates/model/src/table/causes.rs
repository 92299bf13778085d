//! Tables about causes: what let an actor go on, and what it waited for besides a CPU.

use crate::{
    cause::{CauseKind, Evidence, LockKind},
    column::{ColumnSource, ColumnVisitor, TableDoc},
    ids::{BlockDevice, CpuId, MachineId, Tid, VcpuId},
    interrupt::Context,
    row::Columnar,
};

table! {
    /// One cause that the recording tells: the reason why an actor went on. Several rows make a
    /// chain, such as that of a guest's disk request: kick, injection, line, completion.
    Cause in "causes" {
        /// Time of the cause, ns of trace time.
        ts: i64,
        /// Time from the cause to its effect, ns.
        dur: i64,
        /// wakeup, fork, timer, ipi, completion, packet, softirq, kick, injection, line, work or
        /// lock.
        kind: CauseKind,
        /// The machine of the cause.
        machine_id: MachineId,
        /// Its CPU; null if unknown.
        cpu: Option<CpuId>,
        /// Its thread; null for an interrupt, or if unknown.
        tid: Option<Tid>,
        /// The number of the interrupt: line, softirq or vector, as in wakeups. For injection and
        /// line, the vector of the vCPU.
        vector: Option<i32>,
        /// Context of the cause: task, softirq, irq or nmi; null if unknown.
        context: Option<Context>,
        /// The machine of the effect.
        to_machine_id: MachineId,
        /// Its CPU: where a woken thread then ran, a handler or a work item began; null if unknown.
        to_cpu: Option<CpuId>,
        /// The thread that went on; null for an interrupt, or if nobody did (a kick that nobody
        /// waited for).
        to_tid: Option<Tid>,
        /// For injection: the vCPU that got the interrupt.
        to_vcpu: Option<VcpuId>,
        /// Identifier of the cause. kick: guest-physical address, or port plus 2^63. injection:
        /// address of the message interrupt times 2^32 plus its data; null for others. line: the
        /// guest's interrupt line. completion: first sector, or the request's id if recorded.
        /// packet: flow times 2^32 plus sequence number. work, lock: address.
        id: Option<u64>,
        /// Connection of cause and effect: id (both carry the same number), context (both happened in
        /// one thread, handler or VM exit) or order (time alone).
        evidence: Evidence,
        /// Number of causes that it could have been.
        candidates: u32,
        /// Error bound of dur, ns: 0 within a machine, else that of both machines' clocks; null if
        /// unknown.
        error_ns: Option<u64>,
    }
}

table! {
    /// One interrupt line of a machine, and the vectors that were seen to run its handler.
    IrqLine in "irq_lines" {
        /// The machine.
        machine_id: MachineId,
        /// The CPU, for a vector; null for a line without a known one.
        cpu: Option<CpuId>,
        /// The vector that the host injected before the handler ran.
        vector: Option<i32>,
        /// Number of the line.
        irq: i32,
        /// Name of the line's handlers; empty if unknown.
        name: String,
        /// Number of handler runs that agree with the vector; null without one.
        runs: Option<u64>,
        /// Share of the vector's runs that agree; null without a vector.
        agreement: Option<f64>,
    }
}

table! {
    /// One queue of a guest's block device, as far as requests show it: the doorbell that the guest
    /// rings and the message interrupt that answers.
    Queue in "queues" {
        /// The VM.
        machine_id: MachineId,
        /// The block device in the guest.
        device: BlockDevice,
        /// Name of the interrupt line that completed its requests; empty if unknown.
        queue: String,
        /// The doorbell: guest-physical address, or port plus 2^63.
        doorbell: u64,
        /// Address of the message interrupt.
        msi_address: u64,
        /// Data of the message interrupt.
        msi_data: u64,
        /// The host's thread that sent it last; null if unknown.
        backend_tid: Option<Tid>,
        /// Number of requests that show this pair.
        requests: u64,
        /// Share of the doorbell's requests that show this pair.
        agreement: f64,
    }
}

table! {
    /// One wait of a thread for a lock of its kernel.
    LockWait in "locks" {
        /// Start, ns of trace time.
        ts: i64,
        /// Time until it had the lock or gave up, ns; null if the recording ended or a gap began
        /// before it.
        dur: Option<i64>,
        /// The machine.
        machine_id: MachineId,
        /// The CPU on which the wait began.
        cpu: CpuId,
        /// The thread (for a wait in an interrupt, the interrupted thread).
        tid: Tid,
        /// Address of the lock.
        lock: u64,
        /// spinlock, rwlock_read, rwlock_write, rwsem_read, rwsem_write, mutex, rt_mutex,
        /// percpu_rwsem.
        kind: LockKind,
        /// The thread that had the lock last: when the wait began, or because it got it during the wait; null if not recorded, or if readers share it.
        owner_tid: Option<Tid>,
    }
}

table! {
    /// One stretch in which the threads of a control group may not run on a CPU, as the group's quota
    /// has ended.
    Throttle in "throttles" {
        /// Start, ns of trace time.
        ts: i64,
        /// Length, ns; null if the recording ended or a gap began before the end.
        dur: Option<i64>,
        /// The machine.
        machine_id: MachineId,
        /// The CPU.
        cpu: CpuId,
        /// The control group's id: the inode number of its folder.
        cgroup_id: u64,
    }
}

table! {
    /// One stretch in which a thread frees memory before it gets some.
    Reclaim in "reclaims" {
        /// Start, ns of trace time.
        ts: i64,
        /// Length, ns; null if the recording ended or a gap began before the end.
        dur: Option<i64>,
        /// The machine.
        machine_id: MachineId,
        /// The CPU on which it began.
        cpu: CpuId,
        /// The thread.
        tid: Tid,
        /// True if it is for the limit of the thread's control group, false for the whole machine.
        cgroup: bool,
        /// Size of its allocation: 2^order pages.
        order: i32,
        /// Pages that were freed; null if dur is.
        pages: Option<u64>,
    }
}
