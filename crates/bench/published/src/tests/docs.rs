//! `docs/reference/bench-published.md` is made here.

use super::super::{Agreement, FACTOR, Row, compare, papers, summary};
use super::golden;
use std::fmt::Write;
use transect_bench_report::Report;

#[test]
fn the_page_about_the_papers_is_up_to_date() {
    golden("../../../docs/reference/bench-published.md", &page());
}

fn page() -> String {
    let rows = compare(&Report::default()).unwrap();
    let mut page = format!(
        "<!-- Made by `UPDATE_GOLDEN=1 cargo test -p transect-bench-published`. The numbers, maps and sources of each paper are in \
         studies/papers. -->\n\
         # The published numbers and the cells comparable with them\n\n\
         `transect bench publish` compares results with the numbers of the papers that the project continues. This page lists every \
         row of numbers in these papers, with the cells comparable with it or the reason that no cell is.\n\n\
         Ratios are *costs*: value over base for times, base over value for rates; above 1 is slower. `A / B` is cell A compared with \
         cell B. If a row has several pairs, the first measured one in the order of the paper's map decides. A row **holds** if our \
         whole interval is within a band around the published value: the same direction, and between a third and {FACTOR} times the \
         size of the published effect, including its error; or, if the paper shows no effect, no effect beyond its error (at least \
         1 %). It **does not hold** if the whole interval is outside the band. It is *unresolved* if the interval crosses the edge \
         of the band, or with fewer than 6 blocks or without a noise floor. \
         [The module's documentation](../../crates/bench/published/src/lib.rs) has the full rule.\n\n\
         | paper | rows | comparable | not comparable | left out: contradicted by their source |\n\
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
            "\n## {0}\n\n{1} ([source, machine, omissions](../../studies/papers/{0}/README.md)).\n",
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
        "Comparable rows",
        "| row | theirs | cells |\n|---|---|---|",
        rows.iter().filter_map(speaks).collect(),
    );
    let head = "| why | rows |\n|---|---|";
    part("Rows that are not comparable", head, by_reason(rows, silent));
    part("Rows that are left out", head, by_reason(rows, out));
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
