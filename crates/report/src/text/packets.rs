//! Packets by stage.

use super::Page;
use super::ways::{Group, STAGE, Words};
use crate::lines::{PacketLine, PacketStageLine};
use std::io;

const WORDS: Words = Words {
    one: "packet",
    several: "packets",
    unfinished: "with one event only",
    joined: "machines",
};
/// Where packets are from or go to that is in no recording.
const OUTSIDE: &str = "outside";

impl Page<'_> {
    pub(crate) fn packets(&mut self) -> io::Result<()> {
        self.heading_of_times("PACKETS BY STAGE", STAGE)?;
        let report = self.report;
        if report.packets.is_empty() {
            return self.paragraph("No packets were recorded by number (profile explain).");
        }
        self.groups(report.packets.chunks(1), |page, group| page.packets_of(&group[0]))
    }

    fn packets_of(&mut self, line: &PacketLine) -> io::Result<()> {
        let is_of = |stage: &&PacketStageLine| {
            (stage.machine_id, stage.to_machine_id) == (line.machine_id, line.to_machine_id)
        };
        let stages = self.report.packet_stages.iter().filter(is_of);
        let [from, to] =
            [&line.machine, &line.to_machine].map(|name| name.as_deref().unwrap_or(OUTSIDE));
        let group = Group {
            of: format!("{from} → {to}"),
            count: line.count,
            unfinished: line.unfinished,
            way: &line.way,
            stages: stages.map(|stage| &stage.sums).collect(),
        };
        self.ways(&WORDS, &group)
    }
}
