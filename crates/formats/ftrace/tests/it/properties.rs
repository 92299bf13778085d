//! Pages built and walked again, for every byte order and word size; nonsense walked to its end.
#![allow(clippy::expect_used, clippy::panic, reason = "test code")]

use proptest::prelude::*;
use transect_ftrace::{
    Endian, EventFormat, EventTable, Item, Names, Page, PageLayout, RawText, encode::PageBuilder,
};

fn layout() -> impl Strategy<Value = PageLayout> {
    let endian = prop_oneof![Just(Endian::Little), Just(Endian::Big)];
    (
        endian,
        prop_oneof![Just(4usize), Just(8)],
        prop_oneof![Just(256usize), Just(4096), Just(65536)],
    )
        .prop_map(|(endian, commit_bytes, page_bytes)| PageLayout {
            endian,
            commit_bytes,
            commit_offset_bytes: 8,
            data_offset_bytes: 8 + commit_bytes,
            page_bytes,
        })
}

/// Distances small, beyond a record header's 27 bits, and far.
fn delta() -> impl Strategy<Value = u64> {
    prop_oneof![4 => 0..1000u64, 1 => (1u64 << 27) - 2..(1 << 27) + 2, 1 => 0..1u64 << 58]
}

/// Payloads as the ring buffer has them: whole words.
fn payload() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![4 => 1..29usize, 1 => 29..60usize]
        .prop_flat_map(|words| proptest::collection::vec(any::<u8>(), words * 4))
}

proptest! {
    #[test]
    fn what_is_written_is_read(
        layout in layout(),
        start in 1..1u64 << 60,
        records in proptest::collection::vec((delta(), payload()), 0..200),
        lost in proptest::option::of(proptest::option::of(0..1u64 << 31)),
    ) {
        let mut builder = PageBuilder::new(layout, start);
        if let Some(count) = lost {
            builder = builder.lost(count);
        }
        let (mut ts, mut expected) = (start, Vec::new());
        for (delta, payload) in records {
            if !builder.push(ts + delta, &payload) {
                break;
            }
            ts += delta;
            expected.push((ts, payload));
        }
        let page = builder.finish();
        prop_assert_eq!(page.len(), layout.page_bytes);
        let mut found = Vec::new();
        let mut losses = Vec::new();
        for item in Page::new(&page, &layout) {
            match item {
                Item::Event { ts, payload } => found.push((ts.get(), payload.to_vec())),
                Item::Lost { count, before } => losses.push((count, before.get())),
                Item::Problem(problem) => panic!("{problem}"),
            }
        }
        prop_assert_eq!(found, expected);
        match lost {
            None => prop_assert!(losses.is_empty()),
            // A number is only there if the page had room for it.
            Some(count) => {
                prop_assert_eq!(losses.len(), 1);
                prop_assert!(losses[0].0 == count || losses[0].0.is_none());
                prop_assert_eq!(losses[0].1, start);
            }
        }
    }

    #[test]
    fn absolute_stamps_are_read(layout in layout(), start in 1..1u64 << 62, ahead in 0..1u64 << 58) {
        let mut builder = PageBuilder::new(layout, start);
        let ts = start + ahead;
        // Only 59 bits are written: what is ahead of the page by less is restored.
        prop_assert!(builder.push_absolute(ts));
        prop_assert!(builder.push(ts + 3, &[0; 8]));
        let page = builder.finish();
        let stamps: Vec<_> = Page::new(&page, &layout).map(|item| match item {
            Item::Event { ts, .. } => ts.get(),
            other => panic!("{other:?}"),
        }).collect();
        let is_restored = start >> 59 != 0 || ts >> 59 == 0;
        prop_assert!(!is_restored || stamps == [ts + 3], "{:?}", stamps);
    }

    #[test]
    fn any_bytes_end(layout in layout(), bytes in proptest::collection::vec(any::<u8>(), 0..5000)) {
        // At most one item per four bytes, and the loss and problem besides.
        prop_assert!(Page::new(&bytes, &layout).count() <= bytes.len() / 4 + 2);
    }

    #[test]
    fn flipped_pages_end(
        layout in layout(),
        flips in proptest::collection::vec((0..4096usize, any::<u8>()), 1..20),
    ) {
        let mut builder = PageBuilder::new(layout, 1000);
        while builder.push(1000, &[1, 2, 3, 4, 5, 6, 7, 8]) {}
        let mut page = builder.finish();
        for (at, byte) in flips {
            let at = at % page.len();
            page[at] = byte;
        }
        prop_assert!(Page::new(&page, &layout).count() <= page.len() / 4 + 2);
    }

    #[test]
    fn cutting_a_page_gives_a_beginning(cut in 0..4096usize) {
        let layout = PageLayout { endian: Endian::Little, ..PageLayout::native(4096) };
        let mut builder = PageBuilder::new(layout, 1000);
        let mut ts = 1000;
        while builder.push(ts, &ts.to_le_bytes()) {
            ts += 7;
        }
        let page = builder.finish();
        let whole: Vec<_> = Page::new(&page, &layout).collect();
        let mut part: Vec<_> = Page::new(&page[..cut], &layout).collect();
        let problem = part.pop();
        prop_assert!(matches!(problem, Some(Item::Problem(_))));
        prop_assert!(whole.starts_with(&part));
    }

    /// Format files of any content, and records of any content with formats that are accepted.
    #[test]
    fn odd_formats_are_refused_or_usable(
        field in "[ a-z_*\\[\\]:0-9]{1,30}",
        offset in any::<u16>(),
        size in any::<u16>(),
        print in "[ -~]{0,60}",
        record in proptest::collection::vec(any::<u8>(), 0..300),
    ) {
        let text = format!(
            "name: x\nID: 7\nformat:\n\
             \tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;\n\
             \tfield:int common_pid;\toffset:4;\tsize:4;\tsigned:1;\n\n\
             \tfield:{field};\toffset:{offset};\tsize:{size};\tsigned:1;\n\nprint fmt: {print}\n"
        );
        let mut table = EventTable::new(Endian::Little, 8);
        if table.add("odd", text.as_bytes()).is_ok() {
            let mut record = record;
            record.splice(0..record.len().min(2), [7, 0]);
            prop_assert!(table.values(&record).count() <= 1);
            RawText::new(&table, Names::new()).fields(&record, &mut String::new());
        }
    }

    #[test]
    fn any_text_is_refused_or_a_format(text in proptest::collection::vec(any::<u8>(), 0..400)) {
        let _ = EventFormat::parse("odd", &text, 8);
    }
}
