//! Writes a made-up recording as a compact file, or, if the file is `-`, runs the engine over it
//! without any file in between:
//! `cargo run --release -p transect-engine --features synthetic --example synthetic -- FILE [EVENTS [VMS [CPUS]]]`.

#![expect(clippy::print_stdout, reason = "a program for people")]

use std::{fs::File, io::BufWriter, time::Instant};
use transect_engine::{Engine, Options, synthetic::Plan};
use transect_model::table::{Row, TableSink};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut args = std::env::args().skip(1);
    let path = args.next().ok_or("which file shall be written?")?;
    let mut number = |default: u64| args.next().map_or(Ok(default), |arg| arg.parse());
    let events = number(10_000_000)?;
    let (vms, cpus) = (u32::try_from(number(4)?)?, u32::try_from(number(4)?)?);
    let plan = Plan { events, vms, cpus, ..Plan::default() };
    let begun = Instant::now();
    if path == "-" {
        return run(&plan);
    }
    let file = plan.write_compact(BufWriter::with_capacity(1 << 20, File::create(&path)?))?;
    let bytes = file.into_inner()?.metadata()?.len();
    println!("{path}: {events} events, {bytes} bytes in {:.1} s", begun.elapsed().as_secs_f64());
    Ok(())
}

/// Counts rows and drops them.
struct Count(u64);

impl TableSink for Count {
    fn row(&mut self, _: Row) {
        self.0 += 1;
    }
}

/// Time and memory of the engine, and of making the events up.
#[expect(clippy::cast_precision_loss, reason = "a rate for people")]
fn run(plan: &Plan) -> Result<(), Box<dyn std::error::Error>> {
    let begun = Instant::now();
    let mut rows = Count(0);
    let engine = Engine::new(plan.topology(), Options::default());
    let summary = engine.run(plan.streams(), &mut rows)?;
    let seconds = begun.elapsed().as_secs_f64();
    let peak_kib = procfs::process::Process::myself()?.status()?.vmhwm.unwrap_or_default();
    println!(
        "{} events, {} rows in {seconds:.2} s: {:.2} M events/s; VmHWM:\t{peak_kib:>8} kB",
        summary.events,
        rows.0,
        summary.events as f64 / seconds / 1e6
    );
    Ok(())
}
