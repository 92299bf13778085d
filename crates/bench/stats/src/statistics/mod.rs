//! Numbers in, numbers out: estimators, tests, intervals.
//!
//! # What
//! What `bench` says about a difference rests on ranks, because run times have long tails and a machine has bad
//! moments: [`hodges_lehmann`] estimates, [`signed_rank`] (paired) and [`mann_whitney`] (unpaired) tests with the
//! intervals that belong to them, [`holm`] for many questions at once. [`bootstrap`] is a cross-check only.
//!
//! # Design constraints
//! - Pure: no files, no clock, no global state. What is random takes a seed and gives the same everywhere
//!   ([`random::Random`]).
//! - Small samples are the rule, so distributions are exact as far as integers of 128 bits carry, and the answer says
//!   which it was ([`Method`]).
//! - Too little data is `None`, never a number.
//! - All values are finite; whoever fills a sample sees to it ([`crate::design::Ledger`] does).
//! - `tests/it/host/scipy.rs` holds everything here against SciPy to 1e-9.

pub mod bootstrap;
pub mod changepoint;
pub mod hodges_lehmann;
pub mod holm;
pub mod looks;
pub mod mann_whitney;
pub mod normal;
pub mod quantile;
pub mod random;
mod ranks;
pub mod relative;
pub mod signed_rank;
pub mod trend;

use serde::{Deserialize, Serialize};

/// How a probability was got.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Method {
    /// By counting all cases.
    Exact,
    /// By the normal approximation, corrected for continuity and ties.
    Normal,
}

/// What a test found.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Test {
    /// The statistic: `W+` of the signed-rank test, `U` of the Mann–Whitney test.
    pub statistic: f64,
    /// Two-sided probability of a statistic at least as extreme if there were no difference.
    pub p: f64,
    /// How `p` was got.
    pub method: Method,
}

/// A two-sided confidence interval, both ends included.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Interval {
    /// Lower end.
    pub low: f64,
    /// Upper end.
    pub high: f64,
    /// The confidence that was asked for, 0 to 1.
    pub asked: f64,
    /// The confidence that the discrete distribution gives: at least what was asked for.
    pub achieved: f64,
}
