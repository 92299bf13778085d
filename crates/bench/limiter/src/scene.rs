//! What is known of a run: the samples of its machines, and what its parts say.

use transect_bench_core::{
    protocol::{Exits, TracerCost},
    samples::Samples,
};

/// What is known of a run besides samples. Everything optional: `default()` is a native run without tracer.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RunFacts {
    /// `Facts::accelerator` of the platform.
    pub accelerator: String,
    /// What the tracer arm did and cost.
    pub tracer: Option<TracerCost>,
    /// Exits of the guest, from transect's own tables: where an arm of it recorded its host.
    pub exits: Option<Exits>,
    /// What an open-loop generator was to send, and did.
    pub offered: Option<Offered>,
}

impl RunFacts {
    /// Is the machine a container: threads of the host's own kernel, and no vCPUs?
    pub(crate) fn shares_kernel(&self) -> bool {
        matches!(self.accelerator.as_str(), "crun" | "systemd-nspawn")
    }
}

/// Load of an open-loop generator.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Offered {
    /// Requests a second that were due.
    pub due_per_s: f64,
    /// Requests a second that were sent.
    pub sent_per_s: f64,
    /// Share of requests that left later than they should have, 0 to 1.
    pub late_share: f64,
    /// All of it conformed, and it was the most that was to be tried.
    pub is_most: bool,
}

/// All that is known of a run.
#[derive(Clone, Copy, Debug)]
pub struct Scene<'a> {
    /// Where the workload ran.
    pub machine: &'a Samples,
    /// The host below, with the VMM's threads watched; `None` where the machine is this host.
    pub host: Option<&'a Samples>,
    /// Where the load came from, if somewhere else (or another process).
    pub generator: Option<&'a Samples>,
    /// Besides.
    pub facts: &'a RunFacts,
}
