//! `transect bench worker`: the side inside a machine. Not for people.

use std::process::ExitCode;
use transect_bench::worker;

/// Arguments of `transect bench worker`.
#[derive(clap::Args)]
pub(super) struct Args {
    /// One job only, of a worker that has started this one
    #[arg(long)]
    one: bool,
}

pub(super) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let mut arguments = vec!["bench".to_owned(), "worker".to_owned()];
    if args.one {
        arguments.push("--one".to_owned());
    }
    Ok(worker::main(&arguments))
}
