//! Every raw point of every cell, in the order of blocks, so that drift shows.

use super::{
    bars::clipped,
    node::{Element, el},
    scale::{Axis, c, extent},
};
use crate::{
    Point, ReportedCell,
    number::{DASH, Scale, count, per_cent, quantity, quantity_or_dash},
    view::Work,
};
use transect_bench_run::plan::Label;

const WIDTH: f64 = 320.0;
const HEIGHT: f64 = 128.0;
const LEFT: f64 = 52.0;
const RIGHT: f64 = WIDTH - 8.0;
const TOP: f64 = 8.0;
const BOTTOM: f64 = HEIGHT - 18.0;

/// The panels of one workload.
pub(super) fn panels(work: &Work<'_>) -> Element {
    let panels = el("div").class("panels strips");
    panels.children(work.cells.iter().map(|cell| panel(cell)))
}

fn panel(cell: &ReportedCell) -> Element {
    let name = format!("{} · {}", cell.cell.platform, cell.arm());
    let caption = el("figcaption")
        .child(el("b").attr("title", &name).text(clipped(&name, 44)))
        .child(el("span").text(numbers(cell)));
    el("figure").attr("data-k", super::tables::key(&cell.cell)).child(caption).child(plot(cell))
}

/// What a panel says in numbers.
fn numbers(cell: &ReportedCell) -> String {
    let mut parts = vec![
        format!("median {}", quantity_or_dash(cell.median, cell.unit)),
        format!("n {}", cell.counted()),
    ];
    if let Some(spread) = spread(cell) {
        parts.push(format!("spread {}", per_cent(spread)));
    }
    let left_out = cell.points.len() - cell.counted();
    if left_out > 0 {
        parts.push(format!("{} left out", count(left_out as u64)));
    }
    parts.join(" · ")
}

/// Distance of the quartiles, relative to the median.
pub(super) fn spread(cell: &ReportedCell) -> Option<f64> {
    let ([low, high], median) = (cell.quartiles?, cell.median?);
    let spread = ((high - low) / median).abs();
    spread.is_finite().then_some(spread)
}

fn plot(cell: &ReportedCell) -> Element {
    let mut canvas = el("svg")
        .attr("viewBox", format!("0 0 {WIDTH} {HEIGHT}"))
        .attr("width", WIDTH)
        .attr("height", HEIGHT);
    let values = cell.points.iter().map(|point| point.value);
    let Some((low, high)) = extent(values.chain(cell.quartiles.into_iter().flatten())) else {
        return canvas.child(middle_text(DASH));
    };
    let y = Axis::linear(low, high, BOTTOM - 6.0, TOP + 6.0);
    let blocks = extent(cell.points.iter().map(|point| f64::from(point.block)));
    let (first, last) = blocks.unwrap_or((0.0, 0.0));
    let x = Axis::linear(first, last.max(first + 1.0), LEFT + 8.0, RIGHT - 6.0);
    canvas = canvas.children(frame(cell, y, x, (low, high), (first, last)));
    canvas.children(cell.points.iter().map(|point| mark(cell, point, x, y)))
}

fn middle_text(text: &str) -> Element {
    el("text").attr("x", WIDTH / 2.0).attr("y", HEIGHT / 2.0).text(text)
}

fn frame(
    cell: &ReportedCell,
    y: Axis,
    x: Axis,
    (low, high): (f64, f64),
    (first, last): (f64, f64),
) -> Vec<Element> {
    let mut out = Vec::new();
    if let Some([below, above]) = cell.quartiles {
        let (top, bottom) = (y.at(above.max(below)), y.at(below.min(above)));
        let band = el("rect").class("half").attr("x", LEFT).attr("y", c(top));
        out.push(band.attr("width", RIGHT - LEFT).attr("height", c((bottom - top).max(0.5))));
    }
    let frame = format!("M{LEFT} {TOP}V{BOTTOM}H{RIGHT}");
    out.push(el("path").class("frame").attr("d", frame));
    if let Some(median) = cell.median {
        let line = format!("M{LEFT} {}H{RIGHT}", c(y.at(median)));
        out.push(el("path").class("median").attr("d", line));
    }
    out.extend(side_labels(cell, y, low, high));
    let under = |at: f64, anchor: &str, text: String| {
        let label = el("text").class("tick").attr("x", c(at)).attr("y", HEIGHT - 5.0);
        label.attr("text-anchor", anchor).text(text)
    };
    out.push(under(x.at(first), "middle", format!("{first}")));
    if last > first {
        out.push(under(x.at(last), "middle", format!("{last}")));
        out.push(under(f64::midpoint(LEFT, RIGHT), "middle", "block".to_owned()));
    }
    out
}

/// The smallest and the largest value, in one unit.
fn side_labels(cell: &ReportedCell, y: Axis, low: f64, high: f64) -> Vec<Element> {
    let scale = Scale::of(low.abs().max(high.abs()), cell.unit);
    let side = |value: f64| {
        let label = el("text").class("tick").attr("x", LEFT - 5.0).attr("y", c(y.at(value) + 3.5));
        label.attr("text-anchor", "end").text(clipped(&scale.show(value), 8))
    };
    let unit = el("text")
        .class("tick")
        .attr("x", LEFT - 5.0)
        .attr("y", c(f64::midpoint(TOP, BOTTOM) + 3.5));
    let unit = unit.attr("text-anchor", "end").text(scale.name);
    if low < high { vec![side(low), side(high), unit] } else { vec![side(low)] }
}

/// Filled circle: counts; diamond: the reference's second measurement; hollow: does not count.
fn mark(cell: &ReportedCell, point: &Point, x: Axis, y: Axis) -> Element {
    let (at, height) = (x.at(f64::from(point.block)), y.at(point.value));
    let class = if point.excluded.is_empty() { "dot" } else { "dot out" };
    let shape = match point.label {
        Label::First => el("circle").attr("cx", c(at)).attr("cy", c(height)).attr("r", 3),
        Label::Again => {
            let diamond = format!("M{} {}l4 4l-4 4l-4 -4z", c(at), c(height - 4.0));
            el("path").attr("d", diamond)
        }
    };
    shape.class(class).child(el("title").text(tip(cell, point)))
}

fn tip(cell: &ReportedCell, point: &Point) -> String {
    let again = if point.label == Label::Again { ", again (A/A)" } else { "" };
    let mut tip = format!("block {}{again}: {}", point.block, quantity(point.value, cell.unit));
    if !point.excluded.is_empty() {
        tip.push_str(&format!("; left out: {}", point.excluded.join("; ")));
    }
    tip
}
