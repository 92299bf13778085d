//! `trace-cmd record`, which cannot run on every kernel.

use super::tracer::{Tracer, Wish};
use crate::{
    bed::{Bed, is_installed, output},
    traced::Traced,
};
use anyhow::{Result, bail, ensure};
use std::{fs, path::Path};
use transect_tracedat::{Item, TraceDat};

/// trace-cmd with its default clock.
#[derive(Clone, Copy, Debug)]
pub struct TraceCmd;

impl Tracer for TraceCmd {
    fn name(&self) -> String {
        "trace-cmd record".to_owned()
    }

    fn why_not(&self, _bed: &Bed) -> Option<String> {
        if !is_installed("trace-cmd") {
            return Some("trace-cmd is not installed".to_owned());
        }
        // 3.1.6 gives up where the function tracer's files are missing, though it does not use them.
        let file = Path::new("/sys/kernel/tracing/set_ftrace_filter");
        (!file.exists()).then(|| "trace-cmd record aborts without the function tracer".to_owned())
    }

    fn around(&self, bed: &Bed, wish: &Wish, load: &[String]) -> Result<(String, Traced)> {
        let out = bed.scratch()?;
        let file = out.path().join("trace.dat").display().to_string();
        let kib = wish.buffer_kib.to_string();
        let mut words = vec!["trace-cmd", "record", "-q", "-b", &kib, "-o", &file];
        for event in wish.events {
            words.extend(["-e", event]);
        }
        let mut words = wish.place(words.into_iter().map(str::to_owned).collect());
        words.extend_from_slice(load);
        let said = output(&words)?;
        let (events, lost) = dat_counts(Path::new(&file))?;
        let bytes = fs::metadata(&file)?.len();
        Ok((said, Traced { events: Some(events), lost: Some(lost), bytes, cpu_s: None }))
    }
}

/// Events in a trace.dat and events lost. Read by ourselves: the statistics that trace-cmd keeps in
/// the file are of the moment when recording ended, with pages still unread.
fn dat_counts(file: &Path) -> Result<(u64, u64)> {
    let bytes = fs::read(file)?;
    let trace = TraceDat::parse(&bytes)?;
    let (mut events, mut lost) = (0, 0);
    for buffer in trace.buffers() {
        for cpu in buffer.cpus() {
            let Some(mut stream) = trace.stream(buffer, cpu) else { continue };
            while let Some(item) = stream.next() {
                match item {
                    Item::Event { .. } => events += 1,
                    Item::Lost { count, .. } => lost += count.unwrap_or(1),
                    Item::Problem(problem) => bail!("{}: {problem}", file.display()),
                }
            }
        }
    }
    ensure!(events > 0, "no events in {}", file.display());
    Ok((events, lost))
}
