//! When Xen had a domain's vCPUs running, and what that says about the domain's kernel's clock.
//!
//! **What.** A kernel stamps events only while one of its vCPUs runs. So if the kernel's trace and
//! Xen's were taken at the same time, whether the stamps of the one lie inside the running
//! intervals of the other tells how the two clocks are related: [`same_tsc`] tests whether they are
//! the same counter, and [`place`] finds how they are related if not.
//!
//! **Data flow.**
//! ```text
//! XenTrace ─▶ Running (vCPU → intervals, TSC) ─┬─▶ same_tsc ─▶ Share
//! TraceDat ─▶ Stamps (CPU → stamps, own clock) ┴─▶ place: vote → track → reads ─▶ Placed (Evidence::VcpuRan, ClockRead)
//! ```
//! The clock graph makes the estimate and its bound of that evidence (`transect_clock::ran`).
//!
//! **Design constraints.** Sans-IO; memory is 16 bytes for each running interval and 8 for each
//! event of a kernel, and both are capped. Nothing is assumed about where the other clock began:
//! its offset is searched for.

mod inside;
mod place;
mod reads;
mod running;
mod share;
mod stamps;
mod vote;

pub use inside::same_tsc;
pub use place::{PlaceError, Placed, place};
pub use running::{Interval, Running, VcpuRuns};
pub use share::Share;
pub use stamps::Stamps;
