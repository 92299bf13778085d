//! Tables: sortable, filterable, with a key that the filter looks at.

use super::node::{Element, el};
use crate::{number::DASH, view::cache_word};
use transect_bench_run::plan::Cell;

/// A column's head.
#[derive(Clone, Copy, Debug)]
pub(super) struct Head {
    /// What stands above the column.
    pub name: &'static str,
    /// What it means; empty where its name says it.
    pub about: &'static str,
    /// Set right, and sorted as numbers.
    pub is_number: bool,
}

/// A column of words.
pub(super) const fn words(name: &'static str, about: &'static str) -> Head {
    Head { name, about, is_number: false }
}

/// A column of numbers.
pub(super) const fn numbers(name: &'static str, about: &'static str) -> Head {
    Head { name, about, is_number: true }
}

impl Head {
    /// The column's head as an element.
    pub(super) fn element(self) -> Element {
        let th = el("th").attr("scope", "col");
        let th = if self.is_number { th.class("num") } else { th };
        if self.about.is_empty() {
            th.text(self.name)
        } else {
            th.attr("title", self.about).child(el("abbr").text(self.name))
        }
    }
}

/// A table in a frame that scrolls sideways where the page is narrow.
pub(super) fn table(class: &str, heads: Vec<Element>, rows: Vec<Element>) -> Element {
    let head = el("thead").child(el("tr").children(heads));
    let body = el("tbody").children(rows);
    let table = el("table").class(class).child(head).child(body);
    el("div").class("scroll").attr("tabindex", 0).child(table)
}

/// A field of words, cut with an ellipsis where it is too long.
pub(super) fn word(text: &str) -> Element {
    let field = el("td");
    if text.chars().count() > 20 { field.attr("title", text).text(text) } else { field.text(text) }
}

/// A field with a number as people read it, sorted by its value.
pub(super) fn figure(text: &str, value: Option<f64>) -> Element {
    let field = el("td").class("num");
    let field = match value {
        Some(value) => field.attr("data-v", format!("{value:e}")),
        None => field,
    };
    field.text(minus(text))
}

/// A field of a number that may be unknown.
pub(super) fn maybe_figure(value: Option<f64>, show: impl Fn(f64) -> String) -> Element {
    figure(&value.map_or_else(|| DASH.to_owned(), show), value)
}

/// A hyphen before a number is a minus.
pub(super) fn minus(number: &str) -> String {
    number.replace('-', "\u{2212}")
}

/// What the filter looks for a cell by.
pub(super) fn key(cell: &Cell) -> String {
    let group = &cell.group;
    let cache = cache_word(group.cache);
    format!("{} {cache} ×{} {} {}", group.workload, group.guests, cell.platform, cell.tracer)
        .to_lowercase()
}

/// A row for a cell: workload, platform and tracer first, lighter where they are as in the row above.
pub(super) fn cell_row(cell: &Cell, above: Option<&Cell>, arm: &str) -> Element {
    let has_group = above.is_some_and(|above| above.group == cell.group);
    let has_platform = has_group && above.is_some_and(|above| above.platform == cell.platform);
    let name = |text: &str, is_same: bool| {
        let field = word(text);
        if is_same { field.class("same") } else { field }
    };
    let row = el("tr").attr("data-k", key(cell));
    let row = if has_group || above.is_none() { row } else { row.class("next") };
    row.child(name(&cell.group.to_string(), has_group))
        .child(name(&cell.platform, has_platform))
        .child(word(arm))
}

/// A table of names and values.
pub(super) fn pairs<'a>(pairs: impl IntoIterator<Item = (&'a String, &'a String)>) -> Element {
    let row = |(name, value): (&String, &String)| {
        let name = el("th").attr("scope", "row").text(name);
        el("tr").child(name).child(el("td").text(value))
    };
    let body = el("tbody").children(pairs.into_iter().map(row));
    el("div").class("scroll").child(el("table").class("pairs").child(body))
}
