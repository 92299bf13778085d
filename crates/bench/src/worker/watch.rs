//! Who samples the machine while a workload runs.

use crate::{Fault, sampling::Samples};

/// Starts sampling: of the workload's process with all its threads and children, and of the machine; so many
/// milliseconds between two samples. Called when everything else is ready, directly before the measured part.
pub type StartWatch = fn(pid: u32, every_ms: u64) -> Result<Box<dyn Watch>, Fault>;

/// Sampling that goes on. Dropping it ends it.
pub trait Watch {
    /// Ends it; the workload's process is still there. Gives what was seen.
    fn stop(self: Box<Self>) -> Result<Samples, Fault>;
}
