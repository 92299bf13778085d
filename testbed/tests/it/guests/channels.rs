//! A program carried into a guest as its agent is reached over both channels, and comes back when it dies.

#![allow(clippy::unwrap_used, reason = "helpers of tests: a failed expectation is the report")]

use std::path::PathBuf;
use std::process::Command;

use tempfile::TempDir;
use transect_testbed::{TcgGuest, on_shared_host};

/// The static stand-in of `echo.c`, and the folder that holds it.
fn echo() -> (TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let binary = folder.path().join("echo");
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/echo.c");
    let cc = Command::new("cc")
        .args(["-static", "-O2", "-o"])
        .arg(&binary)
        .arg(source)
        .status()
        .unwrap();
    assert!(cc.success());
    (folder, binary)
}

fn pid(answer: &str) -> u32 {
    answer.trim().strip_prefix("pid ").unwrap().parse().unwrap()
}

#[test]
fn over_vsock_under_kvm_and_again_after_it_was_killed() {
    let (_folder, echo) = echo();
    on_shared_host(|host| {
        host.put(&echo, "echo").unwrap();
        let plan =
            host.guest("answering").agent(&echo, &["vsock", "2718"]).agent_killed_at_order(2719);
        let guest = plan.boot().unwrap();
        // One that was started needs a moment to listen.
        let cid = guest.cid().unwrap();
        let ask = format!("until ./echo ask-vsock {cid} 2718; do sleep 0.1; done");
        let first = host.run(&ask).within(240).unwrap();
        guest.order(2719).unwrap();
        guest.wait_for("agent started").times(2).within(120).unwrap();
        let second = host.run(&ask).within(240).unwrap();
        assert_ne!(pid(&first.expect_success().stdout), pid(&second.expect_success().stdout));
    });
}

#[test]
fn over_virtio_serial_under_tcg() {
    let (_folder, echo) = echo();
    let plan = TcgGuest::plan("answering").unwrap().port("org.transect.0");
    let guest = plan.agent(&echo, &["port", "org.transect.0"]).boot().unwrap();
    let ask = || {
        let out = Command::new(&echo).arg("ask-unix").arg(guest.port().unwrap()).output().unwrap();
        pid(&String::from_utf8(out.stdout).unwrap())
    };
    let first = ask();
    assert_eq!(first, ask(), "the same agent serves one host after the other");
    assert!(guest.marks().unwrap().contains(&format!("agent started pid={first}\n")));
}
