//! Sub-buffer pages: stamps and payloads out of the ring buffer's bytes.
//!
//! ```text
//! page   := stamp:u64  commit:long  record*  [lost:long]  (zeroes)
//! commit := bytes of records | MISSED (1 << 31) | STORED (1 << 30)
//! record := header:u32 (type_len:5, delta:27)  [array0:u32]  payload
//!   type_len 1..=28   payload of 4 × type_len bytes
//!   type_len 0        array0 = 4 + payload bytes
//!   type_len 29       padding: array0 bytes to skip (delta 0: nothing more on this page)
//!   type_len 30       time extend: stamp += array0 << 27 | delta
//!   type_len 31       absolute stamp: array0 << 27 | delta, upper 5 bits from before
//! ```
//! (`kernel/trace/ring_buffer.c` and `include/linux/ring_buffer.h`, Linux 6.18; the same since
//! 2.6.31 but for the absolute stamp, which came with 4.16.)

use crate::{endian::Endian, header::PageLayout};
use std::fmt;
use transect_model::time::{Source, Timestamp};

/// Events were lost between the page before and this one.
const MISSED: u64 = 1 << 31;
/// Their number stands behind the page's records.
const STORED: u64 = 1 << 30;

const PADDING: u32 = 29;
const TIME_EXTEND: u32 = 30;
const TIME_STAMP: u32 = 31;
const DELTA_BITS: u32 = 27;
/// Bits of a stamp that an absolute stamp record does not carry.
const STAMP_MSB: u64 = 0xf8 << 56;

/// What a page yields, in the order of its time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Item<'a> {
    /// One record.
    Event {
        /// When, in the stream's own clock.
        ts: Timestamp<Source>,
        /// The record, beginning with its common fields.
        payload: &'a [u8],
    },
    /// The kernel had no room for events, somewhen between the item before and `before`.
    Lost {
        /// How many, if the kernel counted them.
        count: Option<u64>,
        /// Stamp of the page that follows the gap.
        before: Timestamp<Source>,
    },
    /// The rest of this page cannot be read.
    Problem(PageProblem),
}

/// Why (part of) a page cannot be read. Reading goes on at the next page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PageProblem {
    /// Bytes from the start of the page.
    pub at_bytes: usize,
    /// What is wrong there.
    pub kind: PageProblemKind,
}

/// The kinds of [`PageProblem`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum PageProblemKind {
    /// The page is shorter than its header.
    NoHeader {
        /// Bytes there are.
        have_bytes: usize,
    },
    /// Stamp and commit word are zero: the page was never written (a sparse or lost block).
    Zero,
    /// The commit word says more than a page holds, or has impossible bits set.
    Commit {
        /// The commit word.
        commit: u64,
    },
    /// The input ends before the page's records do.
    Truncated {
        /// Bytes of the page that are missing.
        missing_bytes: usize,
    },
    /// A record would end behind the committed bytes.
    Record {
        /// Its length, header included.
        length_bytes: usize,
    },
    /// The stamp leaves 64 bits.
    Stamp,
}

impl fmt::Display for PageProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.kind {
            PageProblemKind::NoHeader { have_bytes } => {
                write!(f, "page cut off within its header ({have_bytes} bytes left)")
            }
            PageProblemKind::Zero => write!(f, "page of zeroes (never written)"),
            PageProblemKind::Commit { commit } => {
                write!(f, "impossible commit word {commit:#x} in page header")
            }
            PageProblemKind::Truncated { missing_bytes } => {
                write!(f, "page cut off, {missing_bytes} bytes of records missing")
            }
            PageProblemKind::Record { length_bytes } => {
                write!(f, "record of {length_bytes} bytes overruns its page")
            }
            PageProblemKind::Stamp => write!(f, "time stamp overflows 64 bits"),
        }
    }
}

/// A walk over one page's records.
///
/// Never allocates; never reads outside `bytes`; every call of `next` moves on, so that any input
/// ends.
#[derive(Clone, Debug)]
pub struct Page<'a> {
    /// Header and committed records; `at` and `end` index into it.
    bytes: &'a [u8],
    endian: Endian,
    at: usize,
    end: usize,
    ts: u64,
    /// Told before the first record.
    lost: Option<Option<u64>>,
    /// Told after the last record (or instead of any).
    problem: Option<PageProblem>,
}

impl<'a> Page<'a> {
    /// Opens a page. `bytes` is one sub-buffer or, at the end of a cut input, less.
    pub fn new(bytes: &'a [u8], layout: &PageLayout) -> Self {
        let endian = layout.endian;
        let mut page = Page { bytes, endian, at: 0, end: 0, ts: 0, lost: None, problem: None };
        let stamp = endian.u64(bytes, 0);
        let commit = endian.uint(bytes, layout.commit_offset_bytes, layout.commit_bytes);
        let (Some(stamp), Some(commit)) = (stamp, commit) else {
            return page.refuse(0, PageProblemKind::NoHeader { have_bytes: bytes.len() });
        };
        if stamp == 0 && commit == 0 {
            return page.refuse(0, PageProblemKind::Zero);
        }
        let records = usize::try_from(commit & !(MISSED | STORED)).unwrap_or(usize::MAX);
        if records > layout.capacity_bytes() {
            return page.refuse(layout.commit_offset_bytes, PageProblemKind::Commit { commit });
        }
        page.ts = stamp;
        page.at = layout.data_offset_bytes;
        let end = layout.data_offset_bytes + records;
        page.end = end.min(bytes.len());
        if end > bytes.len() {
            let kind = PageProblemKind::Truncated { missing_bytes: end - bytes.len() };
            page.problem = Some(PageProblem { at_bytes: bytes.len(), kind });
        }
        if commit & MISSED != 0 {
            let stored = (commit & STORED != 0)
                .then(|| endian.uint(bytes, end, layout.commit_bytes))
                .flatten();
            page.lost = Some(stored);
        }
        page
    }

