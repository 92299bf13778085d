//! Why there is no answer, in one line for people.

use crate::protocol::{Kind, Refusal};
use std::io;
use std::path::PathBuf;
use std::time::Duration;

/// Why there is no (further) answer.
#[derive(Debug, thiserror::Error)]
pub enum AskError {
    /// The engine is not installed.
    #[error(
        "SQL needs the program {name}, which is not beside {here}: `make build` builds it, and packages of transect have it",
        name = crate::NAME,
        here = here.display()
    )]
    Missing {
        /// The program that looked for it.
        here: PathBuf,
    },
    /// It is of another build.
    #[error("{}: it is {theirs}, and this program {ours}: install the two together", path.display())]
    Version {
        /// The engine.
        path: PathBuf,
        /// What it says it is.
        theirs: String,
        /// What this side is.
        ours: String,
    },
    /// It cannot be started.
    #[error("{}: {source}", path.display())]
    Start {
        /// The engine.
        path: PathBuf,
        /// What the system says.
        source: io::Error,
    },
    /// The engine's own words.
    #[error("{}", .0.message)]
    Refused(Refusal),
    /// The process is gone.
    #[error("the query engine ended: {0}")]
    Ended(String),
    /// It said what is no part of the protocol.
    #[error("the query engine was ended: it answered {0}")]
    Confused(String),
    /// The time is over.
    #[error("the query took longer than {} s and was ended: narrow it down (ts, machine_id)", .0.as_secs())]
    TooLong(Duration),
    /// The answer is larger than what was asked for.
    #[error("the answer is larger than {} MiB, and the query was ended: ask for fewer rows or columns", .0 >> 20)]
    TooLarge(u64),
    /// Nobody waits for it any more.
    #[error("stopped")]
    Stopped,
    /// As many engines as may be are at work for others.
    #[error("too many questions at once: ask again")]
    Busy,
}

impl AskError {
    /// Is the query's text to blame, rather than the data or this machine?
    pub fn is_bad_sql(&self) -> bool {
        matches!(self, AskError::Refused(Refusal { kind: Kind::Sql, .. }))
    }
}
