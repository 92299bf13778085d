//! The cache of images: folders named by what they were made from, made once, never changed.
//!
//! Lives outside the clone, in `TRANSECT_CACHE` or `${XDG_CACHE_HOME:-~/.cache}/transect`. Safe under
//! parallel use: one maker at a time per entry (file lock), and an entry appears complete or not at all (rename).

use std::fs::{self, File};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

/// The cache's folder (not created by this call).
pub fn folder() -> Result<PathBuf> {
    let absolute =
        |name: &str| std::env::var_os(name).map(PathBuf::from).filter(|p| p.is_absolute());
    if let Some(own) = std::env::var_os("TRANSECT_CACHE").filter(|value| !value.is_empty()) {
        return std::path::absolute(own).context("TRANSECT_CACHE");
    }
    if let Some(user) =
        absolute("XDG_CACHE_HOME").or(absolute("HOME").map(|home| home.join(".cache")))
    {
        return Ok(user.join("transect"));
    }
    bail!("no place for images: set TRANSECT_CACHE (or HOME) to an absolute path")
}

/// The entry `name`: as it is if it exists, else made by `make`, which fills an empty folder.
pub fn entry(name: &str, make: impl FnOnce(&Path) -> Result<()>) -> Result<PathBuf> {
    let folder = folder()?;
    let done = folder.join(name);
    if done.is_dir() {
        return Ok(done);
    }
    let locks = folder.join("locks");
    fs::create_dir_all(&locks).with_context(|| format!("cannot create {}", locks.display()))?;
    let lock = File::create(locks.join(name)).context("cannot create a lock in the cache")?;
    lock.lock().context("cannot lock a cache entry")?;
    if !done.is_dir() {
        let making = tempfile::Builder::new().prefix("making-").tempdir_in(&folder)?;
        make(making.path())
            .with_context(|| format!("while making {name} in {}", folder.display()))?;
        fs::rename(making.keep(), &done)
            .with_context(|| format!("cannot finish {}", done.display()))?;
    }
    Ok(done)
}

/// The name of an entry: `prefix` and a digest of everything it is made from.
#[derive(Clone)]
pub struct Key {
    prefix: String,
    hasher: DefaultHasher,
}

impl Key {
    /// Starts a key; `prefix` is for the people who look into the folder.
    pub fn new(prefix: &str) -> Self {
        Self { prefix: prefix.to_owned(), hasher: DefaultHasher::new() }
    }

    /// Adds one ingredient.
    #[must_use]
    pub fn with(mut self, ingredient: impl Hash) -> Self {
        ingredient.hash(&mut self.hasher);
        self
    }

    /// The finished name.
    pub fn name(&self) -> String {
        format!("{}-{:016x}", self.prefix, self.hasher.finish())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_depends_on_every_ingredient() {
        let name = |a: &str, b: &str| Key::new("x").with(a).with(b).name();
        assert_eq!(name("a", "b"), name("a", "b"));
        assert_ne!(name("a", "b"), name("ab", ""));
        assert!(name("a", "b").starts_with("x-"));
    }
}
