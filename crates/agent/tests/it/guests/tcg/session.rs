//! The static agent in a real guest (Debian's kernel under TCG), over a real virtio-serial port:
//! recorders that come, go, die and stall.
#![allow(clippy::unwrap_used, clippy::panic, clippy::print_stderr)] // A failed expectation is the report.

use crate::support::static_agent;
use std::{
    sync::{Arc, Mutex},
    thread,
    time::{Duration, Instant},
};
use transect_guest::{
    bounds::Bounds,
    discover,
    exchange::Bracket,
    proto::{CpuStats, EventRequest},
    serve::MetaFile,
    session::{
        Beginning, Gap, GapCause, GuestSession, GuestSink, Limits, Outcome, SessionConfig,
        SessionError, SinkError,
    },
    stamp::StampClock,
    transport::GuestSpec,
};
use transect_testbed::{Guest, TcgGuest};

#[derive(Default)]
struct Told {
    boots: Vec<(String, bool)>,
    cpu_count: u32,
    bytes: usize,
    brackets: Vec<Bracket>,
    gaps: Vec<Gap>,
    notes: Vec<String>,
}

#[derive(Clone, Default)]
struct Notebook {
    told: Arc<Mutex<Told>>,
    dies_at_bytes: Option<usize>,
}

impl GuestSink for Notebook {
    fn begin(&mut self, beginning: &Beginning<'_>) -> Result<(), SinkError> {
        let mut told = self.told.lock().unwrap();
        told.cpu_count = beginning.facts.cpu_count;
        told.boots
            .push((beginning.facts.boot_id.raw_for_storage().to_owned(), beginning.continues));
        assert_eq!(beginning.started.clock, "x86-tsc");
        Ok(())
    }

    fn pages(&mut self, _cpu: u32, pages: &[u8]) -> Result<(), SinkError> {
        let mut told = self.told.lock().unwrap();
        told.bytes += pages.len();
        match self.dies_at_bytes {
            Some(limit) if told.bytes > limit => Err("died".into()),
            _ => Ok(()),
        }
    }

    fn bracket(&mut self, bracket: &Bracket) -> Result<(), SinkError> {
        self.told.lock().unwrap().brackets.push(*bracket);
        Ok(())
    }

    fn gap(&mut self, gap: &Gap) -> Result<(), SinkError> {
        self.told.lock().unwrap().gaps.push(*gap);
        Ok(())
    }

    fn end(&mut self, _meta: &[MetaFile], _cpus: &[CpuStats]) -> Result<(), SinkError> {
        Ok(())
    }

    fn note(&mut self, text: &str) {
        self.told.lock().unwrap().notes.push(text.to_owned());
    }
}

impl Notebook {
    fn until(&self, what: &str, condition: impl Fn(&Told) -> bool) {
        let deadline = Instant::now() + Duration::from_secs(30);
        while !condition(&self.told.lock().unwrap()) {
            let told = self.told.lock().unwrap();
            assert!(Instant::now() < deadline, "never: {what}; notes: {:?}", told.notes);
            drop(told);
            thread::sleep(Duration::from_millis(5));
        }
    }
}

/// Longer than anything takes here: what waits for so long has failed.
const PATIENCE: Duration = Duration::from_secs(120);

fn session(guest: &Guest, notebook: &Notebook, limits: Limits) -> GuestSession {
    let event = |name: &str| EventRequest {
        system: "sched".into(),
        name: name.into(),
        filter: String::new(),
        required: true,
    };
    let socket = guest.port().unwrap().display();
    let config = SessionConfig {
        spec: format!("name=web,virtio-serial:{socket}").parse().unwrap(),
        recorder: "test".into(),
        host_clock: StampClock::X86Tsc,
        clocks: vec![StampClock::X86Tsc],
        buffer_bytes: 1 << 20,
        events: vec![event("sched_switch"), event("sched_waking")],
        compact: None,
        limits,
        bounds: Bounds::default(),
    };
    GuestSession::spawn(config, Box::new(notebook.clone())).unwrap()
}

/// None of them is reached.
fn long() -> Limits {
    Limits {
        start: PATIENCE,
        stall: PATIENCE,
        stop_idle: PATIENCE,
        stop_total: PATIENCE,
        ..Limits::default()
    }
}

fn record(
    guest: &Guest,
    notebook: &Notebook,
    is_enough: impl Fn(&GuestSession) -> bool,
) -> Result<Outcome, SessionError> {
    let session = session(guest, notebook, long());
    session.wait_started();
    let deadline = Instant::now() + PATIENCE;
    while !session.is_over() && !is_enough(&session) {
        assert!(Instant::now() < deadline, "never enough: {:?}", session.progress());
        thread::sleep(Duration::from_millis(5));
    }
    session.stop()
}

