//! Interrupts of a loaded machine, by both collectors at once: each CPU's are the same ones, none
//! missed, none invented.
//!
//! A burst of them is what a log can miss: they come while the CPU is inside a writer, and inside
//! one another. Without BPF or tracefs the test says why and passes.
//!
//! Some kernels (seen on a 6.18 of a hosting service) do not run BPF programs while certain threads are
//! current: those of the service's own agent, and idleness. ftrace has the interrupts that hit
//! them, but neither has their system calls, or the switches away from them. The programs' own
//! `run_cnt` (bpf_stats_enabled) is then what we recorded, and less than what ftrace did. So an
//! interrupt of a thread that is never switched away from, or of idleness, need not be recorded.

#![allow(
    clippy::expect_used,
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]
#![allow(clippy::print_stdout, reason = "a skipped test says why")]

use std::{
    collections::{BTreeMap, BTreeSet},
    fs, io,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    time::Duration,
};

use transect_bpf::{Compact, Family, LogSink, Plan, can_run};
use transect_compact::{BlockWriter, FileHeader, Item, LogId, Slice, SliceSink, Totals};
use transect_model::{
    event::CoreEvent,
    exit::Isa,
    ids::{CpuId, Tid},
};

/// Slices as a file in memory.
struct Memory(BlockWriter<Vec<u8>>);

impl LogSink for Memory {
    fn slice(
        &mut self,
        cpu: CpuId,
        side: u8,
        position: u64,
        sync_ns: u64,
        lost: u64,
        words: &[u8],
    ) -> io::Result<()> {
        self.0.slice(Slice { log: LogId { cpu, side }, position, sync_ns, lost, words })
    }
}

/// What began, at a µs of CLOCK_MONOTONIC: an interrupt or a softirq by its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Begin {
    Irq(i32),
    Softirq(u32),
}

/// By CPU, in order of time.
type Begins = BTreeMap<u32, Vec<(u64, Begin)>>;

/// A tracefs instance with the events of interrupts, gone with the value.
struct Tracefs(PathBuf);

impl Tracefs {
    fn start() -> Option<Self> {
        let name = format!("transect-interrupts-{}", std::process::id());
        let path = Path::new("/sys/kernel/tracing/instances").join(name);
        fs::create_dir(&path).ok()?;
        let instance = Self(path);
        instance.set("trace_clock", "mono");
        instance.set("buffer_size_kb", "32768");
        for event in ["irq/irq_handler_entry", "irq/softirq_entry"] {
            instance.set(&format!("events/{event}/enable"), "1");
        }
        Some(instance)
    }

    fn set(&self, file: &str, value: &str) {
        fs::write(self.0.join(file), value).unwrap();
    }

    /// All of them, and which hit one of these threads.
    fn begins(&self, threads: &BTreeSet<i32>) -> BTreeMap<u32, Vec<(u64, Begin, bool)>> {
        let mut begins = BTreeMap::<u32, Vec<_>>::new();
        let text = fs::read_to_string(self.0.join("trace")).unwrap();
        for line in text.lines().filter(|line| !line.starts_with('#')) {
            assert!(!line.contains("LOST"), "tracefs itself lost events: {line}");
            let (tid, cpu, (us, begin)) = parsed(line).expect(line);
            begins.entry(cpu).or_default().push((us, begin, threads.contains(&tid)));
        }
        begins
    }
}

impl Drop for Tracefs {
    fn drop(&mut self) {
        drop(fs::write(self.0.join("events/enable"), "0"));
        drop(fs::remove_dir(&self.0));
    }
}

/// `dd-812 [001] d.h1. 123.456789: irq_handler_entry: irq=36 name=virtio1-req.0`
fn parsed(line: &str) -> Option<(i32, u32, (u64, Begin))> {
    let (head, event) = line.split_once(": ")?;
    // A thread's name may have any character in it.
    let (thread, rest) = head.rsplit_once('[')?;
    let tid = thread.trim_end().rsplit_once('-')?.1.parse().ok()?;
    let cpu = rest.split_once(']')?.0.parse().ok()?;
    let stamp_us = head.split_whitespace().last()?.replace('.', "").parse().ok()?;
    let number = |after: &str| event.split_once(after)?.1.split_whitespace().next();
    let begin = match number("irq_handler_entry: irq=") {
        Some(irq) => Begin::Irq(irq.parse().ok()?),
        None => Begin::Softirq(number("softirq_entry: vec=")?.parse().ok()?),
    };
    Some((tid, cpu, (stamp_us, begin)))
}

