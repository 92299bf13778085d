//! The short form of `make chaos` (`tests/it/slow/chaos.rs`): a few cases of each kind.

use super::support::can_record;
use crate::chaos::{
    cases::Plan,
    disks,
    forms::{check_damages, check_full_disks, check_kills, check_stops},
    subjects::{excerpt, history, recorded, xen},
    verbs::Verb,
};
use anyhow::Result;

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
        damages().unwrap();
    }
}

fn damages() -> Result<()> {
    let scratch = tempfile::tempdir()?;
    let compact = recorded(scratch.path(), "compact", &[])?;
    let excerpt = excerpt(scratch.path(), &compact)?;
    let full = recorded(scratch.path(), "full", &["--full"])?;
    let subjects = [compact, excerpt, full, xen(scratch.path())?, history(scratch.path())?];
    check_damages(&subjects, Plan::of_environment(SEED, CASES), scratch.path())
}

#[test]
fn killed_recorders_and_daemons_leave_what_they_had_written() {
    if can_record() {
        check_kills(SEED, KILLS, KILLS).unwrap();
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
    let mut compact = recorded(scratch.path(), "compact", &[])?;
    // The verbs that make tables, tiles and files.
    compact.references.retain(|verb, _| matches!(verb, Verb::Sql | Verb::Excerpt | Verb::View));
    check_full_disks(scratch.path(), &compact, &FREE_KIB)?;
    disks::check_daemon(scratch.path())
}

#[test]
fn what_is_lost_while_a_process_is_stopped_is_stated() {
    if can_record() {
        check_stops().unwrap();
    }
}
