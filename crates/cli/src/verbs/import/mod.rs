//! `transect import`: files of other recorders become a recording: trace.dat files, or xentrace's.
//!
//! The files themselves are kept as they are; what import adds is who is who and how their clocks
//! relate. Every event is read once on the way, so that damage is known now and not later.

mod survey;
mod xen;

use super::load::xen::{XenArgs, is_xentrace};
use anyhow::{Context as _, bail};
use std::{
    fmt::Display,
    fs,
    path::{Path, PathBuf},
    process::ExitCode,
};
use survey::{Survey, Trace};
use transect_clock::evidence::Evidence;
use transect_store::{Manifest, Mapping, RecordingWriter};

/// Problems shown per file; the rest is counted, and all of them are in the recording's notes.
const SHOWN_PROBLEMS: usize = 10;

/// Arguments of `transect import`.
#[derive(clap::Args)]
#[command(after_help = "Examples:\n  \
    transect import trace.dat -o mine.transect\n  \
    transect import host.dat host-web1.dat -o pair.transect   (trace-cmd record -A pairs)\n  \
    transect import xen.bin -o xen.transect --cpu-hz 2596139000 --domain 1=web   (xentrace)\n\n\
    trace.dat versions 6 and 7 are read (plain, zlib, zstd). The host's file names its guests, so \
    the order of files does not matter. xentrace files of Xen 4.14 to 4.20 are read; they say \
    neither the TSC's rate nor the domains' names.\n\
    Exit code: 0; 1 if a file could not be read, or only in part (then the recording holds what \
    could be read, and says what is missing).")]
pub(crate) struct Args {
    /// trace.dat files: one host's, and any of its guests'; or an xentrace file
    #[arg(required = true)]
    files: Vec<PathBuf>,
    /// The recording to make
    #[arg(short, long, value_name = "DIR")]
    output: PathBuf,
    /// Ticks per second of the host's TSC, for x86-tsc files that do not say; without it such
    /// files are shown in ticks ('xl info' in dom0 says Xen's as cpu_mhz)
    #[arg(long, visible_alias = "cpu-hz", value_name = "HZ")]
    tsc_hz: Option<u64>,
    #[command(flatten)]
    xen: XenArgs,
}

pub(crate) fn run(args: Args) -> anyhow::Result<ExitCode> {
    let maps = args
        .files
        .iter()
        .map(|path| Ok((path.as_path(), Mapping::open(path)?)))
        .collect::<anyhow::Result<Vec<_>>>()?;
    if let Some((path, map)) = maps.iter().find(|(_, map)| is_xentrace(map)) {
        if maps.len() > 1 {
            bail!(
                "{}: an xentrace file is imported alone; import what the domains' kernels \
                 recorded into recordings of its own",
                path.display()
            );
        }
        return xen::run(&args, path, map);
    }
    let traces = maps
        .iter()
        .map(|(path, map)| Trace::read(path, map))
        .collect::<anyhow::Result<Vec<Trace<'_>>>>()?;
    let command_line = std::env::args().collect();
    let mut survey = Survey::of(&traces, args.tsc_hz, Manifest::new(now_unix_ns()?, command_line))?;
    survey.note_problems(&traces);
    write(&args.output, &args.files, &survey.manifest, &survey.evidence, &survey.files)?;
    for (at, trace) in traces.iter().enumerate() {
        report(trace, survey.machine_name(at));
    }
    println!("next: transect report {}", args.output.display());
    let whole = traces.iter().all(|trace| trace.problems.is_empty());
    Ok(if whole { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn now_unix_ns() -> anyhow::Result<u64> {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH)?;
    Ok(u64::try_from(now.as_nanos())?)
}

/// Makes the recording. A failure leaves nothing that looks like one.
fn write(
    dir: &Path,
    files: &[PathBuf],
    manifest: &Manifest,
    evidence: &[Evidence],
    sources: &[(usize, String)],
) -> anyhow::Result<()> {
    let writer = RecordingWriter::create(dir, Manifest { finished: false, ..manifest.clone() })?;
    for evidence in evidence {
        writer.evidence(evidence)?;
    }
    for (at, source) in sources {
        let from = files.get(*at).context("a source without a file")?;
        let to = dir.join(source);
        if let Err(error) = fs::copy(from, &to) {
            fs::remove_dir_all(dir).ok();
            bail!("cannot copy {} to {}: {error}", from.display(), to.display());
        }
    }
    writer.make_room();
    writer.update(|manifest| manifest.finished = true)?;
    Ok(())
}

fn report(trace: &Trace<'_>, name: &str) {
    println!(
        "{}: {name}, {} clock, {} CPUs, {} events{}",
        trace.path.display(),
        trace.clock,
        trace.cpus,
        trace.events,
        match (trace.holes, trace.lost) {
            (0, _) => String::new(),
            (holes, lost) => format!(", at least {lost} lost in {holes} places"),
        },
    );
    report_problems(trace.path, &trace.problems);
}

fn report_problems<P: Display>(path: &Path, problems: &[P]) {
    for problem in problems.iter().take(SHOWN_PROBLEMS) {
        eprintln!("transect: {}: {problem}", path.display());
    }
    if problems.len() > SHOWN_PROBLEMS {
        let more = problems.len() - SHOWN_PROBLEMS;
        eprintln!("transect: {}: and {more} more problems", path.display());
    }
}
