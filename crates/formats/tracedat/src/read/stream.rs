//! One CPU's records, page by page, with memory bounded by one compressed chunk.

mod ends;

use super::{buffer::Buffer, buffer::CpuData, compress::Compression, cursor::Cursor};
use crate::problem::{Place, Problem};
use std::{
    ops::{ControlFlow, Range},
    sync::Arc,
};
use transect_ftrace::{PageLayout, PageProblem, PageProblemKind, Step, Walk};
use transect_model::time::{Source, Timestamp};

/// Most a chunk may hold decompressed. trace-cmd writes ten pages to a chunk.
const MAX_CHUNK_BYTES: usize = 16 << 20;
/// Most a chunk may shrink to. Pages of the dullest events reach a few hundred; a bomb more.
const MAX_RATIO: usize = 4096;

/// What a stream yields. Stamps are raw, in the stream's own clock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Item<'a> {
    /// One record.
    Event {
        /// When, in the stream's own clock.
        ts: Timestamp<Source>,
        /// The record, beginning with its common fields.
        payload: &'a [u8],
    },
    /// The kernel lost events between the item before and `before`.
    Lost {
        /// How many, if it counted them.
        count: Option<u64>,
        /// Stamp of the page behind the gap.
        before: Timestamp<Source>,
    },
    /// Something cannot be read; what follows still can.
    Problem(Problem),
}

/// Reads one CPU of one buffer. Not an `Iterator`, because an item borrows from the stream's own
/// chunk; use `while let Some(item) = stream.next()`.
#[derive(Debug)]
pub struct Stream<'d> {
    layout: PageLayout,
    source: Pages<'d>,
    place: Place,
    /// The page being walked, as a range of the source's block.
    page: (usize, usize),
    walk: Walk,
    /// A problem to tell before going on.
    pending: Option<Problem>,
}

/// Where pages come from.
#[derive(Debug)]
struct Pages<'d> {
    /// The CPU's data from the next chunk (or, uncompressed, all of it) on.
    rest: &'d [u8],
    /// Offset in the file of `rest`.
    rest_offset: u64,
    chunks: Option<Chunks>,
    /// Uncompressed: all the data. Compressed: empty.
    plain: &'d [u8],
    /// Offset in the file of the block.
    block_offset: u64,
    /// First byte in the block of the next page.
    next_page: usize,
    /// Ranges of the file that are not what was written, in order.
    damage: Arc<[Range<u64>]>,
}

/// State of chunk-wise decompression.
#[derive(Debug)]
struct Chunks {
    compression: Compression,
    left: u32,
    block: Vec<u8>,
}

impl<'d> Stream<'d> {
    pub(crate) fn new(
        file: &'d [u8],
        buffer: &Buffer,
        data: &CpuData,
        compression: Compression,
        damage: Arc<[Range<u64>]>,
    ) -> Self {
        let start = usize::try_from(data.offset_bytes).unwrap_or(usize::MAX);
        let rest = file.get(start..).unwrap_or_default();
        let size = usize::try_from(data.size_bytes).unwrap_or(usize::MAX);
        let here = &rest[..size.min(rest.len())];
        let mut source = Pages {
            rest: here,
            rest_offset: data.offset_bytes,
            chunks: None,
            plain: here,
            block_offset: data.offset_bytes,
            next_page: 0,
            damage,
        };
        let mut stream_pending = None;
        let place = Place::Cpu { buffer: buffer.name.clone(), cpu: data.cpu };
        if buffer.is_compressed && compression != Compression::None {
            // trace-cmd's size leaves the chunks' headers out (3.1.6); only the chunks themselves
            // tell where they end.
            source.rest = rest;
            stream_pending = source.start_chunks(compression, buffer.layout, &place);
        } else {
            source.rest = &[];
        }
        Stream {
            layout: buffer.layout,
            source,
            place,
            page: (0, 0),
            walk: Walk::none(),
            pending: stream_pending,
        }
    }

    /// How much is still to be read, to tell how far it is: bytes of pages, or, where they are
    /// compressed, chunks.
    pub fn left(&self) -> usize {
        match &self.source.chunks {
            Some(chunks) => chunks.left as usize,
            None => self.source.plain.len().saturating_sub(self.source.next_page),
        }
    }

