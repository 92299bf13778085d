//! Checks of the files and directories that a daemon relies on.

use rustix::fs::{FileType, Mode, OFlags, fstat, open};
use rustix::process::geteuid;
use std::env;
use std::fs::{self, DirBuilder, File};
use std::io::{self, Read as _};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};

/// The largest file of tokens or keys.
const MAX_SECRET_BYTES: u64 = 1 << 20;

/// A file or directory that other users can change or read, or that cannot be opened.
#[derive(Debug, thiserror::Error)]
pub enum AccessError {
    /// Another user can replace a symbolic link's target, or chose it.
    #[error("{}: is a symbolic link: name the directory itself", .0.display())]
    Link(PathBuf),
    /// Not a directory, or not a plain file.
    #[error("{}: is not a {expected}", path.display())]
    Kind {
        /// The entry.
        path: PathBuf,
        /// The kind that it should have.
        expected: &'static str,
    },
    /// It belongs to another user.
    #[error("{}: belongs to user {uid}, not to user {user} or root: chown {user} {}", path.display(), path.display())]
    Owner {
        /// The entry.
        path: PathBuf,
        /// Its owner.
        uid: u32,
        /// The user of this process.
        user: u32,
    },
    /// Group or others have rights that they must not have.
    #[error("{}: mode {mode:04o} lets other users {action} it: chmod {mend} {}", path.display(), path.display())]
    Mode {
        /// The entry.
        path: PathBuf,
        /// Its mode.
        mode: u32,
        /// What others can do with it.
        action: &'static str,
        /// The mode that it should have.
        mend: &'static str,
    },
    /// It cannot be made, opened or read.
    #[error("{}: {source}", path.display())]
    Io {
        /// The entry.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
}

fn io_error(path: &Path) -> impl Fn(io::Error) -> AccessError + '_ {
    move |source| AccessError::Io { path: path.to_owned(), source }
}

fn check_owner(path: &Path, uid: u32) -> Result<(), AccessError> {
    let user = geteuid().as_raw();
    match uid == user || uid == 0 {
        true => Ok(()),
        false => Err(AccessError::Owner { path: path.to_owned(), uid, user }),
    }
}

/// Makes a directory with mode 0700, with those above it that are missing. One that exists must pass [`check_dir`].
///
/// # Errors
/// It does not, or it cannot be made.
pub fn own_dir(path: &Path) -> Result<(), AccessError> {
    match DirBuilder::new().recursive(true).mode(0o700).create(path) {
        // Something that is no directory has the name: the check reports its kind.
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(io_error(path)(error)),
        _ => check_dir(path),
    }
}

/// Checks that no other user can change a directory or what is in it: it is a directory and not a symbolic link, belongs
/// to this user or to root, and only its owner can write to it.
///
/// # Errors
/// It is not so, or it cannot be examined.
pub fn check_dir(path: &Path) -> Result<(), AccessError> {
    // `a/` would follow a link `a`.
    let path: PathBuf = path.components().collect();
    let facts = fs::symlink_metadata(&path).map_err(io_error(&path))?;
    if facts.is_symlink() {
        return Err(AccessError::Link(path));
    }
    if !facts.is_dir() {
        return Err(AccessError::Kind { path, expected: "directory" });
    }
    check_owner(&path, facts.uid())?;
    let mode = facts.mode() & 0o7777;
    if mode & 0o022 != 0 {
        return Err(AccessError::Mode { path, mode, action: "write to", mend: "700" });
    }
    Ok(())
}

/// Reads a file of tokens or keys. Only its owner may be able to read or change it, and that owner is this user or
/// root. A file in `$CREDENTIALS_DIRECTORY` (systemd's `LoadCredential=`) may have further rights: systemd gives this
/// user access with an ACL, whose mask takes the place of the group's mode.
///
/// # Errors
/// It is not so, or the file cannot be read.
pub fn read_secret(path: &Path) -> Result<Vec<u8>, AccessError> {
    let credentials = env::var_os("CREDENTIALS_DIRECTORY").filter(|dir| !dir.is_empty());
    read_secret_of(path, credentials.as_deref().map(Path::new))
}

/// As [`read_secret`], with systemd's directory of credentials.
pub(crate) fn read_secret_of(
    path: &Path,
    credentials: Option<&Path>,
) -> Result<Vec<u8>, AccessError> {
    let failed = io_error(path);
    // Not blocking: a named pipe without a writer.
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file = open(path, flags, Mode::empty()).map_err(|errno| failed(errno.into()))?;
    let facts = fstat(&file).map_err(|errno| failed(errno.into()))?;
    if FileType::from_raw_mode(facts.st_mode) != FileType::RegularFile {
        return Err(AccessError::Kind { path: path.to_owned(), expected: "plain file" });
    }
    check_owner(path, facts.st_uid)?;
    let mode = facts.st_mode & 0o7777;
    let is_credential = credentials.is_some() && path.parent() == credentials;
    let open_to = mode & if is_credential { 0o007 } else { 0o077 };
    if open_to != 0 {
        let action = if open_to & 0o022 != 0 { "change" } else { "read" };
        return Err(AccessError::Mode { path: path.to_owned(), mode, action, mend: "600" });
    }
    let mut bytes = Vec::new();
    File::from(file).take(MAX_SECRET_BYTES).read_to_end(&mut bytes).map_err(failed)?;
    Ok(bytes)
}

/// Opens a file for reading, and not through a symbolic link.
///
/// # Errors
/// It cannot be opened, or it is a symbolic link.
pub fn open_read(path: &Path) -> io::Result<File> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    Ok(open(path, flags, Mode::empty()).map_err(refused)?.into())
}

/// Opens a file for reading and writing, and not through a symbolic link.
///
/// # Errors
/// It cannot be opened, or it is a symbolic link.
pub fn open_update(path: &Path) -> io::Result<File> {
    let flags = OFlags::RDWR | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    Ok(open(path, flags, Mode::empty()).map_err(refused)?.into())
}

/// Opens a file for writing at its start, made with mode 0600 if it is missing, and not through a symbolic link.
///
/// # Errors
/// It cannot be opened, or it is a symbolic link.
pub fn open_write(path: &Path) -> io::Result<File> {
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    Ok(open(path, flags, Mode::from_raw_mode(0o600)).map_err(refused)?.into())
}

/// `open(2)` reports a link that it does not follow as a loop.
fn refused(errno: rustix::io::Errno) -> io::Error {
    match errno {
        rustix::io::Errno::LOOP => io::Error::other("is a symbolic link, which is not followed"),
        other => other.into(),
    }
}
