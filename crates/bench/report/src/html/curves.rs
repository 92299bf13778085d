//! Lines: how a result scales with the number of machines, and how single operations were distributed.

use super::{
    bars::clipped,
    node::{Element, el},
    scale::{Axis, c, extent, short},
};
use crate::{
    ReportedCell,
    number::{Scale, count, quantity, significant},
    view::{Family, View},
};
use std::{collections::BTreeMap, fmt::Write};
use transect_bench_core::{Better, Distribution, Unit};
use transect_bench_run::plan::Group;

const WIDTH: f64 = 620.0;
const HEIGHT: f64 = 280.0;
const LEFT: f64 = 62.0;
const RIGHT: f64 = 420.0;
const TOP: f64 = 14.0;
const BOTTOM: f64 = 232.0;
/// Shapes and colours that repeat from here on; names stand at the lines' ends.
const KINDS: usize = 8;

/// One line.
struct Series {
    name: String,
    /// How it looks: colour and shape.
    kind: usize,
    points: Vec<Dot>,
}

struct Dot {
    x: f64,
    y: f64,
    /// Ends of a whisker.
    whisker: Option<[f64; 2]>,
    tip: String,
}

/// Both axes' ticks and titles.
struct Frame {
    x: Axis,
    y: Axis,
    x_ticks: Vec<(f64, String)>,
    y_ticks: Vec<(f64, String)>,
    x_title: String,
    y_title: String,
}

/// The curves over the number of machines, of every workload that was measured with several numbers of them.
pub(super) fn scaling(view: &View<'_>, family: &Family<'_>) -> Vec<Element> {
    let mut works: BTreeMap<_, Vec<&ReportedCell>> = BTreeMap::new();
    for cell in family.groups.iter().flat_map(|work| &work.cells) {
        let Group { workload, cache, .. } = &cell.cell.group;
        works.entry((workload, cache)).or_default().push(cell);
    }
    works.into_values().filter_map(|cells| scaling_of(view, &cells)).collect()
}

fn scaling_of(view: &View<'_>, cells: &[&ReportedCell]) -> Option<Element> {
    let guests = |cell: &ReportedCell| f64::from(cell.cell.group.guests);
    let (fewest, most) = extent(cells.iter().map(|cell| guests(cell)))?;
    if fewest >= most {
        return None;
    }
    let mut lines: BTreeMap<(&str, &str), Vec<&ReportedCell>> = BTreeMap::new();
    for cell in cells.iter().filter(|cell| cell.median.is_some()) {
        lines.entry((&cell.cell.platform, &cell.cell.tracer)).or_default().push(cell);
    }
    let ends =
        |cell: &&ReportedCell| cell.median.into_iter().chain(cell.quartiles.into_iter().flatten());
    let (low, high) = extent(cells.iter().flat_map(ends))?;
    let unit = Scale::of(low.abs().max(high.abs()), cells[0].unit);
    let y = Axis::linear(low.min(0.0), high.max(0.0), BOTTOM, TOP);
    let x = if most / fewest >= 8.0 {
        Axis::log(fewest, most, LEFT + 14.0, RIGHT - 10.0)
    } else {
        Axis::linear(fewest, most, LEFT + 14.0, RIGHT - 10.0)
    };
    let mut numbers: Vec<u32> = cells.iter().map(|cell| cell.cell.group.guests).collect();
    numbers.sort_unstable();
    numbers.dedup();
    let frame = Frame {
        x,
        y,
        x_ticks: numbers.iter().map(|n| (f64::from(*n), n.to_string())).collect(),
        y_ticks: y.ticks(5).into_iter().map(|tick| (tick, short(tick / unit.scale))).collect(),
        x_title: "machines that run the workload together".to_owned(),
        y_title: axis_title(&cells[0].metric, unit),
    };
    let series: Vec<Series> =
        lines.into_iter().map(|(name, cells)| line(view, name, &cells)).collect();
    let good = if cells[0].better == Better::Less { "less is better" } else { "more is better" };
    let mut group = cells[0].cell.group.clone();
    group.guests = 1;
    let caption = format!("{group}: medians, whiskers: half of the runs; {good}");
    Some(chart(&frame, &series, &caption))
}

fn line(view: &View<'_>, (platform, tracer): (&str, &str), cells: &[&ReportedCell]) -> Series {
    let dot = |cell: &&ReportedCell| {
        let value = quantity(cell.median?, cell.unit);
        let guests = cell.cell.group.guests;
        Some(Dot {
            x: f64::from(guests),
            y: cell.median?,
            whisker: cell.quartiles,
            tip: format!("{platform} · {tracer}, ×{guests}: {value}, n {}", cell.counted()),
        })
    };
    let mut points: Vec<Dot> = cells.iter().filter_map(dot).collect();
    points.sort_by(|a, b| a.x.total_cmp(&b.x));
    let kind = cells.first().map_or(0, |cell| view.kind(&cell.cell));
    Series { name: format!("{platform} · {tracer}"), kind, points }
}

