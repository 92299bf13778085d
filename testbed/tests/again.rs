//! A test whose emulated host or guest hangs is made once more, and says what ran beside.

#![allow(clippy::unwrap_used, reason = "a failed expectation is the report")]

use std::sync::Mutex;
use transect_testbed::on_shared_host;

#[test]
fn what_never_happens_on_an_emulated_host_is_tried_on_another() {
    let tries = Mutex::new(Vec::new());
    on_shared_host(|host| {
        let first = tries.lock().unwrap().is_empty();
        if !first || !host.is_nested() {
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
    if let [failure, _second] = &tries[..] {
        assert!(failure.contains("did not end within 3 s"), "{failure}");
        assert!(failure.contains("why it hangs"), "{failure}");
    } else {
        // A host with KVM of its own does not die of an emulator.
        assert_eq!(tries.len(), 1);
    }
}

#[allow(clippy::panic, reason = "how a test fails")]
fn unwind(failure: &str) {
    panic!("{failure}");
}
