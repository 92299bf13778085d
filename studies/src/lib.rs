//! # transect-studies: published studies, done again
//!
//! **What.** One folder a study. It sets a published experiment up on machines of the testbed, records it, asks
//! `transect` for the metrics, and writes a page of `docs/reference/studies` that lays them beside the published numbers.
//!
//! **Data flow.** `plan` (what is varied) → `scene` (the testbed runs it and records) → `analysis` (`transect import`
//! and `transect sql`) → CSV files in `docs/reference/studies/NAME` → `figures` and `claims` → the page and its charts. The
//! first half takes minutes of emulation; the second is a function of the CSV files and is what tests repeat.
//!
//! **Design constraints.**
//! * No figure on a page is typed: [`page`] puts what was computed between markers; people write the rest.
//! * Metrics come from `transect` as its users have it: the built program, its tables, SQL.
//! * What is compared is compared over repetitions: a difference smaller than their spread is called unresolved.
//! * Published numbers stand in a CSV file with the place in the publication that states them.
//!
//! ```no_run
//! # fn main() -> anyhow::Result<()> {
//! use transect_studies::xenmon;
//! xenmon::page::write(std::path::Path::new("docs/reference/studies"))?;
//! # Ok(())
//! # }
//! ```

pub mod asked;
pub mod chart;
pub mod csv;
pub mod page;
pub mod paths;
pub mod spread;
pub mod xenmon;
