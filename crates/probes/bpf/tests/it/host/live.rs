//! The collector on this machine's kernel: exact counts beside tracefs, losses, snapshots, triggers.
//!
//! Every test filters one thread of its own, so that others do not disturb the counts. Without BPF
//! (no permission, no BTF) the tests say why and pass.

#![allow(
    clippy::expect_used,
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]
#![allow(clippy::print_stdout, reason = "a skipped test says why")]
#![allow(unsafe_code, reason = "raw system calls of the load")]

use crate::host::support::{Busy, Load, is_skipped};
use procfs::process::Process;
use std::{
    fs, io,
    path::{Path, PathBuf},
    time::Duration,
};

use transect_bpf::{
    Compact, Family, Filters, LogSink, Mode, Plan, SyscallMode, Trigger, TriggerEvent,
};
use transect_compact::{BlockWriter, FileHeader, Item, LogId, LostCause, Slice, SliceSink, Totals};
use transect_model::{
    event::{CoreEvent, PrevState},
    exit::Isa,
    ids::{CpuId, Tid},
};

/// Slices as a file in memory.
struct Memory(BlockWriter<Vec<u8>>);

impl Memory {
    fn new(overwrite: bool) -> Self {
        let mut header = FileHeader::new(1024, Isa::Svm, "live");
        header.overwrite = overwrite;
        Self(BlockWriter::new(Vec::new(), &header).unwrap())
    }

    fn items(self) -> Vec<Item> {
        let file = self.0.finish(&Totals::default()).unwrap();
        let compact = transect_compact::Compact::parse(&file).unwrap();
        assert!(compact.problems().is_empty(), "{:?}", compact.problems());
        (0..1024).filter_map(|cpu| compact.stream(CpuId(cpu))).flatten().collect()
    }
}

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

fn call_getppid(times: u32) {
    for _ in 0..times {
        // SAFETY: no arguments, no effects.
        unsafe { libc::syscall(libc::SYS_getppid) };
    }
}

/// A tracefs instance of the test's own, gone with it.
struct Tracefs(PathBuf);

impl Tracefs {
    fn start(name: &str, tid: u32) -> Option<Self> {
        let path = Path::new("/sys/kernel/tracing/instances")
            .join(format!("{name}-{}", std::process::id()));
        match fs::create_dir(&path) {
            Ok(()) => {}
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                panic!("{}: left by another", path.display())
            }
            Err(_) => return None,
        }
        let instance = Self(path);
        instance.set("trace_clock", "mono");
        instance.set("buffer_size_kb", "8192");
        instance.set("set_event_pid", &tid.to_string());
        for event in ["raw_syscalls/sys_enter", "raw_syscalls/sys_exit", "sched/sched_switch"] {
            instance.set(&format!("events/{event}/enable"), "1");
        }
        Some(instance)
    }

    fn set(&self, file: &str, value: &str) {
        fs::write(self.0.join(file), value).unwrap();
    }

    fn lines(&self) -> Vec<String> {
        self.set("tracing_on", "0");
        let text = fs::read_to_string(self.0.join("trace")).unwrap();
        text.lines().filter(|line| !line.starts_with('#')).map(str::to_owned).collect()
    }
}

impl Drop for Tracefs {
    fn drop(&mut self) {
        drop(fs::write(self.0.join("events/enable"), "0"));
        // Busy as long as somebody looks into it.
        for _ in 0..1000 {
            match fs::remove_dir(&self.0) {
                Err(error) if error.kind() == io::ErrorKind::ResourceBusy => {
                    std::thread::sleep(Duration::from_millis(10));
                }
                _ => return,
            }
        }
    }
}

/// Stamp of a line of `trace` with the mono clock, ns (printed in µs).
fn stamp_us(line: &str) -> u64 {
    let word = line.split_whitespace().find(|word| word.contains('.') && word.ends_with(':'));
    word.unwrap().trim_end_matches(':').replace('.', "").parse().unwrap()
}

const NR_GETPPID: i64 = libc::SYS_getppid;

#[test]
fn one_thread_is_recorded_exactly_as_tracefs_does() {
    if is_skipped() {
        return;
    }
    let _busy = Busy::start();
    for mode in [SyscallMode::Folded, SyscallMode::Both] {
        exact(mode);
    }
}

