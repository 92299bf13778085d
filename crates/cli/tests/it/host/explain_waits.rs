//! `transect explain` of waits that were made on purpose: it names the cause, and its share is what the kernel's own accounts of
//! the same seconds say, within 5 points.
//!
//! Other tests may run beside: what they take is in both. All CPUs are kept busy, as an idle one would be a cause of its own.

use crate::{
    host::loads::{Load, others},
    record_support::{Scratch, can_record_compact, groups::CpuGroup},
};
use rustix::{
    process::Signal,
    time::{ClockId, clock_gettime},
};
use serde_json::Value;
use std::{fs, thread, time::Duration};

const RECORDED: Duration = Duration::from_secs(2);
/// Shares of `explain` and of the kernel differ by less than this.
const POINTS: f64 = 0.05;

/// The kernel's account of a process in the recorded time.
struct Truth {
    ran: f64,
    waited: f64,
    passed: f64,
    /// Of the account that the test asked for.
    more: f64,
}

impl Truth {
    /// The share of waits in the time that it wanted a CPU.
    fn waited_share(&self) -> f64 {
        self.waited / (self.ran + self.waited)
    }
}

/// The clock of recordings, ns.
fn now() -> i64 {
    let now = clock_gettime(ClockId::Monotonic);
    now.tv_sec * 1_000_000_000 + now.tv_nsec
}

/// Records while the load runs, and explains its first process from one reading of the accounts to the other. `more` is one
/// more account, read as soon as `is_due`.
fn explained(
    scratch: &Scratch,
    load: &[&Load],
    is_due: impl Fn(),
    more: impl Fn() -> u64,
) -> (Value, Vec<Truth>) {
    let recorder = scratch.start_compact(&["record", "--profile", "explain", "-o", "r"]);
    let accounts = || {
        is_due();
        (now(), load.iter().map(|load| load.accounts()).collect::<Vec<_>>(), more())
    };
    let (begin, before, more_before) = accounts();
    thread::sleep(RECORDED);
    let (end, after, more_after) = accounts();
    let passed = (end - begin) as f64;
    recorder.signal(Signal::INT);
    let (code, errors) = recorder.wait();
    assert_eq!(code, Some(0), "{errors}");
    let [tid, begin, end] = [i64::from(load[0].id()), begin, end].map(|number| number.to_string());
    let range = ["--from", &begin, "--until", &end];
    let output =
        scratch.run(&[&["explain", "r", "--thread", &tid, "--json"][..], &range[..]].concat());
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let truth = before.iter().zip(&after).map(|(before, after)| Truth {
        ran: (after.0 - before.0) as f64,
        waited: (after.1 - before.1) as f64,
        passed,
        more: (more_after - more_before) as f64,
    });
    (serde_json::from_slice(&output.stdout).unwrap(), truth.collect())
}

fn finding<'f>(explained: &'f Value, detector: &str) -> Option<&'f Value> {
    let mut all = explained["findings"].as_array().unwrap().iter();
    all.find(|finding| finding["detector"] == detector)
}

/// The share of the window that some waits of threads took.
fn charged(explained: &Value, is_counted: impl Fn(&Value) -> bool) -> f64 {
    let window = &explained["roots"][0]["window"];
    let length = window["until"].as_f64().unwrap() - window["from"].as_f64().unwrap();
    let lines = explained["blame"].as_array().unwrap().iter();
    let lines = lines.filter(|line| line["level"] == "thread" && is_counted(line));
    lines.map(|line| line["total_ns"].as_f64().unwrap()).sum::<f64>() / length
}

#[track_caller]
fn agree(what: &str, explained: f64, truth: f64) {
    println!("{what}: explained {:.1} %, by the kernel {:.1} %", explained * 100.0, truth * 100.0);
    assert!((explained - truth).abs() < POINTS, "{what}: {explained} {truth}");
}

