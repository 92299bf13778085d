//! Runs the engine over trace.dat files and says what it found and how fast it was:
//! `cargo run --release -p transect-engine --example states -- host.dat guest.dat`.
//!
//! The tables are only counted, not kept, so the time is that of reading, merging and the states.

#![expect(clippy::print_stdout, reason = "a program for people")]
#![expect(clippy::cast_precision_loss, reason = "a rate for people")]

use std::{collections::BTreeMap, time::Instant};
use transect_clock::{ClockGraph, ClockOptions};
use transect_engine::{
    Engine, Options,
    dat::{DatSource, pair},
};
use transect_model::table::{Row, TableSink};
use transect_tracedat::TraceDat;

#[derive(Default)]
struct Counts {
    rows: BTreeMap<&'static str, u64>,
    exits: BTreeMap<String, u64>,
    vcpu_ns: BTreeMap<(u32, u32, &'static str), i64>,
    told: Vec<Row>,
}

impl TableSink for Counts {
    fn row(&mut self, row: Row) {
        let table = match &row {
            Row::CpuSlice(_) => "cpu_slices",
            Row::ThreadState(_) => "thread_states",
            Row::VcpuState(r) => {
                let key = (r.machine_id.0, r.vcpu.0, r.state.as_str());
                *self.vcpu_ns.entry(key).or_default() += r.dur;
                "vcpu_states"
            }
            Row::Exit(r) => {
                *self.exits.entry(r.reason.to_string()).or_default() += 1;
                "exits"
            }
            Row::Wakeup(_) => "wakeups",
            Row::Irq(_) => "irqs",
            Row::Syscall(_) => "syscalls",
            Row::Window(_) => "windows",
            _ => {
                self.told.push(row);
                "others"
            }
        };
        *self.rows.entry(table).or_default() += 1;
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let names: Vec<String> = std::env::args().skip(1).collect();
    let bytes = names.iter().map(std::fs::read).collect::<Result<Vec<_>, _>>()?;
    let traces = bytes.iter().map(|b| TraceDat::parse(b)).collect::<Result<Vec<_>, _>>()?;
    let files: Vec<_> = names.iter().map(String::as_str).zip(&traces).collect();
    let pairing = pair(&files)?;
    let clocks = ClockGraph::from_evidence(&pairing.evidence, ClockOptions::default())?;
    let sources: Vec<_> = files
        .iter()
        .zip(&pairing.machine_of_file)
        .map(|((name, trace), machine)| DatSource::new(trace, *machine, *name))
        .collect();
    let begun = Instant::now();
    let mut inputs = Vec::new();
    for source in &sources {
        inputs.extend(source.inputs(&clocks)?);
    }
    let mut counts = Counts::default();
    let engine = Engine::new(pairing.topology.clone(), Options::default())
        .with_clocks(&clocks)
        .with_remarks(sources.iter().flat_map(|s| s.remarks(&clocks)));
    let summary = engine.run(inputs, &mut counts)?;
    pairing.notes.iter().for_each(|note| println!("note: {note}"));
    let seconds = begun.elapsed().as_secs_f64();
    for row in counts.told.iter().filter(|r| !matches!(r, Row::Thread(_))) {
        println!("{row:?}");
    }
    println!("{summary:#?}");
    println!("rows {:?}\nexits {:?}", counts.rows, counts.exits);
    let span = summary.span.map_or(0, |s| s.dur_ns());
    for ((machine, vcpu, state), ns) in &counts.vcpu_ns {
        println!("machine {machine} vcpu {vcpu} {state:>10} {ns:>14} ns");
    }
    println!("span {span} ns");
    let rate = summary.events as f64 / seconds / 1e6;
    println!("{} events in {seconds:.3} s: {rate:.2} M events/s", summary.events);
    Ok(())
}
