//! Old peers: agents and recorders that speak an older version are served as they always were.
#![allow(clippy::unwrap_used, clippy::panic)] // A failed expectation is the report.

use std::{
    io::{Read, Write},
    os::unix::net::{UnixListener, UnixStream},
    path::Path,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::{Duration, Instant},
};
use transect_guest::{
    bounds::Bounds,
    exchange::Bracket,
    proto::{
        CHUNK_BYTES, CompactPlan, CompactRun, CpuStats, Decoder, Frame, HEADER_BYTES, Hello,
        MachineFacts, Pong, Role, Start, Started, Stats, Welcome, Words,
    },
    serve::{Caller, End, MetaFile, PageOut, Prepared, TraceRun, TraceSource},
    session::{Beginning, Gap, GuestSession, GuestSink, Limits, SessionConfig, SinkError},
    stamp::{StampClock, TscReading},
    transport::Listener,
};

const OUR_SESSION: u32 = 5;

/// One end of a socket, spoken to in frames by hand.
struct Peer {
    socket: UnixStream,
    decoder: Decoder,
}

impl Peer {
    fn new(socket: UnixStream, role: Role) -> Self {
        socket.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
        Peer { socket, decoder: Decoder::new(role) }
    }

    fn say(&mut self, session: u32, frame: &Frame<'_>) {
        let mut wire = Vec::new();
        frame.encode(session, &mut wire).unwrap();
        self.socket.write_all(&wire).unwrap();
    }

    /// The next frame: session, type, payload.
    fn next(&mut self) -> (u32, u8, Vec<u8>) {
        loop {
            let mut wire = Vec::new();
            let kind = self.decoder.next().unwrap().map(|frame| {
                frame.encode(1, &mut wire).unwrap();
                frame.kind()
            });
            if let Some(kind) = kind {
                let session = self.decoder.session().unwrap();
                return (session, kind, wire.split_off(HEADER_BYTES));
            }
            let bytes = self.socket.read(self.decoder.room()).unwrap();
            assert!(bytes > 0, "the other side closed too early");
            self.decoder.filled(bytes);
        }
    }
}

fn facts() -> MachineFacts {
    MachineFacts {
        nodename: "old".into(),
        boot_id: "boot".into(),
        clocks: vec!["local".into(), "mono".into()],
        stamp_clocks: vec![StampClock::Mono],
        cpu_count: 1,
        page_bytes: PAGE_BYTES,
        ..MachineFacts::default()
    }
}

const PAGE_BYTES: u32 = 4096;

/// What is wanted of every agent.
const FAMILIES: [&str; 4] = ["sched", "causes", "vectors", "stacks"];
const WITH: [&str; 2] = ["task:task_rename", "lock:contention_begin"];

/// An agent of an older version, which knows frames up to this type: anything newer would be an error to it.
fn old_agent(listener: &UnixListener, version: u8, newest_kind: u8) {
    let (socket, _) = listener.accept().unwrap();
    let mut peer = Peer::new(socket, Role::Agent);
    let page = vec![7; 4096];
    loop {
        let (session, kind, payload) = peer.next();
        assert!(kind <= newest_kind, "an old agent cannot read type {kind}");
        match Frame::decode(kind, &payload).unwrap() {
            Frame::Hello(hello) => {
                assert!((hello.min_version..=hello.max_version).contains(&version), "{hello:?}");
                let welcome = Welcome { version, agent: "0.0.1".into(), facts: facts() };
                peer.say(session, &Frame::Welcome(welcome));
            }
            Frame::Ping { seq, clock } => {
                let stamp = clock.now().unwrap();
                peer.say(session, &Frame::Pong(Pong { seq, cpu: 0, stamp }));
            }
            Frame::Start(Start { clock, compact, .. }) => {
                let families = compact.map(|plan| (plan.families, plan.with));
                let (known, with): (&[&str], &[&str]) = match version {
                    2 => (&["sched"], &["task:task_rename"]),
                    _ => (&FAMILIES[..3], &WITH),
                };
                let texts = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect();
                let known: (Vec<String>, Vec<String>) = (texts(known), texts(with));
                assert_eq!(families, (version >= 2).then_some(known));
                let started =
                    Started { clock: clock.into(), page_bytes: PAGE_BYTES, ..Started::default() };
                peer.say(session, &Frame::Started(started));
                peer.say(session, &Frame::Stats(Stats::default()));
                peer.say(session, &Frame::Data { cpu: 0, pages: &page });
            }
            Frame::Stop => peer.say(session, &Frame::Stopped),
            Frame::Bye => return,
            other => panic!("{other:?}"),
        }
    }
}

#[derive(Default)]
struct Told {
    started: Vec<Started>,
    pages: usize,
    words: Vec<(u64, usize)>,
    readings: Vec<TscReading>,
    notes: Vec<String>,
    brackets: Vec<Bracket>,
}

#[derive(Clone, Default)]
struct Notebook(Arc<Mutex<Told>>);

