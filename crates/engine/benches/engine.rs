//! What the engine costs over reading alone, on the same bytes in the same run.
//!
//! `cargo bench --profile release -p transect-engine --features synthetic --bench engine [-- FILE...]`; files are
//! trace.dat or compact. Without any, the host's half of the corpus' pair, and a made-up compact
//! recording of a million events.
//!
//! Five ways through the same file take turns, so that a machine that is busy with other things
//! slows all of them; the table shows medians, and each as a share of the floor:
//! - *walk*: pages and records only, counting (the floor; compact: without making events of them);
//! - *decode*: every record's thread and core event, too;
//! - *no rows*: the engine in one thread, for a sink that wants no table;
//! - *engine, one thread* and *engine*: everything, rows made and dropped.
#![allow(clippy::print_stdout, reason = "a benchmark prints its result")]
#![allow(clippy::cast_precision_loss, reason = "rates for people")]

use std::{convert::Infallible, hint::black_box, num::NonZeroUsize, path::Path, time::Instant};
use transect_clock::{ClockGraph, ClockOptions, Evidence};
use transect_compact::{Compact, Lost, Problem, Sink, Slice, count_events};
use transect_engine::{
    Engine, EventStream, Input, Options, ToTrace, Topology,
    compact::CompactSource,
    dat::{DatSource, pair},
    synthetic::Plan,
    topology::MachineInfo,
};
use transect_ftrace::CoreDecoder;
use transect_model::{
    event::CoreEvent,
    ids::{MachineId, Tid},
    table::{Row, TableDoc, TableSink},
    time::{Source, Timestamp},
};
use transect_tracedat::{Item, TraceDat};

const ROUNDS: usize = 7;

type Failure = Box<dyn std::error::Error>;
/// One way through the file; gives the number of events.
type Way<'a> = &'a dyn Fn() -> Result<u64, Failure>;

/// Counts rows of every table, or wants none at all.
struct Counter {
    wanted: bool,
    rows: u64,
}

impl TableSink for Counter {
    fn row(&mut self, row: Row) {
        black_box(&row);
        self.rows += 1;
    }

    fn wants(&self, _: &TableDoc) -> bool {
        self.wanted
    }
}

fn main() -> Result<(), Failure> {
    if cfg!(debug_assertions) {
        return Err("built as tests are: use `cargo bench --profile release`".into());
    }
    let files: Vec<String> =
        std::env::args().skip(1).filter(|arg| !arg.starts_with("--")).collect();
    for file in &files {
        bench(file, &std::fs::read(file)?)?;
    }
    if files.is_empty() {
        let corpus = "../../testdata/succeed/tracedat/pair-host.dat";
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(corpus);
        bench("pair-host.dat", &std::fs::read(path)?)?;
        bench("made up", &Plan::default().write_compact(Vec::new())?)?;
    }
    Ok(())
}

fn bench(name: &str, file: &[u8]) -> Result<(), Failure> {
    let one = Some(NonZeroUsize::MIN);
    if transect_compact::is_compact(file) {
        let compact = Compact::parse(file)?;
        return rounds(
            name,
            [
                ("walk", &|| Ok(count(&compact))),
                ("decode", &|| Ok(decode_compact(&compact))),
                ("engine, one thread, no rows", &|| compact_engine(&compact, one, false)),
                ("engine, one thread", &|| compact_engine(&compact, one, true)),
                ("engine", &|| compact_engine(&compact, None, true)),
            ],
        );
    }
    let trace = TraceDat::parse(file)?;
    rounds(
        name,
        [
            ("walk", &|| Ok(walk(&trace))),
            ("decode", &|| Ok(decode(&trace))),
            ("engine, one thread, no rows", &|| dat_engine(&trace, one, false)),
            ("engine, one thread", &|| dat_engine(&trace, one, true)),
            ("engine", &|| dat_engine(&trace, None, true)),
        ],
    )
}

