//! The sections of a report.

/// One section of a report.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum View {
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

impl View {
    /// Views shown when none is asked for. Windows are many lines, so they come with `--window`.
    pub const DEFAULT: [View; 16] = [
        View::Summary,
        View::Findings,
        View::Recording,
        View::Machines,
        View::Vcpus,
        View::Domains,
        View::Antagonists,
        View::Exits,
        View::Cpus,
        View::Threads,
        View::Wakeups,
        View::Requests,
        View::Packets,
        View::Lost,
        View::Log,
        View::Cost,
    ];
}
