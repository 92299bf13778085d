//! Filters that need the machine: what a cgroup's path means.

use std::{
    fs,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
};

use crate::BpfError;

/// A cgroup as the programs know it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Cgroup {
    /// Its id: the inode of its folder (kernfs, 64-bit since 5.5).
    pub(crate) id: u64,
    /// How deep it lies below the root, which is 0.
    pub(crate) level: u32,
}

/// Finds a cgroup by its path below the mount of the unified hierarchy, or by its full path.
pub(crate) fn cgroup(path: &Path) -> Result<Cgroup, BpfError> {
    let root = unified_root().ok_or_else(|| {
        BpfError::Plan(
            "no unified cgroup hierarchy (cgroup2) is mounted: use --filter pid= instead of cgroup=".into(),
        )
    })?;
    let below = path.strip_prefix(&root).or_else(|_| path.strip_prefix("/")).unwrap_or(path);
    let full = root.join(below);
    let metadata =
        fs::metadata(&full).map_err(BpfError::system(format!("cgroup {}", full.display())))?;
    let level = u32::try_from(below.components().count()).unwrap_or(u32::MAX);
    Ok(Cgroup { id: metadata.ino(), level })
}

fn unified_root() -> Option<PathBuf> {
    let mounts = fs::read_to_string("/proc/self/mounts").ok()?;
    let mut words = mounts.lines().map(|line| line.split(' ').collect::<Vec<_>>());
    words
        .find(|words| words.get(2) == Some(&"cgroup2"))
        .and_then(|words| words.get(1).map(PathBuf::from))
}
