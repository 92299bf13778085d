//! `transect doctor`.

use std::process::ExitCode;

/// Arguments of `transect doctor`.
#[derive(clap::Args)]
pub(crate) struct Args {}

pub(crate) fn run(_args: Args) -> anyhow::Result<ExitCode> {
    Ok(ExitCode::SUCCESS)
}
