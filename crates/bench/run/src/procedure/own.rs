//! The program that carries a plan out.

use super::boot::Boots;
use std::{path::PathBuf, sync::Arc};

/// What carries a plan out needs of the program that it is part of.
#[derive(Clone, Debug)]
pub struct Own {
    /// The binary that becomes a worker.
    pub worker: PathBuf,
    /// The arguments that make it one.
    pub worker_arguments: Vec<String>,
    /// The program's version.
    pub version: String,
    /// Who may reboot this host.
    pub boots: Arc<dyn Boots>,
}
