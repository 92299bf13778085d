//! The report for people: one section per view, aligned tables, units that fit.

mod domains;
mod findings;
pub(crate) mod grid;
mod lost;
mod machines;
mod names;
mod packets;
mod rates;
mod recording;
mod requests;
mod threads;
mod vcpus;
mod waits;
mod wall;
mod ways;

use super::View;
use super::build::Report;
use super::summary;
use crate::facts::TimeUnit;
use crate::zone::Zone;
use grid::{Column, Grid};
pub(crate) use names::{antagonist, machine_name};
use std::io::{self, Write};
use transect_model::escape::terminal;
use transect_model::guard::{Guard, Syntax, Weight};
pub(crate) use transect_model::number::{
    bytes, count, counted, dash, duration, duration_or_dash, share,
};

/// How a report is set.
#[derive(Clone, Copy, Debug)]
pub struct Style {
    /// Characters per line; `None` where nothing limits them (a file, a pipe).
    pub width: Option<usize>,
    /// May headings be set bold (a terminal that was not told `NO_COLOR`)?
    pub bold: bool,
    /// How many lines each list shows before it says how many more there are.
    pub top: usize,
    /// The zone of wall-clock times.
    pub zone: Zone,
}

/// What headings state if the length of a tick is unknown.
const IN_TICKS: &str = "times in ticks";

/// Enough for any machine a person looks at as a whole.
const MOST_ACTORS: usize = 100;

/// A report on its way out.
struct Page<'a> {
    report: &'a Report,
    style: Style,
    /// Whatever a line embeds, the terminal gets no control of it.
    out: Guard<&'a mut dyn Write>,
}

/// Writes the views in the given order, for people.
///
/// # Errors
/// Of the output.
pub fn write(report: &Report, views: &[View], style: Style, out: &mut dyn Write) -> io::Result<()> {
    let mut page = Page { report, style, out: Guard::new(out, Some(Syntax::Lines)) };
    page.title()?;
    for view in views {
        page.view(*view)?;
    }
    Ok(())
}

