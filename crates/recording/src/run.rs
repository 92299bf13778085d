//! From a path to rows in a sink: opens the files, sets up the engine, runs it.
//!
//! **Data flow.** A directory gives machines, sources and clock evidence by its manifest (`directory.rs`); bare trace.dat
//! files say who they are themselves (`files.rs`), and a bare xentrace file is of Xen and its domains (`xen.rs`).
//! Either becomes one [`Opened`], and there is one way on from it. An excerpt has nothing to decode:
//! its rows are read from its tables (`excerpt.rs`).

use crate::{
    Options, Plan, SourceBytes, SourceFile, Streams, directory,
    endings::{self, Endings},
    excerpt,
    facts::{Facts, TimeUnit},
    files, left_out, parse, parse_by, progress, refine,
    window::{RawWindow, Written},
};
use anyhow::Context as _;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use transect_clock::{ClockError, ClockGraph, Converter, Evidence, Unit};
use transect_engine::compact::CompactSource;
use transect_engine::dat::DatSource;
use transect_engine::xen::XenSource;
use transect_engine::{
    Engine, EventStream, Filter, Input, LostCause, MachineGap, StreamKey, Summary, Topology,
};
use transect_model::ids::{CpuId, MachineId, Tid};
use transect_model::table::{ImportLog, TableSink, Tables, WallClock};
use transect_model::time::{Source, Span, Timestamp, Trace};
use transect_store::Mapping;

/// A recording, opened but not decoded.
pub(crate) struct Opened<'a> {
    pub(crate) facts: Facts,
    pub(crate) topology: Topology,
    pub(crate) evidence: Vec<Evidence>,
    pub(crate) sources: Vec<SourceBytes<'a>>,
    pub(crate) gaps: Vec<RawGap>,
    /// What the recorders of its machines let through.
    pub(crate) filters: Vec<(MachineId, Filter)>,
    /// The window, if it is not that of the events.
    pub(crate) window: Option<RawWindow>,
    /// The events' window as it was written, if that is known.
    pub(crate) written: Option<Written>,
    /// Events lost per CPU, by the kernels' own count.
    pub(crate) lost: Vec<(StreamKey, u64)>,
    /// How the streams end, where that is not with everything that was recorded.
    pub(crate) endings: Endings,
    pub(crate) remarks: Vec<ImportLog>,
}

/// A stretch in which a machine was not recorded, in the host's own clock.
pub(crate) struct RawGap {
    pub(crate) machine: MachineId,
    pub(crate) from: Option<u64>,
    pub(crate) until: Option<u64>,
    pub(crate) cause: LostCause,
}

/// Reads a recording into tables, which hold all of it in memory.
///
/// # Errors
/// Nothing of it can be read.
pub fn tables(
    path: &Path,
    options: &Options,
    window_ns: Option<i64>,
) -> anyhow::Result<(Facts, Tables)> {
    let mut tables = Tables::default();
    let facts = rows(path, options, window_ns, &mut tables)?;
    Ok((facts, tables))
}

/// Reads a recording and hands each row to `sink` as soon as it is known.
///
/// # Errors
/// Nothing of it can be read.
pub fn rows(
    path: &Path,
    options: &Options,
    window_ns: Option<i64>,
    sink: &mut dyn TableSink,
) -> anyhow::Result<Facts> {
    if let Some(excerpt) = excerpt::at(path)? {
        let rows = excerpt.rows(options, window_ns, sink);
        return rows.with_context(|| path.display().to_string());
    }
    run_at(path, options, &Plan { window_ns, ..Plan::default() }, sink)
}

/// The same with windows that begin at multiples of their length, as live ones do.
///
/// # Errors
/// Nothing of it can be read.
pub fn rows_in_aligned_windows(
    path: &Path,
    options: &Options,
    window_ns: i64,
    sink: &mut dyn TableSink,
) -> anyhow::Result<Facts> {
    let plan = Plan { window_ns: Some(window_ns), are_aligned: true, ..Plan::default() };
    run_at(path, options, &plan, sink)
}

/// Makes the windows of a stretch of a recording: rows of that table alone.
///
/// # Errors
/// An excerpt has nothing that they could be made of.
pub fn windows_in(
    path: &Path,
    options: &Options,
    stretch: Span,
    sink: &mut dyn TableSink,
) -> anyhow::Result<()> {
    let plan = Plan { windows_in: Some(stretch), ..Plan::default() };
    run_at(path, options, &plan, sink).map(drop)
}

