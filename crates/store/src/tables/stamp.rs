//! What a folder of tables was made from: when it is stale, it is made again.

use crate::error::{StoreError, io_error, of_tables};
use crate::manifest::Excerpt;
use rustc_hash::FxHasher;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs;
use std::hash::{Hash, Hasher};
use std::io::Write;
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};
use transect_model::table::TABLES;

/// The stamp's file name in the folder of tables. It is written last.
pub const STAMP_FILE_NAME: &str = "stamp.json";

/// Version of the folder's layout (README.md); raise it with every change.
const LAYOUT: u32 = 1;

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
    path: String,
    bytes: u64,
    modified_unix_ns: i128,
}

impl Basis {
    /// Looks at the files that the tables are to be made from. `engine` names the program (any
    /// change of it may change rows), `options` how it reads.
    ///
    /// # Errors
    /// A file cannot be looked at.
    pub fn new<'a>(
        engine: &str,
        options: &str,
        files: impl IntoIterator<Item = &'a Path>,
    ) -> Result<Self, StoreError> {
        let sources = files.into_iter().map(source_file).collect::<Result<_, _>>()?;
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

    /// Are the files laid out as this version does it?
    pub(crate) fn has_our_layout(&self) -> bool {
        self.layout == LAYOUT
    }

    /// Do all files that the tables were made from still exist?
    pub(crate) fn has_sources(&self) -> bool {
        self.sources.iter().all(|source| Path::new(&source.path).exists())
    }
}

fn source_file(path: &Path) -> Result<SourceFile, StoreError> {
    let metadata = fs::metadata(path).map_err(io_error("stat", path))?;
    let modified = metadata.modified().map_err(io_error("stat", path))?;
    Ok(SourceFile {
        path: path.to_string_lossy().into_owned(),
        bytes: metadata.len(),
        modified_unix_ns: unix_ns(modified),
    })
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
    /// When, in ns since 1970, UTC.
    pub made_unix_ns: i128,
    /// Rows of each table, and of each event as `events/NAME`.
    pub rows: BTreeMap<String, u64>,
    /// Of an excerpt, every file and its length: what is missing or cut cannot be made again, and must
    /// not pass for a table without rows.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub files: BTreeMap<String, u64>,
}

impl Stamp {
    pub(crate) fn now(basis: Basis, rows: BTreeMap<String, u64>) -> Self {
        let files = BTreeMap::new();
        Stamp { basis, made_unix_ns: unix_ns(SystemTime::now()), rows, files }
    }

    /// The stamp of a folder of tables; none if there is none that this version understands.
    pub fn read(tables: &Path) -> Option<Self> {
        serde_json::from_slice(&fs::read(tables.join(STAMP_FILE_NAME)).ok()?).ok()
    }

    pub(crate) fn write(&self, tables: &Path) -> Result<(), StoreError> {
        let path = tables.join(STAMP_FILE_NAME);
        let json = serde_json::to_vec_pretty(self).unwrap_or_default();
        let file = transect_access::create_file(&path).map_err(io_error("make", &path));
        file.and_then(|mut file| {
            let written = file.write_all(&json).and_then(|()| file.sync_all());
            written.map_err(io_error("write", &path))
        })
        .map_err(of_tables)
    }
}
