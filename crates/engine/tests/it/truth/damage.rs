//! The damage that a recording can have: lost events, early ends, filters, missing event types.

use super::{
    filtered::{EventChoice, apply_choice, apply_min_exit, apply_thread_filter},
    system::{Recording, Streams},
};
use proptest::prelude::*;
use transect_engine::{Engine, Filter, LostCause, LostEvents, StreamItem, StreamKey};
use transect_model::{
    ids::MachineId,
    time::{Span, Timestamp},
};

/// One kind of damage. Fractions are of 256.
#[derive(Clone, Debug)]
pub enum Damage {
    /// Ring buffers overwrote their oldest events: a fraction for each stream, in turn.
    Overwrite { host: bool, guests: bool, counted: bool, fractions: Vec<u8> },
    /// A stretch of one stream is lost.
    Hole { stream: u8, from: u8, length: u8, counted: bool },
    /// The file of one stream ends early.
    Tail { stream: u8, at: u8 },
    /// The recording ends at this fraction of its time.
    Cut { at: u8 },
    /// The recorder was killed: every stream ends at a place of its own, a fraction for each, in turn.
    Killed { fractions: Vec<u8> },
    /// The span is chosen: fractions of the recording's time, from a quarter before its start to a
    /// quarter behind its end.
    Window { from: u8, to: u8 },
    /// Only these threads of a machine are recorded: indexes into its initial threads.
    Threads { machine: u8, tids: Vec<u8>, pids: Vec<u8>, cgroup: bool },
    /// Short VM exits are dropped.
    MinExit { ns: u8 },
    /// Events of some types are not recorded.
    Events { choice: EventChoice, host: bool, guests: bool },
}

pub fn damage() -> BoxedStrategy<Damage> {
    let scope = || prop::sample::select(vec![(true, false), (false, true), (true, true)]);
    let overwrite = (scope(), any::<bool>(), prop::collection::vec(any::<u8>(), 1..6)).prop_map(
        |((host, guests), counted, fractions)| Damage::Overwrite {
            host,
            guests,
            counted,
            fractions,
        },
    );
    let hole = (any::<u8>(), any::<u8>(), any::<u8>(), any::<bool>())
        .prop_map(|(stream, from, length, counted)| Damage::Hole { stream, from, length, counted });
    let indexes = || prop::collection::vec(0..6u8, 0..2);
    let threads = (0..3u8, indexes(), indexes(), any::<bool>())
        .prop_map(|(machine, tids, pids, cgroup)| Damage::Threads { machine, tids, pids, cgroup });
    let events = (prop::sample::select(EventChoice::ALL.to_vec()), scope())
        .prop_map(|(choice, (host, guests))| Damage::Events { choice, host, guests });
    prop_oneof![
        3 => overwrite,
        3 => hole,
        2 => (any::<u8>(), any::<u8>()).prop_map(|(stream, at)| Damage::Tail { stream, at }),
        2 => any::<u8>().prop_map(|at| Damage::Cut { at }),
        2 => prop::collection::vec(any::<u8>(), 1..6).prop_map(|fractions| Damage::Killed { fractions }),
        2 => (any::<u8>(), any::<u8>()).prop_map(|(from, to)| Damage::Window { from, to }),
        3 => threads,
        1 => any::<u8>().prop_map(|ns| Damage::MinExit { ns }),
        3 => events,
    ]
    .boxed()
}

/// A damaged recording, and the facts about the damage that the engine gets.
#[derive(Clone, Debug, Default)]
pub struct Damaged {
    pub streams: Streams,
    pub window: Option<Span>,
    pub filters: Vec<(MachineId, Filter)>,
    /// The recording ended here.
    pub ended: Option<i64>,
}

impl Damaged {
    pub fn configure(&self, mut engine: Engine) -> Engine {
        if let Some(window) = self.window {
            engine = engine.with_window(window);
        }
        for (machine, filter) in &self.filters {
            engine = engine.with_filter(*machine, filter.clone());
        }
        engine
    }

    pub fn has_event_of_host(&self) -> bool {
        let mut of_host = self.streams.iter().filter(|(key, _)| key.machine == MachineId(0));
        of_host.any(|(_, items)| items.iter().any(|item| item_time(item).is_some()))
    }

    fn filter(&mut self, machine: MachineId) -> &mut Filter {
        let at = self.filters.iter().position(|(id, _)| *id == machine);
        let at = at.unwrap_or_else(|| {
            self.filters.push((machine, Filter::default()));
            self.filters.len() - 1
        });
        &mut self.filters[at].1
    }
}

impl Damage {
    pub fn name(&self) -> String {
        match self {
            Damage::Overwrite { .. } => "overwrite".into(),
            Damage::Hole { .. } => "hole".into(),
            Damage::Tail { .. } => "tail".into(),
            Damage::Cut { .. } => "cut".into(),
            Damage::Killed { .. } => "killed".into(),
            Damage::Window { .. } => "window".into(),
            Damage::Threads { .. } => "thread filter".into(),
            Damage::MinExit { .. } => "min_exit".into(),
            Damage::Events { choice, .. } => choice.name().into(),
        }
    }

    /// Filters act before the buffers, buffers before the choice of a span.
    fn stage(&self) -> u8 {
        match self {
            Damage::Events { .. } | Damage::Threads { .. } => 0,
            Damage::MinExit { .. } => 1,
            Damage::Cut { .. } => 2,
            Damage::Hole { .. } => 3,
            Damage::Tail { .. } | Damage::Killed { .. } => 4,
            Damage::Overwrite { .. } => 5,
            Damage::Window { .. } => 6,
        }
    }
}

