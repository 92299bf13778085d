//! `transect explain` on recordings that have tables, beside the import of the same events.

use super::import::pace;
use crate::{
    bed::{Bed, output, told},
    recordings,
    report::{Goal, Row, Rows},
    stats::Paired,
};
use anyhow::{Context as _, Result};
use serde::Deserialize;
use std::path::Path;

pub(super) const ROWS: &[&str] =
    &["explain/roots", "explain/roots/memory", "explain/window", "explain/window/memory"];

/// Events of the recording that is explained as a whole.
const EVENTS: u64 = 10_000_000;
/// Events of the one of which a second is explained.
const MANY: u64 = 100_000_000;
/// Threads that are explained.
const ROOTS: usize = 20;
const ROUNDS: usize = 3;

/// A process that ended.
#[derive(Deserialize)]
struct Ended {
    seconds: f64,
    peak_bytes: u64,
}

pub(super) fn run(bed: &Bed, rows: &mut Rows) -> Result<()> {
    if rows.wants_any(&ROWS[..2]) {
        whole(bed, rows)?;
    }
    if rows.wants_any(&ROWS[2..]) {
        second(bed, rows)?;
    }
    Ok(())
}

/// As many threads as are explained, beside the import and states of the same recording.
fn whole(bed: &Bed, rows: &mut Rows) -> Result<()> {
    let events = bed.sized(EVENTS);
    let dir = recordings::synthetic(bed, events, 4)?;
    let words = explain(bed, &dir, &busiest(bed, &dir)?);
    let mut paired = Paired::default();
    let mut peaks = Vec::new();
    for _ in 0..bed.rounds.min(ROUNDS) {
        let ours = ended(bed, &words)?;
        let import = pace(bed, &["states", &dir.display().to_string()])?;
        paired.push(ours.seconds, import.seconds);
        peaks.push(mib(ours.peak_bytes));
    }
    let note =
        format!("{ROOTS} threads in {events} events, with tables : import and states of the same");
    rows.push(Row::compared(ROWS[0], "s", &paired).note(note).goal(Goal::RatioAtMost(2.0)));
    rows.push(memory(ROWS[1], &peaks));
    Ok(())
}

/// Every vCPU in a second of a long recording.
fn second(bed: &Bed, rows: &mut Rows) -> Result<()> {
    let events = bed.sized(MANY);
    let dir = recordings::synthetic(bed, events, 4)?;
    make_tables(bed, &dir)?;
    let words = explain(bed, &dir, &["--from", "+1s", "--until", "+2s"].map(str::to_owned));
    let (mut seconds, mut peaks) = (Vec::new(), Vec::new());
    for _ in 0..bed.rounds.min(ROUNDS) {
        let ended = ended(bed, &words)?;
        seconds.push(ended.seconds);
        peaks.push(mib(ended.peak_bytes));
    }
    let note = format!("all vCPUs in one second of {events} events, with tables");
    rows.push(Row::measured(ROWS[2], "s", &seconds).note(note).goal(Goal::AtMost(1.0)));
    rows.push(memory(ROWS[3], &peaks));
    Ok(())
}

fn memory(name: &str, peaks: &[f64]) -> Row {
    Row::measured(name, "MiB", peaks).note("peak resident memory").goal(Goal::AtMost(512.0))
}

#[expect(clippy::cast_precision_loss, reason = "mebibytes")]
fn mib(bytes: u64) -> f64 {
    bytes as f64 / f64::from(1 << 20)
}

fn make_tables(bed: &Bed, dir: &Path) -> Result<()> {
    output(&transect(bed, &["tables", &dir.display().to_string()])).map(|_| ())
}

fn transect(bed: &Bed, words: &[&str]) -> Vec<String> {
    let all = [bed.transect.display().to_string()];
    all.into_iter().chain(words.iter().map(|word| (*word).to_owned())).collect()
}

fn explain(bed: &Bed, dir: &Path, more: &[String]) -> Vec<String> {
    let words = transect(bed, &["explain", &dir.display().to_string()]);
    words.into_iter().chain(more.iter().cloned()).collect()
}

/// The threads of the host with the most states, as arguments. Makes the tables.
fn busiest(bed: &Bed, dir: &Path) -> Result<Vec<String>> {
    make_tables(bed, dir)?;
    let sql = format!(
        "SELECT tid FROM thread_states WHERE machine_id = 0 AND tid > 0 GROUP BY tid ORDER BY count(*) DESC, tid LIMIT {ROOTS}"
    );
    let words = transect(bed, &["sql", &dir.display().to_string(), &sql, "--csv"]);
    let answer = output(&words)?;
    let tids =
        answer.lines().skip(1).flat_map(|tid| ["--thread".to_owned(), tid.trim().to_owned()]);
    Ok(tids.chain(["--vm", "host"].map(str::to_owned)).collect())
}

fn ended(bed: &Bed, words: &[String]) -> Result<Ended> {
    let script = bed.file("peak.py", include_str!("peak.py"))?;
    let python = [bed.python.display().to_string(), script];
    let words: Vec<String> = python.into_iter().chain(words.iter().cloned()).collect();
    told(&output(&words)?).context("transect explain")
}
