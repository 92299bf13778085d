//! `trace-cmd record`, which cannot run on every kernel.

use super::{Tracer, Wish};
use crate::{
    bed::{Bed, is_installed, output},
    roles::Traced,
};
use anyhow::{Context, Result};
use std::{fs, path::Path};

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
        let (events, lost) = counts(Path::new(&file))?;
        let bytes = fs::metadata(&file)?.len();
        Ok((said, Traced { events: Some(events), lost: Some(lost), bytes, cpu_s: None }))
    }
}

/// Events read and events lost, as the statistics in the file say.
fn counts(file: &Path) -> Result<(u64, u64)> {
    let name = file.display().to_string();
    let words = ["trace-cmd", "report", "--stat", "-i", &name].map(str::to_owned);
    let stats = output(&words)?;
    let sum = |what: &str| -> u64 {
        let lines = stats.lines().filter_map(|line| line.trim().strip_prefix(what));
        lines.filter_map(|rest| rest.trim().parse::<u64>().ok()).sum()
    };
    let events = Some(sum("read events:")).filter(|events| *events > 0);
    let events = events.context("no events in trace-cmd's statistics")?;
    Ok((events, sum("overrun:") + sum("dropped events:")))
}
