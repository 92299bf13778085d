//! Links that come, go, and come again.

use crate::session::{mono, scene::*, wire::Wire};
use std::sync::atomic::Ordering::SeqCst;
use transect_guest::{
    proto::Frame,
    serve::End,
    session::GapCause,
    stamp::{StampClock, TscReading},
};

/// Exchanges of a burst, without one that was asked for before it, and the most time one may take, ns.
const BURST: usize = 47;
const BURST_NS: u64 = 400_000_000;

#[test]
fn a_quiet_session_brings_every_page_and_tight_brackets() {
    let scene = Scene::new();
    let agent = scene.agent();
    let before = mono();
    let session = scene.recording("agent");
    scene.until_pages(500);
    assert!(session.progress().connected);
    let outcome = session.stop().unwrap();
    let after = mono();

    let told = scene.notebook.told.lock().unwrap();
    told.check_pages(false);
    let received: usize = told.pages.values().map(Vec::len).sum();
    assert_eq!(outcome.bytes, (received * crate::session::machine::PAGE) as u64);
    assert!(outcome.complete && outcome.gaps == 0 && outcome.links == 1, "{outcome:?}");
    assert_eq!((outcome.events, outcome.lost, outcome.agent_cpu_ns), (20, 8, 7));

    let (boot, continues, meta) = &told.begun[0];
    assert_eq!((boot.as_str(), *continues, told.begun.len()), ("boot-1", false, 1));
    let sizes: Vec<usize> = meta.iter().map(|(_, bytes)| *bytes).collect();
    assert_eq!(sizes, [4, 200_000, 0, 20], "files in pieces come together again");
    assert_eq!(told.ends.len(), 1);
    assert_eq!(told.ends[0].0[0].1, b"1 init\n");

    // One clock on both sides here: a bracket encloses its guest stamp or is wrong.
    for bracket in &told.brackets {
        assert!(before <= bracket.host_send && bracket.host_recv <= after);
        assert!(bracket.host_send <= bracket.guest && bracket.guest <= bracket.host_recv);
    }
    // Two bursts, before and after, unless their time was up.
    let (begun_at, ended_at) = (told.begun_at[0], told.ended_at[0]);
    let first = told.brackets.iter().filter(|bracket| bracket.host_recv <= begun_at).count();
    let last = told.brackets.iter().filter(|bracket| bracket.host_send >= ended_at).count();
    assert!(first >= BURST || begun_at - before >= BURST_NS, "{first} in the first burst");
    assert!(last >= BURST || after - ended_at >= BURST_NS, "{last} in the last burst");
    // One after the other, so the best is no longer than its share of the time.
    let best = outcome.best_round_trip.unwrap();
    let shortest = told.brackets.iter().filter_map(|bracket| bracket.round_trip()).min();
    assert_eq!((Some(best), outcome.brackets), (shortest, told.brackets.len() as u64));
    assert!(best * outcome.brackets <= after - before, "{outcome:?}");
    drop(told);
    scene.until_agent_is_idle();
    assert_eq!(agent.end(), [End::Bye]);
}

