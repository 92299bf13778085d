//! Every metric: its name, its kind, its help. docs/reference/metrics.md lists the same, which a test holds.

/// What kind of metric it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Counter,
    Gauge,
    Histogram,
    Info,
    States,
}

/// A metric without its labels.
#[derive(Clone, Copy, Debug)]
pub(super) struct Family {
    /// Without `_total`, `_info`, `_bucket`.
    pub(super) name: &'static str,
    pub(super) kind: Kind,
    pub(super) help: &'static str,
}

impl Family {
    /// The unit, which is the end of the name.
    pub(super) fn unit(&self) -> Option<&'static str> {
        ["seconds", "bytes"].into_iter().find(|unit| self.name.ends_with(unit))
    }
}

macro_rules! families {
    ($($konst:ident = $name:literal $kind:ident $help:literal;)*) => {
        $(pub(super) const $konst: Family = Family { name: $name, kind: Kind::$kind, help: $help };)*
        #[cfg(test)]
        pub(super) const ALL: &[Family] = &[$($konst),*];
    };
}

families! {
    BUILD = "transect_build" Info "The version of the daemon.";
    MISSING = "transect_missing_metric" Info "A metric that cannot be had here, and why.";
    WINDOW_S = "transect_window_seconds" Gauge "Length of the windows.";
    WINDOWS = "transect_windows" Counter "Windows that were taken.";
    WINDOWS_MISSED = "transect_windows_missed" Counter "Windows that the daemon came too late for.";
    SUMMED = "transect_summed_names" Gauge "Names that have no series of their own and are summed as other, in the last window.";
    LATE = "transect_late_threads" Counter "Threads whose window could not be read in time.";
    UNTRACKED = "transect_untracked_events" Counter "Events of threads for which there was no place.";
    NO_ROOM = "transect_no_room" Counter "Exits and requests that found no place.";
    MISSED = "transect_missed_events" Counter "Events that the kernel did not hand over.";
    OWN_CPU = "transect_own_cpu_seconds" Counter "CPU time of the daemon.";
    OWN_MEMORY = "transect_own_memory_bytes" Gauge "Resident memory of the daemon.";

    CPU_TIME = "transect_cpu_time_seconds" Counter "Time of each CPU of the host, by state: busy, idle, unknown.";

    VM_TIME = "transect_vm_time_seconds" Counter "Time of a VM's vCPUs, added up, by state.";
    VM_GUEST = "transect_vm_guest_seconds" Counter "Time in guest mode, part of running.";
    VM_EXECUTIONS = "transect_vm_executions" Counter "Times that a vCPU was switched in.";
    VM_MIGRATIONS = "transect_vm_migrations" Counter "Times that a vCPU was moved to another CPU.";
    VM_WAIT = "transect_vm_wait_seconds" Histogram "Waits for a CPU, preempted or woken. The sum is time spent waiting.";
    VM_EXITS = "transect_vm_exits" Counter "VM exits by reason.";
    VM_EXIT_S = "transect_vm_exit_seconds" Counter "Time from exits to the next entry by reason, sleep and waiting included.";
    VM_HANDLING = "transect_vm_exit_handling_seconds" Counter "The part of it on a CPU.";
    VM_IO = "transect_vm_device_accesses" Counter "Accesses of the guest to devices that left it, and device interrupts.";
    VM_INJECTIONS = "transect_vm_injections" Counter "Interrupts injected into the guest.";
    VM_HALTS = "transect_vm_halts" Counter "Halts that ended, by how: polled or blocked.";
    VM_POLL = "transect_vm_halt_poll_seconds" Counter "Time spent polling in halts.";
    VCPU_TIME = "transect_vcpu_time_seconds" Counter "Time of a vCPU by state.";
    VCPU_EXITS = "transect_vcpu_exits" Counter "VM exits of a vCPU.";
    CGROUP_TIME = "transect_cgroup_time_seconds" Counter "Time of a control group's threads, added up, by state.";
    CGROUP_EXECUTIONS = "transect_cgroup_executions" Counter "Times that one of its threads was switched in.";
    CGROUP_MIGRATIONS = "transect_cgroup_migrations" Counter "Times that one of its threads was moved to another CPU.";
    CGROUP_WAIT = "transect_cgroup_wait_seconds" Histogram "Waits for a CPU of its threads. The sum is time spent waiting.";
    CONTAINER_TIME = "transect_container_time_seconds" Counter "Time of a container's threads, added up, by state.";
    CONTAINER_EXECUTIONS = "transect_container_executions" Counter "Times that one of its threads was switched in.";
    CONTAINER_WAIT = "transect_container_wait_seconds" Histogram "Waits for a CPU of its threads. The sum is time spent waiting.";
    THROTTLED = "transect_cgroup_throttled_seconds" Counter "Time that a control group was held back by its bound on CPU time, added up over CPUs.";
    THROTTLED_N = "transect_cgroup_throttled_periods" Counter "Periods in which it used up its quota.";
    PERIODS = "transect_cgroup_periods" Counter "Periods in which it wanted to run.";
    PRESSURE = "transect_pressure_seconds" Counter "Time in which some or all tasks of a control group, or of the host, waited for a resource.";
    EXIT_S = "transect_exit_duration_seconds" Histogram "From VM exit to the next entry by reason, of all VMs.";
    ANTAGONIST_S = "transect_antagonist_seconds" Counter "Time for which one machine's threads had the CPU that another's waited for.";
    ANTAGONIST_N = "transect_antagonist_waits" Counter "How often.";

    BLOCK_S = "transect_block_duration_seconds" Histogram "Block requests with data, from issue to completion, by who asked.";
    BLOCK_BYTES = "transect_block_bytes" Counter "Their bytes.";
    NET_PACKETS = "transect_net_packets" Counter "Packets as the host sees the device.";
    NET_BYTES = "transect_net_bytes" Counter "Their bytes.";

    HISTORY_STATE = "transect_history_state" States "How the history on disk is.";
    HISTORY_BYTES = "transect_history_bytes" Gauge "What the history takes.";
    HISTORY_LIMIT = "transect_history_limit_bytes" Gauge "What it may take.";
    HISTORY_OLDEST = "transect_history_oldest_timestamp_seconds" Gauge "How far it goes back, seconds since 1970.";
    HISTORY_WINDOWS = "transect_history_windows" Counter "Windows, by whether they were written or lost.";
    HISTORY_FAILURES = "transect_history_write_failures" Counter "Writes that failed.";

    SNAPSHOTS = "transect_snapshots" Counter "Snapshots that were taken, by who asked: a request or a trigger.";
    SNAPSHOTS_FAILED = "transect_snapshot_failures" Counter "Snapshots that could not be taken.";
    SNAPSHOTS_KEPT = "transect_snapshots_kept" Gauge "Snapshots that are there.";
    SNAPSHOTS_BYTES = "transect_snapshots_kept_bytes" Gauge "Their bytes.";
    TRIGGER_FIRED = "transect_trigger_fired" Counter "Times that a trigger fired.";
    TRIGGER_HOLDING = "transect_trigger_holding" Gauge "For how many its condition holds now.";

    REQUESTS = "transect_http_requests" Counter "Requests that were answered, by class of the status.";
    REFUSED = "transect_http_refused" Counter "Connections that were one too many, and requests that were none or too slow.";
    QUESTIONS_REFUSED = "transect_questions_refused" Counter "Requests of timelines that were refused because their client had reached a limit.";
    CONNECTIONS = "transect_http_connections" Gauge "Connections that are open.";
    WAITING = "transect_http_waiting" Gauge "Clients that wait for a window.";
}
