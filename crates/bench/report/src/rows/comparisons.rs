//! Every comparison.

use super::{
    columns::{
        BETTER, CACHE, FAMILY, GUESTS, PLATFORM, TRACER, WORKLOAD, better_name, cell_values,
        counts, number, text,
    },
    table::{Column, Rows, Value},
};
use crate::{Comparison, Contrast, Estimate, Report};

const COLUMNS: &[Column] = &[
    text("contrast", "the dimension compared: tracer, platform, guests, noise (A/A)"),
    WORKLOAD,
    CACHE,
    GUESTS,
    PLATFORM,
    TRACER,
    text("reference_workload", "the reference: the workload's name"),
    text("reference_cache", "the reference: state of the page cache"),
    counts("reference_guests", "the reference: machines that run the workload together"),
    text("reference_platform", "the reference: its platform"),
    text("reference_tracer", "the reference: the tracer arm"),
    FAMILY,
    BETTER,
    counts("paired_blocks", "blocks in which both runs are counted"),
    counts("blocks", "blocks used in the estimate"),
    number("ratio", "value over reference, Hodges-Lehmann estimate"),
    number("ratio_low", "lower end of its interval"),
    number("ratio_high", "upper end of its interval"),
    number("confidence", "least coverage of the interval, 0 to 1"),
    number("percent_of_reference", "times: 100*(2 - value/reference); rates: 100*value/reference"),
    number("relative_speed", "times: reference/value; rates: value/reference"),
    number("floor", "relative effects below this are within the noise"),
    text("verdict", "worse, better, not_resolved, too_few"),
    number(
        "p_corrected",
        "probability of ratios at least this extreme if there is no effect, corrected by Holm within the family",
    ),
];

/// Every comparison.
#[must_use]
pub fn comparisons(report: &Report) -> Rows {
    let rows = report.comparisons.iter().map(row).collect();
    Rows { name: "comparisons", columns: COLUMNS, rows }
}

fn row(comparison: &Comparison) -> Vec<Value> {
    let estimate = comparison.estimate;
    let part = |part: fn(Estimate) -> f64| Value::maybe_number(estimate.map(part));
    let mut row = vec![Value::text(contrast_name(comparison.contrast))];
    row.extend(cell_values(&comparison.cell));
    row.extend(cell_values(&comparison.reference));
    row.extend([
        Value::text(&comparison.family),
        Value::text(better_name(comparison.better)),
        Value::Count(comparison.ratios.len() as u64),
        Value::maybe_count(estimate.map(|estimate| estimate.blocks.into())),
        part(|estimate| estimate.ratio),
        part(|estimate| estimate.low),
        part(|estimate| estimate.high),
        part(|estimate| estimate.confidence),
        Value::maybe_number(comparison.percent_of_reference()),
        Value::maybe_number(comparison.speed()),
        Value::maybe_number(comparison.floor),
        Value::text(comparison.verdict.word().replace(' ', "_")),
        Value::maybe_number(comparison.p_corrected),
    ]);
    row
}

const fn contrast_name(contrast: Contrast) -> &'static str {
    match contrast {
        Contrast::Tracer => "tracer",
        Contrast::Platform => "platform",
        Contrast::Guests => "guests",
        Contrast::Noise => "noise",
    }
}
