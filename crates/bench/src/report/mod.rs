//! What came of it, for people and programs: one structure, made of the journal, and its faces.
//!
//! - [`text`]: the table on a terminal;
//! - [`html`]: a page that holds everything, for publishing and for keeping;
//! - [`rows`]: flat rows, for CSV and Parquet;
//! - JSON: the structure as it stands.

pub mod html;
mod model;
mod number;
pub mod rows;
pub mod text;
mod view;

pub use model::{
    Comparison, Contrast, Estimate, Point, Report, ReportedCell, ReportedPlatform, Suspect, Verdict,
};
