//! A run without an end: events are pushed as they come, rows are taken window by window.
//!
//! ```text
//! push(stream, items) ─▶ waiting items, per stream ─▶ advance(t): everything before t, merged,
//!    through the same states as any run ─▶ rows that are complete ─▶ sink
//!                                          peek: what is open at t, as if the run ended there
//!                                          forget: windows before t, threads that are gone
//! ```
//! One call of [`Feed::advance`] is one shard of a run that is cut in time ([`Engine::run_until`]), so
//! the rows are those of a recording of the same events that ends where the window does. What such a
//! recording learns only from later events (what a thread was before its first one) is `unknown` in
//! a window that was looked at before.
//!
//! **Design constraints.** Nothing grows with time: items are dropped with [`Feed::advance`], windows and
//! threads with [`Feed::forget`]. Actors that come and go (VMs, control groups) leave a few bytes each;
//! who runs for months begins anew when there have been too many ([`Feed::actors`]).
//! Whoever pushes decides how long to wait for events: those that come after `advance` has passed
//! their time are counted and told as a hole in their stream.

use crate::{
    align::{Input, ToTrace},
    engine::{Engine, EngineError, Options},
    shard::Boundary,
    states::lost::Hole,
    stream::{LostCause, LostEvents, StreamItem, StreamKey},
    topology::{MachineInfo, ThreadInfo, Topology, VcpuInfo},
};
use std::{
    collections::{BTreeMap, VecDeque},
    num::NonZeroUsize,
};
use transect_model::{
    ids::{MachineId, Tid},
    table::{Machine, TableSink},
    time::{Source, Timestamp, Trace},
};

/// Stamps that are trace time already.
#[derive(Clone, Copy, Debug)]
struct TraceTime;

impl ToTrace for TraceTime {
    fn to_trace(&self, ts: Timestamp<Source>) -> Option<Timestamp<Trace>> {
        Some(Timestamp::new(ts.get().cast_signed()))
    }
}

fn stamp(t: i64) -> Timestamp<Source> {
    Timestamp::new(t.cast_unsigned())
}

/// An engine that takes events as they come.
#[derive(Debug)]
pub struct Feed {
    topology: Topology,
    options: Options,
    /// None before the first event.
    boundary: Option<Boundary>,
    streams: BTreeMap<StreamKey, VecDeque<StreamItem>>,
    /// Everything before this was taken.
    cut: i64,
    late: u64,
    unplaced: u64,
}

impl Feed {
    /// For these actors; others are added as events name them. Windows of `options` begin at multiples
    /// of their length.
    pub fn new(topology: Topology, options: Options) -> Self {
        Feed {
            topology,
            options,
            boundary: None,
            streams: BTreeMap::new(),
            cut: i64::MIN,
            late: 0,
            unplaced: 0,
        }
    }

    /// A CPU that is traced: only then its time is known, whatever it does.
    pub fn add_stream(&mut self, key: StreamKey) {
        if self.streams.contains_key(&key) {
            return;
        }
        self.streams.insert(key, VecDeque::new());
        if let Some(boundary) = &mut self.boundary {
            let at = boundary.streams.partition_point(|(known, _)| *known < key);
            boundary.streams.insert(at, (key, Default::default()));
            boundary.told.insert(at, Vec::new());
            boundary.state.world.has_stream(key.machine.0 as usize, key.cpu);
        }
    }

    /// Takes the next items of a stream, in their order. `clock` tells their trace time. Those it cannot
    /// place, or that are later than `now` (no event is from the future), become a hole.
    pub fn push(
        &mut self,
        key: StreamKey,
        items: impl IntoIterator<Item = StreamItem>,
        clock: &impl ToTrace,
        now: Timestamp<Trace>,
    ) {
        self.add_stream(key);
        let Some(waiting) = self.streams.get_mut(&key) else { return };
        for item in items {
            let (t, quiet) = match item {
                StreamItem::Event { ts, quiet, .. } | StreamItem::Other { ts, quiet, .. } => {
                    (clock.to_trace(ts).map(Timestamp::get), quiet)
                }
                StreamItem::Lost(lost) => {
                    add_lost(waiting, lost);
                    continue;
                }
            };
            let count = 1 + u64::from(quiet);
            let Some(t) = t.filter(|t| *t <= now.get()) else {
                self.unplaced += count;
                add_lost(waiting, LostEvents { count: Some(count), cause: LostCause::CorruptPage });
                continue;
            };
            if t < self.cut {
                self.late += count;
                add_lost(
                    waiting,
                    LostEvents { count: Some(count), cause: LostCause::BufferOverrun },
                );
                continue;
            }
            let mut placed = item;
            if let StreamItem::Event { ts, .. } | StreamItem::Other { ts, .. } = &mut placed {
                *ts = stamp(t);
            }
            waiting.push_back(placed);
        }
    }

