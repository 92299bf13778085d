//! What the scheduler, the interrupts and the control groups were set to when recording began, on this host.

use crate::record_support::{Scratch, can_record, can_record_compact, groups::CpuGroup, pinned};
use serde_json::Value;
use std::{
    fs,
    path::Path,
    process::{Child, Command},
};
use transect_store::Recording;

/// A child process, killed when the test ends.
struct Sleeper(Child);

impl Sleeper {
    /// A process on one CPU with a nice value.
    fn start(cpu: u32, nice: i32) -> Self {
        let command = ["nice", "-n", &nice.to_string(), "sleep", "600"].map(str::to_owned);
        let command = pinned(cpu, &command);
        Sleeper(Command::new(&command[0]).args(&command[1..]).spawn().unwrap())
    }

    fn id(&self) -> u32 {
        self.0.id()
    }
}

impl Drop for Sleeper {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The rows of a query.
fn rows(scratch: &Scratch, recording: &Path, query: &str) -> Vec<Value> {
    let output = scratch.run(&["sql", recording.to_str().unwrap(), query, "--json"]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let rows: Value = serde_json::from_slice(&output.stdout).unwrap();
    rows.as_array().unwrap().clone()
}

/// The last words of what `taskset -pc` prints: "pid 7's current affinity list: 0,1".
fn affinity(pid: u32) -> String {
    let output = Command::new("taskset").args(["-pc", &pid.to_string()]).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    text.trim().rsplit(' ').next().unwrap().to_owned()
}

/// The CPUs of a list, one by one: `0-1` and `0,1` are the same.
fn cpus(list: &str) -> Vec<u32> {
    let cpus = transect_tracefs::cpus::parse_list(list).unwrap();
    cpus.into_iter().map(|cpu| cpu.0).collect()
}

#[test]
fn settings_are_those_of_the_start_with_both_collectors() {
    let mut kinds = Vec::new();
    if can_record_compact() {
        kinds.push(false);
    }
    if can_record() {
        kinds.push(true);
    }
    for is_full in kinds {
        let kind = if is_full { "full" } else { "compact" };
        let scratch = Scratch::new();
        let pinned = Sleeper::start(0, 7);
        let group = CpuGroup::with_quota("settings", 30_000, 50_000);
        if let Some(group) = &group {
            group.add(pinned.id());
        }
        let recorder = match is_full {
            true => scratch.start(&["record", "--full", "--profile", "sched", "-o", "r"]),
            false => scratch.start_compact(&["record", "--profile", "sched", "-o", "r"]),
        };
        // A change while it is recorded is not the start's.
        let renice = ["-n", "12", "-p", &pinned.id().to_string()];
        assert!(Command::new("renice").args(renice).output().unwrap().status.success());
        recorder.signal(rustix::process::Signal::INT);
        assert_eq!(recorder.wait().0, Some(0));
        let dir = scratch.path("r");
        let thread = |tid: u32| {
            let query = format!(
                "SELECT cgroup, allowed_cpus, policy, nice, rt_priority FROM threads \
                 WHERE machine_id = 0 AND tid = {tid}"
            );
            rows(&scratch, &dir, &query)
        };
        // Of threads that had events.
        let manifest = Recording::open(&dir).unwrap().manifest;
        let entry =
            manifest.threads.iter().find(|t| t.tid.0.cast_unsigned() == pinned.id()).unwrap();
        assert_eq!(entry.allowed_cpus.as_deref(), Some(affinity(pinned.id()).as_str()), "{kind}");
        assert_eq!(entry.allowed_cpus.as_deref(), Some("0"));
        assert_eq!(
            (entry.policy.as_deref(), entry.nice, entry.rt_priority),
            (Some("other"), Some(7), None)
        );
        let threads = rows(
            &scratch,
            &dir,
            "SELECT tid, allowed_cpus, policy, nice, rt_priority FROM threads WHERE tid > 0 AND allowed_cpus IS NOT NULL",
        );
        assert!(!threads.is_empty(), "{kind}");
        for row in &threads {
            let Some(known) =
                manifest.threads.iter().find(|t| Some(i64::from(t.tid.0)) == row["tid"].as_i64())
            else {
                panic!("{row}")
            };
            assert_eq!(row["allowed_cpus"].as_str(), known.allowed_cpus.as_deref());
            assert_eq!(row["policy"].as_str(), known.policy.as_deref());
            assert_eq!(row["nice"].as_i64(), known.nice.map(i64::from));
            assert_eq!(row["rt_priority"].as_i64(), known.rt_priority.map(i64::from));
        }
        // This process lives on; nobody changes the CPUs it may use.
        let own = std::process::id();
        let entry = manifest.threads.iter().find(|t| t.tid.0.cast_unsigned() == own).unwrap();
        assert_eq!(cpus(entry.allowed_cpus.as_deref().unwrap()), cpus(&affinity(own)));
        if thread(own).is_empty() {
            println!("{kind}: this thread had no events");
        }

        for line in &manifest.irq_lines {
            let actions = fs::read_to_string(format!("/sys/kernel/irq/{}/actions", line.irq));
            let Ok(actions) = actions else { continue };
            assert_eq!(actions.trim(), line.name.replace(", ", ","), "{kind}");
        }
        let has_lines = fs::read_to_string("/proc/interrupts").unwrap().contains(" virtio");
        assert!(!has_lines || manifest.irq_lines.iter().any(|line| line.name.contains("virtio")));

        let Some(group) = group else {
            println!("skipped: no control group with a quota can be made here");
            continue;
        };
        let query =
            format!("SELECT * FROM cgroups WHERE machine_id = 0 AND cgroup = '{}'", group.path);
        let found = rows(&scratch, &dir, &query);
        assert_eq!(found.len(), 1, "{kind}");
        assert_eq!(found[0]["cpu_quota_ns"].as_i64(), Some(30_000_000));
        assert_eq!(found[0]["cpu_period_ns"].as_i64(), Some(50_000_000));
        let entry =
            manifest.threads.iter().find(|t| t.tid.0.cast_unsigned() == pinned.id()).unwrap();
        assert_eq!(entry.cgroup.as_deref(), Some(group.path.as_str()));
        let root = rows(&scratch, &dir, "SELECT cpu_quota_ns FROM cgroups WHERE cgroup = '/'");
        assert_eq!(
            (root.len(), root[0]["cpu_quota_ns"].is_null()),
            (1, true),
            "the group above it"
        );
        drop(pinned);
    }
}
