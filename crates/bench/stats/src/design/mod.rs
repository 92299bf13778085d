//! What is compared with what, and what may be said of it.
//!
//! # What
//! A [`Layout`] names the cells of a plan and which of them are compared. `procedure::of_block` gives each
//! block's order, a [`Ledger`] holds what was measured, [`decide`] says whether to go on, [`summarise`] what came out. [`compare`] puts
//! two result sets beside each other, [`gate`] makes an exit code of intervals. `docs/reference/bench-method.md` is the method for
//! people.
//!
//! # Data flow
//! ```text
//! cells ─▶ Layout ─▶ (the procedure runs, block by block) ─value─▶ Ledger ─┬▶ decide ─▶ go on, enough, given up
//!                                                    sentinel, exclusion ─▶│
//!                                                                          └▶ summarise ─▶ gate · compare · reports
//! ```
//!
//! # Design constraints
//! - *Cost* is what all ratios are of: a time as it is, a rate upside down. A ratio above 1 is always slower.
//! - A difference is only ever taken within a block: what the machine does from one block to the next cancels.
//! - A value leaves for a recorded cause ([`Cause`]); no cause speaks of the value.
//! - Pure: nothing here reads, writes or asks the time.
//!
//! # Example
//! ```
//! use transect_bench_stats::design::{Cell, Goal, Layout, Ledger, Reference, decide, summarise, Step};
//! use transect_bench_core::{Better, CacheState, Family};
//!
//! let cell = |arm: &str| Cell {
//!     platform: "native".into(),
//!     cache: CacheState::Any,
//!     workload: "micro/pipe".into(),
//!     guests: 1,
//!     ..Cell::new(format!("native/pipe/{arm}"), arm, Family::Micro, Better::Less)
//! };
//! let reference = Reference { arm: "none".into(), platform: None };
//! let layout = Layout::new(vec![cell("none"), cell("perf")], &reference)?;
//! let ids: Vec<String> = layout.ids().map(str::to_owned).collect();
//! let (mut ledger, goal) = (Ledger::new(layout), Goal::fixed(6));
//! for block in 0.. {
//!     for id in &ids {
//!         let noise = 1.0 + 0.001 * f64::from(block) / 6.0;
//!         ledger.record(block, id, noise * if id.ends_with("perf") { 1.4 } else { 1.0 })?;
//!     }
//!     if decide(&ledger, &goal).step != Step::Continue {
//!         break;
//!     }
//! }
//! let summary = summarise(&ledger, &goal);
//! let perf = summary.contrasts.iter().find(|contrast| contrast.contrast.cell.ends_with("perf")).unwrap();
//! assert_eq!(perf.verdict.to_string(), "slower");
//! # Ok::<(), transect_bench_core::Refusal>(())
//! ```

mod cell;
pub mod compare;
mod decide;
mod estimate;
pub mod gate;
mod layout;
mod ledger;
mod quantiles;
mod sentinel;
mod summary;
mod verdict;
mod warm_up;

pub use cell::{Cell, Label};
pub use decide::{Decision, Goal, Progress, Step, decide};
pub use estimate::{Estimate, MIN_BLOCKS, Point};
pub use layout::{Contrast, Layout, Reference, Relation};
pub use ledger::{Block, Cause, Entry, Exclusion, Ledger};
pub use quantiles::check_quantile;
pub use sentinel::SentinelSummary;
pub use summary::{CellSummary, ContrastSummary, Relative, Summary, estimate_pair, summarise};
pub use verdict::{Floor, Unresolved, Verdict};
pub use warm_up::warm_up;

#[cfg(test)]
mod tests;
