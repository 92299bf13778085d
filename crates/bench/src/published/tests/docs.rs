//! `docs/reference/bench-published.md` is made here.

use super::super::{Agreement, FACTOR, Row, compare, papers, summary};
use super::golden;
use crate::report::Report;
use std::fmt::Write;

#[test]
fn the_page_about_the_papers_is_up_to_date() {
    golden("../../docs/reference/bench-published.md", &page());
}

fn page() -> String {
    let rows = compare(&Report::default()).unwrap();
    let mut page = format!(
        "<!-- Made by `UPDATE_GOLDEN=1 cargo test -p transect-bench published`. The numbers, maps and sources of each paper are in \
         crates/bench/src/published/papers. -->\n\
         # The published numbers, and what here speaks to them\n\n\
         `transect bench publish` puts results beside the numbers of the papers that the project continues. This page has every \
         row of numbers they print, and for each the cells that speak to it, or why none can.\n\n\
         Ratios are *cost*: value over base of times, base over value of rates, more than 1 is slower. `A / B` is cell A compared with \
         cell B; of several pairs the first that was measured \
         speaks, in the order of the paper's map. A row **holds** if the whole interval of ours lies within a band around \
         theirs: same direction, and between a third and {FACTOR} times the size of their effect, their error included; or no effect \
         beyond their error (1 % at least) where they have none. It **does not hold** if no part of the interval does, and is \
         *unresolved* if it straddles, or if there are fewer than 6 blocks or no noise floor. The rule in full is in \
         [the module's documentation](../crates/bench/src/published/mod.rs).\n\n\
         | paper | rows | cells here speak to | nothing here can speak to | left out: contradicted by their source |\n\
         |---|--:|--:|--:|--:|\n"
    );
    for counts in summary(&rows) {
        let _ = writeln!(
            page,
            "| [{0}](#{0}) | {1} | {2} | {3} | {4} |",
            counts.paper, counts.rows, counts.not_measured, counts.cannot_speak, counts.left_out
        );
    }
    for paper in papers::all().unwrap() {
        let _ = write!(
            page,
            "\n## {0}\n\n{1} ([source, machine, what is left out](../crates/bench/src/published/papers/{0}/README.md)).\n",
            paper.name, paper.map.citation
        );
        let own: Vec<&Row> = rows.iter().filter(|row| row.paper == paper.name).collect();
        section(&mut page, &own);
    }
    page
}

fn section(page: &mut String, rows: &[&Row]) {
    let mut part = |title: &str, head: &str, lines: Vec<String>| {
        if !lines.is_empty() {
            let _ = write!(page, "\n### {title}\n\n{head}\n{}\n", lines.join("\n"));
        }
    };
    let speaks = |row: &&Row| match &row.agrees {
        Agreement::NotMeasured { cells } => {
            Some(format!("| {} | {} | {} |", place(row), said(row), shortened(cells)))
        }
        _ => None,
    };
    part(
        "What cells here speak to",
        "| row | theirs | cells |\n|---|---|---|",
        rows.iter().filter_map(speaks).collect(),
    );
    let head = "| why | rows |\n|---|---|";
    part("What nothing here can speak to", head, by_reason(rows, silent));
    part("What is left out", head, by_reason(rows, out));
}

/// The first pair, and how many others would do.
fn shortened(cells: &[String]) -> String {
    match cells {
        [] => String::new(),
        [only] => only.clone(),
        [first, _] => format!("{first} (or 1 other pair)"),
        [first, others @ ..] => format!("{first} (or {} other pairs)", others.len()),
    }
}

fn silent(agrees: &Agreement) -> Option<&String> {
    match agrees {
        Agreement::CannotSpeak { why } => Some(why),
        _ => None,
    }
}

fn out(agrees: &Agreement) -> Option<&String> {
    match agrees {
        Agreement::LeftOut { why } => Some(why),
        _ => None,
    }
}

/// Rows under the reason that they share, in order of their first.
fn by_reason(rows: &[&Row], reason: fn(&Agreement) -> Option<&String>) -> Vec<String> {
    let mut reasons: Vec<(String, Vec<String>)> = Vec::new();
    for row in rows {
        let Some(why) = reason(&row.agrees) else { continue };
        let line = format!("{} {}", place(row), said(row));
        match reasons.iter_mut().find(|(known, _)| known == why) {
            Some((_, lines)) => lines.push(line),
            None => reasons.push((why.clone(), vec![line])),
        }
    }
    let told = |(why, lines): &(String, Vec<String>)| format!("| {why} | {} |", lines.join("<br>"));
    reasons.iter().map(told).collect()
}

fn place(row: &Row) -> String {
    format!("{} · {}", row.table, row.label).replace('|', "\\|")
}

fn said(row: &Row) -> String {
    let value =
        row.theirs.value.map_or_else(String::new, |value| format!("{value} {}", row.theirs.unit));
    match row.theirs.claim.as_str() {
        "" => value,
        claim => format!("{value}: {claim}"),
    }
}
