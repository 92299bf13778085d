//! `transect top`: equal to a recording of the same time, and honest about what it lacks.
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests report by failing")]
#![allow(clippy::print_stderr, reason = "what was measured belongs in the log of a test run")]

#[path = "../../../../../tests/live_equals.rs"]
mod live_equals;

use crate::record_support::{Scratch, can_record_compact, wait_for};
use procfs::{CurrentSI as _, KernelStats};
use serde_json::Value;
use std::{
    fs,
    path::PathBuf,
    process::{Child, Command, Stdio},
    sync::Mutex,
    time::Duration,
};

/// A control group, with the processes in it ended and itself removed in the end.
struct Group {
    path: PathBuf,
    children: Vec<Child>,
}

impl Group {
    /// Where this machine lets us make one: the unified hierarchy, or the cpu controller's.
    fn make(name: &str) -> Option<Self> {
        let name = format!("transect-top-{}-{name}", std::process::id());
        let roots = ["/sys/fs/cgroup/unified", "/sys/fs/cgroup", "/sys/fs/cgroup/cpu"];
        let path = roots.iter().map(|root| PathBuf::from(root).join(&name)).find(|path| {
            path.parent().is_some_and(|root| root.join("cgroup.procs").exists())
                && fs::create_dir(path).is_ok()
        });
        if path.is_none() {
            eprintln!("skipped: cannot make a control group here");
        }
        path.map(|path| Group { path, children: Vec::new() })
    }