fn run_at(
    path: &Path,
    options: &Options,
    plan: &Plan,
    sink: &mut dyn TableSink,
) -> anyhow::Result<Facts> {
    if path.is_dir() {
        let recording = transect_store::Recording::open(path)?;
        let maps: Vec<&Mapping> = recording.sources.iter().map(|source| &source.bytes).collect();
        let opened = || directory::opened(path, &recording);
        Mapping::read_through(&maps, || run(opened(), options, plan, sink, None))
    } else {
        let map = files::map(path)?;
        let opened = || files::opened(&[(path, &map)], &options.xen);
        Mapping::read_through(&[&map], || run(opened()?, options, plan, sink, None))
    }
    .with_context(|| path.display().to_string())
}

/// The files of a recording and its clocks, for faces that show events and not states.
pub struct Loaded<'a> {
    /// Each file's machine, that machine's name, and the file.
    pub traces: Vec<(MachineId, String, SourceFile<'a>)>,
    /// From every machine's stamps to trace time.
    pub clocks: ClockGraph,
}

/// Opens a recording without running the engine over it.
///
/// # Errors
/// It is an excerpt; nothing of it can be read; or `show` fails.
pub fn events(
    path: &Path,
    options: &Options,
    show: impl FnOnce(&Loaded<'_>) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    ensure_has_streams(path)?;
    if path.is_dir() {
        let recording = transect_store::Recording::open(path)?;
        let maps: Vec<&Mapping> = recording.sources.iter().map(|source| &source.bytes).collect();
        Mapping::read_through(&maps, || {
            show(&loaded(directory::opened(path, &recording), options)?)
        })
    } else {
        let map = files::map(path)?;
        let opened = || files::opened(&[(path, &map)], &options.xen);
        Mapping::read_through(&[&map], || show(&loaded(opened()?, options)?))
    }
    .with_context(|| path.display().to_string())
}

/// Facts about a recording without running the engine; the window is set for excerpts only.
///
/// # Errors
/// It cannot be opened.
pub fn about(path: &Path, options: &Options) -> anyhow::Result<Facts> {
    if let Some(excerpt) = excerpt::at(path)? {
        return Ok(excerpt.facts());
    }
    if path.is_dir() {
        let recording = transect_store::Recording::open(path)?;
        let maps: Vec<&Mapping> = recording.sources.iter().map(|source| &source.bytes).collect();
        Mapping::read_through(&maps, || facts_of(directory::opened(path, &recording), options))
    } else {
        let map = files::map(path)?;
        let opened = || files::opened(&[(path, &map)], &options.xen);
        Mapping::read_through(&[&map], || facts_of(opened()?, options))
    }
    .with_context(|| path.display().to_string())
}

/// Unreadable sources are skipped here as in [`run`], which reports them.
fn facts_of(opened: Opened<'_>, options: &Options) -> anyhow::Result<Facts> {
    let Opened { facts, topology, mut evidence, sources, .. } = opened;
    let traces = parse_by(SourceFile::parse_unverified, &sources, &mut Vec::new())?;
    let files = traces.iter().map(|(source, file)| (source.machine, file));
    evidence.extend(refine::evidence(&evidence, &topology, files));
    let clocks = ClockGraph::from_evidence(&evidence, options.clock_options())?;
    Ok(Facts { unit: unit(&clocks), ..facts })
}

fn loaded<'a>(opened: Opened<'a>, options: &Options) -> anyhow::Result<Loaded<'a>> {
    let mut traces = Vec::new();
    for source in &opened.sources {
        let name = opened.topology.machines.iter().find(|m| m.id == source.machine);
        let name = name.map_or_else(|| source.name.clone(), |machine| machine.name.clone());
        let trace = SourceFile::parse(source).with_context(|| source.name.clone())?;
        traces.push((source.machine, name, trace));
    }
    let mut evidence = opened.evidence;
    let files = traces.iter().map(|(machine, _, file)| (*machine, file));
    evidence.extend(refine::evidence(&evidence, &opened.topology, files));
    let clocks = ClockGraph::from_evidence(&evidence, options.clock_options())?;
    Ok(Loaded { traces, clocks })
}

/// A recording that was read so far that only the engine is missing.
struct Ready<'s> {
    facts: Facts,
    topology: Topology,
    gaps: Vec<RawGap>,
    filters: Vec<(MachineId, Filter)>,
    window: Option<RawWindow>,
    lost: Vec<(StreamKey, u64)>,
    remarks: Vec<ImportLog>,
    clocks: &'s ClockGraph,
    inputs: Vec<Input<AnyStream<'s>, Converter>>,
}

