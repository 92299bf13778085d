//! What takes the bytes of a recording: by kind of record, and what stands around them.
//!
//! `cargo run --release -p transect-compact --example bytes_by_kind -- host.compact…`
//!
//! One line per kind: records, events they tell (a folded record tells two), bytes, share of the
//! file. Then block headers, and which VM exits needed a record of three words.
#![allow(clippy::print_stdout, clippy::cast_precision_loss, reason = "it prints its counts")]

use std::{collections::BTreeMap, convert::Infallible, error::Error, fs};
use transect_compact::{
    BLOCK_HEADER_BYTES, Compact, Slice, count_events,
    kind::{self, KVM_EXIT, KVM_EXIT_ENTRY, TABLE},
    repack,
};

/// Of one kind.
#[derive(Clone, Copy, Default)]
struct Taken {
    records: u64,
    events: u64,
    bytes: u64,
}

#[derive(Default)]
struct Seen {
    kinds: BTreeMap<u8, Taken>,
    blocks: u64,
    /// Long exits by kind, reason and how many bits info1 has.
    long: BTreeMap<(u8, u64, u32), u64>,
}

impl Seen {
    fn slice(&mut self, slice: &Slice<'_>) {
        self.blocks += 1;
        let mut rest = slice.words;
        while let Some(first) = rest.first_chunk() {
            let w0 = u64::from_le_bytes(*first);
            let number = (w0 & 63) as u8;
            let bytes = usize::from(kind::WORDS[usize::from(number)].max(1)) * 8;
            let Some((record, after)) = rest.split_at_checked(bytes) else { return };
            let taken = self.kinds.entry(number).or_default();
            taken.records += 1;
            taken.events += count_events(record);
            taken.bytes += bytes as u64;
            self.long_exit(number, w0 >> 30, record);
            rest = after;
        }
    }

    fn long_exit(&mut self, number: u8, a: u64, record: &[u8]) {
        let Some(w2) = record.get(16..).and_then(|bytes| bytes.first_chunk()) else { return };
        let w2 = u64::from_le_bytes(*w2);
        let (reason, info1) = match number {
            KVM_EXIT => (a & 0xffff, w2),
            KVM_EXIT_ENTRY => (a & 0xfff, w2 >> 32),
            _ => return,
        };
        *self.long.entry((number, reason, 64 - info1.leading_zeros())).or_default() += 1;
    }

    fn print(&self, file_bytes: usize) {
        let file = file_bytes as f64;
        let events: u64 = self.kinds.values().map(|taken| taken.events).sum();
        println!("{file_bytes} bytes, {events} events, {:.2} B/event", file / events as f64);
        let mut rows: Vec<_> = self.kinds.iter().collect();
        rows.sort_by_key(|(_, taken)| std::cmp::Reverse(taken.bytes));
        println!("{:20} {:>9} {:>9} {:>10} {:>6}", "", "records", "events", "bytes", "%");
        let line = |name: &str, taken: Taken| {
            let (records, events, bytes) = (taken.records, taken.events, taken.bytes);
            let share = bytes as f64 * 100.0 / file;
            println!("{name:20} {records:9} {events:9} {bytes:10} {share:6.1}");
        };
        for (number, taken) in rows {
            line(TABLE.get(usize::from(*number)).map_or("?", |row| row.name), *taken);
        }
        let words: u64 = self.kinds.values().map(|taken| taken.bytes).sum();
        let bytes = self.blocks * BLOCK_HEADER_BYTES as u64;
        line("block headers", Taken { records: self.blocks, events: 0, bytes });
        let rest = (file_bytes as u64).saturating_sub(words + bytes);
        line("header and the rest", Taken { records: 1, events: 0, bytes: rest });
        for ((number, reason, bits), times) in &self.long {
            let name = TABLE.get(usize::from(*number)).map_or("?", |row| row.name);
            println!("{name}: reason {reason:#x}, info1 of {bits} bits: {times}");
        }
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    for path in std::env::args().skip(1) {
        let bytes = fs::read(&path)?;
        let compact = Compact::parse(&bytes)?;
        let mut seen = Seen::default();
        compact.slices(&mut |slice: Slice<'_>| -> Result<(), Infallible> {
            seen.slice(&slice);
            Ok(())
        })?;
        println!("{path}");
        seen.print(bytes.len());
        println!("repacked: {} bytes", repack(&bytes, Vec::new())?.len());
    }
    Ok(())
}
