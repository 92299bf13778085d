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
            PageProblemKind::Stamp => write!(f, "timestamp overflows 64 bits"),
        }
    }
}

/// A walk over one page's records, for callers that hold the page's bytes.
///
/// Never allocates; never reads outside the page; every call of `next` moves on, so that any
/// input ends.
#[derive(Clone, Debug)]
pub struct Page<'a> {
    bytes: &'a [u8],
    walk: Walk,
}

impl<'a> Page<'a> {
    /// Opens a page. `bytes` is one sub-buffer or, at the end of a cut input, less.
    pub fn new(bytes: &'a [u8], layout: &PageLayout) -> Self {
        Page { bytes, walk: Walk::new(bytes, layout) }
    }

    /// Stamp of the page: that of its first record, if no record on it carries an absolute one.
    /// `None` if the page is too short to have one.
    pub fn stamp(bytes: &[u8], layout: &PageLayout) -> Option<Timestamp<Source>> {
        layout.endian.u64(bytes, 0).map(Timestamp::new)
    }
}

impl<'a> Iterator for Page<'a> {
    type Item = Item<'a>;

    #[inline]
    fn next(&mut self) -> Option<Item<'a>> {
        Some(self.walk.next(self.bytes)?.item(self.bytes))
    }
}

/// [`Item`], with the payload as a place in the page instead of a borrow of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// One record.
    Event {
        /// When.
        ts: Timestamp<Source>,
        /// First byte of the payload in the page.
        start: usize,
        /// First byte behind it.
        end: usize,
    },
    /// See [`Item::Lost`].
    Lost {
        /// How many, if the kernel counted them.
        count: Option<u64>,
        /// Stamp of the page that follows the gap.
        before: Timestamp<Source>,
    },
    /// See [`Item::Problem`].
    Problem(PageProblem),
}

impl Step {
    /// The item, given the page the step was made on.
    #[inline]
    pub fn item(self, page: &[u8]) -> Item<'_> {
        match self {
            Step::Event { ts, start, end } => {
                Item::Event { ts, payload: page.get(start..end).unwrap_or_default() }
            }
            Step::Lost { count, before } => Item::Lost { count, before },
            Step::Problem(problem) => Item::Problem(problem),
        }
    }
}

/// The state of a walk over one page, without the page: for readers whose buffer moves or is
/// refilled. Every call must be given the same page.
#[derive(Clone, Debug)]
pub struct Walk {
    endian: Endian,
    at: usize,
    end: usize,
    ts: u64,
    /// Told before the first record.
    lost: Option<Option<u64>>,
    /// Told after the last record (or instead of any).
    problem: Option<PageProblem>,
}

impl Walk {
    /// Reads a page's header.
    pub fn new(page: &[u8], layout: &PageLayout) -> Self {
        let endian = layout.endian;
        let mut walk = Walk { endian, at: 0, end: 0, ts: 0, lost: None, problem: None };
        let stamp = endian.u64(page, 0);
        let commit = endian.uint(page, layout.commit_offset_bytes, layout.commit_bytes);
        let (Some(stamp), Some(commit)) = (stamp, commit) else {
            return walk.refuse(0, PageProblemKind::NoHeader { have_bytes: page.len() });
        };
        if stamp == 0 && commit == 0 {
            return walk.refuse(0, PageProblemKind::Zero);
        }
        let records = committed(commit).unwrap_or(usize::MAX);
        if records > layout.capacity_bytes() {
            return walk.refuse(layout.commit_offset_bytes, PageProblemKind::Commit { commit });
        }
        walk.ts = stamp;
        walk.at = layout.data_offset_bytes;
        let end = layout.data_offset_bytes + records;
        walk.end = end.min(page.len());
        if end > page.len() {
            let kind = PageProblemKind::Truncated { missing_bytes: end - page.len() };
            walk.problem = Some(PageProblem { at_bytes: page.len(), kind });
        }
        if commit & MISSED != 0 {
            let stored = (commit & STORED != 0)
                .then(|| endian.uint(page, end, layout.commit_bytes))
                .flatten();
            walk.lost = Some(stored);
        }
        walk
    }

    /// No page: ends at once.
    pub fn none() -> Self {
        Walk { endian: Endian::NATIVE, at: 0, end: 0, ts: 0, lost: None, problem: None }
    }

    fn refuse(mut self, at_bytes: usize, kind: PageProblemKind) -> Self {
        self.problem = Some(PageProblem { at_bytes, kind });
        self
    }