fn axis_title(metric: &str, unit: Scale) -> String {
    if unit.name.is_empty() { metric.to_owned() } else { format!("{metric}, {}", unit.name) }
}

/// Quantiles of single operations, one chart for each workload and metric.
pub(super) fn distributions(view: &View<'_>, family: &Family<'_>) -> Vec<Element> {
    let mut out = Vec::new();
    for work in &family.groups {
        let mut metrics: BTreeMap<&str, Vec<(&ReportedCell, Unit, &Distribution)>> =
            BTreeMap::new();
        for cell in &work.cells {
            for (metric, (unit, distribution)) in &cell.distributions {
                metrics.entry(metric).or_default().push((cell, *unit, distribution));
            }
        }
        for (metric, cells) in metrics {
            out.extend(distribution_of(view, work.group, metric, &cells));
        }
    }
    out
}

fn distribution_of(
    view: &View<'_>,
    group: &Group,
    metric: &str,
    cells: &[(&ReportedCell, Unit, &Distribution)],
) -> Option<Element> {
    let pairs = || cells.iter().flat_map(|(_, _, distribution)| &distribution.quantiles);
    let (low, high) = extent(pairs().map(|(_, value)| *value))?;
    let deepest = extent(pairs().map(|(quantile, _)| nines(*quantile)))?.1.max(1.0);
    let unit = Scale::of(low.abs().max(high.abs()), cells.first()?.1);
    let y = if low > 0.0 && high / low > 8.0 {
        Axis::log(low / 1.1, high * 1.1, BOTTOM, TOP)
    } else {
        Axis::linear(low.min(0.0), high, BOTTOM, TOP)
    };
    let x = Axis::linear(0.0, deepest, LEFT + 14.0, RIGHT - 10.0);
    let named = [
        (0.0, "0 %"),
        (0.5, "50 %"),
        (0.9, "90 %"),
        (0.99, "99 %"),
        (0.999, "99.9 %"),
        (0.9999, "99.99 %"),
        (0.999_99, "99.999 %"),
    ];
    let shown = named.into_iter().filter(|(quantile, _)| nines(*quantile) <= deepest + 0.01);
    let frame = Frame {
        x,
        y,
        x_ticks: shown.map(|(quantile, name)| (nines(quantile), name.to_owned())).collect(),
        y_ticks: y.ticks(6).into_iter().map(|tick| (tick, short(tick / unit.scale))).collect(),
        x_title: "quantile of single operations".to_owned(),
        y_title: axis_title(metric, unit),
    };
    let series: Vec<Series> =
        cells.iter().map(|(cell, unit, d)| quantiles(view, cell, *unit, d)).collect();
    let answers = cells.iter().map(|(_, _, d)| d.samples).fold(0_u64, u64::saturating_add);
    let failed = cells.iter().map(|(_, _, d)| d.failed).fold(0_u64, u64::saturating_add);
    let caption = format!(
        "{group}, {metric}: {} operations, {} unanswered (counted as worse than every quantile)",
        count(answers),
        count(failed)
    );
    Some(chart(&frame, &series, &caption))
}

/// How many nines a quantile has: 0.9 is 1, 0.99 is 2; the largest is shown with a million-th.
fn nines(quantile: f64) -> f64 {
    -(1.0 - quantile.clamp(0.0, 1.0)).max(1e-6).log10()
}

fn quantiles(
    view: &View<'_>,
    cell: &ReportedCell,
    unit: Unit,
    distribution: &Distribution,
) -> Series {
    let name = format!("{} · {}", cell.cell.platform, cell.arm());
    let dot = |(quantile, value): &(f64, f64)| Dot {
        x: nines(*quantile),
        y: *value,
        whisker: None,
        tip: format!("{name}, {} %: {}", significant(quantile * 100.0, 5), quantity(*value, unit)),
    };
    let points = distribution.quantiles.iter().map(dot).collect();
    Series { name, kind: view.kind(&cell.cell), points }
}

fn chart(frame: &Frame, series: &[Series], caption: &str) -> Element {
    let labels = spread_labels(frame, series);
    let height = labels.last().map_or(HEIGHT, |last| HEIGHT.max(last + 20.0));
    let mut canvas = el("svg")
        .attr("viewBox", format!("0 0 {WIDTH} {height}"))
        .attr("width", WIDTH)
        .attr("height", height);
    canvas = canvas.children(axes(frame));
    let mut order: Vec<usize> = (0..series.len()).collect();
    order.sort_by(|a, b| end_of(frame, &series[*a]).total_cmp(&end_of(frame, &series[*b])));
    for (place, nth) in order.into_iter().enumerate() {
        canvas = canvas.children(drawn(frame, &series[nth], labels[place]));
    }
    el("figure").class("curve").child(el("figcaption").text(caption)).child(canvas)
}

