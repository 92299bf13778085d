//! Xen's dom0 as a machine, and a domain beside it with either kind of disk.

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
fn dom0_works_is_reached_and_leaves_nothing() {
    let (place, shape) = (Place::new(), shape(768, 1));
    let Some(mut machine) = open("xen-dom0", &shape, &place.bed) else { return };
    assert_eq!(machine.facts().accelerator, "xen under tcg");
    works(machine.as_mut(), &shape);
    talks_over_tcp(machine.as_mut());
    talks_over_udp(machine.as_mut());
    let mut talk = Talk::with(machine.as_mut());
    assert_eq!(talk.ask("run:cat /sys/hypervisor/type").trim(), "xen");
    talk.tell("hang");
    let disk = place.bed.scratch.display().to_string();
    drop(machine);
    eventually("QEMU has ended", || processes_with(&disk).is_empty());
    place.assert_clean();
}

#[test]
fn domains_work_on_disks_of_either_kind_and_leave_nothing() {
    for (platform, disk) in [("xen-domu-phys", "/dev/vdb"), ("xen-domu-loop", "domu-0.img")] {
        let (place, shape) = (Place::new(), shape(256, 1));
        let Some(mut machine) = open(platform, &shape, &place.bed) else { return };
        assert_eq!(machine.facts().accelerator, "xen under tcg");
        assert!(machine.facts().notes["disk"].ends_with(disk), "{:?}", machine.facts().notes);
        works(machine.as_mut(), &shape);
        talks_over_tcp(machine.as_mut());
        talks_over_udp(machine.as_mut());
        let mut talk = Talk::with(machine.as_mut());
        assert_eq!(
            talk.ask("run:cat /sys/hypervisor/type; grep -c xvda /proc/mounts").trim(),
            "xen\n1"
        );
        let mut below = Talk::over(machine.worker_below().unwrap());
        let domains = "run:xenstore-list /local/domain | wc -w";
        assert_eq!(below.ask(domains).trim(), "2");
        below.end();
        talk.tell("hang");
        let disk = place.bed.scratch.display().to_string();
        drop(machine);
        eventually("QEMU has ended", || processes_with(&disk).is_empty());
        place.assert_clean();
    }
}