    /// The next item, `None` at the end of the CPU's data.
    #[inline]
    #[expect(clippy::should_implement_trait, reason = "the item borrows from the stream")]
    pub fn next(&mut self) -> Option<Item<'_>> {
        let step = loop {
            if let Some(problem) = self.pending.take() {
                return Some(Item::Problem(problem));
            }
            let (start, end) = self.page;
            let page = self.source.block().get(start..end).unwrap_or_default();
            match self.walk.next(page) {
                Some(step) => break step,
                None => self.turn_page()?,
            }
        };
        Some(match step {
            Step::Event { ts, start, end } => {
                let base = self.page.0;
                let payload = self.source.block().get(base + start..base + end);
                Item::Event { ts, payload: payload.unwrap_or_default() }
            }
            Step::Lost { count, before } => Item::Lost { count, before },
            Step::Problem(problem) => {
                Item::Problem(self.page_problem(problem.at_bytes, problem.kind))
            }
        })
    }

    /// Gives the items of the current page, or of the next one if it is done, to `each`, until that
    /// says it has enough. `false` at the end of the CPU's data.
    ///
    /// The same items as from [`Stream::next`], without looking the page up for each of them.
    pub fn each_on_page(&mut self, mut each: impl FnMut(Item<'_>) -> ControlFlow<()>) -> bool {
        if let Some(problem) = self.pending.take() {
            let _ = each(Item::Problem(problem));
            return true;
        }
        loop {
            let (start, end) = self.page;
            let page = self.source.block().get(start..end).unwrap_or_default();
            let mut given = false;
            while let Some(step) = self.walk.next(page) {
                given = true;
                let item = match step {
                    Step::Event { ts, start, end } => {
                        Item::Event { ts, payload: page.get(start..end).unwrap_or_default() }
                    }
                    Step::Lost { count, before } => Item::Lost { count, before },
                    Step::Problem(problem) => {
                        // It may skip pages, so this one is done with.
                        let problem = self.page_problem(problem.at_bytes, problem.kind);
                        let _ = each(Item::Problem(problem));
                        return true;
                    }
                };
                if each(item).is_break() {
                    return true;
                }
            }
            if given {
                return true;
            }
            if self.turn_page().is_none() {
                return false;
            }
            if self.pending.is_some() {
                return self.each_on_page(each);
            }
        }
    }

    /// The next page's bytes, for callers that walk pages themselves or copy them. Problems of
    /// the file (not of pages) are in `Err`. Do not mix with [`Stream::next`] within a page.
    pub fn next_page(&mut self) -> Option<Result<&[u8], Problem>> {
        if self.pending.is_none() {
            self.turn_page()?;
        }
        if let Some(problem) = self.pending.take() {
            return Some(Err(problem));
        }
        self.walk = Walk::none();
        let (start, end) = self.page;
        Some(Ok(self.source.block().get(start..end).unwrap_or_default()))
    }

    /// Layout of the pages.
    pub fn layout(&self) -> &PageLayout {
        &self.layout
    }

    /// Opens the next page, or leaves a problem pending. `None` at the end.
    fn turn_page(&mut self) -> Option<()> {
        loop {
            let block = self.source.block();
            let start = self.source.next_page;
            if start < block.len() {
                let end = start.saturating_add(self.layout.page_bytes).min(block.len());
                if let Some(pages) = self.damaged_pages(start) {
                    self.skip_damaged(start, pages);
                    return Some(());
                }
                self.walk = Walk::new(&block[start..end], &self.layout);
                self.page = (start, end);
                self.source.next_page = end;
                return Some(());
            }
            match self.source.next_block(self.layout, &self.place) {
                Ok(true) => {}
                Ok(false) => {
                    self.page = (0, 0);
                    self.walk = Walk::none();
                    return None;
                }
                Err(problem) => {
                    // What was decompressed before the error still is to be read.
                    self.page = (0, 0);
                    self.walk = Walk::none();
                    self.pending = Some(problem);
                    return Some(());
                }
            }
        }
    }

    /// How many pages from the one at `start` of the block on lie, at least in part, in damaged ranges.
    /// Chunks are looked at as a whole, before they are decompressed.
    #[inline]
    fn damaged_pages(&self, start: usize) -> Option<usize> {
        if self.source.damage.is_empty() || self.source.chunks.is_some() {
            return None;
        }
        let (block, page_bytes) = (self.source.plain.len(), self.layout.page_bytes.max(1));
        let is_damaged = |start: &usize| {
            let at = self.source.block_offset + *start as u64;
            let end = self.source.block_offset + (start + page_bytes).min(block) as u64;
            self.source.has_damage(&(at..end))
        };
        let pages = (start..block).step_by(page_bytes).take_while(is_damaged).count();
        (pages > 0).then_some(pages)
    }

    /// Leaves damaged pages out, and leaves pending that they are.
    #[cold]
    fn skip_damaged(&mut self, start: usize, pages: usize) {
        let end = start.saturating_add(pages.saturating_mul(self.layout.page_bytes));
        self.source.next_page = end.min(self.source.plain.len());
        self.page = (0, 0);
        self.walk = Walk::none();
        let what = format!("the checksum is wrong: the events of {pages} page(s) are missing");
        let at_bytes = self.source.block_offset + start as u64;
        self.pending = Some(Problem { at_bytes, place: self.place.clone(), what });
    }

    /// A page's problem, placed in the file. Runs of never-written pages become one problem.
    #[cold]
    fn page_problem(&mut self, at_in_page: usize, kind: PageProblemKind) -> Problem {
        let at = self.page.0 + at_in_page;
        let what = match kind {
            PageProblemKind::Zero => {
                let pages = 1 + self.skip_zero_pages();
                format!("{pages} page(s) of zeroes, never written: their events are missing")
            }
            kind => {
                let problem = PageProblem { at_bytes: at_in_page, kind };
                let what = format!("{problem}; the rest of this page's events are missing");
                match self.source.chunks {
                    Some(_) => format!("byte {at} of the chunk decompressed: {what}"),
                    None => what,
                }
            }
        };
        let at_bytes = match self.source.chunks {
            Some(_) => self.source.block_offset,
            None => self.source.block_offset + at as u64,
        };
        Problem { at_bytes, place: self.place.clone(), what }
    }

    /// Skips pages of zeroes in the current block, says how many.
    fn skip_zero_pages(&mut self) -> usize {
        let (block, page_bytes) = (self.source.block(), self.layout.page_bytes.max(1));
        let rest = block.get(self.source.next_page..).unwrap_or_default();
        let zeroes = rest.iter().position(|b| *b != 0).unwrap_or(rest.len());
        let pages = zeroes / page_bytes;
        self.source.next_page += pages * page_bytes;
        pages
    }
}

