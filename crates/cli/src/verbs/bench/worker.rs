//! `transect bench worker`: the side inside a machine. Not for people.

use anyhow::Context as _;
use std::{path::PathBuf, process::ExitCode};
use transect_bench::worker::{self, Mode, Own};

/// Arguments of `transect bench worker`.
#[derive(clap::Args)]
pub(super) struct Args {
    /// Where jobs have their folders
    #[arg(long, value_name = "DIR", default_value = Own::FOLDER)]
    folder: PathBuf,
    /// Speak the protocol, for the process that was started first
    #[arg(long, conflicts_with = "one")]
    serve: bool,
    /// Run one job
    #[arg(long)]
    one: bool,
}

pub(super) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let mode = match (args.serve, args.one) {
        (true, _) => Mode::Serve,
        (_, true) => Mode::One,
        _ => Mode::Keeper,
    };
    let folder = args.folder.display().to_string();
    let own = Own {
        program: std::env::current_exe().context("this program's own file")?,
        arguments: ["bench", "worker", "--folder", &folder].map(str::to_owned).to_vec(),
        folder: args.folder.clone(),
    };
    Ok(worker::run(mode, &own))
}
