//! One window, as the screen keeps it.

use transect_live::{ActorWindow, Antagonist, FindingWindow, Snapshot, ThreadWindow};

/// A window without the threads that slept through it: they are most of a host's, and there is
/// nothing to see of them.
#[derive(Clone, Debug, PartialEq)]
pub struct Moment {
    /// The window. Its threads are those that did something, and all threads of VMs.
    pub snapshot: Snapshot,
    /// Threads that there were.
    pub threads: usize,
    /// What holds whom in it.
    pub findings: Vec<FindingWindow>,
}

impl Moment {
    /// Keeps of a window what is shown.
    pub fn new(mut snapshot: Snapshot) -> Self {
        let threads = snapshot.threads.len();
        let findings = snapshot.findings();
        snapshot.threads.retain(is_worth_keeping);
        snapshot.threads.shrink_to_fit();
        Moment { snapshot, threads, findings }
    }

    /// About what it takes of memory.
    pub fn bytes(&self) -> usize {
        // A distribution's counts, and some text.
        const HISTOGRAM: usize = 800;
        const TEXT: usize = 80;
        let Snapshot { actors, threads, exits, antagonists, io, machines, cpus, .. } =
            &self.snapshot;
        let groups = self.snapshot.containers.len() + self.snapshot.pressure.len();
        actors.len() * (size_of::<ActorWindow>() + HISTOGRAM + 2 * TEXT)
            + threads.len() * (size_of::<ThreadWindow>() + TEXT)
            + exits.len() * (200 + HISTOGRAM)
            + antagonists.len() * (size_of::<Antagonist>() + TEXT)
            + io.len() * (200 + HISTOGRAM)
            + groups * (400 + HISTOGRAM)
            + self.findings.len() * (size_of::<FindingWindow>() + 4 * TEXT)
            + machines.len() * 300
            + cpus.len() * 64
            + 1024
    }
}

fn is_worth_keeping(thread: &ThreadWindow) -> bool {
    thread.executions > 0
        || thread.gotten_ns > 0
        || thread.waited_ns > 0
        || thread.vm_machine_id.is_some()
}
