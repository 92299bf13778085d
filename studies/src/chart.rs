//! Charts for pages: small panels side by side, one scale for all of them, lines with their spread, as SVG.

use std::fmt::Write;

use crate::page::short;
use crate::spread::Spread;

/// A chart.
#[derive(Clone, Debug)]
pub struct Chart {
    /// Above all panels.
    pub title: String,
    /// Below each panel.
    pub x_label: String,
    /// Beside the first panel of each row: what is shown, and its unit.
    pub y_label: String,
    /// The positions that are named below each panel.
    pub x_ticks: Vec<(f64, String)>,
    /// How many panels stand side by side.
    pub columns: usize,
    /// Row by row.
    pub panels: Vec<Panel>,
    /// What [`Series::marks`] are, for the legend; empty without any.
    pub marks: String,
}

/// One pair of axes.
#[derive(Clone, Debug)]
pub struct Panel {
    /// Above it.
    pub title: String,
    /// Its lines.
    pub series: Vec<Series>,
}

/// One line; without points, only marks.
#[derive(Clone, Debug)]
pub struct Series {
    /// For the legend; equal names have equal colours.
    pub name: String,
    /// Repetitions over a position.
    pub points: Vec<(f64, Spread)>,
    /// Single values to compare with, as hollow diamonds.
    pub marks: Vec<(f64, f64)>,
}

/// Told apart also by those who see colours differently (Okabe and Ito).
const COLOURS: [&str; 5] = ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00"];

/// Of marks that belong to no line, and of all marks in the legend.
const NO_LINE: &str = "#444";

const WIDTH: f64 = 210.0;
const HEIGHT: f64 = 150.0;
const LEFT: f64 = 66.0;
const TOP: f64 = 64.0;
const GAP_X: f64 = 18.0;
const GAP_Y: f64 = 58.0;

