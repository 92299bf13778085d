//! What can go wrong with a timeline: each error says what, where, and what to do.

use arrow::error::ArrowError;
use parquet::errors::ParquetError;
use std::io;
use std::path::{Path, PathBuf};
use transect_access::FolderError;
use transect_integrity::{Damage, KnownFile, damage_in};

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
    #[error("{path}: {reason}; 'transect verify DIR --repair' makes the tables again")]
    Table {
        /// The Parquet file.
        path: PathBuf,
        /// What its reader says.
        reason: String,
    },
    /// A file of tables is not what was written, or is missing.
    #[error("{0}; 'transect verify DIR --repair' makes the tables again")]
    Tables(#[from] Damage),
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
    /// The tiles are of other tables, or of another version's form.
    #[error("the tiles were made from other tables or by another version")]
    Stale,
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

    /// Are the tables damaged, so that making them and the tiles again helps?
    pub fn table_damage(&self) -> Option<&Damage> {
        match self {
            TimelineError::Tables(damage) => Some(damage),
            _ => None,
        }
    }
}

/// An error of opening or reading a file of tables, which may be that it is damaged.
pub(crate) fn read_error(
    action: &'static str,
    path: &Path,
) -> impl FnOnce(io::Error) -> TimelineError {
    let path = path.to_owned();
    move |error| match damage_in(&error) {
        Some(damage) => TimelineError::Tables(damage.clone()),
        None => io_error(action, &path)(error),
    }
}

/// What a reader of a table's file says. Where damage was found, its checksums know better what happened.
pub(crate) fn reader_error(file: &KnownFile, error: &dyn std::error::Error) -> TimelineError {
    match file.damage() {
        Some(damage) => TimelineError::Tables(damage.clone()),
        None => {
            let reason = error.to_string().lines().collect::<Vec<_>>().join(" ");
            TimelineError::Table { path: file.path().to_owned(), reason }
        }
    }
}

impl From<FolderError> for TimelineError {
    fn from(FolderError { action, path, source }: FolderError) -> Self {
        TimelineError::Io { action, path, source }
    }
}

pub(crate) fn io_error(
    action: &'static str,
    path: &Path,
) -> impl FnOnce(io::Error) -> TimelineError {
    let path = path.to_owned();
    move |source| TimelineError::Io { action, path, source }
}

pub(crate) fn table_error(file: &KnownFile) -> impl FnOnce(ParquetError) -> TimelineError {
    move |error| reader_error(file, &error)
}
