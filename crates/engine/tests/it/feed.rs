//! Recordings taken as they come: each window's rows are those of a recording that ends with it, to the
//! nanosecond and in all columns, however the stream is cut into pieces; and those of the whole
//! recording, but for what only later events tell.

#![allow(
    clippy::unwrap_used,
    clippy::cast_possible_truncation,
    clippy::cast_possible_wrap,
    clippy::cast_sign_loss,
    clippy::print_stdout,
    reason = "a failed expectation is the report"
)]

use proptest::prelude::*;
use std::{collections::BTreeMap, path::PathBuf};
use transect_clock::{ClockGraph, ClockOptions, Evidence};
use transect_engine::{
    Engine, EventStream, Feed, Input, Options, StreamItem, StreamKey, ToTrace, Topology,
    dat::{DatSource, pair},
    topology::MachineInfo,
    xen::{CLOCK, XenSource},
    xen_chunks::XenChunks,
};
use transect_model::{
    exit::Isa,
    ids::{CpuId, MachineId, MachineKind, Tid},
    table::{Selected, TableSink, Tables, Window},
    time::{Source, Timestamp, Trace},
};
use transect_tracedat::TraceDat;
use transect_xentrace::{XenTrace, XenVersion};

const XEN: MachineId = MachineId(0);

#[derive(Clone, Copy)]
struct Nanoseconds;

impl ToTrace for Nanoseconds {
    fn to_trace(&self, ts: Timestamp<Source>) -> Option<Timestamp<Trace>> {
        i64::try_from(ts.get()).ok().map(Timestamp::new)
    }
}

/// A recording's items, stamped with trace time.
struct Recording {
    topology: Topology,
    streams: Vec<(StreamKey, Vec<StreamItem>)>,
}

fn time(item: &StreamItem) -> Option<i64> {
    match item {
        StreamItem::Event { ts, .. } | StreamItem::Other { ts, .. } => Some(ts.get() as i64),
        StreamItem::Lost(_) => None,
    }
}

fn on_trace_time(mut item: StreamItem, clock: &impl ToTrace) -> StreamItem {
    if let StreamItem::Event { ts, .. } | StreamItem::Other { ts, .. } = &mut item {
        *ts = Timestamp::new(clock.to_trace(*ts).unwrap().get() as u64);
    }
    item
}

fn testdata(name: &str) -> Vec<u8> {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../testdata/succeed");
    std::fs::read(folder.join(name)).unwrap()
}

fn tsc(hz: u64) -> ClockGraph {
    let reference = Evidence::Reference { machine: XEN, clock: CLOCK.into() };
    let options = ClockOptions { tsc_hz: Some(hz), ..ClockOptions::default() };
    ClockGraph::from_evidence(&[reference], options).unwrap()
}

fn hypervisor() -> Topology {
    Topology { machines: vec![MachineInfo::hypervisor(XEN, "xen")], ..Topology::default() }
}

fn xen(name: &str, hz: u64) -> Recording {
    let bytes = testdata(name);
    let trace = XenTrace::parse(&bytes, XenVersion::Minor(17)).unwrap();
    let clocks = tsc(hz);
    let source = XenSource::new(&trace, XEN, name);
    let streams = source.inputs(&clocks).unwrap().into_iter().map(|mut input| {
        let items = std::iter::from_fn(|| input.stream.next_item());
        (input.key, items.map(|item| on_trace_time(item, &input.clock)).collect())
    });
    Recording { topology: hypervisor(), streams: streams.collect() }
}

fn dat(name: &str) -> Recording {
    let bytes = testdata(&format!("tracedat/{name}"));
    let trace = TraceDat::parse(&bytes).unwrap();
    let mut pairing = pair(&[(name, &trace)]).unwrap();
    for thread in &mut pairing.topology.threads {
        thread.cgroup = Some(if thread.tid.0 % 2 == 0 { "/even" } else { "/odd" }.to_owned());
    }
    let clocks = ClockGraph::from_evidence(&pairing.evidence, ClockOptions::default()).unwrap();
    let source = DatSource::new(&trace, MachineId(0), name);
    let mut streams: BTreeMap<StreamKey, Vec<StreamItem>> = BTreeMap::new();
    for mut input in source.inputs(&clocks).unwrap() {
        let items = std::iter::from_fn(|| input.stream.next_item());
        let items = items.map(|item| on_trace_time(item, &input.clock));
        streams.entry(input.key).or_default().extend(items);
    }
    Recording { topology: pairing.topology, streams: streams.into_iter().collect() }
}

