//! Sessions that do not come about, and what is said then.

use crate::session::scene::*;
use std::{sync::atomic::AtomicBool, thread, time::Duration};
use transect_guest::{serve::Caller, transport::Listener};

#[test]
fn what_the_agent_cannot_do_is_told_in_its_words() {
    let mut scene = Scene::new();
    scene.machine.refuse = Some("tracefs: no event sched:nonsense; see available_events".into());
    let agent = scene.agent();
    let session = scene.session("agent");
    assert!(!session.wait_started());
    let error = session.stop().unwrap_err().to_string();
    assert!(error.contains("fake (virtio-serial:") && error.contains("see available_events"));
    agent.end();
}

#[test]
fn a_second_recorder_is_told_that_the_agent_is_busy() {
    let scene = Scene::new();
    let path = scene.path("agent");
    let listener = Listener::unix(&path).unwrap();
    let refuser = thread::spawn(move || {
        let channel = listener.accept(Duration::from_secs(5)).unwrap().unwrap();
        Caller::wait(&channel, "test", &AtomicBool::new(false)).ok().unwrap().refuse_busy();
        thread::sleep(Duration::from_millis(100));
    });
    let session = scene.session("agent");
    assert!(!session.wait_started());
    let error = session.stop().unwrap_err().to_string();
    assert!(error.contains("another recorder"), "{error}");
    refuser.join().unwrap();
}

#[test]
fn a_missing_agent_is_an_error_with_a_mend() {
    let scene = Scene::new();
    let session = scene.session("nowhere");
    assert!(!session.wait_started());
    let error = session.stop().unwrap_err().to_string();
    assert!(error.contains("socket does not exist") && error.contains("virtserialport"), "{error}");
}
