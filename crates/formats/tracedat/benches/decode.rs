//! Decode rate of a whole trace.dat against `trace-cmd report` on the same file in the same run.
//!
//! `cargo bench --profile release -p transect-tracedat --bench decode [-- FILE]` (or `TRANSECT_BENCH_TRACE=FILE`).
//! Without a file, the host's half of the corpus' pair is repeated, its stamps going on, to about
//! a million events: real pages of a KVM host, with sched, kvm and irq events.
//!
//! Every event is walked, its thread read and its typed core event decoded, for all buffers and
//! CPUs. Best of five rounds for us; trace-cmd, which takes seconds, runs once and writes to
//! /dev/null.
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a benchmark prints its result")]

use std::{
    collections::BTreeMap,
    hint::black_box,
    path::{Path, PathBuf},
    process::{Command, ExitCode, Stdio},
    time::{Duration, Instant},
};
use transect_ftrace::{CoreDecoder, Page};
use transect_tracedat::{Buffer, BufferSpec, Compression, CpuSpec, FileSpec, Item, TraceDat};

/// What the requirement asks for.
const WANTED_RATIO: f64 = 10.0;
const ROUNDS: usize = 5;

struct Counts {
    events: u64,
    core: u64,
    lost: u64,
    problems: u64,
}

fn main() -> ExitCode {
    if cfg!(debug_assertions) {
        eprintln!("built as tests are: use `cargo bench --profile release`");
        return ExitCode::from(2);
    }
    let argument = std::env::args().skip(1).find(|arg| !arg.starts_with("--"));
    let given = argument.or_else(|| std::env::var("TRANSECT_BENCH_TRACE").ok()).map(PathBuf::from);
    let made = std::env::temp_dir().join(format!("transect-bench-{}.dat", std::process::id()));
    let result = match &given {
        Some(path) => run(path),
        None => repeat_corpus(&made).and_then(|()| run(&made)),
    };
    // It may not be there: nothing to say about that.
    let _ = std::fs::remove_file(&made);
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(err) => {
            eprintln!("decode rate of {}: {err}", given.unwrap_or(made).display());
            ExitCode::FAILURE
        }
    }
}

/// Repetitions of the corpus' 8,618 events.
const REPETITIONS: u64 = 120;

/// Writes a large uncompressed recording from a small one.
fn repeat_corpus(to: &Path) -> Result<(), Box<dyn std::error::Error>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../testdata/succeed/tracedat");
    let file = std::fs::read(folder.join("pair-host.dat"))?;
    let trace = TraceDat::parse(&file)?;
    let buffer = trace.buffers().first().ok_or("the corpus file has no buffer")?;
    let mut data = BTreeMap::new();
    for cpu in buffer.cpus() {
        data.insert(cpu, pages_of(&trace, buffer, cpu)?);
    }
    let stamps = data.values().flatten().filter_map(|page| Page::stamp(page, &buffer.layout));
    let (first, last) =
        stamps.fold((u64::MAX, 0), |(min, max), ts| (ts.get().min(min), ts.get().max(max)));
    // Longer than any page lasts, so that time goes on from one repetition to the next.
    let period = 2 * last.checked_sub(first).ok_or("no pages")?;
    let page_bytes = u32::try_from(buffer.layout.page_bytes)?;
    let size = |pages: &[Vec<u8>]| pages.len() as u64 * u64::from(page_bytes) * REPETITIONS;
    let cpus =
        data.iter().map(|(cpu, pages)| CpuSpec { cpu: *cpu, size_bytes: size(pages) }).collect();
    let spec = FileSpec {
        endian: trace.header().endian,
        long_bytes: trace.header().long_bytes,
        page_bytes: trace.header().page_bytes,
        compression: Compression::None,
        metadata: trace.metadata(),
        options: trace.options().clone(),
        buffers: vec![BufferSpec {
            name: String::new(),
            clock: buffer.clock.clone(),
            page_bytes,
            cpus,
        }],
    };
    let out = std::io::BufWriter::new(std::fs::File::create(to)?);
    spec.write(out, |_, cpu| {
        let pages = data.get(&cpu).map_or(&[][..], Vec::as_slice);
        Ok(std::io::Cursor::new(repeated(pages, period, buffer)))
    })?;
    Ok(())
}

