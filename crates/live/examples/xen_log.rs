//! A log for `transect top FILE` of a file that xentrace wrote: what the screen would have shown.
//!
//! `cargo run -p transect-live --example xen_log -- FILE.bin TSC_HZ MINOR PCPUS WINDOW_MS >log.jsonl`

#![allow(clippy::print_stderr, reason = "an example's errors are for its caller")]

use std::{
    error::Error,
    io::{BufWriter, Write as _, stdout},
};
use transect_live::{XenWindows, lines};
use transect_xen::{CpuHz, Facts, Version};

fn main() -> Result<(), Box<dyn Error>> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [file, hz, minor, pcpus, window_ms] = args.as_slice() else {
        eprintln!("FILE.bin TSC_HZ MINOR PCPUS WINDOW_MS");
        return Ok(());
    };
    let facts = Facts {
        version: Version { major: 4, minor: minor.parse()?, extra: String::new() },
        cpu_hz: CpuHz { hz: hz.parse()?, ..CpuHz::default() },
        cpu_count: pcpus.parse()?,
        event_mask: 0x003f_f000,
        ..Facts::default()
    };
    let mut windows = XenWindows::new(facts, window_ms.parse::<u64>()? * 1_000_000)?;
    let mut out = BufWriter::new(stdout().lock());
    for piece in std::fs::read(file)?.chunks(64 << 10) {
        windows.bytes(piece, i64::MAX)?;
        while windows.is_complete() {
            lines::write(&windows.window(None)?, &mut out)?;
        }
    }
    Ok(out.flush()?)
}
