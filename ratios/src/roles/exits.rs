//! The testbed's counting guest, timed: what an exit and its handling take, batch by batch.

use super::protocol;
use super::work::{Timed, pin};
use anyhow::{Context, ensure};
use clap::Args;
use std::{path::PathBuf, process::Command, time::Instant};

/// `ratios role exits`.
#[derive(Debug, Args)]
pub struct Exits {
    /// The VMM whose guest makes exactly the exits it is asked for.
    counting: PathBuf,
    /// Exits in a batch: hypercalls, the cheapest.
    #[arg(long)]
    ops: u32,
    /// How many batches.
    #[arg(long, default_value_t = 5)]
    batches: u32,
}

impl Exits {
    /// Time by the clock: the VMM has its CPU for itself, before all others. The first batch only warms up.
    pub(super) fn play(&self) -> anyhow::Result<()> {
        pin(0)?;
        let mut cpu_ns = Vec::new();
        for _ in 0..=self.batches {
            let begun = Instant::now();
            let output =
                Command::new(&self.counting).arg(format!("hypercalls={}", self.ops)).output();
            let output = output.with_context(|| self.counting.display().to_string())?;
            ensure!(output.status.success(), "the counting guest: {}", output.status);
            cpu_ns.push(begun.elapsed().as_secs_f64() * 1e9 / f64::from(self.ops));
        }
        cpu_ns.remove(0);
        protocol::told(&Timed { cpu_ns })
    }
}
