//! What cannot be had here, and why: data, not a zero.

use crate::record::record;
use transect_model::ids::MachineId;
use transect_tracefs::Namespaces;

/// A group of columns that are had together or not at all.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Metric {
    /// Who had the CPU: without it there is nothing.
    Scheduling,
    /// Time between a wakeup and getting the CPU, apart from sleep.
    Waking,
    /// Moves to another CPU.
    Migrations,
    /// Threads that begin: their time before is offline, else unknown.
    Births,
    /// VM exits.
    Exits,
    /// VM exits by reason with their durations.
    ExitDurations,
    /// Time in guest mode.
    GuestTime,
    /// Sleep in a halt of the guest, apart from other sleep.
    HaltedTime,
    /// Halts, and how they ended.
    Halts,
    /// Device accesses and device interrupts.
    IoCount,
    /// Interrupts injected into guests.
    Injections,
    /// Block requests.
    BlockIo,
    /// Packets.
    NetIo,
    /// How long packets take.
    NetDurations,
    /// Which thread runs which vCPU.
    VcpuThreads,
    /// VMs that have no events of KVM yet, and the names of all.
    Vms,
    /// Processes of threads.
    Processes,
    /// Control groups of threads and VMs, and with them containers.
    ControlGroups,
    /// How long control groups were held back by their bounds on CPU time.
    Throttling,
    /// Pressure stalls.
    Pressure,
    /// Those of single control groups.
    GroupPressure,
}

/// Each metric: its word, and the columns of rows that it fills.
const METRICS: &[(Metric, &str, &[&str])] = &[
    (Metric::Scheduling, "scheduling", &["executions", "gotten_ns", "waited_ns", "blocked_ns"]),
    (Metric::Waking, "waking", &["waking_ns"]),
    (Metric::Migrations, "migrations", &["migrations"]),
    (Metric::Births, "births", &[]),
    (Metric::Exits, "exits", &["exits"]),
    (Metric::ExitDurations, "exit_durations", &[]),
    (Metric::GuestTime, "guest_time", &["guest_ns"]),
    (Metric::HaltedTime, "halted_time", &["halted_ns"]),
    (Metric::Halts, "halts", &["halts", "halts_polled", "poll_ns"]),
    (Metric::IoCount, "io_count", &["io_count"]),
    (Metric::Injections, "injections", &["injections"]),
    (Metric::BlockIo, "block_io", &[]),
    (Metric::NetIo, "net_io", &[]),
    (Metric::NetDurations, "net_durations", &[]),
    (Metric::VcpuThreads, "vcpu_threads", &[]),
    (Metric::Vms, "vms", &[]),
    (Metric::Processes, "processes", &[]),
    (Metric::ControlGroups, "control_groups", &[]),
    (Metric::Throttling, "throttling", &["periods", "periods_throttled", "throttled_ns"]),
    (
        Metric::Pressure,
        "pressure",
        &[
            "cpu_some_ns",
            "cpu_full_ns",
            "io_some_ns",
            "io_full_ns",
            "memory_some_ns",
            "memory_full_ns",
        ],
    ),
    (Metric::GroupPressure, "group_pressure", &[]),
];

impl Metric {
    /// Its word in faces.
    pub fn as_str(self) -> &'static str {
        METRICS.iter().find(|(metric, ..)| *metric == self).map_or("", |(_, word, _)| word)
    }

    /// The columns of rows that it fills.
    pub fn columns(self) -> &'static [&'static str] {
        METRICS.iter().find(|(metric, ..)| *metric == self).map_or(&[], |(.., columns)| columns)
    }
}

record! {
    /// A metric that cannot be had.
    Missing {
        /// Name of the metric (see [`Metric::as_str`]).
        metric: String,
        /// The machine for which the metric is missing; null: all machines.
        machine_id: Option<MachineId>,
        /// The reason, and the fix if there is one.
        why: String,
    }
}

