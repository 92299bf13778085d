//! The lines of a report: one struct per view, each column described in one place.
//!
//! A line is to a report what a row is to a table: JSON and CSV are written from its columns, and
//! a test holds `docs/reference/report.md` to them. All times are integer nanoseconds of trace time (or
//! ticks, where the recording does not say how long a tick is).

use crate::records::line;
use transect_model::exit::ExitReason;
use transect_model::ids::{CpuId, MachineId, Tid, VcpuId};

line! {
    /// Where one vCPU's time went, or the sum over a VM's vCPUs (vcpu null).
    VcpuLine {
        /// The VM.
        machine_id: MachineId,
        /// Its name.
        machine: String,
        /// The vCPU; null for the sum over the VM.
        vcpu: Option<VcpuId>,
        /// The host thread that runs it.
        vmm_tid: Option<Tid>,
        /// What the states sum up to: the window, for a VM times its vCPUs.
        window_ns: i64,
        /// On a pCPU: guest + exit + user + halt_poll + hypercall + trap + running.
        gotten_ns: i64,
        /// Wanted a pCPU and had none: preempted + waking.
        waited_ns: i64,
        /// Asleep: halted + blocked for another cause.
        blocked_ns: i64,
        /// Its thread did not exist.
        offline_ns: i64,
        /// Without knowledge: lost events, or before the first event that tells.
        unknown_ns: i64,
        /// In guest mode.
        guest_ns: i64,
        /// Handling an exit in the kernel.
        exit_ns: i64,
        /// Handling an exit in the VMM.
        user_ns: i64,
        /// Halted, with the host spinning for a wakeup.
        halt_poll_ns: i64,
        /// In a hypercall (of Xen PV guests, as far as recorded).
        hypercall_ns: i64,
        /// In the handling of an exception (of Xen PV guests, as far as recorded).
        trap_ns: i64,
        /// On a pCPU, without events that tell more.
        running_ns: i64,
        /// Halted by the guest and asleep.
        halted_ns: i64,
        /// Asleep for another cause (VMM lock or I/O).
        other_blocked_ns: i64,
        /// Switched out while it wanted to run.
        preempted_ns: i64,
        /// Woken and not yet on a pCPU.
        waking_ns: i64,
        /// Times scheduled in.
        executions: u64,
        /// VM exits.
        exits: u64,
        /// Steal as the guest counts it: waiting while it wanted to run.
        steal_ns: i64,
    }
}

line! {
    /// One domain of Xen. The first group of times sums up to its window, which begins with the
    /// first record about it; the second is XenMon's, summed over its vCPUs.
    DomainLine {
        /// The domain.
        machine_id: MachineId,
        /// Its name.
        machine: String,
        /// Its number.
        domid: Option<u32>,
        /// What its states sum up to.
        window_ns: i64,
        /// No vCPU wanted a pCPU.
        all_blocked_ns: i64,
        /// Some vCPUs ran, none waited.
        partial_run_ns: i64,
        /// All vCPUs ran.
        full_run_ns: i64,
        /// Some vCPUs waited, none ran.
        partial_contention_ns: i64,
        /// Some vCPUs ran while others waited.
        concurrency_hazard_ns: i64,
        /// All vCPUs waited.
        full_contention_ns: i64,
        /// Lost records hide what a vCPU did.
        unknown_ns: i64,
        /// Times a vCPU was scheduled in.
        executions: u64,
        /// On a pCPU.
        gotten_ns: i64,
        /// Runnable and without a pCPU.
        waited_ns: i64,
        /// Asleep.
        blocked_ns: i64,
        /// Slices granted.
        allocations: u64,
        /// Their average.
        allocated_avg_ns: Option<i64>,
        /// The shortest.
        allocated_min_ns: Option<i64>,
        /// The longest.
        allocated_max_ns: Option<i64>,
        /// Pages exchanged by grant, and event-channel calls.
        io_count: u64,
    }
}

