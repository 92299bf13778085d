//! What became of the rows: how many each table has, and the checksums of its files.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use transect_integrity::{FileSums, List};
use transect_model::table::ImportLog;

/// Tables that were written.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Written {
    /// Rows of each table, and of each event as `events/NAME`.
    pub rows: BTreeMap<String, u64>,
    /// Of every Parquet file, by its name from the folder of tables on.
    pub sums: List,
    /// What the sources lost.
    pub problems: Problems,
}

impl Written {
    /// Adds what was written into the same folder by another writer.
    pub fn extend(&mut self, other: Written) {
        for (table, rows) in other.rows {
            *self.rows.entry(table).or_insert(0) += rows;
        }
        self.sums.files.extend(other.sums.files);
        self.problems.extend(other.problems);
    }
}

/// Problems of the sources that lost data, as a stamp keeps them: whoever opens the tables can report them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Problems {
    /// How many there are.
    pub count: u64,
    /// The first of them.
    pub first: Vec<Problem>,
}

/// One of them: a row of `import_log`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Problem {
    /// The source.
    pub source: String,
    /// Where in it, if that is known.
    pub offset: Option<u64>,
    /// What is wrong.
    pub message: String,
}

impl Problems {
    /// So many are kept.
    const KEPT: usize = 20;

    /// The source of the engine's own rows.
    const ENGINE: &str = "engine";

    /// Takes a row of the import log; only one counts that says that a file lost data. What the engine could not
    /// explain in whole files does not.
    pub fn add(&mut self, row: &ImportLog) {
        if row.data_loss && row.source != Self::ENGINE {
            let ImportLog { source, offset, message, .. } = row.clone();
            self.extend(Problems { count: 1, first: vec![Problem { source, offset, message }] });
        }
    }

    fn extend(&mut self, other: Problems) {
        self.count += other.count;
        self.first.extend(other.first);
        self.first.truncate(Self::KEPT);
    }
}

/// The files of a folder that is being written, as all its writers know them.
#[derive(Debug)]
pub(crate) struct Files {
    tables: PathBuf,
    open: AtomicUsize,
    sums: Mutex<List>,
}

impl Files {
    pub(crate) fn below(tables: &Path) -> Self {
        Files { tables: tables.to_owned(), open: AtomicUsize::new(0), sums: Mutex::default() }
    }

    /// Files that are open now.
    pub(crate) fn open(&self) -> usize {
        self.open.load(Ordering::Relaxed)
    }

    pub(crate) fn opened(&self) {
        self.open.fetch_add(1, Ordering::Relaxed);
    }

    /// A file will not be written any more.
    pub(crate) fn closed(&self) {
        self.open.fetch_sub(1, Ordering::Relaxed);
    }

    /// A file is whole.
    pub(crate) fn add(&self, path: &Path, sums: FileSums) {
        let name = path.strip_prefix(&self.tables).unwrap_or(path);
        let name = name.to_string_lossy().into_owned();
        self.sums.lock().unwrap_or_else(PoisonError::into_inner).files.insert(name, sums);
    }

    /// The checksums of all that are whole.
    pub(crate) fn sums(&self) -> List {
        std::mem::take(&mut self.sums.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn first_losses_are_kept_and_all_are_counted() {
        let mut problems = Problems::default();
        for number in 0..30_u64 {
            problems.add(&ImportLog {
                source: "host.dat".to_owned(),
                offset: Some(number),
                message: "block 3: checksum mismatch".to_owned(),
                data_loss: number != 1,
            });
        }
        assert_eq!((problems.count, problems.first.len()), (29, 20));
        assert_eq!(problems.first[1].offset, Some(2));
    }
}