    /// How many items wait, of all streams.
    pub fn waiting(&self) -> usize {
        self.streams.values().map(VecDeque::len).sum()
    }

    /// Handles everything before `cut`; rows that are complete go to the sink.
    ///
    /// # Errors
    /// The topology contradicts itself, or does not have a stream's machine.
    pub fn advance(
        &mut self,
        cut: Timestamp<Trace>,
        sink: &mut dyn TableSink,
    ) -> Result<(), EngineError> {
        let cut = cut.get();
        if cut <= self.cut {
            return Ok(());
        }
        let is_before = |item: &StreamItem| time(item).is_some_and(|t| t < cut);
        let has_begun = |items: &VecDeque<StreamItem>| items.iter().any(is_before);
        if self.boundary.is_none() && !self.streams.values().any(has_begun) {
            return Ok(());
        }
        let mut engine = Engine::new(self.topology.clone(), self.options)
            .with_aligned_windows()
            .with_threads(NonZeroUsize::MIN);
        if let Some(mut boundary) = self.boundary.take() {
            let from = boundary.cut;
            for (key, items) in &mut self.streams {
                if let Some(hole) = hole_before(items, from, cut) {
                    let world = &mut boundary.state.world;
                    world.lose_cpu(key.machine.0 as usize, key.cpu, hole, sink);
                }
            }
            engine = engine.resume(boundary);
        }
        let inputs = self.streams.iter_mut().map(|(key, items)| Input {
            key: *key,
            stream: taken(items, cut).into_iter(),
            clock: TraceTime,
        });
        let inputs: Vec<_> = inputs.collect();
        self.boundary = Some(engine.run_until(inputs, Timestamp::new(cut), sink)?);
        // What the run needs of them it has now; it may have found more machines.
        self.topology.threads = Vec::new();
        self.topology.vcpus = Vec::new();
        self.cut = cut;
        Ok(())
    }

    /// Emits what is open where [`Self::advance`] stopped, as if the run ended there: the windows
    /// that are not forgotten, states under way, who there is. The run goes on unchanged.
    pub fn peek(&self, sink: &mut dyn TableSink) {
        if let Some(boundary) = &self.boundary {
            boundary.state.world.peek(boundary.cut, sink);
        }
    }

    /// Forgets the windows before where [`Self::advance`] stopped, which has to be an edge of them.
    pub fn forget(&mut self) {
        if let Some(boundary) = &mut self.boundary {
            boundary.state.world.forget(boundary.cut);
            boundary.told.iter_mut().for_each(Vec::clear);
        }
    }

    /// The machines known by now.
    pub fn machines(&self) -> Vec<Machine> {
        match &self.boundary {
            Some(boundary) => {
                boundary.state.world.machines.iter().map(|machine| machine.info.row()).collect()
            }
            None => self.topology.machines.iter().map(MachineInfo::row).collect(),
        }
    }

    /// The machine `id` is called so.
    pub fn name_machine(&mut self, id: MachineId, name: &str) {
        let at = id.0 as usize;
        if let Some(info) = self.topology.machines.get_mut(at) {
            name.clone_into(&mut info.name);
        }
        let world = self.boundary.as_mut().map(|boundary| &mut boundary.state.world);
        if let Some(machine) = world.and_then(|world| world.machines.get_mut(at)) {
            name.clone_into(&mut machine.info.name);
        }
    }

