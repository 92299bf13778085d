//! What the full collector records is what happened: exact counts, filters; and for both
//! collectors: commands, exit codes, refusals.
#![allow(clippy::unwrap_used, clippy::print_stderr, reason = "tests report by failing")]

use crate::record_support::{
    Scratch, can_record, count, getppids, instances, system_calls, trace_cmd_count,
};
use transect_store::Recording;

const CALLS: u32 = 30_000;

fn record_getppids(scratch: &Scratch, dir: &str, more: &[&str]) -> std::process::Output {
    let filter = format!("id == {}", libc::SYS_getppid);
    let mut words = vec!["record", "-o", dir, "-e", "raw_syscalls:sys_enter", "--filter", &filter];
    words.extend(more);
    words.push("--");
    let command = getppids(CALLS);
    words.extend(command.iter().map(String::as_str));
    scratch.run(&words)
}

#[test]
fn every_call_is_one_event_here_in_the_manifest_and_for_trace_cmd() {
    if !can_record() {
        return;
    }
    let scratch = Scratch::new();
    let output = record_getppids(&scratch, "calls.transect", &[]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let dir = scratch.path("calls.transect");
    let counted = count(&dir, "sys_enter");
    // The interpreter itself makes none; others of this machine might make a few.
    assert!((u64::from(CALLS)..u64::from(CALLS) + 100).contains(&counted), "{counted}");
    let manifest = Recording::open(&dir).unwrap().manifest;
    let cost = manifest.cost.unwrap();
    assert_eq!((cost.events, cost.lost), (counted, 0));
    assert!(cost.cpu_user_ns + cost.cpu_sys_ns > 0 && cost.bytes > counted * 64);
    assert_eq!(manifest.events, [format!("raw_syscalls:sys_enter if id == {}", libc::SYS_getppid)]);
    if let Some(theirs) = trace_cmd_count(&dir, "sys_enter") {
        assert_eq!(theirs, counted);
    }
}

#[test]
fn small_buffers_lose_events_and_say_how_many() {
    if !can_record() {
        return;
    }
    let scratch = Scratch::new();
    let words =
        ["record", "--full", "-o", "s.transect", "--buffer-size", "16K", "--profile", "io", "--"];
    // Four pages do not hold what happens while the recorder stands still.
    let load = "kill -STOP $PPID; \"$@\"; kill -CONT $PPID";
    // Not those that another test counts meanwhile.
    let command = system_calls(libc::SYS_getpgrp, 300_000);
    let words = words.into_iter().chain(["sh", "-c", load, "load"]);
    let words: Vec<_> = words.chain(command.iter().map(String::as_str)).collect();
    let output = scratch.run(&words);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let dir = scratch.path("s.transect");
    let manifest = Recording::open(&dir).unwrap().manifest;
    let cost = manifest.cost.unwrap();
    assert!(cost.lost > 500_000, "{cost:?}: 600,000 events do not fit");
    assert_eq!(cost.events, count(&dir, "*"));
    assert_eq!(cost.lost, manifest.lost.iter().map(|lost| lost.count).sum::<u64>());
}

#[test]
fn the_exit_code_is_the_commands_and_its_failure_is_told() {
    if !can_record() {
        return;
    }
    let scratch = Scratch::new();
    let output = scratch.run(&["record", "-o", "x.transect", "--", "sh", "-c", "exit 7"]);
    assert_eq!(output.status.code(), Some(7));
    assert!(String::from_utf8_lossy(&output.stderr).contains("sh exited with code 7"));
    let output = scratch.run(&["record", "-o", "y.transect", "--", "sh", "-c", "kill -9 $$"]);
    assert_eq!(output.status.code(), Some(137));
}

#[test]
fn refusals_say_what_to_do_and_leave_nothing() {
    if !can_record() {
        return;
    }
    let scratch = Scratch::new();
    let said = |words: &[&str]| {
        let output = scratch.run(words);
        assert!(!output.status.success(), "{words:?}");
        String::from_utf8_lossy(&output.stderr).into_owned()
    };
    let text = said(&["record", "-e", "sched:sched_swich", "--duration", "1s"]);
    assert!(text.contains("sched_switch"), "{text}");
    let text = said(&[
        "record",
        "-e",
        "sched:sched_switch",
        "--filter",
        "next_prioo < 3",
        "--duration",
        "1s",
    ]);
    assert!(text.contains("Field not found") && text.contains("next_prio"), "{text}");
    let text = said(&["record", "--clock", "sundial", "--duration", "1s"]);
    assert!(text.contains("x86-tsc") || text.contains("mono"), "{text}");
    let text = said(&["record", "--buffer-size", "900G", "--duration", "1s"]);
    assert!(text.contains("--buffer-size"), "{text}");
    let text = said(&["record", "--trigger", "sched:sched_switch if prev_prio < x"]);
    assert!(text.contains("trigger of sched:sched_switch"), "{text}");
    std::fs::create_dir(scratch.path("full")).unwrap();
    std::fs::write(scratch.path("full/x"), "").unwrap();
    let text = said(&["record", "-o", "full", "--duration", "1s"]);
    assert!(text.contains("not empty"), "{text}");
    let left: Vec<_> = std::fs::read_dir(scratch.path("")).unwrap().flatten().collect();
    assert_eq!(left.len(), 1, "only 'full' is there: {left:?}");
}

#[test]
fn nothing_stays_in_tracefs() {
    if !can_record() {
        return;
    }
    let scratch = Scratch::new();
    let recorder = scratch.start(&["record", "--full", "-o", "n.transect", "--duration", "300ms"]);
    let mine = recorder.instance().unwrap();
    let (code, said) = recorder.wait();
    assert_eq!(code, Some(0), "{said}");
    assert!(!mine.exists());
    let name = mine.file_name().unwrap().to_string_lossy().into_owned();
    assert!(instances(&name).is_empty());
}
