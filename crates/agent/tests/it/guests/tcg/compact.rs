//! The static agent's compact collector in a real guest (Debian's kernel under TCG), over a real
//! virtio-serial port: its BPF programs on another kernel than the one they were built on,
//! recorders that come, go, die and stall, and clocks.
#![allow(clippy::unwrap_used, clippy::panic, clippy::print_stderr)] // A failed expectation is the report.

use crate::support::{
    kept::{GUEST, HOST, Keeper, Kept, events, graph, reading},
    static_agent,
};
use std::{
    collections::BTreeMap,
    ops::RangeInclusive,
    thread,
    time::{Duration, Instant},
};
use transect_clock::{ClockGraph, Evidence};
use transect_guest::{
    bounds::Bounds,
    exchange::Bracket,
    proto::{CompactPlan, EventRequest},
    session::{GapCause, GuestSession, Limits, Outcome, SessionConfig, SessionError},
    stamp::{StampClock, TscReading},
};
use transect_model::{
    event::CoreEvent,
    ids::{CpuId, Tid, VcpuId},
    time::Timestamp,
};
use transect_testbed::{Guest, TcgGuest};

/// Longer than anything takes here: what waits for so long has failed.
const PATIENCE: Duration = Duration::from_secs(120);

/// A session that asks for the compact collector, or (with the TSC as clock) for tracefs.
fn session(guest: &Guest, keeper: &Keeper, compact: bool, stall: Duration) -> GuestSession {
    let event = |name: &str| EventRequest {
        system: "sched".into(),
        name: name.into(),
        filter: String::new(),
        required: true,
    };
    let plan = CompactPlan {
        families: vec!["sched".into(), "irq".into()],
        log_bytes: 1 << 20,
        ..CompactPlan::default()
    };
    let clock = if compact { StampClock::Mono } else { StampClock::X86Tsc };
    let config = SessionConfig {
        spec: format!("virtio-serial:{}", guest.port().unwrap().display()).parse().unwrap(),
        recorder: "test".into(),
        host_clock: clock,
        clocks: vec![clock],
        buffer_bytes: 1 << 20,
        events: vec![event("sched_switch"), event("sched_waking")],
        compact: compact.then_some(plan),
        bounds: Bounds::default(),
        limits: Limits {
            start: PATIENCE,
            stall,
            stop_idle: PATIENCE,
            stop_total: PATIENCE,
            ..Limits::default()
        },
    };
    GuestSession::spawn(config, Box::new(keeper.clone())).unwrap()
}

fn record(guest: &Guest, keeper: &Keeper, compact: bool) -> Result<Outcome, SessionError> {
    let session = session(guest, keeper, compact, PATIENCE);
    if session.wait_started() {
        keeper.until("pages", |kept| kept.page_bytes > 0);
    }
    session.stop()
}

/// Guest's TSC minus host's, as all brackets allow it: under TCG it is one constant.
fn tsc_offsets(brackets: &[Bracket]) -> (i64, i64) {
    let least = brackets.iter().map(|b| i128::from(b.guest) - i128::from(b.host_recv)).max();
    let most = brackets.iter().map(|b| i128::from(b.guest) - i128::from(b.host_send)).min();
    (least.unwrap().try_into().unwrap(), most.unwrap().try_into().unwrap())
}

