//! The `transect` binary: parses the command line and hands over to one verb.
//!
//! **Design constraints.** A verb is one module under `verbs`, with its arguments, its `run` and
//! nothing of another verb. Errors are handled once, here: one line saying what, where and what
//! to do; exit code 1 for a run that failed, 2 for a command line that makes no sense.
//! A reader that goes away (`| head`) is not an error.

mod errors;
mod moment;
mod output;
#[cfg(test)]
mod pages;
mod recorders;
mod terminal;
mod verbs;

use clap::Parser;
use errors::{is_broken_pipe, one_line};
use std::process::ExitCode;

#[derive(Parser)]
#[command(
    name = "transect",
    version,
    about = "Record every layer of a virtualized system on one clock and report where the time went",
    after_help = "Examples:\n  \
        transect doctor                                  check which layers can be recorded\n  \
        transect record --guest vsock:3 --duration 5s    record the host and one guest for 5 s\n  \
        transect report transect-1.transect              report CPU time, waits and antagonists\n\n\
        Run 'transect COMMAND --help' for the options and examples of one command."
)]
struct Cli {
    #[command(subcommand)]
    verb: verbs::Verb,
}

fn main() -> ExitCode {
    terminal::print_panics();
    let cli = Cli::parse();
    match cli.verb.run() {
        Ok(code) => code,
        Err(error) if is_broken_pipe(&error) => ExitCode::SUCCESS,
        Err(error) => {
            terminal::error(&one_line(&error));
            ExitCode::FAILURE
        }
    }
}
