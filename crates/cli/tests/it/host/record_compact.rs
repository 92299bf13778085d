//! The compact collector, as a user meets it: exact counts, filters, losses, and every way to end.
#![allow(clippy::unwrap_used, clippy::print_stderr, reason = "tests report by failing")]

use crate::record_support::{Scratch, can_record_compact, getppids, pinned, wait_for};
use rustix::process::Signal;
use std::{collections::BTreeMap, fs, path::Path, process::Command, thread, time::Duration};
use transect_compact::{Compact, Item, LostCause};
use transect_model::{event::CoreEvent, ids::Tid};
use transect_store::Recording;

const CALLS: u32 = 30_000;

/// Everything in the host's file, CPU by CPU.
fn items(dir: &Path) -> Vec<Item> {
    let recording = Recording::open(dir).unwrap();
    let file = Compact::parse(&recording.sources[0].bytes).unwrap();
    assert!(file.problems().is_empty(), "{:?}", file.problems());
    file.cpus().filter_map(|cpu| file.stream(cpu)).flatten().collect()
}

/// What a recording that is being made has so far.
fn written(dir: &Path, wanted: impl Fn(Tid, &CoreEvent) -> bool) -> usize {
    let Ok(bytes) = fs::read(dir.join("host.compact")) else { return 0 };
    let Ok(file) = Compact::parse(&bytes) else { return 0 };
    let items = file.cpus().filter_map(|cpu| file.stream(cpu)).flatten();
    items
        .filter(|item| matches!(item, Item::Event { tid, event, .. } if wanted(*tid, event)))
        .count()
}

fn count(dir: &Path, wanted: impl Fn(Tid, &CoreEvent) -> bool) -> u64 {
    let is_wanted =
        |item: &&Item| matches!(item, Item::Event { tid, event, .. } if wanted(*tid, event));
    items(dir).iter().filter(is_wanted).count() as u64
}

fn count_by_thread(dir: &Path, wanted: impl Fn(Tid, &CoreEvent) -> bool) -> BTreeMap<Tid, u64> {
    let mut threads = BTreeMap::new();
    for item in items(dir) {
        if let Item::Event { tid, event, .. } = item
            && wanted(tid, &event)
        {
            *threads.entry(tid).or_default() += 1;
        }
    }
    threads
}

fn is_getppid(_: Tid, event: &CoreEvent) -> bool {
    matches!(event, CoreEvent::SyscallEnter { nr } if *nr == libc::SYS_getppid)
}

