//! In which context each waking came: both collectors and trace-cmd record the same seconds, and say the same of every
//! one. With perf beside them it is a test of the tier for machines (`slow::perf_contexts`): on a 6.18 of a hosting service perf
//! lacks the wakings of some milliseconds in which a CPU was idle, without a record of it.
//!
//! Where trace-cmd or perf is not installed the rest is compared; without BPF or tracefs the test says why
//! and passes.
//!
//! Some kernels (seen on a 6.18 of a hosting service) tell neither BPF programs nor perf what happens while
//! certain threads are current: those of the service's own agent, and idleness. Such wakings need not be in the
//! compact file and perf's, as long as none of that thread is.
#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "tests report by failing")]

use crate::record_support::{Scratch, can_record, can_record_compact, wait_for};
use rustix::process::{Pid, Signal};
use std::{
    collections::{BTreeMap, BTreeSet},
    ffi::OsStr,
    fs,
    os::unix::process::CommandExt,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    thread,
    time::Duration,
};
use transect_compact::Compact;
use transect_ftrace::CoreDecoder;
use transect_model::{event::CoreEvent, interrupt::Context};
use transect_store::Recording;
use transect_tracedat::{Item, TraceDat};

/// How long the load runs once all are recording.
const LOAD: Duration = Duration::from_millis(1500);
/// At the edges not every recorder has everything yet.
const MARGIN_NS: u64 = 20_000_000;
/// The recorders stamp one after the other, each for itself; the machine may be taken away in between.
const APART_NS: u64 = 50_000_000;

/// A waking as one recorder has it.
#[derive(Clone, Copy, Debug)]
struct Waking {
    ns: u64,
    /// Who was current.
    current: i32,
    context: Context,
}

/// By CPU and woken thread, in order of time.
type Wakings = BTreeMap<(u32, i32), Vec<Waking>>;

fn sorted(mut wakings: Wakings) -> Wakings {
    for list in wakings.values_mut() {
        list.sort_by_key(|waking| waking.ns);
    }
    wakings
}

fn of_compact(dir: &Path) -> Wakings {
    let recording = Recording::open(dir).unwrap();
    let file = Compact::parse(&recording.sources[0].bytes).unwrap();
    assert!(file.problems().is_empty(), "{:?}", file.problems());
    let mut wakings = Wakings::new();
    for cpu in file.cpus() {
        for item in file.stream(cpu).into_iter().flatten() {
            let transect_compact::Item::Event { ts, tid: current, event } = item else {
                unreachable!("nothing is lost: {item:?}");
            };
            if let CoreEvent::SchedWaking { tid, context, .. } = event {
                let context = context.expect("the context is told on this kernel");
                let waking = Waking { ns: ts.get(), current: current.0, context };
                wakings.entry((cpu.0, tid.0)).or_default().push(waking);
            }
        }
    }
    sorted(wakings)
}

/// When threads got a CPU and left it: by thread, whether it has one from then on.
type Running = BTreeMap<i32, Vec<(u64, bool)>>;

/// Of a trace.dat, ours or trace-cmd's.
fn of_dat(bytes: &[u8], is_ours: bool) -> (Wakings, Running) {
    let trace = TraceDat::parse(bytes).unwrap();
    // trace-cmd may cut off the names of threads that are born while it reads them.
    if is_ours {
        assert_eq!(trace.problems(), []);
    }
    let core = CoreDecoder::new(trace.events());
    let (mut wakings, mut running) = (Wakings::new(), Running::new());
    for buffer in trace.buffers() {
        for cpu in buffer.cpus() {
            let Some(mut stream) = trace.stream(buffer, cpu) else { continue };
            while let Some(item) = stream.next() {
                let Item::Event { ts, payload } = item else {
                    panic!("nothing is lost or broken: {item:?}");
                };
                match core.decode(payload) {
                    Some(CoreEvent::SchedWaking { tid, context, .. }) => {
                        let current = trace.events().tid_of(payload).unwrap().0;
                        let context = context.expect("ftrace has flags");
                        let waking = Waking { ns: ts.get(), current, context };
                        wakings.entry((cpu, tid.0)).or_default().push(waking);
                    }
                    Some(CoreEvent::SchedSwitch { prev, next, .. }) => {
                        running.entry(prev.0).or_default().push((ts.get(), false));
                        running.entry(next.0).or_default().push((ts.get(), true));
                    }
                    _ => {}
                }
            }
        }
    }
    running.values_mut().for_each(|edges| edges.sort_unstable());
    (sorted(wakings), running)
}

