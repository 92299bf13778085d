//! What can go wrong with a recording directory, each with the place and the mend.

use std::{io, path::PathBuf};
use transect_access::FolderError;
use transect_integrity::{Damage, damage_in};

/// An error of this crate.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// A file could not be made, read, written or renamed.
    #[error("{}: cannot {action}: {source}", path.display())]
    Io {
        /// What was tried, as a verb phrase.
        action: &'static str,
        /// The file or directory.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The file system is full. What was written until now stays readable.
    #[error(
        "{}: the file system is full; data recorded so far is kept and can be read. \
         Free space, or record with -o on another file system, fewer events (-e) or --duration",
        path.display()
    )]
    NoSpace {
        /// The file that could not grow.
        path: PathBuf,
    },
    /// There is not enough space to begin.
    #[error(
        "{}: nothing was recorded: the file system has {} KiB free, and a recording needs at least {} KiB. Free space, \
         or record with -o on another file system", dir.display(), free_bytes >> 10, needed_bytes >> 10
    )]
    NoRoom {
        /// The recording that was to be made.
        dir: PathBuf,
        /// Bytes that are free.
        free_bytes: u64,
        /// Bytes that are needed.
        needed_bytes: u64,
    },
    /// The directory, or one of its files, was removed while it was written.
    #[error("{}: removed while it was recorded, or files of it were: nothing more can be kept, and the files are gone", .0.display())]
    Removed(PathBuf),
    /// The directory has another name now.
    #[error(
        "{}: moved to {} while it was recorded: its events until then are there (transect report {})",
        from.display(), to.display(), to.display()
    )]
    Moved {
        /// Where it was made.
        from: PathBuf,
        /// Where it is.
        to: PathBuf,
    },
    /// `record` would have written into a directory that holds something.
    #[error("{} exists and is not empty: choose another directory with -o, or remove it", .0.display())]
    Exists(PathBuf),
    /// Not a recording.
    #[error("{} is not a recording: it has no manifest.json{} (make one with transect record, or convert other traces with transect import)", dir.display(), contents_text(contents))]
    NotARecording {
        /// The directory.
        dir: PathBuf,
        /// The files in it.
        contents: Vec<String>,
    },
    /// The manifest cannot be understood.
    #[error("{}: cannot read the manifest: {reason}; copy the recording again from where it came from", path.display())]
    Manifest {
        /// The manifest.
        path: PathBuf,
        /// Which line or field, and why.
        reason: String,
    },
    /// The manifest is not what was written.
    #[error(
        "{}: damaged: {reason}; copy the recording again from where it came from. Its files of events can be read \
         one by one, without what the manifest has about them (names of VMs, vCPU threads, gaps): transect report \
         DIRECTORY/FILE",
        path.display()
    )]
    DamagedManifest {
        /// The manifest.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// A file of events of a finished recording is not there.
    #[error("{}: the file is missing; copy it again from where the recording came from", .0.display())]
    MissingSource(PathBuf),
    /// A name that would leave the directory, or that is no name (a guest may send anything).
    #[error(
        "{name:?} is not a valid {what}: only letters, digits, '_', '-', '.' and, in meta files, '/' between names"
    )]
    Name {
        /// What the name was to be used for.
        what: &'static str,
        /// The name.
        name: String,
    },
    /// Bytes that are not whole sub-buffers would shift every later page of the spool.
    #[error("{}: {bytes} bytes are not a multiple of the sub-buffer size of {sub_buffer_bytes}; rejected, the spool is unchanged", path.display())]
    NotWholePages {
        /// The spool.
        path: PathBuf,
        /// How many bytes were offered.
        bytes: usize,
        /// What they must be a multiple of.
        sub_buffer_bytes: u32,
    },
    /// A table that cannot be written as Parquet: a bug, or events of a shape nobody has met.
    #[error("table {table} cannot be written: {reason}; please report this")]
    Encode {
        /// The table.
        table: String,
        /// What the encoder said.
        reason: String,
    },
    /// The file system is full while tables are made. There are none now; the recording itself
    /// is not touched.
    #[error(
        "{}: the file system is full; the recording's tables were not made. Free space, or set \
         XDG_CACHE_HOME to a file system with free space and make the recording's directory read-only",
        path.display()
    )]
    TablesNoSpace {
        /// The file that could not grow.
        path: PathBuf,
    },
    /// A table's file that cannot be read back.
    #[error(
        "{}: damaged: {reason}; copy or export an excerpt again; for any other recording, \
         'transect verify DIR --repair' makes the tables again",
        path.display()
    )]
    DamagedTable {
        /// The file.
        path: PathBuf,
        /// What the decoder said.
        reason: String,
    },
    /// A file of a folder of tables that is not what was written, or that is missing.
    #[error(
        "{0}; copy or export an excerpt again; for any other recording, 'transect verify DIR --repair' makes \
         the tables again"
    )]
    Damaged(#[from] Damage),
    /// A table's file with other columns than this version's.
    #[error(
        "{}: not the table {table} of this transect ({reason}): it was written by another version; \
         read it with that one, or export the excerpt again",
        path.display()
    )]
    OtherTable {
        /// The file.
        path: PathBuf,
        /// The table it should be of.
        table: &'static str,
        /// What is different.
        reason: String,
    },
    /// The file system is full while an excerpt is written. It is not there; the recording is not
    /// touched.
    #[error("{}: the file system is full; the excerpt was not written. Free space, or write it elsewhere", path.display())]
    ExcerptNoSpace {
        /// The file that could not grow.
        path: PathBuf,
    },
    /// An excerpt of which something is missing or does not fit.
    #[error("{}: {reason}; copy the excerpt again, or export it again from the recording", path.display())]
    BrokenExcerpt {
        /// The file or folder.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// A part of a recording that would be larger than whoever asked can take.
    #[error("the excerpt would exceed {} MiB: choose a shorter one, or write it with transect export --to recording", max_bytes >> 20)]
    ExcerptTooLarge {
        /// What is too much.
        max_bytes: u64,
    },
    /// A source whose meta files are missing or malformed cannot become a trace.dat.
    #[error("{}: cannot assemble trace.dat: {reason}", path.display())]
    Assemble {
        /// The file that was to be made.
        path: PathBuf,
        /// Why not.
        reason: String,
    },
}

