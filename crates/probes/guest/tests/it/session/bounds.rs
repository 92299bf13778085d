//! Guests that exceed their bounds, that begin late, and owners in a hurry.

use crate::session::{mono, scene::*, wire::Wire};
use std::{thread, time::Duration};
use transect_guest::session::GapCause;

#[test]
fn exceeded_bound_cuts_the_guest_off_for_good() {
    let mut scene = Scene::new();
    scene.bounds.disk_bytes = 4 << 20;
    let agent = scene.agent();
    let session = scene.recording("agent");
    until("the session ends", || session.is_over());
    assert!(session.has_recorded() && !session.progress().connected);
    let error = session.stop().unwrap_err().to_string();
    let reason = "cut off: it sent more than 4194304 bytes, its part of the disk (half of the free space, for all guests); its recording ends here";
    assert!(error.contains(reason), "{error}");
    let told = scene.notebook.told.lock().unwrap();
    assert_eq!(told.notes, [error], "reported at once");
    let [gap] = told.gaps[..] else { panic!("{:?}", told.gaps) };
    assert_eq!((gap.cause, gap.to), (GapCause::CutOff, None));
    assert_eq!(told.ends.len(), 1, "what was stored before is complete");
    // Below the bound: the page that exceeded it is not stored.
    let pages: usize = told.pages.values().map(Vec::len).sum();
    assert!(pages > 500 && pages * 4096 <= 4 << 20, "{pages}");
    drop(told);
    scene.until_agent_is_idle();
    agent.end();
}

#[test]
fn exceeded_bound_at_the_start_is_an_error_without_a_gap() {
    let mut scene = Scene::new();
    scene.bounds.meta_files = 2;
    let agent = scene.agent();
    let session = scene.session("agent");
    assert!(!session.wait_started());
    let error = session.stop().unwrap_err().to_string();
    assert!(error.contains("cut off: it sent more than 2 descriptive files"), "{error}");
    assert!(scene.notebook.told.lock().unwrap().begun.is_empty());
    scene.until_agent_is_idle();
    agent.end();
}

#[test]
fn late_guest_has_a_gap_from_the_beginning_of_the_host() {
    let scene = Scene::new();
    let agent = scene.agent();
    let wire = Wire::lay(&scene.path("front"), scene.path("agent"), Vec::new());
    wire.freeze();
    let session = scene.session("front");
    let deadline = std::time::Instant::now() + Duration::from_millis(50);
    assert!(!session.wait_started_until(deadline, &|| false) && session.is_starting());
    let began = mono();
    session.host_began(began);
    thread::sleep(Duration::from_millis(50));
    let thawed = mono();
    wire.thaw();
    scene.until_pages(20);
    scene.until("the gap", |told| told.gaps.len() == 1);
    assert!(session.stop().unwrap().complete);
    let told = scene.notebook.told.lock().unwrap();
    let [gap] = told.gaps[..] else { panic!("{:?}", told.gaps) };
    assert_eq!((gap.cause, gap.from), (GapCause::NotStarted, began));
    assert!(gap.to.is_some_and(|to| to >= thawed), "{gap:?}");
    assert_eq!(told.notes, Vec::<String>::new());
    drop(told);
    agent.end();
}

/// A guest that began in time has none, though the host notes when it began.
#[test]
fn guest_in_time_has_no_gap() {
    let scene = Scene::new();
    let agent = scene.agent();
    let session = scene.recording("agent");
    session.host_began(mono());
    let brackets = scene.notebook.told.lock().unwrap().brackets.len();
    scene.until("some more rounds", |told| told.brackets.len() >= brackets + 8);
    assert!(session.stop().unwrap().complete);
    assert_eq!(scene.notebook.told.lock().unwrap().gaps, []);
    agent.end();
}

/// The session's own limits are an hour here.
#[test]
fn hurry_ends_the_wait_for_a_frozen_guest() {
    let mut scene = Scene::new();
    let long = PATIENCE * 60;
    (scene.limits.stop_idle, scene.limits.stop_total) = (long, long);
    scene.limits.stop_hurried = Duration::from_millis(100);
    let agent = scene.agent();
    let wire = Wire::lay(&scene.path("front"), scene.path("agent"), Vec::new());
    let session = scene.recording("front");
    scene.until_pages(20);
    wire.freeze();
    session.hurry();
    until("the end", || session.is_over());
    assert!(!session.stop().unwrap().complete);
    wire.cut();
    scene.until_agent_is_idle();
    agent.end();
}
