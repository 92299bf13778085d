//! Xen's trace, read whole and divided into states, beside xenalyze's summary of the same file.

use super::import::pace;
use crate::{
    bed::{Bed, command, is_installed},
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
    let one: &[&str] = &["states", &dir, "--threads", "1"];
    let mut peak = None;
    for (name, role, goal) in [(ROWS[0], one, 1.0), (ROWS[1], &["states", &dir][..], 2.0)] {
        if !rows.wants(name) {
            continue;
        }
        let mut paired = Paired::default();
        let mut records = 0;
        for _ in 0..bed.rounds {
            let ours = pace(bed, role)?;
            records = ours.events;
            peak = peak.max(Some(ours.peak_bytes));
            paired.push(ours.rate() / 1e6, xenalyze(&file, &ours)? / 1e6);
        }
        let row = Row::compared(name, UNIT, &paired).goal(Goal::RatioAtLeast(goal));
        let note = "every table's rows made, none kept : xenalyze --summary > /dev/null";
        rows.push(row.note(format!("{note}; made-up file of {records} records")));
    }
    if rows.wants(ROWS[2]) {
        let peak = match peak {
            Some(peak) => peak,
            None => pace(bed, &["states", &dir])?.peak_bytes,
        };
        #[expect(clippy::cast_precision_loss, reason = "mebibytes")]
        let mib = peak as f64 / f64::from(1 << 20);
        let note = "most ever resident, mapped file included";
        rows.push(Row::measured(ROWS[2], "MiB", &[mib]).goal(Goal::AtMost(512.0)).note(note));
    }
    Ok(())
}

/// Records it reads in a second: as many as we did.
#[expect(clippy::cast_precision_loss, reason = "a rate for people")]
fn xenalyze(file: &str, ours: &Pace) -> Result<f64> {
    let words = ["xenalyze", "--summary", file].map(str::to_owned);
    let begun = Instant::now();
    let status = command(&words)?.stdout(Stdio::null()).stderr(Stdio::null()).status();
    let status = status.with_context(|| words.join(" "))?;
    ensure!(status.success(), "{}: {status}", words.join(" "));
    Ok(ours.events as f64 / begun.elapsed().as_secs_f64())
}
