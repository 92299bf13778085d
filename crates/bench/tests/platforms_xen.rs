//! Xen's dom0 as a machine.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "tests"
)]

mod common;

use common::{Place, Talk, eventually, open, processes_with, shape, talks_over_tcp, works};

#[test]
fn dom0_works_is_reached_and_leaves_nothing() {
    let (place, shape) = (Place::new(), shape(768, 1));
    let Some(mut machine) = open("xen-dom0", &shape, &place.bed) else { return };
    assert_eq!(machine.facts().accelerator, "xen under tcg");
    works(machine.as_mut(), &shape);
    talks_over_tcp(machine.as_mut());
    let mut talk = Talk::with(machine.as_mut());
    assert_eq!(talk.ask("run:cat /sys/hypervisor/type").trim(), "xen");
    talk.tell("hang");
    let disk = place.bed.scratch.display().to_string();
    drop(machine);
    eventually("QEMU has ended", || processes_with(&disk).is_empty());
    place.assert_clean();
}
