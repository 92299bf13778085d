//! A control group of our own, with one limit, for as long as it is needed.

use super::refusal::refuse;
use crate::sampling::{Controller, Hierarchies};
use std::{
    fs, io,
    path::{Path, PathBuf},
};
use transect_bench_core::{Fault, Refusal};

/// What a group limits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Resource {
    Cpu,
    Memory,
    Io,
}

impl Resource {
    fn controller(self) -> Controller {
        match self {
            Self::Cpu => Controller::Cpu,
            Self::Memory => Controller::Memory,
            Self::Io => Controller::Io,
        }
    }
}

/// Can this process make groups that limit it?
pub(super) fn can_limit(resource: Resource) -> Result<(), Refusal> {
    let found = Hierarchies::here().map_err(|error| refuse(format!("control groups: {error}")))?;
    let hierarchy = found
        .of(resource.controller())
        .ok_or_else(|| refuse(format!("no control group hierarchy limits {resource:?}")))?;
    let is_allowed = rustix::fs::access(&hierarchy.point, rustix::fs::Access::WRITE_OK);
    is_allowed.map_err(|error| refuse(format!("{}: {error}", hierarchy.point.display())))
}

/// A group of our own. Dropping it moves everybody back and removes it.
#[derive(Debug)]
pub(super) struct Group {
    folder: PathBuf,
    /// Where each process came from.
    origins: Vec<(u32, PathBuf)>,
    pub(super) is_unified: bool,
}

impl Group {
    /// Makes one below or beside the first process's own.
    pub(super) fn new(resource: Resource, pids: &[u32]) -> Result<Self, Fault> {
        let named = |error: io::Error| Fault::failed(format_args!("control groups: {error}"));
        let found = Hierarchies::here().map_err(named)?;
        let controller = resource.controller();
        let hierarchy = found
            .of(controller)
            .ok_or_else(|| refuse(format!("no control group hierarchy limits {resource:?}")))?;
        let mut origins = Vec::new();
        for pid in pids {
            let origin = found.folder(*pid, controller).map_err(named)?;
            origins.extend(origin.map(|origin| (*pid, origin)));
        }
        let (_, first) = origins.first().ok_or_else(|| refuse("no process to limit"))?;
        let parent = parent(first, &hierarchy.point, hierarchy.is_unified);
        let folder = free_name(parent);
        fs::create_dir(&folder).map_err(|error| failed(&folder, &error))?;
        let is_unified = hierarchy.is_unified;
        Ok(Self { folder, origins, is_unified })
    }

    /// Sets a limit.
    pub(super) fn set(&self, file: &str, value: &str) -> Result<(), Fault> {
        let file = self.folder.join(file);
        fs::write(&file, value).map_err(|error| failed(&file, &error))
    }

    /// Moves the processes into it. One that has ended meanwhile is none.
    pub(super) fn enter(&self) -> Result<(), Fault> {
        for (pid, _) in &self.origins {
            match move_to(&self.folder, *pid) {
                Err(error) if error.raw_os_error() != Some(ESRCH) => {
                    return Err(failed(&self.folder, &error));
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// Moves everybody back, the children that came later to where the first came from, and removes it.
    pub(super) fn leave(&mut self) -> Result<(), Fault> {
        let Some((_, first)) = self.origins.first().cloned() else { return Ok(()) };
        // A process may fork while it is moved: until nobody is left, but not for ever.
        for _ in 0..100 {
            let procs = self.folder.join("cgroup.procs");
            let text = fs::read_to_string(&procs).map_err(|error| failed(&procs, &error))?;
            let pids: Vec<u32> = text.lines().filter_map(|line| line.parse().ok()).collect();
            if pids.is_empty() {
                break;
            }
            for pid in pids {
                let origin = self.origins.iter().find(|(of, _)| *of == pid);
                let target = origin.map_or(&first, |(_, origin)| origin);
                // Whoever could not be moved is still there in the next round, and then rmdir fails and says so.
                let _ = move_to(target, pid);
            }
        }
        // Until zombies are reaped the group is busy.
        let mut removed = fs::remove_dir(&self.folder);
        for _ in 0..20 {
            if removed.is_ok() {
                break;
            }
            std::thread::sleep(std::time::Duration::from_millis(10));
            removed = fs::remove_dir(&self.folder);
        }
        self.origins.clear();
        removed.map_err(|error| failed(&self.folder, &error))
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        // Who wants to know whether it worked calls `leave`.
        let _ = self.leave();
    }
}

const ESRCH: i32 = 3;

fn move_to(folder: &Path, pid: u32) -> io::Result<()> {
    fs::write(folder.join("cgroup.procs"), pid.to_string())
}

/// In version 2 a group with processes has no groups below it with controllers, but for the root: beside it then.
fn parent<'a>(own: &'a Path, point: &'a Path, is_unified: bool) -> &'a Path {
    match own.parent() {
        Some(parent) if is_unified && own != point => parent,
        _ => own,
    }
}

fn free_name(parent: &Path) -> PathBuf {
    let own = std::process::id();
    let names = (0_u32..).map(|index| parent.join(format!("transect-bench-{own}-{index}")));
    let mut free = names.filter(|path| !path.exists());
    free.next().unwrap_or_else(|| parent.join("transect-bench"))
}

fn failed(path: &Path, error: &io::Error) -> Fault {
    Fault::failed(format_args!("{}: {error}", path.display()))
}
