//! What the history has, for readers and for `status`.

use super::series::{Place, Segment, Tier};
use std::collections::VecDeque;
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// How the history is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) enum State {
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
    pub(crate) const WORDS: [&str; 4] = ["off", "ok", "full", "failed"];

    pub(crate) fn word(&self) -> &'static str {
        match self {
            State::Off => "off",
            State::Ok => "ok",
            State::Full(_) => "full",
            State::Failed(_) => "failed",
        }
    }

    pub(crate) fn why(&self) -> Option<&str> {
        match self {
            State::Off | State::Ok => None,
            State::Full(why) | State::Failed(why) => Some(why),
        }
    }
}

/// Numbers for people and metrics.
#[derive(Clone, Debug, Default)]
pub(crate) struct Numbers {
    pub(crate) state: State,
    pub(crate) bytes: u64,
    pub(crate) bytes_limit: u64,
    pub(crate) oldest_unix_ns: Option<u64>,
    pub(crate) newest_unix_ns: Option<u64>,
    /// Windows on disk, and windows that could not be written, since the start.
    pub(crate) written: u64,
    pub(crate) lost: u64,
    pub(crate) failures: u64,
    pub(crate) files: u64,
}

/// The files of all series, the finest first.
#[derive(Default)]
pub(crate) struct Index {
    inner: Mutex<Inner>,
}

#[derive(Default)]
pub(super) struct Inner {
    pub(super) series: Vec<(Tier, VecDeque<Segment>)>,
    pub(super) numbers: Numbers,
}

impl Index {
    pub(super) fn new(series: Vec<(Tier, VecDeque<Segment>)>, bytes_limit: u64) -> Self {
        let numbers = Numbers { state: State::Ok, bytes_limit, ..Numbers::default() };
        Index { inner: Mutex::new(Inner { series, numbers }) }
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn numbers(&self) -> Numbers {
        let inner = self.lock();
        let segments = || inner.series.iter().flat_map(|(_, segments)| segments);
        Numbers {
            bytes: inner.bytes(),
            oldest_unix_ns: segments().map(Segment::begin_unix_ns).min(),
            newest_unix_ns: segments().map(Segment::end_unix_ns).max(),
            files: segments().count() as u64,
            ..inner.numbers.clone()
        }
    }

    /// The frames of each series that have something of a stretch of time, the finest first.
    pub(crate) fn places(&self, from: u64, until: u64) -> Vec<(Tier, Vec<Place>)> {
        let inner = self.lock();
        let touches =
            |place: &Place| place.note.from_unix_ns < until && place.note.to_unix_ns > from;
        let of = |(tier, segments): &(Tier, VecDeque<Segment>)| {
            let touched =
                segments.iter().filter(|s| s.begin_unix_ns() < until && s.end_unix_ns() > from);
            (*tier, touched.flat_map(Segment::places).filter(touches).collect())
        };
        inner.series.iter().map(of).collect()
    }

    /// The end of what a series has, ns since 1970.
    pub(super) fn end_of(&self, series: usize) -> u64 {
        let inner = self.lock();
        let segments = inner.series.get(series).map(|(_, segments)| segments);
        segments.and_then(|s| s.iter().map(Segment::end_unix_ns).max()).unwrap_or(0)
    }

    /// The run of the newest frame of a series, and its end.
    pub(super) fn run_end_of(&self, series: usize) -> Option<(u64, u64)> {
        let inner = self.lock();
        let (_, segments) = inner.series.get(series)?;
        let frames = segments.iter().filter_map(|segment| segment.frames.last());
        frames.max_by_key(|(_, note)| note.to_unix_ns).map(|(_, note)| (note.run, note.to_unix_ns))
    }

    pub(super) fn add(&self, series: usize, place: &Place) {
        let mut inner = self.lock();
        let Some((_, segments)) = inner.series.get_mut(series) else { return };
        let known = segments.back_mut().filter(|segment| segment.path == place.path);
        match known {
            Some(segment) => {
                segment.frames.push((place.offset, place.note));
                segment.bytes = place.offset + place.note.whole_bytes();
            }
            None => segments.push_back(Segment {
                path: place.path.clone(),
                frames: vec![(place.offset, place.note)],
                lost: Vec::new(),
                bytes: place.offset + place.note.whole_bytes(),
            }),
        }
    }

    /// Takes one file out that is too old at `now`, or the oldest while there is too much: it is to be deleted.
    pub(super) fn expire(&self, now: u64, is_open: impl Fn(&Path) -> bool) -> Option<Segment> {
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
    pub(super) fn note(&self, change: impl FnOnce(&mut Numbers)) {
        change(&mut self.lock().numbers);
    }
}

impl Inner {
    fn bytes(&self) -> u64 {
        self.series.iter().flat_map(|(_, segments)| segments).map(|segment| segment.bytes).sum()
    }
}
