//! What can go wrong.

use crate::missing::Missing;
use transect_bpf::BpfError;
use transect_engine::EngineError;
use transect_tracefs::TracefsError;
use transect_xen::XenError;

/// Why there is no live view.
#[derive(Debug, thiserror::Error)]
pub enum LiveError {
    /// Nothing can be counted on this machine, or by this user.
    #[error("cannot observe this host: {why}")]
    Nothing {
        /// Why, and what to do.
        why: String,
        /// Every metric with that reason.
        missing: Vec<Missing>,
    },
    /// Counting failed.
    #[error(transparent)]
    Bpf(#[from] BpfError),
    /// The engine refused the stream.
    #[error(transparent)]
    Engine(#[from] EngineError),
    /// Xen's records stopped.
    #[error(transparent)]
    Xen(#[from] XenError),
    /// The kernel's trace buffers cannot be read.
    #[error(transparent)]
    Tracefs(#[from] TracefsError),
    /// The kernel's descriptions of its events cannot be understood.
    #[error("cannot parse the kernel's event formats: {0}")]
    Formats(String),
}
