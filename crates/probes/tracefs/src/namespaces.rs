//! Pid and cgroup namespaces: which ids and paths of procfs are those of the kernel's events.
//!
//! Events carry thread and process ids of the initial pid namespace. A procfs shows the ids of the namespace in which
//! it was mounted, and only the processes of that namespace and of those inside it: inside a container, `/proc/2` is
//! not the thread 2 of the events. [`Namespaces::procfs`] is a procfs with the ids of the events, if there is one;
//! [`Namespaces::initial_id`] converts an id that a user inside a pid namespace gives.
//!
//! `/proc/PID/cgroup` shows paths relative to the root of the reader's cgroup namespace (Linux 4.6,
//! `kernel/cgroup/cgroup.c`, `cgroup_path_ns_locked`): they are paths of the hierarchy in the initial one only.

use procfs::process::{MountInfo, Process};
use std::{
    fs, io,
    path::{Path, PathBuf},
    sync::OnceLock,
};

/// The link of the initial pid namespace: `PROC_PID_INIT_INO` (Linux 3.8, include/linux/proc_ns.h).
const INITIAL_PID: &str = "pid:[4026531836]";
/// The link of the initial cgroup namespace: `PROC_CGROUP_INIT_INO` (Linux 4.6).
const INITIAL_CGROUP: &str = "cgroup:[4026531835]";
/// kthreadd, the parent of all kernel threads (init/main.c, `rest_init`). No other pid namespace has kernel threads.
const KTHREADD: &str = "2";
/// include/linux/sched.h
const PF_KTHREAD: u32 = 0x0020_0000;

/// Where the numbers of the initial pid namespace are valid.
const PID_FIX: &str = "run transect in the initial pid namespace: on the host (from a namespace of the host: nsenter -t 1 -p -C \
     transect …), or in a container started with --pid=host";
/// Where control groups have their full paths.
const CGROUP_FIX: &str = "run transect in the initial cgroup namespace: on the host (from a namespace of the host: nsenter -t 1 -C \
     transect …), or in a container started with --cgroupns=host";

/// A pid namespace, as far as it matters for ids in events.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PidNamespace {
    Initial,
    Child,
    /// No procfs in which this process has an id is mounted.
    Unknown,
}

/// Whether a number is the id of a process or of a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IdKind {
    /// A process: `tgid` in the kernel.
    Process,
    /// A thread: `pid` in the kernel.
    Thread,
}

impl IdKind {
    fn as_str(self) -> &'static str {
        match self {
            IdKind::Process => "process",
            IdKind::Thread => "thread",
        }
    }
}

/// Why an id has no equivalent in the initial pid namespace.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum IdError {
    /// No such process or thread exists.
    #[error("no {} {number}", .kind.as_str())]
    Absent {
        /// What the number should be.
        kind: IdKind,
        /// The number.
        number: u32,
    },
    /// A thread that is not the first of its process was given as a process.
    #[error("{number} is a thread of process {process}: use tid={number} or pid={process}")]
    NotProcess {
        /// The thread.
        number: u32,
        /// Its process.
        process: u32,
    },
    /// No procfs of the initial pid namespace is mounted.
    #[error(
        "transect runs inside a pid namespace, and events carry the ids of the initial pid namespace: the id of {} \
         {number} there cannot be determined. {}",
        .kind.as_str(), PID_FIX
    )]
    Untranslatable {
        /// What the number is.
        kind: IdKind,
        /// The number.
        number: u32,
    },
    /// The namespace of a process with that number cannot be read, or lies inside this one.
    #[error(
        "the pid namespace of {} {number} cannot be determined (needs CAP_SYS_PTRACE, and a {} of this very namespace). \
         {}",
        .kind.as_str(), .kind.as_str(), PID_FIX
    )]
    Unproven {
        /// What the number is.
        kind: IdKind,
        /// The number.
        number: u32,
    },
    /// The number has one meaning in this pid namespace, and another one in `/proc`.
    #[error(
        "{} {number} of this pid namespace is {initial} in /proc, which shows the initial pid namespace and has another {} \
         {number}: use {initial} for the former. For the latter, {}",
        .kind.as_str(), .kind.as_str(), PID_FIX
    )]
    Ambiguous {
        /// What the number is.
        kind: IdKind,
        /// The number.
        number: u32,
        /// The id in the initial namespace of what has this number in this one.
        initial: u32,
    },
}

/// The namespaces of this process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Namespaces {
    /// Where this process finds its own procfs.
    own_procfs: PathBuf,
    pid: PidNamespace,
    is_initial_cgroup: bool,
    /// A procfs that shows the initial pid namespace.
    procfs: Option<PathBuf>,
}

