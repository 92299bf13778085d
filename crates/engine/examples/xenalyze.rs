//! Prints of an xentrace file, from the engine's rows, what `xenalyze --summary` prints about
//! runstates, with xenalyze's conventions at the edges:
//! `cargo run --release --example xenalyze -- FILE.bin TSC_HZ`.

#[path = "../tests/it/xen_runs/mod.rs"]
mod xen_runs;

use std::io::Write as _;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut args = std::env::args().skip(1);
    let path = args.next().ok_or("which file?")?;
    let hz: u64 = args.next().ok_or("how many ticks per second?")?.parse()?;
    let file = std::fs::read(&path)?;
    let run = xen_runs::run(&file, hz);
    let mut out = std::io::stdout().lock();
    let span_ns = run.summary.span.map_or(0, |span| span.dur_ns());
    writeln!(
        out,
        "span {span_ns} ns, {} events, {} holes, {} lost, {} contradictions",
        run.summary.events, run.summary.holes, run.summary.lost_events, run.summary.contradictions
    )?;
    for (name, states) in xen_runs::vcpus(&run) {
        for (state, sum) in states {
            writeln!(out, "{name} {state} {} {}", sum.count, sum.ns)?;
        }
    }
    for (name, state, sum) in xen_runs::domains(&run) {
        writeln!(out, "{name} {state} {} {}", sum.count, sum.ns)?;
    }
    for (cpu, state, sum) in xen_runs::pcpus(&run) {
        writeln!(out, "pcpu {cpu} {state} {} {}", sum.count, sum.ns)?;
    }
    for (name, state, count, ns) in xen_runs::states(&run) {
        writeln!(out, "state {name} {state} {count} {ns}")?;
    }
    for log in &run.tables.import_log {
        writeln!(out, "log {} {}", log.data_loss, log.message)?;
    }
    for lost in &run.tables.lost {
        writeln!(out, "lost cpu {:?} {:?} in {} ns", lost.cpu, lost.count, lost.dur)?;
    }
    Ok(())
}
