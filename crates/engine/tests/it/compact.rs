//! Both collectors, same tables: events through a ring buffer's streams and the same events through
//! compact logs must give the same rows, in the same order.
//!
//! Compact carries no events that move no state machine, no names in events and no `sched_wakeup`.
//! So the streams it is compared with have none of the first; that the others are not missed is
//! what is tested here.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::cast_possible_truncation,
    reason = "a failed expectation is the report; small numbers"
)]

use crate::dsl::{
    Nanoseconds, Story, block_io, counters, net_io,
    random::{Streams, key, streams, topology},
};
use proptest::prelude::*;
use std::{
    collections::{BTreeMap, HashMap},
    path::PathBuf,
};
use transect_clock::{ClockGraph, ClockOptions, Converter, Evidence};
use transect_compact::{
    BlockWriter, Compact, FileHeader, LogId, LogTotals, LogWriter, Names, Totals,
};
use transect_engine::{
    Engine, EventStream, Input, LostCause, LostEvents, Options, StreamItem, StreamKey, Summary,
    ToTrace, Topology, compact::CompactSource, dat, topology::ThreadInfo,
};
use transect_model::{
    event::{Comm, CoreEvent},
    exit::Isa,
    ids::{CpuId, MachineId, Tid},
    table::Tables,
    time::{Source, Timestamp},
};
use transect_tracedat::TraceDat;

/// One stream, all of it.
type Items = Vec<StreamItem>;

/// The file a collector would have left of one machine's streams.
fn file_of<'a>(streams: impl IntoIterator<Item = (CpuId, &'a Items)>) -> Vec<u8> {
    let streams: Vec<_> = streams.into_iter().collect();
    let mut file = BlockWriter::new(Vec::new(), &FileHeader::new(8, Isa::Svm, "")).unwrap();
    let mut names = Names::default();
    let mut named: Vec<_> = streams.iter().flat_map(|(_, items)| items.iter()).collect();
    named.sort_by_key(|item| stamp(item));
    for item in named {
        if let StreamItem::Event { event, .. } = item {
            names.learn(event);
        }
    }
    file.names(&names).unwrap();
    let mut totals = Totals::default();
    for (cpu, items) in streams {
        let lost = write_log(cpu, items, &mut file);
        totals.logs.push(LogTotals { cpu: cpu.0, lost, ..LogTotals::default() });
    }
    file.finish(&totals).unwrap()
}

fn stamp(item: &StreamItem) -> Option<Timestamp<Source>> {
    match item {
        StreamItem::Event { ts, .. } | StreamItem::Other { ts, .. } => Some(*ts),
        StreamItem::Lost(_) => None,
    }
}

fn write_log(cpu: CpuId, items: &Items, file: &mut BlockWriter<Vec<u8>>) -> u64 {
    let mut log = LogWriter::new(LogId { cpu, side: 0 });
    let (mut last, mut lost) = (0, 0);
    for item in items {
        match item {
            StreamItem::Event { ts, tid, event, .. } => {
                last = ts.get();
                log.event(last, *tid, event, file).unwrap();
            }
            StreamItem::Other { .. } => panic!("compact has no record for it"),
            StreamItem::Lost(hole) => {
                let count = hole.count.unwrap();
                lost += count;
                // What waits to be folded was there before.
                log.finish(file).unwrap();
                log.lost(count, last, last);
            }
        }
    }
    log.finish(file).unwrap();
    lost
}

/// Streams as compact's collector would have them: see the top of this file. Not all recordings
/// have `task_rename`: where an event shows a name that nothing has told, one is put in.
fn as_collected(streams: &BTreeMap<StreamKey, Items>) -> BTreeMap<StreamKey, Items> {
    let renames = untold_names(streams);
    let is_wakeup = |item: &StreamItem| {
        matches!(item, StreamItem::Event { event: CoreEvent::SchedWakeup { .. }, .. })
    };
    let is_other = |item: &StreamItem| matches!(item, StreamItem::Other { .. });
    let stream = |(key, items): (&StreamKey, &Items)| {
        let items = items.iter().enumerate().flat_map(|(at, item)| {
            let kept = Some(*item).filter(|item| !is_wakeup(item) && !is_other(item));
            kept.into_iter().chain(renames.get(&(*key, at)).into_iter().flatten().copied())
        });
        (*key, items.collect())
    };
    streams.iter().map(stream).collect()
}

/// Events in order of time: stream, place in it, stamp, current thread, event.
fn in_order(
    streams: &BTreeMap<StreamKey, Items>,
) -> impl Iterator<Item = (StreamKey, usize, Timestamp<Source>, Tid, CoreEvent)> {
    let mut all = Vec::new();
    for (key, items) in streams {
        for (at, item) in items.iter().enumerate() {
            if let StreamItem::Event { ts, tid, event, .. } = *item {
                all.push((*key, at, ts, tid, event));
            }
        }
    }
    all.sort_by_key(|(key, at, ts, ..)| (*ts, *key, *at));
    all.into_iter()
}

