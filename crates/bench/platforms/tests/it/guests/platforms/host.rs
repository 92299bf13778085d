//! Machines that are processes of this host: it itself, containers, UML, and "another" host by ssh.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "tests"
)]

use super::common::{
    Place, Talk, control_groups_of, eventually, mounts, open, platform, processes_with, shape,
    talks_over_tcp, works,
};
use std::process::{Command, Stdio};
use transect_bench_core::{Fault, Kind};

/// Opened, used, closed; opened and dropped while it works: nothing is left either way.
fn lives_and_leaves(name: &str, memory_mib: u32, tcp: bool) {
    let (place, shape) = (Place::new(), shape(memory_mib, 1));
    let before = mounts();
    let Some(mut machine) = open(name, &shape, &place.bed) else { return };
    works(machine.as_mut(), &shape);
    if tcp {
        talks_over_tcp(machine.as_mut());
    }
    machine.close().unwrap();
    place.assert_clean();
    let Some(mut machine) = open(name, &shape, &place.bed) else { return };
    let mut talk = Talk::with(machine.as_mut());
    let marker = format!("sleep 7{}", std::process::id());
    talk.tell(&format!("run:setsid {marker}"));
    drop(machine);
    eventually("what it ran has ended", || processes_with(&marker).is_empty());
    place.assert_clean();
    assert_eq!(mounts(), before);
}

#[test]
fn native() {
    lives_and_leaves("native", 256, true);
}

#[test]
fn container() {
    lives_and_leaves("container", 256, true);
}

#[test]
fn nspawn() {
    lives_and_leaves("nspawn", 256, true);
}

#[test]
fn uml() {
    lives_and_leaves("uml", 512, false);
}

#[test]
fn containers_have_a_read_only_root_and_their_own_processes() {
    for name in ["container", "nspawn"] {
        let (place, shape) = (Place::new(), shape(256, 1));
        let Some(mut machine) = open(name, &shape, &place.bed) else { continue };
        let mut talk = Talk::with(machine.as_mut());
        assert_eq!(talk.ask("run:touch /usr/bin/x-$$ 2>/dev/null && echo bad"), "", "{name}");
        let count: u32 = talk.ask("run:ls -d /proc/[0-9]* | wc -l").trim().parse().unwrap();
        assert!(count < 8, "{name}: {count} processes");
        assert!(!machine.host_tids().is_empty(), "{name}");
        talk.end();
        machine.close().unwrap();
    }
}

#[test]
fn the_memory_limit_holds() {
    let (place, shape) = (Place::new(), shape(64, 1));
    let Some(mut machine) = open("native", &shape, &place.bed) else { return };
    let mut talk = Talk::with(machine.as_mut());
    assert_eq!(talk.hello.memory_bytes, 64 << 20);
    // tail keeps all of a line without an end in memory.
    let said = talk.ask("run:head -c 200000000 /dev/zero | tail | wc -c");
    assert_ne!(said.trim(), "200000000");
    talk.end();
    machine.close().unwrap();
}

#[test]
fn more_cpus_or_memory_than_there_are_is_refused() {
    let much = shape(256, 4096);
    let refusal = platform("native").can_run(&much).unwrap_err();
    assert_eq!(refusal.kind, Kind::Different, "{refusal}");
    let refusal = platform("container").can_run(&shape(u32::MAX, 1)).unwrap_err();
    assert_eq!(refusal.kind, Kind::Different, "{refusal}");
}

/// The owner is this very test binary, run again and killed.
#[test]
fn a_killed_owner_leaves_nothing() {
    const AS_OWNER: &str = "PLATFORM_TEST_AS_OWNER";
    if let Some(name) = std::env::var_os(AS_OWNER) {
        let place = Place::new();
        let Some(mut machine) = open(name.to_str().unwrap(), &shape(256, 1), &place.bed) else {
            return;
        };
        let mut talk = Talk::with(machine.as_mut());
        talk.tell("run:setsid sleep 600");
        std::fs::write(std::env::var("NOTE").unwrap(), place.folder.path().to_str().unwrap())
            .unwrap();
        std::thread::sleep(std::time::Duration::from_secs(60));
        return;
    }
    for name in ["native", "container", "nspawn"] {
        if platform(name).can_run(&shape(256, 1)).is_err() {
            println!("skipped: {name}");
            continue;
        }
        let (notes, before) = (tempfile::tempdir().unwrap(), mounts());
        let note = notes.path().join("folder");
        let mut owner = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "guests::platforms::host::a_killed_owner_leaves_nothing"])
            .envs([(AS_OWNER, name), ("NOTE", note.to_str().unwrap())])
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        let pid = owner.id();
        let said = || std::fs::read_to_string(&note).unwrap_or_default();
        eventually("the owner says its folder", || !said().is_empty());
        let folder = said();
        assert!(!control_groups_of(pid).is_empty());
        owner.kill().unwrap();
        owner.wait().unwrap();
        eventually("its groups are gone", || control_groups_of(pid).is_empty());
        eventually("its processes are gone", || processes_with(&folder).is_empty());
        std::fs::remove_dir_all(folder).unwrap();
        assert_eq!(mounts(), before);
    }
}

#[test]
fn what_is_not_there_is_refused_before_anything_starts() {
    let refusal = platform("remote").can_run(&shape(256, 1)).unwrap_err();
    assert_eq!(refusal.kind, Kind::Plan);
    if let Err(refusal) = platform("kvm").can_run(&shape(256, 1)) {
        let place = Place::new();
        let opened = platform("kvm").open(&shape(256, 1), &place.bed);
        let Err(Fault::Refused(again)) = opened else { panic!("kvm fell back to something") };
        assert_eq!(refusal, again);
        assert_eq!(refusal.kind, Kind::NotHere);
    }
}
