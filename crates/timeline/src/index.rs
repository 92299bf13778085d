//! A unit's index: what is in its file and where; and as bytes, numbers of variable length, words with their length before
//! them.

use crate::chunk::ChunkEntry;
use crate::key::{Class, RawKey};
use crate::track::{Actor, Kind};
use crate::varint::{put, take, unzigzag, zigzag};

/// Where a tile of sums is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TileEntry {
    pub(crate) level: u8,
    pub(crate) index: i64,
    pub(crate) offset: u64,
    pub(crate) bytes: u32,
    pub(crate) crc: u32,
}

/// What a track's codes are.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Codes {
    /// Keys of intervals: a bucket has each key's time.
    Keys,
    /// Keys of instants: a bucket has each key's number.
    Instants,
    /// Values, times this: a bucket has the smallest, the largest and the mean.
    Values(f64),
}

/// A track of a unit: all its intervals, and its tiles of sums in order of level and index.
#[derive(Clone, Debug)]
pub(crate) struct TrackEntry {
    pub(crate) actor: Actor,
    pub(crate) lane: u32,
    pub(crate) intervals: u64,
    pub(crate) busy_ns: i64,
    pub(crate) codes: Codes,
    pub(crate) chunks: Vec<ChunkEntry>,
    pub(crate) tiles: Vec<TileEntry>,
}

impl TrackEntry {
    /// The tile of sums, where there is one.
    pub(crate) fn tile(&self, level: u8, index: i64) -> Option<&TileEntry> {
        let at = self.tiles.binary_search_by_key(&(level, index), |tile| (tile.level, tile.index));
        self.tiles.get(at.ok()?)
    }

    /// The chunks with what reaches into `[from, to)`.
    pub(crate) fn chunks_in(&self, from: i64, to: i64) -> std::ops::Range<usize> {
        // Instants at the very start belong to it.
        let first = self.chunks.partition_point(|chunk| chunk.last_end < from);
        let end = self.chunks.partition_point(|chunk| chunk.first_ts < to);
        first..end.max(first)
    }
}

/// What a unit's file says of itself.
#[derive(Clone, Debug, Default)]
pub(crate) struct UnitIndex {
    pub(crate) table: String,
    /// Rows that it was made from.
    pub(crate) rows: u64,
    /// Rows that no track could take, for they made no sense or too many of one actor overlap.
    pub(crate) left_out: u64,
    pub(crate) words: Vec<String>,
    pub(crate) keys: Vec<RawKey>,
    pub(crate) tracks: Vec<TrackEntry>,
}

/// The index as bytes.
pub(crate) fn encode(index: &UnitIndex) -> Vec<u8> {
    let mut to = Vec::new();
    put_text(&mut to, &index.table);
    put(&mut to, index.rows);
    put(&mut to, index.left_out);
    put(&mut to, index.words.len() as u64);
    index.words.iter().for_each(|word| put_text(&mut to, word));
    put(&mut to, index.keys.len() as u64);
    index.keys.iter().for_each(|key| put_key(&mut to, key));
    put(&mut to, index.tracks.len() as u64);
    index.tracks.iter().for_each(|track| put_track(&mut to, track));
    to
}

/// The inverse of [`encode`]; none where the bytes make no sense.
pub(crate) fn decode(mut bytes: &[u8]) -> Option<UnitIndex> {
    let from = &mut bytes;
    Some(UnitIndex {
        table: take_text(from)?,
        rows: take(from)?,
        left_out: take(from)?,
        words: take_all(from, take_text)?,
        keys: take_all(from, take_key)?,
        tracks: take_all(from, take_track)?,
    })
}

/// What a number says must be there; memory grows with what is, so no number is believed.
fn take_all<T>(from: &mut &[u8], one: impl Fn(&mut &[u8]) -> Option<T>) -> Option<Vec<T>> {
    let count = take(from)?;
    (0..count).map(|_| one(from)).collect()
}

fn put_text(to: &mut Vec<u8>, text: &str) {
    put(to, text.len() as u64);
    to.extend_from_slice(text.as_bytes());
}

fn take_text(from: &mut &[u8]) -> Option<String> {
    let len = usize::try_from(take(from)?).ok()?;
    let (text, rest) = from.split_at_checked(len)?;
    *from = rest;
    String::from_utf8(text.to_vec()).ok()
}

fn take_u32(from: &mut &[u8]) -> Option<u32> {
    u32::try_from(take(from)?).ok()
}

fn put_i64(to: &mut Vec<u8>, value: i64) {
    put(to, zigzag(value));
}

fn take_i64(from: &mut &[u8]) -> Option<i64> {
    Some(unzigzag(take(from)?))
}

/// None is 0, so that most numbers take one byte.
fn put_option(to: &mut Vec<u8>, value: Option<i64>) {
    match value {
        Some(value) => put(to, zigzag(value) + 1),
        None => put(to, 0),
    }
}

fn take_option(from: &mut &[u8]) -> Option<Option<i64>> {
    Some(take(from)?.checked_sub(1).map(unzigzag))
}

fn take_option_as<T: TryFrom<i64>>(from: &mut &[u8]) -> Option<Option<T>> {
    take_option(from)?.map(T::try_from).transpose().ok()
}

fn put_key(to: &mut Vec<u8>, key: &RawKey) {
    put(to, key.class as u64);
    put(to, u64::from(key.state));
    put(to, u64::from(key.reason));
    put_option(to, key.machine.map(i64::from));
    put_option(to, key.vcpu.map(i64::from));
    put_option(to, key.tid.map(i64::from));
}