#[test]
fn a_smaller_weight_is_named() {
    if !can_record_compact() {
        return;
    }
    let groups = [("light", 100), ("heavy", 300)].map(|(name, w)| CpuGroup::with_weight(name, w));
    let [Some(light), Some(heavy)] = &groups else {
        println!("skipped: no control group with a weight can be made here");
        return;
    };
    let _busy = others();
    let (a, b) = (Load::spinning(0), Load::spinning(0));
    light.add(a.id());
    heavy.add(b.id());
    let scratch = Scratch::new();
    let (all, truth) = explained(&scratch, &[&a, &b], || (), || 0);
    let starved = finding(&all, "starved").unwrap();
    assert_eq!(starved["subject"], light.path.as_str());
    agree("waited", starved["share"].as_f64().unwrap(), truth[0].waited_share());
    let sentence = starved["sentence"].as_str().unwrap();
    let wanted = format!("behind {} (larger weight)", heavy.path);
    assert!(sentence.contains(&wanted), "{sentence}");
}

#[test]
fn an_ended_quota_is_named() {
    if !can_record_compact() {
        return;
    }
    let Some(group) = CpuGroup::with_quota("quota", 10_000, 100_000) else {
        println!("skipped: no control group with a quota can be made here");
        return;
    };
    let a = Load::spinning(0);
    group.add(a.id());
    let scratch = Scratch::new();
    // The kernel adds a wait to the account when it ends. Behind the second end, what the group has used is recorded too.
    let two_waits_have_ended = || {
        for _ in 0..2 {
            let before = group.throttled_ns();
            while group.throttled_ns() == before {
                thread::sleep(Duration::from_millis(1));
            }
        }
    };
    let (all, truth) = explained(&scratch, &[&a], two_waits_have_ended, || group.throttled_ns());
    let throttled = finding(&all, "throttled").unwrap();
    assert_eq!(throttled["subject"], group.path.as_str());
    let (said, truth) = (throttled["share"].as_f64().unwrap(), truth[0].more / truth[0].passed);
    // Some kernels do not trace all threads: while such a one has the CPU, the reason of a wait is not known.
    let unknown = charged(&all, |line| line["culprit"] == "unknown");
    let text = format!("throttled: explained {said}, unknown {unknown}, by the kernel {truth}");
    println!("{text}");
    assert!((said - POINTS..said + unknown + POINTS).contains(&truth), "{text}");
}

#[test]
fn a_higher_class_is_named() {
    if !can_record_compact() {
        return;
    }
    let _busy = others();
    let a = Load::spinning(0);
    let duty = "use Time::HiRes qw(time sleep); while (1) { my $e = time + 0.04; \
                while (time < $e) {} sleep 0.06 }";
    let b = Load::start(0, &["chrt", "-f", "50", "perl", "-e", duty]);
    thread::sleep(Duration::from_millis(300));
    if fs::read_to_string(format!("/proc/{}/comm", b.id())).is_ok_and(|name| name.trim() != "perl")
    {
        println!("skipped: no real-time class, or no perl");
        return;
    }
    let scratch = Scratch::new();
    let (all, truth) = explained(&scratch, &[&a, &b], || (), || 0);
    agree(
        "behind it",
        charged(&all, |line| line["why"] == "class"),
        truth[1].ran / truth[1].passed,
    );
    let sentence = finding(&all, "starved").unwrap()["sentence"].as_str().unwrap();
    assert!(sentence.contains("behind perl") && sentence.contains("higher class"), "{sentence}");
}

/// A thread that only sleeps: nothing kept it, its timer did.
#[test]
fn a_thread_that_sleeps_was_kept_by_nobody() {
    if !can_record_compact() {
        return;
    }
    let a = Load::start(0, &["perl", "-e", "while (1) { select(undef, undef, undef, 0.01) }"]);
    thread::sleep(Duration::from_millis(300));
    let scratch = Scratch::new();
    let (all, truth) = explained(&scratch, &[&a], || (), || 0);
    let root = &all["roots"][0];
    let layers = &root["layers"];
    let length: i64 = layers.as_object().unwrap().values().map(|ns| ns.as_i64().unwrap()).sum();
    let share = |layer: &str| layers[layer].as_f64().unwrap() / length as f64;
    if share("unknown") > 0.5 {
        println!("skipped: this kernel does not tell its timer's interrupts");
        return;
    }
    let busy = (truth[0].ran + truth[0].waited) / truth[0].passed;
    agree("until a timer", share("timer") + share("asleep"), 1.0 - busy);
    assert!(finding(&all, "throttled").is_none());
}

