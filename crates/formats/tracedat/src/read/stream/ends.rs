//! The first and the last stamp of a stream, without reading what is in between.

use super::{Cursor, Item, Pages, Stream, Timestamp};
use transect_ftrace::{PageLayout, Step};
use transect_model::time::Source;

impl Stream<'_> {
    /// The stamp of the first event.
    pub(crate) fn first_stamp(mut self) -> Option<Timestamp<Source>> {
        loop {
            if let Item::Event { ts, .. } = self.next()? {
                return Some(ts);
            }
        }
    }

    /// The stamp of the last event. Of compressed data it is looked for in the last chunk only.
    pub(crate) fn last_stamp(mut self) -> Option<Timestamp<Source>> {
        if self.source.chunks.is_some() {
            self.source.skip_to_last_chunk(self.layout);
            let mut last = None;
            while let Some(item) = self.next() {
                if let Item::Event { ts, .. } = item {
                    last = last.max(Some(ts));
                }
            }
            return last;
        }
        let page_bytes = self.layout.page_bytes.max(1);
        let pages = self.source.plain.len().div_ceil(page_bytes);
        (0..pages).rev().find_map(|page| {
            self.source.next_page = page * page_bytes;
            self.last_of_page()
        })
    }

    fn last_of_page(&mut self) -> Option<Timestamp<Source>> {
        self.turn_page()?;
        self.pending = None;
        let (start, end) = self.page;
        let page = self.source.block().get(start..end).unwrap_or_default();
        let mut last = None;
        while let Some(step) = self.walk.next(page) {
            match step {
                Step::Event { ts, .. } => last = last.max(Some(ts)),
                Step::Lost { .. } => {}
                Step::Problem(_) => break,
            }
        }
        last
    }
}

impl Pages<'_> {
    /// Goes on with the last chunk, or with the first one that is not whole.
    fn skip_to_last_chunk(&mut self, layout: PageLayout) {
        let Some(chunks) = &mut self.chunks else { return };
        while chunks.left > 1 {
            let mut cursor = Cursor::new(self.rest, self.rest_offset, layout.endian);
            let (Ok(packed), Ok(_)) = (cursor.u32("size"), cursor.u32("size")) else { return };
            if cursor.take(u64::from(packed), "chunk").is_err() {
                return;
            }
            self.rest_offset = cursor.offset();
            self.rest = cursor.rest();
            chunks.left -= 1;
        }
    }
}
