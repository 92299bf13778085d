//! A plan whose platforms need this host booted otherwise. What boots here is the test's: it counts, and the next process
//! (here: the next call) finds another boot.
//! A whole machine does it, with GRUB and systemd, in `tests/it/guests/reboots.rs`.
#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "tests report by failing")]

use std::sync::{Arc, Mutex, atomic::AtomicBool};
use transect_bench_core::Fault;
use transect_bench_run::{
    journal::{self, Entry, State},
    plan::Plan,
    procedure::{self, Boots, Own, Results, Witness},
};

const PLAN: &str = r#"
name = "boots"
about = "of the tests"
seed = 5

[machine]
memory_mib = 256
disk_mib = 64
boot = "this kernel"

[platforms.container]
boot = "another kernel"

[procedure]
looks = [3]
limit_s = 60

[[matrix]]
platforms = ["native", "container"]
workloads = ["micro/syscall"]

[workloads."micro/syscall"]
seconds = 0.01
batches = 5
"#;

/// Cells of a block, each reference twice.
const RUNS_A_BLOCK: usize = 4;

#[derive(Debug, Default)]
struct Booted {
    boots: Mutex<Vec<String>>,
    over: Mutex<u32>,
    /// If not, every entry boots the same.
    knows_entries: bool,
}

impl Boots for Booted {
    fn id(&self) -> Result<String, Fault> {
        Ok(format!("boot {}", self.boots.lock().unwrap().len()))
    }

    fn running(&self) -> Result<String, Fault> {
        Ok(if self.knows_entries {
            self.boots.lock().unwrap().last().unwrap().clone()
        } else {
            "the default".into()
        })
    }

    fn reboot_into(&self, entry: &str) -> Result<(), Fault> {
        self.boots.lock().unwrap().push(entry.to_owned());
        Ok(())
    }

    fn over(&self) -> Result<(), Fault> {
        *self.over.lock().unwrap() += 1;
        Ok(())
    }
}

fn own(booted: &Arc<Booted>) -> Own {
    Own {
        worker: env!("CARGO_BIN_EXE_transect").into(),
        worker_arguments: vec!["bench".into(), "worker".into()],
        version: "of the tests".into(),
        boots: Arc::clone(booted) as Arc<dyn Boots>,
    }
}

struct Nobody;

impl Witness for Nobody {
    fn wrote(&mut self, _: &Entry, _: usize, _: usize) {}
}

#[test]
fn a_host_is_rebooted_as_often_as_it_must_be_and_nothing_runs_under_another_entry() {
    let planned = Plan::parse(PLAN, "of the tests").unwrap().planned().unwrap();
    if let Some(first) = planned.refused.first() {
        println!("skipped: {}", first.refusal);
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let results = Results::at(folder.path().join("results"));
    let booted = Arc::new(Booted { knows_entries: true, ..Booted::default() });
    let own = own(&booted);
    let go_on = AtomicBool::new(false);
    let mut state = procedure::run(PLAN, &results, &own, &go_on, &mut Nobody).unwrap();
    let mut calls = 1;
    while state.finished.is_none() {
        // It went down for another boot, and for nothing else.
        assert_eq!(booted.boots.lock().unwrap().len(), calls);
        assert_eq!(*booted.over.lock().unwrap(), 0);
        state = procedure::resume(&results, &own, &go_on, &mut Nobody).unwrap();
        calls += 1;
        assert!(calls < 20, "it reboots for ever");
    }
    assert_eq!(*booted.over.lock().unwrap(), 1);

    let entries = journal::read(&results.journal()).unwrap();
    let whole = State::of(&entries).unwrap();
    assert_eq!(whole.ended.len(), 3 * RUNS_A_BLOCK);
    let mut entry_now = String::new();
    for entry in &entries {
        match entry {
            Entry::Rebooting { .. } => entry_now.clear(),
            Entry::Booted { boot, .. } => entry_now.clone_from(boot),
            Entry::Ended(ended) => {
                let wants = match ended.key.cell.platform.as_str() {
                    "native" => "this kernel",
                    _ => "another kernel",
                };
                assert_eq!(entry_now, wants, "{ended:?}");
            }
            _ => {}
        }
    }
    // Two entries a block; where a block begins with the one that the last ended with, nothing is rebooted.
    let boots = booted.boots.lock().unwrap();
    assert!((4..=6).contains(&boots.len()), "{boots:?}");
    assert!(boots.windows(2).all(|two| two[0] != two[1]), "{boots:?}");
}

#[test]
fn an_entry_that_the_boot_loader_does_not_know_is_seen() {
    let planned = Plan::parse(PLAN, "of the tests").unwrap().planned().unwrap();
    if let Some(first) = planned.refused.first() {
        println!("skipped: {}", first.refusal);
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let results = Results::at(folder.path().join("results"));
    let booted = Arc::new(Booted::default());
    let (own, go_on) = (own(&booted), AtomicBool::new(false));
    procedure::run(PLAN, &results, &own, &go_on, &mut Nobody).unwrap();
    // The first entry comes up; whatever it is, nothing contradicts it.
    procedure::resume(&results, &own, &go_on, &mut Nobody).unwrap();
    let fault = procedure::resume(&results, &own, &go_on, &mut Nobody).unwrap_err().to_string();
    for entry in ["this kernel", "another kernel"] {
        assert!(fault.contains(entry), "{fault}");
    }
    assert_eq!(booted.boots.lock().unwrap().len(), 2, "it does not go on rebooting");
}
