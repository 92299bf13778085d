//! A comparison of watchers as a whole, for the nested host: its rounds as one line of JSON.

use super::protocol;
use crate::{bed::Bed, scenarios::watched_inside};
use anyhow::Result;
use clap::Args;
use std::path::PathBuf;

/// `ratios role watched`.
#[derive(Debug, Args)]
pub struct Watched {
    /// The VMM of the load.
    counting: PathBuf,
    /// How often.
    #[arg(long)]
    rounds: usize,
}

impl Watched {
    pub(super) fn play(&self) -> Result<()> {
        let bed = Bed::new(Some(self.rounds), true)?;
        protocol::told(&watched_inside(&bed, &self.counting)?)
    }
}
