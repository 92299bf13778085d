//! Which windows answer a question about the past, from disk and memory.

use super::index::{Index, Part};
use super::segment::{Gone, Place};
use crate::rendered::began_unix_ns;
use std::io;
use std::sync::Arc;
use transect_live::Snapshot;

/// Windows that are read one after the other: a frame of a file, or one that is in memory.
#[derive(Clone)]
pub enum Piece {
    /// A frame of a file, of the windows in this time.
    Disk {
        /// Where it is.
        place: Place,
        /// From when, ns since 1970.
        from: u64,
        /// Until when, ns since 1970.
        until: u64,
    },
    /// A window that is not written yet, and its number.
    Memory(Arc<Snapshot>, u64),
}

/// The answer to a question.
pub struct Planned {
    pub pieces: Vec<Piece>,
    /// Stretches of the range whose windows are gone, in order of time and without overlap.
    pub gone: Vec<Gone>,
}

impl Planned {
    pub fn gone_windows(&self) -> u64 {
        self.gone.iter().map(|gone| gone.windows).sum()
    }
}

impl Piece {
    /// Its windows, with their run. A file that became too old meanwhile and was deleted has none.
    ///
    /// # Errors
    /// The frame was damaged after it had been verified.
    pub fn read(&self, index: &Index) -> io::Result<Vec<(Arc<Snapshot>, u64)>> {
        match self {
            Piece::Memory(window, run) => Ok(vec![(Arc::clone(window), *run)]),
            Piece::Disk { place, from, until } => {
                let windows = match place.read() {
                    Ok(windows) => windows,
                    Err(error) if index.is_lost(place, &error) => {
                        let path = place.path.display();
                        index.tell(&format!(
                            "an answer of the history was ended before it was complete: {path}: the frame at byte \
                             {}: {error}",
                            place.offset
                        ));
                        return Err(error);
                    }
                    Err(_) => Vec::new(),
                };
                let is_in = |window: &Snapshot| {
                    let middle = super::fold::middle_unix_ns(window);
                    (*from..*until).contains(&middle)
                };
                let windows = windows.into_iter().filter(is_in);
                Ok(windows.map(|window| (Arc::new(window), place.note.run)).collect())
            }
        }
    }
}

/// As [`plan`], with every frame verified: what is damaged is left out, and is part of `gone`.
///
/// # Errors
/// The machine lacks something, such as file descriptors.
pub fn plan_verified(
    index: &Index,
    memory: &[Arc<Snapshot>],
    run: u64,
    wish: (u64, u64, u64),
) -> io::Result<Planned> {
    loop {
        let planned = plan(index, memory, run, wish);
        let places = planned.pieces.iter().filter_map(|piece| match piece {
            Piece::Disk { place, .. } => Some(place),
            Piece::Memory(..) => None,
        });
        // Each time around, the index has fewer frames.
        if index.check(places)? == 0 {
            return Ok(planned);
        }
    }
}

