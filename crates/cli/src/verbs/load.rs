//! Opens a recording and runs the engine over it: from a path to rows in a sink.
//!
//! **Data flow.** A directory gives machines, sources and clock evidence by its manifest
//! (`load/directory.rs`); bare trace.dat files say who they are themselves (`load/files.rs`), and a
//! bare xentrace file is of Xen and its domains (`load/xen.rs`).
//! Either becomes one [`Opened`], and there is one way on from it. An excerpt has nothing to decode:
//! its rows are read from its tables (`load/excerpt.rs`).
//!
//! What cannot be read is a row of `import_log` with `data_loss`, and the rest is shown; only a
//! recording of which nothing can be read is an error.

mod directory;
mod endings;
mod excerpt;
mod files;
pub(crate) mod losses;
mod plan;
pub(crate) mod progress;
mod refine;
mod source;
pub(crate) mod tables;
mod window;
pub(crate) mod xen;

use crate::facts::{Facts, TimeUnit};
use anyhow::Context as _;
pub(crate) use directory::ending;
use endings::Endings;
use plan::Plan;
pub(crate) use source::SourceFile;
use source::{SourceBytes, left_out, parse, parse_by};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use transect_clock::{ClockError, ClockGraph, ClockOptions, Converter, Evidence, Unit};
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
use window::{RawWindow, Written};

/// How a recording is to be read.
#[derive(clap::Args, Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct SourceArgs {
    /// TSC frequency of the host in Hz, for files in ticks without a frequency (all xentrace files; 'xl
    /// info' in dom0 prints it as cpu_mhz)
    #[arg(long, visible_alias = "cpu-hz", value_name = "HZ")]
    tsc_hz: Option<u64>,
    /// Ignore the exact TSC offsets and estimate the guests' clocks from the channel
    #[arg(long)]
    no_tsc_offset: bool,
    #[command(flatten)]
    xen: xen::XenArgs,
}

impl SourceArgs {
    fn clock_options(&self) -> ClockOptions {
        ClockOptions {
            use_tsc_offset: !self.no_tsc_offset,
            tsc_hz: self.tsc_hz,
            ..ClockOptions::default()
        }
    }
}

/// A recording, opened but not decoded.
struct Opened<'a> {
    facts: Facts,
    topology: Topology,
    evidence: Vec<Evidence>,
    sources: Vec<SourceBytes<'a>>,
    gaps: Vec<RawGap>,
    /// What the recorders of its machines let through.
    filters: Vec<(MachineId, Filter)>,
    /// The window, if it is not that of the events.
    window: Option<RawWindow>,
    /// The events' window as it was written, if that is known.
    written: Option<Written>,
    /// Events lost per CPU, by the kernels' own count.
    lost: Vec<(StreamKey, u64)>,
    /// How the streams end, where that is not with everything that was recorded.
    endings: Endings,
    remarks: Vec<ImportLog>,
}

/// A stretch in which a machine was not recorded, in the host's own clock.
struct RawGap {
    machine: MachineId,
    from: Option<u64>,
    until: Option<u64>,
    cause: LostCause,
}

/// Reads a recording into tables, which hold all of it in memory.
pub(crate) fn tables(
    path: &Path,
    args: &SourceArgs,
    window_ns: Option<i64>,
) -> anyhow::Result<(Facts, Tables)> {
    let mut tables = Tables::default();
    let facts = rows(path, args, window_ns, &mut tables)?;
    Ok((facts, tables))
}

/// Reads a recording and hands each row to `sink` as soon as it is known.
pub(crate) fn rows(
    path: &Path,
    args: &SourceArgs,
    window_ns: Option<i64>,
    sink: &mut dyn TableSink,
) -> anyhow::Result<Facts> {
    if let Some(excerpt) = excerpt::at(path)? {
        let rows = excerpt.rows(args, window_ns, sink);
        return rows.with_context(|| path.display().to_string());
    }
    run_at(path, args, &Plan { window_ns, ..Plan::default() }, sink)
}