fn exact(syscalls: SyscallMode) {
    const CALLS: u32 = 5000;
    const SLEEPS: usize = 40;
    let load = Load::start();
    let Some(tracefs) = Tracefs::start("transect-live", load.tid) else {
        println!("skipped: no tracefs to compare with");
        return;
    };
    let plan = Plan {
        with: vec!["sched:sched_switch".into()],
        syscalls,
        filters: load.only(),
        ..Plan::of(&[Family::Syscalls])
    };
    let mut compact = Compact::load(&plan).unwrap();
    let consumer = compact.consume(Memory::new(false)).unwrap();
    compact.attach().unwrap();
    load.run(|| {
        call_getppid(CALLS / 2);
        for _ in 0..SLEEPS {
            std::thread::sleep(Duration::from_micros(500));
        }
        call_getppid(CALLS / 2);
    });
    let finished = compact.stop(consumer).unwrap();
    assert_eq!((finished.stats.lost(), finished.failure.is_none()), (0, true));
    let lines = tracefs.lines();
    let items = finished.sink.items();

    // System calls: all of them, with entry and exit.
    let ours = |wanted: &dyn Fn(&CoreEvent) -> bool| {
        items
            .iter()
            .filter_map(|item| match item {
                Item::Event { ts, tid, event } if *tid == load.tid() && wanted(event) => {
                    Some(ts.get())
                }
                _ => None,
            })
            .collect::<Vec<_>>()
    };
    let enters = ours(&|event| matches!(event, CoreEvent::SyscallEnter { nr: NR_GETPPID }));
    let exits = ours(&|event| matches!(event, CoreEvent::SyscallExit { nr: NR_GETPPID, .. }));
    assert_eq!((enters.len(), exits.len()), (CALLS as usize, CALLS as usize));
    let theirs = |what: &str| lines.iter().filter(|line| line.contains(what)).count();
    assert_eq!(theirs(&format!("sys_enter: NR {NR_GETPPID} ")), CALLS as usize);
    assert_eq!(theirs(&format!("sys_exit: NR {NR_GETPPID} ")), CALLS as usize);

    // Switches between the first and the last call: the same ones, in the same states.
    let (first, last) = (*enters.first().unwrap(), *exits.last().unwrap());
    let left = |event: &CoreEvent| match event {
        CoreEvent::SchedSwitch { prev, prev_state, .. } if *prev == load.tid() => Some(*prev_state),
        _ => None,
    };
    let mut switches: Vec<(u64, PrevState)> = items
        .iter()
        .filter_map(|item| match item {
            Item::Event { ts, event, .. } if (first..=last).contains(&ts.get()) => {
                left(event).map(|state| (ts.get(), state))
            }
            _ => None,
        })
        .collect();
    switches.sort_by_key(|(ns, _)| *ns);
    let inside = |line: &&String| (first / 1000..=last / 1000).contains(&stamp_us(line));
    let needle = format!("prev_pid={} ", load.tid);
    let peers: Vec<&String> =
        lines.iter().filter(|line| line.contains(&needle)).filter(inside).collect();
    assert_eq!(switches.len(), peers.len());
    assert!(switches.len() >= SLEEPS, "{} switches", switches.len());
    for ((ns, state), peer) in switches.iter().zip(peers) {
        assert!(ns.abs_diff(stamp_us(peer) * 1000) < 1_000_000, "{ns} and {peer}");
        let letter = if state.0 == 0x100 { "R+".to_owned() } else { state.letter().to_string() };
        assert!(peer.contains(&format!("prev_state={letter} ")), "{state:?} and {peer}");
    }
}

#[test]
fn a_log_that_nobody_takes_loses_events_counted_and_with_their_time() {
    if is_skipped() {
        return;
    }
    const CALLS: u32 = 50_000;
    let load = Load::start();
    let plan = Plan {
        syscalls: SyscallMode::Both,
        filters: load.only(),
        log_bytes_per_cpu: 64 << 10,
        ..Plan::of(&[Family::Syscalls])
    };
    let mut compact = Compact::load(&plan).unwrap();
    compact.attach().unwrap();
    load.run(|| call_getppid(CALLS));
    // Like a consumer that was stopped and comes back: from here on there is room again.
    let consumer = compact.consume(Memory::new(false)).unwrap();
    std::thread::sleep(Duration::from_millis(50));
    load.run(|| call_getppid(100));
    let finished = compact.stop(consumer).unwrap();
    let stats = finished.stats.clone();
    let items = finished.sink.items();
    let events = items.iter().filter(|item| matches!(item, Item::Event { .. })).count() as u64;
    let told: u64 = items
        .iter()
        .map(|item| if let Item::Lost(lost) = item { lost.count.unwrap_or(0) } else { 0 })
        .sum();
    assert!(stats.lost() > u64::from(CALLS), "{stats:?}");
    assert_eq!(told, stats.lost(), "every loss is in the stream");
    let all = u64::from(2 * CALLS) + 200;
    // Beside ours there are the few calls of the channel between the orders.
    assert!((all..all + 200).contains(&(events + stats.lost())), "{events} + {}", stats.lost());
    for log in stats.logs.iter().filter(|log| log.lost > 0) {
        let (first, last) = log.lost_range_ns.unwrap();
        assert!(first > 0 && first < last, "{log:?}");
    }
}

