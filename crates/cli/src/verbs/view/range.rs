//! A sink that lets through what reaches into a range of time, whole.

use transect_model::table::{Row, TableDoc, TableSink, Tables};

/// Rows that have no time at all, such as the machines, always pass.
pub(super) struct InRange<'s> {
    to: &'s mut Tables,
    range: (i64, i64),
}

impl<'s> InRange<'s> {
    pub(super) fn new(to: &'s mut Tables, from: i64, until: i64) -> Self {
        InRange { to, range: (from, until) }
    }

    fn has(&self, row: &Row) -> bool {
        let Some((ts, dur)) = time_of(row) else { return true };
        let (from, until) = self.range;
        // What did not end, and what has no length, counts where it began.
        ts < until && ts.saturating_add(dur.unwrap_or(0)) >= from
    }
}

impl TableSink for InRange<'_> {
    fn row(&mut self, row: Row) {
        if self.has(&row) {
            self.to.row(row);
        }
    }

    fn wants(&self, table: &TableDoc) -> bool {
        self.to.wants(table)
    }
}

fn time_of(row: &Row) -> Option<(i64, Option<i64>)> {
    match row {
        Row::CpuSlice(row) => Some((row.ts, Some(row.dur))),
        Row::VcpuState(row) => Some((row.ts, Some(row.dur))),
        Row::ThreadState(row) => Some((row.ts, Some(row.dur))),
        Row::Exit(row) => Some((row.ts, row.dur)),
        Row::Wakeup(row) => Some((row.ts, row.dur)),
        Row::Irq(row) => Some((row.ts, Some(row.dur))),
        Row::Syscall(row) => Some((row.ts, row.dur)),
        Row::BlockIo(row) => Some((row.ts, row.dur)),
        Row::NetIo(row) => Some((row.ts, None)),
        Row::WorkItem(row) => Some((row.ts, row.dur)),
        Row::Counter(row) => Some((row.ts, None)),
        Row::Window(row) => Some((row.ts, Some(row.dur))),
        Row::DomainState(row) => Some((row.ts, Some(row.dur))),
        Row::Lost(row) => Some((row.ts, Some(row.dur))),
        Row::Machine(_) | Row::Cpu(_) | Row::Vcpu(_) | Row::Thread(_) => None,
        Row::ClockEdge(_) | Row::ClockCheck(_) | Row::ImportLog(_) => None,
    }
}
