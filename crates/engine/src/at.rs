//! The place and time of an event.

use transect_model::ids::{CpuId, Tid};

/// Where and when an event happened, and in whose name.
#[derive(Clone, Copy)]
pub(crate) struct At {
    /// Index of the machine.
    pub(crate) m: usize,
    pub(crate) cpu: CpuId,
    /// Index of the CPU.
    pub(crate) c: usize,
    pub(crate) t: i64,
    pub(crate) tid: Tid,
}