    /// Adds a VM that was not there before, or the vCPUs of one that was (by its process). Its number.
    pub fn learn_vm(
        &mut self,
        info: &MachineInfo,
        vcpus: &[VcpuInfo],
        sink: &mut dyn TableSink,
    ) -> Option<MachineId> {
        let same = |known: &MachineInfo| {
            known.vmm_pid.is_some() && known.vmm_pid == info.vmm_pid && known.parent == info.parent
        };
        let Some(boundary) = &mut self.boundary else {
            let machines = &mut self.topology.machines;
            let known = machines.iter().position(same);
            let at = known.unwrap_or(machines.len());
            let id = MachineId(u32::try_from(at).ok()?);
            if known.is_none() {
                machines.push(MachineInfo { id, ..info.clone() });
            }
            self.topology.vcpus.retain(|vcpu| vcpu.machine != id);
            self.topology.vcpus.extend(vcpus.iter().map(|v| VcpuInfo { machine: id, ..*v }));
            return Some(id);
        };
        let world = &mut boundary.state.world;
        match world.machines.iter().find(|machine| same(&machine.info)).map(|m| m.id) {
            Some(id) => {
                world.learn_vcpus(id, vcpus, sink);
                Some(id)
            }
            None => world.learn_machine(info.clone(), vcpus, sink),
        }
    }

    /// Takes what is known from outside of a thread.
    pub fn learn_thread(&mut self, thread: ThreadInfo) {
        match &mut self.boundary {
            Some(boundary) => boundary.state.world.learn_thread(&thread),
            None => {
                let same =
                    |known: &ThreadInfo| known.tid == thread.tid && known.machine == thread.machine;
                match self.topology.threads.iter_mut().find(|known| same(known)) {
                    Some(known) => *known = thread,
                    None => self.topology.threads.push(thread),
                }
            }
        }
    }

    /// Is this thread of the machine known, with its process?
    pub fn knows(&self, machine: MachineId, tid: Tid) -> bool {
        let world = self.boundary.as_ref().map(|boundary| &boundary.state.world);
        let threads =
            world.and_then(|world| Some(&world.machines.get(machine.0 as usize)?.threads));
        let slot = threads.and_then(|threads| Some(threads.get(threads.find(tid)?)));
        slot.is_some_and(|thread| thread.pid.is_some())
    }

    /// vCPUs and control groups that there have been.
    pub fn actors(&self) -> usize {
        self.boundary.as_ref().map_or(0, |boundary| boundary.state.world.windows.actors())
    }

    /// Events that were lost before they came here, as far as they were counted, and those that came too
    /// late or with stamps that cannot be.
    pub fn lost_events(&self) -> u64 {
        let notes = self.boundary.as_ref().map(|boundary| &boundary.state.world.notes);
        notes.map_or(0, |notes| notes.lost_events)
    }

    /// Those of [`Self::lost_events`] that came after their time was over.
    pub fn late_events(&self) -> u64 {
        self.late
    }

    /// Those of them whose stamps cannot be.
    pub fn unplaced_events(&self) -> u64 {
        self.unplaced
    }
}

fn time(item: &StreamItem) -> Option<i64> {
    match item {
        StreamItem::Event { ts, .. } | StreamItem::Other { ts, .. } => Some(ts.get().cast_signed()),
        StreamItem::Lost(_) => None,
    }
}

/// Adds a hole; one beside another is the same.
fn add_lost(waiting: &mut VecDeque<StreamItem>, lost: LostEvents) {
    if let Some(StreamItem::Lost(before)) = waiting.back_mut() {
        before.count = match (before.count, lost.count) {
            (Some(a), Some(b)) => a.checked_add(b),
            _ => None,
        };
        return;
    }
    waiting.push_back(StreamItem::Lost(lost));
}

/// A hole that a stream goes on with begins before `from`, in a time that is over: it is told from there on.
fn hole_before(items: &mut VecDeque<StreamItem>, from: i64, cut: i64) -> Option<Hole> {
    let &StreamItem::Lost(LostEvents { count, cause }) = items.front()? else { return None };
    items.pop_front();
    let next = items.front().and_then(time).unwrap_or(cut);
    Some(Hole { from, until: Some(next.max(from)), count, cause })
}

/// Takes a stream's items before `cut`, and puts one at it that shows the engine that it is reached.
fn taken(items: &mut VecDeque<StreamItem>, cut: i64) -> Vec<StreamItem> {
    let is_later = |item: &StreamItem| time(item).is_some_and(|t| t >= cut);
    let count = items.iter().position(is_later).unwrap_or(items.len());
    let mut taken: Vec<StreamItem> = items.drain(..count).collect();
    // A hole reaches to the event behind it.
    let ends_in_hole = matches!(taken.last(), Some(StreamItem::Lost(_)));
    let next = items.front().and_then(time).filter(|_| ends_in_hole).unwrap_or(cut);
    taken.push(StreamItem::Other { ts: stamp(next), tid: Tid::IDLE, quiet: 0 });
    taken
}
