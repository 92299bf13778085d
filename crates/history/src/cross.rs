//! The series held against each other: what one has of a run, the others have had.
//!
//! All series of a run begin together, and a step is written after its windows. So where a run ends earlier in a finer
//! series than in a coarser one, frames or files at its end are gone; so are those at its beginning where something
//! older is there. What is missing at the end of a coarser series is made from the finer one at the next start.

use super::segment::{Lost, Segment, Why};
use std::collections::{BTreeMap, VecDeque};

/// Time of a run in a series, ns since 1970.
#[derive(Clone, Copy)]
struct Extent {
    begin: u64,
    end: u64,
}

impl Extent {
    fn over(self, other: Self) -> Self {
        Extent { begin: self.begin.min(other.begin), end: self.end.max(other.end) }
    }
}

/// Adds the windows that are gone at the beginnings and ends of runs. Series come with the lengths of their steps, the
/// finest first.
pub(crate) fn compare(series: &mut [(u64, &mut VecDeque<Segment>)]) {
    let slack = series.first().map_or(0, |(step_ns, _)| step_ns / 2);
    let own: Vec<_> = series.iter().map(|(_, segments)| runs(segments)).collect();
    // Older versions wrote steps before their windows.
    let mut all: BTreeMap<u64, Extent> = BTreeMap::new();
    for (run, (extent, is_new)) in own.iter().flatten() {
        if *is_new {
            all.entry(*run).and_modify(|known| *known = known.over(*extent)).or_insert(*extent);
        }
    }
    for (number, ((step_ns, segments), own)) in series.iter_mut().zip(&own).enumerate() {
        let whole = own.values().map(|(extent, _)| *extent).reduce(Extent::over);
        let Some(whole) = whole else { continue };
        for (run, known) in &all {
            let is_last = |end: u64| number > 0 && end.saturating_add(slack) >= whole.end;
            let is_first = |begin: u64| begin <= whole.begin.saturating_add(slack);
            let mut lose = |from: u64, until: u64| {
                let windows = (until - from).saturating_add(*step_ns / 2) / (*step_ns).max(1);
                add(segments, (from, until), windows.max(1), *run);
            };
            match own.get(run) {
                None if is_first(known.begin) || is_last(known.end) => {}
                None => lose(known.begin, known.end),
                Some((extent, _)) => {
                    let is_late = extent.begin > known.begin.saturating_add(slack);
                    if is_late && !is_first(extent.begin) {
                        lose(known.begin, extent.begin);
                    }
                    if known.end > extent.end.saturating_add(slack) && !is_last(extent.end) {
                        lose(extent.end, known.end);
                    }
                }
            }
        }
    }
}

/// The runs of a series, and whether a frame of the run is of this version.
fn runs(segments: &VecDeque<Segment>) -> BTreeMap<u64, (Extent, bool)> {
    let mut runs: BTreeMap<u64, (Extent, bool)> = BTreeMap::new();
    let mut add = |run: u64, begin: u64, end: u64, is_new: bool| {
        let extent = Extent { begin, end };
        let known = runs.entry(run).or_insert((extent, is_new));
        *known = (known.0.over(extent), known.1 || is_new);
    };
    for segment in segments {
        for (_, note) in &segment.frames {
            add(note.run, note.from_unix_ns, note.to_unix_ns, note.sum != 0);
        }
        for lost in segment.lost.iter().filter(|lost| lost.windows > 0) {
            add(lost.run, lost.from_unix_ns, lost.until_unix_ns, false);
        }
    }
    runs
}

/// Adds a stretch to the file before it, at its end, or, if there is none, to the first.
fn add(segments: &mut VecDeque<Segment>, (from, until): (u64, u64), windows: u64, run: u64) {
    let before = segments.iter().rposition(|segment| segment.begin_unix_ns() < until);
    let Some(segment) = segments.get_mut(before.unwrap_or(0)) else { return };
    segment.lost.push(Lost {
        offset: if before.is_some() { segment.bytes } else { 0 },
        bytes: 0,
        from_unix_ns: from,
        until_unix_ns: until,
        windows,
        run,
        why: Why::Missing,
    });
    segment.lost.sort_by_key(|lost| lost.offset);
}
