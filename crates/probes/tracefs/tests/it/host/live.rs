//! Against this machine's kernel. Without tracefs or root each test says so and passes.
#![allow(clippy::unwrap_used, clippy::print_stderr, reason = "a failed expectation is the report")]

use std::{
    fs, io,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};
use transect_model::ids::CpuId;
use transect_tracefs::*;

/// tracefs, or a line saying why this test is skipped.
fn tracefs() -> Option<Tracefs> {
    match Tracefs::find() {
        Ok(tracefs) => Some(tracefs),
        Err(error) => {
            eprintln!("skipped: {error}");
            None
        }
    }
}

/// Bytes handed over, and in how many pieces.
#[derive(Clone, Default)]
struct Count {
    bytes: Arc<AtomicU64>,
    pieces: Arc<AtomicU64>,
}

impl CpuSink for Count {
    fn pages(&mut self, pages: &[u8]) -> io::Result<()> {
        assert_eq!(pages.len() % 4096, 0);
        self.bytes.fetch_add(pages.len() as u64, Ordering::Relaxed);
        self.pieces.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }
}

impl PageSink for Count {
    fn cpu(&self, _cpu: CpuId) -> io::Result<Box<dyn CpuSink>> {
        Ok(Box::new(self.clone()))
    }
}

fn select(tracefs: &Tracefs, event: &str, filter: &str) -> Selection {
    let mut selection =
        Selection::resolve(tracefs, &[EventRequest::parse(event).unwrap()]).unwrap();
    selection.filter(&Condition::parse(&format!("{event} if {filter}")).unwrap()).unwrap();
    selection
}

#[test]
fn exactly_the_calls_made_are_counted_and_handed_over_as_bytes() {
    let Some(tracefs) = tracefs() else { return };
    const CALLS: u64 = 20_000;
    // A prefix of its own: a name that is free again is taken by the next test.
    let instance = Instance::create(&tracefs, "transect-test-calls").unwrap();
    instance.set_clock(&choose_clock(&tracefs, None).unwrap().name).unwrap();
    instance.set_buffer_kb_per_cpu(4096).unwrap();
    let tid = rustix::thread::gettid().as_raw_nonzero();
    let getppid = libc::SYS_getppid;
    select(&tracefs, "raw_syscalls:sys_enter", &format!("id == {getppid} && common_pid == {tid}"))
        .enable(&instance)
        .unwrap();
    let sink = Count::default();
    let collector = Collector::start(&instance, Arc::new(sink.clone())).unwrap();
    instance.set_tracing(true).unwrap();
    for _ in 0..CALLS {
        let _ = rustix::process::getppid();
    }
    let totals = collector.stop(&instance).unwrap();
    assert_eq!(totals.events(), CALLS);
    assert_eq!(totals.lost(), 0);
    assert!(totals.cpus.values().all(|cpu| cpu.entries == 0), "everything was read: {totals:?}");
    let bytes = sink.bytes.load(Ordering::Relaxed);
    // 64-byte events in 4 KiB sub-buffers: 60 to 63 each, fewer where the reader came early,
    // which it can once for each piece and for each CPU at the end.
    let early = sink.pieces.load(Ordering::Relaxed) + totals.cpus.len() as u64;
    let most = (CALLS.div_ceil(60) + early) * 4096;
    assert!((CALLS * 64..=most).contains(&bytes), "{bytes} bytes, {early} pieces");
    let path = instance.path().to_owned();
    instance.remove().unwrap();
    assert!(!path.exists());
}

#[test]
fn the_global_buffer_is_left_alone() {
    let Some(tracefs) = tracefs() else { return };
    let state = || ["trace_clock", "tracing_on", "set_event"].map(|f| tracefs.read(f).unwrap());
    let before = state();
    let instance = Instance::create(&tracefs, "transect-test").unwrap();
    instance.set_clock("mono").unwrap();
    instance.enable("sched", Some("sched_switch")).unwrap();
    instance.set_tracing(true).unwrap();
    std::thread::sleep(Duration::from_millis(20));
    assert_eq!(state(), before);
    drop(instance);
    assert_eq!(state(), before);
}

#[test]
fn a_leftover_goes_and_a_living_instance_stays() {
    let Some(tracefs) = tracefs() else { return };
    // A prefix of its own: every program of transect removes leftovers of the usual one.
    let mine = Instance::create(&tracefs, "leftovers-test").unwrap();
    // A pid that cannot be: beyond the largest the kernel gives.
    let dead = tracefs.path("instances/leftovers-test-4194305-1");
    fs::create_dir(&dead).unwrap();
    let cleaned = clean_leftovers(&tracefs, "leftovers-test");
    assert!(cleaned.iter().any(|name| name == "leftovers-test-4194305-1"), "{cleaned:?}");
    assert!(!dead.exists());
    assert!(mine.path().exists());
}

#[test]
fn an_instance_in_use_cannot_be_removed_by_others() {
    let Some(tracefs) = tracefs() else { return };
    let mine = Instance::create(&tracefs, "transect-test").unwrap();
    let error = fs::remove_dir(mine.path()).unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::ResourceBusy);
    mine.remove().unwrap();
}

#[test]
fn the_kernels_own_words_explain_a_refused_filter_and_trigger() {
    let Some(tracefs) = tracefs() else { return };
    let instance = Instance::create(&tracefs, "transect-test").unwrap();
    let error = instance.set_filter("sched", "sched_switch", "prev_prioo < 3").unwrap_err();
    let text = error.to_string();
    assert!(text.contains("Field not found") && text.contains("next_prio"), "{text}");
    let error =
        instance.set_trigger("sched", "sched_switch", "traceoff if prev_prio < x").unwrap_err();
    let text = error.to_string();
    assert!(text.contains("trigger of sched:sched_switch"), "{text}");
    assert!(text.contains("Command:"), "{text}");
}

#[test]
fn a_buffer_larger_than_memory_is_refused_with_a_mend() {
    let Some(tracefs) = tracefs() else { return };
    let instance = Instance::create(&tracefs, "transect-test").unwrap();
    let error = instance.set_buffer_kb_per_cpu(1 << 40).unwrap_err().to_string();
    assert!(error.contains("--buffer-size"), "{error}");
}

#[test]
fn evidence_and_events_are_on_the_same_clock() {
    let Some(tracefs) = tracefs() else { return };
    for name in ["x86-tsc", "mono", "boot"] {
        let Some(clock) = UserClock::from_name(name) else { continue };
        let instance = Instance::create(&tracefs, "transect-test").unwrap();
        if instance.set_clock(name).is_err() {
            continue;
        }
        instance.set_tracing(true).unwrap();
        let before = clock.now();
        fs::write(instance.path().join("trace_marker"), "here").unwrap();
        let after = clock.now();
        instance.set_tracing(false).unwrap();
        let text = fs::read_to_string(instance.path().join("trace")).unwrap();
        let line = text.lines().find(|line| line.ends_with("here")).unwrap();
        // What stands before it can have blanks: the name of a thread that had this number before.
        let (head, _) = line.rsplit_once(": tracing_mark_write").unwrap();
        let stamp = head.split_ascii_whitespace().next_back().unwrap();
        // ns clocks print as seconds with microseconds; the TSC as it is.
        let (low, high, stamp) = match stamp.split_once('.') {
            Some((s, us)) => (before / 1000, after / 1000, format!("{s}{us}").parse().unwrap()),
            None => (before, after, stamp.parse::<u64>().unwrap()),
        };
        // Printed microseconds are rounded.
        assert!(low <= stamp + 1 && stamp <= high + 1, "{name}: {low} {stamp} {high}");
    }
}
