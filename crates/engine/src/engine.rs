//! Wires the parts: aligned streams → merge → state machines → rows.

use crate::{
    align::{Aligned, Input, Item, ToTrace},
    dispatch::At,
    merge::{Merge, Source as _},
    notes::log,
    states::{check::ShiftTest, lost::Hole},
    stream::{EventStream, LostCause, StreamKey},
    topology::Topology,
    world::World,
};
use transect_clock::{ClockGraph, Unit};
use transect_model::{
    event::CoreEvent,
    ids::{MachineId, Tid},
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

    /// Reads every stream to its end and emits every table.
    pub fn run<S: EventStream, C: ToTrace>(
        self,
        inputs: Vec<Input<S, C>>,
        sink: &mut dyn TableSink,
    ) -> Result<Summary, EngineError> {
        self.topology.check().map_err(EngineError::Topology)?;
        let machines = self.topology.machines.len();
        if let Some(input) = inputs.iter().find(|i| i.key.machine.0 as usize >= machines) {
            return Err(EngineError::UnknownMachine(input.key));
        }
        let mut streams: Vec<_> = inputs.into_iter().map(Aligned::new).collect();
        streams.sort_by_key(|s| s.key);
        let mut run = Run::new(self, streams, sink);
        run.drain();
        Ok(run.finish())
    }
}

/// A run between two items.
struct Run<'a, S, C> {
    engine: Engine,
    world: World,
    merge: Merge<Aligned<S, C>>,
    sink: &'a mut dyn TableSink,
    keys: Vec<StreamKey>,
    /// Streams of root machines that have items left; the recording ends with them.
    roots_left: usize,
    /// For each machine, its streams that have items left.
    streams_left: Vec<usize>,
    next_gap: usize,
    /// The last event's stamp.
    now: i64,
    end: Option<i64>,
    events: u64,
}

impl<'a, S: EventStream, C: ToTrace> Run<'a, S, C> {
    fn new(engine: Engine, streams: Vec<Aligned<S, C>>, sink: &'a mut dyn TableSink) -> Self {
        let mut first: Vec<Option<i64>> = vec![None; engine.topology.machines.len()];
        for stream in &streams {
            let slot = &mut first[stream.key.machine.0 as usize];
            *slot = [*slot, stream.first()].into_iter().flatten().min();
        }
        let is_root = |id: MachineId| engine.topology.is_root(id);
        let all_roots = !streams.iter().any(|s| is_root(s.key.machine) && s.first().is_some());
        let defines_span = |id: MachineId| all_roots || is_root(id);
        let roots = streams.iter().filter(|s| defines_span(s.key.machine));
        let start = roots.clone().filter_map(Aligned::first).min();
        let roots_left = roots.filter(|s| s.key().is_some()).count();
        let window_ns = engine.options.window_ns;
        let mut world =
            World::new(&engine.topology, start.unwrap_or(0), window_ns, &first, &mut *sink);
        world.in_ns = !engine.in_ticks;
        for machine in &mut world.machines {
            machine.root = defines_span(machine.id);
        }
        let mut streams_left = vec![0; world.machines.len()];
        for stream in streams.iter().filter(|s| s.key().is_some()) {
            streams_left[stream.key.machine.0 as usize] += 1;
        }
        let keys: Vec<StreamKey> = streams.iter().map(|s| s.key).collect();
        for key in &keys {
            world.has_stream(key.machine.0 as usize, key.cpu);
        }
        let merge = Merge::new(streams);
        Run {
            engine,
            world,
            merge,
            sink,
            keys,
            roots_left,
            streams_left,
            next_gap: 0,
            now: start.unwrap_or(0),
            end: start,
            events: 0,
        }
    }

    fn drain(&mut self) {
        while self.roots_left > 0 {
            let Some((at, item)) = self.merge.next() else { break };
            self.step(at, item);
            if self.merge.sources()[at].key().is_none() {
                self.stream_ended(self.keys[at].machine.0 as usize);
            }
        }
        // Guests may have gone on after the host's last event: nothing to hold that against.
        while let Some((at, item)) = self.merge.next() {
            if !matches!(item, Item::Lost(_)) {
                self.events += 1;
                self.beyond_end(at);
            }
        }
    }

    fn stream_ended(&mut self, m: usize) {
        self.streams_left[m] -= 1;
        if self.world.machines[m].root {
            self.roots_left -= 1;
        } else if self.streams_left[m] == 0 {
            self.world.silence(m, self.now, self.sink);
        }
    }

