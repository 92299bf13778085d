//! Both ends of a session over a Unix socket: the real recorder side, the real agent side, and a
//! made-up machine whose pages can be checked byte by byte.
#![allow(clippy::unwrap_used, clippy::cast_possible_truncation)] // A failed expectation is the report.

use std::{
    collections::BTreeMap,
    io::{self, Read, Write},
    os::unix::net::{UnixListener, UnixStream},
    path::{Path, PathBuf},
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering},
    },
    thread,
    time::{Duration, Instant},
};
use transect_guest::{
    exchange::Bracket,
    proto::{CpuStats, EventRequest, Frame, MachineFacts, Start, Started, Stats},
    serve::{Caller, End, MetaFile, PageOut, Prepared, TraceRun, TraceSource},
    session::{
        Beginning, Gap, GapCause, GuestSession, GuestSink, Limits, SessionConfig, SinkError,
    },
    stamp::StampClock,
    transport::{Channel, Listener},
};

const PAGE: usize = 4096;

/// A machine that "records" numbered pages on two CPUs.
#[derive(Clone)]
struct FakeMachine {
    boot_id: Arc<Mutex<String>>,
    /// Sub-buffers made per CPU; the number is written into the page.
    made: Arc<AtomicU64>,
    running: Arc<AtomicU32>,
    refuse: Option<String>,
    page_limit: u64,
}

impl FakeMachine {
    fn new() -> Self {
        FakeMachine {
            boot_id: Arc::new(Mutex::new("boot-1".into())),
            made: Arc::default(),
            running: Arc::default(),
            refuse: None,
            page_limit: u64::MAX,
        }
    }
}

struct FakeRun {
    machine: FakeMachine,
    cmdlines: MetaFile,
}

impl Drop for FakeRun {
    fn drop(&mut self) {
        self.machine.running.fetch_sub(1, Ordering::SeqCst);
    }
}

impl TraceSource for FakeMachine {
    type Run = FakeRun;

    fn facts(&mut self) -> MachineFacts {
        MachineFacts {
            nodename: "fake".into(),
            boot_id: self.boot_id.lock().unwrap().clone(),
            clocks: vec!["local".into(), "mono".into()],
            stamp_clocks: vec![StampClock::Mono],
            cpu_count: 2,
            page_bytes: PAGE as u32,
            ..MachineFacts::default()
        }
    }

    fn prepare(&mut self, start: &Start) -> Result<Prepared<FakeRun>, String> {
        if let Some(why) = &self.refuse {
            return Err(why.clone());
        }
        self.running.fetch_add(1, Ordering::SeqCst);
        let format = vec![b'f'; 200_000];
        Ok(Prepared {
            started: Started {
                clock: start.clock.clone(),
                page_bytes: PAGE as u32,
                buffer_bytes: start.buffer_bytes,
                missing: vec!["kvm:kvm_exit".into()],
                ..Started::default()
            },
            meta: vec![
                ("header_page".into(), b"page".to_vec()),
                ("events/sched/sched_switch/format".into(), format),
                ("printk_formats".into(), Vec::new()),
            ],
            run: FakeRun {
                machine: self.clone(),
                cmdlines: ("saved_cmdlines".into(), b"1 init\n".to_vec()),
            },
        })
    }
}

fn page(number: u64) -> Vec<u8> {
    let mut page = vec![0; PAGE];
    page[..8].copy_from_slice(&number.to_le_bytes());
    page
}

impl FakeRun {
    fn make(&mut self, out: &mut PageOut<'_>, count: u64) -> io::Result<()> {
        for _ in 0..count {
            let number = self.machine.made.fetch_add(1, Ordering::SeqCst);
            if number >= self.machine.page_limit {
                break;
            }
            out.page((number % 2) as u32, &page(number))?;
        }
        Ok(())
    }
}

impl TraceRun for FakeRun {
    fn begin(&mut self) -> Result<(), String> {
        Ok(())
    }

