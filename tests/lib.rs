//! What the end-to-end tests share: where the built binaries are, and reading reports.
//!
//! **Design constraints.** Tests run what a user runs (the release binaries of `make build`), look at
//! what a user sees (files, JSON, exit codes), and compare with peers reading the same files.

#![allow(clippy::print_stdout, reason = "what happened belongs in the log of a test run")]

use anyhow::{Context, Result, ensure};
use serde_json::Value;
use std::{
    env,
    path::{Path, PathBuf},
    process::Command,
};
pub use transect_testbed::on_shared_host;

/// The target folder that `make build` filled.
fn target() -> PathBuf {
    match env::var_os("TRANSECT_BIN_DIR").or_else(|| env::var_os("CARGO_TARGET_DIR")) {
        Some(dir) => PathBuf::from(dir),
        None => Path::new(env!("CARGO_MANIFEST_DIR")).join("../target"),
    }
}

fn built(path: PathBuf) -> Result<PathBuf> {
    ensure!(path.is_file(), "{} is not built: run `make build` first", path.display());
    path.canonicalize().context("no absolute path")
}

/// The `transect` binary.
pub fn transect() -> Result<PathBuf> {
    built(target().join("release/transect"))
}

/// The static guest agent.
pub fn agent() -> Result<PathBuf> {
    let triple = format!("{}-unknown-linux-gnu", env::consts::ARCH);
    built(target().join(triple).join("agent/transect-agent"))
}

/// Runs a program here and gives its standard output; an exit code other than 0 is an error.
pub fn output_of(program: impl AsRef<std::ffi::OsStr>, args: &[&str]) -> Result<String> {
    let program = program.as_ref();
    let out = Command::new(program).args(args).output().with_context(|| format!("{program:?}"))?;
    ensure!(
        out.status.success(),
        "{program:?} {args:?}: {}\n{}",
        out.status,
        String::from_utf8_lossy(&out.stderr)
    );
    Ok(String::from_utf8_lossy(&out.stdout).into_owned())
}

/// `transect report DIR --json`, parsed.
pub fn report(recording: &Path) -> Result<Value> {
    report_with(recording, &[])
}

/// The same, with further arguments.
pub fn report_with(recording: &Path, more: &[&str]) -> Result<Value> {
    let dir = recording.to_str().context("path is not UTF-8")?;
    let args: Vec<&str> =
        ["report", dir, "--json"].into_iter().chain(more.iter().copied()).collect();
    serde_json::from_str(&output_of(transect()?, &args)?).context("report --json is not JSON")
}

/// Every row of every table of a recording, as `transect export --to jsonl` writes them.
pub fn table_rows(recording: &Path) -> Result<Vec<Value>> {
    table_rows_by(recording, &[])
}

/// The same, with more arguments.
pub fn table_rows_by(recording: &Path, more: &[&str]) -> Result<Vec<Value>> {
    let dir = recording.to_str().context("path is not UTF-8")?;
    let args = ["export", dir, "--to", "jsonl", "-o", "-"].into_iter().chain(more.iter().copied());
    lines(&output_of(transect()?, &args.collect::<Vec<_>>())?)
}

/// JSON lines.
pub fn lines(text: &str) -> Result<Vec<Value>> {
    text.lines().map(|line| serde_json::from_str(line).context("a line is not JSON")).collect()
}

/// A section of a JSON report, as a list of rows.
pub fn rows<'a>(report: &'a Value, section: &str) -> Result<&'a Vec<Value>> {
    report[section].as_array().with_context(|| format!("no list {section} in the report"))
}

/// A number of a row.
pub fn number(row: &Value, column: &str) -> Result<i64> {
    row[column].as_i64().with_context(|| format!("no number {column} in {row}"))
}

/// The events of one machine of a recording as `transect report --view events` prints them, with
/// single blanks and without the machine in front.
pub fn events_of(recording: &Path, machine: &str) -> Result<Vec<String>> {
    let dir = recording.to_str().context("path is not UTF-8")?;
    let text = output_of(transect()?, &["report", dir, "--view", "events", "--vm", machine])?;
    let prefix = format!("{machine}: ");
    Ok(text.lines().map(|line| normal(line.trim_start().trim_start_matches(&prefix))).collect())
}

/// The events of a file as `trace-cmd report -R -t` prints them, with single blanks.
pub fn trace_cmd_events(file: &Path) -> Result<Vec<String>> {
    let file = file.to_str().context("path is not UTF-8")?;
    let text = output_of("trace-cmd", &["report", "-i", file, "-R", "-t"])?;
    // The first line counts the CPUs.
    Ok(text.lines().skip(1).map(normal).collect())
}

/// From the thread's number on: columns are padded differently, and a file may know a longer name of
/// a kernel worker than the 15 bytes every event carries. Nothing else may differ.
fn normal(line: &str) -> String {
    let line = line.replace(']', "] ");
    let (who, rest) = line.split_once(" [").unwrap_or((&line, ""));
    let tid = who.trim().rsplit('-').next().unwrap_or_default();
    format!("{tid} [{}", rest.split_whitespace().collect::<Vec<_>>().join(" "))
}
