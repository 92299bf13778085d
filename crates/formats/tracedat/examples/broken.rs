//! Writes files that are wrong in one way each, for `testdata/fail/tracedat`.
//!
//! `cargo run -p transect-tracedat --example broken -- FOLDER`, then
//! `TRANSECT_UPDATE=1 cargo test -p transect-tracedat --test it fail` and read the difference.
#![allow(clippy::print_stderr, reason = "a tool of the developers")]

use std::{error::Error, io::Cursor, path::Path};
use transect_tracedat::{BufferSpec, Compression, CpuSpec, FileSpec, TraceDat};

/// A recording of 64-bit little-endian pages, uncompressed; cut down by [`small`].
const PLAIN: &[u8] = include_bytes!("../../../../testdata/succeed/tracedat/v7-none.dat");
const PACKED: &[u8] = include_bytes!("../../../../testdata/succeed/tracedat/odd-le64.dat");
const SHIFTED: &[u8] = include_bytes!("../../../../testdata/succeed/tracedat/odd-drifting.dat");
const V6: &[u8] = include_bytes!("../../../../testdata/succeed/tracedat/v6.dat");

/// Peer's trace id and flags of the drifting recording.
const TIME_SHIFT_HEAD: [u8; 12] = [1, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0];

type Change = fn(&mut Vec<u8>) -> Option<()>;

const FILES: &[(&str, &[u8], Change)] = &[
    ("empty", PLAIN, |f| keep(f, 0)),
    ("wrong-magic", PLAIN, |f| set(f, 0, &[0x18]).and_then(|()| keep(f, 64))),
    ("not-a-trace", PLAIN, |f| {
        *f = b"PERFILE2 is what perf.data begins with".to_vec();
        Some(())
    }),
    ("version-8", PLAIN, |f| set(f, 10, b"8").and_then(|()| keep(f, 64))),
    ("byte-order-2", PLAIN, |f| set(f, 12, &[2]).and_then(|()| keep(f, 64))),
    ("long-of-3", PLAIN, |f| set(f, 13, &[3]).and_then(|()| keep(f, 64))),
    ("page-of-0", PLAIN, |f| set(f, 14, &[0; 4]).and_then(|()| keep(f, 64))),
    ("compressed-with-lz4", PACKED, |f| set(f, 18, b"lz4\0").and_then(|()| keep(f, 64))),
    ("cut-in-page", PLAIN, |f| keep(f, f.len() - 5000)),
    ("cut-in-header", PLAIN, |f| keep(f, 16)),
    ("cut-in-metadata", PLAIN, |f| keep(f, 700)),
    ("cut-in-metadata-v6", V6, |f| keep(f, 3000)),
    ("no-options", PLAIN, |f| set(f, 24, &[0; 8])),
    ("options-at-2-64", PLAIN, |f| set(f, 24, &[0xff; 8])),
    ("options-loop", PLAIN, |f| {
        let first = f.get(24..32)?.to_vec();
        let done = last(f, b"\0\0\x08\0\0\0\0\0\0\0\0\0\0\0")?;
        set(f, done + 6, &first)
    }),
    ("option-of-4-gib", PLAIN, |f| size_of_option(f, b"\x04\0", b"[x86-tsc]", &[0xff; 4])),
    ("no-header-page", PLAIN, |f| replace(f, b"header_page\0", b"header_pace\0")),
    ("header-page-without-commit", PLAIN, |f| replace(f, b"local_t commit", b"local_t commut")),
    ("old-record-encoding", PLAIN, |f| replace(f, b"type == 29", b"type == 00")),
    ("format-without-size", PLAIN, |f| {
        replace(f, b"prev_pid;\toffset:24;\tsize:", b"prev_pid;\toffset:24;\tsise:")
    }),
    ("format-without-id", PLAIN, |f| {
        replace(f, b"name: sched_switch\nID:", b"name: sched_switch\nIE:")
    }),
    ("format-not-text", PLAIN, |f| replace(f, b"prev_comm[16]", b"prev_\xff\xfe\xfdm[16]")),
    ("cpu-data-of-2-64", PLAIN, |f| buffer_cpu(f, 12, &[0xff; 8])),
    ("cpu-data-at-2-64", PLAIN, |f| buffer_cpu(f, 4, &[0xff; 8])),
    ("page-of-zeroes", PLAIN, |f| page(f, 1, 0, &[0; 4096])),
    ("commit-beyond-page", PLAIN, |f| page(f, 1, 8, &[0xf8, 0x0f])),
    ("record-beyond-page", PLAIN, |f| {
        page(f, 0, 16, &[28, 0, 0, 0]).and_then(|()| page(f, 0, 8, &[64, 0]))
    }),
    ("stamp-of-2-64", PLAIN, |f| page(f, 0, 0, &[0xff; 8])),
    ("chunk-of-4-gib", PACKED, |f| chunk(f, 4, &[0xff; 4])),
    ("chunk-flipped", PACKED, |f| chunk(f, 20, &[0xaa, 0x55])),
    ("chunk-cut", PACKED, |f| keep(f, f.len() - 600)),
    ("time-shift-of-2-32-cpus", SHIFTED, |f| {
        let at = first(f, &TIME_SHIFT_HEAD)? + TIME_SHIFT_HEAD.len();
        set(f, at, &[0xff; 4])
    }),
];

