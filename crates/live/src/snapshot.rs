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
    /// Under Xen, what each domain does on each pCPU: rows of `windows` with a `cpu`. No face shows them yet.
    pub pcpus: Vec<Window>,
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
    WindowDetail {
        /// Start.
        ts: i64,
        /// Length.
        dur: i64,
        /// As in `windows`.
        machine_id: MachineId,
        /// As in `windows`.
        vcpu: Option<VcpuId>,
        /// As in `windows`.
        cgroup: Option<String>,
        /// Threads that it is the sum of.
        threads: u64,
        /// Of waited: switched out while it wanted to run.
        preempted_ns: i64,
        /// Of waited: woken, not yet on a CPU.
        waking_ns: i64,
        /// Times moved to another CPU.
        migrations: u64,
        /// Waits for a CPU that ended here.
        waits: u64,
        /// Half of them were not longer.
        wait_p50_ns: Option<u64>,
        /// 90 % were not longer.
        wait_p90_ns: Option<u64>,
        /// 99 % were not longer.
        wait_p99_ns: Option<u64>,
        /// The longest.
        wait_max_ns: u64,
        /// Waited behind threads that are not among the antagonists: too many, or not known who.
        unattributed_ns: i64,
        /// Interrupts injected into the guest.
        injections: u64,
        /// Halts that ended.
        halts: u64,
        /// Of these, while KVM still polled.
        halts_polled: u64,
        /// Time spent polling.
        poll_ns: i64,
    }
}

record! {
    /// One thread. running is gotten, preempted and waking are waited, and so on: they fill the window.
    ThreadWindow {
        /// Start.
        ts: i64,
        /// Length.
        dur: i64,
        /// The machine whose kernel schedules it.
        machine_id: MachineId,
        /// The thread.
        tid: Tid,
        /// Its process.
        pid: Tid,
        /// Its name.
        name: String,
        /// vcpu, vmm, vhost or thread.
        role: &'static str,
        /// The VM that it works for.
        vm_machine_id: Option<MachineId>,
        /// The vCPU that it runs.
        vcpu: Option<VcpuId>,
        /// Its control group.
        cgroup: Option<String>,
        /// The CPU it is on, was last on, or waits for.
        cpu: CpuId,
        /// Where it was at the end: running, preempted, waking, asleep, halted, gone or unknown.
        state: &'static str,
        /// Times switched in.
        executions: u64,
        /// On a CPU.
        gotten_ns: i64,
        /// Runnable and not running.
        waited_ns: i64,
        /// Of waited: switched out while it wanted to run.
        preempted_ns: i64,
        /// Of waited: woken, not yet on a CPU.
        waking_ns: i64,
        /// Asleep.
        blocked_ns: i64,
        /// Not yet born, or gone.
        offline_ns: i64,
        /// Without knowledge.
        unknown_ns: i64,
        /// In guest mode (part of gotten).
        guest_ns: i64,
        /// Halted in the guest (part of blocked).
        halted_ns: i64,
        /// Slices: from switched in to switched out unwillingly.
        allocations: u64,
        /// Their average.
        allocated_avg_ns: Option<i64>,
        /// The shortest.
        allocated_min_ns: Option<i64>,
        /// The longest.
        allocated_max_ns: Option<i64>,
        /// Times moved to another CPU.
        migrations: u64,
        /// Half of the waits that ended here were not longer.
        wait_p50_ns: Option<u64>,
        /// 99 % were not longer.
        wait_p99_ns: Option<u64>,
        /// The longest.
        wait_max_ns: u64,
        /// Waited behind threads that are not among the antagonists.
        unattributed_ns: i64,
        /// VM exits.
        exits: u64,
        /// Device accesses of the guest that left it, and device interrupts this thread raised for one.
        io_count: u64,
        /// Interrupts injected into the guest.
        injections: u64,
    }
}

record! {
    /// One CPU of the host.
    CpuWindow {
        /// Start.
        ts: i64,
        /// Length.
        dur: i64,
        /// The host.
        machine_id: MachineId,
        /// The CPU.
        cpu: CpuId,
        /// Somebody had it.
        busy_ns: i64,
        /// Nobody had it.
        idle_ns: i64,
        /// Not known (before its first switch).
        unknown_ns: i64,
    }
}

record! {
    /// VM exits of one vCPU for one reason that ended (were followed by an entry) in the window.
    ExitWindow {
        /// Start.
        ts: i64,
        /// Length.
        dur: i64,
        /// The VM.
        machine_id: MachineId,
        /// The vCPU.
        vcpu: VcpuId,
        /// Why.
        reason: ExitReason,
        /// How many.
        count: u64,
        /// From exit to entry, sleep and waiting included.
        total_ns: i64,
        /// Time of that on a CPU.
        handling_ns: i64,
        /// Half of them were not longer.
        p50_ns: Option<u64>,
        /// 90 % were not longer.
        p90_ns: Option<u64>,
        /// 99 % were not longer.
        p99_ns: Option<u64>,
        /// The longest.
        max_ns: Option<u64>,
    }
}

record! {
    /// A thread that had the CPU another one waited for.
    Antagonist {
        /// Start.
        ts: i64,
        /// Length.
        dur: i64,
        /// Whose thread waited: the VM's, or the host's.
        machine_id: MachineId,
        /// The vCPU that waited, if it was one's thread.
        vcpu: Option<VcpuId>,
        /// The thread that waited.
        tid: Tid,
        /// Its name.
        name: String,
        /// Whose thread had the CPU.
        by_machine_id: MachineId,
        /// The vCPU that had the CPU, if it was one's thread.
        by_vcpu: Option<VcpuId>,
        /// The thread that had the CPU; 0: it was idle, still leaving its idle state.
        by_tid: Tid,
        /// Its name.
        by_name: String,
        /// How often it was in the way.
        times: u64,
        /// For how long.
        ns: i64,
    }
}

record! {
    /// Block requests of a process (its VM's, if it is a VMM), or packets of a device.
    IoWindow {
        /// Start.
        ts: i64,
        /// Length.
        dur: i64,
        /// The VM, or the host.
        machine_id: MachineId,
        /// read, write (block), xmit, receive (net, as the host sees it).
        kind: &'static str,
        /// The process that asked, for block requests.
        pid: Option<Tid>,
        /// The process's name, or the device's.
        name: String,
        /// How many.
        count: u64,
        /// Bytes of data.
        bytes: u64,
        /// Requests: from issue to completion.
        total_ns: Option<i64>,
        /// Half of them were not longer.
        p50_ns: Option<u64>,
        /// 90 % were not longer.
        p90_ns: Option<u64>,
        /// 99 % were not longer.
        p99_ns: Option<u64>,
    }
}

record! {
    /// How well a window was measured, and at what cost.
    #[derive(Default)]
    Health {
        /// Threads whose window was not caught.
        late_threads: u64,
        /// Events of threads that found no place, since the start.
        untracked_events: u64,
        /// Exits and requests that found no place, since the start.
        no_room: u64,
        /// Events that the kernel did not hand over, since the start.
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