impl Chart {
    /// The chart as the text of an SVG file.
    pub fn svg(&self) -> String {
        let columns = self.columns.max(1);
        let rows = self.panels.len().div_ceil(columns);
        let width = LEFT + as_f64(columns) * (WIDTH + GAP_X);
        let height = TOP + as_f64(rows) * (HEIGHT + GAP_Y);
        let mut svg = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width:.0} {height:.0}\" width=\"{width:.0}\" \
             height=\"{height:.0}\" font-family=\"sans-serif\" font-size=\"11\">\n\
             <rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>\n\
             <text x=\"{LEFT}\" y=\"18\" font-size=\"14\" font-weight=\"bold\">{}</text>\n",
            escaped(&self.title)
        );
        self.legend(&mut svg);
        for (at, panel) in self.panels.iter().enumerate() {
            let x = LEFT + as_f64(at % columns) * (WIDTH + GAP_X);
            let y = TOP + as_f64(at / columns) * (HEIGHT + GAP_Y);
            self.panel(panel, (x, y), at % columns == 0, &mut svg);
        }
        svg + "</svg>\n"
    }

    /// Of the lines.
    fn names(&self) -> Vec<&str> {
        let mut names: Vec<&str> = Vec::new();
        let series = self.panels.iter().flat_map(|panel| &panel.series);
        for series in series.filter(|series| !series.points.is_empty()) {
            if !names.contains(&series.name.as_str()) {
                names.push(&series.name);
            }
        }
        names
    }

    fn colour(&self, name: &str) -> &'static str {
        let at = self.names().iter().position(|&other| other == name);
        at.map_or(NO_LINE, |at| COLOURS[at % COLOURS.len()])
    }

    fn legend(&self, svg: &mut String) {
        let mut x = LEFT;
        for name in self.names() {
            let colour = self.colour(name);
            put(
                svg,
                &format!(
                    "<line x1=\"{x:.0}\" y1=\"33\" x2=\"{:.0}\" y2=\"33\" stroke=\"{colour}\" stroke-width=\"2\"/>\n",
                    x + 16.0
                ),
            );
            x += 20.0;
            put(svg, &format!("<text x=\"{x:.0}\" y=\"37\">{}</text>\n", escaped(name)));
            x += 14.0 + 6.2 * as_f64(name.chars().count());
        }
        if !self.marks.is_empty() {
            put(svg, &diamond((x + 6.0, 33.0), NO_LINE));
            put(
                svg,
                &format!("<text x=\"{:.0}\" y=\"37\">{}</text>\n", x + 16.0, escaped(&self.marks)),
            );
        }
    }

    /// The largest value of any panel.
    fn y_most(&self) -> f64 {
        let series = self.panels.iter().flat_map(|panel| &panel.series);
        let values = series.flat_map(|series| {
            let points = series.points.iter().map(|(_, spread)| spread.high);
            points.chain(series.marks.iter().map(|(_, y)| *y))
        });
        values.fold(0.0, f64::max)
    }

    fn x_bounds(&self) -> (f64, f64) {
        let xs = || self.x_ticks.iter().map(|(x, _)| *x);
        let (low, high) = (xs().fold(f64::MAX, f64::min), xs().fold(f64::MIN, f64::max));
        let room = (high - low).max(1e-9) * 0.08;
        (low - room, high + room)
    }

    fn panel(&self, panel: &Panel, (left, top): (f64, f64), is_first: bool, svg: &mut String) {
        let step = step(self.y_most());
        let y_most = (self.y_most() / step).ceil().max(1.0) * step;
        let (x_low, x_high) = self.x_bounds();
        let x_of = |x: f64| left + (x - x_low) / (x_high - x_low) * WIDTH;
        let y_of = |y: f64| top + HEIGHT - y / y_most * HEIGHT;
        put(
            svg,
            &format!(
                "<text x=\"{left:.0}\" y=\"{:.0}\">{}</text>\n",
                top - 6.0,
                escaped(&panel.title)
            ),
        );
        let mut y = 0.0;
        while y <= y_most + step / 2.0 {
            let at = y_of(y);
            put(
                svg,
                &format!(
                    "<line x1=\"{left:.0}\" y1=\"{at:.1}\" x2=\"{:.0}\" y2=\"{at:.1}\" stroke=\"#ddd\"/>\n",
                    left + WIDTH
                ),
            );
            if is_first {
                let label = tick(y, step);
                put(
                    svg,
                    &format!(
                        "<text x=\"{:.0}\" y=\"{:.1}\" text-anchor=\"end\">{label}</text>\n",
                        left - 5.0,
                        at + 4.0
                    ),
                );
            }
            y += step;
        }
        if is_first {
            let (x, y) = (left - 48.0, top + HEIGHT / 2.0);
            put(
                svg,
                &format!(
                    "<text x=\"{x:.0}\" y=\"{y:.0}\" text-anchor=\"middle\" fill=\"#555\" \
                     transform=\"rotate(-90 {x:.0} {y:.0})\">{}</text>\n",
                    escaped(&self.y_label)
                ),
            );
        }
        for (x, label) in &self.x_ticks {
            let (x, y) = (x_of(*x), top + HEIGHT + 14.0);
            put(
                svg,
                &format!(
                    "<text x=\"{x:.1}\" y=\"{y:.0}\" text-anchor=\"middle\">{}</text>\n",
                    escaped(label)
                ),
            );
        }
        let (middle, below) = (left + WIDTH / 2.0, top + HEIGHT + 29.0);
        put(
            svg,
            &format!(
                "<text x=\"{middle:.0}\" y=\"{below:.0}\" text-anchor=\"middle\" fill=\"#555\">{}</text>\n",
                escaped(&self.x_label)
            ),
        );
        for series in &panel.series {
            line(series, self.colour(&series.name), &x_of, &y_of, svg);
        }
    }
}

