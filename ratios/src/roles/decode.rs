//! Decoding alone, on one core: every event of a file is walked, its thread read, its typed core
//! event made.

use super::protocol;
use super::states::Pace;
use anyhow::Result;
use clap::Args;
use std::{hint::black_box, path::PathBuf, time::Instant};
use transect_compact::{Compact, Lost, Problem, Sink, is_compact};
use transect_ftrace::CoreDecoder;
use transect_model::{
    event::CoreEvent,
    ids::Tid,
    time::{Source, Timestamp},
};
use transect_tracedat::{Item, TraceDat};

/// `ratios role decode`.
#[derive(Debug, Args)]
pub struct Decode {
    /// A trace.dat or a compact file.
    file: PathBuf,
}

impl Decode {
    pub(super) fn play(&self) -> Result<()> {
        let file = std::fs::read(&self.file)?;
        let begun = Instant::now();
        let events = if is_compact(&file) {
            compact(&Compact::parse(&file)?)
        } else {
            dat(&TraceDat::parse(&file)?)
        };
        protocol::told(&Pace::since(begun, events)?)
    }
}

fn dat(trace: &TraceDat<'_>) -> u64 {
    let table = trace.events();
    let decoder = CoreDecoder::new(table);
    let mut events = 0;
    for buffer in trace.buffers() {
        for cpu in buffer.cpus() {
            let Some(mut stream) = trace.stream(buffer, cpu) else { continue };
            while let Some(item) = stream.next() {
                if let Item::Event { ts, payload } = item {
                    events += 1;
                    black_box((ts, table.tid_of(payload), decoder.decode(payload)));
                }
            }
        }
    }
    events
}

/// Looks at every event.
struct Look(u64);

impl Sink for Look {
    #[inline]
    fn event(&mut self, ts: Timestamp<Source>, tid: Tid, event: CoreEvent) {
        black_box((ts, tid, event));
        self.0 += 1;
    }

    fn lost(&mut self, _: Lost) {}

    fn problem(&mut self, _: Problem) {}
}

fn compact(file: &Compact<'_>) -> u64 {
    let mut look = Look(0);
    for cpu in file.cpus() {
        let Some(mut stream) = file.stream(cpu) else { continue };
        while stream.fill(&mut look, 4096) {}
    }
    look.0
}
