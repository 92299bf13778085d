//! Any text as a `format` file; if it is one, any bytes as its record.
#![no_main]

use libfuzzer_sys::fuzz_target;
use transect_ftrace::{
    CoreDecoder, Endian, EventTable, Names, PageLayout, RawText, check_header_event,
};

fuzz_target!(|data: &[u8]| {
    let _ = check_header_event(data);
    let _ = PageLayout::parse(data, Endian::Little);
    // A zero byte, which no format file has, ends the text.
    let mut parts = data.splitn(2, |byte| *byte == 0);
    let (Some(text), record) = (parts.next(), parts.next().unwrap_or_default()) else { return };
    for (endian, long_bytes) in [(Endian::Little, 8), (Endian::Big, 4)] {
        let mut table = EventTable::new(endian, long_bytes);
        // One of the systems the core decoder knows.
        if table.add("sched", text).is_err() {
            continue;
        }
        let Some(event) = table.iter().next() else { continue };
        let mut record = record.to_vec();
        let id = endian.bytes_u16(event.id);
        record.splice(0..record.len().min(2), id);
        for (_, value) in table.values(&record) {
            let _ = format!("{value:?}");
        }
        let _ = table.common(&record);
        let _ = CoreDecoder::new(&table).decode(&record);
        let names = Names::new().with_kallsyms(text).with_printk_formats(text);
        RawText::new(&table, names).fields(&record, &mut String::new());
    }
});
