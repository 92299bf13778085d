//! The short form of `make chaos`: a few dozen damages, so that each kind of file is hit.

#![allow(clippy::print_stdout, reason = "the table of outcomes belongs in the log")]

use super::support::can_record;
use crate::chaos::{
    cases::{Plan, missed_kinds, run_cases},
    judge::Outcome,
    subjects::{excerpt, history, recorded, xen},
};
use anyhow::{Result, ensure};

/// Another seed than that of the long form, so that the two see different cases.
const SEED: u64 = 1;
const CASES: u64 = 36;

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
