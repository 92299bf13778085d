//! The short form of `make chaos` (`tests/it/slow/chaos.rs`): a few cases of each kind.

#![allow(clippy::print_stdout, reason = "the table of outcomes belongs in the log")]

use super::support::can_record;
use crate::chaos::{
    cases::{Plan, missed_kinds, run_cases},
    disks,
    judge::Outcome,
    kills::{kill_daemons, kill_recorders},
    random::Random,
    stops,
    subjects::{excerpt, history, recorded, xen},
    verbs::Verb,
};
use anyhow::{Result, ensure};

/// Another seed than that of the long form, so that the two see different cases.
const SEED: u64 = 1;
/// Five for each subject, which together hit each kind of file.
const CASES: u64 = 25;
/// Of each kind.
const KILLS: u64 = 2;
const FREE_KIB: [u64; 2] = [8, 300];

#[test]
fn damaged_files_are_never_a_wrong_answer() {
    if can_record() {
        check_damages().unwrap();
    }
}

fn check_damages() -> Result<()> {
    let scratch = tempfile::tempdir()?;
    let compact = recorded(scratch.path(), "compact", &[])?;
    let excerpt = excerpt(scratch.path(), &compact)?;
    let full = recorded(scratch.path(), "full", &["--full"])?;
    let subjects = [compact, excerpt, full, xen(scratch.path())?, history(scratch.path())?];
    let plan = Plan::of_environment(SEED, CASES);
    let outcomes = run_cases(&subjects, plan, scratch.path())?;
    println!("{outcomes}");
    let missed = missed_kinds(&subjects, &outcomes)?;
    ensure!(missed.is_empty(), "not hit: {missed:?}");
    ensure!(outcomes.of(Outcome::Wrong) == 0, "wrong answers");
    Ok(())
}

#[test]
fn killed_recorders_and_daemons_leave_what_they_had_written() {
    if can_record() {
        check_kills().unwrap();
    }
}

fn check_kills() -> Result<()> {
    let mut random = Random::new(SEED);
    for mode in [&[][..], &["--full"]] {
        let scratch = tempfile::tempdir()?;
        let killed = kill_recorders(scratch.path(), mode, KILLS, &mut random)?;
        println!("{mode:?}: {killed:?}");
    }
    let scratch = tempfile::tempdir()?;
    let windows = kill_daemons(scratch.path(), KILLS, &mut random)?;
    println!("serve: {windows} windows had been written before kills");
    Ok(())
}

#[test]
fn full_disks_are_an_error_or_a_counted_loss() {
    if can_record() {
        check_disks().unwrap();
    }
}

fn check_disks() -> Result<()> {
    let scratch = tempfile::tempdir()?;
    let mut compact = recorded(scratch.path(), "compact", &[])?;
    // The verbs that make tables, tiles and files.
    compact.references.retain(|verb, _| matches!(verb, Verb::Sql | Verb::Excerpt | Verb::View));
    for (free_kib, verb, outcome) in disks::check_verbs(scratch.path(), &compact, &FREE_KIB)? {
        println!("{verb:<17} with {free_kib:>4} KiB: {outcome:?}");
    }
    disks::check_daemon(scratch.path())
}

#[test]
fn what_is_lost_while_a_process_is_stopped_is_stated() {
    if can_record() {
        check_stops().unwrap();
    }
}

fn check_stops() -> Result<()> {
    let scratch = tempfile::tempdir()?;
    for mode in [&[][..], &["--full"]] {
        let lost = stops::check_recorder(scratch.path(), mode)?;
        println!("{mode:?}: {lost} events of the load were lost and counted");
    }
    let missed = stops::check_daemon(scratch.path())?;
    println!("serve: {missed} windows were missed and stated");
    Ok(())
}
