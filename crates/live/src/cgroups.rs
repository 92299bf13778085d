//! Control groups of processes, looked up seldom.

use crate::by_number::ByNumber;
use std::time::{Duration, Instant};
use transect_bpf::live::ThreadWindow;
use transect_tracefs::threads;

/// A process seldom moves, and if, when it is young: what was seen holds for as long as it has held already,
/// and between these.
const HOLDS_AT_LEAST: Duration = Duration::from_secs(1);
const HOLDS_AT_MOST: Duration = Duration::from_secs(60);

#[derive(Debug)]
struct Known {
    cgroup: Option<String>,
    looked: Instant,
    holds: Duration,
    /// Seen since the last call of [`Cgroups::forget_the_dead`].
    seen: bool,
}

/// What is known of processes' control groups.
#[derive(Debug, Default)]
pub(crate) struct Cgroups(ByNumber<Known>);

impl Cgroups {
    /// The control group of a thread's process. Of one that is gone already: what it was last, or its
    /// parent's, which it had when it began.
    pub(crate) fn of(&mut self, thread: &ThreadWindow, now: Instant) -> Option<String> {
        let pid = thread.tgid;
        let mut holds = HOLDS_AT_LEAST;
        if let Some(known) = self.0.get_mut(&pid) {
            if now.duration_since(known.looked) < known.holds {
                known.seen = true;
                return known.cgroup.clone();
            }
            holds = (known.holds * 2).min(HOLDS_AT_MOST);
        }
        let found = i32::try_from(pid).ok().and_then(threads::cgroup_of);
        let last = |pid: u32| self.0.get(&pid).and_then(|known| known.cgroup.clone());
        let cgroup = found.or_else(|| last(pid)).or_else(|| thread.parent_tgid.and_then(last));
        let known = Known { cgroup: cgroup.clone(), looked: now, holds, seen: true };
        self.0.insert(pid, known);
        cgroup
    }

    /// Drops who was not asked for since the last call.
    pub(crate) fn forget_the_dead(&mut self) {
        self.0.retain(|_, known| std::mem::take(&mut known.seen));
    }
}
