//! What is asked for.

use crate::XenOptions;
use std::path::PathBuf;
use transect_access::Readers;

/// What is to become a recording.
#[derive(Clone, Debug)]
pub struct Import {
    /// trace.dat files of one host and any of its guests; or an xentrace file and the files of its domains' kernels, as
    /// `DOMID=FILE`.
    pub files: Vec<PathBuf>,
    /// The recording to be made.
    pub output: PathBuf,
    /// Who may read it.
    pub readers: Readers,
    /// TSC frequency of the host in Hz, for x86-tsc files that lack it.
    pub tsc_hz: Option<u64>,
    /// Saved output of Xen's tools, which has the TSC frequency.
    pub xen_tsc: Option<PathBuf>,
    /// Facts that a trace of Xen lacks.
    pub xen: XenOptions,
    /// The command line, for the manifest.
    pub command_line: Vec<String>,
}