fn end_of(frame: &Frame, series: &Series) -> f64 {
    series.points.last().map_or(BOTTOM, |dot| frame.y.at(dot.y))
}

/// Heights of the names at the lines' ends, none on another, from the top to the bottom.
fn spread_labels(frame: &Frame, series: &[Series]) -> Vec<f64> {
    const APART: f64 = 15.0;
    let mut heights: Vec<f64> = series.iter().map(|series| end_of(frame, series)).collect();
    heights.sort_by(f64::total_cmp);
    let room = (BOTTOM - TOP - APART * heights.len() as f64).max(0.0);
    let mut last = TOP - APART;
    let mut below = heights.len() as f64;
    for height in &mut heights {
        // Not so low that those below it would leave the chart.
        let lowest = TOP + room + APART * (series.len() as f64 - below);
        *height = height.min(lowest).max(last + APART);
        last = *height;
        below -= 1.0;
    }
    heights
}

fn axes(frame: &Frame) -> Vec<Element> {
    let mut out = Vec::new();
    for (value, text) in &frame.y_ticks {
        let y = frame.y.at(*value);
        out.push(el("path").class("grid").attr("d", format!("M{LEFT} {}H{RIGHT}", c(y))));
        let label = el("text").class("tick").attr("x", LEFT - 6.0).attr("y", c(y + 3.5));
        out.push(label.attr("text-anchor", "end").text(text));
    }
    let mut free_from = 0.0;
    for (value, text) in &frame.x_ticks {
        let x = frame.x.at(*value);
        let half = text.chars().count() as f64 * 3.2;
        out.push(el("path").class("frame").attr("d", format!("M{} {BOTTOM}v4", c(x))));
        if x - half > free_from {
            let label = el("text").class("tick").attr("x", c(x)).attr("y", BOTTOM + 17.0);
            out.push(label.attr("text-anchor", "middle").text(text));
            free_from = x + half + 4.0;
        }
    }
    out.push(el("path").class("frame").attr("d", format!("M{LEFT} {TOP}V{BOTTOM}H{RIGHT}")));
    let under =
        el("text").class("title").attr("x", f64::midpoint(LEFT, RIGHT)).attr("y", BOTTOM + 36.0);
    out.push(under.attr("text-anchor", "middle").text(&frame.x_title));
    let middle = f64::midpoint(TOP, BOTTOM);
    let side = el("text").class("title").attr("x", 0).attr("y", 0).attr("text-anchor", "middle");
    let side = side.attr("transform", format!("translate(13 {middle}) rotate(-90)"));
    out.push(side.text(clipped(&frame.y_title, 34)));
    out
}

fn drawn(frame: &Frame, series: &Series, label: f64) -> Vec<Element> {
    let at = |dot: &Dot| (frame.x.at(dot.x), frame.y.at(dot.y));
    let mut path = String::new();
    let mut whiskers = String::new();
    for (place, dot) in series.points.iter().enumerate() {
        let (x, y) = at(dot);
        let _ = write!(path, "{}{} {}", if place == 0 { 'M' } else { 'L' }, c(x), c(y));
        if let Some([low, high]) = dot.whisker {
            let (low, high) = (c(frame.y.at(low)), c(frame.y.at(high)));
            let _ = write!(whiskers, "M{} {low}V{high}", c(x));
        }
    }
    let class = format!("s{}", series.kind % KINDS);
    let mut group = el("g").class(&class).child(el("path").class("line").attr("d", path));
    if !whiskers.is_empty() {
        group = group.child(el("path").class("line whisk").attr("d", whiskers));
    }
    for dot in &series.points {
        let (x, y) = at(dot);
        group = group.child(shape(series.kind, x, y).child(el("title").text(&dot.tip)));
    }
    let Some(end) = series.points.last() else { return vec![group] };
    let (x, y) = at(end);
    let leader = format!("M{} {}L{} {}H{}", c(x + 6.0), c(y), RIGHT + 14.0, c(label), RIGHT + 20.0);
    let name = el("text").class("name").attr("x", RIGHT + 25.0).attr("y", c(label + 3.5));
    vec![
        group.child(el("path").class("leader").attr("d", leader)),
        name.child(el("title").text(&series.name)).text(clipped(&series.name, 28)),
    ]
}

/// Lines are told apart by shape as well as by colour.
fn shape(nth: usize, x: f64, y: f64) -> Element {
    let path = |d: String| el("path").class("mark").attr("d", d);
    match nth % 4 {
        0 => el("circle").class("mark").attr("cx", c(x)).attr("cy", c(y)).attr("r", 4),
        1 => path(format!("M{} {}h7v7h-7z", c(x - 3.5), c(y - 3.5))),
        2 => path(format!("M{} {}l4.5 8h-9z", c(x), c(y - 5.0))),
        _ => path(format!("M{} {}l5 5l-5 5l-5 -5z", c(x), c(y - 5.0))),
    }
}
