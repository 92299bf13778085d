//! From an opened recording to a run of the engine: parses the files, relates their clocks, gives what is known of windows,
//! births and holes to the engine.

use crate::{
    AnyStream, Options, Plan, SourceBytes, SourceFile,
    clocks::{host_clock, unit},
    endings::{self, Endings},
    facts::Facts,
    left_out,
    opened::{Opened, RawGap},
    parse, progress,
    readers::readers,
    refine,
    window::RawWindow,
};
use std::collections::BTreeMap;
use transect_clock::{ClockGraph, Converter};
use transect_engine::topology::StackInfo;
use transect_engine::{Engine, Filter, Input, MachineGap, StreamKey, Summary, Topology};
use transect_model::ids::{MachineId, Tid};
use transect_model::table::{ImportLog, TableSink, WallClock};
use transect_model::time::{Span, Timestamp, Trace};

/// A recording that was read so far that only the engine is missing.
pub(crate) struct Ready<'s> {
    pub(crate) facts: Facts,
    pub(crate) topology: Topology,
    pub(crate) gaps: Vec<RawGap>,
    pub(crate) filters: Vec<(MachineId, Filter)>,
    pub(crate) window: Option<RawWindow>,
    pub(crate) lost: Vec<(StreamKey, u64)>,
    pub(crate) remarks: Vec<ImportLog>,
    pub(crate) clocks: &'s ClockGraph,
    pub(crate) inputs: Vec<Input<AnyStream<'s>, Converter>>,
}

/// Parses the sources and relates their clocks; streams live as long as `work`.
pub(crate) fn ready<T>(
    opened: Opened<'_>,
    options: &Options,
    work: impl FnOnce(Ready<'_>) -> anyhow::Result<T>,
) -> anyhow::Result<T> {
    let Opened { facts, mut topology, mut evidence, sources, gaps, .. } = opened;
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
    topology.stacks.extend(traces.iter().flat_map(|(source, trace)| stacks_of(source, trace)));
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

/// The stacks that events of a source name.
fn stacks_of(source: &SourceBytes<'_>, trace: &SourceFile<'_>) -> Vec<StackInfo> {
    let SourceFile::Compact(file) = trace else { return Vec::new() };
    let stack = |(id, frames)| StackInfo { machine: source.machine, id, frames };
    file.stacks().into_iter().map(stack).collect()
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