    fn pump(&mut self, out: &mut PageOut<'_>, _wait: Duration) -> io::Result<bool> {
        thread::sleep(Duration::from_millis(5));
        self.make(out, 40)?;
        Ok(true)
    }

    fn stats(&mut self) -> Stats {
        let cpu = |cpu| CpuStats { cpu, overrun: 3, dropped: 1, events: 10, bytes: 0 };
        Stats { drained_seq: None, agent_cpu_ns: 7, cpus: vec![cpu(0), cpu(1)] }
    }

    fn finish(&mut self, out: &mut PageOut<'_>) -> io::Result<Vec<MetaFile>> {
        self.make(out, 3)?;
        Ok(vec![self.cmdlines.clone()])
    }
}

/// Boot id, continues, names and sizes of descriptive files.
type Begun = (String, bool, Vec<(String, usize)>);

/// Everything a session told.
#[derive(Default)]
struct Told {
    begun: Vec<Begun>,
    pages: BTreeMap<u32, Vec<u64>>,
    brackets: Vec<Bracket>,
    gaps: Vec<Gap>,
    ends: Vec<(Vec<MetaFile>, Vec<CpuStats>)>,
    notes: Vec<String>,
}

#[derive(Clone, Default)]
struct Notebook {
    told: Arc<Mutex<Told>>,
    fails_at_page: Option<usize>,
}

impl GuestSink for Notebook {
    fn begin(&mut self, b: &Beginning<'_>) -> Result<(), SinkError> {
        let meta = b.meta.iter().map(|(name, bytes)| (name.clone(), bytes.len())).collect();
        self.told.lock().unwrap().begun.push((b.facts.boot_id.clone(), b.continues, meta));
        Ok(())
    }

    fn pages(&mut self, cpu: u32, pages: &[u8]) -> Result<(), SinkError> {
        assert_eq!(pages.len() % PAGE, 0);
        let mut told = self.told.lock().unwrap();
        let kept = told.pages.entry(cpu).or_default();
        for page in pages.chunks(PAGE) {
            kept.push(u64::from_le_bytes(page[..8].try_into().unwrap()));
        }
        if self.fails_at_page.is_some_and(|limit| kept.len() >= limit) {
            return Err("disk full".into());
        }
        Ok(())
    }

    fn bracket(&mut self, bracket: &Bracket) -> Result<(), SinkError> {
        let mut told = self.told.lock().unwrap();
        assert!(!told.begun.is_empty(), "a bracket of a guest that is not known yet");
        told.brackets.push(*bracket);
        Ok(())
    }

    fn gap(&mut self, gap: &Gap) -> Result<(), SinkError> {
        self.told.lock().unwrap().gaps.push(*gap);
        Ok(())
    }

    fn end(&mut self, meta: &[MetaFile], cpus: &[CpuStats]) -> Result<(), SinkError> {
        self.told.lock().unwrap().ends.push((meta.to_vec(), cpus.to_vec()));
        Ok(())
    }

    fn note(&mut self, text: &str) {
        self.told.lock().unwrap().notes.push(text.to_owned());
    }
}

/// The agent, in a thread, on a Unix socket.
struct Agent {
    shutdown: Arc<AtomicBool>,
    is_serving: Arc<AtomicBool>,
    thread: Option<thread::JoinHandle<Vec<End>>>,
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
            while !flag.load(Ordering::Relaxed) {
                if let Some(channel) = listener.accept(Duration::from_millis(20)).unwrap() {
                    serving.store(true, Ordering::SeqCst);
                    ends.push(serve_one(&channel, &mut machine, &flag));
                    serving.store(false, Ordering::SeqCst);
                }
            }
            ends
        });
        Agent { shutdown, is_serving, thread: Some(thread) }
    }

    /// Ends it; a recorder's last word that is on the way is read first.
    fn end(mut self) -> Vec<End> {
        let patience = Instant::now() + Duration::from_millis(500);
        while self.is_serving.load(Ordering::SeqCst) && Instant::now() < patience {
            thread::sleep(Duration::from_millis(2));
        }
        self.shutdown.store(true, Ordering::Relaxed);
        self.thread.take().unwrap().join().unwrap()
    }
}

