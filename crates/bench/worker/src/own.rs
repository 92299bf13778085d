//! The program that the worker is, and which of its processes.

use std::path::PathBuf;

/// What the worker knows of itself.
#[derive(Clone, Debug)]
pub struct Own {
    /// This program.
    pub program: PathBuf,
    /// The arguments that make it a worker again, as it was started; a [`Mode`] is put behind them.
    pub arguments: Vec<String>,
    /// Where the jobs' folders are made, on the disk that is to be measured. Created if it is not there; what is
    /// expensive to make stays in its folder `keep`.
    pub folder: PathBuf,
}

impl Own {
    /// Where jobs run unless something else is said: a disk, where `/tmp` may be memory.
    pub const FOLDER: &'static str = "/var/tmp/transect-bench";
}

/// Which of its processes the program is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// What a platform starts.
    Keeper,
    /// The worker proper. Internal.
    Serve,
    /// One job's workload. Internal.
    One,
}

impl Mode {
    /// The internal argument of [`Mode::Serve`].
    pub const SERVE: &'static str = "--serve";
    /// The internal argument of [`Mode::One`].
    pub const ONE: &'static str = "--one";

    /// Takes the internal argument off the end of a command line, if there is one.
    pub fn take(arguments: &mut Vec<String>) -> Self {
        let mode = match arguments.last().map(String::as_str) {
            Some(Self::SERVE) => Self::Serve,
            Some(Self::ONE) => Self::One,
            _ => return Self::Keeper,
        };
        arguments.pop();
        mode
    }
}