/// And the threads, without idleness, that were switched away from.
fn ours(file: &[u8]) -> (Begins, BTreeSet<i32>) {
    let compact = transect_compact::Compact::parse(file).unwrap();
    assert!(compact.problems().is_empty(), "{:?}", compact.problems());
    let (mut begins, mut leavers) = (Begins::new(), BTreeSet::new());
    for cpu in compact.cpus() {
        for item in compact.stream(cpu).unwrap() {
            let Item::Event { ts, event, .. } = item else { unreachable!("{item:?}") };
            let begin = match event {
                CoreEvent::IrqEntry { irq, .. } => Begin::Irq(irq),
                CoreEvent::SoftirqEntry { vector } => Begin::Softirq(vector),
                CoreEvent::SchedSwitch { prev, .. } => {
                    if prev != Tid::IDLE {
                        leavers.insert(prev.0);
                    }
                    continue;
                }
                _ => continue,
            };
            begins.entry(cpu.0).or_default().push((ts.get() / 1000, begin));
        }
    }
    (begins, leavers)
}

/// Direct writes to a disk, and threads that wake each other: interrupts among much else.
fn load(folder: &Path) -> Vec<Child> {
    let quiet = |command: &mut Command| {
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()
    };
    let disk = |name: &str| {
        let to = format!("of={}", folder.join(name).display());
        quiet(Command::new("dd").args(["if=/dev/zero", &to, "bs=4k", "count=4000", "oflag=direct"]))
    };
    let pipe = "for i in 1 2 3 4 5 6 7 8; do head -c 2000000 /dev/zero | cat | wc -c; done";
    vec![disk("a"), disk("b"), quiet(Command::new("sh").args(["-c", pipe]))]
}

/// A moment without interrupts around it, near `stamps[at]` on the way to the middle: both collectors
/// stamp an interrupt each for itself, and a cut between their stamps would give it to one of them.
fn calm_us(mut stamps_us: impl Iterator<Item = u64>) -> Option<u64> {
    let mut last = stamps_us.next()?;
    for stamp in stamps_us {
        if stamp.abs_diff(last) > 400 {
            return Some(last.midpoint(stamp));
        }
        last = stamp;
    }
    None
}

/// Our programs were attached first and stamp first; tracefs prints whole µs of a clock read later.
const AHEAD_US: u64 = 10;

/// Of one kind of interrupt on one CPU, which come one after the other: each of ours must be one of theirs, stamped
/// after the one before it was and before it was itself; and each of theirs one of ours, but where programs may not
/// have run. Returns how many are the same.
fn compare(theirs: &[(u64, bool)], ours: &[u64]) -> Result<usize, String> {
    let is_one = |at: usize, after_us: u64, us: u64| {
        ours.get(at).is_some_and(|ours| (after_us..=us + AHEAD_US).contains(ours))
    };
    // How many of ours the theirs up to here can be: one that need not be recorded leaves it open for a moment.
    let mut same = BTreeSet::from([0]);
    let mut after_us = 0;
    for (us, surely) in theirs {
        let recorded = same.iter().filter(|at| is_one(**at, after_us, *us)).map(|at| at + 1);
        let not = same.iter().filter(|_| !surely).copied();
        let now: BTreeSet<usize> = recorded.chain(not).collect();
        // Both read one clock; theirs is rounded.
        after_us = us.saturating_sub(1);
        // What is older than this one can be none of those that follow.
        let is_possible = |at: &usize| ours.get(*at).is_none_or(|us| *us >= after_us);
        let possible: BTreeSet<usize> = now.iter().copied().filter(is_possible).collect();
        if possible.is_empty() {
            let next = same.first().and_then(|at| ours.get(*at));
            return Err(format!(
                "theirs at {us} us: not recorded, or another before it ({next:?})"
            ));
        }
        same = possible;
    }
    match same.last() {
        Some(count) if *count == ours.len() => Ok(*count),
        _ => Err(format!("{} of ours, {same:?} of theirs", ours.len())),
    }
}