fn sorted(mut rows: Vec<Window>) -> Vec<Window> {
    rows.sort_by_key(|w| (w.ts, w.machine_id, w.vcpu, w.cpu, w.cgroup.clone()));
    rows
}

impl Recording {
    fn span(&self) -> (i64, i64) {
        let times = self.streams.iter().flat_map(|(_, items)| items).filter_map(time);
        (times.clone().min().unwrap(), times.max().unwrap())
    }

    /// Edges of windows within the recording.
    fn edges(&self, window_ns: i64) -> Vec<i64> {
        let (from, to) = self.span();
        (from / window_ns + 1..=to / window_ns).map(|n| n * window_ns).collect()
    }

    /// The windows of a recording that ends at `edge`; of all of it without.
    fn windows(&self, window_ns: i64, edge: Option<i64>) -> Vec<Window> {
        let inputs = self.streams.iter().map(|(key, items)| {
            let items: Vec<_> = match edge {
                None => items.clone(),
                Some(edge) => {
                    let later = |item: &StreamItem| time(item).is_some_and(|t| t >= edge);
                    let end = items.iter().position(later).unwrap_or(items.len());
                    items[..end].to_vec()
                }
            };
            Input { key: *key, stream: items.into_iter(), clock: Nanoseconds }
        });
        let mut inputs: Vec<_> = inputs.collect();
        if let Some(edge) = edge {
            // It ends with an event that tells nothing. On a CPU of Linux it would tell who runs there.
            let is_xen = self.topology.machines[0].kind == MachineKind::Hypervisor;
            let cpu = if is_xen { inputs[0].key.cpu } else { CpuId(4000) };
            let key = StreamKey { cpu, ..inputs[0].key };
            let ts = Timestamp::new(edge as u64);
            let last = vec![StreamItem::Other { ts, tid: Tid::IDLE, quiet: 0 }];
            inputs.push(Input { key, stream: last.into_iter(), clock: Nanoseconds });
        }
        let mut sink = Selected::new(&[Window::TABLE]);
        Engine::new(self.topology.clone(), Options { window_ns })
            .with_aligned_windows()
            .run(inputs, &mut sink)
            .unwrap();
        sorted(sink.into_tables().windows)
    }

    /// Window by window, as they come. `pieces` says how much is pushed at a time, and how often the run
    /// goes on within a window.
    fn live(&self, window_ns: i64, pieces: &mut dyn FnMut() -> usize) -> Vec<Window> {
        let mut feed = Feed::new(self.topology.clone(), Options { window_ns });
        self.streams.iter().for_each(|(key, _)| feed.add_stream(*key));
        let mut pushed = vec![0; self.streams.len()];
        let mut windows = Vec::new();
        for edge in self.edges(window_ns) {
            loop {
                let mut is_there = true;
                for ((key, items), pushed) in self.streams.iter().zip(&mut pushed) {
                    let end = (*pushed + pieces()).min(items.len());
                    let new = items[*pushed..end].iter().copied();
                    feed.push(*key, new, &Nanoseconds, Timestamp::new(i64::MAX));
                    *pushed = end;
                    let reached = items[..end].iter().rev().find_map(time);
                    is_there &= end == items.len() || reached.is_some_and(|t| t >= edge);
                }
                if is_there {
                    break;
                }
            }
            for _ in 0..pieces() % 4 {
                let part = edge - window_ns + (pieces() as i64 * 7919).rem_euclid(window_ns);
                feed.advance(Timestamp::new(part), &mut Nothing).unwrap();
            }
            feed.advance(Timestamp::new(edge), &mut Nothing).unwrap();
            let mut sink = Selected::new(&[Window::TABLE]);
            feed.peek(&mut sink);
            windows.extend(sink.into_tables().windows);
            feed.forget();
        }
        assert_eq!((feed.late_events(), feed.unplaced_events()), (0, 0));
        sorted(windows)
    }

