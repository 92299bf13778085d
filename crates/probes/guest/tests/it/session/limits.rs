//! Who waits for how long: silence, slow disks, ends.

use crate::session::{mono, notebook::SlowDisk, scene::*, wire::Wire};
use std::{
    os::unix::net::UnixListener,
    time::{Duration, Instant},
};
use transect_guest::session::{GapCause, GuestSession, Outcome};

#[test]
fn a_stalled_guest_is_given_up_and_taken_back() {
    let mut scene = Scene::new();
    scene.limits.stall = Duration::from_secs(2);
    let agent = scene.agent();
    let wire = Wire::lay(&scene.path("front"), scene.path("agent"), Vec::new());
    let session = scene.recording("front");
    scene.until_pages(50);
    wire.freeze();
    let frozen_at = mono();
    scene.until("it is given up", |told| !told.notes.is_empty());
    wire.cut();
    scene.until("a gap", |told| !told.gaps.is_empty());
    assert!(session.stop().unwrap().complete);
    let told = scene.notebook.told.lock().unwrap();
    assert_eq!(told.gaps[0].cause, GapCause::Stalled);
    assert!(told.gaps[0].from <= frozen_at && told.gaps[0].to > Some(frozen_at));
    told.check_pages(true);
    drop(told);
    agent.end();
}

#[test]
fn a_guest_that_never_comes_back_does_not_hold_up_the_end() {
    let mut scene = Scene::new();
    (scene.limits.reconnect_min, scene.limits.reconnect_max) = (PATIENCE, PATIENCE);
    let agent = scene.agent();
    let session = scene.recording("agent");
    scene.until_pages(20);
    agent.kill();
    std::fs::remove_file(scene.path("agent")).unwrap();
    scene.until("the loss", |told| !told.notes.is_empty());
    let outcome = stop_in_time(session);
    assert!(!outcome.complete);
    let told = scene.notebook.told.lock().unwrap();
    assert_eq!((told.gaps.len(), told.ends.len()), (1, 1));
    assert_eq!(told.gaps[0].to, None, "it never came back");
}

#[test]
fn a_guest_frozen_at_the_end_costs_its_rest_and_a_bounded_wait() {
    let mut scene = Scene::new();
    scene.limits.stop_idle = Duration::from_secs(2);
    let agent = scene.agent();
    let wire = Wire::lay(&scene.path("front"), scene.path("agent"), Vec::new());
    let session = scene.recording("front");
    scene.until_pages(20);
    wire.freeze();
    let outcome = stop_in_time(session);
    assert!(!outcome.complete && outcome.gaps == 1, "{outcome:?}");
    wire.cut();
    scene.until_agent_is_idle();
    agent.end();
}

/// Ends a session without waiting for any limit that its test left long.
fn stop_in_time(session: GuestSession) -> Outcome {
    let stopping_at = Instant::now();
    let outcome = session.stop().unwrap();
    let took = stopping_at.elapsed();
    assert!(took < PATIENCE, "{took:?}");
    outcome
}

/// What one write of a disk takes is not the guest's silence, while recording or after Stop: meanwhile its
/// words wait in the channel.
fn a_slow_disk(at_end: bool) {
    let mut scene = Scene::new();
    let limit = Duration::from_secs(3);
    (scene.limits.stall, scene.limits.stop_idle) = (limit, limit);
    let machine = scene.machine.clone();
    scene.notebook.slow = Some(SlowDisk { machine, at_end, time: limit + limit / 4 });
    let agent = scene.agent();
    let session = scene.recording("agent");
    let blocked = u32::from(!at_end);
    scene.until("the slow write", |told| told.blocked == blocked);
    scene.until_pages(500);
    let outcome = session.stop().unwrap();
    let told = scene.notebook.told.lock().unwrap();
    assert_eq!(told.blocked, 1);
    assert!(outcome.complete && outcome.gaps == 0 && outcome.links == 1, "{outcome:?}");
    assert_eq!(told.notes, Vec::<String>::new());
    told.check_pages(false);
    drop(told);
    agent.end();
}

#[test]
fn a_disk_that_is_slow_while_recording_is_not_the_guests_silence() {
    a_slow_disk(false);
}

#[test]
fn a_disk_that_is_slow_at_the_end_is_not_the_guests_silence() {
    a_slow_disk(true);
}

#[test]
fn a_peer_that_is_no_agent_is_silent_not_a_hang() {
    let mut scene = Scene::new();
    scene.limits.start = Duration::from_secs(2);
    let listener = UnixListener::bind(scene.path("agent")).unwrap();
    let started = Instant::now();
    let session = scene.session("agent");
    assert!(!session.wait_started());
    let error = session.stop().unwrap_err().to_string();
    assert!(
        error.contains("no data from the agent for 2 s") && error.contains("transect-agent"),
        "{error}"
    );
    assert!(started.elapsed() < PATIENCE);
    drop(listener);
}

#[test]
fn a_full_disk_ends_the_session_with_its_reason() {
    let mut scene = Scene::new();
    scene.notebook.fails_at_page = Some(30);
    let agent = scene.agent();
    let session = scene.session("agent");
    until("the session ends without a disk", || session.is_over());
    let error = session.stop().unwrap_err().to_string();
    assert!(error.contains("disk full"), "{error}");
    scene.until_agent_is_idle();
    agent.end();
}