/// Parses the sources and relates their clocks; streams live as long as `work`.
fn ready<T>(
    opened: Opened<'_>,
    options: &Options,
    work: impl FnOnce(Ready<'_>) -> anyhow::Result<T>,
) -> anyhow::Result<T> {
    let Opened { facts, topology, mut evidence, sources, gaps, .. } = opened;
    let Opened { lost, mut remarks, filters, window, written, mut endings, .. } = opened;
    let refuse = |endings: &Endings, error| endings.explain(error, &facts, &sources);
    let traces = parse(&sources, &mut remarks).map_err(|error| refuse(&endings, error))?;
    let files = traces.iter().map(|(source, file)| (source.machine, file));
    evidence.extend(refine::evidence(&evidence, &topology, files));
    let clocks = ClockGraph::from_evidence(&evidence, options.clock_options())
        .map_err(|error| refuse(&endings, error.into()))?;
    for (source, trace) in &traces {
        endings.cut(source.machine, trace.cut_cpus(source));
    }
    let window = window.or_else(|| written?.window(&traces));
    let readers = readers(&traces, &sources, &clocks);
    let mut inputs = Vec::new();
    for (reader, (source, _)) in readers.iter().zip(&traces) {
        remarks.extend(reader.remarks(&clocks));
        match reader.inputs(&clocks) {
            Ok(streams) => inputs.extend(streams),
            Err(error) => remarks.push(left_out(&source.name, &error)),
        }
    }
    let inputs = endings.apply(inputs, &clocks);
    anyhow::ensure!(!inputs.is_empty(), endings::refusal(&facts, &sources, &remarks));
    work(Ready { facts, topology, gaps, filters, window, lost, remarks, clocks: &clocks, inputs })
}

pub(crate) fn run(
    opened: Opened<'_>,
    options: &Options,
    plan: &Plan,
    sink: &mut dyn TableSink,
    read: Option<&progress::Read>,
) -> anyhow::Result<Facts> {
    ready(opened, options, |ready| ready.run(plan, sink, read))
}

impl Ready<'_> {
    fn run(
        self,
        plan: &Plan,
        sink: &mut dyn TableSink,
        read: Option<&progress::Read>,
    ) -> anyhow::Result<Facts> {
        let Ready { mut facts, mut topology, mut inputs, clocks, .. } = self;
        if let Some(read) = read {
            let watched = |input: Input<_, _>| Input { stream: read.watch(input.stream), ..input };
            inputs = inputs.into_iter().map(watched).collect();
        }
        if let Some(born) = self.window.as_ref().and_then(|window| window.born.as_ref()) {
            add_births(&mut topology, born, clocks);
        }
        let mut engine = Engine::new(topology, plan.options(clocks)?);
        for (machine, filter) in self.filters {
            engine = engine.with_filter(machine, filter);
        }
        if let Some(window) = &self.window {
            engine = window.apply(engine, clocks);
        }
        if let Some(stretch) = plan.windows_in {
            engine = engine.with_windows_in(stretch);
        }
        if plan.are_aligned {
            engine = engine.with_aligned_windows();
        }
        let summary = engine
            .with_clocks(clocks)
            .with_gaps(self.gaps.iter().filter_map(|gap| machine_gap(gap, clocks)))
            .with_lost_counts(self.lost)
            .with_remarks(self.remarks)
            .run(inputs, sink)?;
        complete(&mut facts, clocks, &summary);
        if plan.windows_in.is_none() && sink.wants(&WallClock::TABLE) {
            clocks.wall_clock(facts.window).into_iter().for_each(|row| sink.row(row.into()));
        }
        Ok(facts)
    }
}

