//! The side of the benchmark on this host: from a plan to a journal.
//!
//! - [`plan`]: what is to be measured, checked before anything runs;
//! - [`procedure`]: runs the plan's cells in randomised paired blocks, on machines that [`transect_bench_platforms`] opens;
//! - [`journal`]: what has happened, written before the next thing starts;
//! - [`environment`]: what this host is, so that results of different ones are not compared;
//! - [`ledger`]: from a journal to what statistics are made of.

pub mod environment;
pub mod journal;
pub mod ledger;
pub mod plan;
pub mod procedure;
