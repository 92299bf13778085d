//! Tracks, keys and tiles as Arrow IPC streams, which is how a browser reads them.

use crate::error::TimelineError;
use crate::track::Shape;
use crate::view::{Tile, View};
use arrow::array::{
    ArrayRef, Float64Array, Int32Array, Int64Array, RecordBatch, StringArray, UInt16Array,
    UInt32Array, UInt64Array,
};
use arrow::datatypes::SchemaRef;
use arrow::ipc::writer::StreamWriter;
use rustc_hash::FxHashSet;
use std::sync::Arc;

/// Tiles of an answer at most, empty ones counted.
pub const MAX_TILES: u64 = 1 << 16;
/// Rows of an answer at most, of about 40 bytes each, where one user is served.
pub const MAX_ROWS: usize = 1 << 20;

/// Which tiles.
#[derive(Clone, Debug, PartialEq, Eq, serde::Deserialize)]
pub struct TilesRequest {
    /// The level: buckets of 2^level ns.
    pub level: u8,
    /// Index of the first tile.
    pub first: i64,
    /// How many tiles one behind the other.
    pub count: u32,
    /// Of which tracks.
    pub tracks: Vec<u32>,
}

/// One batch as an IPC stream.
///
/// # Errors
/// Arrow refuses, which means a bug.
pub fn stream(batch: &RecordBatch) -> Result<Vec<u8>, TimelineError> {
    streams(&batch.schema(), std::slice::from_ref(batch))
}

/// Batches of one schema as an IPC stream.
///
/// # Errors
/// As [`stream`].
pub fn streams(schema: &SchemaRef, batches: &[RecordBatch]) -> Result<Vec<u8>, TimelineError> {
    let mut writer = StreamWriter::try_new(Vec::new(), schema)?;
    for batch in batches {
        writer.write(batch)?;
    }
    Ok(writer.into_inner()?)
}

impl View {
    /// The table of tracks (docs/reference/timeline-format.md). Groups with nothing in them are left out.
    ///
    /// # Errors
    /// As [`stream`].
    pub fn tracks_batch(&self) -> Result<RecordBatch, TimelineError> {
        let used = self.used();
        let tracks: Vec<_> = self.tracks().iter().filter(|t| used.contains(&t.track)).collect();
        let text = |get: &dyn Fn(&crate::view::Track) -> String| -> ArrayRef {
            Arc::new(StringArray::from_iter_values(tracks.iter().map(|track| get(track))))
        };
        let u32s = |values: Vec<Option<u32>>| -> ArrayRef { Arc::new(UInt32Array::from(values)) };
        let detail = |track: &crate::view::Track| match track.table.as_str() {
            "" => String::new(),
            table => track.actor.detail(table),
        };
        let tids: Int32Array = tracks.iter().map(|t| t.actor.tid).collect();
        let numbers: UInt32Array = tracks.iter().map(|t| Some(t.track)).collect();
        let machines: UInt32Array = tracks.iter().map(|t| Some(t.actor.machine)).collect();
        Ok(RecordBatch::try_from_iter_with_nullable([
            ("track", Arc::new(numbers) as ArrayRef, false),
            ("parent", u32s(tracks.iter().map(|t| t.parent).collect()), true),
            ("machine_id", Arc::new(machines) as ArrayRef, false),
            ("layer", text(&|track| track.actor.kind.layer().to_owned()), false),
            ("kind", text(&|track| track.actor.kind.as_str().to_owned()), false),
            ("name", text(&|track| track.name.clone()), false),
            ("detail", text(&detail), false),
            ("sort", Arc::new(tracks.iter().map(|t| Some(t.sort)).collect::<Int64Array>()), false),
            ("cpu", u32s(tracks.iter().map(|t| t.actor.cpu).collect()), true),
            ("vcpu", u32s(tracks.iter().map(|t| t.actor.vcpu).collect()), true),
            ("tid", Arc::new(tids), true),
            (
                "intervals",
                Arc::new(tracks.iter().map(|t| Some(t.intervals)).collect::<UInt64Array>()),
                false,
            ),
            (
                "busy_ns",
                Arc::new(tracks.iter().map(|t| Some(t.busy_ns)).collect::<Int64Array>()),
                false,
            ),
            ("shape", text(&|t| t.shape.map_or("", Shape::as_str).to_owned()), false),
        ])?)
    }

    /// Tracks with intervals, and all that they are in.
    fn used(&self) -> std::collections::BTreeSet<u32> {
        let mut used = std::collections::BTreeSet::new();
        for track in self.tracks().iter().filter(|track| track.intervals > 0) {
            let mut next = Some(track.track);
            while let Some(number) = next.filter(|number| used.insert(*number)) {
                next = self.track(number).and_then(|track| track.parent);
            }
        }
        used
    }

    /// The table of keys.
    ///
    /// # Errors
    /// As [`stream`].
    pub fn keys_batch(&self) -> Result<RecordBatch, TimelineError> {
        let keys = self.keys();
        let text = |get: &dyn Fn(&crate::view::Key) -> &str| -> ArrayRef {
            Arc::new(StringArray::from_iter_values(keys.iter().map(get)))
        };
        let numbers = UInt32Array::from_iter_values((0..).take(keys.len()));
        let reasons: StringArray = keys.iter().map(|key| key.reason.as_deref()).collect();
        Ok(RecordBatch::try_from_iter_with_nullable([
            ("key", Arc::new(numbers) as ArrayRef, false),
            ("class", text(&|key| key.class.as_str()), false),
            ("state", text(&|key| &key.state), false),
            ("label", text(&|key| &key.label), false),
            (
                "machine_id",
                Arc::new(keys.iter().map(|key| key.machine_id).collect::<UInt32Array>()),
                true,
            ),
            ("vcpu", Arc::new(keys.iter().map(|key| key.vcpu).collect::<UInt32Array>()), true),
            ("tid", Arc::new(keys.iter().map(|key| key.tid).collect::<Int32Array>()), true),
            ("reason", Arc::new(reasons), true),
        ])?)
    }

