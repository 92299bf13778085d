//! Pace of decoding beside xenalyze, on the same file in the same run.
//!
//! `cargo bench --profile release -p transect-xentrace --bench decode [-- FILE.bin | RECORDS]`
//!
//! Without a file, one of fifty million records is made up. Ours reads the file, walks every stream
//! and makes every typed event, on one core and on two; xenalyze reads it and prints its summary,
//! which is more than we do here (states and metrics are the engine's), so the ratio says how much
//! of its time is left for that. Rounds are interleaved; medians count. Beside the time that passed
//! stands the CPU time it took (user and system), which is less disturbed by a busy machine.
#![allow(unsafe_code, reason = "the file is mapped, as the commands do it")]
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a benchmark prints its result")]

use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};
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
    if cfg!(debug_assertions) {
        eprintln!("built as tests are: use `cargo bench --profile release`");
        return ExitCode::from(2);
    }
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
    let mut passed = vec![Vec::new(); measured.len()];
    let mut used = vec![Vec::new(); measured.len()];
    let mut records = 0;
    for _ in 0..ROUNDS {
        for (n, (_, measure)) in measured.iter().enumerate() {
            let (begin, cpu) = (Instant::now(), cpu_time()?);
            records = records.max(measure(&path)?);
            passed[n].push(begin.elapsed());
            used[n].push(cpu_time()?.saturating_sub(cpu));
        }
    }
    let names = measured.map(|(name, _)| name);
    println!("{records} records, median of {ROUNDS} rounds");
    print("passed", &names, passed, records);
    print("CPU", &names, used, records);
    Ok(())
}

/// CPU time of this process and those it has waited for, in ticks of 10 ms.
fn cpu_time() -> Result<Duration, Failed> {
    let stat = procfs::process::Process::myself()?.stat()?;
    let waited_for = u64::try_from(stat.cutime + stat.cstime)?;
    Ok(Duration::from_millis(10 * (stat.utime + stat.stime + waited_for)))
}

fn print(what: &str, names: &[&str], mut times: Vec<Vec<Duration>>, records: u64) {
    let medians: Vec<f64> = times
        .iter_mut()
        .map(|times| {
            times.sort();
            times[times.len() / 2].as_secs_f64()
        })
        .collect();
    let peer = medians[medians.len() - 1];
    for (name, median) in names.iter().zip(medians) {
        let pace = records as f64 / median / 1e6;
        println!(
            "{name:26} {median:7.3} s {what:6} {pace:7.1} M records/s {:6.1} x xenalyze",
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
    let file = Mapped::new(path)?;
    let trace = XenTrace::parse(file.bytes(), XenVersion::Unknown)?;
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

/// A file mapped for reading.
struct Mapped {
    at: *mut std::ffi::c_void,
    bytes: usize,
}

impl Mapped {
    fn new(path: &Path) -> Result<Mapped, Failed> {
        let file = File::open(path)?;
        let bytes = usize::try_from(file.metadata()?.len())?;
        // SAFETY: a new mapping at an address of the kernel's choice touches no other memory.
        let at = unsafe {
            mmap(std::ptr::null_mut(), bytes, ProtFlags::READ, MapFlags::PRIVATE, &file, 0)?
        };
        Ok(Mapped { at, bytes })
    }

    fn bytes(&self) -> &[u8] {
        // SAFETY: the mapping has so many bytes and lives as long as self; nobody writes to a file
        // of the benchmark's own, or to one given to be measured.
        unsafe { std::slice::from_raw_parts(self.at.cast(), self.bytes) }
    }
}

impl Drop for Mapped {
    fn drop(&mut self) {
        // SAFETY: mapped by new, and no slice of it outlives self.
        let unmapped = unsafe { munmap(self.at, self.bytes) };
        debug_assert!(unmapped.is_ok());
    }
}