    fn beyond_end(&mut self, at: usize) {
        let key = self.keys[at];
        let machine = &self.world.machines[key.machine.0 as usize];
        if let Some(Some(v)) = machine.vcpu_of_cpu.get(key.cpu.0 as usize) {
            self.world.check.untestable(*v);
        }
    }

    fn step(&mut self, at: usize, item: Item) {
        let key = self.keys[at];
        let m = key.machine.0 as usize;
        match item {
            Item::Event { t, tid, event } => self.event(key, t, tid, Some(&event)),
            Item::Other { t, tid } => self.event(key, t, tid, None),
            Item::Lost(hole) => {
                let from = hole.from.max(self.world.start);
                let until = hole.until.map(|until| until.max(from));
                self.world.lose_cpu(m, key.cpu, Hole { from, until, ..hole }, self.sink);
            }
        }
    }

    fn event(&mut self, key: StreamKey, t: i64, tid: Tid, event: Option<&CoreEvent>) {
        let m = key.machine.0 as usize;
        self.events += 1;
        self.now = t;
        if self.next_gap < self.engine.gaps.len() {
            self.open_gaps(t);
        }
        if self.world.machines[m].root {
            self.end = Some(t);
        }
        if let Some(c) = self.world.cpu(m, key.cpu) {
            self.world.event(At { m, cpu: key.cpu, c, t, tid }, event, self.sink);
        }
    }

    /// Handles the machine gaps that begin before `t`.
    fn open_gaps(&mut self, t: i64) {
        while let Some(gap) = self.engine.gaps.get(self.next_gap).filter(|g| g.from.get() < t) {
            self.next_gap += 1;
            let from = gap.from.get().max(self.world.start);
            let hole = Hole {
                from,
                until: gap.until.map(|until| until.get().max(from)),
                count: None,
                cause: gap.cause.as_str(),
            };
            let m = gap.machine.0 as usize;
            if m < self.world.machines.len() {
                self.world.lose_machine(m, hole, self.sink);
            }
        }
    }

    fn finish(mut self) -> Summary {
        let end = self.end.unwrap_or(self.world.start);
        self.open_gaps(end);
        let shift_tests = self.world.finish(end, self.sink);
        self.emit_unlocated(end);
        self.emit_machines();
        self.emit_log();
        let notes = &self.world.notes;
        Summary {
            span: self.end.map(|end| Span {
                start: Timestamp::new(self.world.start),
                end: Timestamp::new(end),
            }),
            events: self.events,
            holes: notes.holes,
            lost_events: notes
                .lost_events
                .saturating_add(notes.unlocated)
                .saturating_add(notes.marked),
            contradictions: notes.contradictions,
            shift_tests,
        }
    }

    fn emit_unlocated(&mut self, end: i64) {
        for (key, told) in std::mem::take(&mut self.engine.lost_counts) {
            let count = self.world.notes.reconcile(key, told);
            if count == 0 {
                continue;
            }
            let start = self.world.start;
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
        for machine in &self.world.machines {
            let info = &machine.info;
            let bound = self.engine.bounds.iter().find(|(id, _)| *id == info.id);
            self.sink.row(Row::Machine(Machine {
                machine_id: info.id,
                parent_id: info.parent,
                kind: info.kind,
                name: info.name.clone(),
                vmm_pid: info.vmm_pid,
                cgroup: info.cgroup.clone(),
                clock: info.clock.clone(),
                error_bound_ns: bound.map(|(_, bound_ns)| *bound_ns),
            }));
        }
    }

    fn emit_log(&mut self) {
        for edge in self.engine.edges.drain(..) {
            self.sink.row(Row::ClockEdge(edge));
        }
        for remark in self.engine.remarks.drain(..) {
            self.sink.row(Row::ImportLog(remark));
        }
        for problem in self.merge.sources().iter().flat_map(Aligned::problems) {
            self.sink.row(Row::ImportLog(problem));
        }
        for stream in self.merge.sources() {
            for complaint in stream.complaints() {
                log(self.sink, complaint, true);
            }
        }
        if self.world.windows.overflowed() {
            let message = "the recording spans more windows than can be made; the windows table \
                           is incomplete: ask for longer windows";
            log(self.sink, message.into(), true);
        }
        self.world.notes.emit(self.sink);
    }
}