line! {
    /// One CPU of one machine: how its time divides.
    CpuLine {
        /// The machine.
        machine_id: MachineId,
        /// Its name.
        machine: String,
        /// The CPU.
        cpu: CpuId,
        /// What the parts sum up to.
        window_ns: i64,
        /// Running vCPUs or their threads (hosts and hypervisors only).
        vcpu_ns: i64,
        /// Running other threads.
        thread_ns: i64,
        /// Idle.
        idle_ns: i64,
        /// Without knowledge.
        unknown_ns: i64,
        /// Slices of vCPUs, and of threads other than the idle one.
        slices: u64,
    }
}

line! {
    /// The exits of one VM for one reason. p50, p90 and p99 are nearest-rank order statistics
    /// over the exits whose next entry was seen.
    ExitLine {
        /// The VM.
        machine_id: MachineId,
        /// Its name.
        machine: String,
        /// Why.
        reason: ExitReason,
        /// How many exits.
        count: u64,
        /// How many returned to the VMM.
        to_user: u64,
        /// How many have no next entry in the recording; they are in no duration below.
        unfinished: u64,
        /// From exit to next entry, sum: sleep in a halt and waiting for a pCPU included.
        total_ns: i64,
        /// The median of that.
        p50_ns: Option<i64>,
        /// Nine of ten are at most this long.
        p90_ns: Option<i64>,
        /// 99 of 100 are at most this long.
        p99_ns: Option<i64>,
        /// The longest.
        max_ns: Option<i64>,
        /// Handling only: on a pCPU between exit and next entry, sum.
        handling_total_ns: i64,
        /// The median of that.
        handling_p50_ns: Option<i64>,
        /// Nine of ten are at most this long.
        handling_p90_ns: Option<i64>,
        /// 99 of 100 are at most this long.
        handling_p99_ns: Option<i64>,
        /// The longest.
        handling_max_ns: Option<i64>,
    }
}

line! {
    /// Who had the pCPU while one vCPU waited for it.
    AntagonistLine {
        /// The VM of the vCPU that waited.
        machine_id: MachineId,
        /// Its name.
        machine: String,
        /// The vCPU that waited.
        vcpu: VcpuId,
        /// vcpu, machine (a Xen domain, of which it is not told which vCPU), thread, idle (the pCPU
        /// was on its way out of idle) or unknown.
        by_kind: String,
        /// The VM whose vCPU had the pCPU, or the machine of the thread that had it.
        by_machine_id: Option<MachineId>,
        /// Its name.
        by_machine: Option<String>,
        /// The vCPU that had the pCPU.
        by_vcpu: Option<VcpuId>,
        /// The name of the thread that had the pCPU.
        by_name: Option<String>,
        /// For how long.
        waited_ns: i64,
        /// In how many stretches.
        count: u64,
    }
}

line! {
    /// One thread. running + runnable + blocked + unknown = the time it was seen in.
    ThreadLine {
        /// The machine whose kernel schedules it.
        machine_id: MachineId,
        /// Its name.
        machine: String,
        /// The thread.
        tid: Tid,
        /// Its process.
        pid: Option<Tid>,
        /// Its name.
        name: String,
        /// Its control group.
        cgroup: Option<String>,
        /// The VM whose vCPU it runs, if it is a vCPU thread.
        vcpu_machine_id: Option<MachineId>,
        /// The vCPU it runs.
        vcpu: Option<VcpuId>,
        /// On a CPU, as its own kernel sees it.
        running_ns: i64,
        /// Wanted a CPU and had none, as its own kernel sees it.
        runnable_ns: i64,
        /// Asleep.
        blocked_ns: i64,
        /// Without knowledge.
        unknown_ns: i64,
        /// Of running: its vCPU was in guest mode. Null for threads not in a VM, as the next four.
        effective_running_ns: Option<i64>,
        /// Of running: its vCPU waited for a pCPU.
        vcpu_preempted_ns: Option<i64>,
        /// Of running: its vCPU was handling an exit.
        exit_handling_ns: Option<i64>,
        /// Of running: its vCPU was halted or asleep.
        vcpu_halted_ns: Option<i64>,
        /// Of running: the host's view is not known.
        effective_unknown_ns: Option<i64>,
    }
}

