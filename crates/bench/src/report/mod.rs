//! What came of it, for people and programs: one structure, made of the journal, and its faces.

mod model;

pub use model::{
    Comparison, Contrast, Estimate, Point, Report, ReportedCell, ReportedPlatform, Suspect, Verdict,
};
