//! What the engine costs over reading alone, on the same bytes in the same run.
//!
//! `cargo bench -p transect-engine --bench engine [-- FILE]` (or `TRANSECT_BENCH_TRACE=FILE`).
//! Without a file, the host's half of the corpus' pair, again and again.
//!
//! Five ways through the same file take turns, so that a machine that is busy with other things
//! slows all of them; the table shows medians, and each as a share of the floor:
//! - *walk*: pages and records only, counting (the floor);
//! - *decode*: every record's thread and core event, too;
//! - *no rows*: the engine in one thread, for a sink that wants no table;
//! - *engine, one thread* and *engine*: everything, rows made and dropped.
#![allow(clippy::print_stdout, reason = "a benchmark prints its result")]
#![allow(clippy::cast_precision_loss, reason = "rates for people")]

use std::{
    hint::black_box,
    num::NonZeroUsize,
    path::{Path, PathBuf},
    time::Instant,
};
use transect_clock::{ClockGraph, ClockOptions};
use transect_engine::{
    Engine, Options,
    dat::{DatSource, pair},
};
use transect_ftrace::CoreDecoder;
use transect_model::table::{Row, TableDoc, TableSink};
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
    let argument = std::env::args().skip(1).find(|arg| !arg.starts_with("--"));
    let given = argument.or_else(|| std::env::var("TRANSECT_BENCH_TRACE").ok()).map(PathBuf::from);
    let corpus =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/succeed/tracedat/pair-host.dat");
    let path = given.unwrap_or(corpus);
    let file = std::fs::read(&path)?;
    let trace = TraceDat::parse(&file)?;
    let one = NonZeroUsize::MIN;
    let ways: [(&str, Way<'_>); 5] = [
        ("walk", &|| Ok(walk(&trace))),
        ("decode", &|| Ok(decode(&trace))),
        ("engine, one thread, no rows", &|| engine(&trace, Some(one), false)),
        ("engine, one thread", &|| engine(&trace, Some(one), true)),
        ("engine", &|| engine(&trace, None, true)),
    ];
    let mut seconds = vec![Vec::new(); ways.len()];
    let mut events = 0;
    for _ in 0..ROUNDS {
        for ((_, way), seconds) in ways.iter().zip(&mut seconds) {
            let begun = Instant::now();
            events = way()?;
            seconds.push(begun.elapsed().as_secs_f64());
        }
    }
    println!("{}: {events} events", path.display());
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

fn engine(
    trace: &TraceDat<'_>,
    threads: Option<NonZeroUsize>,
    wanted: bool,
) -> Result<u64, Failure> {
    let pairing = pair(&[("bench", trace)])?;
    let clocks = ClockGraph::from_evidence(&pairing.evidence, ClockOptions::default())?;
    let source = DatSource::new(trace, pairing.machine_of_file[0], "bench");
    let mut engine = Engine::new(pairing.topology, Options::default()).with_clocks(&clocks);
    if let Some(threads) = threads {
        engine = engine.with_threads(threads);
    }
    let mut sink = Counter { wanted, rows: 0 };
    let summary = engine.run(source.inputs(&clocks)?, &mut sink)?;
    black_box(sink.rows);
    Ok(summary.events)
}
