//! What the history has, for readers and for `status`.

use super::frame::Note;
use super::segment::{Gone, Lost, Place, Segment, Why};
use super::series::Tier;
use std::collections::VecDeque;
use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

/// How the history is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum State {
    /// It is switched off.
    #[default]
    Off,
    /// What comes is written.
    Ok,
    /// There is no room; it goes on when there is.
    Full(String),
    /// It cannot be written for another reason, which is tried again.
    Failed(String),
}

impl State {
    /// All words there are.
    pub const WORDS: [&str; 4] = ["off", "ok", "full", "failed"];

    /// Its word in answers and metrics.
    pub fn word(&self) -> &'static str {
        match self {
            State::Off => "off",
            State::Ok => "ok",
            State::Full(_) => "full",
            State::Failed(_) => "failed",
        }
    }

    /// Why nothing is written.
    pub fn why(&self) -> Option<&str> {
        match self {
            State::Off | State::Ok => None,
            State::Full(why) | State::Failed(why) => Some(why),
        }
    }
}

/// Numbers for people and metrics.
#[derive(Clone, Debug, Default)]
pub struct Numbers {
    /// Is it written?
    pub state: State,
    /// Bytes on disk.
    pub bytes: u64,
    /// At most so many.
    pub bytes_limit: u64,
    /// When the oldest window there began, ns since 1970.
    pub oldest_unix_ns: Option<u64>,
    /// When the newest window there ended, ns since 1970.
    pub newest_unix_ns: Option<u64>,
    /// Windows on disk, and windows that could not be written, since the start.
    pub written: u64,
    /// See `written`.
    pub lost: u64,
    /// Attempts to write that failed.
    pub failures: u64,
    /// Files.
    pub files: u64,
    /// Windows of files that are there, which are damaged or missing.
    pub gone: u64,
}

/// Takes the log's lines.
type Tell = Arc<dyn Fn(&str) + Send + Sync>;

/// The files of all series, the finest first.
#[derive(Default)]
pub struct Index {
    inner: Mutex<Inner>,
    tell: OnceLock<Tell>,
}

/// What a series has of a stretch of time.
pub(crate) struct Part {
    pub tier: Tier,
    pub places: Vec<Place>,
    pub gone: Vec<Gone>,
}

impl Part {
    pub(crate) fn first(&self) -> Option<u64> {
        let gone = self.gone.iter().map(|gone| gone.from_unix_ns);
        self.places.iter().map(|place| place.note.from_unix_ns).chain(gone).min()
    }

    pub(crate) fn last(&self) -> Option<u64> {
        let gone = self.gone.iter().map(|gone| gone.until_unix_ns);
        self.places.iter().map(|place| place.note.to_unix_ns).chain(gone).max()
    }
}

#[derive(Default)]
pub(crate) struct Inner {
    pub series: Vec<(Tier, VecDeque<Segment>)>,
    pub numbers: Numbers,
}

impl Index {
    pub(crate) fn new(series: Vec<(Tier, VecDeque<Segment>)>, bytes_limit: u64) -> Self {
        let numbers = Numbers { state: State::Ok, bytes_limit, ..Numbers::default() };
        Index { inner: Mutex::new(Inner { series, numbers }), tell: OnceLock::new() }
    }

    /// Takes the lines about damage that is found from now on.
    pub fn tell_to(&self, tell: Tell) {
        let _ = self.tell.set(tell);
    }

    pub(crate) fn tell(&self, line: &str) {
        if let Some(tell) = self.tell.get() {
            tell(line);
        }
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What it has now.
    pub fn numbers(&self) -> Numbers {
        let inner = self.lock();
        let segments = || inner.series.iter().flat_map(|(_, segments)| segments);
        Numbers {
            bytes: inner.bytes(),
            oldest_unix_ns: segments().map(Segment::begin_unix_ns).min(),
            newest_unix_ns: segments().map(Segment::end_unix_ns).max(),
            files: segments().count() as u64,
            gone: segments().map(Segment::gone_windows).sum(),
            ..inner.numbers.clone()
        }
    }

    /// What each series has of a stretch of time, the finest first.
    pub(crate) fn parts(&self, from: u64, until: u64) -> Vec<Part> {
        let inner = self.lock();
        let of = |(tier, segments): &(Tier, VecDeque<Segment>)| {
            let touched =
                || segments.iter().filter(|s| s.begin_unix_ns() < until && s.end_unix_ns() > from);
            let is_in = |begin: u64, end: u64| begin < until && end > from;
            let places = touched().flat_map(Segment::places);
            let places = places.filter(|p| is_in(p.note.from_unix_ns, p.note.to_unix_ns));
            let mut places: Vec<Place> = places.collect();
            // Copies of frames may be in other files.
            if touched().flat_map(|s| &s.lost).any(|lost| lost.why == Why::Repeated) {
                places.sort_by_key(|place| place.note.from_unix_ns);
            }
            let gone = touched().flat_map(Segment::gone);
            let gone = gone.filter(|g| is_in(g.from_unix_ns, g.until_unix_ns)).collect();
            Part { tier: *tier, places, gone }
        };
        inner.series.iter().map(of).collect()
    }

    /// The frames of each series that have something of a stretch of time, the finest first.
    #[cfg(test)]
    pub(crate) fn places(&self, from: u64, until: u64) -> Vec<(Tier, Vec<Place>)> {
        self.parts(from, until).into_iter().map(|part| (part.tier, part.places)).collect()
    }

    /// Reads these frames and verifies them. Those that are damaged are taken out, reported and counted: their number.
    ///
    /// # Errors
    /// The machine lacks something: files cannot be read now.
    pub(crate) fn check<'p>(&self, places: impl Iterator<Item = &'p Place>) -> io::Result<u64> {
        let mut lost = Vec::new();
        for place in places {
            if let Err(error) = place.check() {
                lost.push((place, why(&error).ok_or(error)?));
            }
        }
        Ok(self.lose(&lost))
    }

