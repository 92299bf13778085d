//! What the built `transect` answers.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, ensure};

use crate::csv::Table;

/// The answer of `transect sql` to a question about a recording.
///
/// # Errors
/// If it fails, or answers something else than a table.
pub fn table(transect: &Path, recording: &Path, question: &str) -> Result<Table> {
    let mut sql = Command::new(transect);
    Table::parse(&output(sql.arg("sql").arg(recording).args(["--csv", question]))?)
}

/// What a program prints.
///
/// # Errors
/// If it cannot be started or fails; with what it said.
pub fn output(command: &mut Command) -> Result<String> {
    let out = command.output().with_context(|| format!("cannot run {command:?}"))?;
    let said = || String::from_utf8_lossy(&out.stderr).into_owned();
    ensure!(out.status.success(), "{command:?}: {}\n{}", out.status, said());
    String::from_utf8(out.stdout).context("an answer that is not UTF-8")
}
