//! `transect bench worker`: the side inside a machine. Not for people.

use anyhow::Context as _;
use std::{path::PathBuf, process::ExitCode};
use transect_bench_worker::{self as worker, Mode, Own};

/// Arguments of `transect bench worker`.
#[derive(clap::Args)]
pub(super) struct Args {
    /// Folder for the folders of jobs; default: below $TMPDIR, which platforms set to the machine's own disk
    #[arg(long, value_name = "DIR")]
    folder: Option<PathBuf>,
    /// Speak the protocol on behalf of the first process
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
    let below = |disk: std::ffi::OsString| PathBuf::from(disk).join("transect-bench");
    let given = args.folder.clone().or_else(|| std::env::var_os("TMPDIR").map(below));
    let folder = given.unwrap_or_else(|| PathBuf::from(Own::FOLDER));
    let shown = folder.display().to_string();
    let own = Own {
        program: std::env::current_exe().context("cannot find the path of this program")?,
        arguments: ["bench", "worker", "--folder", &shown].map(str::to_owned).to_vec(),
        folder,
    };
    Ok(worker::run(mode, &own))
}
