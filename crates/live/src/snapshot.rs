//! What a source gives for one window.

use crate::{
    groups::{ContainerWindow, PressureWindow},
    histogram::Histogram,
    missing::Missing,
    record::record,
};
use transect_model::{
    exit::ExitReason,
    ids::{CpuId, MachineId, Tid, VcpuId},
    table::{Machine, Window},
};

/// Everything of one window. All times are ns; `ts` is trace time (CLOCK_MONOTONIC of the host).
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Snapshot {
    /// Begin of the window.
    pub ts: i64,
    /// Its length.
    pub dur: i64,
    /// When it ended, by the wall clock, ns since 1970.
    pub ended_unix_ns: u64,
    /// Windows before this one that could not be had: whoever asks came too late.
    pub missed_windows: u64,
    /// The host (number 0) and its VMs.
    pub machines: Vec<Machine>,
    /// vCPUs, VMs and control groups.
    pub actors: Vec<ActorWindow>,
    /// Threads; under Xen vCPUs, which are what its scheduler knows.
    pub threads: Vec<ThreadWindow>,
    /// The host's CPUs.
    pub cpus: Vec<CpuWindow>,
    /// Exits by vCPU and reason, each with their durations.
    pub exits: Vec<(ExitWindow, Histogram)>,
    /// Who was in whose way.
    pub antagonists: Vec<Antagonist>,
    /// Block requests with their durations, and packets.
    pub io: Vec<(IoWindow, Histogram)>,
    /// Containers, and where there are none the services, scopes and slices: each with its waits for a CPU.
    pub containers: Vec<(ContainerWindow, Histogram)>,
    /// What control groups and the host were short of.
    pub pressure: Vec<PressureWindow>,
    /// What cannot be had here. Columns they name hold nothing (0) in the rows above and are null in faces.
    pub missing: Vec<Missing>,
    /// How well this was measured, and at what cost.
    pub health: Health,
}

/// A row of the `windows` table, with what that table has no columns for.
#[derive(Clone, Debug, PartialEq)]
pub struct ActorWindow {
    /// The same row as in the tables of a recording of the same time.
    pub window: Window,
    /// More of it.
    pub detail: WindowDetail,
    /// Waits for a CPU that ended in the window.
    pub waits: Histogram,
}

record! {
    /// What the `windows` table has no columns for; keys as there.
    #[derive(Default)]
    WindowDetail {
        /// Start of the window, ns of trace time.
        ts: i64,
        /// Length of the window, ns.
        dur: i64,
        /// As in `windows`.
        machine_id: MachineId,
        /// As in `windows`.
        vcpu: Option<VcpuId>,
        /// As in `windows`.
        cgroup: Option<String>,
        /// Number of threads that the row sums.
        threads: u64,
        /// Part of waited: switched out while runnable.
        preempted_ns: i64,
        /// Part of waited: woken, not yet on a CPU.
        waking_ns: i64,
        /// Migrations to another CPU.
        migrations: u64,
        /// Waits for a CPU that ended in the window.
        waits: u64,
        /// Median of these waits, an upper bound.
        wait_p50_ns: Option<u64>,
        /// 90th percentile of these waits, an upper bound.
        wait_p90_ns: Option<u64>,
        /// 99th percentile of these waits, an upper bound.
        wait_p99_ns: Option<u64>,
        /// Longest of these waits.
        wait_max_ns: u64,
        /// Waiting that no row of antagonists covers: too many antagonists, or an unknown one.
        unattributed_ns: i64,
        /// Interrupts injected into the guest.
        injections: u64,
        /// Halts that ended.
        halts: u64,
        /// Halts that ended while KVM still polled.
        halts_polled: u64,
        /// Time spent in halt polling.
        poll_ns: i64,
    }
}

record! {
    /// One thread. running is gotten, preempted and waking are waited, and so on: they fill the window.
    #[derive(Default)]
    ThreadWindow {
        /// Start of the window, ns of trace time.
        ts: i64,
        /// Length of the window, ns.
        dur: i64,
        /// The machine whose kernel schedules the thread.
        machine_id: MachineId,
        /// Thread id.
        tid: Tid,
        /// Process id.
        pid: Tid,
        /// Name of the thread.
        name: String,
        /// Role: vcpu, vmm, vhost or thread.
        role: &'static str,
        /// The VM that the thread works for.
        vm_machine_id: Option<MachineId>,
        /// The vCPU that the thread runs.
        vcpu: Option<VcpuId>,
        /// Path of its control group.
        cgroup: Option<String>,
        /// The CPU that the thread is on, was last on, or waits for.
        cpu: CpuId,
        /// State at the end of the window: running, preempted, waking, asleep, halted, gone or unknown.
        state: &'static str,
        /// Times switched in.
        executions: u64,
        /// On a CPU.
        gotten_ns: i64,
        /// Runnable and not running.
        waited_ns: i64,
        /// Part of waited: switched out while runnable.
        preempted_ns: i64,
        /// Part of waited: woken, not yet on a CPU.
        waking_ns: i64,
        /// Asleep.
        blocked_ns: i64,
        /// Before the fork or after the exit of the thread.
        offline_ns: i64,
        /// State unknown.
        unknown_ns: i64,
        /// In guest mode (part of gotten).
        guest_ns: i64,
        /// Halted in the guest (part of blocked).
        halted_ns: i64,
        /// Slices: from switch-in to involuntary switch-out.
        allocations: u64,
        /// Average length of these slices.
        allocated_avg_ns: Option<i64>,
        /// Shortest of these slices.
        allocated_min_ns: Option<i64>,
        /// Longest of these slices.
        allocated_max_ns: Option<i64>,
        /// Migrations to another CPU.
        migrations: u64,
        /// Median of the waits for a CPU that ended in the window, an upper bound.
        wait_p50_ns: Option<u64>,
        /// 99th percentile of these waits, an upper bound.
        wait_p99_ns: Option<u64>,
        /// Longest of these waits.
        wait_max_ns: u64,
        /// Waiting that no row of antagonists covers.
        unattributed_ns: i64,
        /// VM exits.
        exits: u64,
        /// Device accesses that left the guest, and device interrupts that this thread raised for a guest.
        io_count: u64,
        /// Interrupts injected into the guest.
        injections: u64,
    }
}

