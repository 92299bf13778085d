//! The kernel's trace buffers as a source, on this machine: beside what BPF adds up at the same time.

#![allow(
    clippy::unwrap_used,
    clippy::print_stderr,
    reason = "a failed expectation is the report; what is skipped is told"
)]

use std::{
    collections::BTreeMap,
    process::{Child, Command, Stdio},
    sync::Mutex,
};
use transect_live::{HostSource, LivePlan, Snapshot, Source, ThreadWindow, TracefsSource};
use transect_model::ids::Tid;

/// Stamps of the two differ by so much, at each end of whatever is timed.
const STAMPS_NS: i64 = 20_000;
const WINDOW_NS: u64 = 500_000_000;
const WINDOWS: usize = 4;

fn can_trace() -> bool {
    let can = std::fs::metadata("/sys/kernel/tracing/instances").is_ok()
        || std::fs::metadata("/sys/kernel/debug/tracing/instances").is_ok();
    if !can {
        eprintln!("skipped: no tracefs here, or not root");
    }
    can
}

struct Load(Vec<Child>);

impl Load {
    /// Two that share CPU 0, and one that sleeps most of the time.
    fn start() -> Self {
        let busy = "while :; do :; done";
        let duty = "while :; do sleep 0.005; done";
        let start = |script: &str| {
            let mut command = Command::new("taskset");
            let command = command.args(["-c", "0", "sh", "-c", script]);
            command.stdin(Stdio::null()).stdout(Stdio::null()).spawn().unwrap()
        };
        Load(vec![start(busy), start(busy), start(duty)])
    }