line! {
    /// How long one thread waited for a CPU after its wakeups (run-queue latency). Order
    /// statistics are nearest-rank.
    WakeupLine {
        /// The machine.
        machine_id: MachineId,
        /// Its name.
        machine: String,
        /// Who was woken.
        tid: Tid,
        /// Its name.
        name: String,
        /// How often.
        count: u64,
        /// Wakeups after which it was not seen running; they are in no duration below.
        unfinished: u64,
        /// From wakeup to running, sum.
        total_ns: i64,
        /// The median of that.
        p50_ns: Option<i64>,
        /// 99 of 100 are at most this long.
        p99_ns: Option<i64>,
        /// The longest.
        max_ns: Option<i64>,
    }
}

line! {
    /// The columns of rows with a way, of a group of them. Order statistics are nearest-rank over those
    /// that ended.
    WaySums {
        /// How many have every stage of their way.
        with_all_stages: u64,
        /// The stages that are missing, each with the number of rows without it.
        missing: String,
        /// Those whose events of several machines are joined by ids.
        by_id: u64,
        /// Those with a joint by context, and none weaker.
        by_context: u64,
        /// Those with a joint by order in time alone.
        by_order: u64,
        /// Their time, sum.
        total_ns: i64,
        /// The median.
        p50_ns: Option<i64>,
        /// Nine of ten are at most this long.
        p90_ns: Option<i64>,
        /// 99 of 100 are at most this long.
        p99_ns: Option<i64>,
        /// 999 of 1000 are at most this long.
        p999_ns: Option<i64>,
        /// The longest.
        max_ns: Option<i64>,
        /// The size of the slowest hundredth (at least one).
        slowest: u64,
        /// Their time, sum.
        slowest_ns: i64,
        /// The stage that has the most of that.
        tail_stage: Option<String>,
    }
}

line! {
    /// The columns of one stage of such a group: from one event to the next that is known. Those of one
    /// row add up to its time.
    StageSums {
        /// The two events, as the table's columns without _ts: issue..kick.
        stage: String,
        /// The number of rows that have it.
        count: u64,
        /// Its time, sum.
        total_ns: i64,
        /// The median.
        p50_ns: Option<i64>,
        /// Nine of ten are at most this long.
        p90_ns: Option<i64>,
        /// 99 of 100 are at most this long.
        p99_ns: Option<i64>,
        /// 999 of 1000 are at most this long.
        p999_ns: Option<i64>,
        /// The longest.
        max_ns: Option<i64>,
        /// Its time in the slowest hundredth.
        of_slowest_ns: i64,
    }
}

line! {
    /// The block requests of one machine to one device that do one thing.
    RequestLine {
        /// The machine.
        machine_id: MachineId,
        /// Its name.
        machine: String,
        /// The device, as major:minor.
        device: String,
        /// read, write, flush, discard or other.
        op: String,
        /// How many.
        count: u64,
        /// How many have no completion in the recording; they are in nothing below.
        unfinished: u64,
    }
    /// From submission to the last stage that is known.
    way: WaySums
}

line! {
    /// One stage of such requests.
    StageLine {
        /// The machine.
        machine_id: MachineId,
        /// Its name.
        machine: String,
        /// The device, as major:minor.
        device: String,
        /// read, write, flush, discard or other.
        op: String,
    }
    /// Its columns.
    sums: StageSums
}

line! {
    /// The packets from one machine to another.
    PacketLine {
        /// The sender; null if they came from outside of the recording.
        machine_id: Option<MachineId>,
        /// Its name.
        machine: Option<String>,
        /// The receiver; null if they left the recording or were dropped.
        to_machine_id: Option<MachineId>,
        /// Its name.
        to_machine: Option<String>,
        /// How many.
        count: u64,
        /// How many have one event only; they are in nothing below but the bytes.
        unfinished: u64,
        /// Their length, sum of those known.
        bytes: u64,
    }
    /// From the first stage that is known to the last one.
    way: WaySums
}

line! {
    /// One stage of such packets.
    PacketStageLine {
        /// The sender; null if they came from outside of the recording.
        machine_id: Option<MachineId>,
        /// Its name.
        machine: Option<String>,
        /// The receiver; null if they left the recording or were dropped.
        to_machine_id: Option<MachineId>,
        /// Its name.
        to_machine: Option<String>,
    }
    /// Its columns.
    sums: StageSums
}