/// Renames to be put in behind an item, for names that events show and no event before has told.
fn untold_names(
    streams: &BTreeMap<StreamKey, Items>,
) -> HashMap<(StreamKey, usize), Vec<StreamItem>> {
    let mut known: HashMap<(MachineId, Tid), Comm> = HashMap::new();
    let mut renames: HashMap<_, Vec<StreamItem>> = HashMap::new();
    for (key, at, ts, tid, event) in in_order(streams) {
        let m = key.machine;
        let shown = match event {
            CoreEvent::SchedSwitch { prev, prev_comm, next, next_comm, .. } => {
                vec![(prev, prev_comm), (next, next_comm)]
            }
            CoreEvent::SchedWaking { tid, comm, .. }
            | CoreEvent::SchedWakeup { tid, comm, .. }
            | CoreEvent::SchedWakeupNew { tid, comm, .. } => vec![(tid, comm)],
            CoreEvent::SchedFork { parent, child, child_comm, .. } => {
                let inherited = known.get(&(m, parent)).copied().unwrap_or_default();
                known.insert((m, child), inherited);
                vec![(child, child_comm)]
            }
            CoreEvent::TaskRename { tid, new_comm } => {
                known.insert((m, tid), new_comm);
                vec![]
            }
            _ => vec![],
        };
        // Behind a switch the next thread is current.
        let tid = if let CoreEvent::SchedSwitch { next, .. } = event { next } else { tid };
        for (renamed, new_comm) in shown {
            let is_news = known.insert((m, renamed), new_comm) != Some(new_comm);
            if is_news && !renamed.is_idle() {
                let event = CoreEvent::TaskRename { tid: renamed, new_comm };
                let rename = StreamItem::Event { ts, tid, quiet: 0, event };
                renames.entry((key, at)).or_default().push(rename);
            }
        }
    }
    renames
}

/// Runs the engine over compact files of these streams.
fn run_compact<C: ToTrace + Send>(
    streams: &BTreeMap<StreamKey, Items>,
    mut topology: Topology,
    clock: impl Fn(StreamKey) -> C,
) -> (Tables, Summary) {
    let machines: BTreeMap<MachineId, Vec<u8>> = topology
        .machines
        .iter()
        .map(|machine| {
            let mine = streams.iter().filter(|(key, _)| key.machine == machine.id);
            (machine.id, file_of(mine.map(|(key, items)| (key.cpu, items))))
        })
        .collect();
    let files: Vec<_> =
        machines.iter().map(|(id, bytes)| (*id, Compact::parse(bytes).unwrap())).collect();
    let sources: Vec<_> =
        files.iter().map(|(id, file)| CompactSource::new(file, *id, "test.compact")).collect();
    let mut inputs = Vec::new();
    for ((id, _), source) in files.iter().zip(&sources) {
        let clocks = mono(*id);
        assert_eq!(source.remarks(&clocks), []);
        add_threads(&mut topology, source.threads());
        for Input { key, stream, .. } in source.inputs(&clocks).unwrap() {
            inputs.push(Input { key, stream, clock: clock(key) });
        }
    }
    let mut tables = Tables::default();
    let summary = Engine::new(topology, Options::default()).run(inputs, &mut tables).unwrap();
    (tables, summary)
}

/// A clock graph in which this machine's clock is compact's.
fn mono(machine: MachineId) -> ClockGraph {
    let clock = "mono".to_owned();
    let evidence = [Evidence::Reference { machine, clock }];
    ClockGraph::from_evidence(&evidence, ClockOptions::default()).unwrap()
}

/// Names of the file for threads the topology does not know better.
fn add_threads(topology: &mut Topology, threads: impl Iterator<Item = ThreadInfo>) {
    for thread in threads {
        let known =
            topology.threads.iter().any(|t| (t.machine, t.tid) == (thread.machine, thread.tid));
        if !known {
            topology.threads.push(thread);
        }
    }
}

fn run_streams<C: ToTrace + Send>(
    streams: &BTreeMap<StreamKey, Items>,
    topology: Topology,
    clock: impl Fn(StreamKey) -> C,
) -> (Tables, Summary) {
    let input = |(key, items): (&StreamKey, &Items)| Input {
        key: *key,
        stream: items.clone().into_iter(),
        clock: clock(*key),
    };
    let inputs = streams.iter().map(input).collect();
    let mut tables = Tables::default();
    let summary = Engine::new(topology, Options::default()).run(inputs, &mut tables).unwrap();
    (tables, summary)
}

