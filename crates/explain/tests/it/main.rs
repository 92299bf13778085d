//! Paths over rows made by hand, and over rows that contradict each other.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::cast_possible_truncation,
    reason = "small numbers; a failed expectation is the report"
)]

mod findings;
mod paths;
mod requests;
mod story;
mod tiling;
