//! An excerpt: a recording that has the tables of a stretch of another's time, and no sources.
//!
//! It is a directory like any recording, with `manifest.json` and `tables/`. Its tables cannot be made
//! again, so [`open_excerpt`] refuses them where a file is missing, cut or too many, or has other columns than
//! this version knows, and whatever reads them verifies their content.

use crate::error::{StoreError, io_error, of_excerpt};
use crate::manifest::{Excerpt, Manifest};
use crate::tables::{Basis, Stamp, StampRead, TableFile, TablesFolder, Written, folders};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use transect_access::{Readers, create_dir, create_top};
use transect_integrity::{Damage, Folder, What, damage_in};
use transect_model::table::TABLES as ALL;

const TABLES: &str = crate::tables::FOLDER;

/// An excerpt's directory under way: made beside its place, and gone if it is not finished.
#[derive(Debug)]
pub struct ExcerptWriter {
    dir: PathBuf,
    part: PathBuf,
    is_finished: bool,
}

impl ExcerptWriter {
    /// Begins an excerpt that is to be the directory `dir`.
    ///
    /// # Errors
    /// There is something at `dir`, or it cannot be made.
    pub fn create(dir: &Path) -> Result<Self, StoreError> {
        let is_free = match fs::read_dir(dir) {
            Ok(mut entries) => entries.next().is_none(),
            Err(_) => fs::symlink_metadata(dir).is_err(),
        };
        if !is_free {
            return Err(StoreError::Exists(dir.to_owned()));
        }
        // `a/b/` is `a/b`: what is added must not become a name in it.
        let dir: PathBuf = dir.components().collect();
        let mut part = dir.clone();
        part.as_mut_os_string().push(".part");
        if part.exists() {
            // Of a run that was killed.
            fs::remove_dir_all(&part).map_err(io_error("remove", &part))?;
        }
        let tables = part.join(TABLES);
        create_top(&part, Readers::Owner).map_err(io_error("make", &part))?;
        create_dir(&tables).map_err(io_error("make", &tables))?;
        Ok(ExcerptWriter { dir, part, is_finished: false })
    }

    /// Where its tables go.
    pub fn tables(&self) -> PathBuf {
        self.part.join(TABLES)
    }

    /// All tables are written: the excerpt gets its name. `manifest` is the
    /// whole recording's with [`Manifest::excerpt`] set; what it says of sources is left out.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn finish(
        self,
        manifest: Manifest,
        excerpt: Excerpt,
        written: Written,
    ) -> Result<PathBuf, StoreError> {
        self.publish(manifest, excerpt, written).map_err(of_excerpt)
    }

    fn publish(
        mut self,
        mut manifest: Manifest,
        excerpt: Excerpt,
        written: Written,
    ) -> Result<PathBuf, StoreError> {
        let tables = self.tables();
        let basis = Basis::of_excerpt(&excerpt.transect, &excerpt);
        Stamp::write(&tables, basis, None, written)?;
        manifest.sources.clear();
        manifest.excerpt = Some(excerpt);
        manifest.write(&self.part)?;
        if self.dir.is_dir() {
            // An empty one that was there before.
            fs::remove_dir(&self.dir).map_err(io_error("replace", &self.dir))?;
        }
        fs::rename(&self.part, &self.dir).map_err(io_error("name", &self.dir))?;
        self.is_finished = true;
        Ok(self.dir.clone())
    }
}

impl Drop for ExcerptWriter {
    fn drop(&mut self) {
        if !self.is_finished {
            // What cannot be removed now, the next run does.
            let _ = fs::remove_dir_all(&self.part);
        }
    }
}

/// The tables of the excerpt in `dir`, which is what `manifest` says.
///
/// # Errors
/// Files are missing, cut, too many, of other columns than this version's tables, or not those that
/// the manifest tells of.
pub fn open_excerpt(dir: &Path, excerpt: &Excerpt) -> Result<TablesFolder, StoreError> {
    let path = dir.join(TABLES);
    let broken =
        |path: &Path, reason: String| StoreError::BrokenExcerpt { path: path.to_owned(), reason };
    let stamp = match Stamp::look(&path) {
        StampRead::Whole(stamp) => *stamp,
        StampRead::Other => {
            let reason = "its tables have the layout of another version of transect".to_owned();
            return Err(broken(&path, reason));
        }
        StampRead::None | StampRead::Damaged => {
            return Err(broken(&path, "its stamp.json is missing or damaged".to_owned()));
        }
    };
    if !stamp.basis.is_of(excerpt) {
        let Excerpt { from, until, .. } = excerpt;
        let reason =
            format!("these are not the tables of {from} to {until} that the manifest lists");
        return Err(broken(&path, reason));
    }
    let folder = Folder::open(&path).map_err(|error| broken_by(&path, error))?;
    if !folder.is_verified() {
        return Err(broken(&path, "its checksums.bin is missing".to_owned()));
    }
    check_columns(&folder, &stamp).map_err(of_broken)?;
    Ok(TablesFolder { path, stamp, is_new: false })
}

/// What is wrong with an excerpt's files, with what to do about it.
fn broken_by(path: &Path, error: io::Error) -> StoreError {
    match damage_in(&error) {
        Some(damage) => of_broken(StoreError::Damaged(damage.clone())),
        None => io_error("read", path)(error),
    }
}

/// The same for an excerpt, whose tables cannot be made again.
pub fn of_broken(error: StoreError) -> StoreError {
    match error {
        StoreError::Damaged(Damage { path, what: What::Unlisted }) => {
            let reason = "the file is not the excerpt's".to_owned();
            StoreError::BrokenExcerpt { path, reason }
        }
        StoreError::Damaged(Damage { path, what }) => {
            StoreError::BrokenExcerpt { path, reason: what.to_string() }
        }
        other => other,
    }
}

/// Are the columns of every table those of the model, and the rows as many as the stamp says?
fn check_columns(tables: &Folder, stamp: &Stamp) -> Result<(), StoreError> {
    let mut found = Vec::new();
    for table in ALL {
        let mut rows = 0;
        for folder in folders(tables, table.name)? {
            for file in folder.buckets.iter().chain(&folder.late) {
                let file = TableFile::open(file)?;
                file.check(table)?;
                rows += file.rows();
            }
        }
        found.push((table.name, rows));
    }
    for (table, rows) in found {
        let said = stamp.rows.get(table).copied().unwrap_or(0);
        if said != rows {
            let (path, reason) = (tables.dir().join(table), format!("{rows} rows of {said}"));
            return Err(StoreError::BrokenExcerpt { path, reason });
        }
    }
    Ok(())
}
