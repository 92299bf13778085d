//! The rows of every table, each described in one place.
//!
//! A table is a struct; [`record_type!`](crate::record_type) also records each column's name, unit and meaning, and those
//! descriptions are what `docs/reference/tables.md`, SQL schemas and report headers are made from. Columns
//! follow Perfetto's habit: `ts` and `dur` are int64 nanoseconds of trace time.
//!
//! Rows leave the engine through a [`TableSink`], so that the engine neither knows nor cares
//! whether they are kept, aggregated, exported or written out.

use crate::{
    column::{ColumnSource, ColumnVisitor},
    event::{BlockOp, DeviceName},
    exit::ExitReason,
    ids::{BlockDevice, CpuId, MachineId, MachineKind, Tid, VcpuId},
    interrupt::{Context, IrqSource},
    row::Columnar,
    setting::SchedPolicy,
    state::{CounterName, DomainState, EffectiveState, NetDirection, ThreadState, VcpuState},
};

pub use crate::column::{Column, ColumnType, TableDoc};
pub use crate::row::{Chosen, Held, Row, TABLES, TableSink, TableVisitor, Tables, each_table};
pub use crate::selected::Selected;
pub use causes::{Cause, IrqLine, LockWait, Queue, Reclaim, Throttle};
pub use io::IoRequest;
pub use packets::Packet;
pub use stacks::{Stack, StackSample};

