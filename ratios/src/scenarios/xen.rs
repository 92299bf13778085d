//! Xen's trace, read whole and divided into states, beside xenalyze's summary of the same file.

use crate::{
    bed::{Bed, command, is_installed, on_one_cpu, output, told},
    recordings,
    report::{Goal, Row, Rows},
    roles::Pace,
    stats::Paired,
};
use anyhow::{Context, Result, ensure};
use std::{process::Stdio, time::Instant};

pub(super) const ROWS: &[&str] = &["xen/states-one-core", "xen/states", "xen/memory"];

const RECORDS: u64 = 50_000_000;
const UNIT: &str = "M rec/s";

pub(super) fn run(bed: &Bed, rows: &mut Rows) -> Result<()> {
    ensure!(is_installed("xenalyze"), "xenalyze is not installed (xen-utils-common)");
    let dir = recordings::xen(bed, bed.sized(RECORDS))?;
    let file = dir.join("xen.bin").display().to_string();
    let dir = dir.display().to_string();
    let mut peak = None;
    for (name, cores, goal) in [(ROWS[0], Cores::One, 1.0), (ROWS[1], Cores::All, 2.0)] {
        if !rows.wants(name) {
            continue;
        }
        let mut paired = Paired::default();
        let mut records = 0;
        for _ in 0..bed.rounds {
            let ours = states(bed, &dir, cores)?;
            records = ours.events;
            peak = peak.max(Some(ours.peak_bytes));
            paired.push(ours.rate() / 1e6, xenalyze(&file, &ours, cores)? / 1e6);
        }
        let row = Row::compared(name, UNIT, &paired).goal(Goal::RatioAtLeast(goal));
        let note = "rows of all tables made and discarded : xenalyze --summary > /dev/null";
        rows.push(row.note(format!("{note}; synthetic file of {records} records")));
    }
    if rows.wants(ROWS[2]) {
        let peak = match peak {
            Some(peak) => peak,
            None => states(bed, &dir, Cores::All)?.peak_bytes,
        };
        #[expect(clippy::cast_precision_loss, reason = "mebibytes")]
        let mib = peak as f64 / f64::from(1 << 20);
        let note = "peak resident memory, mapped file included";
        rows.push(Row::measured(ROWS[2], "MiB", &[mib]).goal(Goal::AtMost(512.0)).note(note));
    }
    Ok(())
}

/// On what a program runs.
#[derive(Clone, Copy)]
enum Cores {
    /// One, with whatever threads it has.
    One,
    All,
}

impl Cores {
    fn words(self, words: Vec<String>) -> Vec<String> {
        match self {
            Cores::One => on_one_cpu(words),
            Cores::All => words,
        }
    }
}

/// Our import and states.
fn states(bed: &Bed, dir: &str, cores: Cores) -> Result<Pace> {
    let role: &[&str] = match cores {
        Cores::One => &["states", dir, "--threads", "1"],
        Cores::All => &["states", dir],
    };
    told(&output(&cores.words(bed.role(role)))?)
}

/// Records it reads in a second: as many as we did. It has one thread.
#[expect(clippy::cast_precision_loss, reason = "a rate for people")]
fn xenalyze(file: &str, ours: &Pace, cores: Cores) -> Result<f64> {
    let words = cores.words(["xenalyze", "--summary", file].map(str::to_owned).to_vec());
    let begun = Instant::now();
    let status = command(&words)?.stdout(Stdio::null()).stderr(Stdio::null()).status();
    let status = status.with_context(|| words.join(" "))?;
    ensure!(status.success(), "{}: {status}", words.join(" "));
    Ok(ours.events as f64 / begun.elapsed().as_secs_f64())
}
