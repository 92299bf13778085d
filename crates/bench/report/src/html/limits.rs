//! What held each cell back, as suspected, with the evidence; and what tracers cost beside time.

use super::{
    node::{Element, el},
    tables::{Head, cell_row, figure, maybe_figure, numbers, table, words},
};
use crate::{
    ReportedCell, Suspect,
    number::{DASH, count, fixed, per_cent, quantity},
    view::View,
};
use transect_bench_core::Unit;

/// A suspect in a table, its evidence where one points at it.
pub(super) fn field(suspect: Option<&Suspect>) -> Element {
    let Some(suspect) = suspect else {
        return el("td").class("limiter").text(DASH);
    };
    let field = el("td").class("limiter").attr("title", &suspect.evidence).text(&suspect.name);
    if suspect.runs == suspect.of_runs {
        return field;
    }
    field.child(el("small").text(format!(" {}/{}", suspect.runs, suspect.of_runs)))
}

/// The evidence, in text: it is printed, too.
pub(super) fn section(view: &View<'_>) -> Option<Element> {
    const HEADS: [Head; 7] = [
        words("workload", ""),
        words("platform", ""),
        words("tracer", ""),
        words("suspected limiter", "the resource that probably limited the workload"),
        numbers("runs", "number of runs in which it was suspected"),
        words("evidence", "evidence from the median run"),
        numbers(
            "elasticity",
            "effect of halving the suspect: 1: the result follows in full, 0: no effect",
        ),
    ];
    let rows = rows(view, |cell| {
        let suspect = cell.limiter.as_ref()?;
        let runs = format!("{} of {}", count(suspect.runs.into()), count(suspect.of_runs.into()));
        let elasticity = suspect.elasticity.map(|[middle, low, high]| {
            format!("{} [{} … {}]", fixed(middle, 2), fixed(low, 2), fixed(high, 2))
        });
        Some(vec![
            el("td").class("strong").text(&suspect.name),
            figure(&runs, Some(f64::from(suspect.runs))),
            el("td").class("prose").text(&suspect.evidence),
            figure(elasticity.as_deref().unwrap_or(DASH), suspect.elasticity.map(|all| all[0])),
        ])
    });
    let about = "Derived from samples of the machine, its host and the load generator during the run. Only a suspect with an elasticity was tested: it was halved, and the elasticity states how far the result followed.";
    shown("limiters", "Suspected limiters", about, &HEADS, rows)
}

/// What the tracers recorded, lost and took.
pub(super) fn tracers(view: &View<'_>) -> Option<Element> {
    const HEADS: [Head; 11] = [
        words("workload", ""),
        words("platform", ""),
        words("tracer", ""),
        numbers("events", "recorded in a run, median"),
        numbers("bytes", "written in a run, median"),
        numbers("bytes/event", ""),
        numbers("lost", "events lost in a run, median"),
        numbers("lossy runs", "runs that lost events: these are another arm"),
        numbers("consumer CPU", "CPU time of the tracer's own processes while they traced, median"),
        numbers("closing CPU", "their CPU time after the request to stop, median"),
        words("version", "as the tracer prints it"),
    ];
    let rows = rows(view, |cell| {
        let cost = cell.tracer.as_ref()?;
        let number = |value: Option<u64>| value.map(|value| value as f64);
        let whole = |value: f64| fixed(value, 0);
        let per_event = cost.events.zip(cost.bytes).filter(|(events, _)| *events > 0);
        let per_event = per_event.map(|(events, bytes)| bytes as f64 / events as f64);
        Some(vec![
            maybe_figure(number(cost.events), whole),
            maybe_figure(number(cost.bytes), |bytes| quantity(bytes, Unit::Bytes)),
            maybe_figure(per_event, |bytes| fixed(bytes, 1)),
            lost(cost.events, cost.lost_events),
            lossy(cell),
            maybe_figure(number(cost.consumer_cpu_ns), |ns| quantity(ns, Unit::Nanoseconds)),
            maybe_figure(number(cost.closing_cpu_ns), |ns| quantity(ns, Unit::Nanoseconds)),
            el("td").class("version").attr("title", &cost.version).text(&cost.version),
        ])
    });
    let about = "Medians over the runs. An arm that lost events did less work than intended: it is marked as lossy everywhere and counts as a different arm than a lossless one.";
    shown("tracers", "Tracer output", about, &HEADS, rows)
}

fn lost(events: Option<u64>, lost: Option<u64>) -> Element {
    let Some(lost) = lost else { return figure(DASH, None) };
    let all = events.unwrap_or(0).saturating_add(lost);
    let share = if lost == 0 || all == 0 {
        String::new()
    } else {
        format!(" ({})", per_cent(lost as f64 / all as f64))
    };
    figure(&format!("{}{share}", count(lost)), Some(lost as f64))
}

fn lossy(cell: &ReportedCell) -> Element {
    let text = format!("{} of {}", count(cell.lossy_runs.into()), count(cell.points.len() as u64));
    let field = figure(&text, Some(f64::from(cell.lossy_runs)));
    if cell.lossy_runs == 0 { field } else { field.child(el("span").class("badge").text("lossy")) }
}

/// A row for every cell that has something to say.
fn rows(view: &View<'_>, fields: impl Fn(&ReportedCell) -> Option<Vec<Element>>) -> Vec<Element> {
    let mut above = None;
    let mut out = Vec::new();
    for cell in view.families.iter().flat_map(|f| &f.groups).flat_map(|work| &work.cells) {
        if let Some(fields) = fields(cell) {
            out.push(cell_row(&cell.cell, above, &cell.arm()).children(fields));
            above = Some(&cell.cell);
        }
    }
    out
}

fn shown(
    id: &str,
    title: &str,
    about: &str,
    heads: &[Head],
    rows: Vec<Element>,
) -> Option<Element> {
    if rows.is_empty() {
        return None;
    }
    let heads = heads.iter().map(|head| head.element()).collect();
    let section = el("section").attr("id", id).child(el("h2").text(title));
    Some(section.child(el("p").class("note").text(about)).child(table("sortable", heads, rows)))
}
