//! Any bytes as pages, of any layout; everything read lies within the page.
#![no_main]

use libfuzzer_sys::fuzz_target;
use transect_ftrace::{Endian, Item, Page, PageLayout};

fuzz_target!(|data: &[u8]| {
    let [layout, pages @ ..] = data else { return };
    let commit_bytes = if layout & 1 == 0 { 8 } else { 4 };
    let layout = PageLayout {
        endian: if layout & 2 == 0 { Endian::Little } else { Endian::Big },
        commit_bytes,
        commit_offset_bytes: 8,
        data_offset_bytes: 8 + commit_bytes,
        page_bytes: 64 << (layout >> 4),
    };
    for page in pages.chunks(layout.page_bytes) {
        let mut items = 0;
        for item in Page::new(page, &layout) {
            items += 1;
            if let Item::Event { payload, .. } = item {
                assert!(page.as_ptr_range().contains(&payload.as_ptr()) || payload.is_empty());
            }
        }
        assert!(items <= page.len() / 4 + 2);
    }
});
