//! The agent's compact collector on this machine's own kernel, over a Unix socket: known loads,
//! exact counts, clocks whose truth is known. Needs root and BPF; says so and passes without.
#![allow(clippy::unwrap_used, clippy::panic, clippy::print_stderr)] // A failed expectation is the report.

use crate::support::{
    check_settings,
    kept::{GUEST, HOST, Keeper, events, graph, reading},
};
use std::{
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    thread,
    time::{Duration, Instant},
};
use transect_clock::Evidence;
use transect_guest::{
    bounds::Bounds,
    proto::{CompactPlan, EventRequest, SyscallForm},
    session::{GuestSession, Limits, SessionConfig},
    stamp::{StampClock, TscReading},
};
use transect_model::{
    event::CoreEvent,
    ids::{CpuId, Tid, VcpuId},
    time::Timestamp,
};

const CALLS: usize = 20_000;
const GETPPID: i64 = 110;

struct Agent {
    child: Child,
    socket: PathBuf,
}

impl Agent {
    fn start(dir: &Path) -> Self {
        Agent::start_by(dir, &mut Command::new(env!("CARGO_BIN_EXE_transect-agent")))
    }

    /// On a machine whose kernel tells no types, as far as the agent can see.
    fn start_without_btf(dir: &Path) -> Self {
        let hide = "mount -t tmpfs none /sys/kernel/btf && exec \"$0\" \"$@\"";
        let agent = env!("CARGO_BIN_EXE_transect-agent");
        let mut command = Command::new("unshare");
        Agent::start_by(dir, command.args(["--mount", "sh", "-c", hide, agent]))
    }