/// Table by table, so that a difference can be read.
fn assert_same(ftrace: (Tables, Summary), compact: (Tables, Summary)) {
    let ((a, a_summary), (b, b_summary)) = (ftrace, compact);
    macro_rules! same {
        ($($table:ident)*) => { $(
            let pairs = a.$table.iter().zip(&b.$table);
            if let Some((at, (a, b))) = pairs.enumerate().find(|(_, (a, b))| a != b) {
                panic!("{} row {at}:\n ftrace  {a:?}\n compact {b:?}", stringify!($table));
            }
            assert_eq!(a.$table.len(), b.$table.len(), "rows of {}", stringify!($table));
        )* };
    }
    same! {
        machines cpus vcpus threads cgroups cpu_slices vcpu_states thread_states exits wakeups irqs
        syscalls block_io net_io work_items counters windows lost import_log
    }
    // Fewer events are tested, with the same result.
    let outside = |tables: &Tables| -> Vec<u64> {
        tables.clock_check.iter().map(|row| row.outside).collect()
    };
    assert_eq!(outside(&a), outside(&b));
    assert_eq!(a_summary.span, b_summary.span);
    assert_eq!(a_summary.contradictions, b_summary.contradictions);
    assert_eq!(a_summary.lost_events, b_summary.lost_events);
}

fn without_others(streams: &BTreeMap<StreamKey, Items>) -> BTreeMap<StreamKey, Items> {
    let is_other = |item: &StreamItem| matches!(item, StreamItem::Other { .. });
    let stream = |(key, items): (&StreamKey, &Items)| {
        (*key, items.iter().filter(|item| !is_other(item)).copied().collect())
    };
    streams.iter().map(stream).collect()
}

/// A recording of trace-cmd's as streams of items, with what belongs to them.
struct Recorded {
    streams: BTreeMap<StreamKey, Items>,
    topology: Topology,
    clocks: ClockGraph,
}

impl Recorded {
    fn read(names: &[&str]) -> Self {
        let folder =
            PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../testdata/succeed/tracedat");
        let bytes: Vec<_> =
            names.iter().map(|name| std::fs::read(folder.join(name)).unwrap()).collect();
        let traces: Vec<_> = bytes.iter().map(|b| TraceDat::parse(b).unwrap()).collect();
        let files: Vec<_> = names.iter().copied().zip(&traces).collect();
        let pairing = dat::pair(&files).unwrap();
        let clocks = ClockGraph::from_evidence(&pairing.evidence, ClockOptions::default()).unwrap();
        let mut streams: BTreeMap<StreamKey, Items> = BTreeMap::new();
        for ((name, trace), machine) in files.iter().zip(&pairing.machine_of_file) {
            let source = dat::DatSource::new(trace, *machine, *name);
            for Input { key, mut stream, .. } in source.inputs(&clocks).unwrap() {
                let items = streams.entry(key).or_default();
                items.extend(std::iter::from_fn(|| stream.next_item()));
            }
        }
        let mut recorded = Recorded { streams, topology: pairing.topology, clocks };
        recorded.cut_to_common_end();
        recorded
    }

    /// The corpus is cut page by page: beyond the first CPU's end, wakings whose `sched_wakeup` is
    /// there are missing.
    fn cut_to_common_end(&mut self) {
        let clocks = &self.clocks;
        let trace = |key: &StreamKey, item: &StreamItem| {
            let clock = clocks.converter(key.machine, key.cpu).unwrap();
            stamp(item).and_then(|ts| clock.to_trace(ts))
        };
        let last =
            |(key, items): (&StreamKey, &Items)| items.iter().rev().find_map(|i| trace(key, i));
        let end = self.streams.iter().filter_map(last).min().unwrap();
        for (key, items) in &mut self.streams {
            items.retain(|item| trace(key, item).is_none_or(|t| t <= end));
        }
    }

    fn clock(&self, key: StreamKey) -> Converter {
        self.clocks.converter(key.machine, key.cpu).unwrap()
    }

    fn assert_same(&self) -> (Tables, Summary) {
        let ftrace = without_others(&self.streams);
        let ftrace = run_streams(&ftrace, self.topology.clone(), |key| self.clock(key));
        let compact = as_collected(&self.streams);
        let compact = run_compact(&compact, self.topology.clone(), |key| self.clock(key));
        assert_same(ftrace.clone(), compact);
        ftrace
    }
}