macro_rules! table {
    (
        $(#[doc = $doc:literal])*
        $row:ident in $table:literal { $( $(#[doc = $cdoc:literal])+ $col:ident: $ty:ty, )* }
    ) => {
        $crate::record_type! {
            $(#[doc = $doc])*
            $row in $table { $( $(#[doc = $cdoc])+ $col: $ty, )* }
        }

        impl Columnar for $row {
            const TABLE: TableDoc = $row::TABLE;

            fn each_column<V: ColumnVisitor<Self>>(visit: &mut V) -> Result<(), V::Error> {
                $( visit.column(stringify!($col), |row: &Self| &row.$col)?; )*
                Ok(())
            }

            fn read<S: ColumnSource>(source: &mut S) -> Result<Self, S::Error> {
                Ok($row { $( $col: source.value(stringify!($col))?, )* })
            }
        }
    };
}

mod carrier;
mod causes;
mod io;
mod packets;
mod stacks;

table! {
    /// One machine of the recording.
    Machine in "machines" {
        /// The machine's number in every other table.
        machine_id: MachineId,
        /// The machine that it runs on; null for the host (or the hypervisor).
        parent_id: Option<MachineId>,
        /// host, hypervisor, guest or container.
        kind: MachineKind,
        /// Name of the VM or of the host.
        name: String,
        /// The domain's number, for guests under Xen.
        domid: Option<u32>,
        /// Process id of the VMM on the parent, for guests under KVM.
        vmm_pid: Option<Tid>,
        /// Control group of the VMM on the parent.
        cgroup: Option<String>,
        /// The clock that stamps the machine's own events; null if no events were recorded inside
        /// it.
        clock: Option<String>,
        /// Error bound of its stamps in trace time, ns; null if it has no stamps.
        error_bound_ns: Option<u64>,
        /// Unit of all times in the recording, the same for every machine: ns, or ticks of unknown
        /// length (then the columns named `_ns` are in ticks, too). Null in live windows, whose
        /// times are always in ns.
        time_unit: Option<String>,
    }
}

table! {
    /// One CPU whose events were recorded.
    CpuRow in "cpus" {
        /// The machine.
        machine_id: MachineId,
        /// The CPU's number on that machine.
        cpu: CpuId,
    }
}

table! {
    /// One vCPU of a VM, with the host thread that runs it.
    Vcpu in "vcpus" {
        /// The VM.
        machine_id: MachineId,
        /// The vCPU's number in the VM.
        vcpu: VcpuId,
        /// The host thread that runs the vCPU.
        vmm_tid: Option<Tid>,
    }
}

table! {
    /// One thread, with its last recorded name.
    Thread in "threads" {
        /// The machine whose kernel schedules the thread.
        machine_id: MachineId,
        /// Thread id.
        tid: Tid,
        /// Process id (thread group), if the trace or procfs has it.
        pid: Option<Tid>,
        /// The thread's name (comm).
        name: String,
        /// Control group, if known.
        cgroup: Option<String>,
        /// The online CPUs on which the thread was allowed to run, as a list (0-3,8): when the
        /// recording began (of a snapshot: when it was taken), or for a thread that began later,
        /// when it ended. Null if not recorded; so are policy, nice and rt_priority.
        allowed_cpus: Option<String>,
        /// Scheduling policy at that time: other, fifo, rr, batch, idle, deadline or ext.
        policy: Option<SchedPolicy>,
        /// Nice value at that time, -20 to 19; null for the policies fifo, rr and deadline, too.
        nice: Option<i32>,
        /// Real-time priority at that time, 1 to 99; null for all policies but fifo and rr, too.
        rt_priority: Option<u32>,
    }
}

table! {
    /// One control group that had a thread when the recording began, or above one that had, with
    /// its limits at that time (of a snapshot: when it was taken). A group that got its first
    /// thread later has the limits at the end of the recording.
    Cgroup in "cgroups" {
        /// The machine.
        machine_id: MachineId,
        /// The control group, as in threads: its path below the mount.
        cgroup: String,
        /// cpu.weight, 1 to 10000; 0 for a group with cpu.idle. In version 1 of control groups
        /// cpu.shares on the same scale (1024 shares are 100), up to 25600. Null for the root and
        /// for groups without the cpu controller.
        cpu_weight: Option<u64>,
        /// CPU time that the group gets per period, ns (cpu.max). Null without a limit; if
        /// cpu_period_ns is null as well, it is not known whether there is one.
        cpu_quota_ns: Option<i64>,
        /// The period of the quota, ns; without a limit, the period that one would have. Null if
        /// the group has no cpu controller.
        cpu_period_ns: Option<i64>,
        /// The CPUs of the group as a list (cpuset.cpus.effective); null if the group has no cpuset
        /// controller.
        cpus: Option<String>,
        /// Limit of memory, bytes (memory.max); null without a limit or a memory controller.
        memory_max_bytes: Option<u64>,
        /// Memory from which on the group is throttled and reclaimed, bytes (memory.high); null
        /// without one, without a memory controller and in version 1.
        memory_high_bytes: Option<u64>,
        /// Default of io.weight, 1 to 10000; null without one and in version 1.
        io_weight: Option<u64>,
    }
}

table! {
    /// One stretch of a thread on a CPU, from switch-in to switch-out; on a hypervisor's pCPU, of a
    /// vCPU. The slices of a CPU tile the recording; the idle thread is tid 0. If tid and vcpu are
    /// both null, the occupant is unknown (lost events).
    CpuSlice in "cpu_slices" {
        /// Start, ns of trace time.
        ts: i64,
        /// Length, ns.
        dur: i64,
        /// The machine that has the CPU.
        machine_id: MachineId,
        /// The CPU.
        cpu: CpuId,
        /// The thread that ran; 0 = idle, null = unknown, or a vCPU without a host thread (Xen).
        tid: Option<Tid>,
        /// For a vCPU: its VM.
        vcpu_machine_id: Option<MachineId>,
        /// For a vCPU: its number in the VM.
        vcpu: Option<VcpuId>,
    }
}

table! {
    /// One interval in which a vCPU is in one state. The states of a vCPU tile the recording to the
    /// nanosecond.
    VcpuStateRow in "vcpu_states" {
        /// Start, ns of trace time.
        ts: i64,
        /// Length, ns.
        dur: i64,
        /// The VM.
        machine_id: MachineId,
        /// The vCPU.
        vcpu: VcpuId,
        /// The pCPU that the vCPU is on, waits for (preempted, waking) or was on last; null if
        /// unknown.
        cpu: Option<CpuId>,
        /// guest, exit, user, halt_poll, halted, preempted, waking, blocked, running, hypercall,
        /// trap, offline or unknown.
        state: VcpuState,
        /// For exit, user, halt_poll, halted, hypercall and trap: reason of the exit before this
        /// state.
        reason: Option<ExitReason>,
        /// For preempted and waking: machine of the antagonist (a guest if a vCPU thread is on the
        /// CPU, else the host); null if unknown.
        by_machine_id: Option<MachineId>,
        /// For preempted and waking: the antagonist, the host thread on the CPU that the vCPU waits
        /// for; 0 while that CPU is idle (not yet out of its idle state). A new row begins when
        /// another thread gets the CPU. Null under Xen, which records only the domain that took the
        /// pCPU from a preempted vCPU.
        by_tid: Option<Tid>,
    }
}

table! {
    /// One interval in which a thread is in one state; for a running guest thread, also its
    /// effective state, given the state of its vCPU.
    ThreadStateRow in "thread_states" {
        /// Start, ns of trace time.
        ts: i64,
        /// Length, ns.
        dur: i64,
        /// The machine whose kernel schedules the thread.
        machine_id: MachineId,
        /// The thread.
        tid: Tid,
        /// The CPU of that machine that the thread is on, waits for or was on last; null if
        /// unknown.
        cpu: Option<CpuId>,
        /// running, runnable, blocked or unknown.
        state: ThreadState,
        /// Running guest threads only: running, vcpu_preempted, exit_handling, vcpu_halted,
        /// unknown.
        effective: Option<EffectiveState>,
        /// For blocked: the letter of the kernel's sleep state (S, D, T, …).
        reason: Option<char>,
        /// For runnable after a wakeup: the waker; null if an interrupt woke it.
        waker_tid: Option<Tid>,
        /// For runnable after a wakeup: task, softirq, irq or nmi, as in wakeups. It and waker_tid
        /// are null for a thread that was preempted.
        waker_context: Option<Context>,
    }
}

table! {
    /// One VM exit, from the exit to the next entry of the same vCPU; for a Xen PV guest, one
    /// hypercall or exception, the end of which Xen does not record.
    Exit in "exits" {
        /// Time at which the vCPU left guest mode, ns of trace time.
        ts: i64,
        /// Time until the next entry, ns, halts and preemption included; null if the recording
        /// ended or a gap began before it, and for PV guests.
        dur: Option<i64>,
        /// Part of dur in which the vCPU thread was on a CPU to handle the exit, ns; null if dur is
        /// null.
        handling_ns: Option<i64>,
        /// The VM.
        machine_id: MachineId,
        /// The vCPU.
        vcpu: VcpuId,
        /// The exit reason.
        reason: ExitReason,
        /// Guest instruction pointer.
        rip: u64,
        /// True if KVM_RUN returned to the VMM for it.
        to_user: bool,
        /// Hypercall number or I/O port, if recorded; for a PV guest, the command of a hypercall or
        /// the address of a page fault.
        detail: Option<u64>,
    }
}

table! {
    /// One wakeup: from the moment a thread becomes runnable until it gets a CPU.
    Wakeup in "wakeups" {
        /// Time of the wakeup, ns of trace time.
        ts: i64,
        /// Wakeup latency: time until the thread ran, ns; null if the recording ended or a gap
        /// began before it ran.
        dur: Option<i64>,
        /// The machine.
        machine_id: MachineId,
        /// The woken thread.
        tid: Tid,
        /// The thread that woke it; null if an interrupt did. If context is null, the thread that
        /// was current at the wakeup, which an interrupt may have interrupted.
        waker_tid: Option<Tid>,
        /// The CPU on which the waker, thread or interrupt, ran.
        waker_cpu: CpuId,
        /// Context of the wakeup on that CPU: task (waker_tid woke it), softirq, irq or nmi; null
        /// if the recording does not tell.
        context: Option<Context>,
        /// For a wakeup by an interrupt: source of the interrupt, as in irqs; null if its handler was
        /// not recorded.
        source: Option<IrqSource>,
        /// For a wakeup by an interrupt: the interrupt line, softirq or vector of the handler.
        vector: Option<i32>,
        /// The CPU on which the thread then ran.
        cpu: Option<CpuId>,
    }
}

table! {
    /// One run of an interrupt or softirq handler.
    Irq in "irqs" {
        /// Start, ns of trace time.
        ts: i64,
        /// Length, ns.
        dur: i64,
        /// The machine.
        machine_id: MachineId,
        /// The CPU.
        cpu: CpuId,
        /// True for a softirq, false for a hard interrupt.
        softirq: bool,
        /// Source of the interrupt: line (a device's interrupt line), softirq, or an interrupt of
        /// the CPU's own: local_timer, reschedule, call_function, call_function_single, irq_work,
        /// x86_platform_ipi, thermal_apic, threshold_apic, deferred_error_apic, spurious_apic,
        /// error_apic, other_vector.
        source: IrqSource,
        /// Number of the interrupt line or the softirq; for an interrupt of the CPU's own, the
        /// vector.
        vector: i32,
    }
}

table! {
    /// One system call.
    Syscall in "syscalls" {
        /// Entry, ns of trace time.
        ts: i64,
        /// Time until its return, ns; null if it did not return within the recording.
        dur: Option<i64>,
        /// The machine.
        machine_id: MachineId,
        /// The thread.
        tid: Tid,
        /// System call number on that architecture.
        nr: i64,
        /// Return value.
        ret: Option<i64>,
    }
}

table! {
    /// One request to a block device, from its first event to its completion. A request that was in
    /// flight when the recording began, or that lost events may concern, has no end (or no row):
    /// ends are never guessed.
    BlockIo in "block_io" {
        /// First event of the request: its insertion into the queue, or its issue if no queue is
        /// used, ns of trace time. For merged requests, that of the first one.
        ts: i64,
        /// Time until the device completed it, ns; null if the recording ended or a gap began
        /// before it.
        dur: Option<i64>,
        /// The machine.
        machine_id: MachineId,
        /// The submitter: the thread that was current at the first event (a kworker if the kernel
        /// submits for another thread).
        tid: Tid,
        /// The device, as major:minor.
        device: BlockDevice,
        /// First sector, of 512 bytes.
        sector: u64,
        /// Length, bytes.
        bytes: u64,
        /// read, write, flush, discard or other.
        op: BlockOp,
        /// Time from ts until the driver got the request, ns; 0 if it was issued at once, null if
        /// no issue was recorded.
        issue_ns: Option<i64>,
        /// The CPU that handled the completion; null if dur is null.
        complete_cpu: Option<CpuId>,
        /// 0 or a negative errno; null if dur is null.
        error: Option<i32>,
    }
}

table! {
    /// One packet that passed between the kernel and a network driver.
    NetIo in "net_io" {
        /// Time, ns of trace time.
        ts: i64,
        /// The machine.
        machine_id: MachineId,
        /// The CPU.
        cpu: CpuId,
        /// The thread that was current (for a received packet: the thread that the softirq
        /// interrupted).
        tid: Tid,
        /// The network device's name.
        device: DeviceName,
        /// xmit (passed to the driver) or receive (received from the driver).
        direction: NetDirection,
        /// Length of the packet, bytes.
        bytes: u64,
        /// Return code of the driver (0 = accepted, 16 = busy); null for received packets.
        code: Option<i32>,
    }
}

table! {
    /// One execution of a work item by a kernel worker.
    WorkItem in "work_items" {
        /// Start, ns of trace time.
        ts: i64,
        /// Length, ns, sleep and preemption included; null if the recording ended or a gap began
        /// before the end.
        dur: Option<i64>,
        /// The machine.
        machine_id: MachineId,
        /// The CPU on which it began.
        cpu: CpuId,
        /// The thread that ran it (for queues that run in softirqs, the interrupted thread).
        tid: Tid,
        /// Address of the work function.
        function: u64,
    }
}

table! {
    /// One value of a counter, valid until the next row of the same name and subject.
    Counter in "counters" {
        /// Time from which the value holds, ns of trace time.
        ts: i64,
        /// The machine; for a counter of a vCPU, the VM.
        machine_id: MachineId,
        /// The vCPU, for a counter of a vCPU.
        vcpu: Option<VcpuId>,
        /// The CPU, for a counter of a CPU.
        cpu: Option<CpuId>,
        /// The block device, for a counter of a device.
        device: Option<BlockDevice>,
        /// halt_poll_ns: time that the host polls before a halted vCPU sleeps, ns.
        /// block_in_flight: requests recorded as issued and not yet completed.
        name: CounterName,
        /// The value; null if lost events make it unknown.
        value: Option<i64>,
    }
}

table! {
    /// The domain metrics of one vCPU, VM or cgroup, or of a pCPU under Xen, in one window. The sum
    /// gotten + waited + blocked + offline + unknown is dur for a vCPU and a pCPU, dur times the
    /// number of vCPUs for a VM, and for a cgroup the time in which its threads existed, summed
    /// over the threads.
    Window in "windows" {
        /// Start, ns of trace time.
        ts: i64,
        /// Length, ns (the last window of a recording may be shorter).
        dur: i64,
        /// The VM; for a cgroup, the machine that has it; for a pCPU, the hypervisor.
        machine_id: MachineId,
        /// The vCPU; null for the whole VM or a cgroup.
        vcpu: Option<VcpuId>,
        /// Under Xen, the pCPU. A row of a domain has the domain's share of that pCPU: the time in
        /// which its vCPUs were on it or, off every pCPU, had last been on it. A row of the
        /// hypervisor is the pCPU itself, with gotten for busy and blocked for idle. Null in all
        /// other rows.
        cpu: Option<CpuId>,
        /// The cgroup, in rows of a cgroup.
        cgroup: Option<String>,
        /// Times scheduled in.
        executions: u64,
        /// Time on a pCPU, ns.
        gotten_ns: i64,
        /// Runnable and not running, ns (also the steal, measured on the host).
        waited_ns: i64,
        /// Asleep, ns.
        blocked_ns: i64,
        /// Without a thread (not yet created, or exited), ns.
        offline_ns: i64,
        /// State unknown (lost events), ns.
        unknown_ns: i64,
        /// In guest mode, ns (part of gotten).
        guest_ns: i64,
        /// Halted in the guest, ns (part of blocked).
        halted_ns: i64,
        /// Number of slices in allocated_avg_ns.
        allocations: u64,
        /// Average slice, ns: under Xen as granted by the scheduler, else as observed from
        /// switch-in to forced switch-out; null if there was no slice.
        allocated_avg_ns: Option<i64>,
        /// The shortest slice, ns.
        allocated_min_ns: Option<i64>,
        /// The longest slice, ns.
        allocated_max_ns: Option<i64>,
        /// Kicks (ioeventfd, port and MMIO writes to devices) and injected device interrupts. Under
        /// Xen: pages mapped, transferred or copied by grant, and event-channel calls.
        io_count: u64,
        /// VM exits; for Xen PV guests, hypercalls and exceptions.
        exits: u64,
        /// Preempted or waking, ns: the time that the guest's kernel accounts as steal.
        steal_ns: i64,
    }
}

table! {
    /// One interval in which the vCPUs of a Xen domain are together in one state. A domain's states
    /// tile the time from its first record on; a vCPU counts from its own first record on.
    DomainStateRow in "domain_states" {
        /// Start, ns of trace time.
        ts: i64,
        /// Length, ns.
        dur: i64,
        /// The domain.
        machine_id: MachineId,
        /// blocked (no vCPU wants a pCPU), partial_run (some run, none waits), full_run (all run),
        /// partial_contention (some wait, none runs), concurrency_hazard (some run, some wait),
        /// full_contention (all wait) or unknown.
        state: DomainState,
    }
}

table! {
    /// The conversion of one clock into another.
    ClockEdge in "clock_edges" {
        /// The machine whose clock is converted.
        machine_id: MachineId,
        /// The source clock.
        from_clock: String,
        /// The target clock.
        to_clock: String,
        /// tsc_offset (KVM's TSC offset: exact; for clocks in ns, exact to the width of their
        /// readings taken with the TSC), exchange (estimated over the guest channel), tsc_rate
        /// (ticks to ns).
        method: String,
        /// Offset at the start of the recording, ticks or ns of the target clock.
        offset: i64,
        /// Rate of the source clock over the target clock.
        rate: f64,
        /// Error bound of the conversion, ns.
        error_bound_ns: u64,
        /// Number of brackets (exchanges) or readings behind the estimate; 0 for exact edges.
        samples: u64,
    }
}

table! {
    /// A test of the guest's clock conversion: guest events of a vCPU must lie inside that vCPU's
    /// guest-mode intervals on the host. A bound, not a proof: shifts below the slack are not
    /// detected.
    ClockCheck in "clock_check" {
        /// The guest.
        machine_id: MachineId,
        /// Guest events that could be tested (the host intervals around them are known).
        tested: u64,
        /// Tested events inside a guest-mode interval of their own vCPU.
        inside: u64,
        /// Tested events outside one.
        outside: u64,
        /// Guest events before the first or after the last interval, or in gaps: not testable.
        untested: u64,
        /// The largest distance of an outside event from its nearest interval, ns.
        worst_ns: i64,
        /// Guest time can shift later by this much before the first event falls outside, ns.
        slack_later_ns: i64,
        /// Guest time can shift earlier by this much before the first event falls outside, ns.
        slack_earlier_ns: i64,
    }
}

table! {
    /// One straight piece of the map from trace time to the host's wall clock (CLOCK_REALTIME). Time
    /// that no row covers has no known wall-clock time: the clock was set in it, or was not read.
    WallClock in "wall_clock" {
        /// Start, ns of trace time.
        ts: i64,
        /// Length, ns of trace time.
        dur: i64,
        /// Wall-clock time at ts, ns since 1970-01-01 00:00 UTC.
        unix_ns: i64,
        /// Wall-clock time that passed in dur, ns; differs from dur while the clock is slewed.
        unix_dur: i64,
        /// Error bound of the wall-clock time anywhere in the row, ns.
        error_ns: i64,
        /// How far the clock was set between the row before and this one, ns; negative: set back.
        /// 0 if only its rate changed, null for the first row.
        step_ns: Option<i64>,
    }
}

table! {
    /// One stretch of time in which a source lost events.
    Lost in "lost" {
        /// Start of the stretch without events, ns of trace time.
        ts: i64,
        /// Length of the stretch, ns.
        dur: i64,
        /// The machine.
        machine_id: MachineId,
        /// The CPU whose buffer lost them; null if the events of the whole machine are missing.
        cpu: Option<CpuId>,
        /// Number of lost events; null if the source did not count them.
        count: Option<u64>,
        /// buffer_overrun, overwritten, guest_disconnected, guest_stalled, guest_cut_off (it exceeded its bounds),
        /// guest_not_started (the host recorded already), disk_full, not_written (the recorder failed or was killed),
        /// truncated_file, corrupt_page, …
        cause: String,
    }
}

table! {
    /// One problem or inference from reading a recording's sources.
    ImportLog in "import_log" {
        /// The file or source.
        source: String,
        /// Byte offset in the source, if known.
        offset: Option<u64>,
        /// The problem and its handling.
        message: String,
        /// True if data was lost.
        data_loss: bool,
    }
}

impl ThreadStateRow {
    /// Was the thread woken before it waited, by a thread or an interrupt? Else it was preempted.
    pub fn is_woken(&self) -> bool {
        self.waker_tid.is_some() || self.waker_context.is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_table_documents_every_column_once() {
        for table in TABLES {
            assert!(!table.doc.trim().is_empty(), "{} has no doc", table.name);
            for (at, column) in table.columns.iter().enumerate() {
                assert!(!column.doc.trim().is_empty(), "{}.{}", table.name, column.name);
                assert!(table.columns[..at].iter().all(|c| c.name != column.name));
            }
        }
    }
}