    fn start_by(dir: &Path, command: &mut Command) -> Self {
        let socket = dir.join("agent.sock");
        let child = command
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

    fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn can_run() -> bool {
    match transect_bpf::can_run() {
        Ok(_) if cfg!(target_arch = "x86_64") => true,
        Ok(_) => false,
        Err(why) => {
            eprintln!("skipped: {why}");
            false
        }
    }
}

fn session(agent: &Agent, compact: CompactPlan, keeper: &Keeper) -> GuestSession {
    let config = SessionConfig {
        spec: format!("name=self,virtio-serial:{}", agent.socket.display()).parse().unwrap(),
        recorder: "test".into(),
        host_clock: StampClock::Mono,
        clocks: vec![StampClock::Mono],
        buffer_bytes: 1 << 20,
        events: vec![EventRequest {
            system: "sched".into(),
            name: "sched_switch".into(),
            filter: String::new(),
            required: true,
        }],
        compact: Some(compact),
        limits: Limits::default(),
        bounds: Bounds::default(),
    };
    GuestSession::spawn(config, Box::new(keeper.clone())).unwrap()
}

fn families(names: &[&str]) -> CompactPlan {
    CompactPlan {
        families: names.iter().map(|name| (*name).to_owned()).collect(),
        log_bytes: 4 << 20,
        ..CompactPlan::default()
    }
}

/// System calls of this thread only.
fn my_calls() -> CompactPlan {
    let me = rustix::thread::gettid().as_raw_nonzero().get();
    CompactPlan { tids: vec![me.cast_unsigned()], ..families(&["sched", "syscalls"]) }
}

#[test]
fn every_call_of_a_known_workload_arrives_on_this_machines_clock() {
    if !can_run() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let agent = Agent::start(dir.path());
    let keeper = Keeper::default();
    let session = session(&agent, my_calls(), &keeper);
    assert!(session.wait_started(), "{:?}", session.stop());
    let began = StampClock::Mono.now().unwrap();
    for _ in 0..CALLS {
        let _ = rustix::process::getppid();
    }
    let ended = StampClock::Mono.now().unwrap();
    let outcome = session.stop().unwrap();
    assert!(outcome.complete && outcome.gaps == 0 && outcome.lost == 0, "{outcome:?}");
    keeper.look(|kept| {
        assert!(kept.notes.is_empty() && kept.page_bytes == 0, "{:?}", kept.notes);
        let source = &kept.sources[0];
        assert_eq!((kept.sources.len(), source.started.clock.raw_for_storage()), (1, "mono"));
        let run = source.started.compact.as_ref().unwrap();
        assert!(run.events.iter().any(|event| event == "raw_syscalls:sys_exit"), "{run:?}");
        assert!(source.started.why_full.is_empty());
        assert!(source.threads.iter().any(|t| t.tid == 1 && t.pid == 1), "names of threads");
        check_settings(&source.settings);
        let me = Tid(rustix::thread::gettid().as_raw_nonzero().get());
        let all = events(&source.bytes);
        let mine = |nr: fn(&CoreEvent) -> Option<i64>| {
            let called = |(ts, tid, event): &&(u64, Tid, CoreEvent)| {
                *tid == me && nr(event) == Some(GETPPID) && (began..=ended).contains(ts)
            };
            all.iter().filter(called).count()
        };
        let entered = mine(|event| match event {
            CoreEvent::SyscallEnter { nr } => Some(*nr),
            _ => None,
        });
        let left = mine(|event| match event {
            CoreEvent::SyscallExit { nr, .. } => Some(*nr),
            _ => None,
        });
        assert_eq!((entered, left), (CALLS, CALLS));
        assert_eq!(outcome.events, all.len() as u64);
        let logs = source.logs.as_ref().unwrap();
        assert_eq!(logs.iter().map(|log| log.lost).sum::<u64>(), 0);
        let bytes: u64 = logs.iter().map(|log| log.bytes).sum();
        assert_eq!(usize::try_from(bytes).unwrap(), kept.word_bytes, "what was written arrived");
        assert_eq!(outcome.bytes, bytes);
        eprintln!("{:.2} bytes per event", bytes as f64 / outcome.events as f64);
    });
}

/// One machine as host and as guest of itself: its offset is 0, and every stamp's truth is known.
#[test]
fn a_guest_in_mono_is_aligned_to_the_width_of_readings() {
    if !can_run() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let agent = Agent::start(dir.path());
    let keeper = Keeper::default();
    let session = session(&agent, families(&["sched"]), &keeper);
    assert!(session.wait_started(), "{:?}", session.stop());
    let mut host: Vec<Evidence> = Vec::new();
    // The agent reads as often; not fewer than can tell a rate.
    while host.len() < 10 || keeper.look(|kept| kept.readings.len()) < 10 {
        assert!(host.len() < 600, "the agent reads its clock no more");
        host.push(reading(HOST, &TscReading::take(StampClock::Mono).unwrap()));
        thread::sleep(TscReading::EVERY);
    }
    assert!(session.stop().unwrap().complete);
    host.push(reading(HOST, &TscReading::take(StampClock::Mono).unwrap()));
    host.push(Evidence::TscOffset {
        machine: GUEST,
        parent: HOST,
        vcpu: VcpuId(0),
        offset: 0,
        ratio: None,
        frac_bits: None,
        at_host: StampClock::Mono.now().unwrap(),
    });
    keeper.look(|kept| {
        let graph = graph([host, kept.evidence()].concat());
        let rows = (graph.edges(), graph.unused_edges());
        eprintln!("{rows:?} {:?}", graph.notes());
        assert_eq!(rows.0[0].method, "tsc_offset");
        assert_eq!(rows.1[0].method, "exchange");
        assert!(rows.0[0].error_bound_ns < rows.1[0].error_bound_ns);
        let converter = graph.converter(GUEST, CpuId(0)).unwrap();
        let all = events(&kept.sources[0].bytes);
        assert!(!all.is_empty());
        for (stamp, ..) in all {
            let (ts, bound) = converter.trace_from_source(Timestamp::new(stamp)).unwrap();
            let off = ts.get().unsigned_abs().abs_diff(stamp);
            assert!(off <= bound.0, "{stamp}: off by {off}, bound {}", bound.0);
        }
    });
}

#[test]
fn a_killed_agent_costs_a_gap_and_its_successor_a_source_of_its_own() {
    if !can_run() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let mut agent = Agent::start(dir.path());
    let keeper = Keeper::default();
    let session = session(&agent, families(&["sched"]), &keeper);
    assert!(session.wait_started(), "{:?}", session.stop());
    keeper.until("records", |kept| kept.word_bytes > 0);
    // Enough for some to be told drained, so that the gap is short.
    let brackets = keeper.look(|kept| kept.brackets.len());
    keeper.until("more brackets", |kept| kept.brackets.len() >= brackets + 8);
    agent.kill();
    let killed_at = StampClock::Mono.now().unwrap();
    std::fs::remove_file(&agent.socket).unwrap();
    let agent = Agent::start(dir.path());
    keeper.until("the end of the gap", |kept| !kept.gaps.is_empty());
    let outcome = session.stop().unwrap();
    assert!(outcome.complete && outcome.links == 2 && outcome.gaps == 1, "{outcome:?}");
    keeper.look(|kept| {
        let gap = kept.gaps[0];
        assert!(gap.from <= killed_at && Some(killed_at) < gap.to, "{gap:?}");
        // Only what was not yet drained: from an exchange on, and not from many before the end.
        let sent: Vec<u64> = kept.brackets.iter().map(|bracket| bracket.host_send).collect();
        let drained = sent.iter().position(|sent| *sent == gap.from);
        let drained = drained.unwrap_or_else(|| panic!("{gap:?} {sent:?}"));
        let hidden = sent[drained + 1..].iter().filter(|sent| **sent <= killed_at).count();
        assert!(hidden <= 6, "{gap:?} {sent:?}");
        assert_eq!(kept.sources.len(), 2);
        let said: Vec<_> = kept.sources.iter().map(|s| (s.continues, s.same_boot)).collect();
        assert_eq!(said, [(false, false), (false, true)]);
        // The first has no totals, for nobody told them; everything up to the gap is in it.
        assert!(kept.sources[0].logs.is_none() && kept.sources[1].logs.is_some());
        let first = events(&kept.sources[0].bytes);
        let last = first.iter().map(|(ts, ..)| *ts).max().unwrap();
        // Whoever asks sleeps between two exchanges, and his switch away was recorded.
        assert!(last >= sent[drained - 1], "{last} {gap:?} {sent:?}");
        let second = events(&kept.sources[1].bytes);
        assert!(second.iter().all(|(ts, ..)| *ts > last));
    });
    drop(agent);
}

#[test]
fn a_guest_without_btf_records_fully_and_says_why() {
    if !can_run() || transect_tracefs::Tracefs::find().is_err() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let agent = Agent::start_without_btf(dir.path());
    let keeper = Keeper::default();
    let session = session(&agent, families(&["sched"]), &keeper);
    assert!(session.wait_started(), "{:?}", session.stop());
    keeper.until("pages", |kept| kept.page_bytes > 0);
    let outcome = session.stop().unwrap();
    assert!(outcome.complete && outcome.events > 0, "{outcome:?}");
    keeper.look(|kept| {
        let started = &kept.sources[0].started;
        assert!(started.compact.is_none() && kept.word_bytes == 0);
        let why = started.why_full.terminal();
        assert!(why.contains("BTF"), "{why}");
        // Its clock is mono all the same, and so it is read beside the TSC.
        assert_eq!(started.clock, "mono");
        assert!(!kept.readings.is_empty());
    });
}

#[test]
fn what_the_collector_cannot_do_is_told_in_its_words() {
    if !can_run() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let agent = Agent::start(dir.path());
    let wrong = CompactPlan { with: vec!["sched:sched_stat_runtime".into()], ..families(&["irq"]) };
    for (plan, word) in [(wrong, "--full"), (families(&["shed"]), "sched")] {
        let session = session(&agent, plan, &Keeper::default());
        assert!(!session.wait_started());
        let error = session.stop().unwrap_err().to_string();
        assert!(error.contains(word), "{error}");
    }
}

#[test]
fn a_flood_loses_nothing_uncounted() {
    if !can_run() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let agent = Agent::start(dir.path());
    let keeper = Keeper::default();
    // The smallest logs there are, filled faster than any channel takes.
    let plan = CompactPlan { log_bytes: 1, syscalls: SyscallForm::Both, ..my_calls() };
    let session = session(&agent, plan, &keeper);
    assert!(session.wait_started(), "{:?}", session.stop());
    let began = StampClock::Mono.now().unwrap();
    let calls = 1_000_000;
    for _ in 0..calls {
        let _ = rustix::process::getppid();
    }
    let ended = StampClock::Mono.now().unwrap();
    let outcome = session.stop().unwrap();
    keeper.look(|kept| {
        let compact = transect_compact::Compact::parse(&kept.sources[0].bytes).unwrap();
        let (mut calls_seen, mut lost) = (0u64, 0u64);
        for cpu in compact.cpus() {
            for item in compact.stream(cpu).unwrap() {
                match item {
                    transect_compact::Item::Event { ts, event, .. } => {
                        let is_call = matches!(event, CoreEvent::SyscallEnter { nr: GETPPID });
                        let is_exit = matches!(event, CoreEvent::SyscallExit { nr: GETPPID, .. });
                        let is_mine = (began..=ended).contains(&ts.get());
                        calls_seen += u64::from((is_call || is_exit) && is_mine);
                    }
                    transect_compact::Item::Lost(hole) => lost += hole.count.unwrap_or(0),
                    other => panic!("{other:?}"),
                }
            }
        }
        let logs = kept.sources[0].logs.as_ref().unwrap();
        eprintln!("{calls_seen} seen, {lost} lost, {outcome:?}");
        assert_eq!(logs.iter().map(|log| log.lost).sum::<u64>(), lost);
        assert_eq!(outcome.lost, lost);
        let other = 10_000;
        let all = calls_seen + lost;
        assert!((2 * calls..2 * calls + other).contains(&all), "{calls_seen} + {lost}");
    });
}
