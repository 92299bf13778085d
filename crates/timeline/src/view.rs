//! A recording's timeline, open for reading: tracks, keys, tiles.

use crate::error::TimelineError;
use crate::index::{Codes, TileEntry, TrackEntry};
use crate::key::{Class, NOTHING, OTHERS, RESERVED, RawKey};
use crate::names::{Machine, Names};
use crate::pyramid::{EXACT_INTERVALS, MAX_LEVEL, tile_ns, top_level};
use crate::rows;
use crate::stamp::Stamp;
use crate::tile::{Share, ValueBucket, decode_shares, decode_values, scaled};
use crate::track::{Actor, Kind, Shape};
use crate::unit::Unit;
use rustc_hash::FxHashMap;
use std::path::Path;
use std::sync::Arc;
use transect_integrity::Folder;

/// One row of the timeline.
#[derive(Clone, Debug, PartialEq)]
pub struct Track {
    /// Its number; the same in every view of the recording, partial ones too.
    pub track: u32,
    /// The group it is in, or the track it is a lane of.
    pub parent: Option<u32>,
    /// Whose it is.
    pub actor: Actor,
    /// Its name for people.
    pub name: String,
    /// The table its intervals are from; empty for groups.
    pub table: String,
    /// Which lane of its actor: beyond the first where intervals overlap.
    pub lane: u32,
    /// Order within all tracks.
    pub sort: i64,
    /// How many intervals it has.
    pub intervals: u64,
    /// Time of them in which something was done, or waited for the CPU, ns.
    pub busy_ns: i64,
    /// What they are; none for groups.
    pub shape: Option<Shape>,
    /// Where it is stored; none for groups.
    place: Option<(usize, usize)>,
}

/// What an interval is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Key {
    /// Colour and pattern.
    pub class: Class,
    /// The state, as its table says.
    pub state: String,
    /// In one line, for people.
    pub label: String,
    /// By whom or whose.
    pub machine_id: Option<u32>,
    /// Whose vCPU.
    pub vcpu: Option<u32>,
    /// Whose thread.
    pub tid: Option<i32>,
    /// Why.
    pub reason: Option<String>,
}

/// An interval of a track, with its final key.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Shown {
    /// Start, ns of trace time.
    pub ts: i64,
    /// Length, ns; 0 is an instant.
    pub dur: i64,
    /// Its key; [`NOTHING`] in tracks of numbers.
    pub key: u32,
    /// Its value, in tracks of numbers.
    pub value: Option<f64>,
}

/// What is in one tile of one track.
#[derive(Clone, Debug, PartialEq)]
pub enum Tile {
    /// All intervals that reach into it, in order.
    Exact(Vec<Shown>),
    /// Shares of its buckets, by bucket and key.
    Shares(Vec<Share>),
    /// What its number was like, by bucket.
    Values(Vec<ValueBucket>),
}

impl Tile {
    /// Number of its rows.
    pub(crate) fn rows(&self) -> usize {
        match self {
            Tile::Exact(rows) => rows.len(),
            Tile::Shares(rows) => rows.len(),
            Tile::Values(rows) => rows.len(),
        }
    }
}

/// Tracks, keys and tiles of a recording.
#[derive(Debug)]
pub struct View {
    origin: i64,
    to: i64,
    names: Names,
    units: Vec<Arc<Unit>>,
    tracks: Vec<Track>,
    by_number: FxHashMap<u32, usize>,
    keys: Vec<Key>,
    /// Of each unit, the final numbers of its keys.
    key_numbers: Vec<Vec<u32>>,
}

/// Groups of a machine, in order; the first is the machine itself.
const GROUPS: [Kind; 7] =
    [Kind::Machine, Kind::Cpus, Kind::Vcpus, Kind::Threads, Kind::Io, Kind::Counters, Kind::Events];

