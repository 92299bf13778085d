//! The rows of every table, each described in one place.
//!
//! A table is a struct; [`table!`] also records each column's name, unit and meaning, and those
//! descriptions are what `docs/reference/tables.md`, SQL schemas and report headers are made from. Columns
//! follow Perfetto's habit: `ts` and `dur` are int64 nanoseconds of trace time.
//!
//! Rows leave the engine through a [`TableSink`], so that the engine neither knows nor cares
//! whether they are kept, aggregated, exported or written out.

use crate::{
    cell::{Cell, Record, ToCell},
    column::{ColumnSource, ColumnValue, ColumnVisitor, Columnar},
    event::{BlockOp, DeviceName},
    exit::ExitReason,
    ids::{BlockDevice, CpuId, MachineId, MachineKind, Tid, VcpuId},
    state::{CounterName, DomainState, EffectiveState, NetDirection, ThreadState, VcpuState},
};

pub use crate::column::{Column, ColumnType};
pub use crate::row::{Row, TABLES, TableVisitor, Tables, each_table};

/// A table: its name, what one row is, and its columns in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TableDoc {
    /// Name in SQL and on disk.
    pub name: &'static str,
    /// What one row says.
    pub doc: &'static str,
    /// Its columns in order.
    pub columns: &'static [Column],
}