fn rounds(name: &str, ways: [(&str, Way<'_>); 5]) -> Result<(), Failure> {
    let mut seconds = vec![Vec::new(); ways.len()];
    let mut events = 0;
    for _ in 0..ROUNDS {
        for ((_, way), seconds) in ways.iter().zip(&mut seconds) {
            let begun = Instant::now();
            events = way()?;
            seconds.push(begun.elapsed().as_secs_f64());
        }
    }
    println!("{name}: {events} events");
    let medians = seconds.iter_mut().map(|s| {
        s.sort_by(f64::total_cmp);
        s[s.len() / 2]
    });
    let medians: Vec<f64> = medians.collect();
    for ((name, _), median) in ways.iter().zip(&medians) {
        let ns = median * 1e9 / events as f64;
        println!(
            "{name:>28}: {ns:6.1} ns/event, {:6.2} M events/s, {:5.2} x decode, {:5.2} x walk",
            1e3 / ns,
            median / medians[1],
            median / medians[0],
        );
    }
    Ok(())
}

fn walk(trace: &TraceDat<'_>) -> u64 {
    let mut events = 0;
    for buffer in trace.buffers() {
        for cpu in buffer.cpus() {
            let Some(mut stream) = trace.stream(buffer, cpu) else { continue };
            while let Some(item) = stream.next() {
                events += u64::from(matches!(black_box(item), Item::Event { .. }));
            }
        }
    }
    events
}

fn decode(trace: &TraceDat<'_>) -> u64 {
    let (table, core) = (trace.events(), CoreDecoder::new(trace.events()));
    let mut events = 0;
    for buffer in trace.buffers() {
        for cpu in buffer.cpus() {
            let Some(mut stream) = trace.stream(buffer, cpu) else { continue };
            while let Some(item) = stream.next() {
                if let Item::Event { ts, payload } = item {
                    black_box((ts, table.tid_of(payload), core.decode(payload)));
                    events += 1;
                }
            }
        }
    }
    events
}

fn dat_engine(
    trace: &TraceDat<'_>,
    threads: Option<NonZeroUsize>,
    wanted: bool,
) -> Result<u64, Failure> {
    let pairing = pair(&[("bench", trace)])?;
    let clocks = ClockGraph::from_evidence(&pairing.evidence, ClockOptions::default())?;
    let source = DatSource::new(trace, pairing.machine_of_file[0], "bench");
    engine(pairing.topology, &clocks, source.inputs(&clocks)?, threads, wanted)
}

/// Words, and what kinds of records they are.
fn count(file: &Compact<'_>) -> u64 {
    let mut events = 0;
    let mut add = |slice: Slice<'_>| {
        events += count_events(slice.words);
        Ok::<(), Infallible>(())
    };
    let Ok(()) = file.slices(&mut add);
    events
}

/// Looks at every event.
struct Look(u64);

impl Sink for Look {
    #[inline]
    fn event(&mut self, ts: Timestamp<Source>, tid: Tid, event: CoreEvent) {
        black_box((ts, tid, event));
        self.0 += 1;
    }

    fn lost(&mut self, _: Lost) {}

    fn problem(&mut self, _: Problem) {}
}

fn decode_compact(file: &Compact<'_>) -> u64 {
    let mut look = Look(0);
    for cpu in file.cpus() {
        let Some(mut stream) = file.stream(cpu) else { continue };
        while stream.fill(&mut look, 4096) {}
    }
    look.0
}

fn compact_engine(
    file: &Compact<'_>,
    threads: Option<NonZeroUsize>,
    wanted: bool,
) -> Result<u64, Failure> {
    let machine = MachineId(0);
    let reference = Evidence::Reference { machine, clock: file.header().clock.clone() };
    let clocks = ClockGraph::from_evidence(&[reference], ClockOptions::default())?;
    let source = CompactSource::new(file, machine, "bench");
    let host = MachineInfo { clock: Some("mono".into()), ..MachineInfo::host(machine, "host") };
    let topology = Topology {
        machines: vec![host],
        threads: source.threads().collect(),
        ..Topology::default()
    };
    engine(topology, &clocks, source.inputs(&clocks)?, threads, wanted)
}

fn engine<S: EventStream + Send, C: ToTrace + Send>(
    topology: Topology,
    clocks: &ClockGraph,
    inputs: Vec<Input<S, C>>,
    threads: Option<NonZeroUsize>,
    wanted: bool,
) -> Result<u64, Failure> {
    let mut engine = Engine::new(topology, Options::default()).with_clocks(clocks);
    if let Some(threads) = threads {
        engine = engine.with_threads(threads);
    }
    let mut sink = Counter { wanted, rows: 0 };
    let summary = engine.run(inputs, &mut sink)?;
    black_box(sink.rows);
    Ok(summary.events)
}