impl Namespaces {
    /// Those of this process, determined once: a process cannot change its own pid namespace.
    pub fn current() -> &'static Self {
        static CURRENT: OnceLock<Namespaces> = OnceLock::new();
        CURRENT.get_or_init(|| {
            let mounts = Process::myself().and_then(|own| own.mountinfo());
            let mounts = mounts.map_or_else(|_| Vec::new(), |found| found.0);
            Namespaces::find(Path::new("/proc"), procfs_mounts(mounts))
        })
    }

    /// Finds them through the procfs at `own_procfs` and through others that are mounted elsewhere.
    pub(crate) fn find(own_procfs: &Path, others: Vec<PathBuf>) -> Self {
        let mut mounted = vec![own_procfs.to_owned()];
        mounted.extend(others.into_iter().filter(|other| other != own_procfs));
        let own = |kind, initial| mounted.iter().find_map(|at| own_namespace(at, kind, initial));
        let pid = match own("pid", INITIAL_PID).as_deref() {
            Some(INITIAL_PID) => PidNamespace::Initial,
            Some(_) => PidNamespace::Child,
            None => PidNamespace::Unknown,
        };
        let is_initial_cgroup = own("cgroup", INITIAL_CGROUP).as_deref() == Some(INITIAL_CGROUP);
        let procfs = mounted.into_iter().find(|at| shows_initial_ids(at));
        Namespaces { own_procfs: own_procfs.to_owned(), pid, is_initial_cgroup, procfs }
    }

    /// A procfs with the ids that events carry; none if only the processes of a pid namespace are visible.
    pub fn procfs(&self) -> Option<&Path> {
        self.procfs.as_deref()
    }

    /// A procfs with the ids that events carry, if it also shows full paths of control groups.
    pub fn procfs_of_cgroups(&self) -> Option<&Path> {
        self.procfs().filter(|_| self.is_initial_cgroup)
    }

    /// Do system calls of this process take the ids that events carry?
    pub fn is_initial_pid(&self) -> bool {
        self.pid == PidNamespace::Initial
    }

    /// The procfs of the initial pid namespace, if this process is in another one.
    pub fn procfs_in_child(&self) -> Option<&Path> {
        self.procfs().filter(|_| self.pid == PidNamespace::Child)
    }

    /// Why processes cannot be assigned to the ids in events; none if they can.
    pub fn why_no_processes(&self) -> Option<&'static str> {
        match self.pid {
            _ if self.procfs.is_some() => None,
            PidNamespace::Unknown => {
                Some("no procfs of the initial pid namespace is mounted: mount -t proc proc /proc")
            }
            PidNamespace::Initial | PidNamespace::Child => Some(
                "transect runs inside a pid namespace, and events carry the ids of the initial pid namespace",
            ),
        }
    }

    /// Why the control groups of processes cannot be determined; none if they can.
    pub fn why_no_cgroups(&self) -> Option<&'static str> {
        let own =
            "transect runs inside a cgroup namespace, whose procfs shows paths relative to it";
        self.why_no_processes().or((!self.is_initial_cgroup).then_some(own))
    }

    /// The command or change after which everything is visible; none if it is.
    pub fn fix(&self) -> Option<&'static str> {
        match (&self.procfs, self.is_initial_cgroup) {
            (None, _) => Some(PID_FIX),
            (Some(_), false) => Some(CGROUP_FIX),
            (Some(_), true) => None,
        }
    }

    /// What a recording from here lacks, for its notes.
    pub fn note(&self) -> Option<&'static str> {
        match (&self.procfs, self.pid) {
            (None, PidNamespace::Unknown) => Some(
                "recorded without a procfs of the initial pid namespace: names, processes and control groups of threads \
                 are known from events only; VMs cannot be discovered",
            ),
            (None, _) => Some(
                "recorded inside a pid namespace: names, processes and control groups of threads are known from events \
                 only; VMs cannot be discovered",
            ),
            (Some(_), _) if !self.is_initial_cgroup => Some(
                "recorded inside a cgroup namespace: control groups of threads and VMs are unknown",
            ),
            (Some(_), _) => None,
        }
    }

    /// Converts the id of a process or thread, as the user of this pid namespace sees it, to the id in events.
    ///
    /// If `/proc` shows the initial pid namespace, a number that only `/proc` has is taken as it is.
    ///
    /// # Errors
    /// No such process or thread exists, or the number in the initial pid namespace cannot be proven.
    pub fn initial_id(&self, kind: IdKind, number: u32) -> Result<u32, IdError> {
        // The idle threads of all CPUs, which no namespace numbers.
        if number == 0 {
            return Ok(0);
        }
        let untranslatable = IdError::Untranslatable { kind, number };
        let Some(procfs) = self.procfs() else { return Err(untranslatable) };
        match self.pid {
            PidNamespace::Unknown => return Err(untranslatable),
            PidNamespace::Initial => return check_id(procfs, kind, number),
            PidNamespace::Child => {}
        }
        let shown = match procfs == self.own_procfs {
            true => check_id(procfs, kind, number),
            false => Err(IdError::Absent { kind, number }),
        };
        match (translate_id(procfs, kind, number)?, shown) {
            (Some(initial), Ok(_)) if initial != number => {
                Err(IdError::Ambiguous { kind, number, initial })
            }
            (Some(initial), _) => Ok(initial),
            (None, shown) => shown,
        }
    }
}

