//! Walls around the SQL engine's children, checked before `serve` and `view` listen.

use anyhow::bail;
use transect_ask::{missing_walls, program};

/// Reports each wall that this machine does not have. With `is_required` a missing wall is an error.
pub(crate) fn check_sandbox(is_required: bool, tell: &dyn Fn(&str)) -> anyhow::Result<()> {
    let missing = match program().and_then(|program| missing_walls(&program)) {
        Ok(missing) => missing,
        // No query runs without the engine.
        Err(error) => {
            tell(&error.to_string());
            return Ok(());
        }
    };
    for wall in &missing {
        tell(&format!("a wall around SQL queries is missing: {wall}"));
    }
    if is_required && !missing.is_empty() {
        let missing = missing.join("; ");
        bail!(
            "--require-sandbox: a wall is missing: {missing} (see docs/reference/sql.md, The walls)"
        );
    }
    Ok(())
}