/// The pieces for `[from, until)` in steps of `step_ns`, in order of time and without overlap: from the
/// coarsest series that is fine enough, before its beginning from finer ones and then coarser ones, behind its end
/// from finer ones, and then from memory.
pub(crate) fn plan(
    index: &Index,
    memory: &[Arc<Snapshot>],
    run: u64,
    (from, until, step_ns): (u64, u64, u64),
) -> Planned {
    let series = index.parts(from, until);
    let fits = series.iter().rposition(|part| part.tier.step_ns <= step_ns).unwrap_or(0);
    // Edges that are the same in two series are some µs apart: the wall clock goes on beside the trace clock.
    let slack = series.first().map_or(0, |part| part.tier.step_ns / 2);
    let in_memory = memory.iter().map(|window| began_unix_ns(window)).min();
    let mut planned = Planned { pieces: Vec::new(), gone: Vec::new() };
    let mut begin = from;
    // Coarser series end where the finer ones begin: at an edge of theirs, if they get that far.
    for number in (fits + 1..series.len()).rev() {
        let part = &series[number];
        // What is in memory and not yet on disk is finer than any coarser series, too.
        let finer = series[..number].iter().filter_map(Part::first).chain(in_memory).min();
        let own = part.first().map(|own| own.max(begin));
        let (Some(own), Some(last)) = (own, part.last()) else { continue };
        if finer.is_some_and(|finer| own.saturating_add(slack) >= finer) {
            continue;
        }
        let end = finer.map_or(until, |finer| behind_step_over(part, finer, slack).min(last));
        if end > begin {
            add(&mut planned, part, begin, end);
            begin = end.min(last);
        }
    }
    // Finer ones, where they begin before the one that fits.
    let own = series.get(fits).and_then(Part::first);
    // In files of older versions, a step in which windows were missed seems to begin later than it does.
    let is_old = |part: &Part| part.places.first().is_some_and(|place| place.note.sum == 0);
    let old = series.get(fits).filter(|part| is_old(part));
    let slack_before = old.map_or(slack, |part| part.tier.step_ns);
    for part in series.iter().take(fits).rev() {
        let (Some(first), Some(last), Some(own)) = (part.first(), part.last(), own) else {
            continue;
        };
        let end = own.min(last);
        if first.saturating_add(slack_before) < own && end > begin {
            add(&mut planned, part, begin, end);
            begin = end;
        }
    }
    for part in series.iter().take(fits + 1).rev() {
        if let Some(last) = part.last().filter(|last| *last > begin) {
            add(&mut planned, part, begin, until);
            begin = last;
        }
    }
    let is_newer = |window: &&Arc<Snapshot>| {
        let middle = super::fold::middle_unix_ns(window);
        (begin..until).contains(&middle)
    };
    let newer = memory.iter().filter(is_newer);
    planned.pieces.extend(newer.map(|window| Piece::Memory(Arc::clone(window), run)));
    planned.gone = merged(std::mem::take(&mut planned.gone), slack);
    planned
}

/// The end of the step that begins before a moment and ends behind it; without one, the moment.
fn behind_step_over(part: &Part, moment: u64, slack: u64) -> u64 {
    let steps = part.places.iter().map(|place| (place.note.from_unix_ns, place.note.to_unix_ns));
    let over = |(from, to): &(u64, u64)| {
        from.saturating_add(slack) < moment && *to > moment.saturating_add(slack)
    };
    steps.filter(over).map(|(_, to)| to).max().unwrap_or(moment)
}

fn add(planned: &mut Planned, part: &Part, from: u64, until: u64) {
    let touches = |p: &&Place| p.note.from_unix_ns < until && p.note.to_unix_ns > from;
    let touched = part.places.iter().filter(touches);
    planned.pieces.extend(touched.map(|place| Piece::Disk { place: place.clone(), from, until }));
    planned.gone.extend(part.gone.iter().filter_map(|gone| within(gone, from, until)));
}

/// What of a stretch is in another, with its share of the windows.
fn within(gone: &Gone, from: u64, until: u64) -> Option<Gone> {
    let (begin, end) = (gone.from_unix_ns.max(from), gone.until_unix_ns.min(until));
    let (part, whole) = (end.checked_sub(begin)?, gone.until_unix_ns - gone.from_unix_ns);
    if part == 0 {
        return None;
    }
    let windows = (u128::from(gone.windows) * u128::from(part)).div_ceil(u128::from(whole));
    let windows = u64::try_from(windows).unwrap_or(gone.windows);
    Some(Gone { from_unix_ns: begin, until_unix_ns: end, windows })
}

/// In order of time, those that touch as one.
fn merged(mut all: Vec<Gone>, slack: u64) -> Vec<Gone> {
    all.sort_by_key(|gone| gone.from_unix_ns);
    let mut merged: Vec<Gone> = Vec::new();
    for gone in all {
        match merged.last_mut() {
            Some(last) if gone.from_unix_ns <= last.until_unix_ns.saturating_add(slack) => {
                last.until_unix_ns = last.until_unix_ns.max(gone.until_unix_ns);
                last.windows += gone.windows;
            }
            _ => merged.push(gone),
        }
    }
    merged
}