/// Applies the damages in the order in which a real recording would have them.
pub fn apply(recording: &Recording, damages: &[Damage]) -> Damaged {
    let mut damaged = Damaged { streams: recording.streams(), ..Damaged::default() };
    let mut damages: Vec<&Damage> = damages.iter().collect();
    damages.sort_by_key(|damage| damage.stage());
    for damage in damages {
        apply_one(recording, damage, &mut damaged);
    }
    // A window ends with the recording at the latest.
    if let (Some(window), Some(ended)) = (&mut damaged.window, damaged.ended) {
        window.end = window.end.min(Timestamp::new(ended));
        window.start = window.start.min(Timestamp::new(ended - 1));
    }
    damaged
}

fn apply_one(recording: &Recording, damage: &Damage, damaged: &mut Damaged) {
    let (first, last) = range(recording);
    match damage {
        Damage::Overwrite { host, guests, counted, fractions } => {
            overwrite(&mut damaged.streams, [*host, *guests], *counted, fractions);
        }
        Damage::Hole { stream, from, length, counted } => {
            let Some(items) = nth_stream(&mut damaged.streams, *stream) else { return };
            let from = part(items.len(), *from);
            let to = from + part(items.len() - from, *length);
            replace(items, from, to, *counted, LostCause::BufferOverrun);
        }
        Damage::Tail { stream, at } => {
            let Some(items) = nth_stream(&mut damaged.streams, *stream) else { return };
            let (from, to) = (part(items.len(), *at), items.len());
            replace(items, from, to, false, LostCause::TruncatedFile);
        }
        Damage::Cut { at } => {
            let end = first + (last - first) * i64::from(*at) / 255;
            for items in damaged.streams.values_mut() {
                items.retain(|item| item_time(item).is_none_or(|t| t <= end));
            }
            damaged.ended = Some(damaged.ended.map_or(end, |before| before.min(end)));
        }
        Damage::Killed { fractions } => {
            for (items, fraction) in damaged.streams.values_mut().zip(fractions.iter().cycle()) {
                items.truncate(part(items.len() + 1, *fraction));
                // As the loader does: what follows is missing, however little it is.
                let cause = LostCause::NotWritten;
                items.push(StreamItem::Lost(LostEvents { count: None, cause }));
            }
        }
        Damage::Window { .. } if last <= first => {}
        Damage::Window { from, to } => {
            // The whole recording says nothing about the time before its first event and after its last.
            let place = |at: u8| {
                let place = (i64::from(at) * 3 / 2 - 64).clamp(0, 255);
                first + (last - first) * place / 255
            };
            let (from, to) = (place(*from.min(to)), place(*from.max(to)));
            let from = from.min(last - 1);
            let (start, end) = (Timestamp::new(from), Timestamp::new(to.max(from + 1)));
            damaged.window = Some(Span { start, end });
        }
        Damage::Threads { machine, tids, pids, cgroup } => {
            let machines = recording.topology.machines.len() as u8;
            let machine = MachineId(u32::from(machine % machines));
            // A recorder has one filter.
            if damaged.filter(machine).threads.is_some() {
                return;
            }
            let filter = apply_thread_filter(recording, machine, tids, pids, *cgroup, damaged);
            damaged.filter(machine).threads = filter;
        }
        Damage::MinExit { ns } => {
            apply_min_exit(&mut damaged.streams, i64::from(*ns));
            let filter = damaged.filter(MachineId(0));
            filter.min_exit_ns = filter.min_exit_ns.max(u64::from(*ns));
        }
        Damage::Events { choice, host, guests } => {
            apply_choice(&mut damaged.streams, *choice, [*host, *guests]);
        }
    }
}

/// The times of the first and the last event.
pub fn range(recording: &Recording) -> (i64, i64) {
    let mut of_host = recording.events.iter().filter(|event| event.key.machine == MachineId(0));
    let first = of_host.next().map_or(0, |event| event.ts);
    (first, of_host.next_back().map_or(first, |event| event.ts))
}

pub fn item_time(item: &StreamItem) -> Option<i64> {
    match item {
        StreamItem::Event { ts, .. } | StreamItem::Other { ts, .. } => Some(ts.get() as i64),
        StreamItem::Lost(_) => None,
    }
}

fn part(length: usize, fraction: u8) -> usize {
    length * usize::from(fraction) / 256
}

fn nth_stream(streams: &mut Streams, at: u8) -> Option<&mut Vec<StreamItem>> {
    let count = streams.len().max(1);
    streams.values_mut().nth(usize::from(at) % count)
}

/// Is the stream one of the chosen machines?
pub fn is_chosen(key: &StreamKey, [host, guests]: [bool; 2]) -> bool {
    if key.machine == MachineId(0) { host } else { guests }
}

/// Replaces items by the note that they are lost.
fn replace(items: &mut Vec<StreamItem>, from: usize, to: usize, counted: bool, cause: LostCause) {
    if from >= to {
        return;
    }
    let count = counted.then_some((to - from) as u64);
    let lost = StreamItem::Lost(LostEvents { count, cause });
    items.splice(from..to, [lost]);
}

fn overwrite(streams: &mut Streams, scope: [bool; 2], counted: bool, fractions: &[u8]) {
    let chosen = streams.iter_mut().filter(|(key, _)| is_chosen(key, scope));
    for ((_, items), fraction) in chosen.zip(fractions.iter().cycle()) {
        let to = part(items.len(), *fraction);
        replace(items, 0, to, counted, LostCause::BufferOverrun);
    }
}