    /// The next item's place, `None` at the page's end.
    #[inline]
    pub fn next(&mut self, page: &[u8]) -> Option<Step> {
        if let Some(count) = self.lost.take() {
            return Some(Step::Lost { count, before: Timestamp::new(self.ts) });
        }
        let records = page.get(..self.end)?;
        while self.at < self.end {
            let Some(header) = self.endian.u32(records, self.at) else {
                return self.broken(PageProblemKind::Record { length_bytes: 4 });
            };
            let (type_len, delta) = self.split(header);
            if let 1..PADDING = type_len {
                return self.record(delta, 4, type_len as usize * 4);
            }
            if type_len == PADDING && delta == 0 {
                break;
            }
            let Some(array0) = self.endian.u32(records, self.at + 4) else {
                return self.broken(PageProblemKind::Record { length_bytes: 8 });
            };
            if let Some(step) = self.long_record(type_len, delta, array0) {
                return Some(step);
            }
        }
        self.at = self.end;
        self.problem.take().map(Step::Problem)
    }

    /// Splits a record header, whose bit order follows the byte order.
    #[inline]
    fn split(&self, header: u32) -> (u32, u64) {
        match self.endian {
            Endian::Little => (header & 31, u64::from(header >> 5)),
            Endian::Big => (header >> DELTA_BITS, u64::from(header & ((1 << DELTA_BITS) - 1))),
        }
    }

    /// A data record at `self.at`, its payload `length` bytes from byte `from` on.
    #[inline]
    fn record(&mut self, delta: u64, from: usize, length: usize) -> Option<Step> {
        if self.advance(delta).is_none() {
            return self.broken(PageProblemKind::Stamp);
        }
        match self.skip(from, length) {
            Ok((start, end)) => Some(Step::Event { ts: Timestamp::new(self.ts), start, end }),
            Err(kind) => self.broken(kind),
        }
    }

    /// A record whose second word belongs to its header; `None` if it only moves time or place.
    fn long_record(&mut self, type_len: u32, delta: u64, array0: u32) -> Option<Step> {
        let wide = (u64::from(array0) << DELTA_BITS) + delta;
        let length = array0 as usize;
        let moved = match type_len {
            TIME_STAMP => absolute(wide, self.ts).map(|ts| self.ts = ts),
            TIME_EXTEND => self.advance(wide),
            // A discarded event. Its delta counts: the next record's starts from it.
            PADDING => {
                if let Err(kind) = self.skip(4, length) {
                    return self.broken(kind);
                }
                return match self.advance(delta) {
                    Some(()) => None,
                    None => self.broken(PageProblemKind::Stamp),
                };
            }
            _ if length < 4 => {
                return self.broken(PageProblemKind::Record { length_bytes: length });
            }
            _ => return self.record(delta, 8, (length - 4).next_multiple_of(4)),
        };
        if moved.is_none() {
            return self.broken(PageProblemKind::Stamp);
        }
        self.at += 8;
        None
    }

    #[inline]
    fn advance(&mut self, delta: u64) -> Option<()> {
        self.ts = self.ts.checked_add(delta)?;
        Some(())
    }

    /// Moves behind `length` bytes that start `from` bytes behind `self.at`; says where they are.
    #[inline]
    fn skip(&mut self, from: usize, length: usize) -> Result<(usize, usize), PageProblemKind> {
        let start = self.at + from;
        match start.checked_add(length) {
            Some(stop) if stop <= self.end => {
                self.at = stop;
                Ok((start, stop))
            }
            _ => Err(PageProblemKind::Record { length_bytes: from.saturating_add(length) }),
        }
    }

    /// Ends the walk here and now with a problem.
    #[cold]
    fn broken(&mut self, kind: PageProblemKind) -> Option<Step> {
        let at_bytes = self.at;
        self.at = self.end;
        // A cut page's last record overruns because of the cut, which is what should be told.
        Some(Step::Problem(self.problem.take().unwrap_or(PageProblem { at_bytes, kind })))
    }
}

