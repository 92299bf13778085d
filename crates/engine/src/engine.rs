//! Wires the parts: aligned streams → merge → state machines → rows.

use crate::{
    align::{Aligned, Batch, Input, ToTrace},
    dispatch::At,
    merge::{Portion, Turn},
    notes::log,
    pipeline::{Crew, Source},
    shard::{Boundary, Remark, State},
    states::{check::ShiftTest, lost::Hole},
    stream::{EventStream, LostCause, StreamItem, StreamKey},
    topology::Topology,
    wanted::Wanted,
    world::World,
};
use std::{
    collections::VecDeque,
    num::NonZeroUsize,
    ops::Range,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};
use transect_clock::{ClockGraph, Unit};
use transect_model::{
    ids::MachineId,
    table::{ClockEdge, ImportLog, Lost, Machine, Row, TableSink},
    time::{Span, Timestamp, Trace},
};

/// What can be chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// Length of the windows table's windows, ns.
    pub window_ns: i64,
}

impl Default for Options {
    fn default() -> Self {
        Options { window_ns: 1_000_000_000 }
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
    #[error("the recording's topology is not usable: {0}")]
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
    bounds: Vec<(MachineId, u64)>,
    edges: Vec<ClockEdge>,
    remarks: Vec<ImportLog>,
    lost_counts: Vec<(StreamKey, u64)>,
    /// Trace time counts ticks of unknown length.
    in_ticks: bool,
    threads: Option<NonZeroUsize>,
    progress: Option<Arc<AtomicU64>>,
    resume: Option<Box<Boundary>>,
}

impl Engine {
    /// An engine for a recording of these actors.
    pub fn new(topology: Topology, options: Options) -> Self {
        Engine { topology, options, ..Engine::default() }
    }

