//! Writes a made-up recording as a compact file:
//! `cargo run --release -p transect-engine --features synthetic --example synthetic -- FILE [EVENTS [VMS [CPUS]]]`.

#![expect(clippy::print_stdout, reason = "a program for people")]

use std::{fs::File, io::BufWriter, time::Instant};
use transect_engine::synthetic::Plan;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut args = std::env::args().skip(1);
    let path = args.next().ok_or("which file shall be written?")?;
    let mut number = |default: u64| args.next().map_or(Ok(default), |arg| arg.parse());
    let events = number(10_000_000)?;
    let (vms, cpus) = (u32::try_from(number(4)?)?, u32::try_from(number(4)?)?);
    let plan = Plan { events, vms, cpus, ..Plan::default() };
    let begun = Instant::now();
    let file = plan.write_compact(BufWriter::with_capacity(1 << 20, File::create(&path)?))?;
    let bytes = file.into_inner()?.metadata()?.len();
    println!("{path}: {events} events, {bytes} bytes in {:.1} s", begun.elapsed().as_secs_f64());
    Ok(())
}
