//! Cuts a stretch of time out of an xentrace file.
//!
//! `cargo run -p transect-xentrace --example cut -- IN.bin OUT.bin FROM TO`
//!
//! FROM and TO are ticks of the TSC after the file's first stamp. Of each CPU the records with a
//! stamp in between are kept, and those without one that follow them; windows are of 4 KiB.
#![allow(clippy::print_stdout, reason = "an example prints its result")]

use std::{collections::BTreeMap, error::Error, ops::Range};
use transect_model::ids::CpuId;
use transect_xentrace::{Record, Writer, XenTrace, XenVersion};

fn main() -> Result<(), Box<dyn Error>> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [from_path, to_path, from, to] = args.as_slice() else {
        return Err("usage: cut IN.bin OUT.bin FROM TO".into());
    };
    let file = std::fs::read(from_path)?;
    let trace = XenTrace::parse(&file, XenVersion::Unknown)?;
    let starts = trace.cpus().filter_map(|cpu| Some(trace.stream(cpu).next()?.tsc));
    let start = starts.min().ok_or("no records")?;
    let range = start + from.parse::<u64>()?..start + to.parse::<u64>()?;
    let mut writer = Writer::new(Vec::new(), 4096);
    let mut kept: BTreeMap<(u64, CpuId, u64), Record<'_>> = BTreeMap::new();
    for cpu in trace.cpus() {
        for record in records(&trace, cpu, &range) {
            kept.insert((record.tsc, cpu, record.at_bytes), record);
        }
    }
    for ((_, cpu, _), record) in &kept {
        writer.copy(*cpu, record)?;
    }
    let out = writer.finish()?;
    println!("{} records, {} bytes", kept.len(), out.len());
    std::fs::write(to_path, out)?;
    Ok(())
}

/// From the first with a stamp of its own.
fn records<'a>(
    trace: &'a XenTrace<'_>,
    cpu: CpuId,
    range: &'a Range<u64>,
) -> impl Iterator<Item = Record<'a>> {
    trace
        .stream(cpu)
        .filter(|record| range.contains(&record.tsc))
        .skip_while(|record| !record.stamped)
}
