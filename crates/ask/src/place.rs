//! Where the engine is.

use crate::error::AskError;
use std::path::PathBuf;

/// The engine's program.
pub const NAME: &str = "transect-sql";

/// The engine beside the program that runs. No search path is looked at: a daemon of root's runs what was installed
/// with it, and nothing that lies elsewhere under the same name.
///
/// # Errors
/// [`AskError::Missing`] if there is none.
pub fn program() -> Result<PathBuf, AskError> {
    let here = std::env::current_exe().unwrap_or_default();
    let beside = here.with_file_name(NAME);
    if beside.is_file() { Ok(beside) } else { Err(AskError::Missing { here }) }
}
