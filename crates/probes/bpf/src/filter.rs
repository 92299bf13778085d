//! Filters that need the machine: the id and the level of the cgroup at a path.

use std::{
    fs, io,
    os::unix::fs::MetadataExt,
    path::{Component, Path, PathBuf},
};

use procfs::{
    ProcResult,
    process::{MountInfo, Process},
};

use crate::BpfError;

/// The link of the initial cgroup namespace: `PROC_CGROUP_INIT_INO` (Linux 4.6, include/linux/proc_ns.h).
const INITIAL_CGROUP: &str = "cgroup:[4026531835]";
/// include/linux/sched.h
const PF_KTHREAD: u32 = 0x0020_0000;

/// A cgroup as the programs identify it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Cgroup {
    /// Its id: the inode of its folder (kernfs, 64-bit since 5.5).
    pub(crate) id: u64,
    /// Its depth below the root of the hierarchy, which is 0.
    pub(crate) level: u32,
    /// Its path as `/proc/PID/cgroup` has it, seen from the same cgroup namespace.
    pub(crate) path: String,
}

/// The path of a cgroup as `/proc/PID/cgroup` has it, from its path below the mount of the unified hierarchy or
/// its full path.
///
/// # Errors
/// There is no such cgroup, or its place in the hierarchy cannot be determined.
pub fn cgroup_path(path: &Path) -> Result<String, BpfError> {
    Ok(cgroup(path)?.path)
}

/// Finds a cgroup by its path below the mount of the unified hierarchy, or by its full path.
pub(crate) fn cgroup(path: &Path) -> Result<Cgroup, BpfError> {
    let mounts = Process::myself().and_then(|own| own.mountinfo());
    let mounts = mounts.map_or_else(|_| Vec::new(), |found| found.0);
    let mount = mounts_of("cgroup2", &mounts).next().ok_or_else(|| {
        BpfError::Plan(
            "no unified cgroup hierarchy (cgroup2) is mounted: use --filter pid= instead of cgroup=".into(),
        )
    })?;
    let below = path.strip_prefix(&mount.mount_point);
    let below = below.or_else(|_| path.strip_prefix("/")).unwrap_or(path);
    let full = mount.mount_point.join(below);
    let failed = || BpfError::system(format!("cgroup {}", full.display()));
    // Links and `..` would be counted as levels.
    let real = fs::canonicalize(&full).map_err(failed())?;
    let point = fs::canonicalize(&mount.mount_point).map_err(failed())?;
    let metadata = fs::metadata(&real).map_err(failed())?;
    let Some(below) = real.strip_prefix(&point).ok().filter(|_| metadata.is_dir()) else {
        return Err(BpfError::Plan(format!("cgroup {}: not a control group", full.display())));
    };
    // A procfs of the initial pid namespace may be mounted at another place.
    let mut procfs = vec![PathBuf::from("/proc")];
    procfs.extend(
        mounts_of("proc", &mounts)
            .filter(|mount| mount.root == "/")
            .map(|mount| mount.mount_point.clone()),
    );
    let namespace = procfs.iter().find_map(|procfs| namespace_level(procfs));
    // The folder of the hierarchy that is mounted, relative to the root of this process's cgroup namespace: `/../..` lies
    // above that.
    let root = Path::new(&mount.root);
    let level = namespace.and_then(|namespace| level_of(namespace, root, below));
    let level = level.ok_or_else(|| {
        BpfError::Plan(format!(
            "--filter cgroup={}: transect runs inside a cgroup namespace, and the depth of that namespace's root in the \
             kernel's hierarchy, which the filter needs, is visible from the initial pid namespace only: run transect on \
             the host, or in a container started with --cgroupns=host or --pid=host",
            path.display()
        ))
    })?;
    let path = Path::new("/").join(root.strip_prefix("/").unwrap_or(root)).join(below);
    Ok(Cgroup { id: metadata.ino(), level, path: path.to_string_lossy().into_owned() })
}

/// Mounts of one type of file system.
fn mounts_of<'a>(
    file_system: &'static str,
    mounts: &'a [MountInfo],
) -> impl Iterator<Item = &'a MountInfo> {
    mounts.iter().filter(move |mount| mount.fs_type == file_system)
}

/// The level of a cgroup: of its namespace's root, of the mount below (or above) that, of its path below the mount.
fn level_of(namespace: u32, mount_root: &Path, below: &Path) -> Option<u32> {
    let mut level = namespace;
    for component in mount_root.components().chain(below.components()) {
        level = match component {
            Component::Normal(_) => level.checked_add(1)?,
            Component::ParentDir => level.checked_sub(1)?,
            _ => level,
        };
    }
    Some(level)
}

