//! How a host is to be.

use std::time::Duration;

/// How a host is booted. What a real machine has is taken as it is.
#[derive(Clone, Debug)]
pub struct HostOptions {
    /// CPUs of a nested host.
    pub cpus: u32,
    /// Memory of a nested host in MiB.
    pub memory_mib: u32,
    /// When everything of this run is killed, whatever happens.
    pub lifetime: Duration,
}

impl Default for HostOptions {
    fn default() -> Self {
        Self { cpus: 2, memory_mib: 3072, lifetime: Duration::from_secs(1200) }
    }
}
