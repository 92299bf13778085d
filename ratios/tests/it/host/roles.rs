//! The roles as processes, the way the harness starts them.

#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "helpers of tests")]

use serde_json::Value;
use std::{
    collections::BTreeSet,
    fs,
    io::{BufRead, BufReader, Read},
    path::Path,
    process::{Command, Stdio},
};

const BENCH: &str = env!("CARGO_BIN_EXE_ratios");

fn said(arguments: &[&str]) -> String {
    let output = Command::new(BENCH).args(arguments).output().unwrap();
    assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn every_row_has_a_name_of_its_own() {
    let list = said(&["--list"]);
    let names: Vec<&str> = list.lines().collect();
    assert_eq!(names.len(), names.iter().collect::<BTreeSet<_>>().len());
    assert!(names.contains(&"cost/getppid/ftrace"));
}

#[test]
fn loops_are_timed_in_batches() {
    for operation in ["getppid", "eventfd"] {
        let said = said(&["role", "work", operation, "--ops", "200", "--batches", "4"]);
        let timed: Value = serde_json::from_str(&said).unwrap();
        let batches = timed["cpu_ns"].as_array().unwrap();
        assert_eq!(batches.len(), 4);
        assert!(batches.iter().all(|ns| ns.as_f64().unwrap() > 0.0), "{said}");
    }
}

#[test]
fn decoding_counts_what_is_in_the_file() {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("../testdata/succeed/tracedat");
    let file = corpus.join("pair-host.dat").display().to_string();
    let pace: Value = serde_json::from_str(&said(&["role", "decode", &file])).unwrap();
    // As trace-cmd report prints them, line by line.
    assert_eq!(pace["events"], 8618);
}

/// The splicer sees every call of a known loop, and its instance is gone when its input ends.
#[test]
fn raw_ftrace_sees_the_loop_and_leaves_nothing() {
    let instances = Path::new("/sys/kernel/tracing/instances");
    if fs::read_dir(instances).is_err() || !rustix::process::geteuid().is_root() {
        println!("skipped: no tracefs, or not root");
        return;
    }
    let out = tempfile::tempdir().unwrap();
    let folder = out.path().display().to_string();
    let events = ["raw_syscalls:sys_enter", "raw_syscalls:sys_exit"];
    let mut splice = Command::new(BENCH)
        .args(["role", "splice", "--buffer-kib", "8192", "--out", &folder])
        .args(events)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdout = BufReader::new(splice.stdout.take().unwrap());
    let mut line = String::new();
    stdout.read_line(&mut line).unwrap();
    assert_eq!(line, "READY\n");
    let instance = instances.join(format!("bench-splice-{}", splice.id()));
    assert!(instance.exists());

    said(&["role", "work", "getppid", "--ops", "1000", "--batches", "4"]);
    drop(splice.stdin.take());
    let mut rest = String::new();
    stdout.read_to_string(&mut rest).unwrap();
    assert!(splice.wait().unwrap().success());
    assert!(!instance.exists(), "{} is still there", instance.display());

    let traced: Value = serde_json::from_str(&rest).unwrap();
    let seen = traced["events"].as_u64().unwrap() + traced["lost"].as_u64().unwrap();
    assert!(seen >= 2 * 5 * 1000, "{rest}");
    let files = fs::read_dir(out.path()).unwrap().map(|entry| entry.unwrap().metadata().unwrap());
    assert_eq!(files.map(|file| file.len()).sum::<u64>(), traced["bytes"].as_u64().unwrap());
}
