//! The comparison as text, CSV and a fragment of a page.

mod html;
mod table;

pub use html::html_section;
pub use table::{csv_table, summary, text_table};

use super::model::{Agreement, Figure, Row, Theirs};

/// What they say, in a cell of a table.
fn said(theirs: &Theirs) -> String {
    let number = theirs.value.map_or_else(String::new, |value| number(value, &theirs.unit));
    match (number.is_empty(), theirs.claim.is_empty()) {
        (false, false) => format!("{number}: {}", theirs.claim),
        _ => number + &theirs.claim,
    }
}

fn number(value: f64, unit: &str) -> String {
    format!("{value} {unit}")
}

/// Both percentages, as `90.67 % / 91.47 %`.
fn percents(percent: Option<f64>, speed: Option<f64>) -> String {
    match (percent, speed) {
        (Some(percent), Some(speed)) => format!("{percent:.2} % / {speed:.2} %"),
        _ => String::new(),
    }
}

fn interval(figure: &Figure) -> String {
    format!("{:.3} ({:.3}–{:.3})", figure.value, figure.low, figure.high)
}

/// What was measured, in a cell of a table.
fn found(row: &Row) -> String {
    let Some(ours) = &row.ours else { return String::new() };
    let figure = ours.figure.as_ref().map_or_else(|| "no interval".to_owned(), interval);
    format!("{} {figure}", ours.what)
}

/// What was measured of what.
fn of_what(row: &Row) -> String {
    let Some(ours) = &row.ours else { return String::new() };
    match &ours.reference {
        Some(reference) if *reference != ours.cell => format!("{} / {reference}", ours.cell),
        _ => ours.cell.to_string(),
    }
}

/// Was it measured, whatever came of it?
fn is_measured(row: &Row) -> bool {
    matches!(row.agrees, Agreement::Holds | Agreement::DoesNotHold | Agreement::Unresolved { .. })
}
