//! What may be touched.

/// Whose resources may be touched.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Target {
    /// The workload's processes (or the VMM's, for what held it on the host); their descendants are touched too.
    pub pids: Vec<u32>,
    /// An interface that only the workload uses (a veth, a tap). `None`: no interface may be slowed.
    pub interface: Option<String>,
    /// Threads of the load generator, if they can be chosen.
    pub generator_threads: Option<u32>,
}