#[test]
fn interrupts_that_need_not_be_recorded_take_none_from_those_that_must() {
    let (sure, unsure) = (|us| (us, true), |us| (us, false));
    assert_eq!(compare(&[sure(100), sure(200)], &[99, 199]), Ok(2));
    assert_eq!(compare(&[unsure(100), sure(105)], &[104]), Ok(1));
    assert_eq!(compare(&[sure(100), unsure(105)], &[99]), Ok(1));
    assert_eq!(compare(&[unsure(100), sure(105)], &[98, 104]), Ok(2));
    assert_eq!(compare(&[unsure(100), unsure(150), sure(200)], &[149, 190]), Ok(2));
    // One that hung between the two collectors' stamps.
    assert_eq!(compare(&[sure(100), sure(900)], &[99, 300]), Ok(2));
    // Missed, and another one's is not it.
    assert!(compare(&[unsure(100), sure(200)], &[98]).is_err());
    assert!(compare(&[sure(100), unsure(200)], &[198]).is_err());
    assert!(compare(&[sure(100), sure(200)], &[99]).is_err());
    // Invented.
    assert!(compare(&[sure(100), sure(200)], &[99, 150, 199]).is_err());
    assert!(compare(&[sure(100), unsure(200)], &[99, 300]).is_err());
    assert!(compare(&[], &[99]).is_err());
}

#[test]
fn every_interrupt_that_tracefs_sees_is_recorded() {
    if let Err(why) = can_run() {
        println!("skipped: {why}");
        return;
    }
    let plan = Plan::of(&[Family::Sched, Family::Irq, Family::Block, Family::Syscalls]);
    let mut compact = Compact::load(&plan).unwrap();
    let header = FileHeader::new(1024, Isa::Svm, "interrupts");
    let consumer = compact.consume(Memory(BlockWriter::new(Vec::new(), &header).unwrap())).unwrap();
    compact.attach().unwrap();
    // Within the compact collector's time.
    let Some(tracefs) = Tracefs::start() else {
        println!("skipped: no tracefs to compare with");
        return;
    };
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let children = load(folder.path());
    std::thread::sleep(Duration::from_millis(1_500));
    for mut child in children {
        drop(child.kill());
        child.wait().unwrap();
    }
    tracefs.set("tracing_on", "0");
    let finished = compact.stop(consumer).unwrap();
    assert_eq!((finished.stats.lost(), finished.failure.is_none()), (0, true));
    let (ours, leavers) = ours(&finished.sink.0.finish(&Totals::default()).unwrap());

    let mut compared = 0;
    for (cpu, theirs) in tracefs.begins(&leavers) {
        let stamps = || theirs.iter().map(|(us, _, _)| *us);
        let (Some(first), Some(last)) = (calm_us(stamps()), calm_us(stamps().rev())) else {
            println!("CPU {cpu}: never calm");
            continue;
        };
        let ours = ours.get(&cpu).map_or(&[][..], Vec::as_slice);
        let within = |us: u64| (first..=last).contains(&us);
        // Each kind by itself: one may come between the two collectors' stamps of another.
        for kind in theirs.iter().map(|(_, begin, _)| *begin).collect::<BTreeSet<_>>() {
            let of_kind = theirs.iter().filter(|(us, begin, _)| *begin == kind && within(*us));
            let theirs: Vec<_> = of_kind.map(|(us, _, surely)| (*us, *surely)).collect();
            let of_kind = ours.iter().filter(|(us, begin)| *begin == kind && within(*us));
            let ours: Vec<u64> = of_kind.map(|(us, _)| *us).collect();
            match compare(&theirs, &ours) {
                Ok(same) => compared += same,
                Err(differs) => panic!("CPU {cpu} {kind:?}: {differs}\n{theirs:?}\n{ours:?}"),
            }
        }
    }
    println!("{compared} interrupts and softirqs are the same");
    assert!(compared > 500, "the load made only {compared}");
}
