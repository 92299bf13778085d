//! What stands around the results: title, warnings, how to read it, machines, what was not measured, the plan.

use super::{
    compared,
    node::{Element, el},
    tables::{Head, figure, numbers, pairs, table, word, words},
};
use crate::{
    Comparison, Contrast, Report, ReportedPlatform, Verdict,
    number::{count, counted, counted_len, memory, quantity, span, utc},
    view::View,
};
use transect_bench_core::{Better, Fault, Unit};
use transect_bench_run::plan::Cell;

/// Title and what was done.
pub(super) fn header(report: &Report) -> Element {
    let state = match &report.finished {
        Some(why) => format!("Finished: {why}"),
        None => "Not finished: more blocks may follow.".to_owned(),
    };
    let mut facts = vec![
        counted(report.blocks.into(), "block"),
        counted_len(report.cells.len(), "cell"),
        counted_len(report.comparisons.len(), "comparison"),
    ];
    if report.began_unix_ns > 0 {
        let took = span(report.last_unix_ns.saturating_sub(report.began_unix_ns));
        facts.push(format!("{}, took {took}", utc(report.began_unix_ns)));
    }
    if report.resumes > 0 {
        facts.push(format!("resumed {}", counted(report.resumes.into(), "time")));
    }
    let title = if report.name.is_empty() { "Benchmark" } else { &report.name };
    let over = format!("transect bench {}", report.version);
    let header = el("header").child(el("div").class("over").text(over.trim_end()));
    let header = header.child(el("h1").text(title));
    let header = if report.about.is_empty() {
        header
    } else {
        header.child(el("p").class("about").text(&report.about))
    };
    header
        .child(el("p").class("facts").children(facts.into_iter().map(|fact| el("span").text(fact))))
        .child(el("p").class("state").text(state))
}

/// What must be known before a figure is used.
pub(super) fn warnings(report: &Report) -> Option<Element> {
    if report.warnings.is_empty() {
        return None;
    }
    let list = report.warnings.iter().map(|warning| el("li").text(warning));
    let title = el("h2").text("Before you use these figures");
    let section = el("section").class("warnings").attr("id", "warnings").attr("role", "note");
    Some(section.child(title).child(el("ul").children(list)))
}

/// How many comparisons came to which verdict, and how the page is read.
pub(super) fn glance(report: &Report) -> Element {
    let compared: Vec<&Comparison> =
        report.comparisons.iter().filter(|c| c.contrast != Contrast::Noise).collect();
    let tile = |verdict: Verdict, about: &str| {
        let number = compared.iter().filter(|c| c.verdict == verdict).count();
        let class = format!("tile {}", super::forest::verdict_class(verdict));
        el("div")
            .class(&class)
            .child(el("b").text(count(number as u64)))
            .child(el("span").text(verdict.word()))
            .child(el("small").text(about))
    };
    let tiles = el("div").class("tiles").children([
        tile(Verdict::Worse, "beyond the noise"),
        tile(Verdict::Better, "beyond the noise"),
        tile(Verdict::NotResolved, "interval contains 1, or effect within the noise"),
        tile(Verdict::TooFew, "fewer than 6 blocks, or than this number of comparisons requires"),
    ]);
    let section = el("section").attr("id", "glance").child(el("h2").text("At a glance"));
    let section = if compared.is_empty() {
        section.child(el("p").text("No comparisons."))
    } else {
        section.child(tiles)
    };
    section.child(legend())
}

fn legend() -> Element {
    let item = |term: &str, text: &str| [el("dt").text(term), el("dd").text(text)];
    let list = el("dl")
        .children(item("Blocks", "Every block runs each cell once, in random order. Comparisons use ratios within a block, so slow drift cancels."))
        .children(item("Interval", "Hodges–Lehmann estimate of the paired ratios with the exact signed-rank interval. With fewer than 6 blocks the page shows points and no interval."))
        .children(item("Noise floor", "The reference is measured twice in every block (A/A). The noise floor is the largest difference that the interval of this comparison contains. Effects up to it are not resolved. The plots show it as a shaded band."))
        .children(item("Marks", "Filled square: worse. Filled circle: better. Hollow circle: not resolved. Small strokes below: single blocks. Arrow: the interval continues beyond the axis."))
        .children(item("p", "Corrected for the number of comparisons in the family (Holm)."))
        .children(item("Two percentages", "100·(2 − v/base) is the figure that the LTTng-Xen papers print for times; base/value is the speed relative to the reference. They agree only near 100 %, so the page shows both."))
        .children(item("Left out", "Runs are excluded for recorded causes, never for their value. The page still shows them."));
    let summary = el("summary").text("How to read this page");
    el("details").class("legend").child(summary).child(list)
}