/// A read that waits for what another process computes: the call is the window, to the nanosecond, and that process is on its path.
#[test]
fn a_system_call_is_explained_from_its_entry_to_its_return() {
    if !can_record_compact() {
        return;
    }
    let script = "use Time::HiRes qw(time); pipe(R, W); if (fork) { while (sysread(R, $x, 1)) {} } \
                  else { close R; while (1) { my $e = time + 0.02; while (time < $e) {} \
                  syswrite(W, 'x') } }";
    let reader = Load::start(0, &["perl", "-e", script]);
    thread::sleep(Duration::from_millis(300));
    let scratch = Scratch::new();
    let events = ["-e", "raw_syscalls:sys_enter", "-e", "raw_syscalls:sys_exit"];
    let words = [&["record", "--profile", "explain", "-o", "r"][..], &events].concat();
    let recorder = scratch.start_compact(&words);
    thread::sleep(RECORDED);
    recorder.signal(Signal::INT);
    let (code, errors) = recorder.wait();
    assert_eq!(code, Some(0), "{errors}");
    let tid = reader.id().to_string();
    let explain = |more: &[&str]| {
        scratch.run(&[&["explain", "r", "--thread", &tid, "--top", "3"][..], more].concat())
    };
    let output = explain(&["--syscall", "read", "--json"]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let all: Value = serde_json::from_slice(&output.stdout).unwrap();
    let question = format!(
        "SELECT ts AS \"from\", ts + dur AS \"until\" FROM syscalls WHERE tid = {tid} AND nr = 0 \
         AND dur IS NOT NULL ORDER BY dur DESC, ts LIMIT 3"
    );
    let rows = scratch.run(&["sql", "r", &question, "--json"]);
    let rows: Value = serde_json::from_slice(&rows.stdout).unwrap();
    let roots = all["roots"].as_array().unwrap();
    assert_eq!(roots.len(), 3);
    for (root, row) in roots.iter().zip(rows.as_array().unwrap()) {
        assert_eq!(root["window"], *row);
        assert_eq!(
            (&root["syscall"]["name"], &root["syscall"]["ret"]),
            (&"read".into(), &1.into())
        );
        let path = root["path"].as_array().unwrap();
        let ns = |piece: &Value| piece["dur"].as_i64().unwrap();
        let length: i64 = path.iter().map(ns).sum();
        assert_eq!(length, row["until"].as_i64().unwrap() - row["from"].as_i64().unwrap());
        let others = path.iter().filter(|piece| piece["depth"].as_i64() > Some(0));
        let others: i64 = others.filter(|piece| !piece["tid"].is_null()).map(ns).sum();
        assert!(others * 10 > length * 7, "{others} of {length}: {path:?}");
        let sentence = root["sentences"][0].as_str().unwrap();
        assert!(sentence.contains(", read, ") && sentence.contains(" for perl ("), "{sentence}");
    }
    let text = String::from_utf8(explain(&["--syscall", "any"]).stdout).unwrap();
    assert!(text.contains("\nSYSTEM CALLS\n") && text.contains("read of perl ("), "{text}");
    let refused = explain(&["--syscall", "fsync"]);
    let errors = String::from_utf8_lossy(&refused.stderr);
    assert!(errors.contains("no call of fsync") && errors.contains("read ("), "{errors}");
    let refused = explain(&["--syscall", "frobnicate"]);
    let errors = String::from_utf8_lossy(&refused.stderr);
    assert!(errors.contains("no system call of x86-64 is called \"frobnicate\""), "{errors}");
    assert_eq!(refused.status.code(), Some(1));
}
