//! The property over compact files whose logs have lost their first chunks, as a flight recorder's
//! buffers do.

use super::{
    compare::{Contradiction, Outcome, compare},
    runner_from_seed,
    simulate::simulate,
    steps,
    system::{Plan, Recording},
};
use proptest::strategy::{Strategy, ValueTree};
use std::{collections::BTreeMap, io};
use transect_clock::{ClockGraph, ClockOptions, Evidence};
use transect_compact::{
    BlockWriter, CHUNK_BYTES, Compact, FileHeader, LogId, LogTotals, LogWriter, Names, Slice,
    SliceSink, Totals,
};
use transect_engine::{Engine, Options, StreamItem, compact::CompactSource};
use transect_model::{exit::Isa, ids::MachineId};

/// Passes on the slices from a position on.
struct Overwritten<'a> {
    file: &'a mut BlockWriter<Vec<u8>>,
    from: u64,
}

impl SliceSink for Overwritten<'_> {
    type Error = io::Error;

    fn slice(&mut self, slice: Slice<'_>) -> Result<(), io::Error> {
        if slice.position < self.from { Ok(()) } else { self.file.slice(slice) }
    }
}

/// Writes the host's events as a flight recorder does; a CPU's log begins with the given chunk.
fn write_file(recording: &Recording, first_chunks: &[u64]) -> Vec<u8> {
    let header = FileHeader { overwrite: true, ..FileHeader::new(8, Isa::Svm, "") };
    let mut file = BlockWriter::new(Vec::new(), &header).unwrap();
    file.names(&Names::default()).unwrap();
    let mut totals = Totals::default();
    for ((key, items), first) in recording.streams().iter().zip(first_chunks.iter().cycle()) {
        let mut log = LogWriter::new(LogId { cpu: key.cpu, side: 0 });
        let mut sink = Overwritten { file: &mut file, from: first * CHUNK_BYTES as u64 };
        for item in items {
            if let StreamItem::Event { ts, tid, event, .. } = item {
                log.event(ts.get(), *tid, event, &mut sink).unwrap();
            }
        }
        log.finish(&mut sink).unwrap();
        assert!(log.position() > first * CHUNK_BYTES as u64, "CPU {} keeps no chunk", key.cpu);
        totals.logs.push(LogTotals {
            cpu: key.cpu.0,
            bytes: log.position(),
            ..LogTotals::default()
        });
    }
    file.finish(&totals).unwrap()
}

fn run_file(recording: &Recording, first_chunks: &[u64]) -> Outcome {
    let bytes = write_file(recording, first_chunks);
    let file = Compact::parse(&bytes).unwrap();
    let clock = Evidence::Reference { machine: MachineId(0), clock: "mono".into() };
    let clocks = ClockGraph::from_evidence(&[clock], ClockOptions::default()).unwrap();
    let source = CompactSource::new(&file, MachineId(0), "host.compact");
    let inputs = source.inputs(&clocks).unwrap();
    let mut outcome = Outcome::default();
    let engine = Engine::new(recording.topology.clone(), Options { window_ns: 1 << 60 });
    outcome.summary = engine.run(inputs, &mut outcome.tables).unwrap();
    outcome
}

/// A long recording of two CPUs.
fn long_recording(seed: u64) -> Recording {
    let runner = &mut runner_from_seed(seed);
    let plan = Plan {
        host_cpus: 2,
        vms: 1,
        vcpus: 2,
        threads: 3,
        guests: false,
        full: false,
        migrations: seed.is_multiple_of(2),
        births: false,
    };
    simulate(&plan, &steps(24_000..24_001).new_tree(runner).unwrap().current())
}

#[test]
fn overwritten_chunks_make_states_unknown() {
    for (seed, first_chunks) in [(1, [1, 0]), (2, [0, 2]), (3, [2, 1]), (4, [1, 1])] {
        let recording = long_recording(seed);
        let whole = run_file(&recording, &[0]);
        let damaged = run_file(&recording, &first_chunks);
        assert_eq!(whole.summary.events, recording.events.len() as u64);
        assert!(damaged.summary.events < whole.summary.events);
        let found = compare(&whole, &damaged);
        let mut kinds: BTreeMap<&str, (u64, &str)> = BTreeMap::new();
        for Contradiction { kind, rows } in &found {
            kinds.entry(kind).or_insert((0, rows)).0 += 1;
        }
        let report: String = kinds
            .iter()
            .map(|(kind, (count, rows))| format!("{count} of {kind}\n  {rows}\n"))
            .collect();
        assert!(found.is_empty(), "seed {seed}, first chunks {first_chunks:?}:\n{report}");
    }
}
