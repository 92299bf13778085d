//! What a machine's sources let through: the threads and the intervals that were recorded.
//!
//! A filter makes most of what the state machines conclude wrong: a thread that is switched in and
//! never seen again need not run on. The engine therefore has to know the filter. Threads that pass
//! it are *whole*: every event about them was recorded. All other threads are *partial*: an event
//! about one of them is known only if it is also about a whole thread, so nothing is known about
//! the time between two such events.

use rustc_hash::FxHashSet;
use serde::{Deserialize, Serialize};
use transect_model::ids::{Tid, is_in_cgroup};

/// What the sources of one machine let through. The default lets everything through.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Filter {
    /// The threads whose events were recorded; none: all threads.
    pub threads: Option<ThreadFilter>,
    /// VM exits shorter than this were dropped, ns.
    pub min_exit_ns: u64,
    /// Some events of block devices were dropped, by a condition on their fields.
    pub partial_block: bool,
    /// Some events of KVM were dropped, by a condition on their fields.
    pub partial_kvm: bool,
    /// Some wakings or births of threads were dropped, by a condition on their fields.
    pub partial_wakings: bool,
}

impl Filter {
    /// Are some VM exits and entries not recorded?
    pub(crate) fn has_partial_exits(&self) -> bool {
        self.min_exit_ns > 0 || self.partial_kvm
    }
}

/// Which threads pass. A thread passes if it matches any of the conditions.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ThreadFilter {
    /// These threads.
    pub tids: FxHashSet<Tid>,
    /// All threads of these processes.
    pub pids: FxHashSet<Tid>,
    /// All threads in this control group and in those below it, by path.
    pub cgroup: Option<String>,
    /// Threads, and processes by their first thread, that were moved to another group while recording: these do
    /// not pass by their group.
    pub moved: FxHashSet<Tid>,
}

impl ThreadFilter {
    /// Were all events about this thread recorded?
    pub(crate) fn passes(&self, tid: Tid, pid: Option<Tid>, cgroup: Option<&str>) -> bool {
        let is_inside = |group: &String| cgroup.is_some_and(|path| is_in_cgroup(path, group));
        self.tids.contains(&tid)
            || pid.is_some_and(|pid| self.pids.contains(&pid))
            || self.cgroup.as_ref().is_some_and(is_inside) && !self.has_moved(tid, pid)
    }

    /// Was the thread, or its process, moved to another group?
    pub(crate) fn has_moved(&self, tid: Tid, pid: Option<Tid>) -> bool {
        self.moved.contains(&tid) || pid.is_some_and(|pid| self.moved.contains(&pid))
    }
}