/// Of perf.data, by the bytes of the kernel's record: `perf script` does not print its flags.
fn of_perf(file: &Path) -> Wakings {
    let output = Command::new("perf").arg("script").arg("-D").arg("-i").arg(file).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(!text.contains("PERF_RECORD_LOST"), "perf itself lost events");
    let (mut wakings, mut bytes) = (Wakings::new(), Vec::<u8>::new());
    for line in text.lines() {
        let words: Vec<&str> = line.split_whitespace().collect();
        match words.as_slice() {
            // .  0010:  b4 88 3a 81 …  ..:.....
            [".", place, hex @ ..] if place.ends_with(':') => {
                let of_line = hex.iter().take(16).map_while(|byte| {
                    (byte.len() == 2).then(|| u8::from_str_radix(byte, 16).ok()).flatten()
                });
                bytes.truncate(usize::from_str_radix(place.trim_end_matches(':'), 16).unwrap());
                bytes.extend(of_line);
            }
            // 1 70195907746196 0xd710 [0x60]: PERF_RECORD_SAMPLE(IP, 0x1): …
            [cpu, ns, _, size, what, ..] if what.starts_with("PERF_RECORD_SAMPLE(") => {
                let size = size.trim_start_matches("[0x").trim_end_matches("]:");
                bytes.truncate(usize::from_str_radix(size, 16).unwrap());
                let (tid, waking) = raw(&bytes, ns.parse().unwrap());
                wakings.entry((cpu.parse().unwrap(), tid)).or_default().push(waking);
            }
            _ => {}
        }
    }
    sorted(wakings)
}

/// A sample ends with the length of the kernel's record, and that record.
fn raw(sample: &[u8], ns: u64) -> (i32, Waking) {
    let number = |at: usize| i32::from_le_bytes(sample[at..at + 4].try_into().unwrap());
    // common_type 2, flags 1, preempt_count 1, pid 4, comm 16, pid 4, prio 4, target_cpu 4
    let record = sample.len() - 36;
    assert_eq!(number(record - 4), 36, "sched_waking as since Linux 5.14: {sample:x?}");
    let context = Context::from_common_flags(sample[record + 2]);
    (number(record + 24), Waking { ns, current: number(record + 4), context })
}

fn all(wakings: &Wakings) -> impl Iterator<Item = &Waking> {
    wakings.values().flatten()
}

/// When all of them record on the CPU, without the edges: a recorder begins and ends CPU by CPU.
fn common_window<'w>(recorders: impl Iterator<Item = &'w Wakings>, cpu: u32) -> (u64, u64) {
    let edges = recorders.map(|wakings| {
        let here = || wakings.iter().filter(|((on, _), _)| *on == cpu).flat_map(|(_, list)| list);
        let stamps = || here().map(|waking| waking.ns);
        (stamps().min().unwrap_or(u64::MAX), stamps().max().unwrap_or(0))
    });
    let (first, last) =
        edges.fold((0, u64::MAX), |(from, to), (first, last)| (from.max(first), to.min(last)));
    (first.saturating_add(MARGIN_NS), last.saturating_sub(MARGIN_NS))
}

/// The wakings of one thread on one CPU by two recorders.
struct Joined {
    same: Vec<(Waking, Waking)>,
    only_first: Vec<Waking>,
    only_second: Vec<Waking>,
}

impl Joined {
    /// Those of a window. One of two stamps of a waking may lie beyond its edge: wakings are joined before, and both are
    /// in it if one is.
    fn within(mut self, is_in: impl Fn(&Waking) -> bool) -> Self {
        self.same.retain(|(one, other)| is_in(one) || is_in(other));
        self.only_first.retain(&is_in);
        self.only_second.retain(&is_in);
        self
    }
}

/// Wakings of one thread on one CPU come one after the other, and at each the same recorder stamps first: so its
/// waking is the one that the second stamps next, unless it stamps another before that.
fn join(first: &[Waking], second: &[Waking]) -> Joined {
    let mut joined = Joined { same: Vec::new(), only_first: Vec::new(), only_second: Vec::new() };
    let mut at = 0;
    for waking in second {
        let end = at + first[at..].partition_point(|other| other.ns <= waking.ns);
        let near = first[at..end].last().filter(|other| waking.ns - other.ns <= APART_NS);
        let others = if near.is_some() { at..end - 1 } else { at..end };
        joined.only_first.extend(&first[others]);
        match near {
            Some(other) => joined.same.push((*other, *waking)),
            None => joined.only_second.push(*waking),
        }
        at = end;
    }
    joined.only_first.extend(&first[at..]);
    joined
}

