//! Numbers for Prometheus: true counters, added up from the windows, for a bounded number of names.
//!
//! **Data flow.** Each window is added to the [`Counters`]; a scrape renders them ([`text`]).
//!
//! **Design constraints.** Counters only grow, from the daemon's start. Whoever comes when all places are
//! taken is summed as `other` and stays there until a place is free again (its owner was not seen for
//! 10 min), so that no series jumps. What cannot be had is no series, and never 0.

mod actor;
mod counters;
mod families;
mod groups;
mod places;
mod render;
mod text;

pub(crate) use counters::Counters;
pub(crate) use render::{Around, render};
pub(crate) use text::Format;

#[cfg(test)]
mod tests;
