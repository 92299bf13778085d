//! Forest plots: a row of the table of comparisons is a row of the plot.
//!
//! Ratios are on a logarithmic axis, so that twice and half are equally far from 1. Where some effects are a hundred times
//! larger than others, a second plot shows what is near 1.

use super::{
    node::{Element, el},
    scale::{Axis, c, extent},
};
use crate::{
    Comparison, Estimate, Verdict,
    number::{change, fixed, significant},
};
use std::fmt::Write;
use transect_bench_core::Better;

/// A row's height: the plot's pieces are put on each other without a gap.
const HEIGHT: f64 = 26.0;
const HEAD: f64 = 34.0;
const MARGIN: f64 = 14.0;
/// From this factor between the ends of the axis on, changes of a few per cent cannot be seen any more.
const WIDE: f64 = 1.6;
/// What is shown in the plot of what is near.
const NEAR: f64 = 1.25;

/// One column of plots.
pub(super) struct Plot {
    axis: Axis,
    width: f64,
    is_near: bool,
}

/// The plots of some comparisons: all of them on one axis, and where that hides them, those near 1 on another.
pub(super) fn plots(comparisons: &[&Comparison]) -> Vec<Plot> {
    let estimates = || comparisons.iter().filter_map(|comparison| comparison.estimate);
    let all = spanned(comparisons.iter().copied());
    let is_wide = all.1 / all.0 > WIDE;
    let near: Vec<&Comparison> = comparisons.iter().copied().filter(|c| is_near(c)).collect();
    if !is_wide || near.is_empty() || estimates().count() == 0 {
        return vec![Plot::new(all, 290.0, false)];
    }
    vec![Plot::new(all, 156.0, false), Plot::new(spanned(near), 156.0, true)]
}

fn is_near(comparison: &Comparison) -> bool {
    let within = |value: f64| (1.0 / NEAR..=NEAR).contains(&value);
    comparison.estimate.is_some_and(|estimate| {
        within(estimate.ratio) && within(estimate.low) && within(estimate.high)
    })
}

/// From the lowest to the highest end of an interval; 1 and the noise are always in it.
fn spanned<'a>(comparisons: impl IntoIterator<Item = &'a Comparison>) -> (f64, f64) {
    let ends = |comparison: &'a Comparison| {
        let floor = comparison.floor.unwrap_or(0.0).clamp(0.0, 0.25);
        let mut ends = vec![1.0 / (1.0 + floor), 1.0 + floor];
        match comparison.estimate {
            Some(Estimate { ratio, low, high, .. }) => ends.extend([ratio, low, high]),
            None => ends.extend(comparison.ratios.iter().map(|(_, ratio)| *ratio)),
        }
        ends.into_iter().filter(|end| *end > 0.0)
    };
    let (low, high) = extent(comparisons.into_iter().flat_map(ends)).unwrap_or((1.0, 1.0));
    (low.min(0.998), high.max(1.002))
}

impl Plot {
    fn new((low, high): (f64, f64), width: f64, is_near: bool) -> Self {
        let pad = (high / low).powf(0.04);
        let axis = Axis::log(low / pad, high * pad, MARGIN, width - MARGIN);
        Self { axis, width, is_near }
    }

    /// The column's head: what is shown, and the ticks.
    pub(super) fn head(&self, better: Better) -> Element {
        let (left, right) = match better {
            Better::Less => ("◀ better", "worse ▶"),
            Better::More => ("◀ worse", "better ▶"),
        };
        let middle = self.axis.at(1.0);
        let mut head = self.canvas(HEAD).attr("role", "presentation");
        if middle > 60.0 {
            head = head.child(label(middle - 5.0, 10.0, "end", left));
        }
        if middle < self.width - 60.0 {
            head = head.child(label(middle + 5.0, 10.0, "start", right));
        }
        let mut free_from = f64::MIN;
        for tick in self.ticks() {
            let (at, text) = (self.axis.at(tick), self.tick_text(tick));
            let half = text.chars().count() as f64 * 3.2;
            let at = at.clamp(half, self.width - half);
            if at - half > free_from {
                head = head.child(label(at, 27.0, "middle", &text));
                free_from = at + half + 4.0;
            }
        }
        el("div").child(el("div").text(self.title())).child(head)
    }

