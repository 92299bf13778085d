//! The title, the facts of the recording and what it cost.

use super::{Page, bytes, count, counted, dash, share};
use crate::facts::{CostLine, Facts, Stored};
use crate::zone::Digits;
use std::io::{self, Write as _};
use transect_model::ids::MachineKind;
use transect_model::time::Span;

impl Page<'_> {
    /// One line: which recording, how long, of what.
    pub(crate) fn title(&mut self) -> io::Result<()> {
        let facts = &self.report.facts;
        let of_kind = |kind| self.report.machines.iter().filter(|m| m.kind == kind).count() as u64;
        let xen = of_kind(MachineKind::Hypervisor) > 0;
        let of_what = match of_kind(MachineKind::Guest) {
            n if xen => format!("Xen and {}", counted(n, "domain")),
            0 => "host only".to_owned(),
            n => format!("host and {}", counted(n, "VM")),
        };
        let state = match facts.finished {
            _ if facts.ending.is_early() => " · ended early",
            true => "",
            false if facts.ending.is_running => " · still being recorded",
            false => " · recorder did not finish",
        };
        let part = facts.excerpt_of.as_ref().map_or_else(String::new, |of| {
            let Span { start, end } = facts.window;
            format!(" · excerpt of {of}, from {start} until {end} {}", facts.unit.as_str())
        });
        let wall = self.wall_title().map_or_else(String::new, |wall| format!(" · {wall}"));
        let title = format!(
            "{} · {} · {of_what}{wall}{part}{state}",
            facts.path,
            self.ns(self.window_ns())
        );
        self.bold(&title)?;
        writeln!(self.out)
    }

    pub(crate) fn recording(&mut self) -> io::Result<()> {
        self.heading_of_times("RECORDING", "")?;
        let line = self.report.recording();
        let at = |unix_ns| self.style.zone.text(unix_ns, Digits::Seconds);
        let recorded = match (&line.created_unix_ns, &line.transect_version) {
            (Some(created), Some(version)) => format!("{} by transect {version}", at(*created)),
            (Some(created), None) => at(*created),
            (None, Some(version)) => format!("by transect {version}"),
            (None, None) => "by another tool (imported)".to_owned(),
        };
        let window = format!(
            "{} (trace time {} to {} {})",
            self.ns(line.dur_ns),
            line.start_ns,
            line.end_ns,
            self.report.facts.unit.as_str()
        );
        let ended = self.report.facts.ending.describe(line.finished);
        let is_import = facts_are_of_import(&self.report.facts);
        let made = if is_import { "imported" } else { "recorded" };
        self.fact(made, &recorded)?;
        self.fact("command", &line.command.unwrap_or_else(dash))?;
        if let Some(of) = &line.excerpt_of {
            let what = "recorded, command, ended, cost, machines, clocks and log describe the whole \
                        recording";
            self.fact("excerpt", &format!("of {of}; {what}"))?;
        }
        if let Some(snapshot) = &line.snapshot {
            self.fact("snapshot", snapshot)?;
        }
        if let Some(filter) = &line.filter {
            self.fact("filter", filter)?;
        }
        self.fact("window", &window)?;
        for line in self.wall_lines(is_import || line.transect_version.is_none()) {
            self.fact("wall clock", &line)?;
        }
        self.fact("ended", &ended)?;
        if let Some(stored) = self.report.facts.stored {
            self.fact("stored", &stored_words(&stored))?;
        }
        for note in self.report.facts.notes.clone() {
            self.fact("note", &note)?;
        }
        Ok(())
    }

    pub(crate) fn cost(&mut self) -> io::Result<()> {
        self.heading("COST OF THE RECORDING", "")?;
        let Some(cost) = self.report.facts.cost.as_ref().map(CostLine::from) else {
            return self
                .paragraph("Unknown: the recording was imported, or its recorder did not finish.");
        };
        let cpu_ns = cpu_ns(&cost);
        let traced_ns = i64::try_from(cost.traced_cpu_ns).unwrap_or(0);
        let of_one_cpu = share(traced_ns, i64::try_from(cost.wall_ns).unwrap_or(0));
        let (traced, all) = (self.ns_wall(traced_ns), self.ns_wall(cpu_ns));
        let cpu = format!("{traced} while recording ({of_one_cpu} of one CPU), {all} in total");
        self.fact("CPU", &cpu)?;
        let rate = cost.bytes as f64 * 1e9 / cost.wall_ns.max(1) as f64;
        self.fact("written", &format!("{} ({}/s)", bytes(cost.bytes as f64), bytes(rate)))?;
        let Some(events) = cost.events else { return Ok(()) };
        self.fact("events", &count(events))?;
        if events > 0 {
            let cpu_each = i64::try_from(events).map_or(0, |events| traced_ns / events);
            let bytes_each = cost.bytes as f64 / events as f64;
            self.fact(
                "per event",
                &format!("{} of CPU, {bytes_each:.1} B", self.ns_wall(cpu_each)),
            )?;
        }
        Ok(())
    }

    /// The cost is wall-clock time whatever the trace clock counts.
    fn ns_wall(&self, ns: i64) -> String {
        super::duration(ns, crate::facts::TimeUnit::Ns)
    }

    fn fact(&mut self, name: &str, value: &str) -> io::Result<()> {
        self.wrapped(&format!("  {name:<11}"), 13, value)
    }
}

/// "76,741 events in 1.59 MB (20.7 B each), as tables 260 kB (3.4 B each)"
fn stored_words(stored: &Stored) -> String {
    let Stored { events, source_bytes, table_bytes } = *stored;
    let size = |of: u64| match events {
        0 => bytes(of as f64),
        _ => format!("{} ({:.1} B each)", bytes(of as f64), of as f64 / events as f64),
    };
    let tables = table_bytes.map_or_else(String::new, |of| format!(", as tables {}", size(of)));
    match source_bytes {
        Some(source_bytes) => {
            format!("{} in {}{tables}", counted(events, "event"), size(source_bytes))
        }
        None => format!("{}{tables}", counted(events, "event")),
    }
}

/// An imported recording's command line is that of `transect import`.
fn facts_are_of_import(facts: &Facts) -> bool {
    facts.command.get(1).is_some_and(|verb| verb == "import")
}

/// CPU time of the recorder, user and system, ns.
fn cpu_ns(cost: &CostLine) -> i64 {
    cost.cpu_user_ns.checked_add(cost.cpu_sys_ns).and_then(|ns| i64::try_from(ns).ok()).unwrap_or(0)
}
