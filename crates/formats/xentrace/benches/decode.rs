//! Pace of decoding beside xenalyze, on the same file in the same run.
//!
//! `cargo bench -p transect-xentrace --bench decode [-- FILE.bin | RECORDS]`
//!
//! Without a file, one of fifty million records is made up. Ours reads the file, walks every stream
//! and makes every typed event, on one core and on two; xenalyze reads it and prints its summary,
//! which is more than we do here (states and metrics are the engine's), so the ratio says how much
//! of its time is left for that. Rounds are interleaved; medians count.
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a benchmark prints its result")]

use std::{
    error::Error,
    fs::File,
    hint::black_box,
    io::BufWriter,
    ops::Range,
    path::{Path, PathBuf},
    process::{Command, ExitCode, Stdio},
    time::{Duration, Instant},
};
use transect_model::ids::CpuId;
use transect_xentrace::{
    XenEvent, XenTrace, XenVersion,
    synthetic::{self, Spec},
};

const ROUNDS: usize = 3;
const RECORDS: u64 = 50_000_000;

type Failed = Box<dyn Error>;
/// Reads the file at a path; gives the number of records.
type Measure = fn(&Path) -> Result<u64, Failed>;

fn main() -> ExitCode {
    let argument = std::env::args().skip(1).find(|arg| !arg.starts_with("--"));
    match run(argument.as_deref()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(err) => {
            eprintln!("decode pace: {err}");
            ExitCode::FAILURE
        }
    }
}

fn run(argument: Option<&str>) -> Result<(), Failed> {
    let folder = tempfile::tempdir()?;
    let path = match argument {
        Some(text) if text.parse::<u64>().is_err() => PathBuf::from(text),
        count => made_up(folder.path(), count.map_or(Ok(RECORDS), str::parse)?)?,
    };
    let measured: [(&str, Measure); 4] = [
        ("walk, one core", |path| on_cores(path, 1, walk)),
        ("typed events, one core", |path| on_cores(path, 1, decode)),
        ("typed events, two cores", |path| on_cores(path, 2, decode)),
        ("xenalyze --summary", xenalyze),
    ];
    let mut times = vec![Vec::new(); measured.len()];
    let mut records = 0;
    for _ in 0..ROUNDS {
        for ((_, measure), times) in measured.iter().zip(&mut times) {
            let begin = Instant::now();
            records = records.max(measure(&path)?);
            times.push(begin.elapsed());
        }
    }
    print(&measured.map(|(name, _)| name), times, records);
    Ok(())
}

fn print(names: &[&str], mut times: Vec<Vec<Duration>>, records: u64) {
    let medians: Vec<f64> = times
        .iter_mut()
        .map(|times| {
            times.sort();
            times[times.len() / 2].as_secs_f64()
        })
        .collect();
    let peer = medians[medians.len() - 1];
    println!("{records} records, median of {ROUNDS} rounds");
    for (name, median) in names.iter().zip(medians) {
        let pace = records as f64 / median / 1e6;
        println!(
            "{name:26} {median:7.3} s {pace:7.1} M records/s {:6.1} x xenalyze",
            peer / median
        );
    }
}

fn made_up(folder: &Path, records: u64) -> Result<PathBuf, Failed> {
    let path = folder.join("made-up.bin");
    let out = BufWriter::with_capacity(1 << 20, File::create(&path)?);
    synthetic::write(out, &Spec { records, ..Spec::default() })?;
    Ok(path)
}

fn xenalyze(path: &Path) -> Result<u64, Failed> {
    let status = Command::new("xenalyze")
        .arg("--summary")
        .arg(path)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .map_err(|err| format!("xenalyze (Debian's xen-utils-common): {err}"))?;
    if status.success() { Ok(0) } else { Err(format!("xenalyze: {status}").into()) }
}

/// One stretch of one CPU's windows; gives the number of records.
type Work = fn(&XenTrace<'_>, CpuId, Range<usize>) -> u64;

fn walk(trace: &XenTrace<'_>, cpu: CpuId, windows: Range<usize>) -> u64 {
    let mut stream = trace.stream_of(cpu, windows);
    for record in &mut stream {
        black_box(record.tsc);
    }
    stream.totals().records
}

fn decode(trace: &XenTrace<'_>, cpu: CpuId, windows: Range<usize>) -> u64 {
    let mut stream = trace.stream_of(cpu, windows);
    let mut known = 0_u64;
    for record in &mut stream {
        let event = black_box(record.typed());
        known += u64::from(event != XenEvent::Other);
    }
    black_box(known);
    stream.totals().records
}

fn on_cores(path: &Path, cores: usize, work: Work) -> Result<u64, Failed> {
    let file = std::fs::read(path)?;
    let trace = XenTrace::parse(&file, XenVersion::Unknown)?;
    let cpus: Vec<CpuId> = trace.cpus().collect();
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..cores)
            .map(|core| {
                let (trace, cpus) = (&trace, &cpus);
                scope.spawn(move || {
                    let part = |&cpu: &CpuId| {
                        let windows = trace.parts(cpu, cores)[core].clone();
                        work(trace, cpu, windows)
                    };
                    cpus.iter().map(part).sum::<u64>()
                })
            })
            .collect();
        let mut records = 0;
        for thread in threads {
            records += thread.join().map_err(|_| "a thread panicked")?;
        }
        Ok(records)
    })
}
