//! Every track's begins and ends, merged by time.

use super::item::{Item, Row, Shape};
use super::label::Labels;
use super::layout::{Layout, Line};
use super::names::Names;
use crate::{TraceWriter, WriteError};
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::io::Write;
use transect_model::table::Tables;

/// What was written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Written {
    /// Tracks, groups included.
    pub tracks: u64,
    /// Slices.
    pub slices: u64,
    /// Instants.
    pub instants: u64,
    /// Counter values.
    pub counters: u64,
    /// What was added to trace time to get the stamps of the trace, ns.
    pub shift_ns: i64,
}

/// Where one track is.
struct Cursor<'a> {
    line: &'a Line,
    next: usize,
    /// Ends of the open slices, innermost last.
    open: Vec<i64>,
}

enum Step<'a> {
    End(i64),
    Start(&'a Item),
}

impl<'a> Cursor<'a> {
    /// The next moment of this track. An end comes before a start of the same moment, so that
    /// neighbours do not nest.
    fn peek(&self) -> Option<i64> {
        let end = self.open.last().copied();
        let start = self.line.items.get(self.next).map(|item| item.ts);
        [end, start].into_iter().flatten().min()
    }

    fn step(&mut self) -> Option<Step<'a>> {
        let item = self.line.items.get(self.next);
        match (self.open.last().copied(), item) {
            (Some(end), item) if item.is_none_or(|item| end <= item.ts) => {
                self.open.pop();
                Some(Step::End(end))
            }
            (_, Some(item)) => {
                self.next += 1;
                if item.shape == Shape::Slice {
                    self.open.push(item.end);
                }
                Some(Step::Start(item))
            }
            (_, None) => None,
        }
    }
}

/// Writes every event of every track in order of time.
pub(crate) fn events<W: Write>(
    tables: &Tables,
    layout: &Layout,
    writer: &mut TraceWriter<W>,
) -> Result<Written, WriteError> {
    let labels = Labels { tables, names: Names::new(tables), layout };
    let mut written = Written { shift_ns: layout.shift_ns, ..Written::default() };
    written.tracks = layout.lines.len() as u64;
    let mut cursors: Vec<Cursor<'_>> =
        layout.lines.iter().map(|line| Cursor { line, next: 0, open: Vec::new() }).collect();
    let mut heap: BinaryHeap<Reverse<(i64, usize)>> = BinaryHeap::new();
    let first = cursors.iter().enumerate().filter_map(|(at, c)| Some(Reverse((c.peek()?, at))));
    heap.extend(first);
    while let Some(Reverse((_, at))) = heap.pop() {
        let cursor = &mut cursors[at];
        let uuid = cursor.line.uuid;
        match cursor.step() {
            Some(Step::End(ts)) => writer.end(uuid, layout.shifted(ts)?)?,
            Some(Step::Start(item)) => start(item, uuid, &labels, writer, &mut written)?,
            None => continue,
        }
        heap.extend(cursor.peek().map(|ts| Reverse((ts, at))));
    }
    Ok(written)
}

fn start<W: Write>(
    item: &Item,
    uuid: u64,
    labels: &Labels<'_>,
    writer: &mut TraceWriter<W>,
    written: &mut Written,
) -> Result<(), WriteError> {
    let ts = labels.layout.shifted(item.ts)?;
    match (item.shape, item.row) {
        (Shape::Counter, Row::Window(at, metric)) => {
            written.counters += 1;
            writer.counter(uuid, ts, labels.value(at, metric))?;
        }
        (Shape::Slice, _) => {
            written.slices += 1;
            labels.with(item, |sample| writer.begin(uuid, ts, sample))?;
        }
        _ => {
            written.instants += 1;
            labels.with(item, |sample| writer.instant(uuid, ts, sample))?;
        }
    }
    Ok(())
}