/// The reference against itself.
pub(super) fn noise(view: &View<'_>) -> Option<Element> {
    let of = |better: Better| {
        let mut found: Vec<&Comparison> = view.report.comparisons.iter().collect();
        found.retain(|c| c.contrast == Contrast::Noise && c.better == better);
        found.sort_by_key(|comparison| view.order(&comparison.cell));
        found
    };
    let section = el("section").attr("id", "noise").child(el("h2").text("Noise (A/A)"));
    let about = "Every block measures the reference twice, and this table compares the two: any difference is noise. If an interval here does not contain 1, doubt the other results too.";
    let section = section.child(el("p").class("note").text(about));
    let mut tables = Vec::new();
    for better in [Better::Less, Better::More] {
        let comparisons = of(better);
        if !comparisons.is_empty() {
            tables.push(compared::forest_table(view, &comparisons, better));
        }
    }
    (!tables.is_empty()).then(|| section.children(tables))
}

/// The machines, and what of them is emulated.
pub(super) fn platforms(report: &Report) -> Option<Element> {
    const HEADS: [Head; 9] = [
        words("name", ""),
        words("accelerator", "the accelerator in use, as detected in the running machine"),
        words(
            "emulated",
            "emulated parts: figures that depend on them do not transfer to other machines",
        ),
        numbers("CPUs", ""),
        numbers("memory", ""),
        numbers("opened", "machines opened"),
        numbers("opening", "median time to open one"),
        words("kernel", ""),
        words("notes", ""),
    ];
    if report.platforms.is_empty() {
        return None;
    }
    let heads = HEADS.iter().map(|head| head.element()).collect();
    let rows = report.platforms.iter().map(platform).collect();
    let section = el("section").attr("id", "platforms").child(el("h2").text("Platforms"));
    Some(section.child(table("sortable tall", heads, rows)))
}

fn platform(platform: &ReportedPlatform) -> Element {
    let emulated = match platform.emulated.as_slice() {
        [] => el("td").class("faint").text("nothing"),
        some => {
            let list = some.iter().map(|what| el("li").text(what));
            el("td").class("prose emulated").child(el("ul").children(list))
        }
    };
    let notes: Vec<String> =
        platform.notes.iter().map(|(name, value)| format!("{name}: {value}")).collect();
    el("tr")
        .attr("data-k", platform.name.to_lowercase())
        .child(word(&platform.name).class("strong"))
        .child(word(&platform.accelerator))
        .child(emulated)
        .child(figure(&platform.cpus.to_string(), Some(f64::from(platform.cpus))))
        .child(figure(&memory(platform.memory_bytes), Some(platform.memory_bytes as f64)))
        .child(figure(&count(platform.opened.into()), Some(f64::from(platform.opened))))
        .child(figure(&quantity(platform.opening_s, Unit::Seconds), Some(platform.opening_s)))
        .child(el("td").class("prose").text(&platform.kernel))
        .child(el("td").class("prose").text(notes.join("; ")))
}

/// What was not measured, and why.
pub(super) fn missing(report: &Report) -> Vec<Element> {
    let mut out = Vec::new();
    if !report.refused.is_empty() {
        let rows = report.refused.iter().map(|refused| {
            let mend = refused.refusal.mend.as_deref().unwrap_or_default();
            not_measured(&refused.cell)
                .child(
                    el("td")
                        .class("prose")
                        .text(format!("{}: {}", refused.refusal.what, refused.refusal.why)),
                )
                .child(el("td").class("prose").text(mend))
        });
        let heads = [
            words("workload", ""),
            words("platform", ""),
            words("tracer", ""),
            words("why", ""),
            words("remedy", ""),
        ];
        out.push(missing_section(
            "refused",
            "Refused",
            "These cells were not measured.",
            &heads,
            rows.collect(),
        ));
    }
    if !report.failed.is_empty() {
        let rows = report.failed.iter().map(|(cell, times, fault)| {
            let why = match fault {
                Fault::Refused(refusal) => refusal.to_string(),
                Fault::Failed(why) => why.clone(),
            };
            not_measured(cell)
                .child(figure(&count((*times).into()), Some(f64::from(*times))))
                .child(el("td").class("prose").text(why))
        });
        let heads = [
            words("workload", ""),
            words("platform", ""),
            words("tracer", ""),
            numbers("runs", "runs that failed"),
            words("last cause", ""),
        ];
        out.push(missing_section(
            "failed",
            "Failed",
            "Runs of these cells have no result.",
            &heads,
            rows.collect(),
        ));
    }
    out
}

fn not_measured(cell: &Cell) -> Element {
    super::tables::cell_row(cell, None, &cell.tracer)
}

fn missing_section(
    id: &str,
    title: &str,
    about: &str,
    heads: &[Head],
    rows: Vec<Element>,
) -> Element {
    let heads = heads.iter().map(|head| head.element()).collect();
    let section = el("section").attr("id", id).child(el("h2").text(title));
    section.child(el("p").class("note").text(about)).child(table("sortable tall", heads, rows))
}

/// The environment.
pub(super) fn environment(report: &Report) -> Option<Element> {
    if report.environment.is_empty() {
        return None;
    }
    let section = el("section").attr("id", "environment").child(el("h2").text("Environment"));
    Some(section.child(pairs(&report.environment)))
}

/// The plan as it is written.
pub(super) fn plan(report: &Report) -> Option<Element> {
    if report.plan.is_empty() {
        return None;
    }
    let section = el("section").attr("id", "plan").child(el("h2").text("Plan"));
    Some(section.child(el("pre").attr("tabindex", 0).child(el("code").text(&report.plan))))
}
