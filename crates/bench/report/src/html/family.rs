//! One family: comparisons first, then what they were made of.

use super::{
    compared, curves, limits,
    node::{Element, el},
    strips,
    tables::{Head, cell_row, figure, maybe_figure, numbers, table, words},
};
use crate::{
    ReportedCell,
    number::{DASH, count, per_cent, quantity, quantity_or_dash},
    view::{Family, View},
};
use std::collections::BTreeSet;

/// Above this many cells raw points are folded up: a page is to open at once.
const FOLD_FROM: usize = 60;

/// The section of a family.
pub(super) fn section(view: &View<'_>, nth: usize) -> Element {
    let family = &view.families[nth];
    let section = el("section").class("family").attr("id", format!("family-{nth}"));
    let section = section.child(el("h2").text(family.name));
    let section = section.children(compared::section(view, family.name));
    section
        .children(headed("Scaling", curves::scaling(view, family)))
        .children(headed("Distributions of single operations", curves::distributions(view, family)))
        .children(measured(family))
        .children(others(family))
        .children(raw(view, family))
}

fn headed(title: &str, figures: Vec<Element>) -> Vec<Element> {
    if figures.is_empty() {
        return figures;
    }
    vec![el("h3").text(title), el("div").class("panels").children(figures)]
}

/// What was measured, in its own unit.
fn measured(family: &Family<'_>) -> Vec<Element> {
    const HEADS: [Head; 10] = [
        words("workload", ""),
        words("platform", ""),
        words("tracer", ""),
        words("metric", "the primary metric, which the comparisons use"),
        numbers("median", "median of the counted runs"),
        words("half within", "the quartiles of the counted runs"),
        numbers("spread", "distance between the quartiles, relative to the median"),
        numbers("n", "counted runs"),
        numbers("left out", "runs excluded for recorded causes, never for their value"),
        words("limiter", "the suspected limiter"),
    ];
    let mut above = None;
    let mut rows = Vec::new();
    for cell in family.groups.iter().flat_map(|work| &work.cells) {
        rows.push(cell_row(&cell.cell, above, &cell.arm()).children(fields(cell)));
        above = Some(&cell.cell);
    }
    if rows.is_empty() {
        return rows;
    }
    let heads = HEADS.iter().map(|head| head.element()).collect();
    vec![el("h3").text("Measured values"), table("sortable", heads, rows)]
}

fn fields(cell: &ReportedCell) -> Vec<Element> {
    let half = cell.quartiles.map_or_else(String::new, |[low, high]| {
        format!("{} … {}", quantity(low, cell.unit), quantity(high, cell.unit))
    });
    let left_out = cell.points.len() - cell.counted();
    let left_out_text = if left_out == 0 { String::new() } else { count(left_out as u64) };
    vec![
        el("td").text(&cell.metric),
        figure(&quantity_or_dash(cell.median, cell.unit), cell.median).class("strong"),
        el("td").class("interval").text(super::tables::minus(&half)),
        maybe_figure(strips::spread(cell), per_cent),
        figure(&count(cell.counted() as u64), Some(cell.counted() as f64)),
        figure(&left_out_text, Some(left_out as f64)),
        limits::field(cell.limiter.as_ref()),
    ]
}

/// The other metrics, a column each.
fn others(family: &Family<'_>) -> Vec<Element> {
    let cells = || family.groups.iter().flat_map(|work| &work.cells);
    let names: BTreeSet<&String> = cells().flat_map(|cell| cell.others.keys()).collect();
    if names.is_empty() {
        return Vec::new();
    }
    let what = [words("workload", ""), words("platform", ""), words("tracer", "")];
    let mut heads: Vec<Element> = what.iter().map(|head| head.element()).collect();
    heads.extend(names.iter().map(|name| el("th").class("num").attr("scope", "col").text(name)));
    let mut above = None;
    let mut rows = Vec::new();
    for cell in cells().filter(|cell| !cell.others.is_empty()) {
        let field = |name: &&String| match cell.others.get(*name) {
            Some((value, unit, _)) => figure(&quantity(*value, *unit), Some(*value)),
            None => figure(DASH, None),
        };
        rows.push(cell_row(&cell.cell, above, &cell.arm()).children(names.iter().map(field)));
        above = Some(&cell.cell);
    }
    let summary = el("summary").text("Other metrics (medians)");
    vec![el("details").child(summary).child(table("sortable", heads, rows))]
}

/// Every raw point.
fn raw(view: &View<'_>, family: &Family<'_>) -> Option<Element> {
    if family.groups.is_empty() {
        return None;
    }
    let details = el("details").class("raw");
    let details =
        if view.report.cells.len() < FOLD_FROM { details.attr("open", "open") } else { details };
    let note = el("p").class("note").text(
        "Filled: counted. Diamond: the reference's second measurement (A/A). Hollow: excluded for a recorded cause. Line: median; band: half of the runs. Each panel has its own scale, which does not start at 0: use these panels to see drift, and the plots above to compare.",
    );
    let mut details =
        details.child(el("summary").text("Every run, in the order of blocks")).child(note);
    for work in &family.groups {
        let title = match work.cells.first() {
            Some(cell) => format!("{}, {}", work.group, cell.metric),
            None => work.group.to_string(),
        };
        details = details.child(el("h4").text(title)).child(strips::panels(work));
    }
    Some(details)
}
