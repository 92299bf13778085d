//! `transect stop`: ends a running recording and waits until it is complete.

use crate::recorders::{self, Choice, Request};
use crate::terminal::say;
use std::process::ExitCode;

/// Arguments of `transect stop`.
#[derive(clap::Args)]
#[command(after_help = "Example:\n  transect record -o run.transect &\n  \
    transect stop              end it and print the name of the recording")]
pub(crate) struct Args {
    #[command(flatten)]
    recorder: Choice,
}

pub(crate) fn run(args: Args) -> anyhow::Result<ExitCode> {
    let found = recorders::find(&args.recorder, |_| true)?;
    let dir = recorders::ask(&found, Request::Stop)?;
    say!("{}", dir.display());
    Ok(ExitCode::SUCCESS)
}
