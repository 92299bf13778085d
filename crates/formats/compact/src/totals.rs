//! What the writer counted, as the file's last block says it.

use crate::error::LogId;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;
use std::collections::BTreeMap;

/// The totals of a recording.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Totals {
    /// One row per log.
    pub logs: Vec<LogTotals>,
    /// Whatever else the writer has to say; readers keep it.
    #[serde(flatten)]
    pub more: BTreeMap<String, Value>,
}

/// The totals of one log.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct LogTotals {
    /// CPU.
    pub cpu: u32,
    /// Which of its logs: 0 is the main log.
    #[serde(default, deserialize_with = "side")]
    pub side: u8,
    /// Bytes ever written to the log.
    #[serde(default)]
    pub bytes: u64,
    /// Events that the writer, a flight recorder, overwrote or left out before the log's first block.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub overwritten: u64,
    /// Events that found no room.
    #[serde(default)]
    pub lost: u64,
    /// Stamp of the first of them, in ns; 0 if none.
    #[serde(default)]
    pub lost_first_ns: u64,
    /// Stamp of the last of them, in ns; 0 if none.
    #[serde(default)]
    pub lost_last_ns: u64,
    /// Values that were too large for their field.
    #[serde(default)]
    pub saturated: u64,
    /// Whatever else.
    #[serde(flatten)]
    pub more: BTreeMap<String, Value>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde's signature")]
fn is_zero(number: &u64) -> bool {
    *number == 0
}

/// A number; in files of the time when there was one side log, whether it is that.
fn side<'de, D: Deserializer<'de>>(from: D) -> Result<u8, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Side {
        Number(u8),
        Is(bool),
    }
    Ok(match Side::deserialize(from)? {
        Side::Number(number) => number,
        Side::Is(is) => u8::from(is),
    })
}

impl Totals {
    /// Events that are missing before a log's first block, if they were counted.
    pub fn overwritten(&self, log: LogId) -> Option<u64> {
        let row = self.logs.iter().find(|row| row.cpu == log.cpu.0 && row.side == log.side)?;
        Some(row.overwritten).filter(|events| *events > 0)
    }

    /// Events a log lost.
    pub fn lost(&self, log: LogId) -> Option<u64> {
        let row = self.logs.iter().find(|row| row.cpu == log.cpu.0 && row.side == log.side)?;
        Some(row.lost)
    }
}