    /// A checked frame cannot be read after all. True if the windows are gone, false if the file is not of the history
    /// any more, because it is too old.
    pub(crate) fn is_lost(&self, place: &Place, error: &io::Error) -> bool {
        if why(error).is_some_and(|why| self.lose(&[(place, why)]) > 0) {
            return true;
        }
        let inner = self.lock();
        let mut segments = inner.series.iter().flat_map(|(_, segments)| segments);
        segments.any(|segment| segment.path == place.path)
    }

    /// Takes damaged frames out, and reports each file once. Gives the number of those that were there.
    fn lose(&self, places: &[(&Place, Why)]) -> u64 {
        let (mut lost, mut lines) = (0, Vec::new());
        let mut inner = self.lock();
        for (_, segments) in &mut inner.series {
            for segment in segments {
                let path = Arc::clone(&segment.path);
                let mut news = Vec::new();
                for (place, why) in places.iter().filter(|(place, _)| place.path == path) {
                    // A file that cannot be opened has none of its frames.
                    let all = (*why == Why::Unreadable).then(|| segment.places().collect());
                    for place in all.unwrap_or_else(|| vec![(*place).clone()]) {
                        if segment.lose(&place, *why) {
                            news.push(Lost::of(place.offset, &place.note, *why));
                        }
                    }
                }
                lost += news.len() as u64;
                lines.extend(segment.report_of(&news));
            }
        }
        drop(inner);
        lines.iter().for_each(|line| self.tell(line));
        lost
    }

    /// The end of what a series has, ns since 1970.
    pub fn end_of(&self, series: usize) -> u64 {
        let inner = self.lock();
        let segments = inner.series.get(series).map(|(_, segments)| segments);
        segments.and_then(|s| s.iter().map(Segment::end_unix_ns).max()).unwrap_or(0)
    }

    /// The run of the newest frame of a series, and its end.
    pub(crate) fn run_end_of(&self, series: usize) -> Option<(u64, u64)> {
        let inner = self.lock();
        let (_, segments) = inner.series.get(series)?;
        let frames = segments.iter().filter_map(|segment| segment.frames.last());
        frames.max_by_key(|(_, note)| note.to_unix_ns).map(|(_, note)| (note.run, note.to_unix_ns))
    }

    /// Takes a frame, or a note without one, that was written.
    pub(crate) fn add(&self, series: usize, place: &Place) {
        let mut inner = self.lock();
        let Some((_, segments)) = inner.series.get_mut(series) else { return };
        if segments.back().is_none_or(|segment| segment.path != place.path) {
            let (path, frames, lost) = (place.path.clone(), Vec::new(), Vec::new());
            segments.push_back(Segment { path, frames, lost, bytes: 0, cause: None });
        }
        let Some(segment) = segments.back_mut() else { return };
        // A note that accounts for a gap before it may be between it and the frame before.
        segment.bytes = place.offset + place.note.whole_bytes();
        match place.note {
            note if note.has_frame() => segment.frames.push((place.offset, note)),
            Note { windows: 0, .. } => {}
            note => segment.lost.push(Lost::of(place.offset, &note, Why::Removed)),
        }
    }

    /// Takes one file out that is too old at `now`, or the oldest while there is too much: it is to be deleted.
    pub(crate) fn expire(&self, now: u64, is_open: impl Fn(&Path) -> bool) -> Option<Segment> {
        let mut inner = self.lock();
        let too_much = inner.bytes() > inner.numbers.bytes_limit;
        let oldest = inner.series.iter().enumerate().filter_map(|(number, (tier, segments))| {
            let first = segments.front().filter(|segment| !is_open(&segment.path))?;
            let is_old = first.end_unix_ns().saturating_add(tier.keep_ns) < now;
            (is_old || too_much).then(|| (!is_old, first.end_unix_ns(), number))
        });
        let (_, _, number) = oldest.min()?;
        inner.series.get_mut(number)?.1.pop_front()
    }

    /// Notes how writing went.
    pub fn note(&self, change: impl FnOnce(&mut Numbers)) {
        change(&mut self.lock().numbers);
    }
}

impl Inner {
    fn bytes(&self) -> u64 {
        self.series.iter().flat_map(|(_, segments)| segments).map(|segment| segment.bytes).sum()
    }
}

/// Why a frame that cannot be read is gone; none if the machine has no room to read it now.
fn why(error: &io::Error) -> Option<Why> {
    use io::ErrorKind::{IsADirectory, NotADirectory, NotFound, PermissionDenied};
    let is_of_disk = |code: i32| code == rustix::io::Errno::IO.raw_os_error();
    match error.kind() {
        NotFound | PermissionDenied | IsADirectory | NotADirectory => Some(Why::Unreadable),
        // What is no error of the system is one of the content.
        _ if error.raw_os_error().is_none_or(is_of_disk) => Some(Why::Damaged),
        _ => None,
    }
}
