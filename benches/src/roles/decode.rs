//! Decoding alone, on one core: every event of a trace.dat is walked, its thread read, its typed
//! core event made. The loop is that of `crates/formats/tracedat/benches/decode.rs`.

use super::states::Pace;
use anyhow::Result;
use clap::Args;
use std::{hint::black_box, path::PathBuf, time::Instant};
use transect_ftrace::CoreDecoder;
use transect_tracedat::{Item, TraceDat};

/// `bench role decode`.
#[derive(Debug, Args)]
pub struct Decode {
    /// A trace.dat.
    file: PathBuf,
}

impl Decode {
    pub(super) fn play(&self) -> Result<()> {
        let file = std::fs::read(&self.file)?;
        let begun = Instant::now();
        let trace = TraceDat::parse(&file)?;
        let events = walk(&trace);
        super::told(&Pace::since(begun, events)?)
    }
}

fn walk(trace: &TraceDat<'_>) -> u64 {
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
