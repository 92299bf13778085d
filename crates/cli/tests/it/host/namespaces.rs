//! Recording from inside pid and cgroup namespaces: ids and paths of others are never taken for those of events.

use crate::record_support::{Scratch, can_record_compact};
use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Output, Stdio},
};
use transect_compact::{Compact, Item};
use transect_model::{event::CoreEvent, ids::Tid};
use transect_store::Recording;

const TRANSECT: &str = env!("CARGO_BIN_EXE_transect");

/// Is it allowed to make these namespaces? If not, prints that the test is skipped.
fn can_unshare(flags: &[&str]) -> bool {
    let tried = Command::new("unshare").args(flags).arg("true").stderr(Stdio::null()).status();
    let can = tried.is_ok_and(|status| status.success());
    if !can {
        eprintln!("skipped: unshare {} is not permitted here", flags.join(" "));
    }
    can
}

/// Runs transect in new namespaces.
fn run_unshared(scratch: &Scratch, flags: &[&str], words: &[&str]) -> Output {
    let mut command = Command::new("unshare");
    command.args(flags).arg(TRANSECT).args(words).current_dir(scratch.path(""));
    command.stdin(Stdio::null()).output().unwrap()
}

/// Runs a shell script in new namespaces; `$0` is transect.
fn run_script(scratch: &Scratch, flags: &[&str], script: &str) -> Output {
    let mut command = Command::new("unshare");
    command.args(flags).args(["sh", "-c", script, TRANSECT]).current_dir(scratch.path(""));
    command.stdin(Stdio::null()).output().unwrap()
}

