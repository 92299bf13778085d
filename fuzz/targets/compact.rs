//! Any bytes as a compact file: as they are, and as the words of a block whose checksums are right
//! (which chance would never hit upon), plain and compressed.
#![no_main]

use libfuzzer_sys::fuzz_target;
use transect_compact::{
    BlockWriter, CHUNK_BYTES, Compact, FileHeader, Item, LogId, Slice, SliceSink, StackNotes,
    Totals, repack,
};
use transect_model::{exit::Isa, ids::CpuId, stack::MAX_FRAMES};

/// Events read, and everything else looked at.
fn read(file: &[u8]) -> Vec<Item> {
    let Ok(compact) = Compact::parse(file) else { return Vec::new() };
    for problem in compact.problems() {
        assert!(problem.at_bytes <= file.len() as u64);
    }
    for frames in compact.stacks().values() {
        assert!((1..=MAX_FRAMES).contains(&frames.len()));
    }
    let mut items = Vec::new();
    for cpu in compact.cpus() {
        let Some(mut stream) = compact.stream(cpu) else { continue };
        // Compressed, a few bytes can be half a million events; a part of them is enough here.
        while items.len() < 100_000 && stream.next_batch(&mut items, 1_000) {}
    }
    items
}

fuzz_target!(|data: &[u8]| {
    read(data);
    if let Ok(note) = str::from_utf8(data) {
        StackNotes::default().read(note);
    }
    let [side, data @ ..] = data else { return };
    let Ok(mut file) = BlockWriter::new(Vec::new(), &FileHeader::new(1, Isa::Svm, "")) else {
        return;
    };
    let log = LogId { cpu: CpuId(0), side: side % 3 };
    let sync: Vec<u8> = [1, 1_000, 0].iter().flat_map(|word: &u64| word.to_le_bytes()).collect();
    let words = [&sync, &data[..data.len() / 8 * 8]].concat();
    for (n, words) in words.chunks(CHUNK_BYTES).enumerate() {
        let position = (n * CHUNK_BYTES) as u64;
        let slice = Slice { log, position, sync_ns: 1_000, lost: 0, words };
        file.slice(slice).expect("writing to memory");
    }
    let file = file.finish(&Totals::default()).expect("writing to memory");
    let items = read(&file);
    let packed = repack(&file, Vec::new()).expect("what was just written");
    let events = |items: &[Item]| {
        items.iter().filter(|item| matches!(item, Item::Event { .. })).copied().collect::<Vec<_>>()
    };
    assert_eq!(events(&read(&packed)), events(&items));
});