fn pages_of(
    trace: &TraceDat<'_>,
    buffer: &Buffer,
    cpu: u32,
) -> Result<Vec<Vec<u8>>, Box<dyn std::error::Error>> {
    let mut stream = trace.stream(buffer, cpu).ok_or("a CPU without data")?;
    let mut pages = Vec::new();
    while let Some(page) = stream.next_page() {
        pages.push(page.map_err(|problem| problem.to_string())?.to_vec());
    }
    Ok(pages)
}

/// The pages again and again, each time `period` later. Only a page's own stamp is absolute.
fn repeated(pages: &[Vec<u8>], period: u64, buffer: &Buffer) -> Vec<u8> {
    let mut out = Vec::new();
    for repetition in 0..REPETITIONS {
        for page in pages {
            let stamp = Page::stamp(page, &buffer.layout).map_or(0, |ts| ts.get());
            let later = stamp.wrapping_add(period.wrapping_mul(repetition));
            out.extend(buffer.layout.endian.bytes_u64(later));
            out.extend_from_slice(&page[8..]);
        }
    }
    out
}

fn run(path: &Path) -> Result<(), Box<dyn std::error::Error>> {
    let file = std::fs::read(path)?;
    let mut best = Duration::MAX;
    let mut counts = Counts { events: 0, core: 0, lost: 0, problems: 0 };
    for _ in 0..ROUNDS {
        let start = Instant::now();
        counts = decode(&file)?;
        best = best.min(start.elapsed());
    }
    let events = counts.events as f64;
    let ours = events / best.as_secs_f64();
    println!(
        "transect   {:>9} events ({} core, {} lost, {} problems) in {:.3} s: {:.2} M events/s",
        counts.events,
        counts.core,
        counts.lost,
        counts.problems,
        best.as_secs_f64(),
        ours / 1e6
    );
    let Some(theirs) = trace_cmd(path)? else {
        println!("trace-cmd  not installed: no comparison");
        return Ok(());
    };
    let rate = events / theirs.as_secs_f64();
    println!(
        "trace-cmd  report in {:.3} s: {:.2} M events/s; ratio {:.1} (wanted: at least {WANTED_RATIO})",
        theirs.as_secs_f64(),
        rate / 1e6,
        ours / rate
    );
    if ours / rate < WANTED_RATIO {
        return Err(format!("ratio {:.1} is below {WANTED_RATIO}", ours / rate).into());
    }
    Ok(())
}

fn decode(file: &[u8]) -> Result<Counts, transect_tracedat::Error> {
    let trace = TraceDat::parse(file)?;
    let table = trace.events();
    let decoder = CoreDecoder::new(table);
    let mut counts = Counts { events: 0, core: 0, lost: 0, problems: 0 };
    for buffer in trace.buffers() {
        for cpu in buffer.cpus() {
            let Some(mut stream) = trace.stream(buffer, cpu) else { continue };
            while let Some(item) = stream.next() {
                match item {
                    Item::Event { ts, payload } => {
                        counts.events += 1;
                        black_box((ts, table.tid_of(payload)));
                        counts.core += u64::from(black_box(decoder.decode(payload)).is_some());
                    }
                    Item::Lost { count, .. } => counts.lost += count.unwrap_or(1),
                    Item::Problem(_) => counts.problems += 1,
                }
            }
        }
    }
    Ok(counts)
}

/// Time of one `trace-cmd report`; `None` if there is no trace-cmd.
fn trace_cmd(path: &Path) -> std::io::Result<Option<Duration>> {
    let start = Instant::now();
    let mut command = Command::new("trace-cmd");
    command.args(["report", "-i"]).arg(path).stdout(Stdio::null()).stderr(Stdio::null());
    match command.status() {
        Ok(status) if status.success() => Ok(Some(start.elapsed())),
        Ok(status) => Err(std::io::Error::other(format!("trace-cmd report: {status}"))),
        Err(err) if err.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(err) => Err(err),
    }
}