record! {
    /// One CPU of the host.
    CpuWindow {
        /// Start of the window, ns of trace time.
        ts: i64,
        /// Length of the window, ns.
        dur: i64,
        /// The host.
        machine_id: MachineId,
        /// The CPU.
        cpu: CpuId,
        /// A thread was on the CPU.
        busy_ns: i64,
        /// The CPU was idle.
        idle_ns: i64,
        /// State unknown (before the first switch on this CPU).
        unknown_ns: i64,
    }
}

record! {
    /// VM exits of one vCPU for one reason that ended (were followed by an entry) in the window.
    ExitWindow {
        /// Start of the window, ns of trace time.
        ts: i64,
        /// Length of the window, ns.
        dur: i64,
        /// The VM.
        machine_id: MachineId,
        /// The vCPU.
        vcpu: VcpuId,
        /// Exit reason.
        reason: ExitReason,
        /// Number of exits.
        count: u64,
        /// Time from exit to entry, including sleep and waiting.
        total_ns: i64,
        /// Part of total_ns on a CPU.
        handling_ns: i64,
        /// Median duration, an upper bound.
        p50_ns: Option<u64>,
        /// 90th percentile of the durations, an upper bound.
        p90_ns: Option<u64>,
        /// 99th percentile of the durations, an upper bound.
        p99_ns: Option<u64>,
        /// Longest duration.
        max_ns: Option<u64>,
    }
}

record! {
    /// A thread that had the CPU another one waited for.
    Antagonist {
        /// Start of the window, ns of trace time.
        ts: i64,
        /// Length of the window, ns.
        dur: i64,
        /// The machine of the thread that waited: a VM or the host.
        machine_id: MachineId,
        /// The vCPU that waited, if the thread ran one.
        vcpu: Option<VcpuId>,
        /// The thread that waited.
        tid: Tid,
        /// Name of the thread that waited.
        name: String,
        /// The machine of the antagonist.
        by_machine_id: MachineId,
        /// The vCPU of the antagonist, if the thread ran one.
        by_vcpu: Option<VcpuId>,
        /// The antagonist: the thread that had the CPU; 0: the CPU was still leaving its idle state.
        by_tid: Tid,
        /// Name of the antagonist.
        by_name: String,
        /// Times that the antagonist had the CPU during these waits.
        times: u64,
        /// Time for which the antagonist had the CPU during these waits.
        ns: i64,
    }
}

record! {
    /// Block requests of a process (its VM's, if it is a VMM), or packets of a device.
    IoWindow {
        /// Start of the window, ns of trace time.
        ts: i64,
        /// Length of the window, ns.
        dur: i64,
        /// The VM, or the host.
        machine_id: MachineId,
        /// read, write (block requests), xmit, receive (packets, as the host sees the device).
        kind: &'static str,
        /// The process that submitted the block requests.
        pid: Option<Tid>,
        /// Name of the process or device.
        name: String,
        /// Number of requests or packets.
        count: u64,
        /// Bytes of data.
        bytes: u64,
        /// Time from issue to completion, added up over requests.
        total_ns: Option<i64>,
        /// Median duration, an upper bound.
        p50_ns: Option<u64>,
        /// 90th percentile of the durations, an upper bound.
        p90_ns: Option<u64>,
        /// 99th percentile of the durations, an upper bound.
        p99_ns: Option<u64>,
    }
}

record! {
    /// How well a window was measured, and at what cost.
    #[derive(Default)]
    Health {
        /// Threads whose window could not be read in time.
        late_threads: u64,
        /// Events of threads for which there was no free slot, since the start.
        untracked_events: u64,
        /// Exits and requests for which there was no free slot, since the start.
        no_room: u64,
        /// Events that the kernel did not deliver, since the start.
        missed_events: u64,
        /// CPU time of this process since the last window.
        own_cpu_ns: u64,
    }
}

impl Snapshot {
    /// Is this column missing of all machines?
    pub fn lacks_everywhere(&self, column: &str) -> bool {
        self.missing.iter().any(|missing| {
            missing.machine_id.is_none()
                && (missing.metric == column || missing.columns().contains(&column))
        })
    }

    /// Is this column of a machine's rows missing here? Named by its metric, or itself (a log of another
    /// version).
    pub fn lacks(&self, column: &str, machine: MachineId) -> bool {
        self.missing.iter().any(|missing| {
            missing.machine_id.is_none_or(|of| of == machine)
                && (missing.metric == column || missing.columns().contains(&column))
        })
    }
}
