//! The directories in which recorders may have left their state.

use anyhow::{Context, bail};
use std::{
    env, fs, io,
    os::unix::fs::{DirBuilderExt, MetadataExt},
    path::{Path, PathBuf},
};

/// Where recorders of this user may be, best first.
pub(super) fn candidates() -> Vec<PathBuf> {
    let uid = rustix::process::geteuid();
    let mut places = Vec::new();
    if uid.is_root() {
        places.push(PathBuf::from("/run/transect"));
    }
    if let Some(runtime) = env::var_os("XDG_RUNTIME_DIR").filter(|dir| !dir.is_empty()) {
        places.push(Path::new(&runtime).join("transect"));
    }
    places.push(env::temp_dir().join(format!("transect-{}", uid.as_raw())));
    places
}

/// The first that can be made and is ours alone.
pub(super) fn create() -> anyhow::Result<PathBuf> {
    let mut last = None;
    for place in candidates() {
        match fs::DirBuilder::new().mode(0o700).create(&place) {
            Ok(()) => return Ok(place),
            Err(e) if e.kind() == io::ErrorKind::AlreadyExists => match check(&place) {
                Ok(()) => return Ok(place),
                Err(e) => last = Some(e),
            },
            Err(e) => last = Some(anyhow::Error::new(e).context(place.display().to_string())),
        }
    }
    Err(last.unwrap_or_else(|| anyhow::anyhow!("no usable directory")))
        .context("cannot create a directory for the recorder's control socket")
}

/// In a directory someone else could write to, someone else could pose as a recorder.
pub(super) fn check(place: &Path) -> anyhow::Result<()> {
    let meta = fs::symlink_metadata(place).with_context(|| place.display().to_string())?;
    let uid = rustix::process::geteuid().as_raw();
    if !meta.is_dir() || meta.uid() != uid || meta.mode() & 0o077 != 0 {
        bail!(
            "{} is not a directory that user {uid} owns with mode 0700; remove it",
            place.display()
        );
    }
    Ok(())
}