fn said(output: &std::process::Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn run(scratch: &Scratch, words: &[&str], command: &[String]) -> std::process::Output {
    let command = std::iter::once("--").chain(command.iter().map(String::as_str));
    scratch.run(&words.iter().copied().chain(command).collect::<Vec<_>>())
}

#[test]
fn every_call_is_there_once_and_counted_in_the_manifest() {
    if !can_record_compact() {
        return;
    }
    let scratch = Scratch::new();
    let output = run(&scratch, &["record", "-o", "c", "--profile", "io"], &getppids(CALLS));
    assert!(output.status.success(), "{}", said(&output));
    let dir = scratch.path("c");
    // Other tests make such calls meanwhile: one thread, and only the command's, makes so many.
    let calls = count_by_thread(&dir, is_getppid);
    let is_ours = |calls: &&u64| (u64::from(CALLS)..u64::from(CALLS) + 100).contains(*calls);
    assert_eq!(calls.values().filter(is_ours).count(), 1, "{calls:?}");
    let manifest = Recording::open(&dir).unwrap().manifest;
    let cost = manifest.cost.unwrap();
    assert_eq!((cost.events, cost.lost), (count(&dir, |_, _| true), 0), "{:?}", manifest.lost);
    assert!(manifest.finished && manifest.sources[0].file == "host.compact");
    assert!(manifest.events.contains(&"sched:sched_switch".to_owned()), "{:?}", manifest.events);
    // A getppid is 8 bytes with both its ends.
    let bytes = fs::metadata(dir.join("host.compact")).unwrap().len();
    assert!(bytes < cost.events * 16, "{bytes} bytes for {} events", cost.events);
    let output = scratch.run(&["report", "c", "--view", "log"]);
    assert!(output.status.success(), "{}", said(&output));
}

#[test]
fn threads_are_named_and_parents_known() {
    if !can_record_compact() {
        return;
    }
    let scratch = Scratch::new();
    let words = [
        "record",
        "-o",
        "n",
        "--profile",
        "sched",
        "--",
        "sh",
        "-c",
        "/bin/true; /bin/ls >/dev/null",
    ];
    let output = scratch.run(&words);
    assert!(output.status.success(), "{}", said(&output));
    let output = scratch.run(&["report", "n", "--view", "threads", "--csv"]);
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    for name in ["true", "ls", "transect"] {
        let column = |line: &str| line.split(',').any(|cell| cell.trim_matches('"') == name);
        assert!(text.lines().any(column), "{name} is not in {text}");
    }
}

#[test]
fn filters_keep_what_matches() {
    if !can_record_compact() {
        return;
    }
    let scratch = Scratch::new();
    let mut busy = Command::new("sh").args(["-c", "while :; do /bin/true; done"]).spawn().unwrap();
    let filter = format!("pid={}", busy.id());
    let words =
        ["record", "-o", "f", "--profile", "io", "--filter", &filter, "--duration", "500ms"];
    let output = scratch.run(&words);
    let _ = busy.kill();
    let _ = busy.wait();
    assert!(output.status.success(), "{}", said(&output));
    assert!(said(&output).contains("filtered by thread"), "{}", said(&output));
    let dir = scratch.path("f");
    let theirs = Tid(i32::try_from(busy.id()).unwrap());
    assert!(
        count(&dir, |tid, event| tid == theirs && matches!(event, CoreEvent::SyscallEnter { .. }))
            > 10
    );
    let others = count(&dir, |tid, event| {
        tid != theirs
            && matches!(event, CoreEvent::SyscallEnter { .. } | CoreEvent::SyscallExit { .. })
    });
    assert_eq!(others, 0);

    let output = run(
        &scratch,
        &[
            "record",
            "-o",
            "d",
            "-e",
            "raw_syscalls:sys_enter",
            "-e",
            "raw_syscalls:sys_exit",
            "--filter",
            "dur>=100ms",
        ],
        &getppids(1_000),
    );
    assert!(output.status.success(), "{}", said(&output));
    assert_eq!(count(&scratch.path("d"), is_getppid), 0, "none of them takes that long");

    let output = scratch.run(&["record", "--full", "--filter", "pid=1", "--duration", "1s"]);
    assert!(!output.status.success() && said(&output).contains("remove --full"));
    let output = scratch.run(&["record", "--filter", "vm=nobody", "--duration", "1s"]);
    assert!(said(&output).contains("no such VM on this host"), "{}", said(&output));
}

#[test]
fn what_compact_lacks_is_recorded_in_full_and_told() {
    if !can_record_compact() {
        return;
    }
    let scratch = Scratch::new();
    for (words, why) in [
        (
            ["-e", "sched:sched_stat_runtime"],
            "the compact collector lacks sched:sched_stat_runtime",
        ),
        (["--clock", "mono_raw"], "the compact collector uses the clock mono, not mono_raw"),
        (["--profile", "full"], "profile full has events that the compact collector lacks"),
    ] {
        let dir = format!("w{}", words[1].replace(':', "_"));
        let output =
            scratch.run(&["record", "-o", &dir, words[0], words[1], "--duration", "100ms"]);
        assert!(output.status.success(), "{}", said(&output));
        assert!(said(&output).contains(why), "{}", said(&output));
        assert!(scratch.path(&dir).join("host.dat").exists());
    }
}

/// A recorder that does not get the CPU for seconds loses what its logs do not hold, and says how
/// much and when; the rest is whole.
#[test]
fn a_stopped_recorder_loses_counted_events_in_a_known_stretch() {
    if !can_record_compact() {
        return;
    }
    let scratch = Scratch::new();
    let mut recorder =
        scratch.start_compact(&["record", "-o", "s", "--profile", "io", "--buffer-size", "64K"]);
    recorder.signal(Signal::STOP);
    let load = getppids(200_000);
    assert!(Command::new(&load[0]).args(&load[1..]).status().unwrap().success());
    thread::sleep(Duration::from_secs(1));
    recorder.signal(Signal::CONT);
    thread::sleep(Duration::from_millis(300));
    recorder.signal(Signal::INT);
    let (code, text) = recorder.wait_mut();
    assert_eq!(code, Some(0), "{text}");
    let dir = scratch.path("s");
    let cost = Recording::open(&dir).unwrap().manifest.cost.unwrap();
    assert!(cost.lost > 100_000, "{cost:?}: 400,000 events do not fit 128 KiB");
    let mut lost = 0;
    for item in items(&dir) {
        if let Item::Lost(hole) = item {
            assert_eq!(hole.cause, LostCause::LogFull, "{hole:?}");
            let (first, last) = hole.span.expect("the stretch is known");
            assert!(first <= last);
            lost += hole.count.unwrap();
        }
    }
    assert_eq!(lost, cost.lost, "the streams tell of every loss the manifest counts");
    let output = scratch.run(&["report", "s", "--view", "lost"]);
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(text.contains("buffer overrun"), "{text}");
}

#[test]
fn after_a_kill_everything_written_is_read() {
    if !can_record_compact() {
        return;
    }
    let scratch = Scratch::new();
    let recorder = scratch.start_compact(&["record", "-o", "k", "--profile", "io"]);
    let load = getppids(100_000);
    assert!(Command::new(&load[0]).args(&load[1..]).status().unwrap().success());
    let dir = scratch.path("k");
    // All calls were made: the recorder takes what it has not yet without being told.
    wait_for("all calls to be written", || written(&dir, is_getppid) >= 100_000);
    recorder.signal(Signal::KILL);
    let pid = recorder.pid();
    let _ = recorder.wait();
    assert!(Recording::open(&dir).unwrap().is_recovered());
    assert!(count(&dir, is_getppid) >= 100_000);
    let output = scratch.run(&["report", "k"]);
    assert!(output.status.success(), "{}", said(&output));
    assert!(!Path::new(&format!("/proc/{pid}")).exists());
}

#[test]
fn a_flight_recorder_holds_the_newest_and_writes_when_asked() {
    if !can_record_compact() {
        return;
    }
    let scratch = Scratch::new();
    let recorder = scratch.start_compact(&[
        "record",
        "-o",
        "f.transect",
        "--profile",
        "io",
        "--flight-recorder=256K",
    ]);
    let base = scratch.path("f.transect");
    for number in 1..=2 {
        // More than the logs hold: the oldest is overwritten, which is no loss.
        let load = pinned(0, &getppids(100_000));
        assert!(Command::new(&load[0]).args(&load[1..]).status().unwrap().success());
        let output = scratch.run(&["snapshot", base.to_str().unwrap()]);
        assert!(output.status.success(), "{}", said(&output));
        let dir = scratch.path(&format!("f.{number}.transect"));
        let recording = Recording::open(&dir).unwrap();
        let cost = recording.manifest.cost.unwrap();
        // What is older than the shortest of a CPU's logs is in the file, and not in the CPU's stream.
        let file = Compact::parse(&recording.sources[0].bytes).unwrap();
        let in_logs = file.logs().filter_map(|log| file.log_stream(log)).map(|mut log| {
            let mut items = Vec::new();
            while log.fill(&mut items, 1000) {}
            items.iter().filter(|item| matches!(item, Item::Event { .. })).count() as u64
        });
        assert_eq!((cost.events, cost.lost), (in_logs.sum(), 0));
        let calls = count(&dir, is_getppid);
        assert!((5_000..100_000).contains(&calls), "{calls}");
        let output = scratch.run(&["report", dir.to_str().unwrap()]);
        assert!(output.status.success(), "{}", said(&output));
    }
    let output = scratch.run(&["stop", base.to_str().unwrap()]);
    assert!(output.status.success());
    assert_eq!(recorder.wait().0, Some(0));
}

#[test]
fn a_trigger_freezes_the_logs_at_the_event() {
    if !can_record_compact() {
        return;
    }
    let scratch = Scratch::new();
    let recorder = scratch.start_compact(&[
        "record",
        "-o",
        "t",
        "-e",
        "sched:sched_switch",
        "-e",
        "raw_syscalls:sys_enter",
        "-e",
        "raw_syscalls:sys_exit",
        "--trigger",
        "raw_syscalls:sys_enter if dur>=80ms",
    ]);
    // One call that takes longer than that without a switch: those that sleep do not count. How much it reads differs from
    // try to try: beyond 0.95 s of a second the kernel takes the CPU from a real-time thread if another wants it.
    for mebibytes in [64, 128, 256].into_iter().cycle().take(30) {
        if scratch.path("t.1.transect").exists() {
            break;
        }
        let busy = format!(
            "import os; f = os.open('/dev/urandom', os.O_RDONLY); os.read(f, {mebibytes} << 20)"
        );
        let load = pinned(1, &["python3".to_owned(), "-c".to_owned(), busy]);
        let _ = Command::new("chrt").args(["-f", "50"]).args(&load).status();
    }
    let (code, text) = recorder.wait();
    assert_eq!(code, Some(0), "{text}");
    assert!(text.contains("snapshot (trigger)"), "{text}");
    assert!(count(&scratch.path("t.1.transect"), |_, _| true) > 0);
}

#[test]
fn nothing_stays_loaded() {
    if !can_record_compact() {
        return;
    }
    let scratch = Scratch::new();
    let recorder = scratch.start_compact(&["record", "-o", "g"]);
    let pid = recorder.pid();
    wait_for("BPF links", || crate::record_support::bpf_links(pid) > 3);
    recorder.signal(Signal::INT);
    let (code, text) = recorder.wait();
    assert_eq!(code, Some(0), "{text}");
    // Links, programs and maps live as long as someone holds them: nobody does.
    assert!(!Path::new(&format!("/proc/{pid}")).exists());
    let pins = fs::read_dir("/sys/fs/bpf").map_or(0, |entries| {
        let ours = |entry: &fs::DirEntry| entry.file_name().to_string_lossy().contains("transect");
        entries.flatten().filter(ours).count()
    });
    assert_eq!(pins, 0);
}