    const fn title(&self) -> &'static str {
        if self.is_near { "near 1" } else { "value ÷ reference, log" }
    }

    fn is_narrow(&self) -> bool {
        let (low, high) = self.axis.span();
        high / low < WIDE
    }

    fn ticks(&self) -> Vec<f64> {
        self.axis.ticks(if self.width > 250.0 { 7 } else { 5 })
    }

    /// Near 1 a ratio is read as a change.
    fn tick_text(&self, tick: f64) -> String {
        if !self.is_narrow() {
            return format!(
                "×{}",
                significant(tick, if tick < 1.0 { 1 } else { 2 }).trim_end_matches(".0")
            );
        }
        let (low, high) = self.axis.span();
        let per_cent = (tick - 1.0) * 100.0;
        let decimals = if high - low > 0.04 {
            0
        } else if high - low > 0.004 {
            1
        } else {
            2
        };
        let text = fixed(per_cent, decimals).replace('-', "−");
        if per_cent.abs() < 1e-9 {
            "0".to_owned()
        } else if per_cent > 0.0 {
            format!("+{text} %")
        } else {
            format!("{text} %")
        }
    }

    /// A comparison's row of the plot.
    pub(super) fn row(&self, comparison: &Comparison) -> Element {
        let mut canvas =
            self.canvas(HEIGHT).attr("role", "img").child(el("title").text(tip(comparison)));
        if let Some(floor) = comparison.floor.filter(|floor| *floor > 0.0) {
            canvas = canvas.child(self.band(floor));
        }
        canvas = canvas.child(self.grid());
        let reference = format!("M{} 0v{HEIGHT}", c(self.axis.at(1.0)));
        canvas = canvas.child(el("path").class("ref").attr("d", reference));
        if !comparison.ratios.is_empty() {
            canvas = canvas.child(self.rug(comparison));
        }
        match comparison.estimate {
            Some(estimate) => canvas.children(self.interval(&estimate, comparison.verdict)),
            None => canvas,
        }
    }

    fn canvas(&self, height: f64) -> Element {
        el("svg")
            .attr("width", self.width)
            .attr("height", height)
            .attr("viewBox", format!("0 0 {} {height}", self.width))
    }

    fn band(&self, floor: f64) -> Element {
        let (left, right) = (self.axis.at(1.0 / (1.0 + floor)), self.axis.at(1.0 + floor));
        let width = (right - left).max(1.0);
        let band = el("rect").class("floor").attr("x", c(left)).attr("y", 0);
        band.attr("width", c(width)).attr("height", HEIGHT)
    }

    fn grid(&self) -> Element {
        let mut lines = String::new();
        for tick in self.ticks() {
            let _ = write!(lines, "M{} 0v{HEIGHT}", c(self.axis.at(tick)));
        }
        el("path").class("grid").attr("d", lines)
    }

    /// The blocks' ratios, each a small stroke below the interval.
    fn rug(&self, comparison: &Comparison) -> Element {
        let mut strokes = String::new();
        // Where there is no interval the blocks are all there is to see.
        let (stroke, class) = match comparison.estimate {
            Some(_) => ("18v5", "rug"),
            None => ("7v10", "rug alone"),
        };
        for (_, ratio) in comparison.ratios.iter().filter(|(_, ratio)| self.axis.holds(*ratio)) {
            let _ = write!(strokes, "M{} {stroke}", c(self.axis.at(*ratio)));
        }
        el("path").class(class).attr("d", strokes)
    }

    fn interval(&self, estimate: &Estimate, verdict: Verdict) -> Vec<Element> {
        let class = verdict_class(verdict);
        let Estimate { ratio, low, high, .. } = *estimate;
        let (left, right) = (self.axis.at(low), self.axis.at(high));
        let mut out =
            vec![el("path").class(class).attr("d", format!("M{} 11H{}", c(left), c(right)))];
        if low < self.axis.span().0 {
            let edge = self.axis.at(low);
            out.push(arrow(class, edge, -1.0));
        }
        if high > self.axis.span().1 {
            out.push(arrow(class, self.axis.at(high), 1.0));
        }
        if self.axis.holds(ratio) {
            out.push(mark(verdict, self.axis.at(ratio)));
        }
        out
    }
}

/// Shapes differ as well as colours: filled square: worse; filled circle: better; hollow: not resolved.
fn mark(verdict: Verdict, x: f64) -> Element {
    let class = verdict_class(verdict);
    match verdict {
        Verdict::Worse => {
            let shape = el("rect").class(class).attr("x", c(x - 4.0)).attr("y", 7);
            shape.attr("width", 8).attr("height", 8)
        }
        _ => el("circle").class(class).attr("cx", c(x)).attr("cy", 11).attr("r", 4),
    }
}

/// It goes on beyond the axis.
fn arrow(class: &str, x: f64, way: f64) -> Element {
    let (back, tip) = (c(x + way * 2.0), c(x + way * 10.0));
    el("path").class(&format!("{class} tip")).attr("d", format!("M{back} 6L{tip} 11L{back} 16z"))
}

fn label(x: f64, y: f64, anchor: &str, text: &str) -> Element {
    el("text").attr("x", c(x)).attr("y", y).attr("text-anchor", anchor).text(text)
}

/// The class of a verdict's marks and words.
pub(super) const fn verdict_class(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Worse => "worse",
        Verdict::Better => "better",
        Verdict::NotResolved => "unsure",
        Verdict::TooFew => "few",
    }
}

/// What a plot's row says in words.
fn tip(comparison: &Comparison) -> String {
    let against = format!("{} against {}", comparison.cell, comparison.reference);
    let blocks = comparison.ratios.len();
    match &comparison.estimate {
        Some(estimate) => {
            let (middle, interval) = change(estimate);
            let confidence = significant(estimate.confidence * 100.0, 3);
            let verdict = comparison.verdict.word();
            format!(
                "{against}: {middle} {interval}, {confidence} % confidence, {blocks} blocks: {verdict}"
            )
        }
        None => format!("{against}: {blocks} blocks, no interval below 6"),
    }
}
