//! `transect-agent`: serves a guest kernel's events to a recorder on its host.
//!
//! **What.** One small static binary that runs as root in a guest. It waits on an AF_VSOCK port
//! or a virtio-serial port, and for each recorder that comes records its own kernel (with the
//! compact collector if the recorder wants that and the kernel can, else through a tracefs
//! instance) and streams the records, answering clock exchanges meanwhile.
//!
//! **Data flow.** [`args`] → [`doors`] (who comes in) → `transect_guest::serve` (the session) →
//! [`source`] (which collector) → [`compact`] (BPF programs and their logs), or [`full`] (tracefs
//! instance) → [`drain`] (ring buffers) → frames on the channel.
//!
//! **Design constraints.** Runs in guests with nothing but a kernel and busybox: no udev, no
//! config file, no tracefs mounted, no compiler, no libraries. Leaves nothing behind when the recorder, or it itself, dies.
//! Few dependencies, because every byte is carried into guests.
//!
//! ```text
//! transect-agent --vsock &
//! ```

mod args;
mod compact;
mod cpu_time;
mod doors;
mod drain;
mod facts;
mod full;
mod settings;
mod source;
mod terminal;

use args::{HELP, Wish, parse};
use doors::{House, Open, open, warning};
use std::{
    process::ExitCode,
    sync::{Arc, Mutex, atomic::AtomicBool},
    thread,
};
use terminal::note;

fn main() -> ExitCode {
    match parse(std::env::args().skip(1)) {
        Ok(Wish::Help) => {
            terminal::print(HELP);
            ExitCode::SUCCESS
        }
        Ok(Wish::Version) => {
            terminal::print(concat!("transect-agent ", env!("CARGO_PKG_VERSION"), "\n"));
            ExitCode::SUCCESS
        }
        Ok(Wish::Serve { doors, required }) => match open_doors(&doors, required) {
            Ok(open) => {
                for text in doors.iter().filter_map(warning) {
                    note!("transect-agent: {text}");
                }
                serve_until_told(open)
            }
            Err(why) => fail(1, &why),
        },
        Err(why) => fail(2, &format!("{why}; see transect-agent --help")),
    }
}

fn fail(code: u8, why: &str) -> ExitCode {
    note!("transect-agent: {why}");
    ExitCode::from(code)
}

/// Opens the doors the user named, or those that exist.
fn open_doors(doors: &[args::Door], required: bool) -> Result<Vec<Open>, String> {
    let mut opened = Vec::new();
    let mut refused = Vec::new();
    for door in doors {
        match open(door) {
            Ok(door) => opened.push(door),
            Err(why) => refused.push(why),
        }
    }
    if opened.is_empty() || (required && !refused.is_empty()) {
        return Err(refused.join("\n  and "));
    }
    Ok(opened)
}

fn serve_until_told(doors: Vec<Open>) -> ExitCode {
    let shutdown = Arc::new(AtomicBool::new(false));
    for signal in [signal_hook::consts::SIGTERM, signal_hook::consts::SIGINT] {
        if let Err(error) = signal_hook::flag::register(signal, Arc::clone(&shutdown)) {
            return fail(1, &format!("cannot handle signal {signal}: {error}"));
        }
    }
    for door in &doors {
        note!("transect-agent {}: waiting on {}", env!("CARGO_PKG_VERSION"), door.name());
    }
    let house = House { kernel: Mutex::new(source::Kernel), shutdown };
    thread::scope(|scope| {
        for door in &doors {
            let house = &house;
            scope.spawn(move || door.stand_at(house));
        }
    });
    ExitCode::SUCCESS
}
