//! Prints one line per table: rows, a hash that does not depend on their order, and one that does.
//!
//! Two builds of the engine make the same tables of a recording exactly if these lines agree:
//! `cargo run --release -p transect-engine --example row_hash -- host.dat guest.dat`.

#![expect(clippy::print_stdout, reason = "a program for people")]

use std::{
    collections::BTreeMap,
    fmt::Write as _,
    hash::{Hash as _, Hasher as _},
};
use transect_clock::{ClockGraph, ClockOptions};
use transect_engine::{
    Engine, Options,
    dat::{DatSource, pair},
};
use transect_model::table::{Row, TableSink};
use transect_tracedat::TraceDat;

#[derive(Default)]
struct Sums {
    rows: u64,
    any_order: u64,
    this_order: u64,
}

#[derive(Default)]
struct Hashes {
    tables: BTreeMap<String, Sums>,
    text: String,
}

impl TableSink for Hashes {
    fn row(&mut self, row: Row) {
        self.text.clear();
        // Writing into a String cannot fail.
        let _ = write!(self.text, "{row:?}");
        let mut hasher = rustc_hash::FxHasher::default();
        self.text.hash(&mut hasher);
        let hash = hasher.finish();
        let table = self.text.split('(').next().unwrap_or_default();
        if !self.tables.contains_key(table) {
            self.tables.insert(table.to_owned(), Sums::default());
        }
        if let Some(sums) = self.tables.get_mut(table) {
            sums.rows += 1;
            sums.any_order = sums.any_order.wrapping_add(hash);
            sums.this_order = sums.this_order.rotate_left(5).wrapping_mul(31).wrapping_add(hash);
        }
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
    let mut inputs = Vec::new();
    for source in &sources {
        inputs.extend(source.inputs(&clocks)?);
    }
    let mut hashes = Hashes::default();
    let summary = Engine::new(pairing.topology.clone(), Options::default())
        .with_clocks(&clocks)
        .with_remarks(sources.iter().flat_map(|s| s.remarks(&clocks)))
        .run(inputs, &mut hashes)?;
    for (table, sums) in &hashes.tables {
        println!("{table:<12} {:>9} {:016x} {:016x}", sums.rows, sums.any_order, sums.this_order);
    }
    println!("{summary:?}");
    Ok(())
}