    /// Adds stretches in which machines were not recorded.
    #[must_use]
    pub fn with_gaps(mut self, gaps: impl IntoIterator<Item = MachineGap>) -> Self {
        self.gaps.extend(gaps);
        self.gaps.sort_by_key(|gap| (gap.from, gap.machine));
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
                message: "nothing tells how long a tick of the recording's clock is: all times \
                          are in ticks and not in ns, halt polling is not told apart; give the \
                          frequency (--tsc-hz)"
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

    /// Goes on where another engine of the same recording stopped ([`Engine::run_until`]). Gaps,
    /// clocks, counts and remarks are to be told to this one as to the other.
    #[must_use]
    pub fn resume(mut self, boundary: Boundary) -> Self {
        self.resume = Some(Box::new(boundary));
        self
    }

    /// Reads every stream to its end and emits every table.
    pub fn run<S: EventStream + Send, C: ToTrace + Send>(
        self,
        inputs: Vec<Input<S, C>>,
        sink: &mut dyn TableSink,
    ) -> Result<Summary, EngineError> {
        self.shard(inputs, i64::MAX, sink, |run, streams| run.finish(&streams))
    }

    /// Reads every stream up to `cut`, exclusive, and emits what is complete by then.
    ///
    /// The streams are those of the whole recording, in any order; each has to reach at least to
    /// its first event at or beyond the cut. [`Engine::resume`] goes on from what is given back, in
    /// this process or another. The rows of all shards, one after the other, are those of a single
    /// run, in the same order.
    pub fn run_until<S: EventStream + Send, C: ToTrace + Send>(
        self,
        inputs: Vec<Input<S, C>>,
        cut: Timestamp<Trace>,
        sink: &mut dyn TableSink,
    ) -> Result<Boundary, EngineError> {
        self.shard(inputs, cut.get(), sink, |run, streams| run.cut(cut.get(), &streams))
    }

    fn shard<S: EventStream + Send, C: ToTrace + Send, T>(
        mut self,
        mut inputs: Vec<Input<S, C>>,
        cut: i64,
        sink: &mut dyn TableSink,
        end: impl FnOnce(Run<'_>, Vec<Aligned<S, C>>) -> T,
    ) -> Result<T, EngineError> {
        self.topology.check().map_err(EngineError::Topology)?;
        let machines = self.topology.machines.len();
        if let Some(input) = inputs.iter().find(|i| i.key.machine.0 as usize >= machines) {
            return Err(EngineError::UnknownMachine(input.key));
        }
        inputs.sort_by_key(|input| input.key);
        let boundary = self.resume.take();
        let keys: Vec<StreamKey> = inputs.iter().map(|input| input.key).collect();
        if boundary.as_ref().is_some_and(|boundary| !boundary.fits(&keys)) {
            return Err(EngineError::OtherStreams);
        }
        let aligned = inputs.into_iter().enumerate().map(|(at, input)| {
            Aligned::new(input, boundary.as_ref().map(|boundary| boundary.place(at)), cut)
        });
        let streams: Vec<_> = aligned.collect();
        let crew = Crew::new(self.threads, streams.len());
        Ok(std::thread::scope(|scope| {
            let mut source = Source::start(scope, streams, crew, cut);
            let mut heads = Heads::new(keys.len());
            // The first portion opens all streams that have items.
            heads.open(source.portion().unwrap_or_default());
            let mut run = match boundary {
                Some(boundary) => Run::go_on(self, &keys, &heads, *boundary, sink),
                None => Run::new(self, &keys, &heads, sink),
            };
            while let Some(portion) = source.portion() {
                run.portion(portion, &mut heads, |batch| source.done(batch));
            }
            end(run, source.finish())
        }))
    }
}

/// The batches in hand of all streams.
#[derive(Debug)]
struct Heads(Vec<Head>);

/// The batches in hand of one stream, the first one being used.
#[derive(Clone, Debug, Default)]
struct Head {
    batches: VecDeque<Batch>,
    /// Its items, and holes, that are done with.
    items: usize,
    holes: usize,
}

impl Heads {
    fn new(streams: usize) -> Self {
        Heads(vec![Head::default(); streams])
    }

    /// Takes a portion's new batches; gives its turns.
    fn open(&mut self, portion: Portion) -> Vec<Turn> {
        for (at, batch) in portion.opened {
            self.0[at].batches.push_back(batch);
        }
        portion.turns
    }
}

impl Head {
    fn first_event(&self) -> Option<i64> {
        self.batches.front().and_then(Batch::first_event)
    }
}

/// Who a stream tells about, looked up once.
#[derive(Clone, Copy, Debug)]
struct Teller {
    key: StreamKey,
    /// Index of the machine.
    m: usize,
    /// Index of the CPU; none for numbers that no kernel has.
    c: Option<usize>,
    root: bool,
}

/// A run between two turns.
struct Run<'a> {
    engine: Engine,
    state: State,
    sink: &'a mut dyn TableSink,
    tellers: Vec<Teller>,
    /// What other shards' streams said of themselves.
    told: Vec<Vec<Remark>>,
    /// Streams of root machines that have items left; the recording ends with them.
    roots_left: usize,
    /// For each machine, its streams that have items left.
    streams_left: Vec<usize>,
}

impl<'a> Run<'a> {
    fn new(engine: Engine, keys: &[StreamKey], heads: &Heads, sink: &'a mut dyn TableSink) -> Self {
        let mut first: Vec<Option<i64>> = vec![None; engine.topology.machines.len()];
        for (key, head) in keys.iter().zip(&heads.0) {
            let slot = &mut first[key.machine.0 as usize];
            *slot = [*slot, head.first_event()].into_iter().flatten().min();
        }
        let is_root = |id: MachineId| engine.topology.is_root(id);
        let with_events =
            keys.iter().zip(&heads.0).filter(|(_, head)| head.first_event().is_some());
        let all_roots = !with_events.clone().any(|(key, _)| is_root(key.machine));
        let defines_span = |id: MachineId| all_roots || is_root(id);
        let start = with_events
            .filter(|(key, _)| defines_span(key.machine))
            .filter_map(|(_, head)| head.first_event())
            .min();
        let window_ns = engine.options.window_ns;
        let mut world =
            World::new(&engine.topology, start.unwrap_or(0), window_ns, &first, &mut *sink);
        world.in_ns = !engine.in_ticks;
        for machine in &mut world.machines {
            machine.root = defines_span(machine.id);
        }
        for key in keys {
            world.has_stream(key.machine.0 as usize, key.cpu);
        }
        let now = start.unwrap_or(0);
        let state = State { world, next_gap: 0, now, end: start, events: 0 };
        let told = vec![Vec::new(); keys.len()];
        Run::with(engine, state, told, keys, heads, sink)
    }

    fn go_on(
        engine: Engine,
        keys: &[StreamKey],
        heads: &Heads,
        boundary: Boundary,
        sink: &'a mut dyn TableSink,
    ) -> Self {
        let (mut state, told) = boundary.into_parts();
        state.world.wants = Wanted::by(sink);
        Run::with(engine, state, told, keys, heads, sink)
    }

