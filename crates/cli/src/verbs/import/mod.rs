//! `transect import`: files of other recorders become a recording: trace.dat files, or xentrace's.
//!
//! The files themselves are kept as they are; what import adds is who is who and how their clocks
//! relate. Every event is read once on the way, so that damage is known now and not later.

mod kernels;
mod rate;
mod survey;
mod xen;

use super::load::xen::{XenArgs, is_xentrace};
use crate::terminal::{note, say};
use anyhow::bail;
use std::{
    fmt::Display,
    fs,
    io::Write as _,
    path::{Path, PathBuf},
    process::ExitCode,
};
use survey::{Survey, Trace};
use transect_access::{Group, Readers};
use transect_clock::evidence::Evidence;
use transect_store::{Manifest, Mapping, RecordingWriter};

/// Problems shown per file; the rest is counted, and all of them are in the recording's notes.
const SHOWN_PROBLEMS: usize = 10;

/// Arguments of `transect import`.
#[derive(clap::Args)]
#[command(after_help = "Examples:\n  \
    transect import trace.dat -o mine.transect\n  \
    transect import host.dat host-web1.dat -o pair.transect   (trace-cmd record -A pairs)\n  \
    transect import xen.bin -o xen.transect --cpu-hz 2596139000 --domain 1=web   (xentrace)\n  \
    transect import xen.bin -o xen.transect --xen-tsc xl-info.txt   (saved output of 'xl info')\n  \
    transect import xen.bin 0=dom0.dat 1=web.dat 2=trace.txt -o all.transect --cpu-hz 2596139000\n\n\
    trace.dat versions 6 and 7 are read (plain, zlib, zstd). The host's file names its guests, so \
    the order of files does not matter. xentrace files of Xen 4.14 to 4.20 are read; they contain \
    neither the TSC frequency nor the domain names. You can add files recorded at the same time by the kernels of dom0 and \
    the domUs, as DOMID=FILE or, if only one domain fits, as FILE: trace.dat, or the text of tracefs's 'trace'. Their \
    clocks are aligned to Xen's by the intervals in which Xen had their vCPUs running.\n\
    Exit code: 0; 1 if a file could not be read completely (the recording then holds the readable \
    part, and its notes list the missing parts).")]
pub(crate) struct Args {
    /// trace.dat files of one host and any of its guests; or an xentrace file and the files of its
    /// domains' kernels, as DOMID=FILE
    #[arg(required = true)]
    files: Vec<PathBuf>,
    /// Recording to create
    #[arg(short, long, value_name = "DIR")]
    output: PathBuf,
    /// Also let this group (name or number) read the recording: mode 0750 and 0640 instead of 0700 and 0600
    #[arg(long, value_name = "GROUP", value_parser = Group::from_name)]
    group: Option<Group>,
    /// TSC frequency of the host in Hz, for x86-tsc files that lack it; without it, times of such
    /// files are in ticks (for Xen, 'xl info' in dom0 prints it as cpu_mhz)
    #[arg(long, visible_alias = "cpu-hz", value_name = "HZ")]
    tsc_hz: Option<u64>,
    /// Saved output of 'xl info', or of 'xl dmesg' after 'xl debug-keys s': the TSC frequency that Xen
    /// prints, used without --cpu-hz and without a frequency in dom0's file. With the latter, the offsets
    /// that Xen prints for emulated TSCs are also compared with the measured ones
    #[arg(long, value_name = "FILE")]
    xen_tsc: Option<PathBuf>,
    #[command(flatten)]
    xen: XenArgs,
}

