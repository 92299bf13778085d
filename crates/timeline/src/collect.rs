//! Rows in order of time go in, each actor's intervals come out as chunks of its tracks.
//!
//! Of every track only the chunk that is being filled is in memory, and of all of them together
//! not more than [`HELD_BYTES`]: then the largest are written although they are not full. So the
//! number of tracks bounds nothing but the index.

use crate::chunk::{ChunkEntry, Filling, Interval, MAX_NS};
use crate::error::TimelineError;
use crate::index::{Codes, TrackEntry};
use crate::key::Interner;
use crate::track::{Actor, Kind};
use crate::unit::UnitWriter;
use rustc_hash::FxHashMap;

/// Memory of all chunks that are being filled.
const HELD_BYTES: usize = 48 << 20;
/// Lanes of one actor at most; what overlaps more often is counted and left out.
const MAX_LANES: usize = 256;

/// Number of an actor among those of a unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Slot(usize);

/// What is collected of one unit.
pub(crate) struct Collector {
    pub(crate) keys: Interner,
    /// Rows that no track could take.
    pub(crate) left_out: u64,
    writer: UnitWriter,
    tracks: Vec<Track>,
    /// Of each actor the numbers of its lanes' tracks.
    actors: Vec<ActorLanes>,
    numbers: FxHashMap<Actor, Slot>,
    held_bytes: usize,
    failed: Option<TimelineError>,
}

struct ActorLanes {
    actor: Actor,
    scale: Option<f64>,
    lanes: Vec<usize>,
}

struct Track {
    slot: usize,
    lane: usize,
    filling: Filling,
    last_end: i64,
    intervals: u64,
    busy_ns: i64,
    /// Has any interval a length?
    has_length: bool,
    chunks: Vec<ChunkEntry>,
}

impl Collector {
    pub(crate) fn new(writer: UnitWriter) -> Self {
        Collector {
            keys: Interner::default(),
            left_out: 0,
            writer,
            tracks: Vec::new(),
            actors: Vec::new(),
            numbers: FxHashMap::default(),
            held_bytes: 0,
            failed: None,
        }
    }

    /// The actor, made known if it is new. Its codes are keys, or values times `scale`.
    pub(crate) fn slot(&mut self, actor: Actor, scale: Option<f64>) -> Slot {
        if let Some(slot) = self.numbers.get(&actor) {
            return *slot;
        }
        let slot = Slot(self.actors.len());
        self.numbers.insert(actor.clone(), slot);
        self.actors.push(ActorLanes { actor, scale, lanes: Vec::new() });
        slot
    }

    /// Takes an interval. Those of one actor come in order of their start.
    #[inline]
    pub(crate) fn add(&mut self, slot: Slot, ts: i64, dur: i64, code: u64) {
        let is_time = |ts: i64| (-MAX_NS..=MAX_NS).contains(&ts);
        if dur < 0 || !is_time(ts) || !ts.checked_add(dur).is_some_and(is_time) {
            self.left_out += 1;
            return;
        }
        let interval = Interval { ts, dur, code };
        let free = |track: &usize| self.tracks[*track].last_end <= ts;
        match self.actors[slot.0].lanes.iter().find(|track| free(track)) {
            Some(track) => self.push(*track, slot, interval),
            None => self.add_lane(slot, interval),
        }
    }

    #[inline]
    fn push(&mut self, track: usize, slot: Slot, interval: Interval) {
        let is_key = self.actors[slot.0].scale.is_none();
        let key = u32::try_from(interval.code).ok().filter(|_| is_key);
        let is_rest = key.is_some_and(|key| self.keys.is_rest(key));
        let track = &mut self.tracks[track];
        let before = track.filling.held_bytes();
        track.filling.push(interval);
        track.last_end = interval.end();
        track.intervals += 1;
        track.busy_ns += if is_rest { 0 } else { interval.dur };
        track.has_length |= interval.dur > 0;
        let held = track.filling.held_bytes();
        if track.filling.is_full() {
            let done = track.write(&mut self.writer, false);
            self.note(done);
        }
        if held != before {
            self.grown(held - before);
        }
    }