    fn with(
        engine: Engine,
        mut state: State,
        told: Vec<Vec<Remark>>,
        keys: &[StreamKey],
        heads: &Heads,
        sink: &'a mut dyn TableSink,
    ) -> Self {
        let world = &mut state.world;
        let mut streams_left = vec![0; world.machines.len()];
        let mut roots_left = 0;
        let mut tellers = Vec::with_capacity(keys.len());
        for (key, head) in keys.iter().zip(&heads.0) {
            let m = key.machine.0 as usize;
            let root = world.machines[m].root;
            if !head.batches.is_empty() {
                streams_left[m] += 1;
                roots_left += usize::from(root);
            }
            tellers.push(Teller { key: *key, m, c: world.cpu(m, key.cpu), root });
        }
        Run { engine, state, sink, tellers, told, roots_left, streams_left }
    }

    fn portion(&mut self, portion: Portion, heads: &mut Heads, mut done: impl FnMut(Batch)) {
        for turn in heads.open(portion) {
            let head = &mut heads.0[turn.at];
            let teller = self.tellers[turn.at];
            let mut left = turn.items;
            while let Some(batch) = head.batches.front().filter(|_| left > 0) {
                let end = batch.items.len().min(head.items + left);
                left -= end - head.items;
                // Guests may go on after the host's last event: nothing to hold that against.
                if self.roots_left > 0 {
                    self.take(teller, batch, head.items..end, &mut head.holes);
                } else {
                    self.beyond_end(teller, &batch.items[head.items..end]);
                }
                head.items = end;
                if end == batch.items.len() {
                    (head.items, head.holes) = (0, 0);
                    head.batches.pop_front().map(&mut done);
                }
            }
            if turn.ends && self.roots_left > 0 {
                self.stream_ended(turn.at);
            }
        }
        if let Some(progress) = &self.engine.progress {
            progress.store(self.state.events, Ordering::Relaxed);
        }
    }

    /// Handles items of one stream that come before all others.
    fn take(&mut self, by: Teller, batch: &Batch, range: Range<usize>, holes: &mut usize) {
        let times = &batch.times[range.clone()];
        let mut events = 0;
        for (item, t) in batch.items[range].iter().zip(times) {
            let (tid, quiet, event) = match item {
                StreamItem::Event { tid, quiet, event, .. } => (*tid, *quiet, Some(event)),
                StreamItem::Other { tid, quiet, .. } => (*tid, *quiet, None),
                StreamItem::Lost(_) => {
                    if let Some(hole) = batch.holes.get(*holes) {
                        self.lost(by, *hole);
                    }
                    *holes += 1;
                    continue;
                }
            };
            events += 1 + u64::from(quiet);
            self.state.now = *t;
            if self.state.next_gap < self.engine.gaps.len() {
                self.open_gaps(*t);
            }
            if let Some(c) = by.c {
                let at = At { m: by.m, cpu: by.key.cpu, c, t: *t, tid };
                self.state.world.event(at, event, self.sink);
            }
        }
        self.state.events += events;
        if by.root && events > 0 {
            self.state.end = Some(self.state.now);
        }
    }

    fn stream_ended(&mut self, at: usize) {
        let Teller { m, root, .. } = self.tellers[at];
        self.streams_left[m] -= 1;
        if root {
            self.roots_left -= 1;
        } else if self.streams_left[m] == 0 {
            self.state.world.silence(m, self.state.now, self.sink);
        }
    }

    fn beyond_end(&mut self, by: Teller, items: &[StreamItem]) {
        let world = &mut self.state.world;
        let cpu = by.key.cpu.0 as usize;
        let vcpu = world.machines[by.m].vcpu_of_cpu.get(cpu).copied().flatten();
        for item in items {
            let (StreamItem::Event { quiet, .. } | StreamItem::Other { quiet, .. }) = item else {
                continue;
            };
            self.state.events += 1 + u64::from(*quiet);
            if let Some(v) = vcpu {
                world.check.untestable(v);
            }
        }
    }

    #[cold]
    fn lost(&mut self, by: Teller, hole: Hole) {
        let world = &mut self.state.world;
        let from = hole.from.max(world.start);
        let until = hole.until.map(|until| until.max(from));
        world.lose_cpu(by.m, by.key.cpu, Hole { from, until, ..hole }, self.sink);
    }