#[test]
fn a_flight_recorder_gives_what_happened_last_again_and_again() {
    if is_skipped() {
        return;
    }
    let load = Load::start();
    let plan = Plan {
        filters: load.only(),
        log_bytes_per_cpu: 128 << 10,
        mode: Mode::FlightRecorder,
        syscalls: SyscallMode::Both,
        ..Plan::of(&[Family::Syscalls])
    };
    let mut compact = Compact::load(&plan).unwrap();
    compact.attach().unwrap();
    for round in 0..3_u32 {
        load.run(|| call_getppid(50_000));
        load.run(move || {
            // SAFETY: a bad file descriptor is refused, nothing else happens.
            unsafe { libc::syscall(libc::SYS_close, -1 - i64::from(round)) };
        });
        let mut sink = Memory::new(true);
        let bytes = compact.snapshot(&mut sink).unwrap();
        assert!(bytes >= 96 << 10, "{bytes} bytes held");
        let items = sink.items();
        let calls = |wanted: i64| {
            items
                .iter()
                .filter(|item| matches!(item, Item::Event { event: CoreEvent::SyscallExit { nr, .. }, .. } if *nr == wanted))
                .count()
        };
        assert!(calls(NR_GETPPID) > 1000, "{}", calls(NR_GETPPID));
        assert!(calls(libc::SYS_close) >= 1, "the last call is there");
        let others: Vec<_> =
            items.iter().filter(|item| !matches!(item, Item::Event { .. })).collect();
        let is_head = |item: &&&Item| matches!(item, Item::Lost(lost) if lost.cause == LostCause::Overwritten);
        assert!(
            matches!(items[0], Item::Lost(_)) && others.iter().all(|o| is_head(&o)),
            "{others:?}"
        );
    }
}

#[test]
fn a_trigger_stops_the_logs_at_the_event() {
    if is_skipped() {
        return;
    }
    let load = Load::start();
    let plan = Plan {
        filters: load.only(),
        log_bytes_per_cpu: 128 << 10,
        mode: Mode::FlightRecorder,
        trigger: Some(Trigger { on: TriggerEvent::Syscall, min_ns: 20_000_000 }),
        without: vec!["raw_syscalls:none".into()],
        ..Plan::of(&[Family::Syscalls])
    };
    assert!(Compact::load(&plan).is_err(), "an unknown event is an error");
    let plan = Plan { without: Vec::new(), ..plan };
    let mut compact = Compact::load(&plan).unwrap();
    compact.attach().unwrap();
    load.run(|| {
        call_getppid(1000);
        std::thread::sleep(Duration::from_millis(30));
        call_getppid(100_000);
    });
    let pulled = compact.trigger().expect("a call of 30 ms was recorded");
    let mut sink = Memory::new(true);
    compact.snapshot(&mut sink).unwrap();
    let items = sink.items();
    let last = items
        .iter()
        .filter_map(|item| if let Item::Event { ts, .. } = item { Some(ts.get()) } else { None })
        .max();
    assert!(last.is_some_and(|last| last <= pulled.ns), "{last:?} {pulled:?}");
    assert!(items.len() > 100, "what led to it is there");
    assert!(compact.trigger().is_none(), "set again");
}

