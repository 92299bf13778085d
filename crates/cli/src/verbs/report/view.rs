//! The sections of a report, as `--view` names and explains them.

use clap::{
    ValueEnum,
    builder::{EnumValueParser, TypedValueParser as _},
};
use transect_report::View;

/// A value of `--view`.
#[derive(Clone, Copy, ValueEnum)]
enum ViewFlag {
    /// The main results in a few sentences: most delayed vCPUs and their antagonists, exit cost, lost events
    Summary,
    /// Findings: rules that hold in the range, each with advice (as of `transect explain`)
    Findings,
    /// Date, command and length of the recording
    Recording,
    /// Machines, their clocks with error bounds, and the causality check of the merged time
    Machines,
    /// Time of each vCPU by state
    Vcpus,
    /// Xen domains: XenMon's metrics and the combined state of each domain's vCPUs
    Domains,
    /// Occupancy of each CPU
    Cpus,
    /// VM exits by reason
    Exits,
    /// vCPUs and threads that held the CPU while a vCPU waited for it
    Antagonists,
    /// Threads of every machine; for guest threads also the vCPU state while they were scheduled in
    Threads,
    /// Wakeup latency of each thread
    Wakeups,
    /// Block requests by stage: from the guest's queue through the host and back
    Requests,
    /// Packets by stage: from the sender through the host to the receiver
    Packets,
    /// The vCPU metrics per window
    Windows,
    /// Lost events and the time they hide
    Lost,
    /// Problems and inferences while reading the recording
    Log,
    /// CPU time and disk space that the recording took
    Cost,
    /// Every event of every machine in time order (not with other views; with --json one object per line)
    Events,
}

impl From<ViewFlag> for View {
    fn from(flag: ViewFlag) -> Self {
        match flag {
            ViewFlag::Summary => View::Summary,
            ViewFlag::Findings => View::Findings,
            ViewFlag::Recording => View::Recording,
            ViewFlag::Machines => View::Machines,
            ViewFlag::Vcpus => View::Vcpus,
            ViewFlag::Domains => View::Domains,
            ViewFlag::Cpus => View::Cpus,
            ViewFlag::Exits => View::Exits,
            ViewFlag::Antagonists => View::Antagonists,
            ViewFlag::Threads => View::Threads,
            ViewFlag::Wakeups => View::Wakeups,
            ViewFlag::Requests => View::Requests,
            ViewFlag::Packets => View::Packets,
            ViewFlag::Windows => View::Windows,
            ViewFlag::Lost => View::Lost,
            ViewFlag::Log => View::Log,
            ViewFlag::Cost => View::Cost,
            ViewFlag::Events => View::Events,
        }
    }
}

/// Parses a value of `--view`.
pub(super) fn parser() -> impl clap::builder::TypedValueParser<Value = View> {
    EnumValueParser::<ViewFlag>::new().map(View::from)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests report by failing")]
    use super::*;

    #[test]
    fn docs_describe_every_view() {
        let docs = include_str!("../../../../../docs/reference/report.md");
        for view in ViewFlag::value_variants() {
            let name = view.to_possible_value().unwrap();
            assert!(
                docs.contains(&format!("`{}`", name.get_name())),
                "docs/reference/report.md lacks a view"
            );
        }
    }
}
