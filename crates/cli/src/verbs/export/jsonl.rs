//! Every row of every table as one JSON object a line: `{"table":"exits","ts":…,…}`.

use std::io::{self, Write};
use transect_model::cell::Record;
use transect_model::json::write_json_members;
use transect_model::table::{Row, TableSink};

/// Writes each row as it arrives. Rows come in the order their intervals end.
pub(super) struct JsonLines<W: Write> {
    out: W,
    rows: u64,
    /// The first thing the output refused; rows after it are dropped and the error is told at the
    /// end, since a sink cannot refuse.
    failed: Option<io::Error>,
}

impl<W: Write> JsonLines<W> {
    pub(super) fn new(out: W) -> Self {
        JsonLines { out, rows: 0, failed: None }
    }

    /// How many rows were written, and the output.
    pub(super) fn finish(self) -> io::Result<(u64, W)> {
        match self.failed {
            Some(error) => Err(error),
            None => Ok((self.rows, self.out)),
        }
    }

    fn write(&mut self, table: &str, record: &dyn Record) -> io::Result<()> {
        write!(self.out, "{{\"table\":\"{table}\",")?;
        write_json_members(&mut self.out, record)?;
        self.out.write_all(b"}\n")
    }
}

impl<W: Write> TableSink for JsonLines<W> {
    fn row(&mut self, row: Row) {
        if self.failed.is_some() {
            return;
        }
        match self.write(row.table(), row.record()) {
            Ok(()) => self.rows += 1,
            Err(error) => self.failed = Some(error),
        }
    }
}