/// The level of the root of this process's cgroup namespace; none if it cannot be determined.
///
/// kthreadd is always in the root of the hierarchy (`cgroup_init_kthreadd`, Linux 4.12), and procfs shows its path
/// relative to the root of the reader's namespace: one `/..` for each level.
fn namespace_level(procfs: &Path) -> Option<u32> {
    let namespaces = procfs.join("self/ns");
    match fs::read_link(namespaces.join("cgroup")) {
        Ok(link) if link == Path::new(INITIAL_CGROUP) => return Some(0),
        // A kernel without cgroup namespaces.
        Err(error) if error.kind() == io::ErrorKind::NotFound && namespaces.is_dir() => {
            return Some(0);
        }
        _ => {}
    }
    if !shows_initial_ids(procfs) {
        return None;
    }
    let groups = kthreadd(procfs).ok()?.cgroups().ok()?;
    let unified = groups.0.iter().find(|group| group.controllers.is_empty())?;
    let root = unified.pathname.strip_prefix('/')?;
    let mut steps = root.split('/').filter(|step| !step.is_empty());
    let level = u32::try_from(steps.clone().count()).ok()?;
    steps.all(|step| step == "..").then_some(level)
}

/// kthreadd, or what has its number in the pid namespace that a procfs shows (init/main.c, `rest_init`).
fn kthreadd(procfs: &Path) -> ProcResult<Process> {
    Process::new_with_root(procfs.join("2"))
}

/// Does a procfs show the initial pid namespace, whose ids the programs see? No other namespace has kernel threads.
pub(crate) fn shows_initial_ids(procfs: &Path) -> bool {
    let stat = kthreadd(procfs).and_then(|thread| thread.stat());
    stat.is_ok_and(|stat| stat.flags & PF_KTHREAD != 0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    /// `stat` of thread 2, from its parent to its flags.
    const KTHREADD: &str = "0 0 0 0 -1 2129984";
    const CHILD: &str = "cgroup:[4026532178]";

    /// A made-up procfs: the cgroup namespace of this process, and the thread 2.
    fn procfs(namespace: &str, stat: &str, cgroup: &str) -> tempfile::TempDir {
        let procfs = tempfile::tempdir().unwrap();
        fs::create_dir_all(procfs.path().join("self/ns")).unwrap();
        symlink(namespace, procfs.path().join("self/ns/cgroup")).unwrap();
        fs::create_dir(procfs.path().join("2")).unwrap();
        let rest = "0 0 0 0 0 0 0 0 20 0 1 0 23 0 0 18446744073709551615 0 0 0 0 0 0 0 2147483647 0 0 0 0 0 0 0 0 0";
        let stat = format!("2 (kthreadd) S {stat} {rest}\n");
        fs::write(procfs.path().join("2/stat"), stat).unwrap();
        fs::write(procfs.path().join("2/cgroup"), cgroup).unwrap();
        procfs
    }

    #[test]
    fn initial_cgroup_namespace_is_at_level_0() {
        let procfs = procfs(INITIAL_CGROUP, "", "");
        assert_eq!(namespace_level(procfs.path()), Some(0));
    }

    #[test]
    fn kthreadd_shows_the_level_of_a_cgroup_namespace() {
        let level = |cgroup: &str| namespace_level(procfs(CHILD, KTHREADD, cgroup).path());
        assert_eq!(level("4:memory:/../..\n0::/../../..\n"), Some(3));
        assert_eq!(level("0::/\n"), Some(0));
        assert_eq!(level("0::/../x\n"), None);
        assert_eq!(level("4:memory:/..\n"), None);
    }

    #[test]
    fn procfs_of_another_pid_namespace_does_not_show_the_level() {
        let impostor = "1 2 2 0 -1 4194560";
        assert_eq!(namespace_level(procfs(CHILD, impostor, "0::/\n").path()), None);
        assert_eq!(namespace_level(Path::new("/nonexistent")), None);
    }

    #[test]
    fn level_counts_from_the_root_of_the_hierarchy() {
        let level = |namespace, root: &str, below: &str| {
            level_of(namespace, Path::new(root), Path::new(below))
        };
        assert_eq!(level(0, "/", "machine.slice/vm1"), Some(2));
        assert_eq!(level(0, "/", ""), Some(0));
        // A part of the hierarchy is mounted.
        assert_eq!(level(0, "/docker/1", "inner"), Some(3));
        // A namespace whose root is at level 2, with its own mount and with the host's.
        assert_eq!(level(2, "/", "inner"), Some(3));
        assert_eq!(level(2, "/../..", "docker/1/inner"), Some(3));
        assert_eq!(level(0, "/..", ""), None);
    }
}
