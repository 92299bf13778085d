//! A whole file: its index and its streams.

use crate::{
    index::Index,
    problem::{Error, Problem},
    records::{Table, XenVersion},
    stream::{Position, Stream},
};
use std::ops::Range;
use transect_model::ids::CpuId;

/// An xentrace file, mapped or in memory.
#[derive(Clone, Debug)]
pub struct XenTrace<'a> {
    file: &'a [u8],
    index: Index,
    table: &'static Table,
}

impl<'a> XenTrace<'a> {
    /// Finds the windows. Touches one page of the file per window, so it is quick on a map.
    ///
    /// # Errors
    /// If it is no xentrace file; what is wrong with a part only is in [`Self::problems`].
    pub fn parse(file: &'a [u8], version: XenVersion) -> Result<XenTrace<'a>, Error> {
        Index::check(file)?;
        let mut index = Index::default();
        index.finish(file);
        Ok(XenTrace::with_index(file, index, version))
    }

    /// The same of a file of which these ranges are not what was written, as checksums beside it tell: in order and
    /// apart from one another. Records in them are left out, and [`Self::stretches`] tells where.
    ///
    /// # Errors
    /// As of [`Self::parse`], if nothing is damaged.
    pub fn parse_around(
        file: &'a [u8],
        version: XenVersion,
        damage: &[Range<u64>],
    ) -> Result<XenTrace<'a>, Error> {
        match damage.is_empty() {
            true => XenTrace::parse(file, version),
            false => Ok(XenTrace::with_index(file, Index::around(file, damage), version)),
        }
    }

    /// A pCPU's windows in stretches between which records are missing because the file is damaged. An empty
    /// stretch is at the beginning or at the end, if records are missing there.
    pub fn stretches(&self, cpu: CpuId) -> Vec<Range<usize>> {
        self.index.stretches(cpu)
    }

    /// The records of a stretch by itself: what has no stamp inherits none from before what is missing.
    pub fn stream_of_stretch(&self, cpu: CpuId, windows: Range<usize>) -> Stream<'_> {
        Stream::new(self.file, self.table, cpu, self.index.windows(cpu), windows, None)
    }

    /// With an index made before, for a file that grows.
    pub fn with_index(file: &'a [u8], index: Index, version: XenVersion) -> XenTrace<'a> {
        XenTrace { file, index, table: Table::of(version) }
    }

    /// Its windows.
    pub fn index(&self) -> &Index {
        &self.index
    }

    /// The table its records are read by.
    pub fn table(&self) -> &'static Table {
        self.table
    }

    /// The pCPUs in it, in order.
    pub fn cpus(&self) -> impl Iterator<Item = CpuId> {
        self.index.cpus()
    }

    /// What is wrong with its windows. Streams have problems of their own.
    pub fn problems(&self) -> &[Problem] {
        self.index.problems()
    }

    /// Is something of the windows not read?
    pub fn is_partial(&self) -> bool {
        self.problems().iter().any(|problem| problem.what.loses())
    }

    /// The records of a pCPU. One that is not in the file has none.
    pub fn stream(&self, cpu: CpuId) -> Stream<'_> {
        let windows = self.index.windows(cpu);
        Stream::new(self.file, self.table, cpu, windows, 0..windows.len(), None)
    }

    /// The records of some of a pCPU's windows, as [`Self::stream`] would give them: what has no
    /// stamp inherits it from the windows before.
    pub fn stream_of(&self, cpu: CpuId, windows: Range<usize>) -> Stream<'_> {
        let all = self.index.windows(cpu);
        let part = |range, tsc| Stream::new(self.file, self.table, cpu, all, range, tsc);
        let begin = windows.start.min(all.len());
        let before = (0..begin).rev().find_map(|at| part(at..at + 1, Some(0)).last_stamp());
        part(windows, before)
    }

    /// Goes on where a stream of this pCPU was left.
    pub fn resume(&self, cpu: CpuId, position: Position) -> Stream<'_> {
        let windows = self.index.windows(cpu);
        Stream::resume(self.file, self.table, cpu, windows, position)
    }

    /// A pCPU's windows in `parts` stretches of about the same number of bytes, for decoding
    /// them on several cores. Stretches can be empty.
    pub fn parts(&self, cpu: CpuId, parts: usize) -> Vec<Range<usize>> {
        let windows = self.index.windows(cpu);
        let total: u64 = windows.iter().map(|window| window.bytes as u64).sum();
        let mut ranges = Vec::with_capacity(parts);
        let (mut begin, mut bytes) = (0, 0);
        for part in 1..=parts {
            let goal = u128::from(total) * part as u128 / parts as u128;
            let mut end = begin;
            while end < windows.len() && (u128::from(bytes) < goal || part == parts) {
                bytes += windows[end].bytes as u64;
                end += 1;
            }
            ranges.push(begin..end);
            begin = end;
        }
        ranges
    }
}