impl GuestSink for Notebook {
    fn begin(&mut self, beginning: &Beginning<'_>) -> Result<(), SinkError> {
        self.0.lock().unwrap().started.push(beginning.started.clone());
        Ok(())
    }

    fn pages(&mut self, _cpu: u32, _pages: &[u8]) -> Result<(), SinkError> {
        self.0.lock().unwrap().pages += 1;
        Ok(())
    }

    fn words(&mut self, slice: &Words<'_>) -> Result<u64, SinkError> {
        let mut told = self.0.lock().unwrap();
        assert!(!told.started.is_empty());
        told.words.push((slice.position, slice.words.len()));
        Ok(3)
    }

    fn reading(&mut self, reading: &TscReading) -> Result<(), SinkError> {
        let mut told = self.0.lock().unwrap();
        assert!(!told.started.is_empty());
        told.readings.push(*reading);
        Ok(())
    }

    fn bracket(&mut self, bracket: &Bracket) -> Result<(), SinkError> {
        self.0.lock().unwrap().brackets.push(*bracket);
        Ok(())
    }

    fn gap(&mut self, _: &Gap) -> Result<(), SinkError> {
        Ok(())
    }

    fn end(&mut self, _: &[MetaFile], _: &[CpuStats]) -> Result<(), SinkError> {
        Ok(())
    }

    fn note(&mut self, note: &str) {
        self.0.lock().unwrap().notes.push(note.to_owned());
    }
}

fn session(socket: &Path, notebook: &Notebook) -> GuestSession {
    let config = SessionConfig {
        spec: format!("virtio-serial:{}", socket.display()).parse().unwrap(),
        recorder: "test".into(),
        host_clock: StampClock::Mono,
        clocks: vec![StampClock::Mono],
        buffer_bytes: 1 << 20,
        events: Vec::new(),
        compact: Some(CompactPlan {
            families: FAMILIES.map(str::to_owned).to_vec(),
            with: WITH.map(str::to_owned).to_vec(),
            ..CompactPlan::default()
        }),
        limits: Limits::default(),
        bounds: Bounds::default(),
    };
    GuestSession::spawn(config, Box::new(notebook.clone())).unwrap()
}

fn until(what: &str, condition: impl Fn() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(10);
    while !condition() {
        assert!(Instant::now() < deadline, "never: {what}");
        thread::sleep(Duration::from_millis(2));
    }
}

#[test]
fn an_old_agent_records_fully_and_that_is_told() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("agent");
    let listener = UnixListener::bind(&path).unwrap();
    let agent = thread::spawn(move || old_agent(&listener, 1, 13));
    let notebook = Notebook::default();
    let session = session(&path, &notebook);
    assert!(session.wait_started(), "{:?}", session.stop());
    until("a page", || notebook.0.lock().unwrap().pages > 0);
    assert!(session.stop().unwrap().complete);
    agent.join().unwrap();
    let told = notebook.0.lock().unwrap();
    let started = &told.started[0];
    assert!(started.compact.is_none(), "{started:?}");
    let why = started.why_full.terminal();
    assert!(why.contains("0.0.1") && why.contains("update"), "{why}");
    assert!(told.words.is_empty() && told.readings.is_empty() && told.brackets.len() > 40);
}

#[test]
fn an_older_agent_is_asked_for_what_it_knows() {
    asks(2, "causes, vectors, stacks, lock:contention_begin");
    asks(3, "stacks");
}

/// An agent of this version is asked for the rest only.
fn asks(version: u8, unknown: &str) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("agent");
    let listener = UnixListener::bind(&path).unwrap();
    let agent = thread::spawn(move || old_agent(&listener, version, 17));
    let notebook = Notebook::default();
    let session = session(&path, &notebook);
    assert!(session.wait_started(), "{:?}", session.stop());
    until("a page", || notebook.0.lock().unwrap().pages > 0);
    assert!(session.stop().unwrap().complete);
    agent.join().unwrap();
    let told = notebook.0.lock().unwrap();
    let [note] = told.notes.as_slice() else { panic!("{:?}", told.notes) };
    let unknown = format!("transect-agent 0.0.1 is older and does not know {unknown}");
    assert!(note.contains(&unknown), "{note}");
}

/// A machine that can do both; the version of its recorder is its buffers' size.
struct Machine;

struct Run {
    is_compact: bool,
    position: u64,
}

impl TraceSource for Machine {
    type Run = Run;

    fn facts(&mut self) -> MachineFacts {
        facts()
    }

    fn prepare(&mut self, start: &Start, version: u8) -> Result<Prepared<Run>, String> {
        let compact = start.compact.as_ref().map(|plan| CompactRun {
            log_bytes: plan.log_bytes,
            isa: "svm".into(),
            events: plan.families.clone(),
        });
        let is_compact = compact.is_some();
        let started = Started {
            clock: "mono".into(),
            page_bytes: PAGE_BYTES,
            buffer_bytes: version.into(),
            compact,
            ..Started::default()
        };
        let meta = ["header_page", "irq_lines", "cgroups", "tasks"];
        let meta = meta.map(|name| (name.to_owned(), b"x\n".to_vec())).to_vec();
        Ok(Prepared { started, meta, run: Run { is_compact, position: 0 } })
    }
}

