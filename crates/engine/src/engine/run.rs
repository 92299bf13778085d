//! A run: items in the order of the merge → state machines → rows.

use super::{Engine, Start, Summary};
use crate::{
    align::{Aligned, Batch, ToTrace},
    at::At,
    merge::{Portion, Turn},
    notes::log,
    shard::{Boundary, Remark, State},
    states::lost::Hole,
    stream::{EventStream, LostCause, StreamItem, StreamKey},
    wanted::Wanted,
    world::World,
};
use std::{collections::VecDeque, ops::Range, sync::atomic::Ordering};
use transect_model::{
    ids::{MachineId, Tid},
    table::{Lost, Machine, Row, TableSink},
    time::{Span, Timestamp},
};

/// The batches in hand of all streams.
#[derive(Debug)]
pub(super) struct Heads(Vec<Head>);

/// The batches in hand of one stream, the first one being used.
#[derive(Clone, Debug, Default)]
struct Head {
    batches: VecDeque<Batch>,
    /// Its items, and holes, that are done with.
    items: usize,
    holes: usize,
}

impl Heads {
    pub(super) fn new(streams: usize) -> Self {
        Heads(vec![Head::default(); streams])
    }

    /// Takes a portion's new batches; gives its turns.
    pub(super) fn open(&mut self, portion: Portion) -> Vec<Turn> {
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

    /// Where the stream of a log that overwrites begins, if its beginning is missing. Events from before may
    /// precede the hole: the page of a ring buffer that is being read is not overwritten.
    fn missing_until(&self) -> Option<i64> {
        let is_overwritten =
            |hole: &&Hole| matches!(hole.cause, LostCause::Overwritten | LostCause::BufferOverrun);
        let holes = self.batches.iter().flat_map(|batch| &batch.holes);
        holes.filter(is_overwritten).filter_map(|hole| hole.until).next_back()
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

impl Teller {
    /// Where something happened; none on CPUs that no kernel has.
    #[inline]
    fn at(self, t: i64, tid: Tid) -> Option<At> {
        Some(At { m: self.m, cpu: self.key.cpu, c: self.c?, t, tid })
    }
}

/// A run between two turns.
pub(super) struct Run<'a> {
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
    pub(super) fn new(
        engine: Engine,
        keys: &[StreamKey],
        heads: &Heads,
        sink: &'a mut dyn TableSink,
    ) -> Self {
        let mut first: Vec<Option<i64>> = vec![None; engine.topology.machines.len()];
        for (key, head) in keys.iter().zip(&heads.0) {
            let slot = &mut first[key.machine.0 as usize];
            *slot = [*slot, head.first_event()].into_iter().flatten().min();
        }
        let is_root = |id: MachineId| engine.topology.is_root(id);
        let with_events =
            keys.iter().zip(&heads.0).filter(|(_, head)| head.first_event().is_some());
        // A chosen span is the hosts', also if nothing is left of them.
        let is_chosen = matches!(engine.window.start, Start::At(_));
        let all_roots = !is_chosen && !with_events.clone().any(|(key, _)| is_root(key.machine));
        let defines_span = |id: MachineId| all_roots || is_root(id);
        let start = with_events
            .filter(|(key, _)| defines_span(key.machine))
            .filter_map(|(_, head)| head.first_event())
            .min();
        let roots = keys.iter().zip(&heads.0).filter(|(key, _)| defines_span(key.machine));
        let covered = roots.filter_map(|(_, head)| head.missing_until()).max();
        let start = match engine.window.start {
            Start::FirstEvent => start,
            Start::At(at) => Some(at.get()),
            Start::Covered => covered.or(start),
        };
        for (machine, first) in engine.topology.machines.iter().zip(&mut first) {
            // The streams are complete from the window's start on, where no hole says otherwise.
            if is_root(machine.id) {
                *first = [*first, start].into_iter().flatten().min();
            }
        }
        let window_ns = engine.window_length();
        let begin = start.unwrap_or(0);
        let filters = &engine.filters;
        let mut world = World::new(&engine.topology, begin, window_ns, &first, filters, &mut *sink);
        world.know_bounds(&engine.bounds);
        world.in_ns = !engine.in_ticks;
        if let Some(stretch) = engine.windows_in {
            world.windows.only_in(stretch.start.get(), stretch.end.get());
        }
        if engine.aligned {
            world.windows.align();
        }
        for machine in &mut world.machines {
            machine.root = defines_span(machine.id);
        }
        for key in keys {
            world.has_stream(key.machine.0 as usize, key.cpu);
        }
        let end = engine.window.end.map(Timestamp::get).or(start);
        let state = State { world, next_gap: 0, now: begin, end, events: 0 };
        let told = vec![Vec::new(); keys.len()];
        Run::with(engine, state, told, keys, heads, sink)
    }

    pub(super) fn go_on(
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

    pub(super) fn portion(
        &mut self,
        portion: Portion,
        heads: &mut Heads,
        mut done: impl FnMut(Batch),
    ) {
        for turn in heads.open(portion) {
            let head = &mut heads.0[turn.at];
            let teller = self.tellers[turn.at];
            let mut left = turn.items;
            while let Some(batch) = head.batches.front().filter(|_| left > 0) {
                let end = batch.items.len().min(head.items + left);
                left -= end - head.items;
                // Guests may go on after the host's last event: nothing to hold that against.
                if self.goes_on() {
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
            if turn.ends && self.goes_on() {
                self.stream_ended(turn.at);
            }
        }
        if let Some(progress) = &self.engine.progress {
            progress.store(self.state.events, Ordering::Relaxed);
        }
    }

    /// Has the span not ended? It ends with the last event of the root machines, unless it was chosen.
    fn goes_on(&self) -> bool {
        self.roots_left > 0 || self.engine.window.end.is_some()
    }

    /// Handles items of one stream that come before all others.
    fn take(&mut self, by: Teller, batch: &Batch, range: Range<usize>, holes: &mut usize) {
        let times = &batch.times[range.clone()];
        let mut events = 0;
        for (item, t) in batch.items[range].iter().zip(times) {
            match item {
                StreamItem::Event { tid, quiet, event, .. } => {
                    events += 1 + u64::from(*quiet);
                    self.reach(*t);
                    if let Some(at) = by.at(*t, *tid) {
                        self.state.world.event(at, event, self.sink);
                    }
                }
                StreamItem::Other { tid, quiet, .. } => {
                    events += 1 + u64::from(*quiet);
                    self.reach(*t);
                    if let Some(at) = by.at(*t, *tid) {
                        self.state.world.other(at, self.sink);
                    }
                }
                StreamItem::Lost(_) => {
                    if let Some(hole) = batch.holes.get(*holes) {
                        self.lost(by, *hole);
                    }
                    *holes += 1;
                }
            }
        }
        self.state.events += events;
        if by.root && events > 0 && self.engine.window.end.is_none() {
            self.state.end = Some(self.state.now);
        }
    }

    /// It is `t` now.
    #[inline]
    fn reach(&mut self, t: i64) {
        self.state.now = t;
        if self.state.next_gap < self.engine.gaps.len() {
            self.open_gaps(t);
        }
    }

    fn stream_ended(&mut self, at: usize) {
        let Teller { m, root, .. } = self.tellers[at];
        self.streams_left[m] -= 1;
        if root {
            self.roots_left = self.roots_left.saturating_sub(1);
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
        // What is lost before the window ends before it, too.
        let from = hole.from.max(world.start).min(hole.until.unwrap_or(i64::MAX));
        let until = hole.until.map(|until| until.max(from));
        let window = self.engine.window;
        let in_window = window.start == Start::FirstEvent || window.is_whole;
        let count = hole.count.filter(|_| in_window || hole.from > i64::MIN);
        world.lose_cpu(by.m, by.key.cpu, Hole { from, until, count, ..hole }, self.sink);
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
    pub(super) fn cut<S: EventStream, C: ToTrace>(
        mut self,
        cut: i64,
        streams: &[Aligned<S, C>],
    ) -> Boundary {
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

    pub(super) fn finish<S: EventStream, C: ToTrace>(
        mut self,
        streams: &[Aligned<S, C>],
    ) -> Summary {
        self.hear(streams);
        let end = self.state.end.unwrap_or(self.state.world.start);
        self.open_gaps(end);
        let shift_tests = self.state.world.finish(end, self.sink);
        self.emit_unlocated(end);
        self.emit_machines();
        self.emit_cgroups();
        self.emit_stacks();
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
        let time_unit = self.engine.time_unit();
        for machine in &self.state.world.machines {
            let bound = self.engine.bounds.iter().find(|(id, _)| *id == machine.info.id);
            let error_bound_ns = bound.map(|(_, bound_ns)| *bound_ns);
            self.sink.row(Row::from(Machine {
                error_bound_ns,
                time_unit: Some(time_unit.to_owned()),
                ..machine.info.row()
            }));
        }
    }

    fn emit_cgroups(&mut self) {
        for group in self.engine.topology.cgroups.drain(..) {
            self.sink.row(group.row().into());
        }
    }

    fn emit_stacks(&mut self) {
        for stack in self.engine.topology.stacks.drain(..) {
            stack.rows().for_each(|frame| self.sink.row(frame.into()));
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
            for complaint in stream.complaints(self.engine.time_unit()) {
                log(self.sink, complaint, true);
            }
        }
        if self.state.world.windows.overflowed() {
            let message = "the recording spans more windows than the limit; the windows table \
                           is incomplete: use longer windows";
            log(self.sink, message.into(), true);
        }
        self.state.world.notes.emit(self.sink);
    }
}