/// A host with kvm events and its guest, as trace-cmd recorded them.
#[test]
fn a_real_pair_gives_the_same_tables() {
    let (tables, _) = Recorded::read(&["pair-host.dat", "pair-guest.dat"]).assert_same();
    let (exits, wakeups, requests) = (&tables.exits, &tables.wakeups, &tables.block_io);
    let counts = (exits.len(), wakeups.len(), requests.len());
    assert!(counts.0 > 100 && counts.1 > 100 && counts.2 > 5, "{counts:?}");
    assert!(tables.threads.iter().filter(|t| !t.name.is_empty()).count() > 10);
}

#[test]
fn real_recordings_give_the_same_tables() {
    for name in ["v7-zstd.dat", "v7-none.dat", "hypercalls.dat", "v6.dat", "v7-all.dat"] {
        let (_, summary) = Recorded::read(&[name]).assert_same();
        assert!(summary.events > 100, "{name}");
    }
}

/// Requests, packets, work items, names of devices, a hole.
#[test]
fn a_story_gives_the_same_tables() {
    let mut story = Story::parse(
        "vm web vcpu=0 tid=162
         host 0 1000 162 kvm_entry vcpu=0
         host 0 1100 162 kvm_exit hlt vcpu=0
         host 0 1110 162 kvm_halt_poll_ns new=50
         host 0 1150 162 sched_switch 162 S 9
         host 0 1160 9 work_start 7 70
         host 0 1170 9 block_insert R 2048+8
         host 0 1180 9 block_issue R 2048+8
         host 0 1190 9 net_xmit eth0 1514
         host 0 1195 9 work_end 7 70
         host 0 1200 9 irq_entry 33
         host 0 1210 9 block_complete R 2048+8 error=-5
         host 0 1220 9 sched_waking 162 cpu=0
         host 0 1230 9 irq_exit 33
         host 0 1240 9 sched_switch 9 S 162
         host 0 90001300 162 block_insert R 4096+8
         host 0 90001310 162 block_issue R 4096+8
         host 0 90001330 162 block_complete R 4096+8 error=-5
         host 1 1000 7 sys_enter 39
         host 1 1100 7 sys_exit 39 7
         host 1 1110 7 net_receive enp0s31f6 60
         host 1 lost count=3
         host 1 90001200 7 sched_process_fork 7 8
         host 1 90001210 7 sched_wakeup_new 8 cpu=1
         host 1 90001220 7 sched_switch 7 R 8",
    );
    let topology = story.topology.clone();
    let streams = std::mem::take(&mut story.streams);
    let ftrace = run_streams(&streams, topology.clone(), |_| Nanoseconds);
    let compact = run_compact(&streams, topology, |_| Nanoseconds);
    // CPU 1's events are missing meanwhile: the first request may have ended there, and been issued again.
    let second = "90001300+30 read 254:0 4096 4096 by 162 issue=10 error=-5 on c0";
    assert_eq!(block_io(&compact.0), [second]);
    assert_eq!(
        net_io(&compact.0),
        ["1190 xmit eth0 1514 by 9 on c0 code=0", "1110 receive enp0s31f6 60 by 7 on c1"]
            .map(String::from)
            .into_iter()
            .rev()
            .collect::<Vec<_>>()
    );
    assert!(counters(&compact.0).contains(&"1110 halt_poll_ns 1/0 50".to_owned()));
    assert_same(ftrace, compact);
}

/// What the generator makes that no kernel does, or that compact does not carry: switches in
/// another's name, other events, wakeups, holes of nothing.
fn plausible(streams: &Streams) -> BTreeMap<StreamKey, Items> {
    let item = |item: &StreamItem| match *item {
        StreamItem::Event { ts, event, .. } if matches!(event, CoreEvent::SchedSwitch { .. }) => {
            let CoreEvent::SchedSwitch { prev, .. } = event else { return None };
            Some(StreamItem::Event { ts, tid: prev, quiet: 0, event })
        }
        StreamItem::Event { event: CoreEvent::SchedWakeup { .. }, .. }
        | StreamItem::Other { .. } => None,
        StreamItem::Lost(lost) => {
            let count = lost.count.map(|count| count + 1);
            Some(StreamItem::Lost(LostEvents { count, cause: LostCause::BufferOverrun }))
        }
        event => Some(event),
    };
    let stream = |(at, items): (usize, &Items)| (key(at), items.iter().filter_map(item).collect());
    streams
        .iter()
        .enumerate()
        .map(stream)
        .filter(|(_, items): &(_, Items)| items.iter().any(|i| stamp(i).is_some()))
        .collect()
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_streams_give_the_same_tables(streams in streams(true, false), known: bool) {
        let streams = plausible(&streams);
        let ftrace = run_streams(&streams, topology(known), |_| Nanoseconds);
        let compact = run_compact(&streams, topology(known), |_| Nanoseconds);
        assert_same(ftrace, compact);
    }
}
