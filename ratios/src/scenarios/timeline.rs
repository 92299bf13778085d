//! The timeline's tiles: how fast they are made beside only reading what they are made of, in how
//! much memory, and how soon there is something to draw once they exist.

use super::import::pace;
use crate::{
    bed::{Bed, output},
    recordings,
    report::{Goal, Row, Rows},
    stats::Paired,
};
use anyhow::Result;

pub(super) const ROWS: &[&str] =
    &["timeline/tiles", "timeline/floor", "timeline/memory", "timeline/first-screen"];

/// Events of the recording.
const EVENTS: u64 = 100_000_000;
/// Rounds of a build that takes ten seconds.
const ROUNDS: usize = 3;

pub(super) fn run(bed: &Bed, rows: &mut Rows) -> Result<()> {
    let events = bed.sized(EVENTS);
    let dir = recordings::synthetic(bed, events, 4)?;
    let words =
        [bed.transect.display().to_string(), "tables".to_owned(), dir.display().to_string()];
    let tables = output(&words)?.trim().to_owned();
    let scratch = bed.scratch()?;
    let parent = scratch.path().display().to_string();
    let count = events.to_string();
    let role = |more: &[&str]| {
        pace(bed, &[&["tiles", tables.as_str(), parent.as_str(), count.as_str()], more].concat())
    };
    let (mut rates, mut floors, mut peaks, mut opened) = (vec![], vec![], vec![], vec![]);
    let mut paired = Paired { rounds: Vec::new() };
    for _ in 0..bed.rounds.min(ROUNDS) {
        let floor = role(&["--floor"])?;
        let made = role(&[])?;
        paired.push(made.seconds, floor.seconds);
        rates.push(made.rate() / 1e6);
        floors.push(floor.rate() / 1e6);
        #[expect(clippy::cast_precision_loss, reason = "for people")]
        peaks.push(made.peak_bytes as f64 / f64::from(1 << 20));
        opened.push(role(&["--open"])?.seconds * 1e3);
    }
    let times = paired.ratios();
    let beside = crate::stats::median(&times).unwrap_or_default();
    let note =
        format!("{events} events with all their tables; {beside:.1} times the time of the floor");
    rows.push(
        Row::measured("timeline/tiles", "M ev/s", &rates).goal(Goal::AtLeast(5.0)).note(note),
    );
    let note = "decoding of the columns that tiles are made of, nothing else";
    rows.push(Row::measured("timeline/floor", "M ev/s", &floors).note(note));
    let note = "peak memory while tiles are made, mapped files included";
    let memory = Row::measured("timeline/memory", "MiB", &peaks).goal(Goal::AtMost(256.0));
    rows.push(memory.note(note));
    let note = "tiles exist: process start, tracks, keys, the whole recording of 60 tracks";
    let first = Row::measured("timeline/first-screen", "ms", &opened).goal(Goal::AtMost(1000.0));
    rows.push(first.note(note));
    Ok(())
}