impl View {
    /// Opens the tiles in `parent/view`, if they were made from these tables and are whole.
    ///
    /// # Errors
    /// There are none, or they are stale, cut or damaged.
    pub fn open(parent: &Path, tables: &Path) -> Result<Self, TimelineError> {
        let stamp = Stamp::read(parent, tables)?;
        let units = stamp.open_units(parent)?;
        Self::of_units(&rows::open_folder(tables)?, (stamp.origin, stamp.to), units)
    }

    pub(crate) fn of_units(
        tables: &Folder,
        (origin, to): (i64, i64),
        units: Vec<Arc<Unit>>,
    ) -> Result<Self, TimelineError> {
        let mut view = View {
            origin,
            to,
            names: Names::read(tables)?,
            units: Vec::new(),
            tracks: Vec::new(),
            by_number: FxHashMap::default(),
            keys: Vec::new(),
            key_numbers: Vec::new(),
        };
        view.join_keys(&units);
        view.join_tracks(&units);
        view.units = units;
        Ok(view)
    }

    /// First moment of the recording: where tile 0 of every level begins.
    pub fn origin(&self) -> i64 {
        self.origin
    }

    /// Its end.
    pub fn to(&self) -> i64 {
        self.to
    }

    /// The level at which one tile covers the recording.
    pub fn top_level(&self) -> u8 {
        top_level(self.to - self.origin)
    }

    /// The coarsest level that has tiles: nine above the one at which one tile covers the recording.
    pub fn level_max(&self) -> u8 {
        self.top_level().saturating_add(9).min(MAX_LEVEL)
    }

    /// Its machines.
    pub fn machines(&self) -> &[Machine] {
        &self.names.machines
    }

    /// All tracks, groups too, in order of their numbers.
    pub fn tracks(&self) -> &[Track] {
        &self.tracks
    }

    /// The track of that number.
    pub fn track(&self, number: u32) -> Option<&Track> {
        self.tracks.get(*self.by_number.get(&number)?)
    }

    /// All keys; a key's number is its place.
    pub fn keys(&self) -> &[Key] {
        &self.keys
    }

    /// Rows that no track shows, by table: their length made no sense, or more than 256 of
    /// one actor overlapped.
    pub fn left_out(&self) -> impl Iterator<Item = (&str, u64)> {
        let indexes = self.units.iter().map(|unit| &unit.index);
        indexes.filter(|index| index.left_out > 0).map(|i| (i.table.as_str(), i.left_out))
    }

    pub(crate) fn stored(&self, track: &Track) -> Option<(usize, &Unit, &TrackEntry)> {
        let (unit, at) = track.place?;
        let stored = &self.units[unit];
        Some((unit, stored, &stored.index.tracks[at]))
    }

    /// Tile `index` of a track at a level; none where it is empty or the track is a group.
    ///
    /// # Errors
    /// There is no such track or level, or its file is damaged.
    pub fn tile(&self, track: u32, level: u8, index: i64) -> Result<Option<Tile>, TimelineError> {
        // A coarser tile has no sums: it would be all intervals of the track.
        let level_max = self.level_max();
        if level > level_max {
            return Err(TimelineError::Request(format!("no level {level}: up to {level_max}")));
        }
        let found = self.track(track);
        let found = found.ok_or_else(|| TimelineError::Request(format!("no track {track}")))?;
        let Some((number, unit, entry)) = self.stored(found) else { return Ok(None) };
        if let Some(tile) = entry.tile(level, index) {
            return self.sums(number, unit, entry, tile).map(Some);
        }
        let from = index.checked_mul(tile_ns(level)).and_then(|at| at.checked_add(self.origin));
        let to = from.and_then(|from| from.checked_add(tile_ns(level)));
        let (Some(from), Some(to)) = (from, to) else { return Ok(None) };
        let intervals = self.intervals_of(number, unit, entry, from, to)?;
        Ok((!intervals.is_empty()).then_some(Tile::Exact(intervals)))
    }

