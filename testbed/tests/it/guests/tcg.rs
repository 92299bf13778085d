//! Deadlines kill, nothing is left, and logs stay only when something failed. On plain TCG guests: no nesting needed.

#![allow(clippy::unwrap_used, reason = "helpers of tests: a failed expectation is the report")]

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use transect_testbed::rundir::RunDir;
use transect_testbed::{Guest, TcgGuest};

/// Processes that name the folder in their command line, apart from zombies.
fn processes_of(folder: &Path) -> Vec<String> {
    let wanted = folder.to_string_lossy().into_owned();
    let all = std::fs::read_dir("/proc").unwrap().filter_map(|entry| {
        let line = std::fs::read(entry.ok()?.path().join("cmdline")).ok()?;
        Some(String::from_utf8_lossy(&line).replace('\0', " "))
    });
    all.filter(|line| line.contains(&wanted)).collect()
}

fn run_folder(guest: &Guest) -> PathBuf {
    let socket = guest.port().unwrap();
    socket.ancestors().find(|path| path.join("live").exists()).unwrap().to_owned()
}

fn eventually(what: &str, condition: impl Fn() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(10);
    while !condition() {
        assert!(Instant::now() < deadline, "not within 10 s: {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn a_dropped_guest_leaves_nothing() {
    let guest = TcgGuest::plan("dropped").unwrap().port("p").boot().unwrap();
    let folder = run_folder(&guest);
    assert!(processes_of(&folder).iter().any(|line| line.contains("qemu-system")));
    drop(guest);
    assert!(!folder.exists());
    assert_eq!(processes_of(&folder), Vec::<String>::new());
}

#[test]
fn the_deadline_kills_and_is_named_and_the_logs_stay() {
    let plan = TcgGuest::plan_for("late", Duration::from_secs(1)).unwrap();
    let guest = plan.port("p").start().unwrap();
    let folder = run_folder(&guest);
    let error = guest.wait_for("never said").within(240).unwrap_err().to_string();
    assert!(error.contains("its time of 1 s was over"), "{error}");
    assert!(error.contains(&*folder.to_string_lossy()), "{error}");
    drop(guest);
    assert_eq!(processes_of(&folder), Vec::<String>::new());
    assert!(folder.join("share/guests/late").exists());
    std::fs::remove_dir_all(folder).unwrap();
}

/// The guard must act when its owner dies in the hardest way. The owner is this very test binary, run again.
#[test]
fn a_killed_owner_leaves_nothing() {
    const AS_OWNER: &str = "TESTBED_TEST_AS_OWNER";
    if let Some(note) = std::env::var_os(AS_OWNER) {
        let run = RunDir::new(Duration::from_secs(60)).unwrap();
        let out = run.path().join("out");
        let arguments = ["sh", "-c", "sleep 987 & sleep 987"].map(Into::into);
        let _process = run.spawn(&arguments, &out, &out).unwrap();
        std::fs::write(note, run.path().to_str().unwrap()).unwrap();
        std::thread::sleep(Duration::from_secs(60));
        return;
    }
    let notes = tempfile::tempdir().unwrap();
    let note = notes.path().join("folder");
    let mut owner = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "guests::tcg::a_killed_owner_leaves_nothing"])
        .env(AS_OWNER, &note)
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let said = || std::fs::read_to_string(&note).unwrap_or_default();
    eventually("the owner says its folder", || !said().is_empty());
    let folder = PathBuf::from(said());
    // The guard knows the group as soon as the owner has it.
    let live: Vec<_> = std::fs::read_dir(folder.join("live")).unwrap().collect();
    assert_eq!(live.len(), 1, "{live:?}");
    let group = live[0].as_ref().unwrap().file_name().into_string().unwrap();
    owner.kill().unwrap();
    owner.wait().unwrap();
    eventually("the folder is gone", || !folder.exists());
    eventually("the group is gone", || {
        let of_group = Command::new("pgrep").args(["-g", &group]).output().unwrap();
        of_group.stdout.is_empty()
    });
}
