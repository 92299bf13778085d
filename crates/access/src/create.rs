//! Making files and directories with their rights.
//!
//! Everything is made for its owner alone, without following a symbolic link, and gets further rights on the open
//! descriptor: no other user can open it in between, and no name is resolved twice. The modes are set again after the
//! call that makes an entry, because a umask can take rights from the owner, too.

use crate::Group;
use rustix::fs::{
    AtFlags, CWD, FileType, Mode, OFlags, RenameFlags, fchmod, fchown, fstat, mkdirat, open,
    renameat_with, statat,
};
use rustix::io::Errno;
use rustix::process::{Gid, Uid, geteuid};
use std::fs::{self, File};
use std::io;
use std::os::fd::{AsFd, AsRawFd as _};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// The users that may read a recording.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Readers {
    /// Its owner alone.
    #[default]
    Owner,
    /// Its owner and the members of a group.
    Group(Group),
}

/// What entries of a directory get.
#[derive(Clone, Copy, Debug)]
struct Rights {
    uid: u32,
    gid: u32,
    /// Rights of group and others in the directory.
    shared: u32,
}

impl Rights {
    /// Those of the entries of `dir`.
    fn in_dir(dir: &Path) -> io::Result<Self> {
        let facts = rustix::fs::stat(dir)?;
        Ok(Rights { uid: facts.st_uid, gid: facts.st_gid, shared: facts.st_mode & 0o077 })
    }

    fn in_parent_of(path: &Path) -> io::Result<Self> {
        match path.parent() {
            Some(parent) if !parent.as_os_str().is_empty() => Rights::in_dir(parent),
            _ => Rights::in_dir(Path::new(".")),
        }
    }

    fn file_mode(self) -> u32 {
        0o600 | self.shared & 0o044
    }

    fn dir_mode(self) -> u32 {
        0o700 | self.shared & 0o055
    }

    /// Gives an open entry its mode, group and owner. It has been made for this user alone.
    fn apply(self, entry: impl AsFd, mut mode: u32) -> io::Result<()> {
        let facts = fstat(&entry)?;
        if facts.st_gid != self.gid && mode & 0o070 != 0 {
            // A group that this user is not in: the entry stays closed to the group that it has.
            if fchown(&entry, None, Some(Gid::from_raw(self.gid))).is_err() {
                mode &= !0o070;
            }
        }
        if facts.st_mode & 0o777 != mode {
            match fchmod(&entry, Mode::from_raw_mode(mode)) {
                // A file system without modes: its mount options decide.
                Ok(()) | Err(Errno::PERM | Errno::OPNOTSUPP) => {}
                Err(errno) => return Err(errno.into()),
            }
        }
        // root makes tables in a user's recording: the user can read and remove them.
        if facts.st_uid != self.uid && geteuid().is_root() {
            let _ = fchown(&entry, Some(Uid::from_raw(self.uid)), None);
        }
        Ok(())
    }
}

/// Makes a file, with the rights that follow from its directory.
///
/// # Errors
/// There is an entry of that name, or the file cannot be made.
pub fn create_file(path: &Path) -> io::Result<File> {
    let rights = Rights::in_parent_of(path)?;
    let flags = OFlags::CREATE | OFlags::EXCL | OFlags::RDWR | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let file = open(path, flags, Mode::from_raw_mode(0o600))?;
    rights.apply(&file, rights.file_mode())?;
    Ok(file.into())
}

/// Makes a file, with the rights that follow from its directory, in place of one of that name.
///
/// # Errors
/// The other file cannot be removed, or the new one cannot be made.
pub fn replace_file(path: &Path) -> io::Result<File> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => create_file(path),
    }
}

/// Makes a directory, with the rights that follow from the one that it is in.
///
/// # Errors
/// There is an entry of that name, or the directory cannot be made.
pub fn create_dir(path: &Path) -> io::Result<()> {
    let rights = Rights::in_parent_of(path)?;
    make_dir(path, rights, rights.dir_mode())
}

/// Makes a directory and those above it that are missing, as [`create_dir`] does; one that exists stays as it is.
///
/// # Errors
/// Something else has a name on the way, or a directory cannot be made.
pub fn create_dir_all(path: &Path) -> io::Result<()> {
    if path.as_os_str().is_empty() || path.is_dir() {
        return Ok(());
    }
    if let Some(parent) = path.parent() {
        create_dir_all(parent)?;
    }
    match create_dir(path) {
        // Another thread was faster.
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists && path.is_dir() => Ok(()),
        made => made,
    }
}

/// Checks that [`create_top`] can use a directory that exists; a missing one is left to it.
///
/// # Errors
/// `path` is a symbolic link, no directory, or a directory of another user.
pub fn check_top(path: &Path) -> io::Result<()> {
    let facts = match open_dir(path) {
        Ok(dir) => fstat(&dir)?,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(error),
    };
    check_owner(facts.st_uid)
}

fn check_owner(uid: u32) -> io::Result<()> {
    match uid == geteuid().as_raw() {
        true => Ok(()),
        false => Err(io::Error::other(format!(
            "it belongs to user {uid}: remove it, or use another directory"
        ))),
    }
}