    fn check(&self, name: &str, window_ns: i64, pieces: &mut dyn FnMut() -> usize) {
        let live = self.live(window_ns, pieces);
        for edge in self.edges(window_ns) {
            let begin = |w: &&Window| w.ts >= edge - window_ns && w.ts < edge;
            let of: Vec<_> = live.iter().filter(begin).cloned().collect();
            let prefix = self.windows(window_ns, Some(edge));
            let expected: Vec<_> = prefix.iter().filter(begin).cloned().collect();
            assert_eq!(of, expected, "{name}: the window before {edge}");
        }
        assert!(!live.is_empty(), "{name}");
        self.knows_less_only(name, window_ns, &live);
    }

    /// Beside the whole recording a window says the same, or `unknown`.
    fn knows_less_only(&self, name: &str, window_ns: i64, live: &[Window]) {
        let whole = self.windows(window_ns, None);
        let key = |w: &Window| (w.ts, w.machine_id, w.vcpu, w.cpu, w.cgroup.clone());
        let whole: BTreeMap<_, _> = whole.iter().map(|w| (key(w), w)).collect();
        let mut less = 0;
        for row in live {
            let other = whole[&key(row)];
            if row == other {
                continue;
            }
            less += 1;
            let times =
                |w: &Window| [w.gotten_ns, w.waited_ns, w.blocked_ns, w.offline_ns].map(i128::from);
            let (own, theirs) = (times(row), times(other));
            assert_eq!(
                (row.dur, row.exits, row.io_count),
                (other.dur, other.exits, other.io_count)
            );
            let learned: i128 = theirs.iter().zip(own).map(|(theirs, own)| theirs - own).sum();
            let unknown = i128::from(row.unknown_ns) - i128::from(other.unknown_ns);
            // Who was not seen yet was counted nowhere.
            let is_sum = row.vcpu.is_none() && row.cpu.is_none();
            let explained = if is_sum { unknown <= learned } else { unknown == learned };
            assert!(explained, "{name}: {row:?} {other:?}");
        }
        println!("{name}: {} rows, {less} of which know less", live.len());
    }
}

/// Wants nothing.
struct Nothing;

impl TableSink for Nothing {
    fn row(&mut self, _: transect_model::table::Row) {}

    fn wants(&self, table: &transect_model::table::TableDoc) -> bool {
        // Windows are asked for once, and have to be counted.
        table.name == Window::TABLE.name
    }
}

/// Numbers that look arbitrary.
fn numbers(seed: u64) -> impl FnMut() -> usize {
    let mut state = seed | 1;
    move || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 40) as usize % 700
    }
}

const LIVE_HZ: u64 = 999_999_000;
const HZ: u64 = 2_596_139_000;

#[test]
fn recordings_of_xen() {
    for (name, hz, window_ns) in [
        ("xentrace/live/cap.bin", LIVE_HZ, 250_000_000),
        ("xentrace/live/net.bin", LIVE_HZ, 100_000_000),
        ("xentrace/live/life.bin", LIVE_HZ, 1_000_000_000),
        ("xentrace/live/top.bin", LIVE_HZ, 500_000_000),
        ("xentrace/pv.bin", HZ, 10_000_000),
        ("xentrace/pvh.bin", HZ, 10_000_000),
        ("xentrace/lost.bin", HZ, 500_000_000),
        ("xentrace/create.bin", HZ, 10_000_000),
        ("xentrace/destroy.bin", HZ, 10_000_000),
    ] {
        let recording = xen(name, hz);
        recording.check(name, window_ns, &mut numbers(window_ns as u64));
    }
}

