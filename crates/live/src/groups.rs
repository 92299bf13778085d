//! Rows about containers, and about what control groups and the host were short of.

use crate::record::record;
use transect_model::ids::MachineId;

record! {
    /// A container, pod, machine, service or slice: the sum of all control groups in it.
    #[derive(Default)]
    ContainerWindow {
        /// Start of the window, ns of trace time.
        ts: i64,
        /// Length of the window, ns.
        dur: i64,
        /// The host.
        machine_id: MachineId,
        /// Kind: docker, podman, containerd, cri-o, kubernetes, pod, lxc, nspawn, libvirt, machine, ecs, container, service, scope, slice or group.
        kind: String,
        /// Name that its manager gave it; if that is unknown, a name from its control group.
        name: String,
        /// Identifier that its manager gave it; of a pod, the UID.
        id: Option<String>,
        /// Name of the pod, or its UID if the name is unknown.
        pod: Option<String>,
        /// Namespace of the pod.
        namespace: Option<String>,
        /// Path of its control group; its threads are in this group or below it.
        cgroup: String,
        /// Control group of the container around it.
        parent: Option<String>,
        /// The VM that runs in the container.
        vm_machine_id: Option<MachineId>,
        /// Number of threads.
        threads: u64,
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
        /// State unknown.
        unknown_ns: i64,
        /// In guest mode (part of gotten).
        guest_ns: i64,
        /// VM exits.
        exits: u64,
        /// Migrations to another CPU.
        migrations: u64,
        /// Waits for a CPU that ended in the window.
        waits: u64,
        /// Median of these waits, an upper bound.
        wait_p50_ns: Option<u64>,
        /// 99th percentile of these waits, an upper bound.
        wait_p99_ns: Option<u64>,
        /// Longest of these waits.
        wait_max_ns: u64,
    }
}

impl ContainerWindow {
    /// What people call it: `namespace/pod/name`, as far as it has them.
    pub fn full_name(&self) -> String {
        let own = (self.kind != "pod").then_some(&self.name);
        let parts: Vec<&str> = [self.namespace.as_ref(), self.pod.as_ref(), own]
            .into_iter()
            .flatten()
            .map(String::as_str)
            .collect();
        if parts.is_empty() { self.name.clone() } else { parts.join("/") }
    }

    /// Has it a name besides its control group's?
    pub(crate) fn is_named(&self) -> bool {
        !["service", "scope", "slice", "group"].contains(&self.kind.as_str())
    }
}

record! {
    /// What a control group, or the host, was short of: from one look at the kernel's counters to the next.
    #[derive(Default, Eq)]
    PressureWindow {
        /// Time of the previous reading of the counters.
        ts: i64,
        /// Time between the two readings. Longer than a window if the group was idle in between.
        dur: i64,
        /// The host.
        machine_id: MachineId,
        /// The control group; null: the host as a whole.
        cgroup: Option<String>,
        /// CPU quota in each period.
        quota_ns: Option<i64>,
        /// Length of a quota period.
        period_ns: Option<i64>,
        /// Quota periods in which the group had runnable threads.
        periods: Option<u64>,
        /// Quota periods in which the group used up its quota.
        periods_throttled: Option<u64>,
        /// Time for which the group was throttled, added up over CPUs.
        throttled_ns: Option<i64>,
        /// Time in which some task waited for a CPU.
        cpu_some_ns: Option<i64>,
        /// Time in which all non-idle tasks waited for a CPU.
        cpu_full_ns: Option<i64>,
        /// Time in which some task waited for I/O.
        io_some_ns: Option<i64>,
        /// Time in which all non-idle tasks waited for I/O.
        io_full_ns: Option<i64>,
        /// Time in which some task waited for memory.
        memory_some_ns: Option<i64>,
        /// Time in which all non-idle tasks waited for memory.
        memory_full_ns: Option<i64>,
    }
}
