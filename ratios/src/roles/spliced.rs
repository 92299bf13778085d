//! A load recorded by raw ftrace, for where it is itself the load of a recorder.

use crate::traced::Traced;
use crate::{
    bed::{Bed, output},
    tracers::{Splice, Wish},
};
use anyhow::Result;
use clap::Args;
use std::{fs, path::PathBuf};

/// `ratios role spliced`.
#[derive(Debug, Args)]
pub struct Spliced {
    /// Recorded events.
    #[arg(long, value_enum)]
    events: super::pair::Set,
    /// Folder for the pages, and for `traced.json`.
    #[arg(long)]
    out: PathBuf,
    /// Command that runs during the recording.
    #[arg(required = true, last = true)]
    load: Vec<String>,
}

impl Spliced {
    pub(super) fn play(&self) -> Result<()> {
        let bed = Bed::new(None, false)?;
        let events = self.events.tracepoints();
        let wish = Wish { events, buffer_kib: 32 << 10, consumer_alone: false };
        let splice = Splice("local").beside(&bed, &wish, &self.out)?;
        let ended = output(&self.load);
        let traced: Traced = splice.end()?;
        ended?;
        Ok(fs::write(self.out.join("traced.json"), serde_json::to_vec(&traced)?)?)
    }
}
