//! Walls that this machine has around the engine's children.

use crate::error::AskError;
use std::path::Path;
use std::process::{Command, Stdio};

/// Returns the walls that are missing around children of `program`, one line each.
///
/// # Errors
/// The program cannot be run.
pub fn missing_walls(program: &Path) -> Result<Vec<String>, AskError> {
    let failed = |source| AskError::Start { path: program.to_owned(), source };
    let mut command = Command::new(program);
    command.arg("--check-sandbox").env_clear().stdin(Stdio::null());
    let output = command.output().map_err(failed)?;
    let lines = |bytes: &[u8]| -> Vec<String> {
        String::from_utf8_lossy(bytes).lines().map(str::to_owned).collect()
    };
    let missing = lines(&output.stdout);
    if output.status.success() || !missing.is_empty() {
        return Ok(missing);
    }
    let why = lines(&output.stderr).pop().unwrap_or_default();
    Err(AskError::Ended(format!("{why} ({})", output.status)))
}