#[test]
fn a_waking_is_the_one_that_is_stamped_next() {
    let at = |ns: &u64| Waking { ns: *ns, current: 0, context: Context::Task };
    let counts = |first: &[u64], second: &[u64]| {
        let list = |stamps: &[u64]| stamps.iter().map(at).collect::<Vec<_>>();
        let joined = join(&list(first), &list(second));
        (joined.same.len(), joined.only_first.len(), joined.only_second.len())
    };
    assert_eq!(counts(&[100, 200], &[101, 201]), (2, 0, 0));
    // The machine was taken away between the two stamps.
    assert_eq!(counts(&[100, 200], &[199, 201]), (2, 0, 0));
    assert_eq!(counts(&[100], &[101, 201]), (1, 0, 1));
    assert_eq!(counts(&[100, 200], &[201]), (1, 1, 0));
    assert_eq!(counts(&[100, 200], &[]), (0, 2, 0));
    assert_eq!(counts(&[100], &[101 + APART_NS]), (0, 1, 1));
    // The second stamp of 200 lies beyond the window; 300 does with both, 50 with the only one.
    let list = |stamps: &[u64]| stamps.iter().map(at).collect::<Vec<_>>();
    let all = join(&list(&[50, 100, 200, 300]), &list(&[101, 201, 301]));
    let windowed = all.within(|waking| (60..=200).contains(&waking.ns));
    let stamps: Vec<_> = windowed.same.iter().map(|(one, other)| (one.ns, other.ns)).collect();
    assert_eq!(stamps, [(100, 101), (200, 201)]);
    assert!(windowed.only_first.is_empty() && windowed.only_second.is_empty());
}

/// Threads that sleep, that wake each other by pipes and sockets, and that write to the disk: wakings in interrupts,
/// softirqs, and by threads. CPUs that are never idle, for kernels that do not report what hits idleness.
fn load(folder: &Path) -> Vec<Child> {
    let quiet = |command: &mut Command| {
        let command = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        command.process_group(0).spawn().unwrap()
    };
    let python = |script: &str| quiet(Command::new("python3").args(["-c", script]));
    let to = format!("of={}", folder.join("written").display());
    let disk = ["if=/dev/zero", &to, "bs=4k", "count=1000000", "oflag=direct"];
    let socket = "import os, socket, time
a, b = (socket.socket(socket.AF_INET, socket.SOCK_DGRAM) for _ in range(2))
a.bind(('127.0.0.1', 0)); b.bind(('127.0.0.1', 0))
a.connect(b.getsockname()); b.connect(a.getsockname())
mine = a if os.fork() else b
if mine is a: a.send(b'x')
while True: time.sleep(0.0003); mine.send(mine.recv(9))";
    let pipe = "while :; do head -c 2000000 /dev/zero | cat | wc -c; done";
    let mut children = vec![
        python("import time\nwhile True: time.sleep(0.0002)"),
        python(socket),
        quiet(Command::new("sh").args(["-c", pipe])),
        quiet(Command::new("dd").args(disk)),
    ];
    for _ in 0..thread::available_parallelism().unwrap().get() {
        children.push(quiet(Command::new("nice").args([
            "-n",
            "19",
            "sh",
            "-c",
            "while :; do :; done",
        ])));
    }
    children
}

/// Ends them, with what they have started.
fn end(children: Vec<Child>) {
    for mut child in children {
        let group = Pid::from_child(&child);
        rustix::process::kill_process_group(group, Signal::KILL).unwrap();
        child.wait().unwrap();
    }
}

/// A peer that records until it is interrupted, killed if the test fails.
struct Peer(Child);

impl Peer {
    /// None where it is not installed.
    fn start(name: &str, command: &mut Command) -> Option<Self> {
        if Command::new(name).arg("--version").output().is_err() {
            println!("skipped: {name} is not installed");
            return None;
        }
        let command = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        Some(Peer(command.process_group(0).spawn().unwrap()))
    }

    fn interrupt(mut self) {
        rustix::process::kill_process(Pid::from_child(&self.0), Signal::INT).unwrap();
        self.0.wait().unwrap();
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        // trace-cmd has a process for each CPU. After the interrupt there is none any more.
        if matches!(self.0.try_wait(), Ok(None)) {
            let _ = rustix::process::kill_process_group(Pid::from_child(&self.0), Signal::KILL);
            let _ = self.0.wait();
        }
    }
}