/// The namespace of this process, as its link in procfs; none if this process has no id in that procfs.
fn own_namespace(procfs: &Path, kind: &str, initial: &str) -> Option<String> {
    let namespaces = procfs.join("self/ns");
    match fs::read_link(namespaces.join(kind)) {
        Ok(link) => Some(link.to_string_lossy().into_owned()),
        // A kernel without namespaces of this kind has only the initial one.
        Err(error) if error.kind() == io::ErrorKind::NotFound && namespaces.is_dir() => {
            Some(initial.to_owned())
        }
        Err(_) => None,
    }
}

/// Does a procfs show the initial pid namespace?
///
/// A process of the initial namespace has an id in no other one, so a procfs that has an entry for it is the initial
/// one's. To other processes, only the initial one's shows kernel threads.
fn shows_initial_ids(procfs: &Path) -> bool {
    let is_own = || own_namespace(procfs, "pid", INITIAL_PID).as_deref() == Some(INITIAL_PID);
    is_own() || is_kernel_thread(procfs.join(KTHREADD))
}

/// By its flags, which can be set by the kernel only, unlike a name.
fn is_kernel_thread(process: PathBuf) -> bool {
    let stat = Process::new_with_root(process).and_then(|process| process.stat());
    stat.is_ok_and(|stat| stat.flags & PF_KTHREAD != 0)
}

/// Mount points of procfs, complete ones only.
fn procfs_mounts(mounts: Vec<MountInfo>) -> Vec<PathBuf> {
    let complete = mounts.into_iter().filter(|mount| mount.fs_type == "proc" && mount.root == "/");
    complete.map(|mount| mount.mount_point).collect()
}

/// Checks that a number is an id in a procfs.
fn check_id(procfs: &Path, kind: IdKind, number: u32) -> Result<u32, IdError> {
    let absent = IdError::Absent { kind, number };
    let status = fs::read_to_string(procfs.join(number.to_string()).join("status"));
    let Some(process) = status.ok().and_then(|text| ids_in(&text, "Tgid:").first().copied()) else {
        return Err(absent);
    };
    match kind {
        IdKind::Process if process != number => Err(IdError::NotProcess { number, process }),
        IdKind::Process | IdKind::Thread => Ok(number),
    }
}

/// Finds the process or thread with this number in the pid namespace of this process; returns its id in the procfs of
/// the initial one.
fn translate_id(procfs: &Path, kind: IdKind, number: u32) -> Result<Option<u32>, IdError> {
    let unproven = IdError::Unproven { kind, number };
    let status = |of: &Path| fs::read_to_string(of.join("status")).unwrap_or_default();
    let own = procfs.join("self");
    // `NSpid:` has the id in the namespace of the procfs first, and the one in the innermost namespace last.
    let depth = ids_in(&status(&own), "NSpid:").len();
    let own_link = fs::read_link(own.join("ns/pid")).ok().filter(|_| depth > 0);
    let Some(own_link) = own_link else { return Err(unproven) };
    let mut is_unproven = false;
    for process in numbered(procfs) {
        let dir = procfs.join(process.to_string());
        let entries = match kind {
            IdKind::Process => vec![dir.clone()],
            IdKind::Thread => {
                let tasks = dir.join("task");
                numbered(&tasks).into_iter().map(|tid| tasks.join(tid.to_string())).collect()
            }
        };
        for entry in entries {
            let ids = ids_in(&status(&entry), "NSpid:");
            if ids.get(depth - 1) != Some(&number) {
                continue;
            }
            let link = fs::read_link(dir.join("ns/pid")).ok().filter(|_| ids.len() == depth);
            match link {
                Some(link) if link == own_link => return Ok(ids.first().copied()),
                Some(_) => {}
                // In a namespace inside this one, or inside another one of this depth; or no permission.
                None => is_unproven = true,
            }
        }
    }
    if is_unproven { Err(unproven) } else { Ok(None) }
}

/// The numbers of a line of `status`.
fn ids_in(status: &str, key: &str) -> Vec<u32> {
    let line = status.lines().find_map(|line| line.strip_prefix(key));
    let numbers = line.unwrap_or_default().split_ascii_whitespace();
    numbers.filter_map(|number| number.parse().ok()).collect()
}

/// Entries of a directory whose names are numbers.
pub(crate) fn numbered(dir: &Path) -> Vec<i32> {
    let Ok(entries) = fs::read_dir(dir) else { return Vec::new() };
    entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect()
}

#[cfg(test)]
mod tests;
