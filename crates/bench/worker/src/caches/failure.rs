//! What went wrong with a file.

use std::path::Path;
use transect_bench_core::Fault;

/// The file and the reason, as an error.
pub(super) fn failed(what: &str, path: &Path, error: &std::io::Error) -> Fault {
    Fault::failed(format!("cannot {what} {}: {error}", path.display()))
}