/// Makes the top directory of a recording (or takes an existing one) for its readers, and the directories above it
/// that are missing as the umask says. True: it is new.
///
/// # Errors
/// `path` is a symbolic link, no directory, or a directory of another user; or it cannot be made.
pub fn create_top(path: &Path, readers: Readers) -> io::Result<bool> {
    if let Some(parent) = path.parent().filter(|parent| !parent.as_os_str().is_empty()) {
        fs::create_dir_all(parent)?;
    }
    let (gid, mode) = match readers {
        Readers::Owner => (None, 0o700),
        Readers::Group(group) => (Some(group.gid()), 0o750),
    };
    let is_new = match mkdirat(CWD, path, Mode::from_raw_mode(0o700)) {
        Ok(()) => true,
        Err(Errno::EXIST) => false,
        Err(errno) => return Err(errno.into()),
    };
    let dir = open_dir(path)?;
    let facts = fstat(&dir)?;
    check_owner(facts.st_uid)?;
    if let Some(gid) = gid.filter(|gid| *gid != facts.st_gid) {
        // An error here is not ignored: the group was asked for.
        fchown_through(&dir, gid)?;
    }
    set_dir_mode(&dir, facts.st_mode, mode)?;
    Ok(is_new)
}

/// Makes a directory under another name and gives it its own when it has all its rights. Another thread that finds the
/// name derives the rights of its entries from them.
fn make_dir(path: &Path, rights: Rights, mode: u32) -> io::Result<()> {
    static MADE: AtomicU64 = AtomicU64::new(0);
    let name = path.file_name().ok_or(io::ErrorKind::InvalidInput)?.to_string_lossy();
    let number = MADE.fetch_add(1, Relaxed);
    let part = path.with_file_name(format!(".{name}.{}-{number}.part", std::process::id()));
    let made = make_dir_at(&part, rights, mode).and_then(|()| give_name(&part, path));
    if made.is_err() {
        let _ = fs::remove_dir(&part);
    }
    made
}

/// Renames a new directory, unless there is an entry of that name.
fn give_name(part: &Path, path: &Path) -> io::Result<()> {
    match renameat_with(CWD, part, CWD, path, RenameFlags::NOREPLACE) {
        // A file system without this flag: only an empty directory can be replaced then.
        Err(Errno::INVAL | Errno::NOSYS) if fs::symlink_metadata(path).is_err() => {
            fs::rename(part, path)
        }
        Err(Errno::INVAL | Errno::NOSYS) => Err(io::ErrorKind::AlreadyExists.into()),
        renamed => Ok(renamed?),
    }
}

fn make_dir_at(path: &Path, rights: Rights, mode: u32) -> io::Result<()> {
    mkdirat(CWD, path, Mode::from_raw_mode(0o700))?;
    let dir = open_dir(path)?;
    let facts = fstat(&dir)?;
    let mut mode = mode;
    if facts.st_gid != rights.gid && mode & 0o070 != 0 && fchown_through(&dir, rights.gid).is_err()
    {
        mode &= !0o070;
    }
    set_dir_mode(&dir, facts.st_mode, mode)?;
    if facts.st_uid != rights.uid && geteuid().is_root() {
        let _ = rustix::fs::chownat(
            &dir,
            "",
            Some(Uid::from_raw(rights.uid)),
            None,
            AtFlags::EMPTY_PATH,
        );
    }
    Ok(())
}

/// A descriptor that stands for the directory itself: a umask can have left its owner without any right to open it.
fn open_dir(path: &Path) -> io::Result<rustix::fd::OwnedFd> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    open(path, flags, Mode::empty()).map_err(|errno| {
        let is_link = statat(CWD, path, AtFlags::SYMLINK_NOFOLLOW)
            .is_ok_and(|facts| FileType::from_raw_mode(facts.st_mode) == FileType::Symlink);
        match is_link {
            true => io::Error::other("it is a symbolic link: name the directory itself"),
            false => errno.into(),
        }
    })
}

fn fchown_through(dir: impl AsFd, gid: u32) -> io::Result<()> {
    let gid = Some(Gid::from_raw(gid));
    Ok(rustix::fs::chownat(dir, "", None, gid, AtFlags::EMPTY_PATH)?)
}

fn set_dir_mode(dir: impl AsFd, now: u32, mode: u32) -> io::Result<()> {
    if now & 0o7777 == mode {
        return Ok(());
    }
    // fchmod(2) refuses descriptors of O_PATH, and fchmodat2(2) is newer than the oldest supported kernel.
    let path = format!("/proc/self/fd/{}", dir.as_fd().as_raw_fd());
    match rustix::fs::chmod(path, Mode::from_raw_mode(mode)) {
        Ok(()) => Ok(()),
        // A file system without modes: its mount options decide.
        Err(Errno::PERM | Errno::OPNOTSUPP) if now & 0o700 == 0o700 => Ok(()),
        Err(errno) => Err(errno.into()),
    }
}
