//! This machine's kernel as a [`TraceSource`]: the compact collector where it can run, else tracefs.

use crate::{
    compact::{self, CompactRun},
    facts::facts,
    full::{self, FullRun},
};
use std::{io, time::Duration};
use transect_bpf::BpfError;
use transect_guest::{
    proto::{MachineFacts, Start, Started, Stats},
    serve::{MetaFile, PageOut, Prepared, TraceRun, TraceSource},
};

/// The kernel this agent runs on.
pub(crate) struct Kernel;

impl TraceSource for Kernel {
    type Run = Run;

    fn facts(&mut self) -> MachineFacts {
        facts()
    }

    fn prepare(&mut self, start: &Start, version: u8) -> Result<Prepared<Run>, String> {
        let Some(plan) = &start.compact else {
            return prepare_full(start, String::new());
        };
        match compact::prepare(plan, version) {
            Ok(prepared) => Ok(as_run(prepared, Run::Compact)),
            // What was asked for is wrong; another collector would not make it right.
            Err(BpfError::Plan(mistake)) => Err(mistake),
            Err(why) => prepare_full(start, one_line(&why.to_string())),
        }
    }
}

/// `why_full`: why the compact collector, which was wanted, does not run; empty if it was not.
fn prepare_full(start: &Start, why_full: String) -> Result<Prepared<Run>, String> {
    let mut prepared = full::prepare(start).map_err(|error| match why_full.as_str() {
        "" => error.to_string(),
        why => format!("{error}; the compact collector cannot run either: {why}"),
    })?;
    prepared.started = Started { why_full: why_full.into(), ..prepared.started };
    Ok(as_run(prepared, Run::Full))
}

fn as_run<R>(prepared: Prepared<R>, run: impl FnOnce(R) -> Run) -> Prepared<Run> {
    Prepared { started: prepared.started, meta: prepared.meta, run: run(prepared.run) }
}

/// The verifier speaks in many lines.
fn one_line(text: &str) -> String {
    text.lines().map(str::trim).filter(|line| !line.is_empty()).collect::<Vec<_>>().join(" / ")
}

/// A recording of this kernel.
#[allow(clippy::large_enum_variant)] // One exists at a time.
pub(crate) enum Run {
    Compact(CompactRun),
    Full(FullRun),
}

impl Run {
    fn either(&mut self) -> &mut dyn TraceRun {
        match self {
            Run::Compact(run) => run,
            Run::Full(run) => run,
        }
    }
}

impl TraceRun for Run {
    fn begin(&mut self) -> Result<(), String> {
        self.either().begin()
    }

    fn pump(&mut self, out: &mut PageOut<'_>, wait: Duration) -> io::Result<bool> {
        self.either().pump(out, wait)
    }

    fn stats(&mut self) -> Stats {
        self.either().stats()
    }

    fn finish(&mut self, out: &mut PageOut<'_>) -> io::Result<Vec<MetaFile>> {
        self.either().finish(out)
    }
}
