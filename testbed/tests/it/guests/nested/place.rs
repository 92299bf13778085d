//! "This machine" as the host, tried where it can be: inside a nested host, whose KVM is usable.

use transect_testbed::kernel::{Flavour, Kernel};
use transect_testbed::{KvmHost, initramfs};

const TESTBED: &str = env!("CARGO_BIN_EXE_testbed");

#[test]
fn usable_kvm_is_recognised_and_used_directly() {
    // The cache is read only in there, so what the probe boots must be in it.
    initramfs::of_guest(&Kernel::get(Flavour::Cloud).unwrap()).unwrap();
    let host = KvmHost::nested().unwrap();
    host.put(TESTBED, "testbed").unwrap();
    let testbed = |command: &str| {
        let plan = host.run(command).env("TRANSECT_CACHE", "/run/testbed/cache");
        plan.env("TRANSECT_KVM_PROBE_SECS", "60").within(360).unwrap()
    };
    let inside = testbed("./testbed host -- 'cat /proc/sys/kernel/random/boot_id; pwd'");
    assert!(inside.expect_success().stderr.contains("this machine ready"), "{}", inside.stderr);
    let boot_id = host.run("cat /proc/sys/kernel/random/boot_id").within(240).unwrap().stdout;
    let (said, folder) = inside.stdout.split_once('\n').unwrap();
    assert_eq!(said, boot_id.trim());
    let left = host.run(&format!("ls -d {folder}")).within(240).unwrap();
    assert_ne!(left.code, 0, "a run there leaves nothing either: {}", left.stdout);
}