fn line(
    series: &Series,
    colour: &str,
    x_of: &dyn Fn(f64) -> f64,
    y_of: &dyn Fn(f64) -> f64,
    svg: &mut String,
) {
    let points: Vec<_> = series
        .points
        .iter()
        .map(|(x, spread)| format!("{:.1},{:.1}", x_of(*x), y_of(spread.median)))
        .collect();
    put(
        svg,
        &format!(
            "<polyline points=\"{}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"2\"/>\n",
            points.join(" ")
        ),
    );
    for (x, spread) in &series.points {
        let (x, y) = (x_of(*x), y_of(spread.median));
        put(svg, &format!("<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"2.5\" fill=\"{colour}\"/>\n"));
        let (low, high) = (y_of(spread.low), y_of(spread.high));
        put(
            svg,
            &format!(
                "<line x1=\"{x:.1}\" y1=\"{low:.1}\" x2=\"{x:.1}\" y2=\"{high:.1}\" stroke=\"{colour}\"/>\n"
            ),
        );
    }
    for (x, y) in &series.marks {
        put(svg, &diamond((x_of(*x), y_of(*y)), colour));
    }
}

fn diamond((x, y): (f64, f64), colour: &str) -> String {
    let (left, right, above, below) = (x - 5.0, x + 5.0, y - 5.0, y + 5.0);
    format!(
        "<polygon points=\"{left:.1},{y:.1} {x:.1},{above:.1} {right:.1},{y:.1} {x:.1},{below:.1}\" fill=\"none\" \
         stroke=\"{colour}\" stroke-width=\"1.5\"/>\n"
    )
}

/// The distance between two lines of the grid: 1, 2 or 5 times a power of ten, for four to eight lines.
fn step(most: f64) -> f64 {
    let rough = (most / 5.0).max(1e-9);
    let power = 10f64.powf(rough.log10().floor());
    let factors = [1.0, 2.0, 5.0, 10.0];
    factors.map(|factor| factor * power).into_iter().find(|&it| it >= rough).unwrap_or(rough)
}

/// A number of the grid, with as many places as the grid needs.
fn tick(value: f64, step: f64) -> String {
    match step {
        _ if value >= 1000.0 => short(value),
        _ if step >= 1.0 => format!("{value:.0}"),
        _ if step >= 0.1 => format!("{value:.1}"),
        _ => format!("{value:.2}"),
    }
}

fn put(svg: &mut String, text: &str) {
    // Writing to a String does not fail.
    let _ = svg.write_str(text);
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

#[allow(clippy::cast_precision_loss, reason = "a few panels, or letters of a name")]
fn as_f64(number: usize) -> f64 {
    number as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chart(high: f64) -> Chart {
        let spread = Spread { low: 1.0, median: 2.0, high };
        let series =
            Series { name: "a<b".into(), points: vec![(100.0, spread)], marks: vec![(100.0, 3.0)] };
        let panel = Panel { title: "p".into(), series: vec![series] };
        let x_ticks = vec![(100.0, "100".into()), (200.0, "200".into())];
        Chart {
            title: "t".into(),
            x_label: "x".into(),
            y_label: "y".into(),
            x_ticks,
            columns: 2,
            panels: vec![panel.clone(), panel],
            marks: "m".into(),
        }
    }

    #[test]
    fn every_value_is_inside_its_panel() {
        let svg = chart(9.0).svg();
        let coordinates = svg.split("cy=\"").skip(1).filter_map(|it| it.split('"').next());
        let ys: Vec<f64> = coordinates.map(|it| it.parse().unwrap()).collect();
        assert_eq!(ys.len(), 2);
        assert!(ys.iter().all(|&y| (TOP..=TOP + HEIGHT).contains(&y)), "{ys:?}");
        assert!(svg.contains("a&lt;b") && !svg.contains("a<b"));
        assert_eq!(svg.matches("<polygon").count(), 3, "a mark in each panel, one in the legend");
    }

    #[test]
    fn the_grid_has_round_numbers() {
        for (most, expected) in [(9.0, 2.0), (100.0, 20.0), (43.0, 10.0), (0.7, 0.2)] {
            assert!((step(most) - expected).abs() < 1e-12, "{most}: {}", step(most));
        }
    }
}