    /// Intervals of a track that reach into `[from, to)`, up to `limit`.
    ///
    /// # Errors
    /// There is no such track, or its file is damaged.
    pub fn intervals(
        &self,
        track: u32,
        from: i64,
        to: i64,
        limit: usize,
    ) -> Result<Vec<Shown>, TimelineError> {
        let found = self.track(track);
        let found = found.ok_or_else(|| TimelineError::Request(format!("no track {track}")))?;
        let Some((number, unit, entry)) = self.stored(found) else { return Ok(Vec::new()) };
        let chunks = entry.chunks_in(from, to);
        // A chunk has up to 4,096: more of them than the limit needs are not read.
        let to_read = chunks.start..chunks.end.min(chunks.start + limit / 1024 + 2);
        let mut shown = Vec::new();
        self.read(number, unit, entry, to_read, (from, to), &mut shown)?;
        shown.truncate(limit);
        Ok(shown)
    }

    /// The interval at a moment of a track, the one before, and the one after; where nothing is
    /// there, the middle is none. An instant is there at its own moment.
    ///
    /// # Errors
    /// There is no such track, or its file is damaged.
    pub fn around(&self, track: u32, ts: i64) -> Result<[Option<Shown>; 3], TimelineError> {
        let found = self.track(track);
        let found = found.ok_or_else(|| TimelineError::Request(format!("no track {track}")))?;
        let Some((number, unit, entry)) = self.stored(found) else { return Ok([None; 3]) };
        let at = entry.chunks.partition_point(|chunk| chunk.first_ts <= ts);
        let near = at.saturating_sub(2)..entry.chunks.len().min(at + 1);
        let mut shown = Vec::new();
        self.read(number, unit, entry, near, (i64::MIN, i64::MAX), &mut shown)?;
        let next = shown.partition_point(|interval| interval.ts <= ts);
        let is_at = |i: &Shown| i.ts + i.dur > ts || i.ts == ts;
        let place = |at: Option<usize>| at.and_then(|at| shown.get(at).copied());
        let here = place(next.checked_sub(1)).filter(is_at);
        let before = next.checked_sub(if here.is_some() { 2 } else { 1 });
        Ok([place(before), here, place(Some(next))])
    }

    fn intervals_of(
        &self,
        number: usize,
        unit: &Unit,
        entry: &TrackEntry,
        from: i64,
        to: i64,
    ) -> Result<Vec<Shown>, TimelineError> {
        let chunks = entry.chunks_in(from, to);
        let mut shown = Vec::new();
        self.read(number, unit, entry, chunks, (from, to), &mut shown)?;
        debug_assert!(shown.len() as u64 <= EXACT_INTERVALS || tile_ns(0) > to - from);
        Ok(shown)
    }

    fn read(
        &self,
        number: usize,
        unit: &Unit,
        entry: &TrackEntry,
        chunks: std::ops::Range<usize>,
        (from, to): (i64, i64),
        shown: &mut Vec<Shown>,
    ) -> Result<(), TimelineError> {
        let mut intervals = Vec::new();
        for chunk in &entry.chunks[chunks] {
            intervals.clear();
            unit.blobs.chunk(chunk, &mut intervals)?;
            // In order of their ends, too: they do not overlap.
            let first = intervals.partition_point(|i| i.end() <= from && i.ts < from);
            let within = intervals[first..].iter().take_while(|i| i.ts < to);
            shown.extend(within.filter(|i| i.end() > from || i.ts >= from).map(|interval| {
                let (key, value) = match entry.codes {
                    Codes::Values(scale) => (NOTHING, Some(scaled(interval.code, scale))),
                    _ => (self.key_number(number, crate::sums::key_of(interval)), None),
                };
                Shown { ts: interval.ts, dur: interval.dur, key, value }
            }));
        }
        Ok(())
    }

