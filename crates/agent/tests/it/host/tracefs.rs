//! The agent binary against this machine's own kernel, reached over a Unix socket instead of a
//! guest's channel. Needs root and tracefs; says so and passes where there is none.
#![allow(clippy::unwrap_used, clippy::panic, clippy::print_stderr)] // A failed expectation is the report.

use crate::support::check_settings;
use std::{
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::{Arc, Mutex},
    thread,
    time::{Duration, Instant},
};
use transect_guest::{
    bounds::Bounds,
    exchange::Bracket,
    proto::{CpuStats, EventRequest},
    serve::MetaFile,
    session::{Beginning, Gap, GuestSession, GuestSink, Limits, SessionConfig, SinkError},
    settings::GuestSettings,
    stamp::StampClock,
};
use transect_model::untrusted::Untrusted;
use transect_tracefs::Tracefs;

const CALLS: u64 = 5_000;

struct Agent {
    child: Child,
    socket: PathBuf,
}

impl Agent {
    fn start(dir: &Path) -> Self {
        let socket = dir.join("agent.sock");
        let child = Command::new(env!("CARGO_BIN_EXE_transect-agent"))
            .args(["--unix", socket.to_str().unwrap()])
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let deadline = Instant::now() + Duration::from_secs(5);
        while !socket.exists() {
            assert!(Instant::now() < deadline, "the agent does not listen");
            thread::sleep(Duration::from_millis(5));
        }
        Agent { child, socket }
    }

    /// Tracing instances of this agent.
    fn instances(&self) -> Vec<String> {
        let tracefs = Tracefs::find().unwrap();
        let mine = format!("transect-agent-{}-", self.child.id());
        let names = std::fs::read_dir(tracefs.path("instances")).unwrap();
        let names = names.flatten().map(|entry| entry.file_name().into_string().unwrap());
        names.filter(|name| name.starts_with(&mine)).collect()
    }