/// The same with windows that begin at multiples of their length, as live ones do.
pub(crate) fn rows_in_aligned_windows(
    path: &Path,
    args: &SourceArgs,
    window_ns: i64,
    sink: &mut dyn TableSink,
) -> anyhow::Result<Facts> {
    let plan = Plan { window_ns: Some(window_ns), are_aligned: true, ..Plan::default() };
    run_at(path, args, &plan, sink)
}

/// Makes the windows of a stretch of a recording: rows of that table alone.
///
/// # Errors
/// An excerpt has nothing that they could be made of.
pub(crate) fn windows_in(
    path: &Path,
    args: &SourceArgs,
    stretch: Span,
    sink: &mut dyn TableSink,
) -> anyhow::Result<()> {
    let plan = Plan { windows_in: Some(stretch), ..Plan::default() };
    run_at(path, args, &plan, sink).map(drop)
}

fn run_at(
    path: &Path,
    args: &SourceArgs,
    plan: &Plan,
    sink: &mut dyn TableSink,
) -> anyhow::Result<Facts> {
    if path.is_dir() {
        let recording = transect_store::Recording::open(path)?;
        let maps: Vec<&Mapping> = recording.sources.iter().map(|source| &source.bytes).collect();
        let opened = || directory::opened(path, &recording);
        Mapping::read_through(&maps, || run(opened(), args, plan, sink, None))
    } else {
        let map = files::map(path)?;
        let opened = || files::opened(&[(path, &map)], &args.xen);
        Mapping::read_through(&[&map], || run(opened()?, args, plan, sink, None))
    }
    .with_context(|| path.display().to_string())
}

/// The files of a recording and its clocks, for faces that show events and not states.
pub(crate) struct Loaded<'a> {
    /// Each file's machine, that machine's name, and the file.
    pub(crate) traces: Vec<(MachineId, String, SourceFile<'a>)>,
    /// From every machine's stamps to trace time.
    pub(crate) clocks: ClockGraph,
}

/// Opens a recording without running the engine over it.
pub(crate) fn events(
    path: &Path,
    args: &SourceArgs,
    show: impl FnOnce(&Loaded<'_>) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    anyhow::ensure!(
        excerpt::at(path)?.is_none(),
        "{0} is an excerpt, which has tables but no recorded streams; query its events with: \
         transect sql {0} 'SELECT * FROM events ORDER BY ts'",
        path.display()
    );
    if path.is_dir() {
        let recording = transect_store::Recording::open(path)?;
        let maps: Vec<&Mapping> = recording.sources.iter().map(|source| &source.bytes).collect();
        Mapping::read_through(&maps, || show(&loaded(directory::opened(path, &recording), args)?))
    } else {
        let map = files::map(path)?;
        let opened = || files::opened(&[(path, &map)], &args.xen);
        Mapping::read_through(&[&map], || show(&loaded(opened()?, args)?))
    }
    .with_context(|| path.display().to_string())
}

/// Facts about a recording without running the engine; the window is set for excerpts only.
pub(crate) fn about(path: &Path, args: &SourceArgs) -> anyhow::Result<Facts> {
    if let Some(excerpt) = excerpt::at(path)? {
        return Ok(excerpt.facts());
    }
    if path.is_dir() {
        let recording = transect_store::Recording::open(path)?;
        let maps: Vec<&Mapping> = recording.sources.iter().map(|source| &source.bytes).collect();
        Mapping::read_through(&maps, || facts_of(directory::opened(path, &recording), args))
    } else {
        let map = files::map(path)?;
        let opened = || files::opened(&[(path, &map)], &args.xen);
        Mapping::read_through(&[&map], || facts_of(opened()?, args))
    }
    .with_context(|| path.display().to_string())
}

