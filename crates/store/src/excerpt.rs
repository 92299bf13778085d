//! An excerpt: a recording that has the tables of a stretch of another's time, and no sources.
//!
//! It is a directory like any recording, with `manifest.json` and `tables/`. Its tables cannot be made
//! again, so their stamp lists every file with its length, and [`open_excerpt`] looks whether all are
//! there, as long as they were, and with the columns that this version knows.

use crate::error::{StoreError, io_error, of_excerpt};
use crate::manifest::{Excerpt, Manifest};
use crate::tables::{Basis, Stamp, TableFile, TablesFolder, folders};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use transect_access::{Readers, create_dir, create_top};
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

    /// All tables are written, with so many rows each: the excerpt gets its name. `manifest` is the
    /// whole recording's with [`Manifest::excerpt`] set; what it says of sources is left out.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn finish(
        self,
        manifest: Manifest,
        excerpt: Excerpt,
        rows: BTreeMap<String, u64>,
    ) -> Result<PathBuf, StoreError> {
        self.publish(manifest, excerpt, rows).map_err(of_excerpt)
    }

    fn publish(
        mut self,
        mut manifest: Manifest,
        excerpt: Excerpt,
        rows: BTreeMap<String, u64>,
    ) -> Result<PathBuf, StoreError> {
        let tables = self.tables();
        let basis = Basis::of_excerpt(&excerpt.transect, &excerpt);
        let stamp = Stamp { files: lengths(&tables)?, ..Stamp::now(basis, rows) };
        stamp.write(&tables)?;
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
    let stamp = Stamp::read(&path)
        .ok_or_else(|| broken(&path, "its stamp.json is missing or damaged".to_owned()))?;
    if !stamp.basis.has_our_layout() {
        let reason = "its tables have the layout of another version of transect".to_owned();
        return Err(broken(&path, reason));
    }
    if !stamp.basis.is_of(excerpt) {
        let Excerpt { from, until, .. } = excerpt;
        let reason =
            format!("these are not the tables of {from} to {until} that the manifest lists");
        return Err(broken(&path, reason));
    }
    let found = lengths(&path)?;
    for (file, bytes) in &stamp.files {
        match found.get(file) {
            None => return Err(broken(&path.join(file), "the file is missing".to_owned())),
            Some(found) if found != bytes => {
                let reason = format!("the file has {found} bytes of {bytes}");
                return Err(broken(&path.join(file), reason));
            }
            Some(_) => {}
        }
    }
    if let Some(file) = found.keys().find(|file| !stamp.files.contains_key(*file)) {
        return Err(broken(&path.join(file), "the file is not the excerpt's".to_owned()));
    }
    check_columns(&path, &stamp)?;
    Ok(TablesFolder { path, stamp, is_new: false })
}

/// Are the columns of every table those of the model, and the rows as many as the stamp says?
fn check_columns(tables: &Path, stamp: &Stamp) -> Result<(), StoreError> {
    let mut found = Vec::new();
    for table in ALL {
        let mut rows = 0;
        for folder in folders(tables, table.name)? {
            for path in folder.buckets.iter().chain(&folder.late) {
                let file = TableFile::open(path)?;
                file.check(table)?;
                rows += file.rows();
            }
        }
        found.push((table.name, rows));
    }
    for (table, rows) in found {
        let said = stamp.rows.get(table).copied().unwrap_or(0);
        if said != rows {
            let (path, reason) = (tables.join(table), format!("{rows} rows of {said}"));
            return Err(StoreError::BrokenExcerpt { path, reason });
        }
    }
    Ok(())
}

/// Every file below the folder but its stamp, by its path from there, and its length.
fn lengths(tables: &Path) -> Result<BTreeMap<String, u64>, StoreError> {
    let mut found = BTreeMap::new();
    let mut dirs = vec![PathBuf::new()];
    while let Some(dir) = dirs.pop() {
        let path = tables.join(&dir);
        for entry in fs::read_dir(&path).map_err(io_error("list", &path))? {
            let entry = entry.map_err(io_error("list", &path))?;
            let name = dir.join(entry.file_name());
            // Not through links: an excerpt from elsewhere has none.
            let meta = entry.metadata().map_err(io_error("look at", entry.path()))?;
            if meta.is_dir() {
                dirs.push(name);
            } else if name != Path::new(crate::tables::STAMP_FILE_NAME) {
                found.insert(name.to_string_lossy().into_owned(), meta.len());
            }
        }
    }
    Ok(found)
}
