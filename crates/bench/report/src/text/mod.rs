//! The report on a terminal: one line per cell, grouped by families, and what must be known before a figure is used.

mod cells;
mod comparisons;
mod grid;
mod rest;

use super::{
    Report,
    number::{count, counted, counted_len, span, utc},
    view::View,
};
use grid::{Grid, Tone};
use transect_model::escape::terminal;

/// How it is set.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Style {
    /// Characters per line; `None` where nothing limits them (a file, a pipe).
    pub width: Option<usize>,
    /// Colours and bold headings, for a terminal that was not told `NO_COLOR`. Nothing is told by colour alone.
    pub has_colour: bool,
}

/// The report as text, every line ended.
#[must_use]
pub fn report(report: &Report, style: Style) -> String {
    let mut page = Page { view: View::new(report), style, out: String::new() };
    page.title();
    page.warnings();
    page.families();
    page.noise();
    page.platforms();
    page.refused();
    page.failed();
    page.out
}

/// A report on its way out.
struct Page<'a> {
    view: View<'a>,
    style: Style,
    out: String,
}

impl Page<'_> {
    fn title(&mut self) {
        let report = self.view.report;
        let name = if report.name.is_empty() { "benchmark" } else { &report.name };
        let title = Tone::Bold.paint(&terminal(name), self.style.has_colour);
        self.out.push_str(&title);
        self.out.push('\n');
        if !report.about.is_empty() {
            self.wrapped("  ", 2, &report.about);
        }
        self.wrapped("  ", 2, &facts(report));
        let state = match &report.finished {
            Some(why) => format!("finished: {why}"),
            None => "not finished".to_owned(),
        };
        self.wrapped("  ", 2, &state);
    }

    fn warnings(&mut self) {
        let report = self.view.report;
        if report.warnings.is_empty() {
            return;
        }
        self.out.push('\n');
        for warning in &report.warnings {
            self.wrapped("! ", 2, warning);
        }
    }

    /// A section's heading, with what its numbers refer to.
    fn heading(&mut self, title: &str, explanation: &str) {
        let title = terminal(title);
        self.out.push('\n');
        self.out.push_str(&Tone::Bold.paint(&title, self.style.has_colour));
        let room = self.style.width.unwrap_or(usize::MAX);
        let together = title.chars().count() + 2 + explanation.chars().count();
        if explanation.is_empty() {
            self.out.push('\n');
        } else if together <= room {
            self.out.push_str(&format!("  {explanation}\n"));
        } else {
            self.out.push('\n');
            self.wrapped("  ", 2, explanation);
        }
    }

    /// Text behind a lead-in, wrapped at the terminal's width, further lines indented by `hang`.
    fn wrapped(&mut self, lead: &str, hang: usize, text: &str) {
        let room = self.style.width.unwrap_or(usize::MAX).max(20);
        let mut line = lead.to_owned();
        let mut is_fresh = true;
        for word in terminal(text).split(' ') {
            let wanted = line.chars().count() + 1 + word.chars().count();
            if !is_fresh && wanted > room {
                self.out.push_str(line.trim_end());
                self.out.push('\n');
                line = " ".repeat(hang);
            } else if !is_fresh {
                line.push(' ');
            }
            line.push_str(word);
            is_fresh = false;
        }
        self.out.push_str(line.trim_end());
        self.out.push('\n');
    }

    fn grid(&mut self, grid: &Grid) {
        if !grid.is_empty() {
            grid.write(&mut self.out, self.style.width, self.style.has_colour);
        }
    }
}

fn facts(report: &Report) -> String {
    let mut facts = vec![
        counted(report.blocks.into(), "block"),
        counted_len(report.cells.len(), "cell"),
        counted_len(report.comparisons.len(), "comparison"),
    ];
    let kept_out = [(report.refused.len(), "refused"), (report.failed.len(), "failed")];
    for (number, what) in kept_out.into_iter().filter(|(number, _)| *number > 0) {
        facts.push(format!("{} {what}", count(number as u64)));
    }
    if report.resumes > 0 {
        facts.push(format!("resumed {}", counted(report.resumes.into(), "time")));
    }
    if report.began_unix_ns > 0 {
        let took = span(report.last_unix_ns.saturating_sub(report.began_unix_ns));
        facts.push(format!("{}, took {took}", utc(report.began_unix_ns)));
    }
    if !report.version.is_empty() {
        facts.push(format!("transect {}", report.version));
    }
    facts.join(" · ")
}
