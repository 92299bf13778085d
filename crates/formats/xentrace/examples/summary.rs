//! What is in an xentrace file: records by name, lost records, problems.
//!
//! `cargo run --release -p transect-xentrace --example summary -- FILE.bin [4.MINOR]`
#![allow(clippy::print_stdout, reason = "an example prints its result")]

use std::{collections::BTreeMap, error::Error};
use transect_xentrace::{Totals, XenEvent, XenTrace, XenVersion};

fn main() -> Result<(), Box<dyn Error>> {
    let mut args = std::env::args().skip(1);
    let path = args.next().ok_or("usage: summary FILE.bin [4.MINOR]")?;
    let version = match args.next().as_deref().and_then(|text| text.strip_prefix("4.")) {
        Some(minor) => XenVersion::Minor(minor.parse()?),
        None => XenVersion::Unknown,
    };
    let file = std::fs::read(path)?;
    let trace = XenTrace::parse(&file, version)?;
    let mut names: BTreeMap<&str, (u64, u64)> = BTreeMap::new();
    let mut totals = Totals::default();
    for cpu in trace.cpus() {
        let mut stream = trace.stream(cpu);
        let (mut first, mut last) = (None, 0);
        for record in &mut stream {
            first = first.or(Some(record.tsc));
            last = record.tsc;
            let (count, typed) = names.entry(record.name()).or_default();
            *count += 1;
            *typed += u64::from(record.typed() != XenEvent::Other);
        }
        println!("CPU {cpu}: tsc {} .. {last}", first.unwrap_or(0));
        for problem in stream.problems() {
            println!("problem: {problem}");
        }
        totals.add(&stream.totals());
    }
    for problem in trace.problems() {
        println!("problem: {problem}");
    }
    for (name, (count, typed)) in names {
        println!("{count:10} {name}{}", if typed > 0 { "  typed" } else { "" });
    }
    println!("{:10} windows", trace.index().changes());
    println!("{:10} records with windows", totals.records + trace.index().changes());
    println!("{totals:?}");
    Ok(())
}
