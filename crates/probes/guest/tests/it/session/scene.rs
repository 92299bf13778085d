//! A recorder and an agent that meet, and how long either waits.

use crate::session::{machine::FakeMachine, notebook::*};
use std::{
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::SeqCst},
    },
    thread,
    time::{Duration, Instant},
};
use transect_guest::{
    bounds::Bounds,
    proto::EventRequest,
    serve::{Caller, End},
    session::{GuestSession, Limits, SessionConfig},
    stamp::StampClock,
    transport::{Channel, Listener},
};

/// Longer than anything takes here: what waits for so long has failed.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

pub(crate) fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !is_so() {
        assert!(Instant::now() < deadline, "never: {what}");
        thread::sleep(Duration::from_millis(2));
    }
}

/// The agent, in a thread, on a Unix socket.
pub(crate) struct Agent {
    shutdown: Arc<AtomicBool>,
    is_serving: Arc<AtomicBool>,
    thread: thread::JoinHandle<Vec<End>>,
}

impl Agent {
    fn start(path: &Path, mut machine: FakeMachine) -> Self {
        let _ = std::fs::remove_file(path);
        let listener = Listener::unix(path).unwrap();
        let shutdown = Arc::new(AtomicBool::new(false));
        let flag = Arc::clone(&shutdown);
        let is_serving = Arc::new(AtomicBool::new(false));
        let serving = Arc::clone(&is_serving);
        let thread = thread::spawn(move || {
            let mut ends = Vec::new();
            while !flag.load(SeqCst) {
                if let Some(channel) = listener.accept(Duration::from_millis(20)).unwrap() {
                    serving.store(true, SeqCst);
                    ends.push(serve_one(&channel, &mut machine, &flag));
                    serving.store(false, SeqCst);
                }
            }
            ends
        });
        Agent { shutdown, is_serving, thread }
    }

    /// Ends it when its recorder has gone, whose last word is read first.
    pub(crate) fn end(self) -> Vec<End> {
        until("the recorder's last word", || !self.is_serving.load(SeqCst));
        self.kill()
    }

    /// Ends it whatever it does.
    pub(crate) fn kill(self) -> Vec<End> {
        self.shutdown.store(true, SeqCst);
        self.thread.join().unwrap()
    }
}

fn serve_one(channel: &Channel, machine: &mut FakeMachine, shutdown: &AtomicBool) -> End {
    match Caller::wait(channel, "test", shutdown) {
        Ok(caller) => caller.serve(machine),
        Err(end) => end,
    }
}

pub(crate) struct Scene {
    dir: tempfile::TempDir,
    pub(crate) machine: FakeMachine,
    pub(crate) notebook: Notebook,
    /// None of them is reached, unless a test makes it short.
    pub(crate) limits: Limits,
    pub(crate) bounds: Bounds,
}

impl Scene {
    pub(crate) fn new() -> Self {
        Scene {
            dir: tempfile::tempdir().unwrap(),
            machine: FakeMachine::new(),
            notebook: Notebook::default(),
            limits: Limits {
                start: PATIENCE,
                stall: PATIENCE,
                stop_idle: PATIENCE,
                stop_total: PATIENCE * 2,
                stop_hurried: PATIENCE * 2,
                reconnect_min: Duration::from_millis(20),
                reconnect_max: Duration::from_millis(100),
            },
            bounds: Bounds::default(),
        }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    pub(crate) fn agent(&self) -> Agent {
        Agent::start(&self.path("agent"), self.machine.clone())
    }

    pub(crate) fn session(&self, socket: &str) -> GuestSession {
        let spec = format!("name=fake,virtio-serial:{}", self.path(socket).display());
        let config = SessionConfig {
            spec: spec.parse().unwrap(),
            recorder: "test".into(),
            host_clock: StampClock::Mono,
            clocks: vec![StampClock::X86Tsc, StampClock::Mono],
            buffer_bytes: 1 << 20,
            events: vec![EventRequest {
                system: "sched".into(),
                name: "sched_switch".into(),
                filter: String::new(),
                required: true,
            }],
            compact: None,
            limits: self.limits,
            bounds: self.bounds,
        };
        GuestSession::spawn(config, Box::new(self.notebook.clone())).unwrap()
    }

    /// One that records.
    pub(crate) fn recording(&self, socket: &str) -> GuestSession {
        let session = self.session(socket);
        assert!(session.wait_started(), "{:?}", session.stop());
        session
    }

    /// Waits until the notebook satisfies `condition`.
    pub(crate) fn until(&self, what: &str, condition: impl Fn(&Told) -> bool) {
        until(what, || condition(&self.notebook.told.lock().unwrap()));
    }

    pub(crate) fn until_pages(&self, count: usize) {
        self.until("enough pages", |told| told.pages.values().any(|cpu| cpu.len() >= count));
    }

    pub(crate) fn until_agent_is_idle(&self) {
        until("the agent cleans up", || self.machine.running.load(SeqCst) == 0);
    }
}
