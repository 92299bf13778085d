//! A cost comparison as a whole, for the nested host: its rounds as one line of JSON.

use super::protocol;
use super::work::Loop;
use crate::{bed::Bed, scenarios::costs_inside};
use anyhow::Result;
use clap::Args;

/// `ratios role costs`.
#[derive(Debug, Args)]
pub struct CostsOf {
    /// Which loop.
    #[arg(value_enum)]
    operation: Loop,
    /// How often.
    #[arg(long)]
    rounds: usize,
}

impl CostsOf {
    pub(super) fn play(&self) -> Result<()> {
        let bed = Bed::new(Some(self.rounds), true)?;
        protocol::told(&costs_inside(&bed, self.operation)?)
    }
}
