//! Every verb of the command line, one module each. A new verb adds its module, one line in
//! [`Verb`] and one in [`Verb::run`].

mod doctor;

use clap::Subcommand;
use std::process::ExitCode;

/// What to do.
#[derive(Subcommand)]
pub(crate) enum Verb {
    /// Say what this machine allows, what is missing, and the one command that mends it
    Doctor(doctor::Args),
}

impl Verb {
    /// Runs the verb. The exit code is 0, or 1 where the verb's own result is "no".
    pub(crate) fn run(self) -> anyhow::Result<ExitCode> {
        match self {
            Verb::Doctor(args) => doctor::run(args),
        }
    }
}
