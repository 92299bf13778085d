//! The queue of timelines that are to be built.

use crate::state::State;
use std::any::Any;
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;

/// Threads that build timelines. A client has one of them at most, so that the others are free for other clients.
pub(crate) struct Builders {
    limit: usize,
    builds: Mutex<Builds>,
}

#[derive(Default)]
struct Builds {
    waiting: VecDeque<Build>,
    /// Threads.
    threads: usize,
    /// Clients of the builds that run, each once.
    clients: Vec<String>,
}

/// A build that waits or runs.
pub(crate) struct Build {
    pub(crate) state: Arc<State>,
    /// Distrust the tiles that are there.
    pub(crate) again: bool,
    /// Dropped when the build has ended or was given up.
    #[expect(dead_code, reason = "only its end matters")]
    pub(crate) kept: Box<dyn Any + Send>,
}

impl Builders {
    /// So many builds run at once.
    pub(crate) fn new(limit: usize) -> Arc<Self> {
        Arc::new(Builders { limit, builds: Mutex::default() })
    }

    /// Runs a build as soon as there is a thread for it. Builds that were stopped leave the queue.
    pub(crate) fn push(self: &Arc<Self>, build: Build) {
        let mut builds = self.lock();
        builds.waiting.retain(|build| !build.state.is_stopped());
        builds.waiting.push_back(build);
        drop(builds);
        self.start_thread();
    }

    fn start_thread(self: &Arc<Self>) {
        let mut builds = self.lock();
        if builds.threads >= self.limit || builds.find_next().is_none() {
            return;
        }
        builds.threads += 1;
        drop(builds);
        let builders = Arc::clone(self);
        let work = move || builders.run();
        if thread::Builder::new().name("view-builder".to_owned()).spawn(work).is_err() {
            // The page reports "building"; the next build that is pushed tries again.
            self.lock().threads -= 1;
        }
    }

    fn run(&self) {
        while let Some(build) = self.take_next() {
            build.state.make_or_fail(build.again);
            let client = build.state.client();
            self.lock().clients.retain(|of| of != client);
        }
    }

    /// The next build; without one the thread ends.
    fn take_next(&self) -> Option<Build> {
        let mut builds = self.lock();
        builds.waiting.retain(|build| !build.state.is_stopped());
        let Some(build) = builds.find_next().and_then(|at| builds.waiting.remove(at)) else {
            builds.threads -= 1;
            return None;
        };
        builds.clients.push(build.state.client().to_owned());
        Some(build)
    }

    fn lock(&self) -> MutexGuard<'_, Builds> {
        self.builds.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Builds {
    /// The first build of a client that has none that runs.
    fn find_next(&self) -> Option<usize> {
        let is_free = |build: &Build| self.clients.iter().all(|of| of != build.state.client());
        self.waiting.iter().position(is_free)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::panic, reason = "tests report by failing")]
    use super::*;
    use crate::state::{Exported, Opened, Recording, Tell};
    use std::sync::mpsc::{Receiver, Sender, channel};
    use std::time::Duration;

    /// Reports that its build has begun, and fails it when it may.
    struct Held {
        name: &'static str,
        begun: Sender<&'static str>,
        may_end: Mutex<Receiver<()>>,
    }

    impl Recording for Held {
        fn name(&self) -> String {
            self.name.to_owned()
        }

        fn open(&self, _: Tell<'_>) -> Result<Opened, String> {
            self.begun.send(self.name).unwrap();
            let _ = self.may_end.lock().unwrap().recv();
            Err("made up".to_owned())
        }

        fn export(&self, _: i64, _: i64, _: &str) -> Result<Exported, String> {
            Err("made up".to_owned())
        }
    }

    /// Queues a build, which ends when the sender is dropped; the receiver then has no sender any more.
    fn push(
        builders: &Arc<Builders>,
        begun: &Sender<&'static str>,
        client: &str,
        name: &'static str,
    ) -> (Arc<State>, Sender<()>, Receiver<()>) {
        let (end, may_end) = channel();
        let held = Held { name, begun: begun.clone(), may_end: Mutex::new(may_end) };
        let builders = Arc::clone(builders);
        let state = Arc::new(State::new(Box::new(held), 1, builders, client.to_owned()));
        let (kept, is_over) = channel();
        state.build(false, kept);
        (state, end, is_over)
    }

    #[test]
    fn each_client_has_one_build_and_stopped_ones_never_begin() {
        const LONG: Duration = Duration::from_secs(60);
        const SHORT: Duration = Duration::from_millis(100);
        let builders = Builders::new(2);
        let (begun, begins) = channel();
        let first = push(&builders, &begun, "a", "first");
        assert_eq!(begins.recv_timeout(LONG), Ok("first"));
        let second = push(&builders, &begun, "a", "second");
        let third = push(&builders, &begun, "a", "third");
        assert!(begins.recv_timeout(SHORT).is_err(), "a second build of one client");
        let other = push(&builders, &begun, "b", "other");
        assert_eq!(begins.recv_timeout(LONG), Ok("other"));
        let last = push(&builders, &begun, "c", "last");
        assert!(begins.recv_timeout(SHORT).is_err(), "a third build at once");
        assert_eq!(builders.lock().threads, 2);
        // One that is stopped leaves the queue, and what was kept for it is dropped.
        second.0.stop();
        drop(other.1);
        assert_eq!(begins.recv_timeout(LONG), Ok("last"));
        assert!(second.2.recv_timeout(LONG).is_err());
        assert_eq!(third.2.try_recv(), Err(std::sync::mpsc::TryRecvError::Empty));
        drop(first.1);
        assert_eq!(begins.recv_timeout(LONG), Ok("third"));
        assert_eq!(first.2.recv(), Err(std::sync::mpsc::RecvError));
        drop((third.1, last.1));
        assert!(third.2.recv().is_err() && last.2.recv().is_err());
        for _ in 0..600 {
            if builders.lock().threads == 0 {
                return;
            }
            thread::sleep(SHORT);
        }
        panic!("threads go on without a build");
    }
}
