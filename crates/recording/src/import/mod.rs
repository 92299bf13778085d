//! Files of other recorders become a recording: trace.dat files, or xentrace's.
//!
//! The files themselves are kept as they are; what import adds is who is who and how their clocks
//! relate. Every event is read once on the way, so that damage is known now and not later.

mod kernels;
mod outcome;
mod rate;
mod request;
mod survey;
mod xen;

use crate::{Watcher, source::is_xentrace};
use anyhow::bail;
use outcome::{now_unix_ns, report, write};
pub use request::Import;
use std::path::PathBuf;
use survey::{Survey, Trace};
use transect_store::{Manifest, Mapping};

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
