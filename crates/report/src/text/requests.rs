//! Block requests by stage.

use super::grid::{Column, left, right};
use super::{Page, count, counted, share};
use crate::lines::{RequestLine, StageLine};
use std::io;

const COLUMNS: [Column; 9] = [
    left("stage"),
    right("requests").expendable(3),
    right("of their time"),
    right("p50"),
    right("p90").expendable(4),
    right("p99"),
    right("p99.9").expendable(2),
    right("max").expendable(1),
    right("of the slowest 1 %"),
];

impl Page<'_> {
    pub(crate) fn requests(&mut self) -> io::Result<()> {
        self.heading_of_times(
            "BLOCK REQUESTS BY STAGE",
            "a stage lasts from one event to the next that is known",
        )?;
        if self.report.requests.is_empty() {
            return self.paragraph("No block requests were recorded (block:block_rq_issue).");
        }
        let report = self.report;
        let groups = report.requests.chunks(1);
        self.groups(groups, |page, group| page.requests_of(&group[0]))
    }

    fn requests_of(&mut self, line: &RequestLine) -> io::Result<()> {
        let ended = line.count - line.unfinished;
        let mut title = format!(
            "{} {} {}: {}",
            line.machine,
            line.device,
            line.op,
            counted(line.count, "request")
        );
        if line.unfinished > 0 {
            title += &format!(", {} without an end", count(line.unfinished));
        }
        if ended > 0 {
            title += &format!(
                "; p50 {}, p99 {}, p99.9 {}, max {}",
                self.ns_or_dash(line.p50_ns),
                self.ns_or_dash(line.p99_ns),
                self.ns_or_dash(line.p999_ns),
                self.ns_or_dash(line.max_ns)
            );
        }
        self.paragraph(&title)?;
        if ended == 0 {
            return Ok(());
        }
        let joined = line.by_id + line.by_context + line.by_order;
        if joined > 0 {
            let of = |part: u64| share(part.cast_signed(), joined.cast_signed());
            let (id, context, order) = (of(line.by_id), of(line.by_context), of(line.by_order));
            self.paragraph(&format!(
                "guest and host joined by id in {id}, by context in {context}, by order alone in {order}"
            ))?;
        }
        if !line.missing.is_empty() {
            let whole = share(line.with_all_stages.cast_signed(), ended.cast_signed());
            self.paragraph(&format!(
                "all stages known in {whole}; missing (requests): {}",
                line.missing
            ))?;
        }
        let is_of = |stage: &&StageLine| {
            (stage.machine_id, &stage.device, &stage.op)
                == (line.machine_id, &line.device, &line.op)
        };
        let stages: Vec<&StageLine> = self.report.request_stages.iter().filter(is_of).collect();
        let mut grid = super::grid::Grid::new(&COLUMNS);
        for stage in &stages {
            grid.row(self.stage_cells(stage, line));
        }
        self.grid(&grid)
    }

    fn stage_cells(&self, stage: &StageLine, line: &RequestLine) -> Vec<String> {
        vec![
            stage.stage.clone(),
            count(stage.count),
            share(stage.total_ns, line.total_ns),
            self.ns_or_dash(stage.p50_ns),
            self.ns_or_dash(stage.p90_ns),
            self.ns_or_dash(stage.p99_ns),
            self.ns_or_dash(stage.p999_ns),
            self.ns_or_dash(stage.max_ns),
            share(stage.of_slowest_ns, line.slowest_ns),
        ]
    }
}
