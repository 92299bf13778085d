//! Where a recording's tables are, and how they get there: whole or not at all.
//!
//! They are made beside the old ones and swapped with them ([`transect_access::NewFolder`]). Tables that are not what was
//! written are made again, too.

use super::stamp::{Basis, Read, Stamp};
use super::written::Written;
use crate::error::{StoreError, io_error};
use rustc_hash::FxHasher;
use std::fs;
use std::hash::{Hash, Hasher};
use std::path::{Path, PathBuf};
use transect_access::{NewFolder, Readers, create_top, lock_folder};
use transect_integrity::{Damage, Folder, damage_in};

/// The folder of tables.
pub(crate) const TABLES: &str = "tables";

/// Tables that are there now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TablesFolder {
    /// Their folder.
    pub path: PathBuf,
    /// What it says of itself.
    pub stamp: Stamp,
    /// Were they made just now?
    pub is_new: bool,
}

impl TablesFolder {
    /// Is there something to make them again of? Not of an excerpt.
    pub fn can_be_made_again(&self) -> bool {
        self.stamp.has_origin() && !self.stamp.is_of_excerpt()
    }
}

/// The tables in `parent/tables` of the recording at `origin`: those that are there if they were made from this
/// basis and are what was written, else new ones. `make` fills the folder it is given; it gets the damage
/// that was found where there were tables of this basis.
///
/// Looks at stamp, list of checksums and lengths of the files; their content is verified as it is read.
///
/// # Errors
/// What `make` says, or the folder cannot be written. Then there are the tables that were there
/// before, or none.
pub fn ensure<E: From<StoreError>>(
    parent: &Path,
    origin: &Path,
    basis: &Basis,
    make: impl FnOnce(&Path, Option<&Damage>) -> Result<Written, E>,
) -> Result<TablesFolder, E> {
    if let Found::Fresh(found) = find(parent, basis) {
        return Ok(*found);
    }
    let _lock = lock_folder(parent).map_err(StoreError::from)?;
    // Another process may have made them while this one waited.
    let damage = match find(parent, basis) {
        Found::Fresh(found) => return Ok(*found),
        Found::Damaged(damage) => Some(damage),
        Found::Stale => None,
    };
    let origin = origin.canonicalize().map_err(io_error("resolve", origin))?;
    let new = NewFolder::begin(parent, TABLES).map_err(StoreError::from)?;
    let written = make(new.path(), damage.as_ref())?;
    let stamp = Stamp::write(new.path(), basis.clone(), Some(&origin), written)?;
    let path = new.publish().map_err(StoreError::from)?;
    Ok(TablesFolder { path, stamp, is_new: true })
}

/// Bytes of the events' own tables in `parent`, whatever they were made from; none where there are
/// no tables.
pub fn events_bytes(parent: &Path) -> Option<u64> {
    let mut folders = vec![parent.join(TABLES).join("events")];
    let mut bytes = None;
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).ok()?.flatten() {
            match entry.metadata() {
                Ok(meta) if meta.is_dir() => folders.push(entry.path()),
                Ok(meta) => bytes = Some(bytes.unwrap_or(0) + meta.len()),
                Err(_) => {}
            }
        }
    }
    bytes
}

/// What is there.
enum Found {
    /// Tables that were made from this basis, as they were written.
    Fresh(Box<TablesFolder>),
    /// Those of another basis, or none.
    Stale,
    /// They are not what was written.
    Damaged(Damage),
}

fn find(parent: &Path, basis: &Basis) -> Found {
    let path = parent.join(TABLES);
    let stamp = match Stamp::look(&path) {
        Read::Whole(stamp) if stamp.basis == *basis => Some(*stamp),
        Read::Whole(_) | Read::Other => return Found::Stale,
        Read::Damaged | Read::None => None,
    };
    match (Folder::open(&path), stamp) {
        (Ok(_), Some(stamp)) => Found::Fresh(Box::new(TablesFolder { path, stamp, is_new: false })),
        // No folder, or files of another program's.
        (Ok(_), None) => Found::Stale,
        (Err(error), _) => damage_in(&error).cloned().map_or(Found::Stale, Found::Damaged),
    }
}

/// Where tables go that cannot be beside their source (a bare file, a read-only recording):
/// `$XDG_CACHE_HOME/transect/tables/<hash of the source's path>`, made if it is not there. Tables
/// of recordings that are gone are removed from the cache.
///
/// # Errors
/// There is no home, or the folder cannot be made.
pub fn cache_for(source: &Path) -> Result<PathBuf, StoreError> {
    let variable = |name| std::env::var_os(name).filter(|value| !value.is_empty());
    let cache = variable("XDG_CACHE_HOME")
        .map(PathBuf::from)
        .or_else(|| variable("HOME").map(|home| Path::new(&home).join(".cache")))
        .map_or_else(shared_cache, |cache| Ok(cache.join("transect/tables")))?;
    let source = source.canonicalize().map_err(io_error("resolve", source))?;
    let mut hash = FxHasher::default();
    source.hash(&mut hash);
    let dir = cache.join(format!("{:016x}", hash.finish()));
    create_top(&dir, Readers::Owner).map_err(io_error("make", &dir))?;
    sweep(&cache);
    Ok(dir)
}

/// The cache in the directory for temporary files, in which other users can make directories, too.
fn shared_cache() -> Result<PathBuf, StoreError> {
    let user = rustix::process::geteuid().as_raw();
    let own = std::env::temp_dir().join(format!("transect-cache-{user}"));
    create_top(&own, Readers::Owner).map_err(io_error("make", &own))?;
    Ok(own.join("tables"))
}

/// Removes cached tables of files that are gone. Best effort: another process may do the same.
fn sweep(cache: &Path) {
    for entry in fs::read_dir(cache).into_iter().flatten().flatten() {
        let stamp = Stamp::read(&entry.path().join(TABLES));
        if stamp.is_some_and(|stamp| !stamp.has_origin()) {
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}
