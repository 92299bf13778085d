//! A test whose emulated host or guest hangs is made again, and says what ran beside.

#![allow(clippy::unwrap_used, reason = "a failed expectation is the report")]

use std::sync::Mutex;
use transect_testbed::{Guest, on_shared_host};

/// One after the other: what happens on the shared host is asked of all of it.
#[test]
fn failures_of_an_emulator_are_told_from_others() {
    a_guest_that_ends_by_itself_counts_as_one();
    what_never_happens_on_an_emulated_host_is_tried_on_another();
}

fn a_guest_that_ends_by_itself_counts_as_one() {
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

fn what_never_happens_on_an_emulated_host_is_tried_on_another() {
    let tries = Mutex::new(Vec::new());
    on_shared_host(|host| {
        let is_last = tries.lock().unwrap().len() == 2;
        if is_last || !host.is_nested() {
            tries.lock().unwrap().push(String::new());
            host.run("true").within(60).unwrap().expect_success();
            return;
        }
        let _beside = host.run("echo why it hangs >&2; sleep 1000").spawn().unwrap();
        let failure = host.run("sleep 1000").within(3).unwrap_err().to_string();
        tries.lock().unwrap().push(failure.clone());
        unwind(&failure);
    });
    let tries = tries.into_inner().unwrap();
    if let [first, second, _third] = &tries[..] {
        for failure in [first, second] {
            assert!(failure.contains("did not end within 3 s"), "{failure}");
            assert!(failure.contains("why it hangs"), "{failure}");
        }
    } else {
        // A host with KVM of its own does not die of an emulator.
        assert_eq!(tries.len(), 1);
    }
}

#[allow(clippy::panic, reason = "how a test fails")]
fn unwind(failure: &str) {
    panic!("{failure}");
}
