//! A guest of an emulated KVM host: both of them run workers, and the guest is reached through its host's bridge.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "tests"
)]

use super::common::{
    Place, Talk, eventually, open, processes_with, shape, talks_over_tcp, talks_over_udp, works,
};

#[test]
fn a_guest_of_a_nested_host_works_beside_it_and_leaves_nothing() {
    let (place, shape) = (Place::new(), shape(384, 1));
    let Some(mut machine) = open("nested-kvm", &shape, &place.bed) else { return };
    assert_eq!(machine.facts().accelerator, "kvm under tcg");
    works(machine.as_mut(), &shape);
    talks_over_tcp(machine.as_mut());
    talks_over_udp(machine.as_mut());
    // Its host counts its exits meanwhile: it is real KVM.
    let mut below = Talk::over(machine.worker_below().unwrap());
    let count = "run:test -e /dev/kvm && pgrep -fc '[q]emu-system.*l2-0'";
    assert_eq!(below.ask(count).trim(), "1");
    assert_eq!(below.hello.cpus.len(), 2);
    below.end();
    let mut talk = Talk::with(machine.as_mut());
    talk.tell("hang");
    let disk = place.bed.scratch.display().to_string();
    assert!(!processes_with(&disk).is_empty());
    drop(machine);
    eventually("QEMU has ended", || processes_with(&disk).is_empty());
    place.assert_clean();
}

#[test]
fn a_nested_host_is_a_machine_itself() {
    let (place, shape) = (Place::new(), shape(512, 2));
    let Some(mut machine) = open("nested-l1", &shape, &place.bed) else { return };
    let mut talk = Talk::with(machine.as_mut());
    assert_eq!(talk.hello.cpus.len(), 2);
    assert_eq!(talk.ask("run:test -c /dev/kvm && grep -c svm /proc/cpuinfo").trim(), "2");
    talk.end();
    machine.close().unwrap();
    place.assert_clean();
}