/// Bytes of records a commit word tells of; `None` if it is none. The flags are added as a signed
/// int: with them set, the upper half of a 64-bit word is all ones (`ring_buffer_read_page()`).
fn committed(commit: u64) -> Option<usize> {
    match commit >> 32 {
        0 => {}
        0xffff_ffff if commit & MISSED != 0 => {}
        _ => return None,
    }
    usize::try_from(commit & 0xffff_ffff & !(MISSED | STORED)).ok()
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::encode::PageBuilder;

    const LAYOUT: PageLayout = PageLayout {
        endian: Endian::Little,
        commit_bytes: 8,
        commit_offset_bytes: 8,
        data_offset_bytes: 16,
        page_bytes: 4096,
    };

    fn event(ts: u64, payload: &[u8]) -> Item<'_> {
        Item::Event { ts: Timestamp::new(ts), payload }
    }

    fn page_of(words: &[u32]) -> Vec<u8> {
        let mut page = PageBuilder::new(LAYOUT, 1000).finish();
        for (at, word) in words.iter().enumerate() {
            page[16 + at * 4..][..4].copy_from_slice(&word.to_le_bytes());
        }
        page[8..16].copy_from_slice(&(words.len() as u64 * 4).to_le_bytes());
        page
    }

    #[test]
    fn every_record_type() {
        let page = page_of(&[
            1 | 5 << 5,
            0xaaaa_aaaa, // 4 bytes at 1005
            30 | 7 << 5,
            1, // +7 + 2^27
            8 << 5,
            12,
            1,
            2, // long record of 8 bytes, +8
            29 | 3 << 5,
            8,
            0, // discarded: 12 bytes, +3
            1,
            0xbbbb_bbbb, // +0
            31 | 9 << 5,
            4, // absolute: 9 + 4 << 27
            1 | 1 << 5,
            0xcccc_cccc,
            29,
            0, // the rest is padding
        ]);
        let base = 1005 + 7 + (1 << 27) + 8;
        let items: Vec<_> = Page::new(&page, &LAYOUT).collect();
        assert_eq!(
            items,
            [
                event(1005, &[0xaa; 4]),
                event(base, &[1, 0, 0, 0, 2, 0, 0, 0]),
                event(base + 3, &[0xbb; 4]),
                event(9 + (4 << 27) + 1, &[0xcc; 4]),
            ]
        );
    }

    #[test]
    fn absolute_stamps_take_their_upper_bits_from_before() {
        assert_eq!(absolute(5, 3), Some(5));
        let high = 0x18 << 56;
        assert_eq!(absolute(5, high | 3), Some(high | 5));
        // The low bits wrapped in between.
        assert_eq!(absolute(2, high | 3), Some((0x18 << 56) + (1 << 59) + 2));
        assert_eq!(absolute(2, STAMP_MSB | 3), None);
    }

    #[test]
    fn losses_come_first() {
        let lost = |count| {
            let mut builder = PageBuilder::new(LAYOUT, 50).lost(count);
            assert!(builder.push(60, &[1, 0, 0, 0]));
            let page = builder.finish();
            Page::new(&page, &LAYOUT).next().map(|item| format!("{item:?}"))
        };
        // As kernels write it, sign-extended.
        let mut page = page_of(&[1, 7]);
        page[8..16].copy_from_slice(&0xffff_ffff_8000_0008u64.to_le_bytes());
        assert_eq!(Page::new(&page, &LAYOUT).count(), 2);
        page[8..16].copy_from_slice(&0xffff_fffe_8000_0008u64.to_le_bytes());
        assert!(matches!(Page::new(&page, &LAYOUT).next(), Some(Item::Problem(_))));
        assert_eq!(lost(None).unwrap(), "Lost { count: None, before: 50 }");
        assert_eq!(lost(Some(12)).unwrap(), "Lost { count: Some(12), before: 50 }");
    }

    #[test]
    fn broken_pages_say_where() {
        let problem = |page: &[u8]| {
            Page::new(page, &LAYOUT)
                .find_map(|item| match item {
                    Item::Problem(problem) => Some((problem.at_bytes, problem.to_string())),
                    _ => None,
                })
                .unwrap()
        };
        assert_eq!(problem(&[0; 4096]).1, "page of zeroes (never written)");
        assert_eq!(problem(&[1; 9]), (0, "page cut off within its header (9 bytes left)".into()));
        let page = page_of(&[28 | 1 << 5, 0]);
        assert_eq!(problem(&page), (16, "record of 116 bytes overruns its page".into()));
        let page = page_of(&[0, 2]);
        assert_eq!(problem(&page), (16, "record of 2 bytes overruns its page".into()));
        let mut page = page_of(&[1, 7, 1, 8]);
        assert_eq!(problem(&page[..26]), (26, "page cut off, 6 bytes of records missing".into()));
        page[10] = 0xff;
        assert_eq!(problem(&page), (8, "impossible commit word 0xff0010 in page header".into()));
        let mut page = page_of(&[1 | 5 << 5, 0]);
        page[..8].fill(0xff);
        assert_eq!(problem(&page), (16, "timestamp overflows 64 bits".into()));
    }

    #[test]
    fn a_cut_page_still_gives_the_records_before_the_cut() {
        let page = page_of(&[1, 7, 1, 8]);
        let items: Vec<_> = Page::new(&page[..26], &LAYOUT).collect();
        assert_eq!(items[0], event(1000, &[7, 0, 0, 0]));
        assert_eq!(items.len(), 2);
    }
}
