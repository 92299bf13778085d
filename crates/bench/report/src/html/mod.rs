//! One page that holds everything: figures, tables, every raw point, and the data itself.
//!
//! It needs no network and no script: style, figures and data are in it. With a script, tables are sorted and filtered, and
//! marks tell at once what they are. It is HTML and well-formed XML at the same time, whatever things are called in the data.

mod bars;
mod compared;
mod curves;
mod ends;
mod family;
mod forest;
mod limits;
mod node;
mod scale;
mod strips;
mod tables;

use super::{Report, view::View};
use node::{Element, el};
use transect_model::escape::is_unsafe;

const STYLE: &str = include_str!("style.css");
const SCRIPT: &str = include_str!("script.js");

/// No network, whatever should come to be in the page.
const POLICY: &str =
    "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data:";

/// The page.
///
/// The data is the [`Report`] as JSON, in the element `<script type="application/json" id="report">`. Errors: the report
/// holds a number that JSON has not (not finite).
pub fn page(report: &Report) -> Result<String, serde_json::Error> {
    let data = embedded(&serde_json::to_string(report)?);
    let view = View::new(report);
    let sections = sections(&view);
    let body = el("body")
        .child(ends::header(report))
        .child(navigation(&view, &sections))
        .child(el("main").children(sections.into_iter().map(|(_, _, section)| section)))
        .child(footer(report))
        .child(el("script").attr("type", "application/json").attr("id", "report").trusted(&data))
        .child(el("script").trusted(SCRIPT));
    let html = el("html").attr("xmlns", "http://www.w3.org/1999/xhtml").attr("lang", "en");
    Ok(format!("<!DOCTYPE html>\n{}\n", html.child(head(report)).child(body).render()))
}

fn head(report: &Report) -> Element {
    let title = format!("{} · transect bench", report.name);
    let meta = |name: &str, content: &str| el("meta").attr("name", name).attr("content", content);
    el("head")
        .child(el("meta").attr("charset", "utf-8"))
        .child(el("meta").attr("http-equiv", "Content-Security-Policy").attr("content", POLICY))
        .child(meta("viewport", "width=device-width, initial-scale=1"))
        .child(meta("color-scheme", "light dark"))
        .child(meta("generator", &format!("transect {}", report.version)))
        .child(el("title").text(title))
        .child(el("style").trusted(STYLE))
}

/// Every section that has something to show: its id, its name in the navigation, and itself.
fn sections(view: &View<'_>) -> Vec<(String, String, Element)> {
    let report = view.report;
    let mut out = Vec::new();
    let mut add = |id: &str, name: &str, section: Option<Element>| {
        out.extend(section.map(|section| (id.to_owned(), name.to_owned(), section)));
    };
    add("warnings", "Warnings", ends::warnings(report));
    add("glance", "At a glance", Some(ends::glance(report)));
    for (nth, of_family) in view.families.iter().enumerate() {
        add(&format!("family-{nth}"), of_family.name, Some(family::section(view, nth)));
    }
    add("limiters", "Limiters", limits::section(view));
    add("tracers", "Tracers", limits::tracers(view));
    add("noise", "Noise", ends::noise(view));
    add("platforms", "Platforms", ends::platforms(report));
    let mut missing = ends::missing(report).into_iter();
    if !report.refused.is_empty() {
        add("refused", "Refused", missing.next());
    }
    add("failed", "Failed", missing.next());
    add("environment", "Environment", ends::environment(report));
    add("plan", "Plan", ends::plan(report));
    out
}

fn navigation(view: &View<'_>, sections: &[(String, String, Element)]) -> Element {
    let links = sections.iter().map(|(id, name, _)| {
        let is_family = id.starts_with("family-");
        let link = el("a").attr("href", format!("#{id}")).text(name);
        if is_family { link.class("family") } else { link }
    });
    let nav = el("nav").attr("aria-label", "Sections").child(el("div").children(links));
    if view.report.cells.is_empty() {
        return nav;
    }
    // Of no use without the script, which shows it.
    let filter = el("input").attr("type", "search").attr("id", "filter").attr("hidden", "hidden");
    nav.child(
        filter
            .attr("placeholder", "Filter: workload, platform, tracer …")
            .attr("aria-label", "Show only rows that contain all of these words"),
    )
}

fn footer(report: &Report) -> Element {
    let text = format!(
        "Made by transect {}. This page contains all of its data, including every raw run, as JSON in the element with the id “report”.",
        report.version
    );
    el("footer").child(el("p").text(text)).child(el("p").attr("id", "save"))
}

/// JSON that is inert in HTML and in XML: what either of them would look at is written as an escape, which it may be only
/// within strings, where alone it occurs.
fn embedded(json: &str) -> String {
    let mut out = String::with_capacity(json.len() + json.len() / 16);
    for c in json.chars() {
        match c {
            c if matches!(c, '<' | '>' | '&') || (is_unsafe(c) && u32::from(c) >= 0x7f) => {
                for unit in c.encode_utf16(&mut [0; 2]) {
                    out.push_str(&format!("\\u{unit:04x}"));
                }
            }
            c => out.push(c),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn embedded_json_is_the_same_json() {
        let hostile = "</script><!--<script>&amp;\u{2028}\u{ffff}\u{0}\u{85}\"\\";
        let json = serde_json::to_string(hostile).unwrap();
        let found = embedded(&json);
        assert!(!found.contains(['<', '>', '&']), "{found}");
        let back: String = serde_json::from_str(&found).unwrap();
        assert_eq!(back, hostile);
    }

    #[test]
    fn style_and_script_are_inert_in_xml() {
        for text in [STYLE, SCRIPT] {
            assert!(!text.contains(['<', '&']) && !text.contains("]]>"));
        }
    }
}
