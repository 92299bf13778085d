//! Bars of relative performance with their intervals, as in the figures of "Xen and the Art of Repeated Research": the
//! reference is 1, longer is better, for times and rates alike.

use super::{
    forest::verdict_class,
    node::{Element, el},
    scale::{Axis, c, extent, short},
};
use crate::{Comparison, Contrast, number::significant, view::View};
use transect_bench_core::Better;

const LABEL: f64 = 166.0;
const BARS: f64 = 176.0;
const VALUE: f64 = 56.0;
const ROW: f64 = 20.0;
/// Bars beyond this many times the reference are cut, or the others would be lines.
const MOST: f64 = 4.0;

/// One panel for each thing that bars are relative to; nothing, where there is nothing.
pub(super) fn figure(view: &View<'_>, comparisons: &[&Comparison]) -> Option<Element> {
    let shown: Vec<&Comparison> =
        comparisons.iter().copied().filter(|c| relative(c).is_some()).collect();
    let ends = shown.iter().filter_map(|comparison| relative(comparison));
    let (_, highest) = extent(ends.flat_map(|[_, middle, high]| [middle, high]))?;
    let axis = Axis::linear(0.0, highest.clamp(1.05, MOST), LABEL, LABEL + BARS);
    let mut panels = el("div").class("panels");
    let is_together = |a: &&Comparison, b: &&Comparison| a.reference == b.reference;
    for group in shown.chunk_by(is_together) {
        panels = panels.child(panel(view, group, axis));
    }
    Some(panels)
}

/// Lower end, middle and upper end of the relative performance.
fn relative(comparison: &Comparison) -> Option<[f64; 3]> {
    let estimate = comparison.estimate?;
    let all = match comparison.better {
        Better::More => [estimate.low, estimate.ratio, estimate.high],
        Better::Less => [1.0 / estimate.high, 1.0 / estimate.ratio, 1.0 / estimate.low],
    };
    all.iter().all(|value| value.is_finite()).then_some(all)
}

fn panel(view: &View<'_>, group: &[&Comparison], axis: Axis) -> Element {
    let reference = &group[0].reference;
    let (what, name) = match group[0].contrast {
        Contrast::Platform => (reference_title(group[0], &reference.tracer), &reference.platform),
        _ => (reference_title(group[0], &reference.platform), &reference.tracer),
    };
    let height = ROW * (group.len() + 1) as f64;
    let width = LABEL + BARS + VALUE;
    let mut canvas = el("svg")
        .class("bars")
        .attr("viewBox", format!("0 0 {width} {}", height + 16.0))
        .attr("width", width)
        .attr("height", height + 16.0);
    canvas = canvas.children(axis.ticks(4).into_iter().flat_map(|tick| {
        let x = c(axis.at(tick));
        let line = el("path").class("grid").attr("d", format!("M{x} 0V{}", c(height)));
        let text = el("text").class("tick").attr("x", &x).attr("y", c(height + 12.0));
        [line, text.attr("text-anchor", "middle").text(short(tick))]
    }));
    canvas = canvas.children(bar(0.0, name, axis.at(1.0), "base", "1"));
    for (nth, comparison) in group.iter().enumerate() {
        canvas = canvas.children(measured(view, ROW * (nth + 1) as f64, comparison, axis));
    }
    let line = format!("M{} 0V{}", c(axis.at(1.0)), c(height));
    canvas = canvas.child(el("path").class("ref").attr("d", line));
    let keys: Vec<String> = group.iter().map(|c| c.cell.to_string()).collect();
    el("figure")
        .attr("data-k", keys.join(" ").to_lowercase())
        .child(el("figcaption").text(what))
        .child(canvas)
}

fn reference_title(comparison: &Comparison, where_or_who: &str) -> String {
    match comparison.contrast {
        Contrast::Platform if where_or_who == "none" => comparison.reference.group.to_string(),
        Contrast::Platform => format!("{} under {where_or_who}", comparison.reference.group),
        _ => format!("{} on {where_or_who}", comparison.reference.group),
    }
}

fn bar(y: f64, name: &str, to: f64, class: &str, value: &str) -> [Element; 3] {
    let label = el("text").attr("x", LABEL - 8.0).attr("y", c(y + 14.0)).attr("text-anchor", "end");
    let shape = el("rect").class(&format!("bar {class}")).attr("x", LABEL).attr("y", c(y + 4.0));
    let shape = shape.attr("width", c((to - LABEL).max(0.5))).attr("height", ROW - 8.0);
    let number = el("text").class("value").attr("x", LABEL + BARS + VALUE).attr("y", c(y + 14.0));
    [
        label.child(el("title").text(name)).text(clipped(name, 24)),
        shape,
        number.attr("text-anchor", "end").text(value),
    ]
}

fn measured(view: &View<'_>, y: f64, comparison: &Comparison, axis: Axis) -> Vec<Element> {
    let [low, middle, high] = relative(comparison).unwrap_or([1.0; 3]);
    let arm = view.arm(&comparison.cell);
    let name = match comparison.contrast {
        Contrast::Platform => &comparison.cell.platform,
        _ => &arm,
    };
    let class = verdict_class(comparison.verdict);
    let mut out = Vec::from(bar(y, name, axis.at(middle), class, &significant(middle, 3)));
    let (left, right) = (c(axis.at(low)), c(axis.at(high)));
    let (top, bottom) = (c(y + 6.0), c(y + ROW - 6.0));
    let half = c(y + ROW / 2.0);
    let whisker = format!("M{left} {top}V{bottom}M{left} {half}H{right}M{right} {top}V{bottom}");
    out.push(el("path").class("whisker").attr("d", whisker));
    if middle > axis.span().1 {
        // Cut: it is longer than there is room.
        let x = axis.at(middle);
        let cut = format!("M{} {}l6 -12m3 0l-6 12", c(x - 16.0), c(y + ROW - 4.0));
        out.push(el("path").class("cut").attr("d", cut));
    }
    out
}

/// A name that fits; SVG does not cut it by itself.
pub(super) fn clipped(name: &str, most: usize) -> String {
    if name.chars().count() <= most {
        return name.to_owned();
    }
    name.chars().take(most.saturating_sub(1)).chain(['…']).collect()
}
