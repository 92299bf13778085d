//! What came of it, for people and programs: one structure, made of the journal, and its faces.
//!
//! - [`text`]: the table on a terminal;
//! - [`html`]: a page that holds everything, for publishing and for keeping;
//! - [`rows`]: flat rows, for CSV and Parquet;
//! - JSON: the structure as it stands.

pub mod html;
mod make;
mod model;
mod number;
pub mod rows;
mod sets;
pub mod text;
mod view;

pub use make::{Asked, of, of_asked};
pub use model::{
    Comparison, Contrast, Estimate, Point, Report, ReportedCell, ReportedPlatform, Suspect, Verdict,
};
pub use sets::{Chosen, compare, gate, gate_between};