impl Missing {
    /// Of all machines.
    pub fn everywhere(metric: Metric, why: impl Into<String>) -> Self {
        Missing { metric: metric.as_str().to_owned(), machine_id: None, why: why.into() }
    }

    /// The columns of rows that are null for it.
    pub fn columns(&self) -> &'static [&'static str] {
        let found = METRICS.iter().find(|(_, word, _)| *word == self.metric);
        found.map_or(&[], |(.., columns)| columns)
    }
}

/// Everything, for one reason: where counting cannot even begin.
pub fn everything(why: &str) -> Vec<Missing> {
    METRICS.iter().map(|(metric, ..)| Missing::everywhere(*metric, why)).collect()
}

/// The metrics that the namespaces of this process hide. Events have names of threads; if they also have processes,
/// these are not missing.
pub(crate) fn hidden_by(namespaces: &Namespaces, events_have_processes: bool) -> Vec<Missing> {
    let fix = namespaces.fix().unwrap_or_default();
    let mut missing = Vec::new();
    let mut hide = |metric, what: &str, why: &str| {
        missing.push(Missing::everywhere(metric, format!("{what}: {why}. {fix}")));
    };
    if let Some(why) = namespaces.why_no_processes() {
        hide(Metric::Vms, "VMs are known from events of KVM only, without their names", why);
        if !events_have_processes {
            hide(
                Metric::Processes,
                "each thread counts as a process, because events do not have the processes of threads",
                why,
            );
        }
    }
    if let Some(why) = namespaces.why_no_cgroups() {
        hide(Metric::ControlGroups, "control groups and containers are unknown", why);
    }
    missing
}

/// The metrics that lack for these events, each with the first event's reason.
pub(crate) fn without_events<'a>(
    lacking: impl Iterator<Item = (&'a str, &'a str)> + Clone,
) -> Vec<Missing> {
    let needs: &[(Metric, &[&str])] = &[
        (Metric::Waking, &["sched:sched_waking"]),
        (Metric::Migrations, &["sched:sched_migrate_task"]),
        (Metric::Births, &["sched:sched_process_fork"]),
        (Metric::Exits, &["kvm:kvm_exit"]),
        (Metric::ExitDurations, &["kvm:kvm_exit", "kvm:kvm_entry"]),
        (Metric::GuestTime, &["kvm:kvm_entry", "kvm:kvm_exit"]),
        (Metric::HaltedTime, &["kvm:kvm_exit"]),
        (Metric::Halts, &["kvm:kvm_vcpu_wakeup"]),
        (Metric::IoCount, &["kvm:kvm_pio", "kvm:kvm_mmio"]),
        (Metric::Injections, &["kvm:kvm_inj_virq"]),
        (Metric::BlockIo, &["block:block_rq_issue", "block:block_rq_complete"]),
        (Metric::NetIo, &["net:net_dev_xmit", "net:netif_receive_skb"]),
    ];
    let lack = |(metric, events): &(Metric, &[&str])| {
        let (event, why) = lacking.clone().find(|(event, _)| events.contains(event))?;
        Some(Missing::everywhere(*metric, format!("needs {event}: {why}")))
    };
    needs.iter().filter_map(lack).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_metric_lacks_with_any_of_its_events_and_says_which() {
        let lacking = [("kvm:kvm_entry", "never traced"), ("net:net_dev_xmit", "refused")];
        let missing = without_events(lacking.into_iter());
        let words: Vec<_> = missing.iter().map(|m| m.metric.as_str()).collect();
        assert_eq!(words, ["exit_durations", "guest_time", "net_io"]);
        assert!(missing[1].why.contains("kvm:kvm_entry") && missing[1].why.contains("never"));
        assert_eq!(missing[1].columns(), ["guest_ns"]);
    }

    #[test]
    fn where_nothing_can_be_had_everything_is_missing_with_the_reason() {
        let missing = everything("not root");
        assert_eq!(missing.len(), METRICS.len());
        assert!(missing.iter().all(|m| m.why == "not root" && !m.metric.is_empty()));
    }
}