#[test]
fn a_cut_connection_costs_a_marked_gap_and_nothing_else() {
    let scene = Scene::new();
    let agent = scene.agent();
    let wire = Wire::lay(&scene.path("front"), scene.path("agent"), Vec::new());
    let session = scene.recording("front");
    scene.until_pages(50);
    // Enough for some to be told drained, so that the gap is short.
    let brackets = scene.notebook.told.lock().unwrap().brackets.len();
    scene.until("more brackets", |told| told.brackets.len() >= brackets + 8);
    let cut_at = wire.cut();
    scene.until("a gap", |told| !told.gaps.is_empty());
    let back_at = mono();
    let pages_at_return = scene.notebook.told.lock().unwrap().pages[&0].len();
    scene.until_pages(pages_at_return + 50);
    let outcome = session.stop().unwrap();

    let told = scene.notebook.told.lock().unwrap();
    told.check_pages(true);
    assert!(outcome.complete && outcome.links == 2 && outcome.gaps == 1, "{outcome:?}");
    let gap = told.gaps[0];
    assert_eq!(gap.cause, GapCause::Disconnected);
    let to = gap.to.unwrap();
    assert!(gap.from <= cut_at && cut_at < to && to <= back_at, "{gap:?} cut {cut_at}");
    // Only what was not yet drained: from an exchange on, and not from many before the cut.
    assert!(told.brackets.iter().any(|bracket| bracket.host_send == gap.from), "{gap:?}");
    let hidden = gap.from + 1..=cut_at;
    let hidden = told.brackets.iter().filter(|bracket| hidden.contains(&bracket.host_send));
    assert!(hidden.clone().count() <= 6, "{gap:?} {:?}", hidden.collect::<Vec<_>>());
    assert_eq!(told.begun.iter().map(|begun| begun.1).collect::<Vec<_>>(), [false, true]);
    assert_eq!(told.ends.len(), 1, "one source, ended once");
    assert!(told.notes[0].contains("reconnecting") && told.notes[1].contains("reconnected"));
    drop(told);
    scene.until_agent_is_idle();
    let ends = agent.end();
    assert_eq!(ends, [End::Gone, End::Bye]);
}

#[test]
fn a_rebooted_guest_gets_a_source_of_its_own() {
    let scene = Scene::new();
    let agent = scene.agent();
    let session = scene.recording("agent");
    scene.until_pages(20);
    *scene.machine.boot_id.lock().unwrap() = "boot-2".into();
    agent.kill();
    let agent = scene.agent();
    scene.until("a second source", |told| told.begun.len() == 2);
    scene.until("the gap", |told| told.gaps.len() == 1);
    let outcome = session.stop().unwrap();
    assert!(outcome.complete);
    let told = scene.notebook.told.lock().unwrap();
    assert_eq!(told.begun[1].0, "boot-2");
    assert!(!told.begun[1].1, "must not continue the old kernel's pages");
    assert_eq!(told.ends.len(), 2);
    assert!(told.ends[0].0.is_empty() && !told.ends[1].0.is_empty());
    drop(told);
    agent.end();
}

#[test]
fn stale_bytes_of_a_dead_session_are_passed_over() {
    let scene = Scene::new();
    let mut stale = b"login: ".to_vec();
    let pages = vec![9; 8 * crate::session::machine::PAGE];
    Frame::Data { cpu: 1, pages: &pages }.encode(77, &mut stale).unwrap();
    Frame::Stopped.encode(77, &mut stale).unwrap();
    // Cut in the middle of a frame.
    Frame::Error { text: "an old error".into() }.encode(77, &mut stale).unwrap();
    stale.truncate(stale.len() - 5);
    let agent = scene.agent();
    let _wire = Wire::lay(&scene.path("front"), scene.path("agent"), stale);
    let session = scene.recording("front");
    scene.until_pages(20);
    assert!(session.stop().unwrap().complete);
    scene.notebook.told.lock().unwrap().check_pages(false);
    // Its last word is on the way; told to end before reading it, the agent would say so.
    scene.until_agent_is_idle();
    assert_eq!(agent.end(), [End::Bye]);
}

/// A round waits for pages until the next reading is due, and no longer: one reading each, beside those
/// before and after all of them.
#[test]
fn a_quiet_guest_reads_its_clock_as_often_as_is_due() {
    if TscReading::take(StampClock::Mono).is_none() {
        eprintln!("skipped: no TSC to read a clock beside");
        return;
    }
    let mut scene = Scene::new();
    scene.machine.is_quiet = true;
    let agent = scene.agent();
    let session = scene.recording("agent");
    until("enough rounds", || scene.machine.pumps.load(SeqCst) >= 20);
    assert!(session.stop().unwrap().complete);
    let (rounds, readings) =
        (scene.machine.pumps.load(SeqCst) as usize, scene.notebook.told.lock().unwrap().readings);
    assert!(readings >= rounds, "{readings} readings in {rounds} rounds");
    scene.until_agent_is_idle();
    assert_eq!(agent.end(), [End::Bye]);
}
