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

/// Text that goes one line up, writes a line of its own, and clears the screen.
const HOSTILE: &str = "no tracefs\u{1b}[1A\r\nroot: all is well\u{9b}2J\u{202e}";
const SHOWN: &str = "no tracefs\\x1b[1A\\r\\nroot: all is well\\x9b2J\\u{202e}";

/// Ends a session that does not begin; its error, as it is printed.
fn refused(scene: &Scene) -> String {
    let agent = scene.agent();
    let session = scene.session("agent");
    assert!(!session.wait_started());
    let error = session.stop().unwrap_err().to_string();
    agent.end();
    assert!(!error.contains(|c: char| c.is_control() || c == '\u{202e}'), "{error:?}");
    error
}

#[test]
fn a_guests_error_is_one_line_that_no_terminal_obeys() {
    let mut scene = Scene::new();
    scene.machine.refuse = Some(HOSTILE.into());
    let error = refused(&scene);
    assert!(error.ends_with(SHOWN), "{error}");
}

#[test]
fn a_guests_problem_and_clocks_are_escaped() {
    let mut scene = Scene::new();
    scene.machine.problem = HOSTILE.into();
    let error = refused(&scene);
    assert!(error.ends_with(SHOWN), "{error}");
    let mut scene = Scene::new();
    scene.machine.clocks = vec!["local".into(), HOSTILE.into()];
    let error = refused(&scene);
    assert!(error.contains(&format!("local, {SHOWN}, but one of")), "{error}");
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