    fn tids(&self) -> Vec<Tid> {
        self.0.iter().map(|child| Tid(i32::try_from(child.id()).unwrap())).collect()
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        for child in &mut self.0 {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

fn plan() -> LivePlan {
    LivePlan { window_ns: WINDOW_NS, ..LivePlan::default() }
}

/// Windows of a source, in a thread of its own.
fn windows(mut source: impl Source + 'static) -> std::thread::JoinHandle<Vec<Snapshot>> {
    std::thread::spawn(move || (0..WINDOWS + 1).map(|_| source.take().unwrap()).collect())
}

/// One test at a time: each looks for what the other might leave.
static ALONE: Mutex<()> = Mutex::new(());

/// Trace instances of this process.
fn instances() -> usize {
    let pid = format!("-{}-", std::process::id());
    let folders = ["/sys/kernel/tracing/instances", "/sys/kernel/debug/tracing/instances"];
    let entries = folders.iter().find_map(|path| std::fs::read_dir(path).ok());
    let entries = entries.into_iter().flatten().flatten();
    entries.filter(|entry| entry.file_name().to_string_lossy().contains(&pid)).count()
}

fn thread(snapshot: &Snapshot, tid: Tid) -> Option<&ThreadWindow> {
    snapshot.threads.iter().find(|thread| thread.tid == tid)
}

#[test]
fn what_tracefs_tells_is_what_bpf_adds_up() {
    if !can_trace() {
        return;
    }
    let _alone = ALONE.lock();
    let Ok(bpf) = HostSource::start(&plan()) else {
        eprintln!("skipped: BPF cannot run here");
        return;
    };
    let load = Load::start();
    std::thread::sleep(std::time::Duration::from_millis(200));
    let tracefs = TracefsSource::start(&plan(), None).unwrap();
    let (by_bpf, by_tracefs) = (
        std::thread::spawn(move || {
            let mut bpf = bpf;
            (0..WINDOWS + 3).filter_map(|_| bpf.take().ok()).collect::<Vec<_>>()
        }),
        windows(tracefs),
    );
    let by_tracefs = by_tracefs.join().unwrap();
    let by_bpf: BTreeMap<i64, Snapshot> =
        by_bpf.join().unwrap().into_iter().map(|s| (s.ts, s)).collect();
    let (mut compared, mut missed_before) = (0, 0);
    for snapshot in &by_tracefs {
        assert_eq!(snapshot.ts.rem_euclid(WINDOW_NS.cast_signed()), 0, "edges are multiples");
        // A machine that is busy with other things may not let it read in time; then it says so.
        let missed = snapshot.health.missed_events;
        if std::mem::replace(&mut missed_before, missed) != missed {
            eprintln!("{missed} events missed so far: the window is not compared");
            continue;
        }
        let Some(other) = by_bpf.get(&snapshot.ts) else { continue };
        for tid in load.tids() {
            let (Some(a), Some(b)) = (thread(snapshot, tid), thread(other, tid)) else { continue };
            if a.unknown_ns > 0 || b.unknown_ns > 0 {
                continue;
            }
            // Each switch is stamped twice, once by each.
            let slack = STAMPS_NS * (a.executions.cast_signed() + 4) * 2;
            for (ours, theirs, what) in [
                (a.gotten_ns, b.gotten_ns, "gotten"),
                (a.waited_ns, b.waited_ns, "waited"),
                (a.blocked_ns, b.blocked_ns, "blocked"),
            ] {
                assert!((ours - theirs).abs() <= slack, "{what}\n{a:?}\n{b:?}");
            }
            assert!(a.executions.abs_diff(b.executions) <= 1, "{a:?}\n{b:?}");
            assert!(a.migrations == b.migrations || a.executions > 0, "{a:?}\n{b:?}");
            let sum = a.gotten_ns + a.waited_ns + a.blocked_ns + a.offline_ns;
            assert_eq!(sum, a.dur, "{a:?}");
            assert_eq!((a.pid, &a.cgroup), (b.pid, &b.cgroup));
            compared += 1;
        }
        for (a, b) in snapshot.cpus.iter().zip(&other.cpus) {
            assert_eq!(a.cpu, b.cpu);
            if a.unknown_ns == 0 && b.unknown_ns == 0 {
                assert!(
                    (a.busy_ns - b.busy_ns).abs() < WINDOW_NS.cast_signed() / 50,
                    "{a:?} {b:?}"
                );
            }
        }
    }
    assert!(compared >= 2, "{compared} rows compared");
    let behind: usize = by_tracefs
        .iter()
        .filter_map(|ours| Some(behind_each_other(ours, by_bpf.get(&ours.ts)?, &load.tids())))
        .sum();
    assert!(behind > 0, "nobody waited behind the other");
}

/// The two that share a CPU waited behind each other, as long as BPF says. How many rows were compared.
fn behind_each_other(ours: &Snapshot, theirs: &Snapshot, tids: &[Tid]) -> usize {
    let mut compared = 0;
    for (waits, by) in [(tids[0], tids[1]), (tids[1], tids[0])] {
        let row = |snapshot: &Snapshot| {
            let own = |row: &&transect_live::Antagonist| row.tid == waits && row.by_tid == by;
            snapshot.antagonists.iter().find(own).cloned()
        };
        let own = ours.antagonists.iter().filter(|row| row.tid == waits);
        let named: i64 = own.map(|row| row.ns).sum();
        if let Some(waiter) = thread(ours, waits) {
            assert_eq!(named + waiter.unattributed_ns, waiter.waited_ns, "{waiter:?}");
        }
        let (Some(a), Some(b)) = (row(ours), row(theirs)) else { continue };
        // BPF remembers a CPU's last 8 stays, so that of long waits it knows less.
        let slack = WINDOW_NS.cast_signed() / 50;
        assert!(a.ns + slack >= b.ns, "{a:?}\n{b:?}");
        assert_eq!(a.by_name, "sh");
        compared += 1;
    }
    compared
}

#[test]
fn why_not_bpf_is_told_and_nothing_is_left_behind() {
    if !can_trace() {
        return;
    }
    let _alone = ALONE.lock();
    let plan = LivePlan { window_ns: 100_000_000, io: false, ..LivePlan::default() };
    let mut source = TracefsSource::start(&plan, Some("no BTF here")).unwrap();
    assert_eq!(instances(), 1);
    let first = source.take().unwrap();
    let second = source.take().unwrap();
    assert_eq!(second.ts, first.ts + first.dur);
    let why = |metric: &str| {
        let found = second.missing.iter().find(|missing| missing.metric == metric);
        found.map(|missing| missing.why.clone()).unwrap_or_default()
    };
    assert!(why("bpf").contains("no BTF here"), "{:?}", second.missing);
    assert!(why("block_io").contains("disabled"));
    assert!(second.lacks("injections", transect_model::ids::MachineId(0)));
    assert!(!second.threads.is_empty() && !second.cpus.is_empty());
    // Who comes late gets the newest, and is told what it missed.
    std::thread::sleep(std::time::Duration::from_millis(2650));
    let late = source.take().unwrap();
    assert!(late.missed_windows >= 3, "{}", late.missed_windows);
    assert_eq!(late.ts, second.ts + second.dur * (1 + late.missed_windows.cast_signed()));
    drop(source);
    assert_eq!(instances(), 0);
}

#[test]
fn windows_that_cannot_be_are_refused() {
    let plan = LivePlan { window_ns: 1000, ..LivePlan::default() };
    let error = TracefsSource::start(&plan, None).err().unwrap();
    assert!(error.to_string().contains("50 ms"), "{error}");
}
