//! What several arms need.

pub(super) mod child;
pub(super) mod cpu;
pub(super) mod events;
mod exits;
pub(super) mod instance;
pub(super) mod lttng;
pub(super) mod params;
pub(super) mod perf_control;
pub(super) mod program;
pub(super) mod recorder;

/// How long a tracer gets to begin: one that loads BPF programs on an emulated machine takes most of a minute.
pub(super) const START_PATIENCE: std::time::Duration = std::time::Duration::from_secs(120);
/// How long it gets to write what it has.
pub(super) const END_PATIENCE: std::time::Duration = std::time::Duration::from_secs(180);
