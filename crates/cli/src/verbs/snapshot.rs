//! `transect snapshot`: has a flight recorder write what it holds.

use crate::recorders::Choice;
use crate::terminal::say;
use std::process::ExitCode;
use transect_recorder::SnapshotWindow;
use transect_recorder::control::{self, Request};

/// Arguments of `transect snapshot`.
#[derive(clap::Args)]
#[command(after_help = "Example:\n  transect record --flight-recorder -o slow.transect &\n  \
    transect snapshot               write slow.1.transect and print its name\n  \
    transect snapshot --last 5s     the last 5 seconds; what the buffers do not cover is unknown")]
pub(crate) struct Args {
    #[command(flatten)]
    recorder: Choice,
    /// Window of the snapshot: this long before now, e.g. 500ms, 5s, or 'all' for everything since the
    /// recorder was started [default: the recorder's --last]
    #[arg(long, value_name = "T")]
    last: Option<SnapshotWindow>,
}

pub(crate) fn run(args: Args) -> anyhow::Result<ExitCode> {
    let found = control::find(&args.recorder.into(), |state| state.flight_recorder)?;
    if !found.state.flight_recorder {
        anyhow::bail!(
            "the recorder, pid {}, writes {} continuously; only a recorder started with --flight-recorder takes snapshots (to end this one: transect stop)",
            found.state.pid,
            found.state.output.display()
        );
    }
    let dir = control::ask(&found, Request::Snapshot(args.last))?;
    say!("{}", dir.display());
    Ok(ExitCode::SUCCESS)
}
