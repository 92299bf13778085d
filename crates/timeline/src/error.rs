//! What can go wrong with a timeline: each error says what, where, and what to do.

use arrow::error::ArrowError;
use parquet::errors::ParquetError;
use std::io;
use std::path::{Path, PathBuf};

/// Why tiles could not be made or read.
#[derive(Debug, thiserror::Error)]
pub enum TimelineError {
    /// A file or folder cannot be read or written.
    #[error("cannot {action} {path}: {source}")]
    Io {
        /// What was tried.
        action: &'static str,
        /// Where.
        path: PathBuf,
        /// What the system says.
        source: io::Error,
    },
    /// A table cannot be read.
    #[error("{path}: {reason}; remove the folder of tables to have it rebuilt")]
    Table {
        /// The Parquet file.
        path: PathBuf,
        /// What its reader says.
        reason: String,
    },
    /// A file of tiles is not what was written: cut, damaged, or of another version. Tiles are
    /// made from tables, so the answer is to make them again.
    #[error("{path}: byte {offset}: {what}; the tiles must be rebuilt")]
    Damaged {
        /// The file.
        path: PathBuf,
        /// Where in it.
        offset: u64,
        /// What is wrong there.
        what: &'static str,
    },
    /// The answer cannot be put into Arrow's form.
    #[error("cannot encode the answer: {0}")]
    Encode(#[from] ArrowError),
    /// Somebody asked for what there is not.
    #[error("{0}")]
    Request(String),
    /// The answer would have more rows than the caller accepts.
    #[error("more than {limit} rows: ask for fewer tiles at once")]
    TooManyRows {
        /// Rows that the caller accepts.
        limit: usize,
    },
    /// Whoever wanted the tiles went away.
    #[error("stopped")]
    Stopped,
}

impl TimelineError {
    /// Are the tiles bad, so that making them again helps?
    pub fn is_damage(&self) -> bool {
        matches!(self, TimelineError::Damaged { .. })
    }
}

pub(crate) fn io_error(
    action: &'static str,
    path: &Path,
) -> impl FnOnce(io::Error) -> TimelineError {
    let path = path.to_owned();
    move |source| TimelineError::Io { action, path, source }
}

pub(crate) fn table_error(path: &Path) -> impl FnOnce(ParquetError) -> TimelineError {
    let path = path.to_owned();
    move |error| TimelineError::Table { path, reason: error.to_string() }
}