/// Unreadable sources are skipped here as in [`run`], which reports them.
fn facts_of(opened: Opened<'_>, args: &SourceArgs) -> anyhow::Result<Facts> {
    let Opened { facts, topology, mut evidence, sources, .. } = opened;
    let traces = parse_by(SourceFile::parse_unverified, &sources, &mut Vec::new())?;
    let files = traces.iter().map(|(source, file)| (source.machine, file));
    evidence.extend(refine::evidence(&evidence, &topology, files));
    let clocks = ClockGraph::from_evidence(&evidence, args.clock_options())?;
    Ok(Facts { unit: unit(&clocks), ..facts })
}

fn loaded<'a>(opened: Opened<'a>, args: &SourceArgs) -> anyhow::Result<Loaded<'a>> {
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
    let clocks = ClockGraph::from_evidence(&evidence, args.clock_options())?;
    Ok(Loaded { traces, clocks })
}

fn run(
    opened: Opened<'_>,
    args: &SourceArgs,
    plan: &Plan,
    sink: &mut dyn TableSink,
    read: Option<&progress::Read>,
) -> anyhow::Result<Facts> {
    let Opened { mut facts, mut topology, mut evidence, sources, gaps, .. } = opened;
    let Opened { lost, mut remarks, filters, window, written, mut endings, .. } = opened;
    let refuse = |endings: &Endings, error| endings.explain(error, &facts, &sources);
    let traces = parse(&sources, &mut remarks).map_err(|error| refuse(&endings, error))?;
    let files = traces.iter().map(|(source, file)| (source.machine, file));
    evidence.extend(refine::evidence(&evidence, &topology, files));
    let clocks = ClockGraph::from_evidence(&evidence, args.clock_options())
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
    let mut inputs = endings.apply(inputs, &clocks);
    anyhow::ensure!(!inputs.is_empty(), endings::refusal(&facts, &sources, &remarks));
    if let Some(read) = read {
        let watched = |input: Input<_, _>| Input { stream: read.watch(input.stream), ..input };
        inputs = inputs.into_iter().map(watched).collect();
    }
    if let Some(born) = window.as_ref().and_then(|window| window.born.as_ref()) {
        add_births(&mut topology, born, &clocks);
    }
    let mut engine = Engine::new(topology, plan.options(&clocks)?);
    for (machine, filter) in filters {
        engine = engine.with_filter(machine, filter);
    }
    if let Some(window) = &window {
        engine = window.apply(engine, &clocks);
    }
    if let Some(stretch) = plan.windows_in {
        engine = engine.with_windows_in(stretch);
    }
    if plan.are_aligned {
        engine = engine.with_aligned_windows();
    }
    let summary = engine
        .with_clocks(&clocks)
        .with_gaps(gaps.iter().filter_map(|gap| machine_gap(gap, &clocks)))
        .with_lost_counts(lost)
        .with_remarks(remarks)
        .run(inputs, sink)?;
    complete(&mut facts, &clocks, &summary);
    if plan.windows_in.is_none() && sink.wants(&WallClock::TABLE) {
        clocks.wall_clock(facts.window).into_iter().for_each(|row| sink.row(row.into()));
    }
    Ok(facts)
}

/// A source as the engine reads it.
enum Reader<'t, 'a> {
    Dat(DatSource<'t, 'a>),
    Compact(CompactSource<'t, 'a>),
    Xen(XenSource<'t, 'a>),
}

/// Any source's stream.
type AnyStream<'s> = Box<dyn EventStream + Send + 's>;

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
fn host_clock(clocks: &ClockGraph) -> impl Fn(u64) -> Option<Timestamp<Trace>> {
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
pub(crate) fn unit(clocks: &ClockGraph) -> TimeUnit {
    match clocks.unit() {
        Unit::Nanoseconds => TimeUnit::Ns,
        Unit::Ticks => TimeUnit::Ticks,
    }
}

/// A recording's name for people: as given, without a trailing slash.
pub(crate) fn display_name(path: &Path) -> String {
    path.components().collect::<PathBuf>().display().to_string()
}