fn serve_one(channel: &Channel, machine: &mut FakeMachine, shutdown: &AtomicBool) -> End {
    match Caller::wait(channel, "test", shutdown) {
        Ok(caller) => caller.serve(machine),
        Err(end) => end,
    }
}

/// A socket between recorder and agent that can be cut, frozen, or start with rubbish.
struct Wire {
    cut: Arc<AtomicBool>,
    frozen: Arc<AtomicBool>,
}

impl Wire {
    fn lay(front: &Path, back: PathBuf, stale: Vec<u8>) -> Self {
        let listener = UnixListener::bind(front).unwrap();
        let wire = Wire { cut: Arc::default(), frozen: Arc::default() };
        let (cut, frozen) = (Arc::clone(&wire.cut), Arc::clone(&wire.frozen));
        thread::spawn(move || {
            for near in listener.incoming() {
                let mut near = near.unwrap();
                // QEMU delivers what the guest wrote to nobody as soon as somebody connects.
                let _ = near.write_all(&stale);
                let Ok(mut far) = UnixStream::connect(&back) else { continue };
                let _ = far.write_all(&stale);
                cut.store(false, Ordering::SeqCst);
                for (from, to) in
                    [(near.try_clone().unwrap(), far.try_clone().unwrap()), (far, near)]
                {
                    let (cut, frozen) = (Arc::clone(&cut), Arc::clone(&frozen));
                    thread::spawn(move || pass(from, to, &cut, &frozen));
                }
            }
        });
        wire
    }

    fn cut(&self) {
        self.cut.store(true, Ordering::SeqCst);
    }

    fn freeze(&self, frozen: bool) {
        self.frozen.store(frozen, Ordering::SeqCst);
    }
}

