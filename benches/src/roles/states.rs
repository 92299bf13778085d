//! Import and states, end to end: the files are opened, read, aligned, merged and divided into
//! states; the rows are counted and thrown away, so what is timed is what every face pays.

use anyhow::{Context, Result};
use clap::Args;
use serde::{Deserialize, Serialize};
use std::{fs, path::PathBuf, time::Instant};
use transect_clock::{ClockGraph, ClockOptions};
use transect_engine::{
    Engine, Options,
    dat::{DatSource, pair},
};
use transect_model::table::{Row, TableSink};
use transect_store::Mapping;
use transect_tracedat::TraceDat;

/// `bench role states`.
#[derive(Debug, Args)]
pub struct States {
    /// Recordings of one machine each.
    #[arg(required = true)]
    files: Vec<PathBuf>,
}

/// How long it took a process to read events, and what it needed.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct Pace {
    /// Events read.
    pub events: u64,
    /// Wall time.
    pub seconds: f64,
    /// Most memory the process ever had resident, mapped files included.
    pub peak_bytes: u64,
    /// Of it what is the process's own: files that are mapped can be dropped by the kernel at will.
    pub anonymous_bytes: u64,
}

impl Pace {
    pub(super) fn since(begun: Instant, events: u64) -> Result<Self> {
        let seconds = begun.elapsed().as_secs_f64();
        let [peak_bytes, anonymous_bytes] = ["VmHWM:", "RssAnon:"].map(memory);
        Ok(Self { events, seconds, peak_bytes: peak_bytes?, anonymous_bytes: anonymous_bytes? })
    }
}

/// A line of `/proc/self/status` (Linux, fs/proc/task_mmu.c `task_mem`).
fn memory(line: &str) -> Result<u64> {
    let status = fs::read_to_string("/proc/self/status")?;
    let found = status.lines().find_map(|l| l.strip_prefix(line));
    let kib = found.and_then(|l| l.trim().strip_suffix(" kB")).context("no memory in status")?;
    Ok(kib.parse::<u64>()? * 1024)
}

#[derive(Default)]
struct Counting {
    rows: u64,
}

impl TableSink for Counting {
    fn row(&mut self, row: Row) {
        drop(row);
        self.rows += 1;
    }
}

impl States {
    pub(super) fn play(&self) -> Result<()> {
        let begun = Instant::now();
        let bytes =
            self.files.iter().map(|file| Mapping::open(file)).collect::<Result<Vec<_>, _>>()?;
        let traces = bytes.iter().map(|b| TraceDat::parse(b)).collect::<Result<Vec<_>, _>>()?;
        let names: Vec<_> = self.files.iter().map(|f| f.to_string_lossy().into_owned()).collect();
        let files: Vec<_> = names.iter().map(String::as_str).zip(&traces).collect();
        let pairing = pair(&files)?;
        let clocks = ClockGraph::from_evidence(&pairing.evidence, ClockOptions::default())?;
        let sources: Vec<_> = files
            .iter()
            .zip(&pairing.machine_of_file)
            .map(|((name, trace), machine)| DatSource::new(trace, *machine, *name))
            .collect();
        let mut inputs = Vec::new();
        for source in &sources {
            inputs.extend(source.inputs(&clocks)?);
        }
        let mut counting = Counting::default();
        let summary = Engine::new(pairing.topology.clone(), Options::default())
            .with_clocks(&clocks)
            .with_remarks(sources.iter().flat_map(|s| s.remarks(&clocks)))
            .run(inputs, &mut counting)?;
        super::told(&Pace::since(begun, summary.events)?)
    }
}
