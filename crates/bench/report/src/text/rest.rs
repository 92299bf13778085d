//! Machines, and what was not measured.

use super::{
    Page,
    grid::{Grid, left, right},
};
use crate::number::{count, counted, memory, quantity};
use transect_bench_core::Fault;

impl Page<'_> {
    pub(super) fn platforms(&mut self) {
        let report = self.view.report;
        if report.platforms.is_empty() {
            return;
        }
        let mut grid = Grid::new(&[
            left("name"),
            left("accelerator"),
            right("CPUs"),
            right("memory"),
            right("opened").expendable(1),
            right("opening").expendable(2),
            left("kernel").expendable(3),
        ]);
        for platform in &report.platforms {
            grid.row(vec![
                platform.name.clone().into(),
                platform.accelerator.clone().into(),
                platform.cpus.to_string().into(),
                memory(platform.memory_bytes).into(),
                count(platform.opened.into()).into(),
                quantity(platform.opening_s, transect_bench_core::Unit::Seconds).into(),
                platform.kernel.clone().into(),
            ]);
        }
        self.heading("platforms", "");
        self.grid(&grid);
        for platform in report.platforms.iter().filter(|platform| !platform.emulated.is_empty()) {
            let what = platform.emulated.join("; ");
            let text =
                format!("{}: emulated, does not transfer to other machines: {what}", platform.name);
            self.wrapped("  ", 4, &text);
        }
    }

    pub(super) fn refused(&mut self) {
        let report = self.view.report;
        if report.refused.is_empty() {
            return;
        }
        self.heading("refused", "not measured");
        for refused in &report.refused {
            let text = format!("{}: {}", refused.cell, refused.refusal);
            self.wrapped("  ", 4, &text);
        }
    }

    pub(super) fn failed(&mut self) {
        let report = self.view.report;
        if report.failed.is_empty() {
            return;
        }
        self.heading("failed", "runs without a result, and the last cause");
        for (cell, times, fault) in &report.failed {
            let why = match fault {
                Fault::Refused(refusal) => refusal.to_string(),
                Fault::Failed(why) => why.clone(),
            };
            let text = format!("{cell}: {}: {why}", counted((*times).into(), "run"));
            self.wrapped("  ", 4, &text);
        }
    }
}
