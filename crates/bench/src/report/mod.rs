//! What came of it, for people and programs: one structure, made of the journal, and its faces.

pub(crate) mod ledger;
mod make;
mod model;
mod sets;

pub use make::of;
pub use model::{
    Comparison, Contrast, Estimate, Point, Report, ReportedCell, ReportedPlatform, Suspect, Verdict,
};
pub use sets::{Chosen, compare, gate, gate_between};
