//! Files of other recorders become a recording: trace.dat files, or xentrace's.
//!
//! The files themselves are kept as they are; what import adds is who is who and how their clocks
//! relate. Every event is read once on the way, so that damage is known now and not later.

mod kernels;
mod rate;
mod survey;
mod xen;

use crate::{Watcher, XenOptions, xen::is_xentrace};
use anyhow::bail;
use std::{
    fmt::Display,
    fs,
    io::Write as _,
    path::{Path, PathBuf},
};
use survey::{Survey, Trace};
use transect_access::Readers;
use transect_clock::evidence::Evidence;
use transect_store::{Manifest, Mapping, RecordingWriter};

/// Problems shown per file; the rest is counted, and all of them are in the recording's notes.
const SHOWN_PROBLEMS: usize = 10;

/// What is to become a recording.
#[derive(Clone, Debug)]
pub struct Import {
    /// trace.dat files of one host and any of its guests; or an xentrace file and the files of its domains' kernels, as
    /// `DOMID=FILE`.
    pub files: Vec<PathBuf>,
    /// The recording to be made.
    pub output: PathBuf,
    /// Who may read it.
    pub readers: Readers,
    /// TSC frequency of the host in Hz, for x86-tsc files that lack it.
    pub tsc_hz: Option<u64>,
    /// Saved output of Xen's tools, which has the TSC frequency.
    pub xen_tsc: Option<PathBuf>,
    /// Facts that a trace of Xen lacks.
    pub xen: XenOptions,
    /// The command line, for the manifest.
    pub command_line: Vec<String>,
}

impl Import {
    /// Makes the recording. What was found is said to the watcher. False if a file could not be read completely: then the
    /// recording has the readable part, and its notes list what is missing.
    ///
    /// # Errors
    /// A file cannot be read at all, the files do not belong together, or the recording cannot be written.
    pub fn run(&self, watcher: &dyn Watcher) -> anyhow::Result<bool> {
        run(self, watcher)
    }
}

fn run(args: &Import, watcher: &dyn Watcher) -> anyhow::Result<bool> {
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
        return xen::run(args, path, map, &others.collect::<Vec<_>>(), watcher);
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
    let manifest = Manifest::new(now_unix_ns()?, args.command_line.clone());
    let mut survey = Survey::of(&traces, args.tsc_hz, manifest)?;
    survey.note_problems(&traces);
    survey.manifest.notes.extend(texts.iter().flat_map(|(_, notes)| notes.clone()));
    let is_in_ticks = survey.is_in_ticks()?;
    survey.manifest.notes.extend(is_in_ticks.then(|| rate::UNKNOWN.to_owned()));
    let sources: Vec<(&[u8], &str)> = survey
        .files
        .iter()
        .filter_map(|(at, file)| Some((&*texts.get(*at)?.0, file.as_str())))
        .collect();
    write(args, &survey.manifest, &survey.evidence, &sources)?;
    for (at, trace) in traces.iter().enumerate() {
        report(trace, survey.machine_name(at), watcher);
    }
    if is_in_ticks {
        watcher.say(rate::UNKNOWN);
    }
    Ok(traces.iter().all(|trace| trace.problems.is_empty()))
}

fn now_unix_ns() -> anyhow::Result<u64> {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH)?;
    Ok(u64::try_from(now.as_nanos())?)
}

/// Makes the recording, of the bytes of its files. A failure leaves nothing that looks like one.
fn write(
    args: &Import,
    manifest: &Manifest,
    evidence: &[Evidence],
    sources: &[(&[u8], &str)],
) -> anyhow::Result<()> {
    let (dir, readers) = (&args.output, args.readers);
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

fn report(trace: &Trace<'_>, name: &str, watcher: &dyn Watcher) {
    watcher.say(&format!(
        "{}: {name}, {} clock, {} CPUs, {} events{}",
        trace.path.display(),
        trace.clock,
        trace.cpus,
        trace.events,
        match (trace.holes, trace.lost) {
            (0, _) => String::new(),
            (holes, lost) => format!(", at least {lost} lost in {holes} gaps"),
        },
    ));
    report_problems(trace.path, &trace.problems, watcher);
}

fn report_problems<P: Display>(path: &Path, problems: &[P], watcher: &dyn Watcher) {
    for problem in problems.iter().take(SHOWN_PROBLEMS) {
        watcher.note(&format!("{}: {problem}", path.display()));
    }
    if problems.len() > SHOWN_PROBLEMS {
        let more = problems.len() - SHOWN_PROBLEMS;
        watcher.note(&format!("{}: and {more} more problems", path.display()));
    }
}
