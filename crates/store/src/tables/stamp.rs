//! What a folder of tables was made from: when it is stale, it is made again.
//!
//! A recording is known by the names, lengths and times of change of its files, not by its path: one that is
//! moved, renamed or named through a link keeps its tables.

use super::written::{Problems, Written};
use crate::error::{StoreError, io_error, of_tables};
use crate::manifest::Excerpt;
use rustc_hash::FxHasher;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs;
use std::hash::{Hash, Hasher};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};
use transect_integrity::{LIST_FILE_NAME, ListSum, Seal, seal, seal_of};
use transect_model::table::TABLES;

pub use transect_integrity::STAMP_FILE_NAME;

/// Version of the folder's layout (README.md); raise it with every change.
const LAYOUT: u32 = 2;

/// Everything that the tables depend on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Basis {
    layout: u32,
    /// Fingerprint of every table's columns.
    schema: String,
    /// The program that made them.
    engine: String,
    /// How the recording was read.
    options: String,
    sources: Vec<SourceFile>,
}

/// A file that was read. Its contents are not hashed: length and time of change tell.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct SourceFile {
    name: String,
    bytes: u64,
    modified_unix_ns: i128,
}

impl Basis {
    /// Looks at the files that the tables are to be made from, each with the name that it is known by: within
    /// its recording. `engine` names the program (any change of it may change rows), `options` how it reads.
    ///
    /// # Errors
    /// A file cannot be looked at.
    pub fn new<'a>(
        engine: &str,
        options: &str,
        files: impl IntoIterator<Item = (String, &'a Path)>,
    ) -> Result<Self, StoreError> {
        let sources = files.into_iter().map(|(name, path)| source_file(name, path));
        let sources = sources.collect::<Result<_, _>>()?;
        Ok(Basis {
            layout: LAYOUT,
            schema: schema_fingerprint(),
            engine: engine.to_owned(),
            options: options.to_owned(),
            sources,
        })
    }

    /// Of an excerpt's tables, which are made from other tables: what they are is what range they
    /// have. They are never stale.
    pub(crate) fn of_excerpt(engine: &str, excerpt: &Excerpt) -> Self {
        let Excerpt { from, until, .. } = excerpt;
        Basis {
            layout: LAYOUT,
            schema: schema_fingerprint(),
            engine: engine.to_owned(),
            options: format!("excerpt {from} {until}"),
            sources: Vec::new(),
        }
    }

    /// Are these the tables of that excerpt? Whichever program made them.
    pub(crate) fn is_of(&self, excerpt: &Excerpt) -> bool {
        self.options == Self::of_excerpt("", excerpt).options
    }
}

fn source_file(name: String, path: &Path) -> Result<SourceFile, StoreError> {
    let metadata = fs::metadata(path).map_err(io_error("stat", path))?;
    let modified = metadata.modified().map_err(io_error("stat", path))?;
    Ok(SourceFile { name, bytes: metadata.len(), modified_unix_ns: unix_ns(modified) })
}

fn unix_ns(time: SystemTime) -> i128 {
    let ns = |since: std::time::Duration| i128::try_from(since.as_nanos()).unwrap_or(i128::MAX);
    match time.duration_since(UNIX_EPOCH) {
        Ok(since) => ns(since),
        Err(before) => -ns(before.duration()),
    }
}

fn schema_fingerprint() -> String {
    let mut hash = FxHasher::default();
    for table in TABLES {
        table.name.hash(&mut hash);
        for column in table.columns {
            (column.name, column.ty, column.nullable).hash(&mut hash);
        }
    }
    format!("{:016x}", hash.finish())
}

/// A folder of tables says of itself what it is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stamp {
    /// What it was made from.
    pub basis: Basis,
    /// Where the recording was then; none for an excerpt. Tables elsewhere, in the cache, are removed with it.
    pub(crate) origin: Option<PathBuf>,
    /// When, in ns since 1970, UTC.
    pub made_unix_ns: i128,
    /// Rows of each table, and of each event as `events/NAME`.
    pub rows: BTreeMap<String, u64>,
    /// What the sources lost.
    pub problems: Problems,
    /// The list of the files' checksums that this stamp belongs to.
    pub(crate) checksums: ListSum,
}

/// What a stamp's file says.
pub(crate) enum Read {
    /// There is none.
    None,
    /// It is not what was written.
    Damaged,
    /// Of another version.
    Other,
    /// It is whole.
    Whole(Box<Stamp>),
}

impl Stamp {
    /// The stamp of a folder of tables; none if there is none that is whole and that this version understands.
    pub fn read(tables: &Path) -> Option<Self> {
        match Self::look(tables) {
            Read::Whole(stamp) => Some(*stamp),
            _ => None,
        }
    }

    pub(crate) fn look(tables: &Path) -> Read {
        let text = match fs::read(tables.join(STAMP_FILE_NAME)) {
            Ok(bytes) => bytes,
            Err(_) => return Read::None,
        };
        let Ok(text) = String::from_utf8(text) else { return Read::Damaged };
        match seal_of(&text) {
            Seal::Broken => Read::Damaged,
            Seal::Whole => match serde_json::from_str::<Stamp>(&text) {
                Ok(stamp) if stamp.basis.layout == LAYOUT => Read::Whole(Box::new(stamp)),
                _ => Read::Other,
            },
            // Layout 1 had no seal. A later one without it is damaged.
            Seal::None => match layout(&text) {
                Some(1) => Read::Other,
                _ => Read::Damaged,
            },
        }
    }

    /// Writes the list of checksums into the folder of tables, and the stamp that belongs to it.
    pub(crate) fn write(
        tables: &Path,
        basis: Basis,
        origin: Option<&Path>,
        written: Written,
    ) -> Result<Self, StoreError> {
        let Written { rows, sums, problems } = written;
        let list = sums.encode();
        let stamp = Stamp {
            basis,
            origin: origin.map(Path::to_owned),
            made_unix_ns: unix_ns(SystemTime::now()),
            rows,
            problems,
            checksums: ListSum::of(&list),
        };
        let json = serde_json::to_string_pretty(&stamp).unwrap_or_default();
        create(&tables.join(LIST_FILE_NAME), &list)
            .and_then(|()| create(&tables.join(STAMP_FILE_NAME), seal(&json).as_bytes()))
            .map_err(of_tables)?;
        Ok(stamp)
    }

    pub(crate) fn is_of_excerpt(&self) -> bool {
        self.origin.is_none()
    }

    /// Is the recording still where it was?
    pub(crate) fn has_origin(&self) -> bool {
        self.origin.as_ref().is_none_or(|origin| origin.exists())
    }
}

fn layout(stamp: &str) -> Option<u32> {
    let stamp: serde_json::Value = serde_json::from_str(stamp).ok()?;
    u32::try_from(stamp.get("basis")?.get("layout")?.as_u64()?).ok()
}

fn create(path: &Path, content: &[u8]) -> Result<(), StoreError> {
    let mut file = transect_access::create_file(path).map_err(io_error("make", path))?;
    let written = file.write_all(content).and_then(|()| file.sync_all());
    written.map_err(io_error("write", path))
}
