//! The long form, `make chaos`: a thousand damages under every verb, two hundred kills, full disks, stops.

#![allow(clippy::print_stdout, reason = "the tables of outcomes are the result")]

use crate::{
    chaos::{
        cases::{Plan, missed_kinds, run_cases},
        disks,
        judge::Outcome,
        kills::{kill_daemons, kill_recorders},
        random::Random,
        stops,
        subjects::{excerpt, history, pair, recorded, xen},
    },
    host::support::{can_record, start_agent},
};
use anyhow::{Result, ensure};
use std::collections::BTreeMap;

const SEED: u64 = 45;
const CASES: u64 = 1000;
/// Of each collector, and twice as many of the daemon.
const KILLS: u64 = 50;
const STOPS: u64 = 5;
const FREE_KIB: [u64; 8] = [0, 8, 64, 200, 400, 700, 1200, 4000];

#[test]
fn a_thousand_damages_are_never_a_wrong_answer() {
    if can_record() {
        check_damages().unwrap();
    }
}

fn check_damages() -> Result<()> {
    let scratch = tempfile::tempdir()?;
    let compact = recorded(scratch.path(), "compact", &[])?;
    let excerpt = excerpt(scratch.path(), &compact)?;
    let full = recorded(scratch.path(), "full", &["--full"])?;
    let (agent, address) = start_agent()?;
    let pair = pair(scratch.path(), &address)?;
    drop(agent);
    let subjects = [compact, excerpt, full, pair, xen(scratch.path())?, history(scratch.path())?];
    let plan = Plan::of_environment(SEED, CASES);
    let outcomes = run_cases(&subjects, plan, scratch.path())?;
    println!("seed {}\n{outcomes}", plan.seed);
    let missed = missed_kinds(&subjects, &outcomes)?;
    ensure!(missed.is_empty(), "not hit: {missed:?}");
    ensure!(outcomes.of(Outcome::Wrong) == 0, "wrong answers");
    Ok(())
}

#[test]
fn two_hundred_kills_leave_what_had_been_written() {
    if can_record() {
        check_kills().unwrap();
    }
}

fn check_kills() -> Result<()> {
    let plan = Plan::of_environment(SEED, 0);
    let mut random = Random::new(plan.seed);
    println!("seed {}", plan.seed);
    for mode in [&[][..], &["--full"]] {
        let scratch = tempfile::tempdir()?;
        let killed = kill_recorders(scratch.path(), mode, KILLS, &mut random)?;
        println!("record {}: {killed:?}", mode.join(" "));
    }
    let scratch = tempfile::tempdir()?;
    let windows = kill_daemons(scratch.path(), 2 * KILLS, &mut random)?;
    println!("serve: {} kills; {windows} windows had been written, each is there once", 2 * KILLS);
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
    let compact = recorded(scratch.path(), "compact", &[])?;
    let mut counts: BTreeMap<_, usize> = BTreeMap::new();
    for (free_kib, verb, outcome) in disks::check_verbs(scratch.path(), &compact, &FREE_KIB)? {
        println!("{verb:<17} with {free_kib:>4} KiB: {outcome:?}");
        *counts.entry(outcome).or_default() += 1;
    }
    ensure!(counts.contains_key(&Outcome::Error), "no disk was full: {counts:?}");
    ensure!(counts.contains_key(&Outcome::Equal), "each disk was full: {counts:?}");
    for mode in [&[][..], &["--full"]] {
        disks::check_recorder(scratch.path(), mode)?;
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
    for _ in 0..STOPS {
        let scratch = tempfile::tempdir()?;
        for mode in [&[][..], &["--full"]] {
            let lost = stops::check_recorder(scratch.path(), mode)?;
            println!("record {}: {lost} events were lost and counted", mode.join(" "));
        }
        let missed = stops::check_daemon(scratch.path())?;
        println!("serve: {missed} windows were missed and stated");
    }
    Ok(())
}
