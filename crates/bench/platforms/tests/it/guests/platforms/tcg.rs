//! QEMU guests with all instructions emulated: one machine for all that is asked of it.

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
fn a_guest_works_is_reached_and_leaves_nothing() {
    let (place, shape) = (Place::new(), shape(512, 1));
    let Some(mut machine) = open("tcg", &shape, &place.bed) else { return };
    assert_eq!(machine.facts().accelerator, "tcg");
    assert!(!machine.facts().emulated.is_empty());
    works(machine.as_mut(), &shape);
    talks_over_tcp(machine.as_mut());
    talks_over_udp(machine.as_mut());
    let tids = machine.host_tids();
    assert!(tids.len() > 1, "{tids:?}");
    // Dropped while it works.
    let mut talk = Talk::with(machine.as_mut());
    talk.tell("hang");
    let disk = place.bed.scratch.display().to_string();
    assert!(processes_with(&disk).iter().any(|line| line.contains("qemu-system")));
    drop(machine);
    eventually("QEMU has ended", || processes_with(&disk).is_empty());
    place.assert_clean();
    let log = std::fs::read_dir(&place.bed.logs).unwrap().count();
    assert_eq!(log, 1);
}
