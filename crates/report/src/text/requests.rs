//! Block requests by stage.

use super::Page;
use super::ways::{Group, STAGE, Words};
use crate::lines::{RequestLine, StageLine};
use std::io;

const WORDS: Words = Words {
    one: "request",
    several: "requests",
    unfinished: "without an end",
    joined: "guest and host",
};

impl Page<'_> {
    pub(crate) fn requests(&mut self) -> io::Result<()> {
        self.heading_of_times("BLOCK REQUESTS BY STAGE", STAGE)?;
        let report = self.report;
        if report.requests.is_empty() {
            return self.paragraph("No block requests were recorded (block:block_rq_issue).");
        }
        self.groups(report.requests.chunks(1), |page, group| page.requests_of(&group[0]))
    }

    fn requests_of(&mut self, line: &RequestLine) -> io::Result<()> {
        let is_of = |stage: &&StageLine| {
            (stage.machine_id, &stage.device, &stage.op)
                == (line.machine_id, &line.device, &line.op)
        };
        let stages = self.report.request_stages.iter().filter(is_of);
        let group = Group {
            of: format!("{} {} {}", line.machine, line.device, line.op),
            count: line.count,
            unfinished: line.unfinished,
            way: &line.way,
            stages: stages.map(|stage| &stage.sums).collect(),
        };
        self.ways(&WORDS, &group)
    }
}