fn main() -> Result<(), Box<dyn Error>> {
    let folder = std::env::args().nth(1).ok_or("usage: broken FOLDER")?;
    for (name, from, change) in FILES {
        let mut file = if *from == PLAIN { small(from)? } else { from.to_vec() };
        change(&mut file).ok_or_else(|| format!("{name}: nothing to change found"))?;
        std::fs::write(Path::new(&folder).join(name).with_extension("dat"), &file)?;
        eprintln!("{name}: {} bytes", file.len());
    }
    Ok(())
}

/// The same recording with two pages a CPU and one event's format.
fn small(file: &[u8]) -> Result<Vec<u8>, Box<dyn Error>> {
    let trace = TraceDat::parse(file)?;
    let buffer = &trace.buffers()[0];
    let mut metadata = trace.metadata();
    metadata.ftrace_events.clear();
    metadata.systems.retain(|(system, _)| system == "sched");
    for (_, formats) in &mut metadata.systems {
        formats.retain(|format| first(format, b"name: sched_switch\n").is_some());
    }
    let size_bytes = 2 * buffer.layout.page_bytes as u64;
    let cpus: Vec<_> = buffer.cpus().map(|cpu| CpuSpec { cpu, size_bytes }).collect();
    let spec = FileSpec {
        endian: trace.header().endian,
        long_bytes: trace.header().long_bytes,
        page_bytes: trace.header().page_bytes,
        compression: Compression::None,
        metadata,
        options: trace.options().clone(),
        buffers: vec![BufferSpec {
            name: String::new(),
            clock: buffer.clock.clone(),
            page_bytes: trace.header().page_bytes,
            cpus,
        }],
    };
    let mut out = Cursor::new(Vec::new());
    spec.write(&mut out, |_, cpu| {
        let data = buffer.cpus.iter().find(|data| data.cpu == cpu);
        let start = data.and_then(|data| usize::try_from(data.offset_bytes).ok()).unwrap_or(0);
        Ok(Cursor::new(&file[start..]))
    })?;
    Ok(out.into_inner())
}

fn keep(file: &mut Vec<u8>, len: usize) -> Option<()> {
    file.truncate(len);
    Some(())
}

fn set(file: &mut [u8], at: usize, bytes: &[u8]) -> Option<()> {
    file.get_mut(at..at + bytes.len())?.copy_from_slice(bytes);
    Some(())
}

fn first(file: &[u8], pattern: &[u8]) -> Option<usize> {
    file.windows(pattern.len()).position(|window| window == pattern)
}

fn last(file: &[u8], pattern: &[u8]) -> Option<usize> {
    file.windows(pattern.len()).rposition(|window| window == pattern)
}

fn replace(file: &mut [u8], from: &[u8], to: &[u8]) -> Option<()> {
    let at = first(file, from)?;
    set(file, at, to)
}

/// Sets the size of the option that begins with `id` and contains `text`.
fn size_of_option(file: &mut [u8], id: &[u8], text: &[u8], bytes: &[u8]) -> Option<()> {
    let within = first(file, text)?;
    let option = last(file.get(..within)?, id)?;
    set(file, option + 2, bytes)
}

/// Changes the first CPU's line in the BUFFER option: CPU at 0, offset at 4, size at 12.
fn buffer_cpu(file: &mut [u8], field: usize, bytes: &[u8]) -> Option<()> {
    let cpu = TraceDat::parse(file).ok()?.buffers().first()?.cpus.first().copied()?;
    let line = [&cpu.cpu.to_le_bytes()[..], &cpu.offset_bytes.to_le_bytes()].concat();
    let at = first(file, &line)?;
    set(file, at + field, bytes)
}

/// Changes bytes of one page of the first CPU.
fn page(file: &mut [u8], number: usize, at: usize, bytes: &[u8]) -> Option<()> {
    let start = data_start(file)?;
    set(file, start + number * 4096 + at, bytes)
}

/// Changes bytes of the first CPU's first chunk: sizes at 0 and 4, data at 8.
fn chunk(file: &mut [u8], at: usize, bytes: &[u8]) -> Option<()> {
    let start = data_start(file)?;
    set(file, start + 4 + at, bytes)
}

fn data_start(file: &[u8]) -> Option<usize> {
    let trace = TraceDat::parse(file).ok()?;
    usize::try_from(trace.buffers().first()?.cpus.first()?.offset_bytes).ok()
}
