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
    BUILD = "transect_build" Info "Version of the daemon.";
    MISSING = "transect_missing_metric" Info "A metric that is not available on this host, with the reason.";
    WINDOW_S = "transect_window_seconds" Gauge "Length of the windows.";
    WINDOWS = "transect_windows" Counter "Windows that were taken.";
    WINDOWS_MISSED = "transect_windows_missed" Counter "Windows that the daemon missed because it read them too late.";
    SUMMED = "transect_summed_names" Gauge "Names without their own series, which were summed as other in the last window.";
    LATE = "transect_late_threads" Counter "Threads whose window could not be read in time.";
    UNTRACKED = "transect_untracked_events" Counter "Events of threads for which there was no free slot.";
    NO_ROOM = "transect_no_room" Counter "Exits and requests for which there was no free slot.";
    MISSED = "transect_missed_events" Counter "Events that the kernel did not deliver.";
    OWN_CPU = "transect_own_cpu_seconds" Counter "CPU time that the daemon used.";
    OWN_MEMORY = "transect_own_memory_bytes" Gauge "Resident memory of the daemon.";

    CPU_TIME = "transect_cpu_time_seconds" Counter "Time of each CPU of the host, by state: busy, idle, unknown.";

    VM_TIME = "transect_vm_time_seconds" Counter "Time of a VM's vCPUs, added up, by state: running, preempted, waking, asleep, halted, offline, unknown.";
    VM_GUEST = "transect_vm_guest_seconds" Counter "Time of a VM's vCPUs in guest mode, part of the state running.";
    VM_EXECUTIONS = "transect_vm_executions" Counter "Times that a vCPU of the VM was switched in.";
    VM_MIGRATIONS = "transect_vm_migrations" Counter "Times that a vCPU of the VM migrated to another CPU.";
    VM_WAIT = "transect_vm_wait_seconds" Histogram "Durations of waits for a CPU, after preemption or wakeup. The sum is the time spent waiting.";
    VM_EXITS = "transect_vm_exits" Counter "VM exits by reason.";
    VM_EXIT_S = "transect_vm_exit_seconds" Counter "Time from VM exit to the next entry by reason, including sleep and waiting.";
    VM_HANDLING = "transect_vm_exit_handling_seconds" Counter "Time from VM exit to the next entry that was spent on a CPU, by reason.";
    VM_IO = "transect_vm_device_accesses" Counter "Device accesses that left the guest, and device interrupts.";
    VM_INJECTIONS = "transect_vm_injections" Counter "Interrupts injected into the guest.";
    VM_HALTS = "transect_vm_halts" Counter "Halts that ended, by kind: polled or blocked.";
    VM_POLL = "transect_vm_halt_poll_seconds" Counter "Time spent in halt polling.";
    VCPU_TIME = "transect_vcpu_time_seconds" Counter "Time of a vCPU by state: running, preempted, waking, asleep, halted, offline, unknown.";
    VCPU_EXITS = "transect_vcpu_exits" Counter "VM exits of a vCPU.";
    CGROUP_TIME = "transect_cgroup_time_seconds" Counter "Time of a control group's threads, added up, by state: running, preempted, waking, asleep, halted, offline, unknown.";
    CGROUP_EXECUTIONS = "transect_cgroup_executions" Counter "Times that a thread of the control group was switched in.";
    CGROUP_MIGRATIONS = "transect_cgroup_migrations" Counter "Times that a thread of the control group migrated to another CPU.";
    CGROUP_WAIT = "transect_cgroup_wait_seconds" Histogram "Durations of waits for a CPU by threads of the control group. The sum is the time spent waiting.";
    CONTAINER_TIME = "transect_container_time_seconds" Counter "Time of a container's threads, added up, by state: running, preempted, waking, asleep, unknown.";
    CONTAINER_EXECUTIONS = "transect_container_executions" Counter "Times that a thread of the container was switched in.";
    CONTAINER_WAIT = "transect_container_wait_seconds" Histogram "Durations of waits for a CPU by threads of the container. The sum is the time spent waiting.";
    THROTTLED = "transect_cgroup_throttled_seconds" Counter "Time that a control group was throttled by its CPU quota, added up over CPUs.";
    THROTTLED_N = "transect_cgroup_throttled_periods" Counter "Quota periods in which the control group used up its quota.";
    PERIODS = "transect_cgroup_periods" Counter "Quota periods in which the control group had runnable threads.";
    PRESSURE = "transect_pressure_seconds" Counter "Time in which some or all tasks of a control group, or of the host, waited for a resource.";
    EXIT_S = "transect_exit_duration_seconds" Histogram "Durations from VM exit to the next entry by reason, for all VMs.";
    ANTAGONIST_S = "transect_antagonist_seconds" Counter "Time for which threads of one machine (by) had the CPU while threads of another (machine) waited for it.";
    ANTAGONIST_N = "transect_antagonist_waits" Counter "Times that threads of one machine (by) had the CPU while threads of another (machine) waited for it.";

    BLOCK_S = "transect_block_duration_seconds" Histogram "Durations of block requests with data, from issue to completion, by the requesting machine.";
    BLOCK_BYTES = "transect_block_bytes" Counter "Bytes of block requests.";
    NET_PACKETS = "transect_net_packets" Counter "Packets of a network device; the direction is the host's view of the device.";
    NET_BYTES = "transect_net_bytes" Counter "Bytes of a network device's packets.";

    HISTORY_STATE = "transect_history_state" States "State of the history on disk: off, ok, full, failed.";
    HISTORY_BYTES = "transect_history_bytes" Gauge "Bytes that the history uses on disk.";
    HISTORY_LIMIT = "transect_history_limit_bytes" Gauge "Bytes that the history may use on disk.";
    HISTORY_OLDEST = "transect_history_oldest_timestamp_seconds" Gauge "Time of the oldest window in the history, seconds since 1970.";
    HISTORY_WINDOWS = "transect_history_windows" Counter "Windows of the history, by outcome: written or lost.";
    HISTORY_GONE = "transect_history_windows_gone" Gauge "Windows of the history that are damaged or missing on disk; windows of all series are added up.";
    HISTORY_FAILURES = "transect_history_write_failures" Counter "Writes of the history that failed.";

    SNAPSHOTS = "transect_snapshots" Counter "Snapshots that were taken, by cause: a request or a trigger.";
    SNAPSHOTS_FAILED = "transect_snapshot_failures" Counter "Snapshots that could not be taken.";
    SNAPSHOTS_KEPT = "transect_snapshots_kept" Gauge "Snapshots that are kept on disk.";
    SNAPSHOTS_BYTES = "transect_snapshots_kept_bytes" Gauge "Bytes of the kept snapshots.";
    TRIGGER_FIRED = "transect_trigger_fired" Counter "Times that a trigger fired.";
    TRIGGER_HOLDING = "transect_trigger_holding" Gauge "Actors for which the condition of the trigger holds now.";

    REQUESTS = "transect_http_requests" Counter "HTTP requests that were answered, by status class.";
    REFUSED = "transect_http_refused" Counter "Connections refused or closed at a connection limit, and requests that were invalid or too slow.";
    QUESTIONS_REFUSED = "transect_questions_refused" Counter "Requests refused because their client had reached a limit, with a timeline's (questions) or after wrong tokens.";
    CONNECTIONS = "transect_http_connections" Gauge "Open connections.";
    WAITING = "transect_http_waiting" Gauge "Clients that are waiting for a window.";
}
