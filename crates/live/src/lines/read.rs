//! From lines to snapshots.

use super::building::Building;
use crate::snapshot::Snapshot;
use serde_json::{Map, Value};
use std::io::{self, BufRead, Read as _};

/// A longer line is none of ours: names and control groups are the longest of what it has.
const MAX_LINE_BYTES: usize = 1 << 20;

/// What is wrong with a log of windows. After [`LinesError::Cut`] and [`LinesError::Broken`] reading goes on
/// with the next whole window.
#[derive(Debug, thiserror::Error)]
pub enum LinesError {
    /// It cannot be read.
    #[error("cannot read line {line}")]
    Io {
        /// Counted from 1.
        line: u64,
        /// Why.
        source: io::Error,
    },
    /// A line that is none of a log's, or does not belong there.
    #[error("line {line}: {what}")]
    Broken {
        /// Counted from 1.
        line: u64,
        /// What is wrong.
        what: String,
    },
    /// The log ends inside a window, or another window begins there: its writer was killed, or it is being
    /// written just now.
    #[error(
        "line {line}: the log ends inside a window ({read} of {rows} rows): its writer ended while it wrote \
         this window; all windows before it are complete"
    )]
    Cut {
        /// Where it ends, counted from 1.
        line: u64,
        /// Rows that are there.
        read: u64,
        /// Rows that it had; 0 where not even that is known.
        rows: u64,
    },
}

/// Gives the windows of a log, one after the other. Keeps one window at a time.
pub struct Reader<R> {
    input: R,
    /// Number of the line in `buffer`.
    line: u64,
    buffer: Vec<u8>,
    /// The window whose first line ended the one before it.
    begun: Option<Building>,
    /// After an error: until the next window begins.
    skips: bool,
    /// After the last line, or an error of the input.
    ended: bool,
}

impl<R: BufRead> Reader<R> {
    /// Reads from the beginning of a log, or from before any of its `snapshot` lines.
    pub fn new(input: R) -> Self {
        Reader { input, line: 0, buffer: Vec::new(), begun: None, skips: false, ended: false }
    }

    /// The number of the line that was read last, counted from 1.
    pub fn line(&self) -> u64 {
        self.line
    }

    /// Takes the next line into the buffer. False at the end.
    fn take_line(&mut self) -> Result<bool, LinesError> {
        self.buffer.clear();
        self.line += 1;
        let mut limited = self.input.by_ref().take(MAX_LINE_BYTES as u64);
        match limited.read_until(b'\n', &mut self.buffer) {
            Ok(0) => Ok(false),
            Ok(_) if self.buffer.ends_with(b"\n") || self.buffer.len() < MAX_LINE_BYTES => Ok(true),
            Ok(_) => {
                self.ended = true;
                Err(self.broken("longer than 1 MiB: this is not a log of windows".to_owned()))
            }
            Err(source) => {
                self.ended = true;
                Err(LinesError::Io { line: self.line, source })
            }
        }
    }

    fn broken(&mut self, what: String) -> LinesError {
        self.skips = true;
        LinesError::Broken { line: self.line, what }
    }

    fn cut(&self, building: Option<&Building>) -> LinesError {
        let (read, rows) = building.map_or((0, 0), Building::progress);
        LinesError::Cut { line: self.line, read, rows }
    }

    /// The next window; none at the end.
    fn next_window(&mut self) -> Result<Option<Snapshot>, LinesError> {
        let mut building = self.begun.take();
        while self.take_line()? {
            if self.buffer.trim_ascii().is_empty() {
                continue;
            }
            let is_last = !self.buffer.ends_with(b"\n");
            let (table, object) = match parse(&self.buffer) {
                Ok(parsed) => parsed,
                // A line without an end is one whose writer did not come to its end.
                Err(_) if is_last && (building.is_some() || self.is_cut_header()) => {
                    self.ended = true;
                    return Err(self.cut(building.as_ref()));
                }
                Err(_) if self.skips => continue,
                Err(what) => return Err(self.broken(what)),
            };
            if table == "snapshot" {
                self.skips = false;
                let begun = Building::begin(&object).map_err(|what| self.broken(what))?;
                if let Some(before) = building.replace(begun) {
                    self.begun = building;
                    return Err(self.cut(Some(&before)));
                }
                continue;
            }
            let Some(open) = &mut building else {
                if self.skips {
                    continue;
                }
                let what =
                    "a row outside a window: the log must begin with a row of table \"snapshot\"";
                return Err(self.broken(what.to_owned()));
            };
            if let Err(what) = open.add(&table, &object, self.line) {
                return Err(self.broken(format!("{table}: {what}")));
            }
            if open.is_whole()
                && let Some(whole) = building.take()
            {
                return whole.finish().map(Some).map_err(|(line, what)| LinesError::Broken {
                    line: line.unwrap_or(self.line),
                    what,
                });
            }
        }
        self.ended = true;
        match building {
            Some(open) => Err(self.cut(Some(&open))),
            None => Ok(None),
        }
    }

    /// Is what is in the buffer the beginning of a window's first line, as far as it goes?
    fn is_cut_header(&self) -> bool {
        let first = b"{\"table\":\"snapshot\",";
        let common = first.len().min(self.buffer.len());
        self.buffer[..common] == first[..common]
    }
}

impl<R: BufRead> Iterator for Reader<R> {
    type Item = Result<Snapshot, LinesError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.ended {
            return None;
        }
        self.next_window().transpose()
    }
}

/// The row's table, and the row.
fn parse(line: &[u8]) -> Result<(String, Map<String, Value>), String> {
    let wrong = |error: serde_json::Error| {
        let (error, byte) = (error.to_string(), error.column());
        let what = error.split(" at line").next().unwrap_or_default();
        format!("not a JSON object ({what} at byte {byte}): this is not a log of windows")
    };
    let mut object: Map<String, Value> = serde_json::from_slice(line).map_err(wrong)?;
    match object.remove("table") {
        Some(Value::String(table)) => Ok((table, object)),
        _ => Err("the row has no \"table\"".to_owned()),
    }
}
