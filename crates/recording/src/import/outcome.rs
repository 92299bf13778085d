//! What an import leaves: the recording, and what was found for whoever asked.

use super::{request::Import, survey::Trace};
use crate::Watcher;
use anyhow::bail;
use std::{fmt::Display, fs, io::Write as _, path::Path};
use transect_clock::evidence::Evidence;
use transect_store::{Manifest, RecordingWriter};

/// Problems shown per file; the rest is counted, and all of them are in the recording's notes.
const SHOWN_PROBLEMS: usize = 10;

pub(super) fn now_unix_ns() -> anyhow::Result<u64> {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH)?;
    Ok(u64::try_from(now.as_nanos())?)
}

/// Makes the recording, of the bytes of its files. A failure leaves nothing that looks like one.
pub(super) fn write(
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

/// Says what a file has.
pub(super) fn report(trace: &Trace<'_>, name: &str, watcher: &dyn Watcher) {
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

/// Says what of a file could not be read.
pub(super) fn report_problems<P: Display>(path: &Path, problems: &[P], watcher: &dyn Watcher) {
    for problem in problems.iter().take(SHOWN_PROBLEMS) {
        watcher.note(&format!("{}: {problem}", path.display()));
    }
    if problems.len() > SHOWN_PROBLEMS {
        let more = problems.len() - SHOWN_PROBLEMS;
        watcher.note(&format!("{}: and {more} more problems", path.display()));
    }
}