fn take_key(from: &mut &[u8]) -> Option<RawKey> {
    Some(RawKey {
        class: *Class::ALL.get(usize::try_from(take(from)?).ok()?)?,
        state: take_u32(from)?,
        reason: take_u32(from)?,
        machine: take_option_as(from)?,
        vcpu: take_option_as(from)?,
        tid: take_option_as(from)?,
    })
}

fn put_actor(to: &mut Vec<u8>, actor: &Actor) {
    put(to, u64::from(actor.machine));
    put(to, actor.kind as u64);
    put_option(to, actor.cpu.map(i64::from));
    put_option(to, actor.vcpu.map(i64::from));
    put_option(to, actor.tid.map(i64::from));
    put_text(to, &actor.what);
}

fn take_actor(from: &mut &[u8]) -> Option<Actor> {
    Some(Actor {
        machine: take_u32(from)?,
        kind: *Kind::ALL.get(usize::try_from(take(from)?).ok()?)?,
        cpu: take_option_as(from)?,
        vcpu: take_option_as(from)?,
        tid: take_option_as(from)?,
        what: take_text(from)?,
    })
}

fn put_track(to: &mut Vec<u8>, track: &TrackEntry) {
    put_actor(to, &track.actor);
    put(to, u64::from(track.lane));
    put(to, track.intervals);
    put_i64(to, track.busy_ns);
    match track.codes {
        Codes::Keys => put(to, 0),
        Codes::Instants => put(to, 1),
        Codes::Values(scale) => {
            put(to, 2);
            to.extend_from_slice(&scale.to_le_bytes());
        }
    }
    put(to, track.chunks.len() as u64);
    for chunk in &track.chunks {
        put(to, chunk.offset);
        put(to, u64::from(chunk.bytes));
        put(to, u64::from(chunk.crc));
        put(to, u64::from(chunk.rows));
        put_i64(to, chunk.first_ts);
        put_i64(to, chunk.last_end);
    }
    put(to, track.tiles.len() as u64);
    for tile in &track.tiles {
        put(to, u64::from(tile.level));
        put_i64(to, tile.index);
        put(to, tile.offset);
        put(to, u64::from(tile.bytes));
        put(to, u64::from(tile.crc));
    }
}

fn take_track(from: &mut &[u8]) -> Option<TrackEntry> {
    Some(TrackEntry {
        actor: take_actor(from)?,
        lane: take_u32(from)?,
        intervals: take(from)?,
        busy_ns: take_i64(from)?,
        codes: take_codes(from)?,
        chunks: take_all(from, take_chunk)?,
        tiles: take_all(from, take_tile)?,
    })
}

fn take_codes(from: &mut &[u8]) -> Option<Codes> {
    match take(from)? {
        0 => Some(Codes::Keys),
        1 => Some(Codes::Instants),
        2 => {
            let (scale, rest) = from.split_first_chunk::<8>()?;
            *from = rest;
            Some(Codes::Values(f64::from_le_bytes(*scale)))
        }
        _ => None,
    }
}

fn take_chunk(from: &mut &[u8]) -> Option<ChunkEntry> {
    Some(ChunkEntry {
        offset: take(from)?,
        bytes: take_u32(from)?,
        crc: take_u32(from)?,
        rows: take_u32(from)?,
        first_ts: take_i64(from)?,
        last_end: take_i64(from)?,
    })
}

fn take_tile(from: &mut &[u8]) -> Option<TileEntry> {
    Some(TileEntry {
        level: u8::try_from(take(from)?).ok()?,
        index: take_i64(from)?,
        offset: take(from)?,
        bytes: take_u32(from)?,
        crc: take_u32(from)?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn sample() -> UnitIndex {
        let mut actor = Actor::of(3, Kind::Block);
        (actor.tid, actor.what) = (Some(-1), "8:0".to_owned());
        let chunk = ChunkEntry {
            offset: 8,
            bytes: 9,
            crc: u32::MAX,
            rows: 2,
            first_ts: -5,
            last_end: i64::MAX / 2,
        };
        let tile = TileEntry { level: 40, index: -1, offset: 17, bytes: 3, crc: 7 };
        let key = RawKey {
            class: Class::Others,
            state: 1,
            reason: 0,
            machine: Some(u32::MAX),
            vcpu: None,
            tid: Some(i32::MIN),
        };
        let track = TrackEntry {
            actor,
            lane: 2,
            intervals: 77,
            busy_ns: 1 << 50,
            codes: Codes::Values(0.01),
            chunks: vec![chunk],
            tiles: vec![tile],
        };
        UnitIndex {
            table: "block_io".to_owned(),
            rows: 5,
            left_out: 1,
            words: vec![String::new(), "größer".to_owned()],
            keys: vec![key],
            tracks: vec![track],
        }
    }

    #[test]
    fn an_index_comes_back() {
        let bytes = encode(&sample());
        assert_eq!(format!("{:?}", decode(&bytes).unwrap()), format!("{:?}", sample()));
        for cut in 0..bytes.len() {
            assert!(decode(&bytes[..cut]).is_none(), "cut at {cut}");
        }
    }

    proptest! {
        #[test]
        fn no_bytes_panic(bytes: Vec<u8>) {
            let _ = decode(&bytes);
        }
    }
}
