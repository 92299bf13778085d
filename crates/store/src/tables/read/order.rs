//! The rows of one folder, in order of `ts`: the bucket files one behind the other, merged with each
//! late file.

use super::file::{Frames, TableFile};
use super::files::TableFolder;
use super::frame::Frame;
use crate::error::StoreError;
use crate::tables::range::Range;
use std::collections::VecDeque;
use transect_integrity::KnownFile;
use transect_model::table::TableDoc;

/// Where a table has its time.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Timing {
    pub(crate) ts: Option<usize>,
    pub(crate) dur: Option<usize>,
}

impl Timing {
    pub(crate) fn of(table: &TableDoc) -> Self {
        let at = |name| table.columns.iter().position(|column| column.name == name);
        Timing { ts: at("ts"), dur: at("dur") }
    }

    /// May rows of this row group meet the range, for all that its statistics tell?
    pub(crate) fn may_meet(self, file: &TableFile, group: usize, range: Range) -> bool {
        let bounds = |column: Option<usize>| column.and_then(|at| file.bounds(group, at));
        let Some((first, last)) = bounds(self.ts) else { return true };
        let longest = match (self.dur, bounds(self.dur)) {
            (None, _) => 0,
            (Some(_), Some((_, longest))) => longest.max(0),
            // Without statistics there is no length at all, or any.
            (Some(_), None) => i64::MAX,
        };
        let begins = first < range.until || range.until == i64::MAX;
        begins && range.from <= last.checked_add(longest).unwrap_or(i64::MAX)
    }

    /// The rows of a frame that meet the range.
    pub(crate) fn meeting(self, frame: &Frame, range: Range) -> Vec<usize> {
        let Some(ts) = self.ts.and_then(|at| frame.columns.get(at)) else {
            return (0..frame.rows).collect();
        };
        let dur = self.dur.and_then(|at| frame.columns.get(at)).map(super::Column::numbers);
        let dur = |row: usize| dur.as_ref().and_then(|dur| dur.get(row).copied().flatten());
        let rows = ts.numbers().into_iter().enumerate();
        let meets = |(row, ts): (usize, Option<i64>)| range.meets(ts?, dur(row)).then_some(row);
        rows.filter_map(meets).collect()
    }
}

/// Rows that are handed out one behind the other.
struct Chain {
    files: VecDeque<KnownFile>,
    file: Option<(TableFile, usize)>,
    frames: Option<Frames>,
    frame: Frame,
    ts: Vec<i64>,
    /// The next row of the frame.
    at: usize,
    /// Before it is opened: nothing of it is earlier.
    not_before: i64,
}

/// The rows of a folder that meet a range.
pub(crate) struct InOrder<'t> {
    table: &'t TableDoc,
    timing: Timing,
    range: Range,
    chains: Vec<Chain>,
}

impl Chain {
    fn new(files: impl Into<VecDeque<KnownFile>>, not_before: i64) -> Self {
        let (frame, ts) = (Frame::default(), Vec::new());
        let files = files.into();
        Chain { files, file: None, frames: None, frame, ts, at: 0, not_before }
    }

    fn is_open(&self) -> bool {
        self.at < self.frame.rows
    }

    /// The time of its next row, or a bound of it.
    fn head(&self) -> i64 {
        self.ts.get(self.at).copied().unwrap_or(self.not_before)
    }
}

impl<'t> InOrder<'t> {
    pub(crate) fn new(
        folder: &TableFolder,
        table: &'t TableDoc,
        range: Range,
    ) -> Result<Self, StoreError> {
        let timing = Timing::of(table);
        let mut chains = vec![Chain::new(folder.buckets.clone(), i64::MIN)];
        for late in &folder.late {
            let file = TableFile::open(late)?;
            let first = |group| timing.ts.and_then(|at| file.bounds(group, at)).map(|b| b.0);
            let groups = (0..file.groups()).map(|group| first(group).unwrap_or(i64::MIN));
            chains.push(Chain::new([late.clone()], groups.min().unwrap_or(i64::MIN)));
        }
        Ok(InOrder { table, timing, range, chains })
    }

    /// The next rows: some of a frame, from the first place to before the second. None at the end.
    pub(crate) fn next(&mut self) -> Result<Option<(&Frame, usize, usize)>, StoreError> {
        loop {
            let heads = self.chains.iter().enumerate();
            let Some((least, _)) = heads.min_by_key(|(_, chain)| chain.head()) else {
                return Ok(None);
            };
            if self.chains[least].is_open() {
                let others = self.chains.iter().enumerate().filter(|(at, _)| *at != least);
                let limit = others.map(|(_, chain)| chain.head()).min();
                let chain = &mut self.chains[least];
                let from = chain.at;
                chain.at = match limit {
                    Some(limit) if !chain.ts.is_empty() => {
                        from + chain.ts[from..].partition_point(|ts| *ts <= limit).max(1)
                    }
                    _ => chain.frame.rows,
                };
                return Ok(Some((&chain.frame, from, chain.at)));
            }
            if !self.refill(least)? {
                self.chains.remove(least);
            }
        }
    }

    /// Reads on until a chain has rows again; false at its end.
    fn refill(&mut self, at: usize) -> Result<bool, StoreError> {
        let (timing, range) = (self.timing, self.range);
        let chain = &mut self.chains[at];
        loop {
            if let Some(frame) = chain.frames.as_mut().map(Frames::next).transpose()?.flatten() {
                let keep = timing.meeting(&frame, range);
                chain.frame = if keep.len() == frame.rows {
                    frame
                } else {
                    let mut kept = Frame::none(frame.columns.iter().map(|column| column.ty));
                    kept.extend(&frame, &keep);
                    kept
                };
                let ts = timing.ts.and_then(|at| chain.frame.columns.get(at));
                chain.ts =
                    ts.map_or_else(Vec::new, |ts| ts.numbers().into_iter().flatten().collect());
                chain.at = 0;
                if chain.frame.rows > 0 {
                    return Ok(true);
                }
                continue;
            }
            chain.frames = None;
            match &mut chain.file {
                Some((file, group)) if *group < file.groups() => {
                    if timing.may_meet(file, *group, range) {
                        chain.frames = Some(file.frames(*group)?);
                    }
                    *group += 1;
                }
                _ => {
                    let Some(next) = chain.files.pop_front() else { return Ok(false) };
                    let file = TableFile::open(&next)?;
                    file.check(self.table)?;
                    chain.file = Some((file, 0));
                }
            }
        }
    }
}
