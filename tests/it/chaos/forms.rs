//! What the short form (`host::chaos`, in `make test`) and the long one (`slow::chaos`, `make chaos`) check: they differ in
//! how much of it.

#![allow(clippy::print_stdout, reason = "the tables of outcomes are the result")]

use super::{
    cases::{Plan, missed_kinds, run_cases},
    disks,
    judge::Outcome,
    kills::{kill_daemons, kill_recorders},
    random::Random,
    stops,
    subjects::Subject,
};
use anyhow::{Result, ensure};
use std::path::Path;

/// The collectors: compact and full.
pub(crate) const MODES: [&[&str]; 2] = [&[], &["--full"]];

/// No damage of a file is a wrong answer, and each kind of file is damaged.
pub(crate) fn check_damages(subjects: &[Subject], plan: Plan, scratch: &Path) -> Result<()> {
    let outcomes = run_cases(subjects, plan, scratch)?;
    println!("seed {}\n{outcomes}", plan.seed);
    let missed = missed_kinds(subjects, &outcomes)?;
    ensure!(missed.is_empty(), "not hit: {missed:?}");
    ensure!(outcomes.of(Outcome::Wrong) == 0, "wrong answers");
    Ok(())
}

/// So many kills of each collector, and of a daemon.
pub(crate) fn check_kills(seed: u64, of_recorders: u64, of_daemons: u64) -> Result<()> {
    let mut random = Random::new(seed);
    println!("seed {seed}");
    for mode in MODES {
        let scratch = tempfile::tempdir()?;
        let killed = kill_recorders(scratch.path(), mode, of_recorders, &mut random)?;
        println!("record {}: {killed:?}", mode.join(" "));
    }
    let scratch = tempfile::tempdir()?;
    let windows = kill_daemons(scratch.path(), of_daemons, &mut random)?;
    println!("serve: {of_daemons} kills; {windows} windows had been written, each is there once");
    Ok(())
}

/// What is lost while a process is stopped is stated, by each collector and by a daemon.
pub(crate) fn check_stops() -> Result<()> {
    let scratch = tempfile::tempdir()?;
    for mode in MODES {
        let lost = stops::check_recorder(scratch.path(), mode)?;
        println!("record {}: {lost} events of the load were lost, within holes", mode.join(" "));
    }
    let missed = stops::check_daemon(scratch.path())?;
    println!("serve: {missed} windows were missed and stated");
    Ok(())
}

/// The verbs with so little space on the disk; the outcome of each.
pub(crate) fn check_full_disks(
    scratch: &Path,
    subject: &Subject,
    free_kib: &[u64],
) -> Result<Vec<Outcome>> {
    let mut outcomes = Vec::new();
    for (free_kib, verb, outcome) in disks::check_verbs(scratch, subject, free_kib)? {
        println!("{verb:<17} with {free_kib:>4} KiB: {outcome:?}");
        outcomes.push(outcome);
    }
    Ok(outcomes)
}