macro_rules! table {
    (
        $(#[doc = $doc:literal])*
        $row:ident in $table:literal { $( $(#[doc = $cdoc:literal])+ $col:ident: $ty:ty, )* }
    ) => {
        $(#[doc = $doc])*
        #[derive(Clone, Debug, PartialEq)]
        pub struct $row { $( $(#[doc = $cdoc])+ pub $col: $ty, )* }

        impl $row {
            /// The table this row belongs to, as SQL and the docs describe it.
            pub const TABLE: TableDoc = TableDoc {
                name: $table,
                doc: concat!($($doc),*),
                columns: &[ $( Column {
                    name: stringify!($col),
                    doc: concat!($($cdoc),+),
                    ty: <$ty as ColumnValue>::TYPE,
                    nullable: <$ty as ColumnValue>::NULLABLE,
                } ),* ],
            };
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

        impl Record for $row {
            fn each_cell<'a>(&'a self, visit: &mut dyn FnMut(&'static str, Cell<'a>)) {
                $( visit(stringify!($col), self.$col.to_cell()); )*
            }
        }
    };
}

table! {
    /// One machine of the recording.
    Machine in "machines" {
        /// The machine's number in every other table.
        machine_id: MachineId,
        /// The machine it runs on; null for the host (or the hypervisor).
        parent_id: Option<MachineId>,
        /// host, hypervisor, guest or container.
        kind: MachineKind,
        /// Its name: the VM's name, or the host's.
        name: String,
        /// Its domain's number, for guests under Xen.
        domid: Option<u32>,
        /// Process id of its VMM on the parent, for guests under KVM.
        vmm_pid: Option<Tid>,
        /// Control group of the VMM on the parent.
        cgroup: Option<String>,
        /// The clock its own events were stamped with; null if it was only seen from outside.
        clock: Option<String>,
        /// How far its stamps may be off in trace time, nanoseconds; null if it has none.
        error_bound_ns: Option<u64>,
    }
}

table! {
    /// One CPU whose events were recorded.
    CpuRow in "cpus" {
        /// The machine.
        machine_id: MachineId,
        /// The CPU as that machine numbers it.
        cpu: CpuId,
    }
}

table! {
    /// One vCPU of one VM and the host thread that runs it.
    Vcpu in "vcpus" {
        /// The VM.
        machine_id: MachineId,
        /// The vCPU's number in the VM.
        vcpu: VcpuId,
        /// The host thread that runs it.
        vmm_tid: Option<Tid>,
    }
}

table! {
    /// One thread, under the last name it had.
    Thread in "threads" {
        /// The machine whose kernel schedules it.
        machine_id: MachineId,
        /// Thread id.
        tid: Tid,
        /// Process id (thread group), where the trace or procfs tells.
        pid: Option<Tid>,
        /// Its name (comm).
        name: String,
        /// Control group, where known.
        cgroup: Option<String>,
    }
}

table! {
    /// A thread on a CPU, from switch-in to switch-out; on a hypervisor's pCPU, a vCPU. The slices of
    /// a CPU tile the window; the idle thread is tid 0. Where tid and vcpu are both null, who ran
    /// is not known (lost events).
    CpuSlice in "cpu_slices" {
        /// Start, ns of trace time.
        ts: i64,
        /// Length, ns.
        dur: i64,
        /// The machine whose CPU it is.
        machine_id: MachineId,
        /// The CPU.
        cpu: CpuId,
        /// Who ran; 0 = idle, null = unknown, or a vCPU that no thread runs (Xen).
        tid: Option<Tid>,
        /// The VM whose vCPU this thread is, if it is one.
        vcpu_machine_id: Option<MachineId>,
        /// The vCPU this thread is, if it is one.
        vcpu: Option<VcpuId>,
    }
}

table! {
    /// One state of one vCPU. The states of a vCPU tile the window to the nanosecond.
    VcpuStateRow in "vcpu_states" {
        /// Start, ns of trace time.
        ts: i64,
        /// Length, ns.
        dur: i64,
        /// The VM.
        machine_id: MachineId,
        /// The vCPU.
        vcpu: VcpuId,
        /// The pCPU, while it is on one or was last on it.
        cpu: Option<CpuId>,
        /// guest, exit, user, halt_poll, halted, preempted, waking, blocked, running, hypercall, trap,
        /// offline or unknown.
        state: VcpuState,
        /// For exit, user, halt_poll, halted, hypercall and trap: the reason of the exit that led
        /// there.
        reason: Option<ExitReason>,
        /// For preempted and waking: the machine of who has the CPU meanwhile (a guest if its vCPU
        /// thread has it, else the host); null where that is not known.
        by_machine_id: Option<MachineId>,
        /// For preempted and waking: the host thread that has the CPU it waits for, 0 while that CPU
        /// is idle (not yet out of its idle state). A new row begins when another thread takes it.
        /// Null under Xen, where only who took the pCPU from a preempted vCPU is known.
        by_tid: Option<Tid>,
    }
}

table! {
    /// One state of one thread; for guest threads that run, also where they really were.
    ThreadStateRow in "thread_states" {
        /// Start, ns of trace time.
        ts: i64,
        /// Length, ns.
        dur: i64,
        /// The machine whose kernel schedules the thread.
        machine_id: MachineId,
        /// The thread.
        tid: Tid,
        /// The CPU of that machine it runs on or was last on.
        cpu: Option<CpuId>,
        /// running, runnable, blocked or unknown.
        state: ThreadState,
        /// Running guest threads only: running, vcpu_preempted, exit_handling, vcpu_halted, unknown.
        effective: Option<EffectiveState>,
        /// For blocked: the letter of the kernel's sleep state (S, D, T, …).
        reason: Option<char>,
        /// For runnable after a wakeup: who woke it.
        waker_tid: Option<Tid>,
    }
}

table! {
    /// One VM exit, from exit to the next entry of the same vCPU; of a Xen PV guest, one hypercall or
    /// exception, whose end Xen does not record.
    Exit in "exits" {
        /// When the vCPU left guest mode, ns of trace time.
        ts: i64,
        /// Until the next entry, ns, halts and preemption included; null if the recording (or a
        /// gap in it) ended first, and for PV guests.
        dur: Option<i64>,
        /// Time of that the vCPU thread was on a CPU handling it, ns; null as dur.
        handling_ns: Option<i64>,
        /// The VM.
        machine_id: MachineId,
        /// The vCPU.
        vcpu: VcpuId,
        /// Why.
        reason: ExitReason,
        /// Guest instruction pointer.
        rip: u64,
        /// Did KVM_RUN return to the VMM for it?
        to_user: bool,
        /// Hypercall number or I/O port, where the trace tells; of a PV guest's hypercall the command,
        /// of its page fault the address.
        detail: Option<u64>,
    }
}

table! {
    /// One wakeup: from being made runnable to getting a CPU.
    Wakeup in "wakeups" {
        /// When the thread was woken, ns of trace time.
        ts: i64,
        /// Until it ran, ns; null if the recording (or a gap) ended first.
        dur: Option<i64>,
        /// The machine.
        machine_id: MachineId,
        /// Who was woken.
        tid: Tid,
        /// Who woke it (the thread that ran there; interrupts wake in the name of whom they
        /// interrupted).
        waker_tid: Tid,
        /// The CPU the waker ran on.
        waker_cpu: CpuId,
        /// The CPU the thread then ran on.
        cpu: Option<CpuId>,
    }
}

table! {
    /// One interrupt or softirq handler.
    Irq in "irqs" {
        /// Start, ns of trace time.
        ts: i64,
        /// Length, ns.
        dur: i64,
        /// The machine.
        machine_id: MachineId,
        /// The CPU.
        cpu: CpuId,
        /// Softirq rather than hard interrupt?
        softirq: bool,
        /// Interrupt line or softirq vector.
        vector: i32,
    }
}

table! {
    /// One system call.
    Syscall in "syscalls" {
        /// Entry, ns of trace time.
        ts: i64,
        /// Until its return, ns; null if it had not returned.
        dur: Option<i64>,
        /// The machine.
        machine_id: MachineId,
        /// The thread.
        tid: Tid,
        /// Its number on that architecture.
        nr: i64,
        /// What it returned.
        ret: Option<i64>,
    }
}

table! {
    /// One request to a block device, from where it was first seen to its completion. A request
    /// that was under way when the recording began, or that a hole in it may concern, has no end
    /// (or no row) rather than a guessed one.
    BlockIo in "block_io" {
        /// When it was first seen: inserted into its queue, or issued without a queue, ns of trace
        /// time. Where requests were merged, the first one's.
        ts: i64,
        /// Until the device completed it, ns; null if the recording (or a gap in it) ended first.
        dur: Option<i64>,
        /// The machine.
        machine_id: MachineId,
        /// Who submitted it: the thread that was current when it was first seen (a kworker where
        /// the kernel submits on another's behalf).
        tid: Tid,
        /// The device, as major:minor.
        device: BlockDevice,
        /// First sector, of 512 bytes.
        sector: u64,
        /// Its length.
        bytes: u64,
        /// read, write, flush, discard or other.
        op: BlockOp,
        /// From ts until the driver got it, ns; 0 if it was issued at once, null if it was not seen
        /// to be issued.
        issue_ns: Option<i64>,
        /// The CPU it was completed on; null as dur.
        complete_cpu: Option<CpuId>,
        /// 0 or a negative errno; null as dur.
        error: Option<i32>,
    }
}

table! {
    /// One packet between the kernel and a network driver.
    NetIo in "net_io" {
        /// When, ns of trace time.
        ts: i64,
        /// The machine.
        machine_id: MachineId,
        /// The CPU.
        cpu: CpuId,
        /// The thread that was current (for what is received: whom the softirq interrupted).
        tid: Tid,
        /// The network device's name.
        device: DeviceName,
        /// xmit (handed to the driver) or receive (came from it).
        direction: NetDirection,
        /// Length of the packet.
        bytes: u64,
        /// What the driver said to it (0 = taken, 16 = busy); null for what was received.
        code: Option<i32>,
    }
}

table! {
    /// One work item, run by a kernel worker.
    WorkItem in "work_items" {
        /// Start, ns of trace time.
        ts: i64,
        /// Length, ns, sleep and preemption included; null if the recording (or a gap in it) ended
        /// first.
        dur: Option<i64>,
        /// The machine.
        machine_id: MachineId,
        /// The CPU it began on.
        cpu: CpuId,
        /// The thread that ran it (whom the softirq interrupted, for queues that run in softirqs).
        tid: Tid,
        /// Address of the function.
        function: u64,
    }
}

table! {
    /// A number that holds from here on until the next row of the same name and subject.
    Counter in "counters" {
        /// From when on, ns of trace time.
        ts: i64,
        /// The machine: for a vCPU's counter the VM.
        machine_id: MachineId,
        /// The vCPU, for counters of one.
        vcpu: Option<VcpuId>,
        /// The CPU, for counters of one.
        cpu: Option<CpuId>,
        /// The block device, for counters of one.
        device: Option<BlockDevice>,
        /// halt_poll_ns: how long the host polls before it lets a halted vCPU sleep, ns.
        /// block_in_flight: requests seen to be issued and not yet completed.
        name: CounterName,
        /// Its value; null where lost events leave it unknown.
        value: Option<i64>,
    }
}

table! {
    /// The domain metrics of one vCPU, one VM or one cgroup in one window. gotten + waited +
    /// blocked + offline + unknown = dur for a vCPU and a pCPU; for a VM, dur times its vCPUs; for
    /// a cgroup, the time its threads existed.
    Window in "windows" {
        /// Start, ns of trace time.
        ts: i64,
        /// Length, ns (the last window of a recording may be shorter).
        dur: i64,
        /// The VM; for a cgroup, the machine the cgroup is on; for a pCPU, the hypervisor.
        machine_id: MachineId,
        /// The vCPU; null for the whole VM or a cgroup.
        vcpu: Option<VcpuId>,
        /// Under Xen, the pCPU. In rows of a domain: what it did there, in the time its vCPUs were on
        /// it or, off every pCPU, had last been on it. In rows of the hypervisor: the pCPU itself,
        /// with gotten for busy and blocked for idle. Null in all other rows.
        cpu: Option<CpuId>,
        /// The cgroup, for rows about one.
        cgroup: Option<String>,
        /// Times scheduled in.
        executions: u64,
        /// Time on a pCPU, ns.
        gotten_ns: i64,
        /// Runnable and not running, ns (also the steal seen from the host).
        waited_ns: i64,
        /// Asleep, ns.
        blocked_ns: i64,
        /// Without a thread (not yet created, or exited), ns.
        offline_ns: i64,
        /// Without knowledge (lost events), ns.
        unknown_ns: i64,
        /// In guest mode, ns (part of gotten).
        guest_ns: i64,
        /// Halted in the guest, ns (part of blocked).
        halted_ns: i64,
        /// How many slices allocated_avg_ns is the average of.
        allocations: u64,
        /// Slice, average, ns: under Xen as granted by the scheduler, else as observed from switch-in
        /// to forced switch-out; null without one.
        allocated_avg_ns: Option<i64>,
        /// The shortest such slice.
        allocated_min_ns: Option<i64>,
        /// The longest such slice.
        allocated_max_ns: Option<i64>,
        /// Kicks (ioeventfd, port and MMIO writes to devices) and injected device interrupts. Under
        /// Xen: pages mapped, transferred or copied by grant, and event-channel calls.
        io_count: u64,
        /// VM exits; of Xen PV guests, hypercalls and exceptions.
        exits: u64,
        /// Preempted or waking while it wanted to run, ns: what the guest calls steal.
        steal_ns: i64,
    }
}

table! {
    /// What the vCPUs of one Xen domain do together. A domain's states tile its window, from the
    /// first record about it on; vCPUs count from their own first record on.
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
    /// How one clock was related to another.
    ClockEdge in "clock_edges" {
        /// The machine whose clock is converted.
        machine_id: MachineId,
        /// The clock converted from.
        from_clock: String,
        /// The clock converted to.
        to_clock: String,
        /// tsc_offset (KVM's: exact; for clocks in ns to the width of their readings beside the
        /// TSC), exchange (estimated over the channel), tsc_rate (ticks to ns).
        method: String,
        /// Offset at the start of the recording, ticks or ns of the clock converted to.
        offset: i64,
        /// Rate of the clock converted from over the clock converted to.
        rate: f64,
        /// How far the conversion may be off, ns.
        error_bound_ns: u64,
        /// Brackets (exchanges) or readings it rests on; 0 for exact edges.
        samples: u64,
    }
}

table! {
    /// Does the merged time hold? Guest events of a vCPU must lie inside that vCPU's guest-mode
    /// intervals on the host. A bound, not a proof: shifts below the slack go unseen.
    ClockCheck in "clock_check" {
        /// The guest.
        machine_id: MachineId,
        /// Guest events that could be tested (host intervals known around them).
        tested: u64,
        /// Of these, inside a guest-mode interval of their own vCPU.
        inside: u64,
        /// Of these, outside.
        outside: u64,
        /// Guest events before the first or after the last interval, or in gaps: not testable.
        untested: u64,
        /// The largest distance of an outside event to its nearest interval, ns.
        worst_ns: i64,
        /// Guest time may be shifted later by this much before the first event falls outside, ns.
        slack_later_ns: i64,
        /// Guest time may be shifted earlier by this much before the first falls outside, ns.
        slack_earlier_ns: i64,
    }
}

table! {
    /// Events that a source lost, and the time they hide.
    Lost in "lost" {
        /// Start of the stretch without events, ns of trace time.
        ts: i64,
        /// Its length, ns.
        dur: i64,
        /// The machine.
        machine_id: MachineId,
        /// The CPU whose buffer lost them; null if the whole machine is missing.
        cpu: Option<CpuId>,
        /// How many, where the source counted; null if it could not.
        count: Option<u64>,
        /// buffer_overrun, guest_disconnected, guest_stalled, truncated_file, corrupt_page, …
        cause: String,
    }
}

table! {
    /// What went wrong or was inferred while reading a recording.
    ImportLog in "import_log" {
        /// The file or source.
        source: String,
        /// Byte offset in it, where one can be named.
        offset: Option<u64>,
        /// What happened and what was done about it.
        message: String,
        /// Did it cost data?
        data_loss: bool,
    }
}

/// Takes the rows the engine makes. Rows about one actor (vCPU, thread, CPU) arrive in order
/// of time; over all actors of a table nearly in the order their interval *ends*. A sink that needs
/// order by `ts` sorts.
pub trait TableSink {
    /// Takes one row.
    fn row(&mut self, row: Row);

    /// Does it want this table's rows at all? Asked once per table before the first row; rows of a
    /// table it does not want are not made, which spares their cost and a keeping sink's memory.
    /// Rows of unwanted tables may still come: `row` has to put up with them.
    fn wants(&self, table: &TableDoc) -> bool {
        let _ = table;
        true
    }
}

/// Keeps the rows of chosen tables, for views that need no others: of a hundred million events
/// the windows fit in memory, the thread states do not.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Selected {
    wanted: Vec<&'static str>,
    tables: Tables,
}

impl Selected {
    /// Keeps these tables; the others stay empty.
    pub fn new(wanted: &[TableDoc]) -> Self {
        let wanted = wanted.iter().map(|table| table.name).collect();
        Selected { wanted, tables: Tables::default() }
    }

    /// What was kept.
    pub fn into_tables(self) -> Tables {
        self.tables
    }
}

impl TableSink for Selected {
    fn row(&mut self, row: Row) {
        if self.wanted.contains(&row.table()) {
            self.tables.row(row);
        }
    }

    fn wants(&self, table: &TableDoc) -> bool {
        self.wanted.contains(&table.name)
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
