//! Rows about containers, and about what control groups and the host were short of.

use crate::record::record;
use transect_model::ids::MachineId;

record! {
    /// A container, pod, machine, service or slice: the sum of all control groups in it.
    ContainerWindow {
        /// Start.
        ts: i64,
        /// Length.
        dur: i64,
        /// The host.
        machine_id: MachineId,
        /// docker, podman, containerd, cri-o, kubernetes, pod, lxc, nspawn, libvirt, machine, ecs, container, service, scope, slice or group.
        kind: String,
        /// As its manager calls it, where that can be known; else what its control group is called.
        name: String,
        /// Its manager's identifier; of a pod its UID.
        id: Option<String>,
        /// The pod's name; its UID where the name is not known.
        pod: Option<String>,
        /// The pod's namespace.
        namespace: Option<String>,
        /// Its own control group: those of its threads are this one or below.
        cgroup: String,
        /// The container that it is in: that one's control group.
        parent: Option<String>,
        /// The VM that runs in it.
        vm_machine_id: Option<MachineId>,
        /// Threads.
        threads: u64,
        /// Times switched in.
        executions: u64,
        /// On a CPU.
        gotten_ns: i64,
        /// Runnable and not running.
        waited_ns: i64,
        /// Of waited: switched out while they wanted to run.
        preempted_ns: i64,
        /// Of waited: woken, not yet on a CPU.
        waking_ns: i64,
        /// Asleep.
        blocked_ns: i64,
        /// Without knowledge.
        unknown_ns: i64,
        /// In guest mode (part of gotten).
        guest_ns: i64,
        /// VM exits.
        exits: u64,
        /// Times moved to another CPU.
        migrations: u64,
        /// Waits for a CPU that ended here.
        waits: u64,
        /// Half of them were not longer.
        wait_p50_ns: Option<u64>,
        /// 99 % were not longer.
        wait_p99_ns: Option<u64>,
        /// The longest.
        wait_max_ns: u64,
    }
}

record! {
    /// What a control group, or the host, was short of: from one look at the kernel's counters to the next.
    #[derive(Eq)]
    PressureWindow {
        /// The look before.
        ts: i64,
        /// From there to this look. Longer than a window if the group did nothing meanwhile.
        dur: i64,
        /// The host.
        machine_id: MachineId,
        /// The control group; null: the host as a whole.
        cgroup: Option<String>,
        /// CPU time it may use in each period.
        quota_ns: Option<i64>,
        /// Length of a period.
        period_ns: Option<i64>,
        /// Periods in which it wanted to run.
        periods: Option<u64>,
        /// Of these: in which it used up its quota.
        periods_throttled: Option<u64>,
        /// Time that it was held back for that, added up over CPUs.
        throttled_ns: Option<i64>,
        /// Some task waited for a CPU.
        cpu_some_ns: Option<i64>,
        /// All that were not idle waited for a CPU.
        cpu_full_ns: Option<i64>,
        /// Some task waited for I/O.
        io_some_ns: Option<i64>,
        /// All that were not idle waited for I/O.
        io_full_ns: Option<i64>,
        /// Some task waited for memory.
        memory_some_ns: Option<i64>,
        /// All that were not idle waited for memory.
        memory_full_ns: Option<i64>,
    }
}