#[test]
fn a_guest_with_btf_is_recorded_compactly_whatever_becomes_of_recorders() {
    let Some(agent) = static_agent() else { return };
    let guest = TcgGuest::plan("web")
        .unwrap()
        .port("org.transect.0")
        .agent(&agent, &["--virtio-serial"])
        .workload("periodic:period_ms=2:work_us=100")
        .boot()
        .unwrap();

    // The offset of its TSC, from a session in ticks.
    let keeper = Keeper::default();
    assert!(record(&guest, &keeper, false).unwrap().complete);
    let offsets = keeper.look(|kept| {
        assert!(kept.page_bytes > 0 && kept.word_bytes == 0 && kept.readings.is_empty());
        assert!(kept.sources[0].started.compact.is_none());
        tsc_offsets(&kept.brackets)
    });
    eprintln!("TSC offset within {} ticks", offsets.1 - offsets.0);

    // Compactly, twice over the same port.
    for _ in 0..2 {
        let keeper = Keeper::default();
        let began = Instant::now();
        let session = session(&guest, &keeper, true, PATIENCE);
        assert!(session.wait_started(), "{:?}", session.stop());
        let started = Instant::now();
        let mut host = Vec::new();
        // Enough to find the workload's thread in, and to tell a rate by.
        let is_enough = |kept: &Kept| kept.readings.len() >= 8 && session.progress().events > 2_000;
        while host.len() < 12 || !keeper.look(is_enough) {
            assert!(started.elapsed() < PATIENCE, "{:?}", session.progress());
            host.push(reading(HOST, &TscReading::take(StampClock::Mono).unwrap()));
            thread::sleep(TscReading::EVERY);
        }
        let recorded = started.elapsed();
        let outcome = session.stop().unwrap();
        let spans = recorded..=began.elapsed();
        host.push(reading(HOST, &TscReading::take(StampClock::Mono).unwrap()));
        assert!(outcome.complete && outcome.gaps == 0 && outcome.lost == 0, "{outcome:?}");
        keeper.look(|kept| {
            check_records(kept, &outcome, &spans);
            check_clocks(kept, host, offsets);
        });
    }

    // A recorder dies in the middle: what it left in the port must not confuse the next one.
    let dying = Keeper::that_dies_at_bytes(20_000);
    let doomed = session(&guest, &dying, true, PATIENCE);
    dying.until("its death", |kept| kept.word_bytes > 20_000);
    assert!(doomed.stop().is_err());
    let keeper = Keeper::default();
    let session = session(&guest, &keeper, true, Duration::from_secs(2));
    assert!(session.wait_started(), "{:?}", session.stop());
    keeper.until("records after a death", |kept| kept.word_bytes > 20_000);

    // The guest stalls longer than the limit, while being recorded.
    let frozen_at = StampClock::Mono.now().unwrap();
    guest.freeze().unwrap();
    keeper.until("the stall's note", |kept| !kept.notes.is_empty());
    guest.thaw().unwrap();
    keeper.until("the stall's gap", |kept| !kept.gaps.is_empty());
    let outcome = session.stop().unwrap();
    assert!(outcome.complete && outcome.links == 2, "{outcome:?}");
    keeper.look(|kept| {
        assert_eq!((kept.gaps.len(), kept.gaps[0].cause), (1, GapCause::Stalled));
        assert!(kept.gaps[0].from <= frozen_at && Some(frozen_at) < kept.gaps[0].to);
        let said: Vec<_> = kept.sources.iter().map(|s| (s.continues, s.same_boot)).collect();
        assert_eq!(said, [(false, false), (false, true)], "logs of its own, the same clock");
        assert!(!events(&kept.sources[0].bytes).is_empty());
        assert!(!events(&kept.sources[1].bytes).is_empty());
    });

    // It dies for good.
    let keeper = Keeper::default();
    let session = self::session(&guest, &keeper, true, PATIENCE);
    assert!(session.wait_started(), "{:?}", session.stop());
    keeper.until("records", |kept| kept.word_bytes > 0);
    guest.kill().unwrap();
    keeper.until("the death's note", |kept| !kept.notes.is_empty());
    let outcome = session.stop().unwrap();
    assert!(!outcome.complete && outcome.gaps == 1, "{outcome:?}");
    keeper.look(|kept| {
        assert_eq!(kept.gaps[0].cause, GapCause::Disconnected);
        assert!(!events(&kept.sources[0].bytes).is_empty(), "what came is readable");
    });
}

