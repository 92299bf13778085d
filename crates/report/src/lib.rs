//! The report of a recording: CPU time, waits, antagonists, exits, and what is lost.
//!
//! # Data flow
//! ```text
//! rows ─▶ Gather ─▶ lines (`build`, a file per view) ─▶ text for people (`text`)
//!                                                    └▶ JSON and CSV for programs (`machine`)
//! streams ─▶ `events`: every event, one line each
//! rows ─▶ paths ─▶ `explain`: why a thread was slow
//! ```
//! Only `text` knows that there is a terminal.

mod build;
pub mod events;
pub mod explain;
mod facts;
mod lines;
mod machine;
pub mod records;
#[cfg(any(test, feature = "sample"))]
pub mod sample;
mod stats;
mod summary;
#[cfg(test)]
mod tests;
pub(crate) mod text;
mod view;
mod zone;

pub use build::{Gather, Report};
pub use machine::{write_csv_report as write_csv, write_json_report as write_json};
pub use text::{Style, write as write_text};
pub use view::View;
pub use zone::{Digits, Zone, rfc3339, utc_text};

use transect_recording::TimeUnit;

/// A moment of trace time as the command line reads it: `12.5s`, or ticks.
pub fn trace_text(ts: i64, unit: TimeUnit) -> String {
    if unit == TimeUnit::Ticks {
        return ts.to_string();
    }
    let (sign, ns) = (if ts < 0 { "-" } else { "" }, ts.unsigned_abs());
    let (seconds, part) = (ns / 1_000_000_000, format!("{:09}", ns % 1_000_000_000));
    let part = part.trim_end_matches('0');
    let point = if part.is_empty() { "" } else { "." };
    format!("{sign}{seconds}{point}{part}s")
}