fn errors_of(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// The threads of a compact recording, one entry for each entry into a system call.
fn callers(dir: &Path) -> Vec<Tid> {
    let recording = Recording::open(dir).unwrap();
    let file = Compact::parse(&recording.sources[0].bytes).unwrap();
    let items = file.cpus().filter_map(|cpu| file.stream(cpu)).flatten();
    let caller = |item: Item| match item {
        Item::Event { tid, event: CoreEvent::SyscallEnter { .. }, .. } => Some(tid),
        _ => None,
    };
    items.filter_map(caller).collect()
}

fn read_tid(path: PathBuf) -> Tid {
    Tid(fs::read_to_string(path).unwrap().trim().parse().unwrap())
}

/// Checks that every entry is of one thread, and that it has some.
fn assert_only(callers: &[Tid], thread: Tid) {
    assert!(callers.len() > 10, "{} entries", callers.len());
    assert!(callers.iter().all(|tid| *tid == thread), "{thread:?}: {callers:?}");
}

const PID: &[&str] = &["-pf", "--mount-proc"];

#[test]
fn filter_by_id_inside_pid_namespace_is_refused_before_recording() {
    if !can_unshare(PID) {
        return;
    }
    let scratch = Scratch::new();
    for filter in ["pid=2", "tid=2", "vm=web1"] {
        let words = ["record", "-o", "p", "--filter", filter, "--duration", "300ms"];
        let output = run_unshared(&scratch, PID, &words);
        let text = errors_of(&output);
        assert_eq!(output.status.code(), Some(1), "{text}");
        let named = format!("--filter {filter}");
        for part in [named.as_str(), "inside a pid namespace", "--pid=host"] {
            assert!(text.contains(part), "{part} is not in {text}");
        }
        assert!(!scratch.path("p").exists());
    }
}

#[test]
fn filter_by_id_that_does_not_exist_is_refused() {
    let scratch = Scratch::new();
    // Beyond the kernel's limit of ids, 4194304.
    for (filter, why) in
        [("pid=4194305", "no process 4194305"), ("tid=4194305", "no thread 4194305")]
    {
        let output = scratch.run(&["record", "-o", "a", "--filter", filter, "--duration", "300ms"]);
        let text = errors_of(&output);
        assert_eq!(output.status.code(), Some(1), "{text}");
        assert!(text.contains(why), "{text}");
        assert!(!scratch.path("a").exists());
    }
}

#[test]
fn recording_inside_pid_namespace_has_no_foreign_names_and_a_note() {
    if !can_record_compact() || !can_unshare(PID) {
        return;
    }
    let scratch = Scratch::new();
    // The process 2 of the namespace; in events 2 is kthreadd.
    let script = "sleep 60 & exec \"$0\" record -o n --profile sched --duration 300ms";
    let output = run_script(&scratch, PID, script);
    let text = errors_of(&output);
    assert!(output.status.success(), "{text}");
    assert!(text.contains("recorded inside a pid namespace"), "{text}");
    let recording = Recording::open(&scratch.path("n")).unwrap();
    let manifest = &recording.manifest;
    assert!(manifest.notes.iter().any(|note| note.contains("inside a pid namespace")));
    assert!(manifest.threads.is_empty(), "{:?}", manifest.threads);
    assert_eq!(manifest.machines.len(), 1);
    let file = Compact::parse(&recording.sources[0].bytes).unwrap();
    assert_eq!(file.names().threads().count(), 0);
    let output = scratch.run(&["report", "n"]);
    assert!(output.status.success(), "{}", errors_of(&output));
}

#[test]
fn full_recording_inside_pid_namespace_has_no_foreign_names() {
    if !crate::record_support::can_record() || !can_unshare(PID) {
        return;
    }
    let scratch = Scratch::new();
    let script = "sleep 60 & exec \"$0\" record --full -o f --profile sched --duration 300ms";
    let output = run_script(&scratch, PID, script);
    assert!(output.status.success(), "{}", errors_of(&output));
    let output = scratch.run(&["report", "f", "--view", "threads", "--csv"]);
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let is_foreign = |line: &str| {
        let cells: Vec<_> = line.split(',').map(|cell| cell.trim_matches('"')).collect();
        cells.contains(&"2") && cells.contains(&"sleep")
    };
    assert!(!text.lines().any(is_foreign), "{text}");
}

#[test]
fn id_is_converted_where_initial_procfs_is_mounted_elsewhere() {
    let flags = ["-pf", "-m"];
    if !can_record_compact() || !can_unshare(&flags) {
        return;
    }
    let scratch = Scratch::new();
    // The busy process writes its id in the initial namespace: it opens host/self itself.
    let script = "mkdir host && mount --rbind /proc host && mount -t proc proc /proc || exit 77
        (read -r id rest < host/self/stat; echo $id > id; while :; do /bin/true; done) &
        busy=$!
        while [ ! -s id ]; do sleep 0.05; done
        exec \"$0\" record -o t --profile io --filter pid=$busy --duration 500ms";
    let output = run_script(&scratch, &flags, script);
    if output.status.code() == Some(77) {
        eprintln!("skipped: mounting procfs is not permitted here");
        return;
    }
    assert!(output.status.success(), "{}", errors_of(&output));
    assert_only(&callers(&scratch.path("t")), read_tid(scratch.path("id")));
    // Names come from the initial procfs.
    let manifest = Recording::open(&scratch.path("t")).unwrap().manifest;
    assert!(manifest.threads.iter().any(|t| t.tid == Tid(2) && t.comm == "kthreadd"));
}

/// A control group of the unified hierarchy with one inside it. Its processes end, and it is removed, in the end.
struct Groups(PathBuf);

impl Groups {
    fn create() -> Option<Self> {
        let mounts = procfs::mounts().unwrap();
        let unified = mounts.into_iter().find(|mount| mount.fs_vfstype == "cgroup2")?.fs_file;
        let path =
            PathBuf::from(unified).join(format!("transect-namespaces-{}", std::process::id()));
        fs::create_dir_all(path.join("inner")).ok()?;
        Some(Groups(path))
    }
}

impl Drop for Groups {
    fn drop(&mut self) {
        // Linux 5.14
        let _ = fs::write(self.0.join("cgroup.kill"), "1");
        for group in [self.0.join("inner"), self.0.clone()] {
            let mut tries = 0..200;
            while fs::remove_dir(&group).is_err() && tries.next().is_some() {
                std::thread::sleep(std::time::Duration::from_millis(10));
            }
        }
    }
}

#[test]
fn cgroup_filter_inside_cgroup_namespace_finds_its_level() {
    if !can_record_compact() || !can_unshare(&["-C"]) {
        return;
    }
    let Some(groups) = Groups::create() else {
        eprintln!("skipped: no unified cgroup hierarchy to write to");
        return;
    };
    let scratch = Scratch::new();
    // The recorder enters the group first: it is the root of the namespace then.
    let script = format!(
        "echo $$ > {group}/cgroup.procs
        exec unshare -C sh -c '
            sh -c \"echo \\$\\$ > {group}/inner/cgroup.procs; echo \\$\\$ > id; while :; do kill -0 \\$\\$; done\" >/dev/null 2>&1 &
            while [ ! -s id ]; do sleep 0.05; done
            exec \"$0\" record -o g --profile io --filter cgroup={group}/inner --duration 500ms' \"$0\"",
        group = groups.0.display()
    );
    let output = Command::new("sh")
        .args(["-c", &script, TRANSECT])
        .current_dir(scratch.path(""))
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let text = errors_of(&output);
    assert!(output.status.success(), "{text}");
    assert_only(&callers(&scratch.path("g")), read_tid(scratch.path("id")));
    let manifest = Recording::open(&scratch.path("g")).unwrap().manifest;
    assert!(manifest.notes.iter().any(|note| note.contains("inside a cgroup namespace")));
    assert!(manifest.threads.iter().all(|thread| thread.cgroup.is_none()));
}

#[test]
fn cgroup_filter_with_unknown_level_is_refused() {
    let flags = ["-C", "-pf", "--mount-proc"];
    if !can_record_compact() || !can_unshare(&flags) {
        return;
    }
    let Some(groups) = Groups::create() else {
        eprintln!("skipped: no unified cgroup hierarchy to write to");
        return;
    };
    let scratch = Scratch::new();
    let filter = format!("cgroup={}", groups.0.display());
    let words = ["record", "-o", "u", "--filter", &filter, "--duration", "300ms"];
    let output = run_unshared(&scratch, &flags, &words);
    let text = errors_of(&output);
    assert_eq!(output.status.code(), Some(1), "{text}");
    assert!(
        text.contains("inside a cgroup namespace") && text.contains("--cgroupns=host"),
        "{text}"
    );
    assert!(!scratch.path("u").exists());
}

#[test]
fn live_windows_report_what_a_pid_namespace_hides() {
    if !can_record_compact() || !can_unshare(PID) {
        return;
    }
    let words = ["top", "--once", "--json", "--interval", "200ms"];
    let output = run_unshared(&Scratch::new(), PID, &words);
    assert!(output.status.success(), "{}", errors_of(&output));
    let object: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let missing = object["missing"].as_array().unwrap();
    for metric in ["vms", "control_groups"] {
        let found = missing.iter().find(|row| row["metric"] == metric);
        let why = found.and_then(|row| row["why"].as_str()).unwrap_or_default();
        assert!(why.contains("inside a pid namespace"), "{metric}: {missing:?}");
    }
    let rows = object["thread_windows"].as_array().unwrap();
    assert!(!rows.is_empty());
    assert!(rows.iter().all(|row| row["cgroup"].is_null()), "{rows:?}");
}

#[test]
fn doctor_inside_pid_namespace_reports_a_limit_and_the_fix() {
    if !can_unshare(PID) {
        return;
    }
    let output = run_unshared(&Scratch::new(), PID, &["doctor", "--json"]);
    let checks: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let check = checks.as_array().unwrap().iter().find(|check| check["facility"] == "namespaces");
    let check = check.unwrap();
    assert_eq!(check["status"], "limited", "{check}");
    assert!(check["fix"].as_str().unwrap().contains("--pid=host"), "{check}");
}