    #[cold]
    fn add_lane(&mut self, slot: Slot, interval: Interval) {
        let actor = &mut self.actors[slot.0];
        if actor.lanes.len() >= MAX_LANES {
            self.left_out += 1;
            return;
        }
        let track = self.tracks.len();
        self.tracks.push(Track {
            slot: slot.0,
            lane: actor.lanes.len(),
            filling: Filling::default(),
            last_end: i64::MIN,
            intervals: 0,
            busy_ns: 0,
            has_length: false,
            chunks: Vec::new(),
        });
        actor.lanes.push(track);
        self.push(track, slot, interval);
    }

    /// A chunk needed more memory: if all together have too much, the largest are written.
    #[cold]
    fn grown(&mut self, by: usize) {
        self.held_bytes += by;
        if self.held_bytes <= HELD_BYTES {
            return;
        }
        let mut order: Vec<usize> = (0..self.tracks.len()).collect();
        order.sort_by_key(|track| std::cmp::Reverse(self.tracks[*track].filling.held_bytes()));
        for track in order {
            if self.held_bytes <= HELD_BYTES / 2 {
                return;
            }
            self.held_bytes -= self.tracks[track].filling.held_bytes();
            let done = self.tracks[track].write(&mut self.writer, true);
            self.note(done);
        }
    }

    fn note(&mut self, done: Result<(), TimelineError>) {
        if let Err(error) = done {
            self.failed.get_or_insert(error);
        }
    }

    /// Has writing failed, so that all further work is in vain?
    pub(crate) fn has_failed(&self) -> bool {
        self.failed.is_some()
    }

    /// Writes what is left. The file, its tracks in order of their actors, and the keys.
    pub(crate) fn finish(
        mut self,
    ) -> Result<(UnitWriter, Vec<TrackEntry>, Interner), TimelineError> {
        for at in 0..self.tracks.len() {
            let done = self.tracks[at].write(&mut self.writer, true);
            self.note(done);
        }
        if let Some(error) = self.failed {
            return Err(error);
        }
        self.writer.flush()?;
        let mut tracks: Vec<TrackEntry> =
            self.tracks.into_iter().map(|track| track.entry(&self.actors)).collect();
        tracks.sort_by(|a, b| (&a.actor, a.lane).cmp(&(&b.actor, b.lane)));
        Ok((self.writer, tracks, self.keys))
    }
}

impl Track {
    fn write(&mut self, writer: &mut UnitWriter, release: bool) -> Result<(), TimelineError> {
        if self.filling.is_empty() {
            return Ok(());
        }
        let offset = writer.offset();
        let (filling, chunks) = (&mut self.filling, &mut self.chunks);
        writer.append(|to| chunks.push(filling.take(offset, release, to)))
    }

    fn entry(self, actors: &[ActorLanes]) -> TrackEntry {
        let ActorLanes { actor, scale, .. } = &actors[self.slot];
        let codes = match scale {
            Some(scale) => Codes::Values(*scale),
            None if !self.has_length => Codes::Instants,
            None => Codes::Keys,
        };
        TrackEntry {
            actor: actor.clone(),
            lane: u32::try_from(self.lane).unwrap_or(u32::MAX),
            intervals: self.intervals,
            busy_ns: self.busy_ns,
            codes,
            chunks: self.chunks,
            tiles: Vec::new(),
        }
    }
}

/// Finds the slots of actors that a number tells apart within a machine: most rows are of the
/// actor of the row before, or of one seen not long ago.
pub(crate) struct Slots {
    kind: Kind,
    known: FxHashMap<(u32, i64), Slot>,
    last: Option<((u32, i64), Slot)>,
}

impl Slots {
    pub(crate) fn new(kind: Kind) -> Self {
        Slots { kind, known: FxHashMap::default(), last: None }
    }

    /// The slot of `number` of `machine`; `name` completes an actor that is new.
    #[inline]
    pub(crate) fn of(
        &mut self,
        machine: u32,
        number: i64,
        into: &mut Collector,
        name: impl FnOnce(&mut Actor),
    ) -> Slot {
        match self.last {
            Some((last, slot)) if last == (machine, number) => slot,
            _ => {
                let kind = self.kind;
                let slot = *self.known.entry((machine, number)).or_insert_with(|| {
                    let mut actor = Actor::of(machine, kind);
                    name(&mut actor);
                    into.slot(actor, None)
                });
                self.last = Some(((machine, number), slot));
                slot
            }
        }
    }
}
