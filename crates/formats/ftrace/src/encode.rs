//! Builds pages: the inverse of [`crate::page`], for tests, fixtures and trimming recordings.

use crate::{endian::Endian, header::PageLayout};

/// Largest payload a short record can have: 28 words.
const SHORT_MAX_BYTES: usize = 28 * 4;
/// Largest delta a record header can have.
const DELTA_MAX: u64 = (1 << 27) - 1;

/// A page under construction.
#[derive(Clone, Debug)]
pub struct PageBuilder {
    layout: PageLayout,
    bytes: Vec<u8>,
    ts: u64,
    lost: Option<Option<u64>>,
}

impl PageBuilder {
    /// An empty page stamped `ts`.
    pub fn new(layout: PageLayout, ts: u64) -> Self {
        let mut bytes = Vec::with_capacity(layout.page_bytes);
        bytes.extend(layout.endian.bytes_u64(ts));
        bytes.resize(layout.data_offset_bytes, 0);
        PageBuilder { layout, bytes, ts, lost: None }
    }

    /// Says that events were lost before this page, and how many if that is known.
    #[must_use]
    pub fn lost(mut self, count: Option<u64>) -> Self {
        self.lost = Some(count);
        self
    }

    /// Adds a record; `false` if it has no room here or its stamp lies before the last one's.
    #[must_use]
    pub fn push(&mut self, ts: u64, payload: &[u8]) -> bool {
        let Some(delta) = ts.checked_sub(self.ts) else { return false };
        let padded = payload.len().next_multiple_of(4);
        let extend = if delta > DELTA_MAX { 8 } else { 0 };
        let head = if padded == 0 || padded > SHORT_MAX_BYTES { 8 } else { 4 };
        if delta >= 1 << 59
            || self.bytes.len() + extend + head + padded > self.layout.page_bytes
            || u32::try_from(padded + 4).is_err()
        {
            return false;
        }
        let delta = if extend == 0 {
            delta
        } else {
            self.header(30, delta & DELTA_MAX);
            self.word(delta >> 27);
            0
        };
        if head == 4 {
            self.header(padded as u64 / 4, delta);
        } else {
            self.header(0, delta);
            self.word(padded as u64 + 4);
        }
        self.bytes.extend(payload);
        self.bytes.resize(self.bytes.len() + padded - payload.len(), 0);
        self.ts = ts;
        true
    }

    /// Adds an absolute stamp record (only its low 59 bits are kept). `false` if there is no room.
    #[must_use]
    pub fn push_absolute(&mut self, ts: u64) -> bool {
        if self.bytes.len() + 8 > self.layout.page_bytes || ts < self.ts {
            return false;
        }
        let low = ts & ((1 << 59) - 1);
        self.header(31, low & DELTA_MAX);
        self.word(low >> 27);
        self.ts = ts;
        true
    }

    /// The page's bytes, a whole sub-buffer of them.
    pub fn finish(mut self) -> Vec<u8> {
        let used = self.bytes.len() - self.layout.data_offset_bytes;
        let mut commit = used as u64;
        self.bytes.resize(self.layout.page_bytes, 0);
        if let Some(count) = self.lost {
            commit |= 1 << 31;
            let at = self.layout.data_offset_bytes + used;
            let room = self.layout.page_bytes - at;
            if let Some(count) = count.filter(|_| room >= self.layout.commit_bytes) {
                commit |= 1 << 30;
                self.long(at, count);
            }
        }
        self.long(self.layout.commit_offset_bytes, commit);
        self.bytes
    }

    fn header(&mut self, type_len: u64, delta: u64) {
        match self.layout.endian {
            Endian::Little => self.word(type_len | delta << 5),
            Endian::Big => self.word(type_len << 27 | delta),
        }
    }

    fn word(&mut self, value: u64) {
        let low = u32::try_from(value & 0xffff_ffff).unwrap_or(0);
        self.bytes.extend(self.layout.endian.bytes_u32(low));
    }

    fn long(&mut self, at: usize, value: u64) {
        let low = u32::try_from(value & 0xffff_ffff).unwrap_or(0);
        let (wide, narrow) =
            (self.layout.endian.bytes_u64(value), self.layout.endian.bytes_u32(low));
        let long: &[u8] = if self.layout.commit_bytes == 8 { &wide } else { &narrow };
        self.bytes[at..at + long.len()].copy_from_slice(long);
    }
}
