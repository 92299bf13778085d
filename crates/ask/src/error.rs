//! Errors of a query, each one line.

use crate::protocol::{Kind, Refusal};
use std::io;
use std::path::PathBuf;
use std::time::Duration;

/// A query that has no answer.
#[derive(Debug, thiserror::Error)]
pub enum AskError {
    /// The engine is not installed.
    #[error(
        "SQL needs the program {name} in the same folder as {here}, and it is not there: `make build` builds it; install both in one folder",
        name = crate::NAME,
        here = here.display()
    )]
    Missing {
        /// This program.
        here: PathBuf,
    },
    /// The engine has another version or protocol.
    #[error("{}: version mismatch: it is {theirs}, this program is {ours}: install the same version of both", path.display())]
    Version {
        /// The engine.
        path: PathBuf,
        /// The engine's version.
        theirs: String,
        /// This program's version.
        ours: String,
    },
    /// The engine cannot be started.
    #[error("{}: {source}", path.display())]
    Start {
        /// The engine.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// The engine refused the query.
    #[error("{}", .0.message)]
    Refused(Refusal),
    /// The child exited.
    #[error("the query engine ended: {0}")]
    Ended(String),
    /// The child violated the protocol and was killed.
    #[error("the query engine was killed: protocol error: {0}")]
    Confused(String),
    /// The query exceeded its time limit.
    #[error("the query took longer than {} s and was stopped: restrict ts or machine_id", .0.as_secs())]
    TooLong(Duration),
    /// The answer exceeded its byte limit.
    #[error("the answer is larger than {} MiB and the query was stopped: select fewer rows or columns", .0 >> 20)]
    TooLarge(u64),
    /// The caller cancelled the query.
    #[error("stopped")]
    Stopped,
    /// All children are busy, and the client's owner has fewer than its limit.
    #[error("too many queries at once: try again")]
    Busy,
    /// The client's owner has its limit of children, and all of them are busy.
    #[error(
        "too many queries at once: all {0} query engines of this client are busy: try again when one of them is done"
    )]
    TooMany(usize),
}

impl AskError {
    /// True if the query's text must be changed.
    pub fn is_bad_sql(&self) -> bool {
        matches!(self, AskError::Refused(Refusal { kind: Kind::Sql, .. }))
    }
}