#[test]
fn recordings_of_linux() {
    for (name, window_ns) in [("pair-host.dat", 100_000_000), ("hypercalls.dat", 100_000_000)] {
        let recording = dat(name);
        recording.check(name, window_ns, &mut numbers(window_ns as u64));
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 12, ..ProptestConfig::default() })]

    /// Bytes cut anywhere become the same items, and pieces of any size the same windows.
    #[test]
    fn where_the_stream_is_cut_does_not_matter(seed: u64, window_ms in 20i64..400) {
        for (name, hz) in [("xentrace/live/net.bin", LIVE_HZ), ("xentrace/lost.bin", HZ)] {
            let whole = xen(name, hz);
            let bytes = testdata(name);
            let clocks = tsc(hz);
            let mut chunks = XenChunks::new(XenVersion::Minor(17), Isa::Svm);
            let mut streams: BTreeMap<StreamKey, Vec<StreamItem>> = BTreeMap::new();
            let mut next = numbers(seed);
            let mut at = 0;
            while at < bytes.len() {
                let end = (at + next() * 13 + 1).min(bytes.len());
                chunks.read(&bytes[at..end], &mut |cpu, items| {
                    let key = StreamKey { machine: XEN, cpu };
                    let clock = clocks.converter(XEN, cpu).unwrap();
                    let items = items.into_iter().map(|item| on_trace_time(item, &clock));
                    streams.entry(key).or_default().extend(items);
                }).unwrap();
                at = end;
            }
            prop_assert_eq!(chunks.left_out_bytes(), 0);
            let cut = Recording { topology: hypervisor(), streams: streams.into_iter().collect() };
            let window_ns = window_ms * 1_000_000;
            for ((key, of_file), (_, of_pieces)) in whole.streams.iter().zip(&cut.streams) {
                // Only the last records, which are no items, wait for an item behind them.
                let n = of_pieces.len();
                prop_assert!(of_file.len() <= n + 1, "{:?}", key);
                prop_assert_eq!(&of_file[..n], &of_pieces[..]);
            }
            prop_assert_eq!(
                cut.live(window_ns, &mut numbers(seed ^ 5)),
                whole.live(window_ns, &mut || 1 << 20)
            );
        }
    }
}

#[test]
fn what_comes_too_late_or_cannot_be_is_counted_and_hides_its_time() {
    let recording = xen("xentrace/live/cap.bin", LIVE_HZ);
    let window_ns = 500_000_000;
    let edges = recording.edges(window_ns);
    let mut feed = Feed::new(hypervisor(), Options { window_ns });
    let (key, items) = &recording.streams[0];
    let before = |edge: i64| items.iter().filter(move |i| time(i).is_some_and(|t| t < edge));
    let push = |feed: &mut Feed, items: Vec<StreamItem>, now: i64| {
        feed.push(*key, items, &Nanoseconds, Timestamp::new(now));
    };
    push(&mut feed, before(edges[1]).copied().collect(), edges[1]);
    feed.advance(Timestamp::new(edges[1]), &mut Tables::default()).unwrap();
    feed.forget();
    // Of the next window, some are of the one before, and one is of tomorrow.
    let own = |i: &&StreamItem| time(i).is_some_and(|t| t >= edges[1] && t < edges[2]);
    let mut late: Vec<_> = before(edges[1]).rev().take(3).copied().collect();
    late.push(StreamItem::Other { ts: Timestamp::new(1 << 60), tid: Tid::IDLE, quiet: 0 });
    let begin = edges[1] + window_ns / 4;
    let own: Vec<_> = items.iter().filter(own).copied().collect();
    late.extend(own.iter().filter(|i| time(i).unwrap() > begin));
    push(&mut feed, late, edges[2]);
    let mut rows = Tables::default();
    feed.advance(Timestamp::new(edges[2]), &mut rows).unwrap();
    feed.peek(&mut rows);
    assert_eq!((feed.late_events(), feed.unplaced_events()), (3, 1));
    assert!(feed.lost_events() >= 4, "{}", feed.lost_events());
    let whole = rows.windows.iter().filter(|w| w.cpu.is_some() && w.machine_id == XEN);
    let unknown: Vec<_> = whole.map(|w| (w.ts, w.unknown_ns)).collect();
    assert_eq!(unknown.len(), 1);
    assert!(unknown[0].0 == edges[1] && unknown[0].1 >= window_ns / 4, "{unknown:?}");
    assert_eq!(feed.machines()[0].name, "xen");
}

#[test]
fn what_is_no_trace_is_said() {
    let mut chunks = XenChunks::new(XenVersion::Unknown, Isa::Vmx);
    let error = chunks.read(b"this is no trace of Xen's", &mut |_, _| {}).unwrap_err();
    assert!(!error.to_string().is_empty());
    // A stream that was begun anew is one again.
    chunks.restarted();
    let bytes = testdata("xentrace/live/cap.bin");
    let mut items = 0;
    chunks.read(&bytes, &mut |_, new| items += new.len()).unwrap();
    assert!(items > 3000, "{items}");
    assert_eq!(chunks.last_stamps().count(), 1);
}
