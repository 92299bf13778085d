//! How reading grows, as a picture: cost of an event over the number of events, and over the number
//! of VMs. Flat is what was promised.

use super::rows::row;
use serde_json::Value;
use std::fmt::Write;

const PANELS: [(&str, &[(&str, f64)]); 2] = [
    (
        "events of the recording (4 VMs)",
        &[("scale/events/1M", 1e6), ("scale/events/10M", 1e7), ("scale/events/100M", 1e8)],
    ),
    (
        "VMs (10 million events)",
        &[
            ("scale/vms/1", 1.0),
            ("scale/vms/10", 10.0),
            ("scale/vms/100", 100.0),
            ("scale/vms/1000", 1000.0),
        ],
    ),
];

/// Size of a panel in pixels, and what is left around it.
const SIZE: (f64, f64) = (300.0, 200.0);
const LEFT: f64 = 60.0;
const TOP: f64 = 40.0;
const STRIDE: f64 = 400.0;

/// A measured point: where, median, smallest, largest.
struct Point {
    at: f64,
    ns: f64,
    low: f64,
    high: f64,
}

/// The picture; `None` if the run did not measure it.
pub(super) fn growth(run: &Value) -> Option<String> {
    let panels = PANELS.map(|(title, rows)| (title, points(run, rows)));
    let all = || panels.iter().flat_map(|(_, points)| points);
    if panels.iter().any(|(_, points)| points.len() < 2) {
        return None;
    }
    let top_ns = nice(all().map(|point| point.high).fold(0.0, f64::max));
    let mut svg = String::from(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 800 310\" font-family=\"sans-serif\" \
         font-size=\"12\" fill=\"#222\">\n<rect width=\"800\" height=\"310\" fill=\"#fff\"/>\n",
    );
    for (number, (title, points)) in (0u32..).zip(&panels) {
        panel(&mut svg, LEFT + f64::from(number) * STRIDE, title, points, top_ns);
    }
    svg.push_str("</svg>\n");
    Some(svg)
}

fn points(run: &Value, rows: &[(&str, f64)]) -> Vec<Point> {
    let point = |(name, at): &(&str, f64)| {
        let row = row(run, name)?;
        let ns = row["ours"].as_f64()?;
        let of = |side: usize| row["spread"].get(side).and_then(Value::as_f64).unwrap_or(ns);
        Some(Point { at: *at, ns, low: of(0), high: of(1) })
    };
    rows.iter().filter_map(point).collect()
}

/// The next of 1, 2, 5 times a power of ten.
fn nice(value: f64) -> f64 {
    let power = 10f64.powf(value.max(1.0).log10().floor());
    [1.0, 2.0, 5.0, 10.0].map(|n| n * power).into_iter().find(|n| *n >= value).unwrap_or(value)
}

/// Writing to a String does not fail, here and below.
fn panel(svg: &mut String, left: f64, title: &str, points: &[Point], top_ns: f64) {
    let bounds = points.iter().map(|p| p.at.log10());
    let (first, last) = bounds.fold((f64::MAX, f64::MIN), |(a, b), at| (a.min(at), b.max(at)));
    let x = |at: f64| left + (at.log10() - first) / (last - first) * SIZE.0;
    let y = |ns: f64| TOP + SIZE.1 - ns / top_ns * SIZE.1;
    let _ = writeln!(
        svg,
        "<text x=\"{left}\" y=\"20\" font-weight=\"bold\">ns per event, over {title}</text>"
    );
    for step in 0..=4 {
        let ns = top_ns * f64::from(step) / 4.0;
        let at = y(ns);
        let _ = writeln!(
            svg,
            "<path d=\"M{left:.0} {at:.1}h{:.0}\" stroke=\"#ddd\"/><text x=\"{:.0}\" y=\"{:.1}\" text-anchor=\"end\">{ns}</text>",
            SIZE.0,
            left - 6.0,
            at + 4.0,
        );
    }
    let line: Vec<String> =
        points.iter().map(|p| format!("{:.1},{:.1}", x(p.at), y(p.ns))).collect();
    let _ = writeln!(
        svg,
        "<polyline points=\"{}\" fill=\"none\" stroke=\"#06c\" stroke-width=\"2\"/>",
        line.join(" ")
    );
    for point in points {
        let (at, label) = (x(point.at), label(point.at));
        let _ = writeln!(
            svg,
            "<path d=\"M{at:.1} {:.1}V{:.1}\" stroke=\"#06c\"/><circle cx=\"{at:.1}\" cy=\"{:.1}\" r=\"4\" fill=\"#06c\"/>\
             <text x=\"{at:.1}\" y=\"{:.0}\" text-anchor=\"middle\">{label}</text>",
            y(point.low),
            y(point.high),
            y(point.ns),
            TOP + SIZE.1 + 20.0,
        );
    }
}

fn label(at: f64) -> String {
    if at >= 1e6 { format!("{:.0} M", at / 1e6) } else { format!("{at:.0}") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_run_with_both_series_is_a_picture_of_seven_points() {
        let names = PANELS.iter().flat_map(|(_, rows)| rows.iter().map(|row| row.0));
        let rows: Vec<Value> =
            names.map(|name| json!({"name": name, "ours": 50.0, "spread": [40.0, 60.0]})).collect();
        let svg = growth(&json!({ "rows": rows })).unwrap();
        assert_eq!(svg.matches("<circle").count(), 7);
        assert!(svg.contains(">100 M<") && svg.contains(">1000<") && svg.ends_with("</svg>\n"));
        assert!(!svg.contains("NaN") && !svg.contains("inf"));
    }

    #[test]
    fn a_run_without_them_is_none() {
        assert!(growth(&json!({ "rows": [] })).is_none());
    }

    #[test]
    fn axes_end_at_round_numbers() {
        assert_eq!([nice(7.0), nice(12.0), nice(340.0), nice(50.0)], [10.0, 20.0, 500.0, 50.0]);
    }
}