pub(crate) fn run(args: Args) -> anyhow::Result<ExitCode> {
    let named: Vec<(Option<u16>, PathBuf)> =
        args.files.iter().map(|path| kernels::named(path)).collect();
    let maps = named
        .iter()
        .map(|(_, path)| Ok((path.as_path(), Mapping::open(path)?)))
        .collect::<anyhow::Result<Vec<_>>>()?;
    let mut xens = maps.iter().enumerate().filter(|(_, (_, map))| is_xentrace(map));
    if let Some((at, (path, map))) = xens.next() {
        if let Some((_, (other, _))) = xens.next() {
            bail!(
                "{} and {} are both xentrace files: a recording has only one",
                path.display(),
                other.display()
            );
        }
        let others = named.iter().zip(&maps).enumerate().filter(|(other, _)| *other != at);
        let others = others.map(|(_, ((dom, _), (path, map)))| (*dom, *path, &**map));
        return xen::run(&args, path, map, &others.collect::<Vec<_>>());
    }
    if let Some((Some(dom), path)) = named.iter().find(|(dom, _)| dom.is_some()) {
        bail!(
            "{dom}={}: a domain number needs an xentrace file: add it, or leave out the number",
            path.display()
        );
    }
    let texts = maps
        .iter()
        .map(|(path, map)| kernels::as_dat(path, map))
        .collect::<anyhow::Result<Vec<_>>>()?;
    let traces = maps
        .iter()
        .zip(&texts)
        .map(|((path, _), (bytes, _))| Trace::read(path, bytes))
        .collect::<anyhow::Result<Vec<Trace<'_>>>>()?;
    let command_line = std::env::args().collect();
    let mut survey = Survey::of(&traces, args.tsc_hz, Manifest::new(now_unix_ns()?, command_line))?;
    survey.note_problems(&traces);
    survey.manifest.notes.extend(texts.iter().flat_map(|(_, notes)| notes.clone()));
    let is_in_ticks = survey.is_in_ticks()?;
    survey.manifest.notes.extend(is_in_ticks.then(|| rate::UNKNOWN.to_owned()));
    let sources: Vec<(&[u8], &str)> = survey
        .files
        .iter()
        .filter_map(|(at, file)| Some((&*texts.get(*at)?.0, file.as_str())))
        .collect();
    write(&args, &survey.manifest, &survey.evidence, &sources)?;
    for (at, trace) in traces.iter().enumerate() {
        report(trace, survey.machine_name(at));
    }
    if is_in_ticks {
        say!("{}", rate::UNKNOWN);
    }
    say!("next: transect report {}", args.output.display());
    let whole = traces.iter().all(|trace| trace.problems.is_empty());
    Ok(if whole { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn now_unix_ns() -> anyhow::Result<u64> {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH)?;
    Ok(u64::try_from(now.as_nanos())?)
}

/// Makes the recording, of the bytes of its files. A failure leaves nothing that looks like one.
fn write(
    args: &Args,
    manifest: &Manifest,
    evidence: &[Evidence],
    sources: &[(&[u8], &str)],
) -> anyhow::Result<()> {
    let (dir, readers) = (&args.output, args.group.map_or(Readers::Owner, Readers::Group));
    let manifest = Manifest { finished: false, ..manifest.clone() };
    let writer = RecordingWriter::create_for(dir, manifest, readers)?;
    for evidence in evidence {
        writer.evidence(evidence)?;
    }
    for (bytes, source) in sources {
        let to = dir.join(source);
        let made = transect_access::create_file(&to);
        if let Err(error) = made.and_then(|mut file| file.write_all(bytes)) {
            fs::remove_dir_all(dir).ok();
            bail!("cannot write {}: {error}", to.display());
        }
    }
    let finished = writer.finish()?;
    match finished.problems.into_iter().next() {
        Some(problem) => Err(problem.into()),
        None => Ok(()),
    }
}

fn report(trace: &Trace<'_>, name: &str) {
    say!(
        "{}: {name}, {} clock, {} CPUs, {} events{}",
        trace.path.display(),
        trace.clock,
        trace.cpus,
        trace.events,
        match (trace.holes, trace.lost) {
            (0, _) => String::new(),
            (holes, lost) => format!(", at least {lost} lost in {holes} gaps"),
        },
    );
    report_problems(trace.path, &trace.problems);
}

fn report_problems<P: Display>(path: &Path, problems: &[P]) {
    for problem in problems.iter().take(SHOWN_PROBLEMS) {
        note!("{}: {problem}", path.display());
    }
    if problems.len() > SHOWN_PROBLEMS {
        let more = problems.len() - SHOWN_PROBLEMS;
        note!("{}: and {more} more problems", path.display());
    }
}