    fn until_clean(&self) {
        let deadline = Instant::now() + Duration::from_secs(5);
        while !self.instances().is_empty() {
            assert!(Instant::now() < deadline, "left behind: {:?}", self.instances());
            thread::sleep(Duration::from_millis(10));
        }
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[derive(Default)]
struct Told {
    meta: Vec<String>,
    missing: Vec<Untrusted<String>>,
    clock: String,
    pages: u64,
    brackets: Vec<Bracket>,
    end_meta: Vec<MetaFile>,
    events: u64,
    gaps: Vec<Gap>,
    notes: Vec<String>,
    settings: GuestSettings,
}

#[derive(Clone, Default)]
struct Notebook(Arc<Mutex<Told>>);

impl GuestSink for Notebook {
    fn begin(&mut self, beginning: &Beginning<'_>) -> Result<(), SinkError> {
        let mut told = self.0.lock().unwrap();
        let started = beginning.started;
        told.settings = GuestSettings::from_meta(beginning.meta);
        told.meta = beginning.meta.iter().map(|(name, _)| name.clone()).collect();
        told.missing.clone_from(&started.missing);
        told.clock = started.clock.raw_for_storage().to_owned();
        Ok(())
    }

    fn pages(&mut self, _cpu: u32, pages: &[u8]) -> Result<(), SinkError> {
        assert_eq!(pages.len() % 4096, 0);
        self.0.lock().unwrap().pages += pages.len() as u64 / 4096;
        Ok(())
    }

    fn bracket(&mut self, bracket: &Bracket) -> Result<(), SinkError> {
        self.0.lock().unwrap().brackets.push(*bracket);
        Ok(())
    }

    fn gap(&mut self, gap: &Gap) -> Result<(), SinkError> {
        self.0.lock().unwrap().gaps.push(*gap);
        Ok(())
    }

    fn end(&mut self, meta: &[MetaFile], cpus: &[CpuStats]) -> Result<(), SinkError> {
        let mut told = self.0.lock().unwrap();
        told.end_meta = meta.to_vec();
        told.events = cpus.iter().map(|cpu| cpu.events).sum();
        Ok(())
    }

    fn note(&mut self, text: &str) {
        self.0.lock().unwrap().notes.push(text.to_owned());
    }
}

fn can_trace() -> bool {
    match Tracefs::find() {
        Ok(_) => true,
        Err(why) => {
            eprintln!("skipped: {why}");
            false
        }
    }
}

fn request(system: &str, name: &str, filter: &str, required: bool) -> EventRequest {
    EventRequest { system: system.into(), name: name.into(), filter: filter.into(), required }
}

fn session(socket: &Path, events: Vec<EventRequest>, notebook: &Notebook) -> GuestSession {
    let config = SessionConfig {
        spec: format!("name=self,virtio-serial:{}", socket.display()).parse().unwrap(),
        recorder: "test".into(),
        host_clock: StampClock::Mono,
        clocks: vec![StampClock::Mono],
        buffer_bytes: 1 << 20,
        events,
        compact: None,
        limits: Limits::default(),
        bounds: Bounds::default(),
    };
    GuestSession::spawn(config, Box::new(notebook.clone())).unwrap()
}

/// A thread that makes exactly `calls` getppid(2), and an event filter that matches only those.
fn only_my_getppids() -> EventRequest {
    let filter =
        format!("common_pid == {} && id == 110", rustix::thread::gettid().as_raw_nonzero());
    request("raw_syscalls", "sys_enter", &filter, true)
}

#[test]
fn every_event_of_a_known_workload_arrives() {
    if !can_trace() || !cfg!(target_arch = "x86_64") {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let agent = Agent::start(dir.path());
    let events = vec![only_my_getppids(), request("nonsense", "nothing", "", false)];
    let notebook = Notebook::default();
    let session = session(&agent.socket, events, &notebook);
    assert!(session.wait_started(), "{:?}", session.stop());
    assert_eq!(agent.instances().len(), 1);
    for _ in 0..CALLS {
        let _ = rustix::process::getppid();
    }
    let outcome = session.stop().unwrap();
    let told = notebook.0.lock().unwrap();
    assert_eq!((told.events, outcome.events, outcome.lost), (CALLS, CALLS, 0));
    assert!(outcome.complete && told.gaps.is_empty() && told.notes.is_empty(), "{:?}", told.notes);
    assert!(told.pages > 0 && outcome.bytes == told.pages * 4096);
    assert_eq!(told.clock, "mono");
    assert_eq!(told.missing, ["nonsense:nothing"]);
    for file in
        ["header_page", "events/raw_syscalls/sys_enter/format", "events/ftrace/print/format"]
    {
        assert!(told.meta.iter().any(|name| name == file), "{file} in {:?}", told.meta);
    }
    check_settings(&told.settings);
    let cmdlines = told.end_meta.iter().find(|(name, _)| name == "saved_cmdlines").unwrap();
    assert!(String::from_utf8_lossy(&cmdlines.1).contains("transect-agent"));
    // One machine, one clock: the truth is known.
    for bracket in &told.brackets {
        assert!(bracket.host_send <= bracket.guest && bracket.guest <= bracket.host_recv);
    }
    agent.until_clean();
}

#[test]
fn sessions_follow_one_another_and_a_killed_recorder_leaves_nothing() {
    if !can_trace() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let agent = Agent::start(dir.path());
    let switches = || vec![request("sched", "sched_switch", "", true)];
    for _ in 0..2 {
        let notebook = Notebook::default();
        let session = session(&agent.socket, switches(), &notebook);
        assert!(session.wait_started(), "{:?}", session.stop());
        thread::sleep(Duration::from_millis(100));
        let outcome = session.stop().unwrap();
        assert!(outcome.complete && outcome.events > 0, "{outcome:?}");
        agent.until_clean();
    }
    // A recorder that vanishes in the middle: its end of the socket just closes.
    let mut config = session_config_of(&agent, switches());
    config.limits.start = Duration::from_secs(5);
    let session = GuestSession::spawn(config, Box::new(DyingSink)).unwrap();
    assert!(session.stop().is_err());
    agent.until_clean();
}

fn session_config_of(agent: &Agent, events: Vec<EventRequest>) -> SessionConfig {
    SessionConfig {
        spec: format!("virtio-serial:{}", agent.socket.display()).parse().unwrap(),
        recorder: "test".into(),
        host_clock: StampClock::Mono,
        clocks: vec![StampClock::Mono],
        buffer_bytes: 1 << 20,
        events,
        compact: None,
        limits: Limits::default(),
        bounds: Bounds::default(),
    }
}

/// Fails at once: the session drops its connection without a Bye.
struct DyingSink;

impl GuestSink for DyingSink {
    fn begin(&mut self, _: &Beginning<'_>) -> Result<(), SinkError> {
        Err("gone".into())
    }
    fn pages(&mut self, _: u32, _: &[u8]) -> Result<(), SinkError> {
        Ok(())
    }
    fn bracket(&mut self, _: &Bracket) -> Result<(), SinkError> {
        Ok(())
    }
    fn gap(&mut self, _: &Gap) -> Result<(), SinkError> {
        Ok(())
    }
    fn end(&mut self, _: &[MetaFile], _: &[CpuStats]) -> Result<(), SinkError> {
        Ok(())
    }
    fn note(&mut self, _: &str) {}
}

#[test]
fn the_kernels_own_words_reach_the_recorder() {
    if !can_trace() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let agent = Agent::start(dir.path());
    for (event, part) in [
        (request("sched", "sched_swich", "", true), "sched_switch"),
        (request("sched", "sched_switch", "nonsense_field == 1", true), "nonsense_field"),
    ] {
        let session = session(&agent.socket, vec![event], &Notebook::default());
        assert!(!session.wait_started());
        let error = session.stop().unwrap_err().to_string();
        assert!(error.contains(part), "{error}");
        agent.until_clean();
    }
}

#[test]
fn sigterm_ends_a_recording_agent_cleanly() {
    if !can_trace() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let mut agent = Agent::start(dir.path());
    let notebook = Notebook::default();
    let session =
        session(&agent.socket, vec![request("sched", "sched_switch", "", true)], &notebook);
    assert!(session.wait_started(), "{:?}", session.stop());
    let pid = rustix::process::Pid::from_child(&agent.child);
    rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
    assert!(agent.child.wait().unwrap().success());
    agent.until_clean();
    assert!(!session.stop().unwrap().complete);
}
