//! A failure of an emulator is marked as such in the output of a test.

#![allow(clippy::unwrap_used, reason = "a failed expectation is the report")]

use std::process::Command;
use transect_testbed::{Guest, on_shared_host};

/// Names the failure that the child process makes.
const CASE: &str = "TESTBED_TEST_FAILS_BY";
/// What `tests/house/summary.py` looks for.
const MACHINE_FAILED: &str = "testbed: an emulated machine died or hung";

#[test]
fn a_guest_that_ends_by_itself_is_a_death_and_a_killed_one_is_not() {
    on_shared_host(|host| {
        let ended = |by: &dyn Fn(Guest)| {
            by(host.guest("ends").boot().unwrap());
            let has_died = host.has_died();
            host.forget_failures();
            has_died
        };
        assert!(!ended(&|guest| guest.kill().unwrap()));
        assert!(!ended(&drop));
        let end_from_outside = |guest: &Guest| {
            let kill = format!("kill -9 {}", guest.pid().unwrap());
            host.run(&kill).within(60).unwrap().expect_success();
            let waited = guest.wait_for("what it will never say").within(60).unwrap_err();
            assert!(waited.to_string().contains("ended"), "{waited:#}");
        };
        // Where nothing is emulated, a guest that ends is the test's failure.
        assert_eq!(ended(&|guest| end_from_outside(&guest)), host.is_nested());
        let then_kill = |guest: Guest| {
            end_from_outside(&guest);
            assert!(guest.kill().unwrap_err().to_string().contains("had ended"));
        };
        assert_eq!(ended(&then_kill), host.is_nested());
    });
}

/// Both failures are made in a process of their own, this binary run again: what a runner would read of them.
#[test]
fn a_hang_is_reported_as_the_machines_and_a_failed_expectation_is_not() {
    let output_of = |case: &str| {
        let child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "guests::nested::again::fails_as_named", "--nocapture"])
            .env(CASE, case)
            .env("NEXTEST", "1")
            .output()
            .unwrap();
        assert!(!child.status.success(), "{case}");
        String::from_utf8_lossy(&[child.stdout, child.stderr].concat()).into_owned()
    };
    let of_test = output_of("expectation");
    assert!(of_test.contains("what the test expected"), "{of_test}");
    assert!(!of_test.contains(MACHINE_FAILED), "{of_test}");
    let of_machine = output_of("hang");
    assert!(of_machine.contains("did not end within 3 s"), "{of_machine}");
    // What ran beside may be what was waited for in vain.
    assert!(of_machine.contains("why it hangs"), "{of_machine}");
    // A host with KVM of its own does not hang of an emulator.
    let is_nested = of_machine.contains("nested: true");
    assert_eq!(of_machine.contains(MACHINE_FAILED), is_nested, "{of_machine}");
}

/// No test: the failures of the test above. Without the variable there is nothing to do.
#[test]
fn fails_as_named() {
    let Ok(case) = std::env::var(CASE) else { return };
    on_shared_host(|host| {
        if case == "expectation" {
            assert_eq!(host.run("true").within(60).unwrap().code, 1, "what the test expected");
        }
        let _beside = host.run("echo why it hangs >&2; sleep 1000").spawn().unwrap();
        let hung = host.run("sleep 1000").within(3);
        assert!(hung.is_ok(), "nested: {}; {:#}", host.is_nested(), hung.unwrap_err());
    });
}
