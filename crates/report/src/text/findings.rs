//! What was found, in sentences.

use super::Page;
use crate::explain::write_findings;
use std::io::{self, Write};

impl Page<'_> {
    pub(super) fn findings(&mut self) -> io::Result<()> {
        self.heading_of_times(
            "FINDINGS",
            "rules that hold in the range; transect explain shows the paths",
        )?;
        let found = &self.report.findings;
        if let Some(reason) = found.reason() {
            return writeln!(self.out, "  none: {reason}");
        }
        let lines = found.lines();
        write_findings(&mut self.out, lines, self.style.top)
    }
}