    /// Stamp of the page: that of its first record, if no record on it carries an absolute one.
    /// `None` if the page cannot be read.
    pub fn stamp(bytes: &[u8], layout: &PageLayout) -> Option<Timestamp<Source>> {
        layout.endian.u64(bytes, 0).map(Timestamp::new)
    }

    /// Bytes the header says are in use (header included), cut to what can be: where the page
    /// ends for one who writes it on.
    pub fn used_bytes(&self) -> usize {
        self.end
    }

    fn refuse(mut self, at_bytes: usize, kind: PageProblemKind) -> Self {
        self.problem = Some(PageProblem { at_bytes, kind });
        self
    }

    /// Ends the walk here and now with a problem.
    #[cold]
    fn broken(&mut self, kind: PageProblemKind) -> Option<Item<'a>> {
        let at_bytes = self.at;
        self.at = self.end;
        // A cut page's last record overruns because of the cut, which is what should be told.
        Some(Item::Problem(self.problem.take().unwrap_or(PageProblem { at_bytes, kind })))
    }

    #[cold]
    fn finish(&mut self) -> Option<Item<'a>> {
        self.at = self.end;
        self.problem.take().map(Item::Problem)
    }

    #[inline]
    fn advance(&mut self, delta: u64) -> Option<()> {
        self.ts = self.ts.checked_add(delta)?;
        Some(())
    }

    /// Splits a record header, whose bit order follows the byte order.
    #[inline]
    fn split(&self, header: u32) -> (u32, u64) {
        match self.endian {
            Endian::Little => (header & 31, u64::from(header >> 5)),
            Endian::Big => (header >> DELTA_BITS, u64::from(header & ((1 << DELTA_BITS) - 1))),
        }
    }

    /// The payload from byte `from` of the record at `self.at`, `length` bytes long.
    #[inline]
    fn payload(&mut self, from: usize, length: usize) -> Result<&'a [u8], PageProblemKind> {
        let start = self.at + from;
        match start.checked_add(length) {
            Some(stop) if stop <= self.end => {
                self.at = stop;
                Ok(&self.bytes[start..stop])
            }
            _ => Err(PageProblemKind::Record { length_bytes: from.saturating_add(length) }),
        }
    }
}

impl<'a> Iterator for Page<'a> {
    type Item = Item<'a>;

    #[inline]
    fn next(&mut self) -> Option<Item<'a>> {
        if let Some(count) = self.lost.take() {
            return Some(Item::Lost { count, before: Timestamp::new(self.ts) });
        }
        while self.at < self.end {
            let records = &self.bytes[..self.end];
            let Some(header) = self.endian.u32(records, self.at) else {
                return self.broken(PageProblemKind::Record { length_bytes: 4 });
            };
            let (type_len, delta) = self.split(header);
            if let 1..PADDING = type_len {
                if self.advance(delta).is_none() {
                    return self.broken(PageProblemKind::Stamp);
                }
                return match self.payload(4, type_len as usize * 4) {
                    Ok(payload) => Some(Item::Event { ts: Timestamp::new(self.ts), payload }),
                    Err(kind) => self.broken(kind),
                };
            }
            if type_len == PADDING && delta == 0 {
                return self.finish();
            }
            let Some(array0) = self.endian.u32(records, self.at + 4) else {
                return self.broken(PageProblemKind::Record { length_bytes: 8 });
            };
            if let Some(item) = self.long_record(type_len, delta, array0) {
                return Some(item);
            }
        }
        self.finish()
    }
}

impl<'a> Page<'a> {
    /// A record whose second word belongs to its header; `None` if it only moves time or place.
    fn long_record(&mut self, type_len: u32, delta: u64, array0: u32) -> Option<Item<'a>> {
        let wide = (u64::from(array0) << DELTA_BITS) + delta;
        let length = array0 as usize;
        match type_len {
            TIME_STAMP => match absolute(wide, self.ts) {
                None => self.broken(PageProblemKind::Stamp),
                Some(ts) => {
                    self.ts = ts;
                    self.at += 8;
                    None
                }
            },
            TIME_EXTEND => {
                if self.advance(wide).is_none() {
                    return self.broken(PageProblemKind::Stamp);
                }
                self.at += 8;
                None
            }
            // A discarded event. Its delta counts: the next record's starts from it.
            PADDING => match self.advance(delta) {
                None => self.broken(PageProblemKind::Stamp),
                Some(()) => self.payload(4, length).err().and_then(|kind| self.broken(kind)),
            },
            _ if length < 4 => self.broken(PageProblemKind::Record { length_bytes: length }),
            _ => {
                if self.advance(delta).is_none() {
                    return self.broken(PageProblemKind::Stamp);
                }
                match self.payload(8, (length - 4).next_multiple_of(4)) {
                    Ok(payload) => Some(Item::Event { ts: Timestamp::new(self.ts), payload }),
                    Err(kind) => self.broken(kind),
                }
            }
        }
    }
}

/// The full stamp of an absolute stamp record: its upper five bits are those of the stamp before,
/// plus one if the lower ones wrapped (`rb_fix_abs_ts()`, Linux 5.13).
fn absolute(low: u64, before: u64) -> Option<u64> {
    if before & STAMP_MSB == 0 {
        return Some(low);
    }
    let full = low | (before & STAMP_MSB);
    if full < before { full.checked_add(1 << 59) } else { Some(full) }
}
