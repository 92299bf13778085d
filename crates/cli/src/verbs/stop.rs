//! `transect stop`: ends a running recording and waits until it is complete.

use crate::recorders::Choice;
use crate::terminal::say;
use std::process::ExitCode;
use transect_recorder::control::{self, Request};

/// Arguments of `transect stop`.
#[derive(clap::Args)]
#[command(after_help = "Example:\n  transect record -o run.transect &\n  \
    transect stop              end it and print the name of the recording")]
pub(crate) struct Args {
    #[command(flatten)]
    recorder: Choice,
}

pub(crate) fn run(args: Args) -> anyhow::Result<ExitCode> {
    let found = control::find(&args.recorder.into(), |_| true)?;
    let dir = control::ask(&found, Request::Stop)?;
    say!("{}", dir.display());
    Ok(ExitCode::SUCCESS)
}
