//! Why a worker cannot go on.

use std::{io, path::PathBuf};

/// Why a worker cannot go on. A job that fails is no such reason: that is a [`transect_bench_core::Fault`] in an answer.
#[derive(Debug, thiserror::Error)]
pub enum WorkerError {
    /// What came is no message of this protocol.
    #[error(
        "line {line} of the input is not a message of protocol {}: {why} (it begins with {begins:?})",
        transect_bench_core::protocol::PROTOCOL
    )]
    Garbage {
        /// From 1.
        line: u64,
        /// What the parser says.
        why: String,
        /// The beginning of the line.
        begins: String,
    },
    /// A message that has no place where it came.
    #[error(
        "{message} is out of order {when}; the order is {}",
        "Prepare, Go, then optionally Cancel"
    )]
    OutOfTurn {
        /// Its name.
        message: &'static str,
        /// What the worker was doing.
        when: &'static str,
    },
    /// The system refuses what the worker cannot do without.
    #[error("cannot {what}: {error}")]
    System {
        /// What it tried.
        what: String,
        /// What the system says.
        error: io::Error,
    },
    /// A folder that cannot be made or written.
    #[error("cannot use {folder} for jobs: {error}; choose another folder with --folder")]
    Folder {
        /// The folder.
        folder: PathBuf,
        /// What the system says.
        error: io::Error,
    },
}

impl WorkerError {
    /// For `map_err`: it could not do this.
    pub(crate) fn system<E: Into<io::Error>>(what: impl Into<String>) -> impl FnOnce(E) -> Self {
        let what = what.into();
        move |error| Self::System { what, error: error.into() }
    }

    /// 2 for nonsense that it was told, 1 for everything else.
    pub(crate) fn exit_code(&self) -> u8 {
        match self {
            Self::Garbage { .. } | Self::OutOfTurn { .. } => 2,
            Self::System { .. } | Self::Folder { .. } => 1,
        }
    }
}