impl Page<'_> {
    fn view(&mut self, view: View) -> io::Result<()> {
        match view {
            View::Summary => self.summary(),
            View::Findings => self.findings(),
            View::Recording => self.recording(),
            View::Machines => self.machines(),
            View::Vcpus => self.vcpus(),
            View::Domains => self.domains(),
            View::Cpus => self.cpus(),
            View::Exits => self.exits(),
            View::Antagonists => self.antagonists(),
            View::Threads => self.threads(),
            View::Wakeups => self.wakeups(),
            View::Requests => self.requests(),
            View::Packets => self.packets(),
            View::Windows => self.windows(),
            View::Lost => self.lost(),
            View::Log => self.log(),
            View::Cost => self.cost(),
            // Streamed by `events`, never a section.
            View::Events => Ok(()),
        }
    }

    fn summary(&mut self) -> io::Result<()> {
        writeln!(self.out)?;
        for sentence in summary::sentences(self.report) {
            self.paragraph(&sentence)?;
        }
        Ok(())
    }

    /// A section's heading, with what its numbers refer to.
    fn heading(&mut self, title: &str, explanation: &str) -> io::Result<()> {
        writeln!(self.out)?;
        self.bold(title)?;
        if explanation.is_empty() {
            return writeln!(self.out);
        }
        let room = self.style.width.unwrap_or(usize::MAX);
        if title.chars().count() + 2 + explanation.chars().count() <= room {
            return writeln!(self.out, "  {explanation}");
        }
        writeln!(self.out)?;
        self.paragraph(explanation)
    }

    /// A text set bold where the terminal may.
    fn bold(&mut self, text: &str) -> io::Result<()> {
        if !self.style.bold {
            return write!(self.out, "{}", terminal(text));
        }
        self.out.weight(Weight::Bold)?;
        write!(self.out, "{}", terminal(text))?;
        self.out.weight(Weight::Plain)
    }

    /// The heading of a section with durations, which names their unit where that is not time.
    fn heading_of_times(&mut self, title: &str, explanation: &str) -> io::Result<()> {
        match (self.report.facts.unit, explanation) {
            (TimeUnit::Ns, _) => self.heading(title, explanation),
            (TimeUnit::Ticks, "") => self.heading(title, IN_TICKS),
            (TimeUnit::Ticks, _) => self.heading(title, &format!("{explanation}; {IN_TICKS}")),
        }
    }

    /// An error bound. An exact one is printed with its unit, since a bare 0 reads like "none given".
    fn bound(&self, bound: u64) -> String {
        match bound {
            0 => format!("0 {}", self.report.facts.unit.as_str()),
            _ => self.ns(i64::try_from(bound).unwrap_or(i64::MAX)),
        }
    }

    /// Text, indented and wrapped at the terminal's width.
    fn paragraph(&mut self, text: &str) -> io::Result<()> {
        self.wrapped("  ", 4, text)
    }

    /// Text behind a lead-in, its further lines indented by `hang`.
    fn wrapped(&mut self, lead: &str, hang: usize, text: &str) -> io::Result<()> {
        let room = self.style.width.unwrap_or(usize::MAX).max(40);
        let mut line = lead.to_owned();
        let mut is_fresh = true;
        for word in terminal(text).split(' ') {
            let wanted = line.chars().count() + 1 + word.chars().count();
            if !is_fresh && wanted > room {
                writeln!(self.out, "{line}")?;
                line = " ".repeat(hang);
            } else if !is_fresh {
                line.push(' ');
            }
            line.push_str(word);
            is_fresh = false;
        }
        writeln!(self.out, "{line}")
    }

    /// How many machines, vCPUs, CPUs or domains are shown: whoever has more of them asks for some.
    fn most(&self) -> usize {
        self.style.top.max(MOST_ACTORS)
    }

    /// A list with one line for each machine, vCPU, CPU or domain, cut where there are very many.
    fn actor_grid(&mut self, mut grid: Grid) -> io::Result<()> {
        let rest = grid.cut(self.most());
        self.grid(&grid)?;
        self.left_out(rest, "")
    }

    /// The lists of so many actors as are shown.
    fn groups<'r, T: 'r>(
        &mut self,
        groups: impl Iterator<Item = &'r [T]>,
        mut show: impl FnMut(&mut Self, &'r [T]) -> io::Result<()>,
    ) -> io::Result<()> {
        let mut groups = groups;
        for group in groups.by_ref().take(self.most()) {
            show(self, group)?;
        }
        self.left_out(groups.count(), "lists ")
    }

    fn left_out(&mut self, rest: usize, what: &str) -> io::Result<()> {
        if rest == 0 {
            return Ok(());
        }
        let all = count((self.most() + rest) as u64).replace(',', "");
        let rest = count(rest as u64);
        writeln!(self.out, "  … {rest} {what}more (--vm NAME for one, --top {all} for all)")
    }

    fn grid(&mut self, grid: &Grid) -> io::Result<()> {
        grid.write(&mut self.out, 2, self.style.width)
    }

    /// A list cut at `--top`, with a line on what was left out.
    fn top_grid<T>(
        &mut self,
        columns: &[Column],
        lines: &[T],
        cells: impl Fn(&Self, &T) -> Vec<String>,
    ) -> io::Result<()> {
        let mut grid = Grid::new(columns);
        for line in lines.iter().take(self.style.top) {
            grid.row(cells(self, line));
        }
        self.grid(&grid)?;
        let rest = lines.len().saturating_sub(self.style.top);
        if rest > 0 {
            writeln!(self.out, "  … {} more (--top {})", count(rest as u64), lines.len())?;
        }
        Ok(())
    }

    fn ns(&self, value: i64) -> String {
        duration(value, self.report.facts.unit)
    }

    fn ns_or_dash(&self, value: Option<i64>) -> String {
        duration_or_dash(value, self.report.facts.unit)
    }

    fn window_ns(&self) -> i64 {
        self.report.facts.window.dur_ns()
    }

    fn machine(&self, id: transect_model::ids::MachineId) -> String {
        machine_name(self.report, id)
    }

    fn is_hypervisor(&self, id: transect_model::ids::MachineId) -> bool {
        let kind = transect_model::ids::MachineKind::Hypervisor;
        self.report.machines.iter().any(|m| m.machine_id == id && m.kind == kind)
    }
}
