//! The rows of an earlier run.

use serde_json::Value;

/// A row of the run by its name.
pub(super) fn row<'r>(run: &'r Value, name: &str) -> Option<&'r Value> {
    run.get("rows")?.as_array()?.iter().find(|row| row["name"] == name)
}
