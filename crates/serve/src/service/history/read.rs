//! Which windows answer a question about the past, from disk and memory.

use super::index::Index;
use super::series::Place;
use crate::service::hub::began_unix_ns;
use std::io;
use std::sync::Arc;
use transect_live::Snapshot;

/// Windows that are read one after the other: a frame of a file, or one that is in memory.
#[derive(Clone)]
pub(crate) enum Piece {
    Disk { place: Place, from: u64, until: u64 },
    Memory(Arc<Snapshot>, u64),
}

impl Piece {
    /// Its windows, with their run. A file that was deleted meanwhile has none.
    pub(crate) fn read(&self) -> io::Result<Vec<(Arc<Snapshot>, u64)>> {
        match self {
            Piece::Memory(window, run) => Ok(vec![(Arc::clone(window), *run)]),
            Piece::Disk { place, from, until } => {
                let windows = match place.read() {
                    Ok(windows) => windows,
                    Err(error) if error.kind() == io::ErrorKind::NotFound => Vec::new(),
                    Err(error) => return Err(error),
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

/// The pieces for `[from, until)` in steps of `step_ns`, in order of time and without overlap: from the
/// coarsest series that is fine enough, before its beginning from coarser ones, behind its end from
/// finer ones, and then from memory.
pub(crate) fn plan(
    index: &Index,
    memory: &[Arc<Snapshot>],
    run: u64,
    (from, until, step_ns): (u64, u64, u64),
) -> Vec<Piece> {
    let series = index.places(from, until);
    let fits = series.iter().rposition(|(tier, _)| tier.step_ns <= step_ns).unwrap_or(0);
    let in_memory = memory.iter().map(|window| began_unix_ns(window)).min();
    let mut pieces: Vec<Piece> = Vec::new();
    let mut begin = from;
    // Coarser series end where the finer ones begin: at an edge of theirs, if they get that far.
    for number in (fits..series.len()).rev() {
        let (tier, places) = &series[number];
        let finer = series[fits..number].iter().filter_map(|(_, finer)| first(finer));
        // What is in memory and not yet on disk is finer than any coarser series, too.
        let finer = finer.chain(in_memory.filter(|_| number > fits)).min();
        let own = first(places).map(|own| own.max(begin));
        if own.is_none() || finer.is_some_and(|finer| own >= Some(finer)) {
            continue;
        }
        let last = last(places).unwrap_or(begin);
        let end = finer.map_or(until, |finer| finer.next_multiple_of(tier.step_ns).min(last));
        if end > begin {
            add(&mut pieces, places, begin, end);
            begin = end.min(last);
        }
    }
    for (_, places) in series[..fits].iter().rev() {
        if let Some(last) = last(places).filter(|last| *last > begin) {
            add(&mut pieces, places, begin, until);
            begin = last;
        }
    }
    let is_newer = |window: &&Arc<Snapshot>| {
        let middle = super::fold::middle_unix_ns(window);
        (begin..until).contains(&middle)
    };
    let newer = memory.iter().filter(is_newer);
    pieces.extend(newer.map(|window| Piece::Memory(Arc::clone(window), run)));
    pieces
}

fn first(places: &[Place]) -> Option<u64> {
    places.iter().map(|place| place.note.from_unix_ns).min()
}

fn last(places: &[Place]) -> Option<u64> {
    places.iter().map(|place| place.note.to_unix_ns).max()
}

fn add(pieces: &mut Vec<Piece>, places: &[Place], from: u64, until: u64) {
    let touches = |p: &&Place| p.note.from_unix_ns < until && p.note.to_unix_ns > from;
    let touched = places.iter().filter(touches);
    pieces.extend(touched.map(|place| Piece::Disk { place: place.clone(), from, until }));
}
