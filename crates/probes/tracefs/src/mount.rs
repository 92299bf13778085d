//! Finding tracefs, and mounting it where nobody has yet.

use crate::{TracefsError, files};
use procfs::process::Process;
use rustix::mount::{MountFlags, mount};
use std::{
    fs, io,
    path::{Path, PathBuf},
};

/// Where the kernel makes a mount point for tracefs (since 4.1).
const DEFAULT_PATH: &str = "/sys/kernel/tracing";

/// The mounted tracefs.
#[derive(Clone, Debug)]
pub struct Tracefs {
    root: PathBuf,
    mounted_now: bool,
}

impl Tracefs {
    /// Finds tracefs; mounts it at `/sys/kernel/tracing` if it is nowhere.
    ///
    /// # Errors
    /// No permission to see it or to mount it.
    pub fn find() -> Result<Self, TracefsError> {
        for path in candidates() {
            match fs::metadata(path.join("events")) {
                Ok(_) => return Ok(Tracefs { root: path, mounted_now: false }),
                Err(e) if e.kind() == io::ErrorKind::PermissionDenied => {
                    return Err(TracefsError::Permission(path));
                }
                Err(_) => {}
            }
        }
        let root = PathBuf::from(DEFAULT_PATH);
        mount("nodev", &root, "tracefs", MountFlags::empty(), None)
            .map_err(|e| TracefsError::Mount { path: root.clone(), source: e.into() })?;
        Ok(Tracefs { root, mounted_now: true })
    }

    /// Finds tracefs if it is mounted and this user can read it.
    pub fn mounted() -> Option<Self> {
        let is_readable = |root: &PathBuf| fs::metadata(root.join("events")).is_ok();
        let root = candidates().into_iter().find(is_readable)?;
        Some(Tracefs { root, mounted_now: false })
    }

    /// A directory that looks like tracefs: for tests of what needs no kernel.
    #[doc(hidden)]
    pub fn at(root: PathBuf) -> Self {
        Tracefs { root, mounted_now: false }
    }

    /// Was it mounted by [`Tracefs::find`] just now? (Worth telling the user.)
    pub fn mounted_now(&self) -> bool {
        self.mounted_now
    }

    /// Its mount point.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// A file or directory of it.
    pub fn path(&self, relative: &str) -> PathBuf {
        self.root.join(relative)
    }

    /// The text of one of its files.
    pub fn read(&self, relative: &str) -> Result<String, TracefsError> {
        files::read_text(&self.path(relative))
    }
}

/// Usual places first, then wherever the mount table says.
fn candidates() -> Vec<PathBuf> {
    let mut paths = vec![PathBuf::from(DEFAULT_PATH), PathBuf::from("/sys/kernel/debug/tracing")];
    if let Ok(mounts) = Process::myself().and_then(|own| own.mountinfo()) {
        let tracefs = mounts.into_iter().filter(|mount| mount.fs_type == "tracefs");
        paths.extend(tracefs.map(|mount| mount.mount_point));
    }
    paths
}