#[test]
fn a_sink_that_fails_ends_the_taking_and_nothing_else() {
    struct Full(u32);
    impl LogSink for Full {
        fn slice(&mut self, _: CpuId, _: u8, _: u64, _: u64, _: u64, _: &[u8]) -> io::Result<()> {
            self.0 += 1;
            if self.0 > 2 { Err(io::ErrorKind::StorageFull.into()) } else { Ok(()) }
        }
    }
    if is_skipped() {
        return;
    }
    let load = Load::start();
    let plan = Plan {
        filters: load.only(),
        log_bytes_per_cpu: 64 << 10,
        syscalls: SyscallMode::Both,
        ..Plan::of(&[Family::Syscalls])
    };
    let mut compact = Compact::load(&plan).unwrap();
    let consumer = compact.consume(Full(0)).unwrap();
    compact.attach().unwrap();
    for _ in 0..20 {
        load.run(|| call_getppid(10_000));
        std::thread::sleep(Duration::from_millis(10));
    }
    assert!(consumer.has_failed());
    let finished = compact.stop(consumer).unwrap();
    assert!(finished.failure.unwrap().to_string().contains("recording stopped at this point"));
    assert!(finished.stats.lost() > 100_000, "what found no room is counted");
}

/// Threads in whose name anything was recorded.
fn names(items: &[Item]) -> std::collections::BTreeSet<Tid> {
    let events = items.iter().filter_map(|item| match item {
        Item::Event { tid, .. } => Some(*tid),
        _ => None,
    });
    events.collect()
}

/// A cgroup of the unified hierarchy, with one inside it; both gone with the value.
struct Cgroup(PathBuf);

impl Cgroup {
    fn new() -> Option<Self> {
        let mounts = Process::myself().ok()?.mountinfo().ok()?;
        let root = mounts.into_iter().find(|mount| mount.fs_type == "cgroup2")?.mount_point;
        let path = root.join(format!("transect-live-{}", std::process::id()));
        fs::create_dir_all(path.join("inner")).ok()?;
        Some(Self(path))
    }
}

impl Drop for Cgroup {
    fn drop(&mut self) {
        drop(fs::remove_dir(self.0.join("inner")));
        drop(fs::remove_dir(&self.0));
    }
}

#[test]
fn a_cgroup_is_recorded_with_what_is_below_it_and_nothing_else() {
    if is_skipped() {
        return;
    }
    let Some(cgroup) = Cgroup::new() else {
        println!("skipped: no unified cgroup hierarchy to write to");
        return;
    };
    let filters = Filters { cgroup: Some(cgroup.0.clone()), ..Filters::default() };
    let plan = Plan { filters, ..Plan::of(&[Family::Syscalls]) };
    let mut compact = Compact::load(&plan).unwrap();
    let consumer = compact.consume(Memory::new(false)).unwrap();
    compact.attach().unwrap();
    let script = format!(
        "echo $$ > {}/inner/cgroup.procs; i=0; while [ $i -lt 200 ]; do i=$((i+1)); kill -0 $$; done",
        cgroup.0.display()
    );
    let mut child = std::process::Command::new("sh").args(["-c", &script]).spawn().unwrap();
    let tid = Tid(child.id().cast_signed());
    assert!(child.wait().unwrap().success());
    let finished = compact.stop(consumer).unwrap();
    let items = finished.sink.items();
    let kills = items.iter().filter(|item| {
        matches!(
            item,
            Item::Event { event: CoreEvent::SyscallExit { nr: libc::SYS_kill, ret: 0 }, .. }
        )
    });
    assert_eq!(kills.count(), 200);
    assert_eq!(names(&items), [tid].into());
}

#[test]
fn a_process_is_recorded_alone_and_short_calls_are_dropped_on_demand() {
    if is_skipped() {
        return;
    }
    const CALLS: u32 = 1000;
    let load = Load::start();
    let filters =
        Filters { tgids: vec![std::process::id()], min_syscall_ns: 300_000, ..Filters::default() };
    let plan = Plan { filters, ..Plan::of(&[Family::Syscalls]) };
    let mut compact = Compact::load(&plan).unwrap();
    let consumer = compact.consume(Memory::new(false)).unwrap();
    compact.attach().unwrap();
    load.run(|| {
        call_getppid(CALLS);
        std::thread::sleep(Duration::from_millis(2));
    });
    let finished = compact.stop(consumer).unwrap();
    let dropped: u64 = finished.stats.logs.iter().map(|log| log.short_intervals).sum();
    let items = finished.sink.items();
    let seen = |nr: i64| {
        items
            .iter()
            .filter(|item| matches!(item, Item::Event { tid, event: CoreEvent::SyscallExit { nr: its, .. }, .. } if *its == nr && *tid == load.tid()))
            .count()
    };
    assert!(dropped >= u64::from(CALLS) * 9 / 10, "{dropped}");
    assert!(seen(NR_GETPPID) <= CALLS as usize / 10, "{}", seen(NR_GETPPID));
    assert_eq!(seen(libc::SYS_clock_nanosleep), 1, "the long call is there");
}
