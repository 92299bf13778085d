//! `transect snapshot`: has a flight recorder write what it holds.

use crate::recorders::{self, Choice, Request};
use std::process::ExitCode;

/// Arguments of `transect snapshot`.
#[derive(clap::Args)]
#[command(after_help = "Example:\n  transect record --flight-recorder -o slow.transect &\n  \
    transect snapshot          write slow.1.transect and print its name")]
pub(crate) struct Args {
    #[command(flatten)]
    recorder: Choice,
}

pub(crate) fn run(args: Args) -> anyhow::Result<ExitCode> {
    let found = recorders::find(&args.recorder, |state| state.flight_recorder)?;
    if !found.state.flight_recorder {
        anyhow::bail!(
            "the recorder, pid {}, writes {} continuously; only a recorder started with --flight-recorder takes snapshots (to end this one: transect stop)",
            found.state.pid,
            found.state.output.display()
        );
    }
    let dir = recorders::ask(&found, Request::Snapshot)?;
    println!("{}", dir.display());
    Ok(ExitCode::SUCCESS)
}
