//! Comparisons as a table that is a forest plot, and as bars.

use super::{
    bars, forest,
    node::{Element, el},
    tables::{Head, cell_row, figure, maybe_figure, numbers, table, words},
};
use crate::{
    Comparison, Contrast,
    number::{DASH, change, count, decimals, fixed, per_cent, probability, quantity_or_dash},
    view::View,
};
use transect_bench_core::Better;

const WHAT: [Head; 3] = [
    words(
        "workload",
        "the workload; the state of the page cache; the number of machines that run the workload together",
    ),
    words("platform", "the kind of machine that ran it"),
    words(
        "tracer",
        "the tracer that recorded during the run; lossy: it lost events, which makes it another arm than a lossless one",
    ),
];

/// Behind the plots.
const JUDGED: [Head; 7] = [
    numbers(
        "change",
        "Hodges–Lehmann estimate of value over reference in the paired blocks; shown as a factor from tenfold on",
    ),
    words("interval", "signed-rank confidence interval of the change, in the same unit"),
    words(
        "verdict",
        "worse or better: beyond the noise; not resolved: the interval contains 1, or the effect is within the noise; too few: fewer than 6 blocks, or fewer than this number of comparisons requires",
    ),
    words("limiter", "the suspected limiter; evidence below"),
    numbers("floor", "relative effects below this are within the noise of this run (A/A)"),
    numbers(
        "p",
        "probability of ratios at least this extreme if there is no effect, corrected for the number of comparisons (Holm)",
    ),
    numbers("n", "blocks in which both runs are counted"),
];

/// How papers put it: of times, and of rates.
const PUT: [[Head; 2]; 2] = [
    [
        numbers(
            "100· (2−v/base)",
            "the percentage that the LTTng-Xen papers print for times; 100 % is the reference",
        ),
        numbers("base/ value", "speed relative to the reference"),
    ],
    [
        numbers("100· v/base", "percentage of the reference's rate"),
        numbers("value/ base", "speed relative to the reference"),
    ],
];

/// What is asked in a contrast.
const fn question(contrast: Contrast) -> &'static str {
    match contrast {
        Contrast::Tracer => "Cost of tracing",
        Contrast::Platform => "Cost of the platform",
        Contrast::Guests => "Several machines against one",
        Contrast::Noise => "The reference against itself",
    }
}

/// Everything that is compared in a family.
pub(super) fn section(view: &View<'_>, family: &str) -> Vec<Element> {
    let mut out = Vec::new();
    for contrast in [Contrast::Tracer, Contrast::Platform, Contrast::Guests] {
        for better in [Better::Less, Better::More] {
            let comparisons = view.compared(family, contrast, better);
            if comparisons.is_empty() {
                continue;
            }
            out.push(el("h3").text(title(contrast, better)));
            out.push(forest_table(view, &comparisons, better));
            if contrast != Contrast::Guests {
                out.extend(bar_figure(view, &comparisons));
            }
        }
    }
    out
}

fn title(contrast: Contrast, better: Better) -> String {
    let kind = match better {
        Better::Less => "times and costs: less is better",
        Better::More => "rates: more is better",
    };
    format!("{} ({kind})", question(contrast))
}

fn bar_figure(view: &View<'_>, comparisons: &[&Comparison]) -> Option<Element> {
    let panels = bars::figure(view, comparisons)?;
    let about = "Relative performance: the reference is 1, a longer bar is better (base/value for times, value/base for rates). Whiskers: confidence interval.";
    Some(el("div").child(el("p").class("note").text(about)).child(panels))
}

/// The table with its plots.
pub(super) fn forest_table(
    view: &View<'_>,
    comparisons: &[&Comparison],
    better: Better,
) -> Element {
    let plots = forest::plots(comparisons);
    let mut heads: Vec<Element> = WHAT.iter().map(|head| head.element()).collect();
    heads.push(numbers("median", "median of the counted runs").element());
    heads.push(
        numbers("reference", "median of the reference's runs, and its platform or tracer")
            .element(),
    );
    heads.extend(plots.iter().map(|plot| el("th").class("plot").child(plot.head(better))));
    let put = &PUT[usize::from(better == Better::More)];
    heads.extend(JUDGED.iter().chain(put).map(|head| head.element()));
    let mut above = None;
    let mut rows = Vec::new();
    for comparison in comparisons {
        rows.push(row(view, comparison, above, &plots));
        above = Some(&comparison.cell);
    }
    table("forest sortable", heads, rows)
}

fn row(
    view: &View<'_>,
    comparison: &Comparison,
    above: Option<&transect_bench_run::plan::Cell>,
    plots: &[forest::Plot],
) -> Element {
    let cell = view.cell(&comparison.cell);
    let reference = view.cell(&comparison.reference);
    let arm = view.arm(&comparison.cell);
    let median = |cell: Option<&crate::ReportedCell>| {
        let text =
            cell.map_or_else(|| DASH.to_owned(), |cell| quantity_or_dash(cell.median, cell.unit));
        figure(&text, cell.and_then(|cell| cell.median))
    };
    let mut row = cell_row(&comparison.cell, above, &arm).child(median(cell)).child(
        median(reference)
            .class("faint")
            .child(el("small").text(format!(" {}", comparison.against()))),
    );
    for plot in plots {
        row = row.child(el("td").class("plot").child(plot.row(comparison)));
    }
    let limiter = super::limits::field(cell.and_then(|cell| cell.limiter.as_ref()));
    row.children(judged(comparison)).child(limiter).children(checked(comparison))
}

/// What came of it.
fn judged(comparison: &Comparison) -> [Element; 3] {
    let estimate = comparison.estimate.as_ref();
    let (middle, interval) = estimate.map_or_else(|| (DASH.to_owned(), String::new()), change);
    let class = forest::verdict_class(comparison.verdict);
    let verdict = el("span").class(&format!("verdict {class}")).text(comparison.verdict.word());
    [
        figure(&middle, estimate.map(|estimate| estimate.ratio)).class("strong"),
        el("td").class("interval").text(super::tables::minus(&interval)),
        el("td").child(verdict),
    ]
}

/// What it rests on, and how papers put it.
fn checked(comparison: &Comparison) -> [Element; 5] {
    let after = comparison.estimate.as_ref().map_or(1, decimals);
    let blocks = comparison.ratios.len();
    let percent = |value: f64| format!("{} %", fixed(value, after));
    [
        maybe_figure(comparison.floor, per_cent),
        maybe_figure(comparison.p_corrected, probability),
        figure(&count(blocks as u64), Some(blocks as f64)),
        maybe_figure(comparison.percent_of_reference(), percent),
        maybe_figure(comparison.speed(), |value| speed_text(value, after)),
    ]
}

/// As many decimals as the change has, and enough for what is very slow.
fn speed_text(speed: f64, after: usize) -> String {
    if (0.1..10.0).contains(&speed.abs()) {
        fixed(speed, after + 2)
    } else {
        crate::number::significant(speed, 3)
    }
}
