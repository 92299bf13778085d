//! What a role says to the harness that has started it, and how it hears of the end.

use serde::Serialize;
use std::io::{Read, Write};

/// Reports to the harness that tracing is on.
#[expect(clippy::print_stdout, reason = "the harness waits for it")]
pub(super) fn ready() -> anyhow::Result<()> {
    println!("READY");
    Ok(std::io::stdout().flush()?)
}

/// The last line.
#[expect(clippy::print_stdout, reason = "the harness reads it")]
pub(super) fn told(what: &impl Serialize) -> anyhow::Result<()> {
    println!("{}", serde_json::to_string(what)?);
    Ok(())
}

/// Until the harness closes our standard input.
pub(super) fn wait_for_the_end() -> anyhow::Result<()> {
    std::io::copy(&mut std::io::stdin().lock().by_ref(), &mut std::io::sink())?;
    Ok(())
}

/// CPU time of this process so far.
pub(super) fn cpu_seconds() -> f64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    // Exact up to 2^53 ns.
    #[expect(clippy::cast_precision_loss, reason = "a duration of minutes")]
    let seconds = time.tv_sec as f64 + time.tv_nsec as f64 / 1e9;
    seconds
}
