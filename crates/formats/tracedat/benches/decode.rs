//! Decode rate of a whole trace.dat against `trace-cmd report` on the same file in the same run.
//!
//! `cargo bench -p transect-tracedat -- FILE` (or `TRANSECT_BENCH_TRACE=FILE`). Every event is
//! walked, its thread read and its typed core event decoded, for all buffers and CPUs. Best of
//! five rounds for us; trace-cmd, which takes seconds, runs once and writes to /dev/null.
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a benchmark prints its result")]

use std::{
    hint::black_box,
    path::{Path, PathBuf},
    process::{Command, ExitCode, Stdio},
    time::{Duration, Instant},
};
use transect_ftrace::CoreDecoder;
use transect_tracedat::{Item, TraceDat};

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
    let argument = std::env::args().skip(1).find(|arg| !arg.starts_with("--"));
    let path = argument.or_else(|| std::env::var("TRANSECT_BENCH_TRACE").ok());
    let Some(path) = path.map(PathBuf::from) else {
        println!("decode rate: no trace.dat given (`-- FILE` or TRANSECT_BENCH_TRACE); not run");
        return ExitCode::SUCCESS;
    };
    match run(&path) {
        Ok(()) => ExitCode::SUCCESS,
        Err(err) => {
            eprintln!("decode rate of {}: {err}", path.display());
            ExitCode::FAILURE
        }
    }
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
