//! Text for terminals, and CSV.

use super::{
    super::{
        csv,
        model::{Agreement, Counts, Row},
    },
    found, is_measured, of_what, percents, said,
};
use std::fmt::Write;

/// How the rows of each paper came out, in order of the papers.
#[must_use]
pub fn summary(rows: &[Row]) -> Vec<Counts> {
    let mut all: Vec<Counts> = Vec::new();
    for row in rows {
        if all.last().is_none_or(|last| last.paper != row.paper) {
            all.push(Counts { paper: row.paper.clone(), ..Counts::default() });
        }
        if let Some(last) = all.last_mut() {
            count(last, row);
        }
    }
    all
}

fn count(counts: &mut Counts, row: &Row) {
    counts.rows += 1;
    *match row.agrees {
        Agreement::Holds => &mut counts.holds,
        Agreement::DoesNotHold => &mut counts.does_not_hold,
        Agreement::Unresolved { .. } => &mut counts.unresolved,
        Agreement::NotMeasured { .. } => &mut counts.not_measured,
        Agreement::CannotSpeak { .. } => &mut counts.cannot_speak,
        Agreement::LeftOut { .. } => &mut counts.left_out,
    } += 1;
}

/// What was measured, row by row, and how many rows of each paper came out how.
#[must_use]
pub fn text_table(rows: &[Row]) -> String {
    let mut text = String::new();
    for row in rows.iter().filter(|row| is_measured(row)) {
        line_of(&mut text, row);
    }
    if text.is_empty() {
        text.push_str("these results are comparable with no published row\n");
    }
    text.push('\n');
    let head = [
        "paper",
        "rows",
        "hold",
        "do not hold",
        "unresolved",
        "not measured",
        "not comparable",
        "left out",
    ];
    let mut lines = vec![head.map(str::to_owned)];
    lines.extend(summary(rows).iter().map(counted));
    text + &aligned(&lines)
}

fn line_of(text: &mut String, row: &Row) {
    let verdict = row.agrees.word();
    // Writing into a string does not fail.
    let _ = writeln!(text, "{verdict:<14} {} {} · {}", row.paper, row.table, row.label);
    let theirs = percents(row.theirs.percent, row.theirs.speed);
    let _ = writeln!(text, "{:<14} theirs  {} {theirs}", "", said(&row.theirs));
    let ours = row.ours.as_ref();
    let percent = percents(ours.and_then(|ours| ours.percent), ours.and_then(|ours| ours.speed));
    let _ = writeln!(text, "{:<14} ours    {} {percent}  [{}]", "", found(row), of_what(row));
    let why = row.agrees.why();
    for told in [why.as_str(), row.note.as_str()].iter().filter(|told| !told.is_empty()) {
        let _ = writeln!(text, "{:<14} {told}", "");
    }
}

fn counted(counts: &Counts) -> [String; 8] {
    [
        counts.paper.clone(),
        counts.rows.to_string(),
        counts.holds.to_string(),
        counts.does_not_hold.to_string(),
        counts.unresolved.to_string(),
        counts.not_measured.to_string(),
        counts.cannot_speak.to_string(),
        counts.left_out.to_string(),
    ]
}

/// The first column to the left, the others to the right.
fn aligned(lines: &[[String; 8]]) -> String {
    let width = |at: usize| lines.iter().map(|line| line[at].chars().count()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..8).map(width).collect();
    let mut text = String::new();
    for line in lines {
        let _ = write!(text, "{:<width$}", line[0], width = widths[0]);
        for (field, width) in line.iter().zip(&widths).skip(1) {
            let _ = write!(text, "  {field:>width$}");
        }
        text.push('\n');
    }
    text
}

/// The columns of [`csv_table`].
const COLUMNS: [&str; 22] = [
    "paper",
    "table",
    "row",
    "their_value",
    "their_unit",
    "their_claim",
    "their_cost",
    "their_cost_low",
    "their_cost_high",
    "their_percent",
    "their_speed_percent",
    "our_cell",
    "our_reference",
    "our_what",
    "our_value",
    "our_low",
    "our_high",
    "our_percent",
    "our_speed_percent",
    "agrees",
    "why",
    "note",
];

/// Every row with everything about it: the head line names the columns, a missing number is empty.
#[must_use]
pub fn csv_table(rows: &[Row]) -> String {
    rows.iter().fold(csv::line(COLUMNS), |text, row| text + &csv_row(row))
}

fn csv_row(row: &Row) -> String {
    let number = |value: Option<f64>| value.map_or_else(String::new, |value| value.to_string());
    let cost = |at: usize| number(row.theirs.cost.map(|cost| cost[at]));
    let ours = row.ours.as_ref();
    let figure = ours.and_then(|ours| ours.figure);
    let fields: [String; 22] = [
        row.paper.clone(),
        row.table.clone(),
        row.label.clone(),
        number(row.theirs.value),
        row.theirs.unit.clone(),
        row.theirs.claim.clone(),
        cost(0),
        cost(1),
        cost(2),
        number(row.theirs.percent),
        number(row.theirs.speed),
        ours.map_or_else(String::new, |ours| ours.cell.to_string()),
        ours.and_then(|ours| ours.reference.as_ref()).map_or_else(String::new, ToString::to_string),
        ours.map_or_else(String::new, |ours| ours.what.to_owned()),
        number(figure.map(|figure| figure.value)),
        number(figure.map(|figure| figure.low)),
        number(figure.map(|figure| figure.high)),
        number(ours.and_then(|ours| ours.percent)),
        number(ours.and_then(|ours| ours.speed)),
        row.agrees.word().to_owned(),
        row.agrees.why(),
        row.note.clone(),
    ];
    csv::line(fields.iter().map(String::as_str))
}
