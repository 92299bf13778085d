//! What has been written, and what has been lost.

use std::sync::atomic::Ordering::Relaxed;

use transect_model::ids::CpuId;

use crate::{
    layout::Log,
    memory::{Memory, Which},
};

/// What one log has to tell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogStats {
    /// The CPU.
    pub cpu: CpuId,
    /// 0: its main log; else the number of the side log.
    pub side: u8,
    /// Bytes written so far.
    pub bytes: u64,
    /// Events written so far to a log that overwrites; 0 for others.
    pub events: u64,
    /// Events lost so far.
    pub lost: u64,
    /// Stamps of the first and the last of them, ns of CLOCK_MONOTONIC.
    pub lost_range_ns: Option<(u64, u64)>,
    /// Events of which a field did not fit its record.
    pub saturated: u64,
    /// Intervals dropped for being shorter than the filters want.
    pub short_intervals: u64,
}

/// All logs, and what the kernel itself dropped.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// One row per log that has been written to or has lost anything.
    pub logs: Vec<LogStats>,
    /// Times a program did not run because it was running on that CPU already: (program, times).
    pub missed: Vec<(String, u64)>,
}

impl Stats {
    pub(crate) fn of(memory: &Memory) -> Self {
        let each = (0..memory.cpus()).flat_map(|cpu| Which::ALL.map(|which| (cpu, which)));
        let rows = each.map(|(cpu, which)| row(cpu, which, memory.log(cpu, which)));
        Self {
            logs: rows.filter(|log| log.bytes > 0 || log.lost > 0).collect(),
            missed: Vec::new(),
        }
    }

    /// Events lost in all logs, and those the kernel dropped.
    pub fn lost(&self) -> u64 {
        let in_logs: u64 = self.logs.iter().map(|log| log.lost).sum();
        let missed: u64 = self.missed.iter().map(|(_, times)| times).sum();
        in_logs + missed
    }

    /// Bytes written to all logs.
    pub fn bytes(&self) -> u64 {
        self.logs.iter().map(|log| log.bytes).sum()
    }
}

fn row(cpu: usize, which: Which, log: &Log) -> LogStats {
    let lost = log.lost.load(Relaxed);
    LogStats {
        cpu: CpuId(u32::try_from(cpu).unwrap_or(u32::MAX)),
        side: which.number(),
        bytes: log.head.load(Relaxed),
        events: log.events.load(Relaxed),
        lost,
        lost_range_ns: (lost > 0)
            .then(|| (log.lost_since_ns.load(Relaxed), log.lost_last_ns.load(Relaxed))),
        saturated: log.saturated.load(Relaxed),
        short_intervals: log.short_intervals.load(Relaxed),
    }
}
