//! Wires the parts: aligned streams → merge → state machines → rows.

mod run;
mod start;

use crate::{
    filter::Filter,
    shard::Boundary,
    states::check::ShiftTest,
    stream::{LostCause, StreamKey},
    topology::Topology,
};
use std::{
    num::NonZeroUsize,
    sync::{Arc, atomic::AtomicU64},
};
use transect_clock::{ClockGraph, Unit};
use transect_model::{
    ids::MachineId,
    table::{ClockEdge, ImportLog},
    time::{Span, Timestamp, Trace},
};

/// What can be chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// Length of the windows table's windows, ns. A recording in ticks of unknown length has one
    /// window, which is the whole run.
    pub window_ns: i64,
}

impl Default for Options {
    fn default() -> Self {
        Options { window_ns: 1_000_000_000 }
    }
}

/// Longer than any run, and far from the ends of 64 bits: a century of a TSC of 300 MHz.
const WHOLE_RUN_TICKS: i64 = 1 << 60;

/// The span of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Window {
    pub(crate) start: Start,
    /// None: with the last event.
    pub(crate) end: Option<Timestamp<Trace>>,
    /// Nothing was recorded before it.
    pub(crate) is_whole: bool,
}

/// Where a run's span begins.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Start {
    /// With the first event.
    #[default]
    FirstEvent,
    /// At this stamp.
    At(Timestamp<Trace>),
    /// Where the last of the streams begins that lack their beginning.
    Covered,
}

impl Window {
    /// Items from this stamp on are not the run's.
    fn cut(self) -> i64 {
        self.end.map_or(i64::MAX, |end| end.get().saturating_add(1))
    }
}

/// A stretch in which a machine's events are missing altogether (a guest's channel was down).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MachineGap {
    /// The machine.
    pub machine: MachineId,
    /// Its last stamp before.
    pub from: Timestamp<Trace>,
    /// Its first after; none if it never came back.
    pub until: Option<Timestamp<Trace>>,
    /// Why.
    pub cause: LostCause,
}

/// What a run found, besides the tables.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Summary {
    /// From the first to the last event of the hosts; none without events.
    pub span: Option<Span>,
    /// Events read, all kinds.
    pub events: u64,
    /// Holes in the streams.
    pub holes: u64,
    /// Events lost in them, as far as the sources counted.
    pub lost_events: u64,
    /// Events that contradicted the state they met (see the import log).
    pub contradictions: u64,
    /// Per guest: how sharp the causality check is.
    pub shift_tests: Vec<(MachineId, Vec<ShiftTest>)>,
}

/// Why a run could not start.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EngineError {
    /// The topology contradicts itself.
    #[error("the recording's topology is invalid: {0}")]
    Topology(String),
    /// A shard was given other streams than the one before it.
    #[error("the streams are not those of the recording's earlier part")]
    OtherStreams,
    /// A stream belongs to a machine that the topology does not have.
    #[error("a stream of CPU {} belongs to machine {}, which the recording does not list", .0.cpu, .0.machine)]
    UnknownMachine(StreamKey),
}

/// Turns streams into tables. One engine makes one run.
#[derive(Clone, Debug, Default)]
pub struct Engine {
    topology: Topology,
    options: Options,
    gaps: Vec<MachineGap>,
    window: Window,
    filters: Vec<(MachineId, Filter)>,
    bounds: Vec<(MachineId, u64)>,
    edges: Vec<ClockEdge>,
    remarks: Vec<ImportLog>,
    lost_counts: Vec<(StreamKey, u64)>,
    /// Trace time counts ticks of unknown length.
    in_ticks: bool,
    /// Windows begin at multiples of their length.
    aligned: bool,
    threads: Option<NonZeroUsize>,
    progress: Option<Arc<AtomicU64>>,
    windows_in: Option<Span>,
    resume: Option<Box<Boundary>>,
}

impl Engine {
    /// An engine for a recording of these actors.
    pub fn new(topology: Topology, options: Options) -> Self {
        Engine { topology, options, ..Engine::default() }
    }

    /// Windows begin at multiples of their length in trace time, as live ones do, and not with the
    /// recording; the first one is then shorter.
    #[must_use]
    pub fn with_aligned_windows(mut self) -> Self {
        self.aligned = true;
        self
    }

    /// Length of the windows in the unit of trace time. No number of ticks is a length in ns.
    fn window_length(&self) -> i64 {
        if self.in_ticks { WHOLE_RUN_TICKS } else { self.options.window_ns }
    }