/// The guest's own story: a thread that wakes every 2 ms, and interrupts, for as long as the host says: not much
/// shorter than it was watched, nor longer than there was a session.
fn check_records(kept: &Kept, outcome: &Outcome, spans: &RangeInclusive<Duration>) {
    assert!(kept.notes.is_empty() && kept.page_bytes == 0, "{:?}", kept.notes);
    let source = &kept.sources[0];
    let run = source.started.compact.as_ref().unwrap();
    assert!(source.started.why_full.is_empty(), "{:?}", source.started.why_full);
    assert!(run.events.iter().any(|event| event == "sched:sched_switch"), "{run:?}");
    assert_eq!(source.cpu_count, 1);
    let all = events(&source.bytes);
    assert_eq!(all.len() as u64, outcome.events);
    let mut last = 0;
    let (mut switched_in, mut irqs) = (BTreeMap::<Tid, u64>::new(), 0);
    for (ts, _, event) in &all {
        assert!(*ts >= last, "one CPU, in order");
        last = *ts;
        match event {
            CoreEvent::SchedSwitch { next, .. } => *switched_in.entry(*next).or_default() += 1,
            CoreEvent::IrqEntry { .. } => irqs += 1,
            _ => {}
        }
    }
    let names: BTreeMap<Tid, &str> =
        source.threads.iter().map(|t| (Tid(t.tid), t.name.as_str())).collect();
    let busiest = switched_in.iter().filter(|(tid, _)| !tid.is_idle()).max_by_key(|(_, n)| **n);
    let (tid, times) = busiest.unwrap();
    eprintln!("{} events, {} irqs; {times} times {:?}", all.len(), irqs, names.get(tid));
    // 500 a second wanted; TCG may be slow.
    assert!(*times > 100 && irqs > 10, "{times} {irqs}");
    assert!(names.contains_key(tid), "{tid} has no name");
    let span = Duration::from_nanos(all.last().unwrap().0 - all[0].0);
    assert!((*spans.start() * 2 / 3..=*spans.end() * 3 / 2).contains(&span), "{span:?} {spans:?}");
}

/// The way over the TSCs and the exchange over the channel tell the same, within their bounds.
fn check_clocks(kept: &Kept, host: Vec<Evidence>, offsets: (i64, i64)) {
    assert!(kept.readings.len() >= 8, "{}", kept.readings.len());
    let offset = offsets.0 + (offsets.1 - offsets.0) / 2;
    let known = Evidence::TscOffset {
        machine: GUEST,
        parent: HOST,
        vcpu: VcpuId(0),
        offset,
        ratio: None,
        frac_bits: None,
        at_host: StampClock::Mono.now().unwrap(),
    };
    let exchange: ClockGraph = graph(kept.evidence());
    let by_tsc: ClockGraph = graph([host, vec![known], kept.evidence()].concat());
    let (a, b) = (exchange.edges(), by_tsc.edges());
    eprintln!("{a:?}\n{b:?}\n{:?}", by_tsc.notes());
    assert_eq!((a[0].method.as_str(), b[0].method.as_str()), ("exchange", "tsc_offset"));
    let stamps = kept.readings.iter().map(|reading| Timestamp::new(reading.ns));
    let (exchange, by_tsc) =
        (exchange.converter(GUEST, CpuId(0)).unwrap(), by_tsc.converter(GUEST, CpuId(0)).unwrap());
    // Here the offset is an estimate itself.
    let offset_off = (offsets.1 - offsets.0).unsigned_abs() / 2 + 1;
    for stamp in stamps {
        let (one, one_bound) = exchange.trace_from_source(stamp).unwrap();
        let (other, other_bound) = by_tsc.trace_from_source(stamp).unwrap();
        let apart = one.get().abs_diff(other.get());
        assert!(apart <= one_bound.0 + other_bound.0 + offset_off, "{apart} {one_bound:?}");
    }
}