    /// Tiles as two frames, each a length (u32, little-endian) and an IPC stream: what is exact,
    /// then the sums. The answer has `max_rows` rows at most.
    ///
    /// # Errors
    /// There is no such track or level, a track is repeated, the answer would have more rows, or a file is damaged.
    pub fn tiles(&self, request: &TilesRequest, max_rows: usize) -> Result<Vec<u8>, TimelineError> {
        let asked = u64::from(request.count) * request.tracks.len() as u64;
        if asked > MAX_TILES {
            return Err(TimelineError::Request(format!(
                "{asked} tiles requested at once: the limit is {MAX_TILES}"
            )));
        }
        let (mut exact, mut sums) = (Exact::default(), Shares::default());
        let (mut seen, mut left) = (FxHashSet::default(), max_rows);
        for track in &request.tracks {
            if !seen.insert(*track) {
                return Err(TimelineError::Request(format!("track {track} is repeated")));
            }
            for index in 0..i64::from(request.count) {
                let Some(index) = request.first.checked_add(index) else { continue };
                let Some(tile) = self.tile(*track, request.level, index)? else { continue };
                // Before the rows are copied: a refused answer takes no more memory than one that is given.
                let rest = left.checked_sub(tile.rows());
                left = rest.ok_or(TimelineError::TooManyRows { limit: max_rows })?;
                match tile {
                    Tile::Exact(rows) => exact.extend(*track, index, &rows),
                    Tile::Shares(rows) => sums.shares(*track, index, &rows),
                    Tile::Values(rows) => sums.values(*track, index, &rows),
                }
            }
        }
        let mut body = Vec::new();
        for batch in [exact.batch()?, sums.batch()?] {
            let frame = stream(&batch)?;
            // At most `MAX_ROWS` rows of about 40 bytes.
            let len = u32::try_from(frame.len()).unwrap_or(u32::MAX);
            body.extend_from_slice(&len.to_le_bytes());
            body.extend_from_slice(&frame);
        }
        Ok(body)
    }
}

#[derive(Default)]
struct Exact {
    track: Vec<u32>,
    tile: Vec<i64>,
    ts: Vec<i64>,
    dur: Vec<i64>,
    key: Vec<u32>,
    value: Vec<Option<f64>>,
}

impl Exact {
    fn extend(&mut self, track: u32, tile: i64, rows: &[crate::view::Shown]) {
        self.track.resize(self.track.len() + rows.len(), track);
        self.tile.resize(self.tile.len() + rows.len(), tile);
        self.ts.extend(rows.iter().map(|row| row.ts));
        self.dur.extend(rows.iter().map(|row| row.dur));
        self.key.extend(rows.iter().map(|row| row.key));
        self.value.extend(rows.iter().map(|row| row.value));
    }

    fn batch(self) -> Result<RecordBatch, TimelineError> {
        Ok(RecordBatch::try_from_iter_with_nullable([
            ("track", Arc::new(UInt32Array::from(self.track)) as ArrayRef, false),
            ("tile", Arc::new(Int64Array::from(self.tile)), false),
            ("ts", Arc::new(Int64Array::from(self.ts)), false),
            ("dur", Arc::new(Int64Array::from(self.dur)), false),
            ("key", Arc::new(UInt32Array::from(self.key)), false),
            ("value", Arc::new(Float64Array::from(self.value)), true),
        ])?)
    }
}

#[derive(Default)]
struct Shares {
    track: Vec<u32>,
    tile: Vec<i64>,
    bucket: Vec<u16>,
    key: Vec<u32>,
    share: Vec<u16>,
    values: [Vec<Option<f64>>; 3],
}

impl Shares {
    fn shares(&mut self, track: u32, tile: i64, rows: &[crate::tile::Share]) {
        for row in rows {
            self.push(track, tile, row.bucket, row.key, row.share, [None; 3]);
        }
    }

    fn values(&mut self, track: u32, tile: i64, rows: &[crate::tile::ValueBucket]) {
        for row in rows {
            let values = [row.min, row.max, row.mean].map(Some);
            self.push(track, tile, row.bucket, crate::key::NOTHING, 0, values);
        }
    }

    fn push(
        &mut self,
        track: u32,
        tile: i64,
        bucket: u16,
        key: u32,
        share: u16,
        values: [Option<f64>; 3],
    ) {
        self.track.push(track);
        self.tile.push(tile);
        self.bucket.push(bucket);
        self.key.push(key);
        self.share.push(share);
        for (column, value) in self.values.iter_mut().zip(values) {
            column.push(value);
        }
    }

    fn batch(self) -> Result<RecordBatch, TimelineError> {
        let [min, max, mean] = self.values.map(|column| Arc::new(Float64Array::from(column)));
        Ok(RecordBatch::try_from_iter_with_nullable([
            ("track", Arc::new(UInt32Array::from(self.track)) as ArrayRef, false),
            ("tile", Arc::new(Int64Array::from(self.tile)), false),
            ("bucket", Arc::new(UInt16Array::from(self.bucket)), false),
            ("key", Arc::new(UInt32Array::from(self.key)), false),
            ("share", Arc::new(UInt16Array::from(self.share)), false),
            ("min", min, true),
            ("max", max, true),
            ("mean", mean, true),
        ])?)
    }
}