    /// The name of the unit of trace time.
    fn time_unit(&self) -> &'static str {
        if self.in_ticks { "ticks" } else { "ns" }
    }

    /// Adds stretches in which machines were not recorded.
    #[must_use]
    pub fn with_gaps(mut self, gaps: impl IntoIterator<Item = MachineGap>) -> Self {
        self.gaps.extend(gaps);
        self.gaps.sort_by_key(|gap| (gap.from, gap.machine));
        self
    }

    /// Makes the recording's span this stretch and not that of its events. Events before it still
    /// determine the states at its start; a stretch that no event covers is unknown. For
    /// snapshots, whose span is what was asked for.
    #[must_use]
    pub fn with_window(mut self, window: Span) -> Self {
        self.window =
            Window { start: Start::At(window.start), end: Some(window.end), ..self.window };
        self
    }

    /// The window begins where recording did, so that the events that streams lack at their beginning were all
    /// lost in it. The number of those lost in any other window is not known.
    #[must_use]
    pub fn with_whole_window(mut self) -> Self {
        self.window.is_whole = true;
        self
    }

    /// The same for a stretch that ends with the last event.
    #[must_use]
    pub fn with_window_from(mut self, start: Timestamp<Trace>) -> Self {
        self.window = Window { start: Start::At(start), end: None, ..self.window };
        self
    }

    /// Makes the recording's span what the streams of all CPUs of the root machines cover: it begins where
    /// the last of those streams does that lack their beginning.
    #[must_use]
    pub fn with_covered_window(mut self, end: Option<Timestamp<Trace>>) -> Self {
        self.window = Window { start: Start::Covered, end, ..self.window };
        self
    }

    /// Adds what the sources of a machine let through.
    #[must_use]
    pub fn with_filter(mut self, machine: MachineId, filter: Filter) -> Self {
        self.filters.push((machine, filter));
        self
    }

    /// Tells what the tables say about clocks: the edges used, how far each machine's stamps may be
    /// off in trace time, and what was assumed.
    #[must_use]
    pub fn with_clocks(mut self, clocks: &ClockGraph) -> Self {
        self.edges = clocks.edges();
        self.in_ticks = clocks.unit() == Unit::Ticks;
        if self.in_ticks {
            self.remarks.push(ImportLog {
                source: "clocks".into(),
                offset: None,
                message: "the length of a tick of the recording's clock is unknown: all times \
                          are in ticks instead of ns, rates per second are unknown, the whole recording \
                          is one window, and halt polling is not shown separately; give the TSC \
                          frequency with --cpu-hz"
                    .into(),
                data_loss: false,
            });
        }
        for machine in &self.topology.machines {
            if machine.clock.is_some()
                && let Ok(bound) = clocks.error_bound(machine.id)
            {
                self.bounds.push((machine.id, bound.0));
            }
        }
        let notes = clocks.notes().iter();
        self.remarks.extend(notes.map(|note| ImportLog {
            source: "clocks".into(),
            offset: None,
            message: note.clone(),
            data_loss: false,
        }));
        self
    }

    /// Tells how many events each CPU's buffer lost by its kernel's own count. What the streams do
    /// not show the place of (the kernel marks overwritten events, not refused ones) is told with
    /// the whole recording as its place; states cannot take it into account.
    #[must_use]
    pub fn with_lost_counts(mut self, counts: impl IntoIterator<Item = (StreamKey, u64)>) -> Self {
        self.lost_counts.extend(counts);
        self
    }

    /// Adds rows to the import log: what those who opened the sources noticed.
    #[must_use]
    pub fn with_remarks(mut self, remarks: impl IntoIterator<Item = ImportLog>) -> Self {
        self.remarks.extend(remarks);
        self
    }

    /// Reads with as many threads as given (one: everything in the calling thread). Without this,
    /// with as many as the machine has CPUs. The tables do not depend on it.
    #[must_use]
    pub fn with_threads(mut self, threads: NonZeroUsize) -> Self {
        self.threads = Some(threads);
        self
    }

    /// Counts the events handled so far into `events`, a few thousand at a time, for whoever shows
    /// progress or lets go of mapped pages that were read.
    #[must_use]
    pub fn with_progress(mut self, events: Arc<AtomicU64>) -> Self {
        self.progress = Some(events);
        self
    }

    /// Makes the windows of this stretch only: the first begins at its start, the last ends at its
    /// end, and nothing outside counts. For excerpts: sums over a part of a window cannot be told
    /// from the sum over all of it. Where the stretch goes beyond the recording it is cut; the
    /// other tables do not depend on it.
    #[must_use]
    pub fn with_windows_in(mut self, stretch: Span) -> Self {
        self.windows_in = Some(stretch);
        self
    }

    /// Goes on where another engine of the same recording stopped ([`Engine::run_until`]). Gaps,
    /// clocks, counts and remarks are to be told to this one as to the other.
    #[must_use]
    pub fn resume(mut self, boundary: Boundary) -> Self {
        self.resume = Some(Box::new(boundary));
        self
    }
}
