//! Who loses events, and how many, under the same load with the same memory.
//!
//! Buffers are halved until the peer loses some; then ours has as much. All consumers are ordinary
//! processes that compete with the load for both CPUs.

use crate::{
    bed::Bed,
    recordings::mixed_load,
    report::{Goal, Row, Rows},
    stats::Paired,
    tracers::{MIXED, Perf, Record, Splice, Tracer, Wish},
};
use anyhow::{Context, Result};

pub(super) const ROWS: &[&str] = &["lost/ftrace", "lost/perf"];

/// The recorder's default, and downwards to the smallest a peer can have.
const BUFFERS_KIB: [u32; 7] = [8192, 4096, 2048, 1024, 512, 256, 128];
const ROUNDS: usize = 3;

pub(super) fn run(bed: &Bed, rows: &mut Rows) -> Result<()> {
    let peers: [(&str, &dyn Tracer); 2] = [("lost/ftrace", &Splice("local")), ("lost/perf", &Perf)];
    for (name, peer) in peers {
        if rows.wants(name) {
            let row = match peer.why_not(bed) {
                Some(why) => Row::skipped(name, why),
                None => beside(bed, name, peer)?,
            };
            rows.push(row.goal(Goal::ZeroWherePeerIsNot));
        }
    }
    Ok(())
}

fn beside(bed: &Bed, name: &str, peer: &dyn Tracer) -> Result<Row> {
    for kib in BUFFERS_KIB {
        let first = lost(bed, peer, kib)?;
        if first.0 == 0 {
            continue;
        }
        let mut paired = Paired::default();
        let mut events = Vec::new();
        for round in 0..bed.rounds.min(ROUNDS) {
            let theirs = if round == 0 { first } else { lost(bed, peer, kib)? };
            let ours = lost(bed, &Record::Compact, kib)?;
            #[expect(clippy::cast_precision_loss, reason = "counts")]
            paired.push(ours.0 as f64, theirs.0 as f64);
            events.push((ours.1, theirs.1));
        }
        let worst = paired.rounds.iter().map(|round| round.0).fold(0.0, f64::max);
        let counts: Vec<String> = events.iter().map(|(o, t)| format!("{o}:{t}")).collect();
        let mut row = Row::compared(name, "events", &paired).note(format!(
            "{} : {}, {kib} KiB per CPU, mixed load; recorded {}",
            Record::Compact.name(),
            peer.name(),
            counts.join(" ")
        ));
        // Zero is promised for every round, not for the median.
        row.ours = Some(worst);
        return Ok(row);
    }
    let least = BUFFERS_KIB.last().copied().unwrap_or_default();
    Ok(Row::skipped(name, format!("{} lost no events, even with {least} KiB per CPU", peer.name())))
}

/// Events lost and events recorded.
fn lost(bed: &Bed, tracer: &dyn Tracer, buffer_kib: u32) -> Result<(u64, u64)> {
    let wish = Wish { events: MIXED, buffer_kib, consumer_alone: false };
    let load = mixed_load(bed, if bed.quick { 1.0 } else { 3.0 });
    let (_, traced) = tracer.around(bed, &wish, &load).with_context(|| tracer.name())?;
    let lost =
        traced.lost.with_context(|| format!("{} does not count lost events", tracer.name()))?;
    Ok((lost, traced.events.unwrap_or(0)))
}
