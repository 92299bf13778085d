//! Every kind of machine.

use super::{
    columns::{PLATFORM, counts, number, text},
    table::{Column, Rows, Value},
};
use crate::{Report, ReportedPlatform};

const COLUMNS: &[Column] = &[
    PLATFORM,
    text("accelerator", "the accelerator in use, as detected in the running machine"),
    text(
        "emulated",
        "emulated parts: figures that depend on them do not transfer to other machines; joined by semicolons",
    ),
    text("kernel", "uname -srvm"),
    counts("cpus", "CPUs"),
    counts("memory_bytes", "memory"),
    counts("opened", "machines opened"),
    number("opening_s", "median time to open one, seconds"),
    text("notes", "other facts, name=value, joined by semicolons"),
];

/// Every kind of machine that was opened.
#[must_use]
pub fn machines(report: &Report) -> Rows {
    Rows { name: "machines", columns: COLUMNS, rows: report.platforms.iter().map(row).collect() }
}

fn row(platform: &ReportedPlatform) -> Vec<Value> {
    let notes: Vec<String> =
        platform.notes.iter().map(|(name, value)| format!("{name}={value}")).collect();
    vec![
        Value::text(&platform.name),
        Value::text(&platform.accelerator),
        Value::Text(platform.emulated.join("; ")),
        Value::text(&platform.kernel),
        Value::Count(platform.cpus.into()),
        Value::Count(platform.memory_bytes),
        Value::Count(platform.opened.into()),
        Value::Number(platform.opening_s),
        Value::Text(notes.join("; ")),
    ]
}