    fn sums(
        &self,
        number: usize,
        unit: &Unit,
        entry: &TrackEntry,
        tile: &TileEntry,
    ) -> Result<Tile, TimelineError> {
        let bytes = unit.blobs.tile(tile)?;
        let bad = || unit.blobs.bad_tile(tile);
        if let Codes::Values(scale) = entry.codes {
            let mut values = Vec::new();
            decode_values(&bytes, scale, &mut values).ok_or_else(bad)?;
            return Ok(Tile::Values(values));
        }
        let mut shares = Vec::new();
        decode_shares(&bytes, &mut shares).ok_or_else(bad)?;
        for share in &mut shares {
            share.key = self.key_number(number, share.key);
        }
        shares.sort_by_key(|share| (share.bucket, share.key));
        Ok(Tile::Shares(shares))
    }

    /// A unit's key, as all of the view knows it.
    pub(crate) fn key_number(&self, unit: usize, key: u32) -> u32 {
        match key.checked_sub(RESERVED) {
            Some(at) => self.key_numbers[unit].get(at as usize).copied().unwrap_or(OTHERS),
            None => key,
        }
    }

    fn join_keys(&mut self, units: &[Arc<Unit>]) {
        let mut numbers: FxHashMap<(RawKey, &str, &str), u32> = FxHashMap::default();
        self.keys = vec![reserved("no data"), reserved("others")];
        for unit in units {
            let words = &unit.index.words;
            let word = |at: u32| words.get(at as usize).map_or("", String::as_str);
            let mut of_unit = Vec::with_capacity(unit.index.keys.len());
            for raw in &unit.index.keys {
                let (state, reason) = (word(raw.state), word(raw.reason));
                let same = (RawKey { state: 0, reason: 0, ..*raw }, state, reason);
                let next = u32::try_from(self.keys.len()).unwrap_or(OTHERS);
                let number = *numbers.entry(same).or_insert(next);
                if number == next {
                    self.keys.push(self.names.key(raw, state, reason));
                }
                of_unit.push(number);
            }
            self.key_numbers.push(of_unit);
        }
    }

    fn join_tracks(&mut self, units: &[Arc<Unit>]) {
        self.groups();
        self.cgroups();
        let mut next = number_of(self.tracks.len());
        let mut numbers: FxHashMap<(&Actor, u32), u32> = FxHashMap::default();
        let mut tracks = Vec::new();
        for (unit, stored) in units.iter().enumerate() {
            for (at, entry) in stored.index.tracks.iter().enumerate() {
                numbers.insert((&entry.actor, entry.lane), next);
                tracks.push(self.track_of(entry, &stored.index.table, next, (unit, at)));
                next += 1;
            }
        }
        let groups = self.tracks.iter().map(|track| (track.actor.clone(), track.track)).collect();
        for track in &mut tracks {
            track.parent = self.parent_of(track, &numbers, &groups);
        }
        self.tracks.extend(tracks);
        let by_number = self.tracks.iter().enumerate().map(|(at, track)| (track.track, at));
        self.by_number = by_number.collect();
    }

    fn groups(&mut self) {
        for (at, machine) in self.names.machines.iter().enumerate() {
            let first = number_of(at * GROUPS.len());
            let parent = machine.parent_id.and_then(|id| {
                let at = self.names.machines.iter().position(|m| m.machine_id == id)?;
                Some(number_of(at * GROUPS.len()))
            });
            for (place, kind) in GROUPS.into_iter().enumerate() {
                let actor = Actor::of(machine.machine_id, kind);
                let track = first + number_of(place);
                let parent = if place == 0 { parent } else { Some(first) };
                let name = self.names.group(machine, kind);
                self.tracks.push(group(track, parent, name, at, actor));
            }
        }
    }

