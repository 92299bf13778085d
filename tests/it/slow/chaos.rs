//! The long form, `make chaos`: a thousand damages under every verb, two hundred kills, full disks, stops.

use crate::{
    chaos::{
        cases::Plan,
        disks,
        forms::{MODES, check_damages, check_full_disks, check_kills, check_stops},
        judge::Outcome,
        subjects::{excerpt, history, pair, recorded, xen},
    },
    host::support::{can_record, start_agent},
};
use anyhow::{Result, ensure};

const SEED: u64 = 45;
const CASES: u64 = 1000;
/// Of each collector, and twice as many of the daemon.
const KILLS: u64 = 50;
const STOPS: u64 = 5;
const FREE_KIB: [u64; 8] = [0, 8, 64, 200, 400, 700, 1200, 4000];

#[test]
fn a_thousand_damages_are_never_a_wrong_answer() {
    if can_record() {
        damages().unwrap();
    }
}

fn damages() -> Result<()> {
    let scratch = tempfile::tempdir()?;
    let compact = recorded(scratch.path(), "compact", &[])?;
    let excerpt = excerpt(scratch.path(), &compact)?;
    let full = recorded(scratch.path(), "full", &["--full"])?;
    let (agent, address) = start_agent()?;
    let pair = pair(scratch.path(), &address)?;
    drop(agent);
    let subjects = [compact, excerpt, full, pair, xen(scratch.path())?, history(scratch.path())?];
    check_damages(&subjects, Plan::of_environment(SEED, CASES), scratch.path())
}

#[test]
fn two_hundred_kills_leave_what_had_been_written() {
    if can_record() {
        check_kills(Plan::of_environment(SEED, 0).seed, KILLS, 2 * KILLS).unwrap();
    }
}

#[test]
fn full_disks_are_an_error_or_a_counted_loss() {
    if can_record() {
        full_disks().unwrap();
    }
}

fn full_disks() -> Result<()> {
    let scratch = tempfile::tempdir()?;
    let compact = recorded(scratch.path(), "compact", &[])?;
    let outcomes = check_full_disks(scratch.path(), &compact, &FREE_KIB)?;
    ensure!(outcomes.contains(&Outcome::Error), "no disk was full: {outcomes:?}");
    ensure!(outcomes.contains(&Outcome::Equal), "each disk was full: {outcomes:?}");
    for mode in MODES {
        disks::check_recorder(scratch.path(), mode)?;
    }
    disks::check_daemon(scratch.path())
}

#[test]
fn what_is_lost_while_a_process_is_stopped_is_stated() {
    if can_record() {
        for _ in 0..STOPS {
            check_stops().unwrap();
        }
    }
}
