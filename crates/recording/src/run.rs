//! From a path to rows in a sink, to events, or to facts alone.
//!
//! **Data flow.** A directory gives machines, sources and clock evidence by its manifest (`directory.rs`); bare trace.dat
//! files say who they are themselves (`files.rs`), and a bare xentrace file is of Xen and its domains (`xen.rs`).
//! Either becomes one [`Opened`] (`place.rs`), and there is one way on from it (`ready.rs`). An excerpt has nothing to
//! decode: its rows are read from its tables (`excerpt.rs`).

use crate::{
    Options, Plan, SourceFile, Streams,
    aside::aside,
    clocks::unit,
    excerpt,
    facts::Facts,
    opened::Opened,
    parse_by,
    place::with_opened,
    ready::{Ready, ready, run},
    refine,
};
use anyhow::Context as _;
use std::path::Path;
use transect_clock::ClockGraph;
use transect_engine::topology::MachineInfo;
use transect_model::ids::MachineId;
use transect_model::table::{TableSink, Tables};
use transect_model::time::Span;

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

/// The same for a sink that keeps rows: it does so in a thread of its own, while others are made.
///
/// # Errors
/// Nothing of it can be read.
pub fn kept<S: TableSink + Send>(
    path: &Path,
    options: &Options,
    window_ns: Option<i64>,
    mut sink: S,
) -> anyhow::Result<(Facts, S)> {
    let facts = aside(&mut sink, |sink| rows(path, options, window_ns, sink))?;
    Ok((facts, sink))
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
    with_opened(path, options, |opened| run(opened, options, plan, sink, None))
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
    with_opened(path, options, |opened| show(&loaded(opened, options)?))
}

/// Facts about a recording without running the engine; the window is set for excerpts only.
///
/// # Errors
/// It cannot be opened.
pub fn about(path: &Path, options: &Options) -> anyhow::Result<Facts> {
    if let Some(excerpt) = excerpt::at(path)? {
        return Ok(excerpt.facts());
    }
    with_opened(path, options, |opened| facts_of(opened, options))
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

/// Has `read` read the streams of a recording.
pub(crate) fn streams<T>(
    path: &Path,
    options: &Options,
    read: impl FnOnce(Streams<'_>) -> anyhow::Result<T>,
) -> anyhow::Result<T> {
    ensure_has_streams(path)?;
    with_opened(path, options, |opened| {
        ready(opened, options, |Ready { topology, clocks, inputs, .. }| {
            read(Streams { machines: &topology.machines, clocks, inputs })
        })
    })
}

/// The machines that a recording observed.
pub(crate) fn machines(path: &Path, options: &Options) -> anyhow::Result<Vec<MachineInfo>> {
    ensure_has_streams(path)?;
    with_opened(path, options, |opened| Ok(opened.topology.machines))
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