/// Files of a directory that a message names.
const MOST_NAMES: usize = 6;

/// "; it contains host.dat, clocks.jsonl: read a trace.dat by itself with transect report DIR/host.dat"
fn contents_text(contents: &[String]) -> String {
    let named = contents.iter().take(MOST_NAMES).map(String::as_str).collect::<Vec<_>>().join(", ");
    let more = contents.len().saturating_sub(MOST_NAMES);
    let rest = if more > 0 { format!(" and {more} more") } else { String::new() };
    let dat = contents.iter().find(|name| name.ends_with(".dat"));
    let hint = dat
        .map_or_else(String::new, |name| format!("; 'transect report' reads its {name} by itself"));
    if contents.is_empty() {
        "; it is empty".to_owned()
    } else {
        format!("; it contains {named}{rest}{hint}")
    }
}

/// An error of opening or reading a file of tables, which may be that it is damaged.
pub(crate) fn read_error(
    action: &'static str,
    path: &std::path::Path,
) -> impl FnOnce(io::Error) -> StoreError {
    let path = path.to_owned();
    move |error| match damage_in(&error) {
        Some(damage) => StoreError::Damaged(damage.clone()),
        None => io_error(action, path)(error),
    }
}

/// The same for tables, which can be made again and are not kept in part.
pub(crate) fn of_tables(error: StoreError) -> StoreError {
    match error {
        StoreError::NoSpace { path } => StoreError::TablesNoSpace { path },
        other => other,
    }
}

/// The same for excerpts.
pub(crate) fn of_excerpt(error: StoreError) -> StoreError {
    match error {
        StoreError::NoSpace { path } | StoreError::TablesNoSpace { path } => {
            StoreError::ExcerptNoSpace { path }
        }
        other => other,
    }
}

/// Turns an I/O error into one that names the file; a full disk gets its own.
impl From<FolderError> for StoreError {
    fn from(error: FolderError) -> Self {
        io_error(error.action, error.path)(error.source)
    }
}

pub(crate) fn io_error(
    action: &'static str,
    path: impl Into<PathBuf>,
) -> impl FnOnce(io::Error) -> StoreError {
    let path = path.into();
    move |source| match source.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => StoreError::NoSpace { path },
        _ => StoreError::Io { action, path, source },
    }
}