impl TraceRun for Run {
    fn begin(&mut self) -> Result<(), String> {
        Ok(())
    }

    fn pump(&mut self, out: &mut PageOut<'_>, _: Duration) -> std::io::Result<bool> {
        thread::sleep(Duration::from_millis(5));
        if !self.is_compact {
            out.page(0, &[1; 4096])?;
            return Ok(true);
        }
        // From chunk to chunk in unequal slices.
        let left = CHUNK_BYTES - usize::try_from(self.position).unwrap() % CHUNK_BYTES;
        let words = vec![0xff; left.min(12_000)];
        let (position, lost) = (self.position, 0);
        out.words(Words { cpu: 0, side: 0, position, sync_ns: 1, lost, words: &words })?;
        self.position += words.len() as u64;
        Ok(true)
    }

    fn stats(&mut self) -> Stats {
        Stats::default()
    }

    fn finish(&mut self, _: &mut PageOut<'_>) -> std::io::Result<Vec<MetaFile>> {
        Ok(Vec::new())
    }
}

fn new_agent(path: &Path) -> thread::JoinHandle<End> {
    let listener = Listener::unix(path).unwrap();
    thread::spawn(move || {
        let channel = listener.accept(Duration::from_secs(10)).unwrap().unwrap();
        let shutdown = AtomicBool::new(false);
        let caller = Caller::wait(&channel, "test", &shutdown).ok().unwrap();
        let end = caller.serve(&mut Machine);
        shutdown.store(true, Ordering::Relaxed);
        end
    })
}

#[test]
fn an_old_recorder_hears_nothing_new() {
    for (version, newest_kind) in [(1, 13), (2, 17)] {
        record_by_old_recorder(version, newest_kind);
    }
}

/// Records from a new agent as a recorder of this version, which knows frames up to this type.
fn record_by_old_recorder(version: u8, newest_kind: u8) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("agent");
    let agent = new_agent(&path);
    let role = Role::Recorder { session: OUR_SESSION };
    let mut peer = Peer::new(UnixStream::connect(&path).unwrap(), role);
    let hello = Hello { min_version: 1, max_version: version, recorder: "0.0.1".into() };
    peer.say(OUR_SESSION, &Frame::Hello(hello));
    let (mut pages, mut is_stopping) = (0, false);
    loop {
        let (_, kind, payload) = peer.next();
        assert!(kind <= newest_kind, "an old recorder cannot read type {kind}");
        match Frame::decode(kind, &payload).unwrap() {
            Frame::Welcome(welcome) => {
                assert_eq!(welcome.version, version);
                let (clock, events) = ("mono".into(), Vec::new());
                let start = Start { clock, buffer_bytes: 1, events, compact: None };
                peer.say(OUR_SESSION, &Frame::Start(start));
            }
            Frame::Data { .. } => {
                pages += 1;
                if pages >= 50 && !is_stopping {
                    is_stopping = true;
                    peer.say(OUR_SESSION, &Frame::Stop);
                }
            }
            Frame::Stopped => break,
            Frame::Started(started) => assert_eq!(started.buffer_bytes, u64::from(version)),
            Frame::Stats(_) => {}
            // A file of another name would be a part of the trace to it.
            Frame::Meta { name, .. } => assert_eq!(name, "header_page"),
            Frame::Reading(_) => assert!(version >= 2),
            other => panic!("{other:?}"),
        }
    }
    peer.say(OUR_SESSION, &Frame::Bye);
    assert_eq!(agent.join().unwrap(), End::Bye);
}

#[test]
fn slices_and_readings_come_in_order() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("agent");
    let agent = new_agent(&path);
    let notebook = Notebook::default();
    let before = StampClock::Mono.now().unwrap();
    let session = session(&path, &notebook);
    assert!(session.wait_started(), "{:?}", session.stop());
    until("slices", || notebook.0.lock().unwrap().words.len() > 100);
    let outcome = session.stop().unwrap();
    let after = StampClock::Mono.now().unwrap();
    assert!(outcome.complete, "{outcome:?}");
    assert_eq!(agent.join().unwrap(), End::Bye);
    let told = notebook.0.lock().unwrap();
    assert_eq!(told.started[0].compact.as_ref().unwrap().events, FAMILIES);
    assert_eq!(told.pages, 0);
    let mut end = 0;
    for (position, bytes) in &told.words {
        assert_eq!(*position, end);
        end += *bytes as u64;
    }
    assert_eq!((outcome.bytes, outcome.events), (end, 3 * told.words.len() as u64));
    if StampClock::X86Tsc.is_readable() {
        // Before the first record, ten a second, after the last.
        let readings = &told.readings;
        assert!(readings.len() >= 4, "{}", readings.len());
        assert!(readings.windows(2).all(|pair| pair[0].ns <= pair[1].ns));
        assert!(readings.iter().all(|r| before <= r.ns && r.ns <= after));
    }
}