/// Under TCG the guest's TSC is the host's plus a constant: so every bracket must allow one and
/// the same offset. Returns the width of what they all allow, ticks.
fn common_offsets(brackets: &[Bracket]) -> i128 {
    let least = brackets.iter().map(|b| i128::from(b.guest) - i128::from(b.host_recv)).max();
    let most = brackets.iter().map(|b| i128::from(b.guest) - i128::from(b.host_send)).min();
    most.unwrap() - least.unwrap()
}

#[test]
fn a_guests_port_serves_recorders_that_come_go_die_and_stall() {
    let Some(agent) = static_agent() else { return };
    let guest = TcgGuest::plan("web")
        .unwrap()
        .port("org.transect.0")
        .agent(&agent, &["--virtio-serial"])
        .workload("periodic:period_ms=2:work_us=100")
        .boot()
        .unwrap();

    // Found from outside, by its socket.
    let endpoint = format!("virtio-serial:{}", guest.port().unwrap().display());
    let spec: GuestSpec = endpoint.parse().unwrap();
    let found = discover::vms();
    let vm = found.find(&spec.endpoint, None).unwrap();
    assert_eq!((vm.name.as_str(), vm.vcpus.len(), vm.uses_kvm), ("web", 1, false));

    // Comes and goes, twice over the same port.
    let mut boot = String::new();
    for _ in 0..2 {
        let notebook = Notebook::default();
        let outcome = record(&guest, &notebook, |session| session.progress().events > 500).unwrap();
        let told = notebook.told.lock().unwrap();
        assert!(
            outcome.complete && outcome.gaps == 0 && told.notes.is_empty(),
            "{outcome:?} {:?}",
            told.notes
        );
        assert!(outcome.events > 500 && outcome.lost == 0, "{outcome:?}");
        assert_eq!((told.cpu_count, told.boots.len(), told.boots[0].1), (1, 1, false));
        let width = common_offsets(&told.brackets);
        eprintln!("{} brackets agree within {width} ticks; {outcome:?}", told.brackets.len());
        assert!(width >= 0, "no offset fits all {} brackets: {width}", told.brackets.len());
        boot.clone_from(&told.boots[0].0);
    }

    // Dies in the middle: what it left in the port must not confuse the next one.
    let dying = Notebook { dies_at_bytes: Some(20_000), ..Notebook::default() };
    assert!(record(&guest, &dying, |_| false).is_err());
    let notebook = Notebook::default();
    let limits = Limits { stall: Duration::from_secs(2), ..long() };
    let session = session(&guest, &notebook, limits);
    assert!(session.wait_started(), "{:?}", session.stop());
    notebook.until("events after a death", |told| told.bytes > 20_000);

    // Stalls longer than the limit, while being recorded.
    let frozen_at = StampClock::X86Tsc.now().unwrap();
    guest.freeze().unwrap();
    notebook.until("the stall's note", |told| !told.notes.is_empty());
    guest.thaw().unwrap();
    notebook.until("the stall's gap", |told| !told.gaps.is_empty());
    let outcome = session.stop().unwrap();
    let told = notebook.told.lock().unwrap();
    assert!(outcome.complete && outcome.links == 2, "{outcome:?}");
    assert_eq!((told.gaps.len(), told.gaps[0].cause), (1, GapCause::Stalled));
    assert!(told.gaps[0].from <= frozen_at && Some(frozen_at) < told.gaps[0].to);
    assert_eq!(told.boots, [(boot.clone(), false), (boot, true)], "one boot, one source");
    drop(told);

    // Dies for good, and would be looked for again long after.
    let notebook = Notebook::default();
    let limits = Limits { reconnect_min: PATIENCE, reconnect_max: PATIENCE, ..long() };
    let session = session_after(&guest, &notebook, limits);
    guest.kill().unwrap();
    notebook.until("the death's note", |told| !told.notes.is_empty());
    let stopping_at = Instant::now();
    let outcome = session.stop().unwrap();
    let took = stopping_at.elapsed();
    assert!(took < PATIENCE, "{took:?}");
    assert!(!outcome.complete && outcome.gaps == 1, "{outcome:?}");
    assert_eq!(notebook.told.lock().unwrap().gaps[0].cause, GapCause::Disconnected);
}

fn session_after(guest: &Guest, notebook: &Notebook, limits: Limits) -> GuestSession {
    let session = session(guest, notebook, limits);
    assert!(session.wait_started(), "{:?}", session.stop());
    notebook.until("events", |told| told.bytes > 0);
    session
}