/// trace-cmd's tracing instance, gone with the value, and with trace-cmd.
struct Instance(PathBuf);

impl Instance {
    fn make() -> Self {
        let tracefs = transect_tracefs::Tracefs::find().unwrap();
        let path = tracefs.path("instances").join(format!("contexts-{}", std::process::id()));
        fs::create_dir(&path).unwrap();
        Instance(path)
    }
}

impl Drop for Instance {
    fn drop(&mut self) {
        let _ = fs::write(self.0.join("events/enable"), "0");
        let _ = fs::remove_dir(&self.0);
    }
}

/// What trace-cmd writes of the function tracer, whatever it records, and gives up if it cannot (3.1.6).
const SWITCH: &str = "/proc/sys/kernel/ftrace_enabled";

/// trace-cmd. Where the kernel allows nobody to write what concerns the function tracer, it gets a namespace in
/// which a file of the test's own is in its place.
fn trace_cmd(instance: &Instance, scratch: &Scratch) -> Command {
    let allowed = fs::read(SWITCH).is_ok_and(|holds| fs::write(SWITCH, holds).is_ok());
    if allowed {
        return Command::new("trace-cmd");
    }
    let script = "for file in $1 $2/set_ftrace_* $2/../../set_ftrace_*; do
mount --bind $0 $file; done; shift 2; exec trace-cmd \"$@\"";
    let stand_in = scratch.path("stand-in");
    fs::write(&stand_in, "\n").unwrap();
    let mut command = Command::new("unshare");
    command
        .args(["--mount", "sh", "-c", script])
        .arg(stand_in)
        .args([Path::new(SWITCH), &instance.0]);
    command
}

#[test]
fn both_collectors_and_trace_cmd_agree_on_every_context() {
    agree(false);
}

/// Records with both collectors, trace-cmd, and perf if it is wanted, and compares what they say.
pub(crate) fn agree(with_perf: bool) {
    if !can_record() || !can_record_compact() {
        return;
    }
    let scratch = Scratch::new();
    let (dat, data) = (scratch.path("peer.dat"), scratch.path("perf.data"));
    let full = ["record", "--full", "-o", "f", "--clock", "mono", "--buffer-size", "32M"];
    let full = [&full[..], &["-e", "sched:sched_waking", "-e", "sched:sched_switch"]].concat();
    let full = scratch.start(&full);
    let compact = scratch.start_compact(&["record", "-o", "c", "--profile", "sched"]);
    let instance = Instance::make();
    let trace_cmd = Peer::start(
        "trace-cmd",
        trace_cmd(&instance, &scratch)
            .args([OsStr::new("record"), OsStr::new("-B"), instance.0.file_name().unwrap()])
            .args(["-C", "mono", "-b", "32768", "-e", "sched:sched_waking", "-o"])
            .arg(&dat),
    );
    let perf = with_perf.then(|| {
        Peer::start(
            "perf",
            Command::new("perf")
                .args([
                    "record",
                    "-a",
                    "-k",
                    "mono",
                    "-m",
                    "4096",
                    "-e",
                    "sched:sched_waking",
                    "-o",
                ])
                .arg(&data),
        )
    });
    let perf = perf.flatten();
    if trace_cmd.is_some() {
        let enabled = instance.0.join("events/sched/sched_waking/enable");
        wait_for("trace-cmd to record", || {
            fs::read_to_string(&enabled).is_ok_and(|text| text.trim() == "1")
        });
    }
    if perf.is_some() {
        wait_for("perf to record", || fs::metadata(&data).is_ok_and(|file| file.len() > 0));
    }
    let children = load(&scratch.path("."));
    thread::sleep(LOAD);
    let stopped: Vec<bool> =
        [trace_cmd, perf].into_iter().map(|peer| peer.map(Peer::interrupt).is_some()).collect();
    for recorder in [compact, full] {
        recorder.signal(Signal::INT);
        let (code, said) = recorder.wait();
        assert!(code == Some(0) && said.contains("0 lost"), "{said}");
    }
    end(children);

    let full_file = Recording::open(&scratch.path("f")).unwrap();
    let (full, running) = of_dat(&full_file.sources[0].bytes, true);
    let mut recorders =
        BTreeMap::from([("compact", of_compact(&scratch.path("c"))), ("full", full)]);
    if stopped[0] {
        recorders.insert("trace-cmd", of_dat(&fs::read(&dat).unwrap(), false).0);
    }
    if stopped[1] {
        recorders.insert("perf", of_perf(&data));
    }
    judge(&recorders, &running);
}

