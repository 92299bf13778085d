//! Import and states, end to end: a recording is opened, read, aligned, merged and divided into
//! states; the rows are counted and thrown away, so what is timed is what every face pays.

use super::protocol;
use anyhow::{Context, Result};
use clap::Args;
use procfs::process::Process;
use serde::{Deserialize, Serialize};
use std::{hint::black_box, num::NonZeroUsize, path::PathBuf, time::Instant};
use transect_clock::{ClockGraph, ClockOptions, Converter};
use transect_compact::{Compact, is_compact};
use transect_engine::{
    Engine, EventStream, Input, Options, Topology,
    compact::CompactSource,
    dat::DatSource,
    topology::{MachineInfo, ThreadInfo, VcpuInfo},
    xen::XenSource,
};
use transect_model::{
    ids::CpuId,
    table::{Row, TableSink},
};
use transect_store::{Manifest, Mapping, Recording};
use transect_tracedat::TraceDat;
use transect_xentrace::{Index, XenTrace, XenVersion};

/// `ratios role states`.
#[derive(Debug, Args)]
pub struct States {
    /// A recording.
    dir: PathBuf,
    /// With so many threads [default: one for each CPU]
    #[arg(long, value_name = "N")]
    threads: Option<NonZeroUsize>,
}

/// Time and memory of a process that read events.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct Pace {
    /// Events read.
    pub events: u64,
    /// Wall time.
    pub seconds: f64,
    /// Most memory the process ever had resident, mapped files included.
    pub peak_bytes: u64,
}

impl Pace {
    pub(super) fn since(begun: Instant, events: u64) -> Result<Self> {
        let seconds = begun.elapsed().as_secs_f64();
        Ok(Self { events, seconds, peak_bytes: peak_bytes()? })
    }

    /// Events in a second.
    #[must_use]
    #[expect(clippy::cast_precision_loss, reason = "a rate for people")]
    pub fn rate(&self) -> f64 {
        self.events as f64 / self.seconds
    }
}

/// `VmHWM` (Linux, fs/proc/task_mmu.c `task_mem`), the `ru_maxrss` of getrusage.
fn peak_bytes() -> Result<u64> {
    let status = Process::myself()?.status()?;
    Ok(status.vmhwm.context("no VmHWM")? * 1024)
}

/// Has every row made, and keeps none.
#[derive(Default)]
struct Counting {
    rows: u64,
}

impl TableSink for Counting {
    fn row(&mut self, row: Row) {
        black_box(&row);
        self.rows += 1;
    }
}

/// A file of the recording.
enum File<'a> {
    Dat(Box<TraceDat<'a>>),
    Compact(Box<Compact<'a>>),
    Xen(Box<XenTrace<'a>>),
}

enum Source<'t, 'a> {
    Dat(DatSource<'t, 'a>),
    Compact(CompactSource<'t, 'a>),
    Xen(XenSource<'t, 'a>),
}

impl States {
    pub(super) fn play(&self) -> Result<()> {
        let begun = Instant::now();
        let recording = Recording::open(&self.dir)?;
        let maps: Vec<&Mapping> = recording.sources.iter().map(|source| &source.bytes).collect();
        let events = Mapping::read_through(&maps, || run(&recording, self.threads))?;
        protocol::told(&Pace::since(begun, events)?)
    }
}

/// Work of every frontend on a recording; gives the number of events.
fn run(recording: &Recording, threads: Option<NonZeroUsize>) -> Result<u64> {
    let mut files = Vec::new();
    for source in &recording.sources {
        let bytes: &[u8] = &source.bytes;
        let file = if is_compact(bytes) {
            File::Compact(Box::new(Compact::parse(bytes)?))
        } else if Index::check(bytes).is_ok() {
            File::Xen(Box::new(XenTrace::parse(bytes, XenVersion::Unknown)?))
        } else {
            File::Dat(Box::new(TraceDat::parse(bytes)?))
        };
        files.push((source.entry.machine_id, source.entry.file.as_str(), file));
    }
    let clocks = ClockGraph::from_evidence(&recording.evidence, ClockOptions::default())?;
    let sources: Vec<Source<'_, '_>> = files
        .iter()
        .map(|(machine, name, file)| match file {
            File::Dat(dat) => Source::Dat(DatSource::new(dat, *machine, *name)),
            File::Compact(file) => Source::Compact(CompactSource::new(file, *machine, *name)),
            File::Xen(file) => Source::Xen(XenSource::new(file, *machine, *name)),
        })
        .collect();
    let mut inputs = Vec::new();
    for source in &sources {
        match source {
            Source::Dat(dat) => inputs.extend(dat.inputs(&clocks)?.into_iter().map(boxed)),
            Source::Compact(file) => inputs.extend(file.inputs(&clocks)?.into_iter().map(boxed)),
            Source::Xen(file) => inputs.extend(file.inputs(&clocks)?.into_iter().map(boxed)),
        }
    }
    let mut counting = Counting::default();
    let mut engine = Engine::new(topology(&recording.manifest), Options::default());
    if let Some(threads) = threads {
        engine = engine.with_threads(threads);
    }
    let summary = engine.with_clocks(&clocks).run(inputs, &mut counting)?;
    anyhow::ensure!(counting.rows > 0, "{} events produced no row", summary.events);
    Ok(summary.events)
}

/// As the command line reads it.
type Boxed<'s> = Input<Box<dyn EventStream + Send + 's>, Converter>;

fn boxed<'s>(input: Input<impl EventStream + Send + 's, Converter>) -> Boxed<'s> {
    Input { key: input.key, stream: Box::new(input.stream), clock: input.clock }
}

fn topology(manifest: &Manifest) -> Topology {
    let machines = manifest.machines.iter().map(|entry| MachineInfo {
        id: entry.id,
        parent: entry.parent,
        kind: entry.kind,
        name: entry.name.clone(),
        vmm_pid: entry.vmm_pid,
        cgroup: entry.cgroup.clone(),
        domid: entry.domid,
        clock: entry.clock.clone(),
    });
    let vcpus = manifest.machines.iter().flat_map(|entry| {
        entry.vcpus.iter().map(|vcpu| VcpuInfo {
            machine: entry.id,
            vcpu: vcpu.vcpu,
            vmm_tid: vcpu.vmm_tid,
            guest_cpu: CpuId(vcpu.vcpu.0),
        })
    });
    let threads = manifest.threads.iter().map(|thread| ThreadInfo {
        machine: thread.machine_id,
        tid: thread.tid,
        pid: Some(thread.pid),
        name: thread.comm.clone(),
        cgroup: thread.cgroup.clone(),
        born: None,
        settings: thread.settings(),
    });
    Topology {
        machines: machines.collect(),
        vcpus: vcpus.collect(),
        threads: threads.collect(),
        ..Topology::default()
    }
}
