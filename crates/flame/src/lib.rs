//! Flame graphs of the stages of packets and block requests: the time of each stage, by the stack with which it begins.
//!
//! # Data flow
//! ```text
//! packets, io_requests ─▶ stages ─▶ the event that each begins with (points) ─┐
//! stack_samples, stacks ──────────▶ the stack at that event (samples) ────────┴─▶ sums ─▶ Flames ─┬─▶ text
//!                                                                                                ├─▶ folded lines
//!                                                                                                └─▶ page (graph)
//! ```
//! The crate reads rows and writes to a writer; it opens no files. Its graphs are HTML.
//!
//! # Example
//! ```
//! use transect_flame::{Flames, write_folded};
//! use transect_model::table::Tables;
//!
//! let flames = Flames::gather(&Tables::default())?;
//! let mut lines = Vec::new();
//! write_folded(&[("empty".to_owned(), flames)], &mut lines)?;
//! assert!(lines.is_empty());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod flames;
mod folded;
mod frame;
mod graph;
mod page;
mod points;
#[cfg(test)]
mod sample;
mod samples;
mod stage;
#[cfg(test)]
mod tests;
mod text;

pub use flames::{Flames, Group, GroupKey, NEEDS};
pub use folded::write_folded;
pub use page::write_page;
pub use stage::{FlameError, FoldedStack, StageFlame, StageStacks};
pub use text::write_text;
