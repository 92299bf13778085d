//! How the cost of reading grows: with events (it should, in proportion), with VMs (it should not).

use super::import::pace;
use crate::{
    bed::Bed,
    recordings,
    report::{Goal, Row, Rows},
    stats::{Paired, median},
};
use anyhow::{Context, Result};

pub(super) const ROWS: &[&str] = &[
    "scale/events/1M",
    "scale/events/10M",
    "scale/events/100M",
    "scale/events",
    "scale/vms/1",
    "scale/vms/10",
    "scale/vms/100",
    "scale/vms/1000",
    "scale/vms",
];

/// Million events, for 4 VMs.
const SIZES: [u64; 3] = [1, 10, 100];
/// VMs, for ten million events.
const VMS: [u32; 4] = [1, 10, 100, 1000];

pub(super) fn run(bed: &Bed, rows: &mut Rows) -> Result<()> {
    let by_events = SIZES.map(|millions| Point {
        name: format!("scale/events/{millions}M"),
        events: bed.sized(millions * 1_000_000),
        vms: 4,
    });
    grow(bed, rows, "scale/events", &by_events, "100 M events : 1 M, ns per event")?;
    let by_vms = VMS.map(|vms| Point {
        name: format!("scale/vms/{vms}"),
        events: bed.sized(10_000_000),
        vms,
    });
    grow(bed, rows, "scale/vms", &by_vms, "1000 VMs : 1 VM, 10 M events each, ns per event")
}

struct Point {
    name: String,
    events: u64,
    vms: u32,
}

/// A row for each point, and one for the last beside the first.
fn grow(bed: &Bed, rows: &mut Rows, all: &str, points: &[Point], note: &str) -> Result<()> {
    if !rows.wants(all) && !points.iter().any(|point| rows.wants(&point.name)) {
        return Ok(());
    }
    let dirs: Vec<String> = points
        .iter()
        .map(|p| Ok(recordings::synthetic(bed, p.events, p.vms)?.display().to_string()))
        .collect::<Result<_>>()?;
    let mut ns: Vec<Vec<f64>> = vec![Vec::new(); points.len()];
    for _ in 0..bed.rounds.min(3) {
        for (dir, ns) in dirs.iter().zip(&mut ns) {
            // Small recordings are read so quickly that once says little.
            let again = if dir == dirs.first().map_or("", String::as_str) { 3 } else { 1 };
            let paces = (0..again).map(|_| Ok(1e9 / pace(bed, &["states", dir])?.rate()));
            let paces = paces.collect::<Result<Vec<f64>>>()?;
            ns.push(median(&paces).context("no round")?);
        }
    }
    for (point, ns) in points.iter().zip(&ns) {
        rows.push(Row::measured(&point.name, "ns/event", ns));
    }
    let (first, last) = (ns.first().context("no point")?, ns.last().context("no point")?);
    let rounds = last.iter().copied().zip(first.iter().copied()).collect();
    let row = Row::compared(all, "ns/event", &Paired { rounds });
    rows.push(row.goal(Goal::RatioAtMost(1.25)).note(note));
    Ok(())
}