/// Has `read` read the streams of a recording.
pub(crate) fn streams<T>(
    path: &Path,
    options: &Options,
    read: impl FnOnce(Streams<'_>) -> anyhow::Result<T>,
) -> anyhow::Result<T> {
    ensure_has_streams(path)?;
    let read = |opened| {
        ready(opened, options, |Ready { topology, clocks, inputs, .. }| {
            read(Streams { machines: &topology.machines, clocks, inputs })
        })
    };
    if path.is_dir() {
        let recording = transect_store::Recording::open(path)?;
        let maps: Vec<&Mapping> = recording.sources.iter().map(|source| &source.bytes).collect();
        Mapping::read_through(&maps, || read(directory::opened(path, &recording)))
    } else {
        let map = files::map(path)?;
        let opened = || files::opened(&[(path, &map)], &options.xen);
        Mapping::read_through(&[&map], || read(opened()?))
    }
    .with_context(|| path.display().to_string())
}

fn ensure_has_streams(path: &Path) -> anyhow::Result<()> {
    anyhow::ensure!(
        excerpt::at(path)?.is_none(),
        "{0} is an excerpt, which has tables but no recorded streams; query its events with: \
         transect sql {0} 'SELECT * FROM events ORDER BY ts'",
        path.display()
    );
    Ok(())
}

/// A source as the engine reads it.
enum Reader<'t, 'a> {
    Dat(DatSource<'t, 'a>),
    Compact(CompactSource<'t, 'a>),
    Xen(XenSource<'t, 'a>),
}

/// Any source's stream.
pub type AnyStream<'s> = Box<dyn EventStream + Send + 's>;

/// A reader for each source. A machine's sources are in the order in which they were begun, which
/// tells of which of its boots each is.
fn readers<'t, 'a>(
    traces: &'t [(&SourceBytes<'_>, SourceFile<'a>)],
    all: &[SourceBytes<'_>],
    clocks: &ClockGraph,
) -> Vec<Reader<'t, 'a>> {
    let reader = |(source, trace): &'t (&SourceBytes<'_>, SourceFile<'a>)| {
        let mut of_machine = all.iter().filter(|other| other.machine == source.machine);
        let number = of_machine.position(|other| other.name == source.name).unwrap_or(0);
        Reader::new(source, trace, clocks.boot_of_source(source.machine, number))
    };
    traces.iter().map(reader).collect()
}

impl<'t, 'a> Reader<'t, 'a> {
    fn new(source: &SourceBytes<'_>, trace: &'t SourceFile<'a>, boot: usize) -> Self {
        let (machine, name) = (source.machine, source.name.as_str());
        match trace {
            SourceFile::Dat(dat) => Reader::Dat(DatSource::new(dat, machine, name).of_boot(boot)),
            SourceFile::Compact(file) => {
                Reader::Compact(CompactSource::new(file, machine, name).of_boot(boot))
            }
            SourceFile::Xen(file) => Reader::Xen(XenSource::new(file, machine, name)),
        }
    }

    fn remarks(&self, clocks: &ClockGraph) -> Vec<ImportLog> {
        match self {
            Reader::Dat(dat) => dat.remarks(clocks),
            Reader::Compact(file) => file.remarks(clocks),
            Reader::Xen(file) => file.remarks(),
        }
    }

    fn inputs(
        &self,
        clocks: &ClockGraph,
    ) -> Result<Vec<Input<AnyStream<'_>, Converter>>, ClockError> {
        Ok(match self {
            Reader::Dat(dat) => dat.inputs(clocks)?.into_iter().map(boxed).collect(),
            Reader::Compact(file) => file.inputs(clocks)?.into_iter().map(boxed).collect(),
            Reader::Xen(file) => file.inputs(clocks)?.into_iter().map(boxed).collect(),
        })
    }
}

/// Streams are asked for hundreds of items at a time: the box costs nothing.
fn boxed<'s>(
    input: Input<impl EventStream + Send + 's, Converter>,
) -> Input<AnyStream<'s>, Converter> {
    Input { key: input.key, stream: Box::new(input.stream), clock: input.clock }
}

/// From a stamp of the host's own clock to trace time.
pub(crate) fn host_clock(clocks: &ClockGraph) -> impl Fn(u64) -> Option<Timestamp<Trace>> {
    let host = clocks.converter(clocks.reference(), CpuId(0)).ok();
    move |raw| host.as_ref()?.trace_only(Timestamp::<Source>::new(raw)).ok()
}

/// Adds what a snapshot tells about the threads that lived when it was taken. Others are known from events
/// only: each gets a birth that no row begins before.
fn add_births(topology: &mut Topology, born: &[(MachineId, Tid, u64)], clocks: &ClockGraph) {
    let trace = host_clock(clocks);
    let born: BTreeMap<_, _> =
        born.iter().map(|(machine, tid, raw)| ((*machine, *tid), *raw)).collect();
    let host = clocks.reference();
    for thread in topology.threads.iter_mut().filter(|thread| thread.machine == host) {
        let raw = born.get(&(thread.machine, thread.tid));
        let at = raw.and_then(|raw| trace(*raw)).map_or(i64::MAX, Timestamp::get);
        thread.born = Some(at);
    }
}

fn machine_gap(gap: &RawGap, clocks: &ClockGraph) -> Option<MachineGap> {
    let trace = host_clock(clocks);
    Some(MachineGap {
        machine: gap.machine,
        from: gap.from.map_or(Some(Timestamp::<Trace>::MIN), &trace)?,
        until: gap.until.and_then(&trace),
        cause: gap.cause,
    })
}

/// Adds the facts that only a run of the engine determines.
fn complete(facts: &mut Facts, clocks: &ClockGraph, summary: &Summary) {
    let zero = Timestamp::new(0);
    facts.window = summary.span.unwrap_or(Span { start: zero, end: zero });
    if let Some(stored) = &mut facts.stored {
        stored.events = summary.events;
    }
    facts.unit = unit(clocks);
}

/// The unit of trace time.
pub fn unit(clocks: &ClockGraph) -> TimeUnit {
    match clocks.unit() {
        Unit::Nanoseconds => TimeUnit::Ns,
        Unit::Ticks => TimeUnit::Ticks,
    }
}

/// A recording's name for people: as given, without a trailing slash.
pub fn display_name(path: &Path) -> String {
    path.components().collect::<PathBuf>().display().to_string()
}
