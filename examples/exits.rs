//! Prints the VM exits of a recording: `cargo run -p transect-recording --example exits -- demo.transect`
use std::io::Write as _;
use transect_recording::Recording;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let path = std::env::args().nth(1).ok_or("usage: exits RECORDING")?;
    let tables = Recording::open(path)?.tables()?;
    let name = |id| {
        let machine = tables.machines.iter().find(|machine| machine.machine_id == id);
        machine.map_or("?", |machine| machine.name.as_str())
    };
    let mut out = std::io::stdout().lock();
    for exit in &tables.exits {
        let dur = exit.dur.map_or("open".to_owned(), |ns| format!("{ns} ns"));
        let (vm, vcpu) = (name(exit.machine_id), exit.vcpu);
        writeln!(out, "{} {vm} vCPU {vcpu} {} {dur}", exit.ts, exit.reason)?;
    }
    Ok(())
}