fn pass(mut from: UnixStream, mut to: UnixStream, cut: &AtomicBool, frozen: &AtomicBool) {
    from.set_read_timeout(Some(Duration::from_millis(5))).unwrap();
    let mut buffer = [0; 16384];
    loop {
        if cut.load(Ordering::SeqCst) {
            let _ = from.shutdown(std::net::Shutdown::Both);
            let _ = to.shutdown(std::net::Shutdown::Both);
            return;
        }
        if frozen.load(Ordering::SeqCst) {
            thread::sleep(Duration::from_millis(5));
            continue;
        }
        match from.read(&mut buffer) {
            Ok(0) => {
                let _ = to.shutdown(std::net::Shutdown::Both);
                return;
            }
            Ok(bytes) => {
                if to.write_all(&buffer[..bytes]).is_err() {
                    return;
                }
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(_) => return,
        }
    }
}

struct Scene {
    dir: tempfile::TempDir,
    machine: FakeMachine,
    notebook: Notebook,
}

impl Scene {
    fn new() -> Self {
        Scene {
            dir: tempfile::tempdir().unwrap(),
            machine: FakeMachine::new(),
            notebook: Notebook::default(),
        }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn agent(&self) -> Agent {
        Agent::start(&self.path("agent"), self.machine.clone())
    }

    fn session(&self, socket: &str) -> GuestSession {
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
            limits: Limits {
                start: Duration::from_secs(2),
                stall: Duration::from_millis(600),
                stop_idle: Duration::from_millis(500),
                stop_total: Duration::from_secs(3),
                reconnect_min: Duration::from_millis(20),
                reconnect_max: Duration::from_millis(100),
            },
        };
        GuestSession::spawn(config, Box::new(self.notebook.clone())).unwrap()
    }

    /// Waits until the notebook satisfies `condition`.
    fn until(&self, what: &str, condition: impl Fn(&Told) -> bool) {
        let deadline = Instant::now() + Duration::from_secs(10);
        while !condition(&self.notebook.told.lock().unwrap()) {
            assert!(Instant::now() < deadline, "never: {what}");
            thread::sleep(Duration::from_millis(2));
        }
    }

    fn until_pages(&self, count: usize) {
        self.until("enough pages", |told| told.pages.values().any(|cpu| cpu.len() >= count));
    }

    fn until_agent_is_idle(&self) {
        let deadline = Instant::now() + Duration::from_secs(5);
        while self.machine.running.load(Ordering::SeqCst) > 0 {
            assert!(Instant::now() < deadline, "the agent did not clean up");
            thread::sleep(Duration::from_millis(5));
        }
    }
}

/// Each CPU's pages in order, and together (with `missing` allowed) every number once.
fn check_pages(told: &Told, may_miss: bool) {
    let mut all: Vec<u64> = Vec::new();
    for (cpu, numbers) in &told.pages {
        assert!(numbers.windows(2).all(|pair| pair[0] < pair[1]), "cpu {cpu} out of order");
        assert!(numbers.iter().all(|number| number % 2 == u64::from(*cpu)));
        all.extend(numbers);
    }
    all.sort_unstable();
    if !may_miss {
        assert!(all.iter().copied().eq(0..all.len() as u64), "pages are missing");
    }
}

fn mono() -> u64 {
    StampClock::Mono.now().unwrap()
}

#[test]
fn a_quiet_session_brings_every_page_and_tight_brackets() {
    let scene = Scene::new();
    let agent = scene.agent();
    let before = mono();
    let session = scene.session("agent");
    assert!(session.wait_started(), "{:?}", session.stop());
    scene.until_pages(500);
    assert!(session.progress().connected);
    let outcome = session.stop().unwrap();
    let after = mono();

    let told = scene.notebook.told.lock().unwrap();
    check_pages(&told, false);
    let received: usize = told.pages.values().map(Vec::len).sum();
    assert_eq!(outcome.bytes, (received * PAGE) as u64);
    assert!(outcome.complete && outcome.gaps == 0 && outcome.links == 1, "{outcome:?}");
    assert_eq!((outcome.events, outcome.lost, outcome.agent_cpu_ns), (20, 8, 7));

    let (boot, continues, meta) = &told.begun[0];
    assert_eq!((boot.as_str(), *continues, told.begun.len()), ("boot-1", false, 1));
    let sizes: Vec<usize> = meta.iter().map(|(_, bytes)| *bytes).collect();
    assert_eq!(sizes, [4, 200_000, 0], "files in pieces come together again");
    assert_eq!(told.ends.len(), 1);
    assert_eq!(told.ends[0].0[0].1, b"1 init\n");

    // One clock on both sides here: a bracket encloses its guest stamp or is wrong.
    assert!(told.brackets.len() >= 90, "two bursts: {}", told.brackets.len());
    for bracket in &told.brackets {
        assert!(before <= bracket.host_send && bracket.host_recv <= after);
        assert!(bracket.host_send <= bracket.guest && bracket.guest <= bracket.host_recv);
    }
    assert!(outcome.best_round_trip.unwrap() < 2_000_000, "{outcome:?}");
    drop(told);
    scene.until_agent_is_idle();
    assert_eq!(agent.end(), [End::Bye]);
}

#[test]
fn a_cut_connection_costs_a_marked_gap_and_nothing_else() {
    let scene = Scene::new();
    let agent = scene.agent();
    let wire = Wire::lay(&scene.path("front"), scene.path("agent"), Vec::new());
    let session = scene.session("front");
    assert!(session.wait_started(), "{:?}", session.stop());
    scene.until_pages(50);
    // Long enough for some pings to be told drained, so that the gap is short.
    thread::sleep(Duration::from_millis(1500));
    let cut_at = mono();
    wire.cut();
    scene.until("a gap", |told| !told.gaps.is_empty());
    let back_at = mono();
    let pages_at_return = scene.notebook.told.lock().unwrap().pages[&0].len();
    scene.until_pages(pages_at_return + 50);
    let outcome = session.stop().unwrap();

    let told = scene.notebook.told.lock().unwrap();
    check_pages(&told, true);
    assert!(outcome.complete && outcome.links == 2 && outcome.gaps == 1, "{outcome:?}");
    let gap = told.gaps[0];
    assert_eq!(gap.cause, GapCause::Disconnected);
    assert!(gap.from <= cut_at && cut_at < gap.to && gap.to <= back_at, "{gap:?} cut {cut_at}");
    assert!(cut_at - gap.from < 1_200_000_000, "only what was not yet drained: {gap:?}");
    assert_eq!(told.begun.iter().map(|begun| begun.1).collect::<Vec<_>>(), [false, true]);
    assert_eq!(told.ends.len(), 1, "one source, ended once");
    assert!(told.notes[0].contains("reconnecting") && told.notes[1].contains("back"));
    drop(told);
    scene.until_agent_is_idle();
    let ends = agent.end();
    assert_eq!(ends, [End::Gone, End::Bye]);
}

#[test]
fn a_rebooted_guest_gets_a_source_of_its_own() {
    let scene = Scene::new();
    let agent = scene.agent();
    let session = scene.session("agent");
    assert!(session.wait_started(), "{:?}", session.stop());
    scene.until_pages(20);
    *scene.machine.boot_id.lock().unwrap() = "boot-2".into();
    agent.end();
    let agent = scene.agent();
    scene.until("a second source", |told| told.begun.len() == 2);
    scene.until("the gap", |told| told.gaps.len() == 1);
    let outcome = session.stop().unwrap();
    assert!(outcome.complete);
    let told = scene.notebook.told.lock().unwrap();
    assert_eq!(told.begun[1].0, "boot-2");
    assert!(!told.begun[1].1, "must not continue the old kernel's pages");
    assert_eq!(told.ends.len(), 2);
    assert!(told.ends[0].0.is_empty() && !told.ends[1].0.is_empty());
    drop(told);
    agent.end();
}

#[test]
fn a_stalled_guest_is_given_up_and_taken_back() {
    let scene = Scene::new();
    let agent = scene.agent();
    let wire = Wire::lay(&scene.path("front"), scene.path("agent"), Vec::new());
    let session = scene.session("front");
    assert!(session.wait_started(), "{:?}", session.stop());
    scene.until_pages(50);
    let frozen_at = mono();
    wire.freeze(true);
    thread::sleep(Duration::from_millis(900));
    wire.cut();
    wire.freeze(false);
    scene.until("a gap", |told| !told.gaps.is_empty());
    assert!(session.stop().unwrap().complete);
    let told = scene.notebook.told.lock().unwrap();
    assert_eq!(told.gaps[0].cause, GapCause::Stalled);
    assert!(told.gaps[0].from <= frozen_at && told.gaps[0].to > frozen_at);
    check_pages(&told, true);
    drop(told);
    agent.end();
}

#[test]
fn a_guest_that_never_comes_back_does_not_hold_up_the_end() {
    let scene = Scene::new();
    let agent = scene.agent();
    let session = scene.session("agent");
    assert!(session.wait_started(), "{:?}", session.stop());
    scene.until_pages(20);
    agent.end();
    std::fs::remove_file(scene.path("agent")).unwrap();
    scene.until("the loss", |told| !told.notes.is_empty());
    thread::sleep(Duration::from_millis(100));
    let stopping_at = Instant::now();
    let outcome = session.stop().unwrap();
    assert!(stopping_at.elapsed() < Duration::from_millis(500), "{:?}", stopping_at.elapsed());
    assert!(!outcome.complete);
    let told = scene.notebook.told.lock().unwrap();
    assert_eq!((told.gaps.len(), told.ends.len()), (1, 1));
    assert!(told.gaps[0].to <= mono());
}

#[test]
fn a_guest_frozen_at_the_end_costs_its_rest_and_a_bounded_wait() {
    let scene = Scene::new();
    let agent = scene.agent();
    let wire = Wire::lay(&scene.path("front"), scene.path("agent"), Vec::new());
    let session = scene.session("front");
    assert!(session.wait_started(), "{:?}", session.stop());
    scene.until_pages(20);
    wire.freeze(true);
    let stopping_at = Instant::now();
    let outcome = session.stop().unwrap();
    assert!(stopping_at.elapsed() < Duration::from_secs(2), "{:?}", stopping_at.elapsed());
    assert!(!outcome.complete && outcome.gaps == 1, "{outcome:?}");
    wire.cut();
    scene.until_agent_is_idle();
    agent.end();
}

#[test]
fn stale_bytes_of_a_dead_session_are_passed_over() {
    let scene = Scene::new();
    let mut stale = b"login: ".to_vec();
    let pages = vec![9; 8 * PAGE];
    Frame::Data { cpu: 1, pages: &pages }.encode(77, &mut stale).unwrap();
    Frame::Stopped.encode(77, &mut stale).unwrap();
    // Cut in the middle of a frame.
    Frame::Error { text: "an old error".into() }.encode(77, &mut stale).unwrap();
    stale.truncate(stale.len() - 5);
    let agent = scene.agent();
    let _wire = Wire::lay(&scene.path("front"), scene.path("agent"), stale);
    let session = scene.session("front");
    assert!(session.wait_started(), "{:?}", session.stop());
    scene.until_pages(20);
    assert!(session.stop().unwrap().complete);
    check_pages(&scene.notebook.told.lock().unwrap(), false);
    // Its last word is on the way; told to end before reading it, the agent would say so.
    scene.until_agent_is_idle();
    assert_eq!(agent.end(), [End::Bye]);
}

#[test]
fn what_the_agent_cannot_do_is_told_in_its_words() {
    let mut scene = Scene::new();
    scene.machine.refuse = Some("tracefs: no event sched:nonsense; see available_events".into());
    let agent = scene.agent();
    let session = scene.session("agent");
    assert!(!session.wait_started());
    let error = session.stop().unwrap_err().to_string();
    assert!(error.contains("fake (virtio-serial:") && error.contains("see available_events"));
    agent.end();
}

#[test]
fn a_second_recorder_is_told_that_the_agent_is_busy() {
    let scene = Scene::new();
    let path = scene.path("agent");
    let listener = Listener::unix(&path).unwrap();
    let refuser = thread::spawn(move || {
        let channel = listener.accept(Duration::from_secs(5)).unwrap().unwrap();
        Caller::wait(&channel, "test", &AtomicBool::new(false)).ok().unwrap().refuse_busy();
        thread::sleep(Duration::from_millis(100));
    });
    let session = scene.session("agent");
    assert!(!session.wait_started());
    let error = session.stop().unwrap_err().to_string();
    assert!(error.contains("another recorder"), "{error}");
    refuser.join().unwrap();
}

#[test]
fn a_missing_agent_is_an_error_with_a_mend() {
    let scene = Scene::new();
    let session = scene.session("nowhere");
    assert!(!session.wait_started());
    let error = session.stop().unwrap_err().to_string();
    assert!(error.contains("no such socket") && error.contains("virtserialport"), "{error}");
}

#[test]
fn a_peer_that_is_no_agent_is_silent_not_a_hang() {
    let scene = Scene::new();
    let listener = UnixListener::bind(scene.path("agent")).unwrap();
    let started = Instant::now();
    let session = scene.session("agent");
    assert!(!session.wait_started());
    let error = session.stop().unwrap_err().to_string();
    assert!(error.contains("no answer for 2 s") && error.contains("transect-agent"), "{error}");
    assert!(started.elapsed() < Duration::from_secs(4));
    drop(listener);
}

#[test]
fn a_full_disk_ends_the_session_with_its_reason() {
    let mut scene = Scene::new();
    scene.notebook.fails_at_page = Some(30);
    let agent = scene.agent();
    let session = scene.session("agent");
    let deadline = Instant::now() + Duration::from_secs(5);
    while !session.is_over() {
        assert!(Instant::now() < deadline, "the session goes on without a disk");
        thread::sleep(Duration::from_millis(5));
    }
    let error = session.stop().unwrap_err().to_string();
    assert!(error.contains("disk full"), "{error}");
    scene.until_agent_is_idle();
    agent.end();
}