/// Does a range meet one of these, which are in order?
fn meets(damage: &[Range<u64>], range: &Range<u64>) -> bool {
    let next = damage.partition_point(|damaged| damaged.end <= range.start);
    damage.get(next).is_some_and(|damaged| damaged.start < range.end)
}

impl Pages<'_> {
    /// Is a part of the range of the file not what was written?
    fn has_damage(&self, range: &Range<u64>) -> bool {
        meets(&self.damage, range)
    }

    /// Pages are cut from this.
    #[inline]
    fn block(&self) -> &[u8] {
        match &self.chunks {
            Some(chunks) => &chunks.block,
            None => self.plain,
        }
    }

    /// Reads the number of chunks.
    fn start_chunks(
        &mut self,
        compression: Compression,
        layout: PageLayout,
        place: &Place,
    ) -> Option<Problem> {
        let mut chunks = Chunks { compression, left: 0, block: Vec::new() };
        let mut problem = None;
        if !self.rest.is_empty() {
            let mut cursor = Cursor::new(self.rest, self.rest_offset, layout.endian);
            let is_damaged = meets(&self.damage, &(self.rest_offset..self.rest_offset + 4));
            match cursor.u32("number of chunks") {
                Ok(_) if is_damaged => {
                    let what =
                        "the checksum is wrong: all events of this CPU are missing".to_owned();
                    let at_bytes = self.rest_offset;
                    problem = Some(Problem { at_bytes, place: place.clone(), what });
                }
                Ok(count) => chunks.left = count,
                Err(cut) => {
                    let what = "the file is cut off within the number of chunks".to_owned();
                    problem = Some(Problem { at_bytes: cut.at_bytes, place: place.clone(), what });
                }
            }
            self.rest_offset = cursor.offset();
            self.rest = cursor.rest();
        }
        self.chunks = Some(chunks);
        problem
    }

    /// Decompresses the next chunk. `Ok(false)` at the end.
    fn next_block(&mut self, layout: PageLayout, place: &Place) -> Result<bool, Problem> {
        let Some(chunks) = &mut self.chunks else { return Ok(false) };
        if chunks.left == 0 {
            return Ok(false);
        }
        if self.rest.is_empty() {
            let left = std::mem::take(&mut chunks.left);
            return Err(Problem {
                at_bytes: self.rest_offset,
                place: place.clone(),
                what: format!("the file is cut off; {left} chunk(s) of events are missing"),
            });
        }
        chunks.left -= 1;
        chunks.block.clear();
        self.next_page = 0;
        self.block_offset = self.rest_offset;
        let problem = |what: String| Problem {
            at_bytes: self.rest_offset,
            place: place.clone(),
            what: format!("{what}; events are missing"),
        };
        let mut cursor = Cursor::new(self.rest, self.rest_offset, layout.endian);
        let (Ok(packed), Ok(unpacked)) = (cursor.u32("size"), cursor.u32("size")) else {
            self.rest = &[];
            return Err(problem("the file is cut off within a chunk's header".into()));
        };
        let data = cursor.rest();
        let here = &data[..data.len().min(packed as usize)];
        let range = self.rest_offset..self.rest_offset + 8 + here.len() as u64;
        if meets(&self.damage, &range) {
            // Where the next one begins is not known either.
            let left = std::mem::take(&mut chunks.left) + 1;
            self.rest = &[];
            let what = format!("the checksum is wrong: {left} chunk(s) are skipped");
            return Err(problem(what));
        }
        let result = match unpacked as usize {
            size if size > MAX_CHUNK_BYTES
                || size / MAX_RATIO > (packed as usize).saturating_add(64) =>
            {
                Err(problem(format!(
                    "a chunk claims the invalid decompressed size of {size} bytes"
                )))
            }
            size => chunks
                .compression
                .decompress(here, size, &mut chunks.block)
                .map_err(|err| problem(format!("a chunk cannot be decompressed: {err}"))),
        };
        self.rest = &data[here.len()..];
        self.rest_offset += 8 + here.len() as u64;
        result.map(|()| true)
    }
}
