//! The counting programs of live faces, with a reader that takes every window and throws it away.

use super::protocol;
use crate::traced::Traced;
use anyhow::{Context, Result, ensure};
use clap::{Args, ValueEnum};
use transect_bpf::live::{Live as Counting, LivePlan};

/// `ratios role live`.
#[derive(Debug, Args)]
pub struct Live {
    /// Work of the programs.
    #[arg(long, value_enum, default_value_t = Programs::Count)]
    programs: Programs,
    /// SYSTEM:EVENT [default: all that are counted]
    events: Vec<String>,
}

/// Work of the programs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Programs {
    /// The normal work.
    Count,
    /// No work.
    Empty,
}

impl Live {
    pub(super) fn play(&self) -> Result<()> {
        let plan = LivePlan {
            only: (!self.events.is_empty()).then(|| self.events.clone()),
            empty_programs: self.programs == Programs::Empty,
            ..LivePlan::default()
        };
        let mut live = Counting::load(&plan).context("the counting programs")?;
        live.start()?;
        let begun = protocol::cpu_seconds();
        // Ends with the process: a window takes a second.
        let reader = std::thread::spawn(move || -> Result<()> {
            loop {
                drop(live.take()?);
            }
        });
        protocol::ready()?;
        protocol::wait_for_the_end()?;
        let cpu_s = protocol::cpu_seconds() - begun;
        ensure!(!reader.is_finished(), "the reader failed");
        protocol::told(&Traced { events: None, lost: None, bytes: 0, cpu_s: Some(cpu_s) })
    }
}
