//! Xen's domains: XenMon's metrics, and what their vCPUs did together.

use super::grid::{Grid, left, right};
use super::rates::ratio;
use super::{Page, count, share};
use crate::lines::DomainLine;
use std::io::{self, Write as _};

impl Page<'_> {
    pub(crate) fn domains(&mut self) -> io::Result<()> {
        self.heading_of_times(
            "DOMAINS",
            "XenMon's metrics, and the combined state of each domain's vCPUs",
        )?;
        if self.report.domains.is_empty() {
            return self.paragraph("No Xen domain was recorded.");
        }
        let mut metrics = Grid::new(&[
            left("domain"),
            right("gotten"),
            right("waited"),
            right("blocked"),
            right("runs"),
            right("runs per s").expendable(4),
            right("gotten per run"),
            right("waited per run"),
            right("slice avg").expendable(3),
            right("slice min").expendable(6),
            right("slice max").expendable(5),
            right("I/O"),
            right("I/O per s").expendable(2),
            right("I/O per run").expendable(1),
            right("blocked per I/O"),
        ]);
        let mut states = Grid::new(&[
            left("domain"),
            right("blocked"),
            right("partial run"),
            right("full run"),
            right("partial contention"),
            right("concurrency hazard"),
            right("full contention"),
            right("unknown"),
        ]);
        let report = self.report;
        for line in &report.domains {
            metrics.row(self.metric_cells(line));
            states.row(state_cells(line));
        }
        self.actor_grid(metrics)?;
        writeln!(self.out)?;
        self.actor_grid(states)
    }

    fn metric_cells(&self, line: &DomainLine) -> Vec<String> {
        let per = |ns: i64, of: u64| {
            self.ns_or_dash(i64::try_from(of).ok().and_then(|of| ns.checked_div(of)))
        };
        vec![
            line.machine.clone(),
            share(line.gotten_ns, self.window_ns()),
            share(line.waited_ns, self.window_ns()),
            share(line.blocked_ns, self.window_ns()),
            count(line.executions),
            self.per_second(line.executions, self.window_ns()),
            per(line.gotten_ns, line.executions),
            per(line.waited_ns, line.executions),
            self.ns_or_dash(line.allocated_avg_ns),
            self.ns_or_dash(line.allocated_min_ns),
            self.ns_or_dash(line.allocated_max_ns),
            count(line.io_count),
            self.per_second(line.io_count, self.window_ns()),
            ratio(line.io_count as f64, line.executions as f64),
            per(line.blocked_ns, line.io_count),
        ]
    }
}

fn state_cells(line: &DomainLine) -> Vec<String> {
    let of_window = |ns| share(ns, line.window_ns);
    vec![
        line.machine.clone(),
        of_window(line.all_blocked_ns),
        of_window(line.partial_run_ns),
        of_window(line.full_run_ns),
        of_window(line.partial_contention_ns),
        of_window(line.concurrency_hazard_ns),
        of_window(line.full_contention_ns),
        of_window(line.unknown_ns),
    ]
}
