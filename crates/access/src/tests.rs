//! Each test sets the umask of its process: nextest runs every test in a process of its own.

use crate::check::read_secret_of;
use crate::{
    AccessError, Group, Readers, check_top, create_dir, create_dir_all, create_file, create_top,
    own_dir, read_secret, replace_file,
};
use rustix::fs::Mode;
use rustix::process::{getegid, umask};
use std::fs;
use std::io::Write as _;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, symlink};
use std::path::Path;

fn mode(path: &Path) -> u32 {
    fs::symlink_metadata(path).unwrap().mode() & 0o7777
}

fn set_mode(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

/// A recording's tree below a top with these readers: modes of the top, a folder, a file in it.
fn tree(readers: Readers, mask: u32) -> [u32; 3] {
    let scratch = tempfile::tempdir().unwrap();
    let top = scratch.path().join("a/b.transect");
    fs::create_dir(scratch.path().join("a")).unwrap();
    umask(Mode::from_raw_mode(mask));
    assert!(create_top(&top, readers).unwrap());
    create_dir_all(&top.join("c/d")).unwrap();
    create_dir_all(&top.join("c/d")).unwrap();
    let file = top.join("c/d/e");
    create_file(&file).unwrap().write_all(b"x").unwrap();
    let replaced = replace_file(&file).unwrap();
    assert_eq!(replaced.metadata().unwrap().len(), 0);
    assert!(create_file(&file).is_err(), "a file of that name stays");
    [mode(&top), mode(&top.join("c/d")), mode(&file)]
}

#[test]
fn modes_do_not_depend_on_the_umask() {
    for mask in [0, 0o022, 0o077, 0o777] {
        assert_eq!(tree(Readers::Owner, mask), [0o700, 0o700, 0o600], "umask {mask:o}");
        let own = Group::from_name(&getegid().as_raw().to_string()).unwrap();
        assert_eq!(tree(Readers::Group(own), mask), [0o750, 0o750, 0o640], "umask {mask:o}");
    }
}

#[test]
fn derived_files_take_the_rights_of_their_directory_and_no_write_rights() {
    umask(Mode::empty());
    let scratch = tempfile::tempdir().unwrap();
    for (dir, file, folder) in [
        (0o700, 0o600, 0o700),
        (0o750, 0o640, 0o750),
        (0o755, 0o644, 0o755),
        (0o770, 0o640, 0o750),
        (0o777, 0o644, 0o755),
    ] {
        set_mode(scratch.path(), dir);
        let (made, below) = (scratch.path().join("f"), scratch.path().join("d"));
        create_file(&made).unwrap();
        create_dir(&below).unwrap();
        assert_eq!((mode(&made), mode(&below)), (file, folder), "in a directory of {dir:o}");
        fs::remove_file(&made).unwrap();
        fs::remove_dir(&below).unwrap();
    }
}

/// A directory that another thread finds has its rights already: those of its entries follow from them.
#[test]
fn threads_that_make_the_same_directories_give_them_the_same_rights() {
    umask(Mode::from_raw_mode(0o077));
    let scratch = tempfile::tempdir().unwrap();
    set_mode(scratch.path(), 0o755);
    for round in 0..200 {
        let dir = scratch.path().join(format!("{round}/a/b/c"));
        let made = || create_dir_all(&dir).unwrap();
        std::thread::scope(|scope| (0..4).for_each(|_| drop(scope.spawn(made))));
        for made in dir.ancestors().take(4) {
            assert_eq!(mode(made), 0o755, "{}", made.display());
        }
        let entries = fs::read_dir(dir.parent().unwrap()).unwrap();
        assert_eq!(entries.count(), 1, "no other name is left");
    }
}

#[test]
fn existing_top_is_narrowed_and_a_link_is_refused() {
    let scratch = tempfile::tempdir().unwrap();
    let top = scratch.path().join("top");
    fs::create_dir(&top).unwrap();
    set_mode(&top, 0o777);
    assert!(!create_top(&top, Readers::Owner).unwrap());
    assert_eq!(mode(&top), 0o700);
    let link = scratch.path().join("link");
    symlink(&top, &link).unwrap();
    for refused in [check_top(&link), create_top(&link, Readers::Owner).map(drop)] {
        assert!(refused.unwrap_err().to_string().contains("symbolic link"));
    }
    symlink(scratch.path().join("missing"), scratch.path().join("dangling")).unwrap();
    assert!(create_top(&scratch.path().join("dangling"), Readers::Owner).is_err());
    assert!(!scratch.path().join("missing").exists());
    assert!(check_top(&scratch.path().join("missing")).is_ok());
}

#[test]
fn created_file_does_not_follow_a_link() {
    let scratch = tempfile::tempdir().unwrap();
    let (target, link) = (scratch.path().join("target"), scratch.path().join("link"));
    fs::write(&target, "kept").unwrap();
    symlink(&target, &link).unwrap();
    assert!(create_file(&link).is_err());
    assert!(crate::open_read(&link).is_err() && crate::open_write(&link).is_err());
    replace_file(&link).unwrap().write_all(b"new").unwrap();
    assert_eq!(fs::read_to_string(&target).unwrap(), "kept");
}

#[test]
fn own_directory_is_made_private_and_checked() {
    umask(Mode::empty());
    let scratch = tempfile::tempdir().unwrap();
    let dir = scratch.path().join("a/b");
    own_dir(&dir).unwrap();
    assert_eq!((mode(&dir), mode(dir.parent().unwrap())), (0o700, 0o700));
    set_mode(&dir, 0o755);
    own_dir(&dir).unwrap();
    set_mode(&dir, 0o775);
    let refused = own_dir(&dir).unwrap_err();
    assert!(matches!(refused, AccessError::Mode { mode: 0o775, .. }), "{refused}");
    let file = scratch.path().join("file");
    fs::write(&file, "").unwrap();
    assert!(own_dir(&file).is_err());
}

#[test]
fn secret_must_be_a_file_of_its_owner_alone() {
    let scratch = tempfile::tempdir().unwrap();
    let path = scratch.path().join("s");
    fs::write(&path, "secret").unwrap();
    set_mode(&path, 0o600);
    assert_eq!(read_secret(&path).unwrap(), b"secret");
    set_mode(&path, 0o440);
    assert!(matches!(read_secret(&path), Err(AccessError::Mode { action: "read", .. })));
    assert!(matches!(read_secret(scratch.path()), Err(AccessError::Kind { .. })));
    // As in a directory of systemd's LoadCredential=.
    set_mode(&path, 0o440);
    let read = |dir: &Path| read_secret_of(&path, Some(dir));
    assert_eq!(read(scratch.path()).unwrap(), b"secret");
    assert!(read(Path::new("/nonexistent")).is_err());
    set_mode(&path, 0o444);
    assert!(read(scratch.path()).is_err());
}

mod host {
    //! With root's rights: other owners and groups.

    use super::*;
    use rustix::process::geteuid;
    use std::os::unix::fs::chown;

    const OTHER: u32 = 54_321;

    #[test]
    fn directories_and_secrets_of_other_users_are_refused() {
        assert!(geteuid().is_root(), "needs root");
        let scratch = tempfile::tempdir().unwrap();
        let (dir, file) = (scratch.path().join("d"), scratch.path().join("f"));
        own_dir(&dir).unwrap();
        create_file(&file).unwrap();
        chown(&dir, Some(OTHER), None).unwrap();
        chown(&file, Some(OTHER), None).unwrap();
        let expected = format!("belongs to user {OTHER}");
        assert!(own_dir(&dir).unwrap_err().to_string().contains(&expected));
        assert!(read_secret(&file).unwrap_err().to_string().contains(&expected));
        assert!(check_top(&dir).unwrap_err().to_string().contains(&expected));
        assert!(create_top(&dir, Readers::Owner).unwrap_err().to_string().contains(&expected));
    }

    #[test]
    fn group_and_owner_of_the_directory_are_those_of_what_is_made_later() {
        umask(Mode::from_raw_mode(0o077));
        let scratch = tempfile::tempdir().unwrap();
        let top = scratch.path().join("top");
        create_top(&top, Readers::Group(Group::from_name("54321").unwrap())).unwrap();
        chown(&top, Some(OTHER + 1), None).unwrap();
        create_dir(&top.join("tables")).unwrap();
        create_file(&top.join("tables/f")).unwrap();
        for (path, expected) in [("", 0o750), ("tables", 0o750), ("tables/f", 0o640)] {
            let facts = fs::metadata(top.join(path)).unwrap();
            let found = (facts.uid(), facts.gid(), facts.mode() & 0o7777);
            assert_eq!(found, (OTHER + 1, OTHER, expected), "{path}");
        }
    }
}