/// What the compact file lacks must be what it leaves out: a thread that still runs just goes on. And in what perf and
/// it lack, a thread is current of which the kernel tells neither.
fn judge(recorders: &BTreeMap<&str, Wakings>, running: &Running) {
    let mut windows: BTreeMap<u32, (u64, u64)> = BTreeMap::new();
    for (cpu, _) in recorders.values().flat_map(|wakings| wakings.keys()) {
        windows.entry(*cpu).or_insert_with(|| common_window(recorders.values(), *cpu));
    }
    let is_within = |cpu: u32, waking: &Waking| {
        let (from, to) = windows.get(&cpu).copied().unwrap_or((u64::MAX, 0));
        (from..=to).contains(&waking.ns)
    };
    let is_running = |tid: i32, ns: u64| {
        let edges = running.get(&tid).map_or(&[][..], Vec::as_slice);
        let at = edges.partition_point(|(edge_ns, _)| *edge_ns < ns);
        at.checked_sub(1).is_some_and(|at| edges[at].1)
    };
    // The program looks before ftrace stamps: a thread may leave its CPU in between.
    let has_just_left = |tid: i32, ns: u64| {
        let edges = running.get(&tid).map_or(&[][..], Vec::as_slice);
        let at = edges.partition_point(|(edge_ns, _)| *edge_ns < ns);
        at.checked_sub(1).is_some_and(|at| !edges[at].1 && edges[at].0 + APART_NS >= ns)
    };
    let full = &recorders["full"];
    for (name, wakings) in recorders.iter().filter(|(name, _)| **name != "full") {
        let told: BTreeSet<i32> = all(wakings).map(|waking| waking.current).collect();
        let keys: BTreeSet<_> = wakings.keys().chain(full.keys()).copied().collect();
        let list = |key: &(u32, i32), of: &Wakings| of.get(key).cloned().unwrap_or_default();
        let lists: Vec<_> =
            keys.iter().map(|key| (*key, list(key, wakings), list(key, full))).collect();
        // Who came to the tracepoint first stamps first.
        let joined = |is_first: bool| -> Vec<_> {
            let each = lists.iter().map(|(key, ours, theirs)| {
                let joined = if is_first {
                    join(ours, theirs)
                } else {
                    let Joined { same, only_first, only_second } = join(theirs, ours);
                    let same = same.into_iter().map(|(theirs, ours)| (ours, theirs)).collect();
                    Joined { same, only_first: only_second, only_second: only_first }
                };
                (*key, joined.within(|waking| is_within(key.0, waking)))
            });
            each.collect()
        };
        let left = |all: &[(_, Joined)]| -> usize {
            all.iter().map(|(_, joined)| joined.only_first.len() + joined.only_second.len()).sum()
        };
        let joined = [joined(true), joined(false)].into_iter().min_by_key(|all| left(all)).unwrap();
        let (mut compared, mut goes_on, mut untold) = (BTreeMap::<Context, u32>::new(), 0, 0);
        let mut just_left = 0;
        for (key, Joined { same, only_first: invented, only_second: missing }) in joined {
            for (ours, theirs) in same {
                assert_eq!(ours.context, theirs.context, "{name}, {key:?}: {ours:?}, {theirs:?}");
                assert_eq!(ours.current, theirs.current, "{name}, {key:?}: {ours:?}, {theirs:?}");
                *compared.entry(ours.context).or_default() += 1;
            }
            assert!(invented.is_empty(), "only {name} has of {key:?}: {invented:?}");
            for waking in missing {
                if *name == "compact" && is_running(key.1, waking.ns) {
                    goes_on += 1;
                } else if *name != "trace-cmd" && !told.contains(&waking.current) {
                    untold += 1;
                } else if *name == "compact" && has_just_left(key.1, waking.ns) {
                    just_left += 1;
                } else {
                    panic!("{name} lacks {waking:?} of {key:?}");
                }
            }
        }
        println!(
            "full and {name}: equal {compared:?}; left out: {goes_on} go on, {just_left} just left, {untold} of threads that the kernel tells no program of"
        );
        let all_compared: u32 = compared.values().sum();
        assert!(just_left * 1000 <= all_compared, "{name}: {just_left} just left");
        for context in [Context::Task, Context::Softirq, Context::Irq] {
            assert!(
                compared.get(&context).is_some_and(|count| *count > 50),
                "{name}: {compared:?}"
            );
        }
    }
}