    /// Handles the machine gaps that begin before `t`.
    fn open_gaps(&mut self, t: i64) {
        while let Some(gap) = self.engine.gaps.get(self.state.next_gap).filter(|g| g.from.get() < t)
        {
            self.state.next_gap += 1;
            let from = gap.from.get().max(self.state.world.start);
            let hole = Hole {
                from,
                until: gap.until.map(|until| until.get().max(from)),
                count: None,
                cause: gap.cause,
            };
            let m = gap.machine.0 as usize;
            if m < self.state.world.machines.len() {
                self.state.world.lose_machine(m, hole, self.sink);
            }
        }
    }

    /// What another engine needs to go on from the cut.
    fn cut<S: EventStream, C: ToTrace>(mut self, cut: i64, streams: &[Aligned<S, C>]) -> Boundary {
        self.hear(streams);
        let places = streams.iter().map(|stream| (stream.key, stream.place())).collect();
        Boundary::new(cut, self.state, places, self.told)
    }

    /// Adds what the streams say of themselves to what they said to other shards.
    fn hear<S: EventStream, C: ToTrace>(&mut self, streams: &[Aligned<S, C>]) {
        for (told, stream) in self.told.iter_mut().zip(streams) {
            for problem in stream.problems() {
                let problem = Remark::from(problem);
                if !told.contains(&problem) {
                    told.push(problem);
                }
            }
        }
    }

    fn finish<S: EventStream, C: ToTrace>(mut self, streams: &[Aligned<S, C>]) -> Summary {
        self.hear(streams);
        let end = self.state.end.unwrap_or(self.state.world.start);
        self.open_gaps(end);
        let shift_tests = self.state.world.finish(end, self.sink);
        self.emit_unlocated(end);
        self.emit_machines();
        self.emit_log(streams);
        let notes = &self.state.world.notes;
        Summary {
            span: self.state.end.map(|end| Span {
                start: Timestamp::new(self.state.world.start),
                end: Timestamp::new(end),
            }),
            events: self.state.events.saturating_sub(self.state.world.xen.told),
            holes: notes.holes,
            lost_events: notes
                .lost_events
                .saturating_add(notes.unlocated)
                .saturating_add(notes.marked),
            contradictions: notes.contradictions + notes.xen_contradictions,
            shift_tests,
        }
    }

    fn emit_unlocated(&mut self, end: i64) {
        for (key, told) in std::mem::take(&mut self.engine.lost_counts) {
            let count = self.state.world.notes.reconcile(key, told);
            if count == 0 {
                continue;
            }
            let start = self.state.world.start;
            self.sink.row(Row::Lost(Lost {
                ts: start,
                dur: end - start,
                machine_id: key.machine,
                cpu: Some(key.cpu),
                count: Some(count),
                cause: LostCause::BufferOverrun.as_str().into(),
            }));
        }
    }

    fn emit_machines(&mut self) {
        for machine in &self.state.world.machines {
            let info = &machine.info;
            let bound = self.engine.bounds.iter().find(|(id, _)| *id == info.id);
            self.sink.row(Row::Machine(Machine {
                machine_id: info.id,
                parent_id: info.parent,
                kind: info.kind,
                name: info.name.clone(),
                domid: info.domid,
                vmm_pid: info.vmm_pid,
                cgroup: info.cgroup.clone(),
                clock: info.clock.clone(),
                error_bound_ns: bound.map(|(_, bound_ns)| *bound_ns),
            }));
        }
    }

    fn emit_log<S: EventStream, C: ToTrace>(&mut self, streams: &[Aligned<S, C>]) {
        for edge in self.engine.edges.drain(..) {
            self.sink.row(Row::ClockEdge(edge));
        }
        for remark in self.engine.remarks.drain(..) {
            self.sink.row(Row::ImportLog(remark));
        }
        for problem in self.told.drain(..).flatten() {
            self.sink.row(Row::ImportLog(problem.into()));
        }
        for stream in streams {
            for complaint in stream.complaints() {
                log(self.sink, complaint, true);
            }
        }
        if self.state.world.windows.overflowed() {
            let message = "the recording spans more windows than can be made; the windows table \
                           is incomplete: ask for longer windows";
            log(self.sink, message.into(), true);
        }
        self.state.world.notes.emit(self.sink);
    }
}