    /// Containers: their threads are in groups of their own among their machine's threads.
    fn cgroups(&mut self) {
        let machines = &self.names.machines;
        let mut groups = Vec::new();
        for (machine, cgroup) in self.names.cgroups() {
            let Some(at) = machines.iter().position(|m| m.machine_id == machine) else { continue };
            let actor = cgroup_actor(machine, cgroup);
            let threads = GROUPS.iter().position(|kind| *kind == Kind::Threads).unwrap_or(0);
            let track = number_of(self.tracks.len() + groups.len());
            let parent = Some(number_of(at * GROUPS.len() + threads));
            groups.push(group(track, parent, cgroup.to_owned(), at, actor));
        }
        self.tracks.extend(groups);
    }

    fn track_of(
        &self,
        entry: &TrackEntry,
        table: &str,
        track: u32,
        place: (usize, usize),
    ) -> Track {
        let machines = &self.names.machines;
        let at = machines.iter().position(|m| m.machine_id == entry.actor.machine);
        Track {
            track,
            parent: None,
            name: self.names.track(&entry.actor, entry.lane),
            table: table.to_owned(),
            sort: sort(at.unwrap_or(machines.len()), &entry.actor, entry.lane),
            actor: entry.actor.clone(),
            lane: entry.lane,
            intervals: entry.intervals,
            busy_ns: entry.busy_ns,
            shape: Some(match entry.codes {
                Codes::Keys => Shape::Intervals,
                Codes::Instants => Shape::Instants,
                Codes::Values(_) => Shape::Numbers,
            }),
            place: Some(place),
        }
    }

    /// The track it is a lane of, where there is one; else its group.
    fn parent_of(
        &self,
        track: &Track,
        numbers: &FxHashMap<(&Actor, u32), u32>,
        groups: &FxHashMap<Actor, u32>,
    ) -> Option<u32> {
        let above = track.actor.kind.lane_of().and_then(|kind| {
            let actor = Actor { kind, ..track.actor.clone() };
            numbers.get(&(&actor, 0)).copied()
        });
        let Actor { machine, kind, tid, .. } = track.actor;
        let cgroup = tid.filter(|_| kind == Kind::Thread);
        let group = match cgroup.and_then(|tid| self.names.cgroup_of(machine, tid)) {
            Some(cgroup) => cgroup_actor(machine, cgroup),
            None => Actor::of(machine, kind.group()),
        };
        above.or_else(|| groups.get(&group).copied())
    }
}

/// A group of a machine, the `at`th in order.
fn group(track: u32, parent: Option<u32>, name: String, at: usize, actor: Actor) -> Track {
    Track {
        track,
        parent,
        name,
        table: String::new(),
        sort: sort(at, &actor, 0),
        actor,
        lane: 0,
        intervals: 0,
        busy_ns: 0,
        shape: None,
        place: None,
    }
}

fn cgroup_actor(machine: u32, cgroup: &str) -> Actor {
    Actor { what: cgroup.to_owned(), ..Actor::of(machine, Kind::Cgroup) }
}

/// There are fewer tracks than 2³²: each takes memory.
fn number_of(len: usize) -> u32 {
    u32::try_from(len).unwrap_or(u32::MAX)
}

fn reserved(label: &str) -> Key {
    Key {
        class: if label == "others" { Class::Others } else { Class::Unknown },
        state: label.to_owned(),
        label: label.to_owned(),
        machine_id: None,
        vcpu: None,
        tid: None,
        reason: None,
    }
}

/// Machines in order, in each the kinds in their causal order, then by number and lane.
fn sort(machine: usize, actor: &Actor, lane: u32) -> i64 {
    let number = actor.tid.map(i64::from);
    let number = number.or(actor.vcpu.map(i64::from)).or(actor.cpu.map(i64::from));
    let number = number.map_or(0, |number| number + 1).clamp(0, (1 << 31) - 1);
    let machine = i64::try_from(machine).unwrap_or(i64::MAX).min((1 << 16) - 1);
    let kind = actor.kind.place();
    (machine << 46) | (kind << 41) | (number << 9) | i64::from(lane.min(511))
}
