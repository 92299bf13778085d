//! Makes up an xentrace file.
//!
//! `cargo run --release -p transect-xentrace --features synthetic --example synthesize -- FILE.bin RECORDS [CPUS [DOMAINS]]`
#![allow(clippy::print_stdout, reason = "an example prints its result")]

use std::{error::Error, fs::File, io::BufWriter};
use transect_xentrace::synthetic::{self, Spec};

fn main() -> Result<(), Box<dyn Error>> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let usage = "usage: synthesize FILE.bin RECORDS [CPUS [DOMAINS]]";
    let [path, records, more @ ..] = args.as_slice() else { return Err(usage.into()) };
    let mut spec = Spec { records: records.parse()?, ..Spec::default() };
    if let Some(cpus) = more.first() {
        spec.cpus = cpus.parse()?;
    }
    if let Some(domains) = more.get(1) {
        spec.domains = domains.parse()?;
    }
    let (_, made) = synthetic::write(BufWriter::new(File::create(path)?), &spec)?;
    println!("{made:?}");
    Ok(())
}