    /// Runs Python in it, on one CPU.
    fn run(&mut self, cpu: usize, program: &str) {
        let script = format!(
            "echo $$ > {}/cgroup.procs && exec taskset -c {cpu} python3 -c '{program}'",
            self.path.display()
        );
        let child = Command::new("sh").args(["-c", &script]).stdin(Stdio::null()).spawn().unwrap();
        self.children.push(child);
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        // Children of children, too.
        let inside = fs::read_to_string(self.path.join("cgroup.procs")).unwrap_or_default();
        for pid in inside.lines().filter_map(|line| line.parse().ok()) {
            let pid = rustix::process::Pid::from_raw(pid).unwrap();
            let _ = rustix::process::kill_process(pid, rustix::process::Signal::KILL);
        }
        for child in &mut self.children {
            let _ = child.kill();
            let _ = child.wait();
        }
        // The kernel takes a moment to let the last one go.
        for _ in 0..50 {
            if fs::remove_dir(&self.path).is_ok() {
                return;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

/// Ends by itself, long after the windows: to end a recording takes threads of the kernel, and a scheduler that does not
/// let them run beside this one would keep the test waiting for itself (`workqueue lockup`, seen on Linux 6.18).
const BUSY: &str = "import time\nend = time.monotonic() + 40\nwhile time.monotonic() < end: pass";
/// Two processes that hand a byte back and forth: tens of thousands of switches a second. Each waking and
/// each switch has a stamp of its own on either side: some ns each, so that at hundreds of thousands these
/// alone would be 0.1 % of a window.
const PING_PONG: &str = "import os\n(a, b), (c, d) = os.pipe(), os.pipe()\n\
    x, y = (a, d) if os.fork() else (c, b)\nx == a and os.write(b, b\"x\")\n\
    while True: os.write(y, os.read(x, 1)); sum(range(800))";
const PERIODIC: &str = "import time\nwhile True:\n  time.sleep(0.005)\n  sum(range(20000))";

/// One load at a time: the other's would be in no group of this one's.
static ALONE: Mutex<()> = Mutex::new(());

fn lines(text: &str) -> Vec<Value> {
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// The rows of those tables that are compared: reading millions of others would take longer than all else here.
fn compared(text: &str) -> Vec<Value> {
    let tables = ["machines", "windows", "cpu_slices", "exits"];
    let begins = tables.map(|table| format!("{{\"table\":\"{table}\","));
    let is_one = |line: &&str| begins.iter().any(|begin| line.starts_with(begin));
    text.lines().filter(is_one).map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn live_windows_equal_the_offline_windows_of_a_recording_of_the_same_seconds() {
    windows_equal_a_recordings("bpf", PING_PONG, 5_000, 0);
}

#[test]
fn so_do_those_made_of_the_kernels_trace_buffers() {
    // A byte a millisecond: what a busy machine's reader can follow for sure.
    let slow_ping_pong = PING_PONG.replace("import os", "import os, time");
    let slow_ping_pong = slow_ping_pong.replace("os.write(y,", "time.sleep(0.001), os.write(y,");
    // Whether a waking met a thread on its way out is told by what else its CPU recorded then, and the
    // two record different things: a wait of some ms may be sleep to one of them.
    windows_equal_a_recordings("tracefs", &slow_ping_pong, 1_000, 10_000);
}

/// The chatty ones talk so often at least; times may differ by `ppm` where counts do not.
fn windows_equal_a_recordings(source: &str, chat: &str, least: i64, ppm: u64) {
    if !can_record_compact() {
        return;
    }
    let _alone = ALONE.lock();
    // Each side stamps an event itself, a moment apart: who has the machine taken away in that moment gets another time
    // of it. Only where that may have been are they compared once more, and no more than that.
    for _ in 0..3 {
        let before = stolen_ticks();
        let Some(wrong) = differences(source, chat, least, ppm) else { return };
        let stolen = stolen_ticks() - before;
        if wrong.is_empty() {
            return;
        }
        assert!(stolen > 0, "{wrong:#?}");
        eprintln!("once more, for the machine was taken away for {stolen} ticks: {wrong:#?}");
    }
    panic!("three times in a row");
}

/// How long this machine has been taken away by the one it is a guest of.
fn stolen_ticks() -> u64 {
    KernelStats::current().unwrap().total.steal.unwrap()
}

/// What differs between a recording's windows and live ones. None: there are no control groups here.
fn differences(source: &str, chat: &str, least: i64, ppm: u64) -> Option<Vec<String>> {
    let (mut steady, mut chatty) = (Group::make("steady")?, Group::make("chatty")?);
    // No CPU is ever idle: not every kernel traces the switches into and out of idleness.
    let cpus = std::thread::available_parallelism().unwrap().get();
    for cpu in 0..cpus {
        steady.run(cpu, BUSY);
    }
    steady.run(0, PERIODIC);
    chatty.run(0, chat);
    chatty.run(cpus - 1, PERIODIC);
    let scratch = Scratch::new();
    let recorder = scratch.start_compact(&["record", "-o", "r.transect", "--duration", "8s"]);
    let top = scratch.run(&["top", "--source", source, "--log", "top.jsonl", "--windows", "4"]);
    assert!(top.status.success(), "{}", String::from_utf8_lossy(&top.stderr));
    let (code, said) = recorder.wait();
    assert_eq!(code, Some(0), "{said}");
    let groups = [&steady, &chatty].map(|group| {
        let name = group.path.file_name().unwrap().to_string_lossy().into_owned();
        format!("cgroup /{name}")
    });
    drop((steady, chatty));
    let export =
        scratch.run(&["export", "r.transect", "--to", "jsonl", "--window", "1s", "-o", "r.jsonl"]);
    assert!(export.status.success(), "{}", String::from_utf8_lossy(&export.stderr));
    let read = |name: &str| fs::read_to_string(scratch.path(name)).unwrap();
    let (offline, live) = (compared(&read("r.jsonl")), lines(&read("top.jsonl")));
    let slack = live_equals::Slack { edge_ns: 10_000, exit_ns: 0, is_paused: false };
    let compared = live_equals::compare(&offline, &live, slack, |whose| {
        groups.iter().any(|group| group == whose)
    });
    eprintln!(
        "{} rows, {} without an event near an edge, times within {} ppm beyond what is in doubt; {} in doubt",
        compared.rows, compared.exact, compared.worst_ppm, compared.doubtful
    );
    let is_slight = |wrong: &&String| {
        let differs = wrong.strip_suffix(" ppm").and_then(|rest| rest.rsplit(' ').next());
        differs.and_then(|text| text.parse::<u64>().ok()).is_some_and(|by| by <= ppm)
    };
    let wrong: Vec<_> = compared.wrong.iter().filter(|wrong| !is_slight(wrong)).cloned().collect();
    assert!(compared.rows >= 4, "{compared:?}");
    let executions: i64 = live
        .iter()
        .filter(|row| row["table"] == "windows" && row["cgroup"] == groups[1][7..])
        .map(|row| row["executions"].as_i64().unwrap())
        .sum();
    assert!(executions > least, "the load was idle: {executions}");
    // That a CPU is never idle is known although its idle thread was never seen.
    let busy = |row: &&Value| row["busy_ns"].as_i64() > Some(500_000_000);
    let of_cpus: Vec<_> = live.iter().filter(|row| row["table"] == "cpu_windows").collect();
    assert!(!of_cpus.is_empty() && of_cpus.iter().all(busy), "{of_cpus:?}");
    let lost: Vec<_> = live
        .iter()
        .filter(|row| row["table"] == "health")
        .map(|row| (row["untracked_events"].clone(), row["missed_events"].clone()))
        .collect();
    assert!(lost.iter().all(|(a, b)| a == 0 && b == 0), "{lost:?}");
    Some(wrong)
}

#[test]
fn once_is_one_object_that_says_what_it_lacks() {
    if !can_record_compact() {
        return;
    }
    let output = Scratch::new().run(&["top", "--once", "--json", "--interval", "200ms", "--no-io"]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let object: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(object["dur"], 200_000_000);
    assert_eq!(object["ts"].as_i64().unwrap() % 200_000_000, 0);
    let missing = object["missing"].as_array().unwrap();
    assert!(missing.iter().all(|m| m["why"].as_str().is_some_and(|why| why.len() > 10)));
    let lacks = |metric: &str| missing.iter().any(|m| m["metric"] == metric);
    assert!(lacks("block_io") && lacks("net_io"), "{missing:?}");
    // Where exits cannot be counted, they are null everywhere and not 0.
    let rows = object["thread_windows"].as_array().unwrap();
    assert!(!rows.is_empty());
    for row in rows {
        assert_eq!(row["exits"].is_null(), lacks("exits"), "{row}");
        assert_eq!(row["halted_ns"].is_null(), lacks("halted_time"), "{row}");
        assert!(row["gotten_ns"].is_i64(), "{row}");
    }
}

#[test]
fn a_log_grows_until_it_is_told_to_end() {
    if !can_record_compact() {
        return;
    }
    let scratch = Scratch::new();
    let path = scratch.path("top.jsonl");
    let mut top =
        scratch.transect(&["top", "--log", "top.jsonl", "--interval", "100ms"]).spawn().unwrap();
    let health = || {
        let text = fs::read_to_string(&path).unwrap_or_default();
        text.lines().filter(|line| line.contains("\"table\":\"health\"")).count()
    };
    wait_for("three windows", || health() >= 3);
    let pid = rustix::process::Pid::from_child(&top);
    rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();
    assert!(top.wait().unwrap().success());
    let text = fs::read_to_string(&path).unwrap();
    assert!(text.ends_with('\n'));
    let ends: Vec<i64> = lines(&text)
        .iter()
        .filter(|row| row["table"] == "health")
        .map(|row| row["ts"].as_i64().unwrap())
        .collect();
    assert!(ends.is_sorted() && ends.len() >= 3, "{ends:?}");
}

#[test]
fn who_may_not_count_is_told_why() {
    if !can_record_compact() {
        return;
    }
    let scratch = Scratch::new();
    let out = Command::new("setpriv")
        .args(["--bounding-set=-all", "--inh-caps=-all", "--no-new-privs"])
        .arg(env!("CARGO_BIN_EXE_transect"))
        // Root without capabilities may still read the trace buffers.
        .args(["top", "--once", "--json", "--source", "bpf"])
        .current_dir(scratch.path(""))
        .output();
    let Ok(out) = out else {
        eprintln!("skipped: no setpriv here");
        return;
    };
    let said = String::from_utf8_lossy(&out.stderr);
    assert_eq!(out.status.code(), Some(1), "{said}");
    assert!(said.contains("cannot observe this host") && said.contains("root"), "{said}");
}
