//! Making the timeline's tiles of tables, or only decoding the columns they are made of.

use super::protocol;
use super::states::Pace;
use anyhow::Result;
use clap::Args;
use std::{path::PathBuf, sync::atomic::AtomicBool, time::Instant};
use transect_timeline::Build;

/// `ratios role tiles`.
#[derive(Debug, Args)]
pub struct Tiles {
    /// A folder of tables.
    tables: PathBuf,
    /// An empty folder, for the tiles.
    parent: PathBuf,
    /// Events that the tables were made of.
    events: u64,
    /// Only decode the columns.
    #[arg(long)]
    floor: bool,
    /// Open tiles that are there, and give the first screen of them.
    #[arg(long, conflicts_with = "floor")]
    open: bool,
}

impl Tiles {
    pub(super) fn play(&self) -> Result<()> {
        let begun = Instant::now();
        let stop = AtomicBool::new(false);
        let threads = std::thread::available_parallelism()?.get();
        let (tables, parent) = (&self.tables, &self.parent);
        let (progress, partial) = (|_| (), |_| ());
        let build =
            Build { tables, parent, threads, progress: &progress, partial: &partial, stop: &stop };
        match (self.floor, self.open) {
            (true, _) => anyhow::ensure!(build.read_only()? > 0, "the tables are empty"),
            (_, true) => first_screen(&build)?,
            _ => anyhow::ensure!(!build.again()?.tracks().is_empty(), "the timeline has no tracks"),
        }
        protocol::told(&Pace::since(begun, self.events)?)
    }
}

/// Requests of a page before it can draw: tracks, keys, and the whole recording of the first tracks.
fn first_screen(build: &Build<'_>) -> Result<()> {
    const TRACKS: usize = 60;
    let view = build.ensure()?;
    view.tracks_batch()?;
    view.keys_batch()?;
    let tracks = view.tracks().iter().filter(|track| track.intervals > 0).take(TRACKS);
    let tracks = tracks.map(|track| track.track).collect();
    let level = view.top_level().saturating_sub(1);
    let request = transect_timeline::TilesRequest { level, first: 0, count: 2, tracks };
    view.tiles(&request, transect_timeline::MAX_ROWS)?;
    Ok(())
}
