//! What is missing, and what went wrong while reading.

use super::grid::{Grid, left, right};
use super::{Page, count};
use std::collections::BTreeMap;
use std::io;
use transect_model::table::{ImportLog, Lost};

#[derive(Default)]
struct Sum {
    stretches: u64,
    events: u64,
    uncounted: u64,
    dur_ns: i64,
}

impl Page<'_> {
    pub(crate) fn lost(&mut self) -> io::Result<()> {
        self.heading_of_times("LOST EVENTS", "")?;
        if self.report.lost.is_empty() {
            return self.paragraph("None.");
        }
        let mut sums: BTreeMap<_, Sum> = BTreeMap::new();
        for row in &self.report.lost {
            add(sums.entry((row.machine_id, row.cpu, row.cause.clone())).or_default(), row);
        }
        let mut grid = Grid::new(&[
            left("where"),
            left("cause"),
            right("gaps"),
            right("events"),
            right("time hidden"),
        ]);
        for ((machine, cpu, cause), sum) in &sums {
            let machine = self.machine(*machine);
            let at = cpu.map_or_else(|| machine.clone(), |cpu| format!("{machine} cpu{cpu}"));
            grid.row(vec![
                at,
                cause.replace('_', " "),
                count(sum.stretches),
                events(sum),
                self.ns(sum.dur_ns),
            ]);
        }
        self.grid(&grid)
    }

    pub(crate) fn log(&mut self) -> io::Result<()> {
        self.heading("IMPORT LOG", "")?;
        if self.report.import_log.is_empty() {
            return self.paragraph("Empty: no problems, and nothing was inferred.");
        }
        for row in self.report.import_log.iter().take(self.style.top) {
            self.paragraph(&log_words(row))?;
        }
        let rest = self.report.import_log.len().saturating_sub(self.style.top);
        if rest > 0 {
            self.paragraph(&format!("… {} more (--top {})", rest, rest + self.style.top))?;
        }
        Ok(())
    }
}

fn add(sum: &mut Sum, row: &Lost) {
    sum.stretches += 1;
    sum.events += row.count.unwrap_or(0);
    sum.uncounted += u64::from(row.count.is_none());
    sum.dur_ns += row.dur;
}

fn events(sum: &Sum) -> String {
    match (sum.events, sum.uncounted) {
        (0, _) => "not counted".to_owned(),
        (events, 0) => count(events),
        (events, _) => format!("at least {}", count(events)),
    }
}

/// "host.dat at byte 4096: … (data lost)"
fn log_words(row: &ImportLog) -> String {
    let at = row.offset.map_or_else(String::new, |at| format!(" at byte {at}"));
    let loss = if row.data_loss { " (data lost)" } else { "" };
    format!("{}{at}: {}{loss}", row.source, row.message)
}
