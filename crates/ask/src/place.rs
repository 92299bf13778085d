//! Location of the engine.

use crate::{NAME, error::AskError};
use std::path::PathBuf;

/// Path of the engine, in the folder of the running program. `PATH` is not searched, so that a root daemon cannot be
/// made to run another program of that name.
///
/// # Errors
/// [`AskError::Missing`] if there is no such file.
pub fn program() -> Result<PathBuf, AskError> {
    let here = std::env::current_exe().unwrap_or_default();
    let beside = here.with_file_name(NAME);
    if beside.is_file() { Ok(beside) } else { Err(AskError::Missing { here }) }
}
