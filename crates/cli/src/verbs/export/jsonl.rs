//! Every row of every table as one JSON object a line: `{"table":"exits","ts":…,…}`.

use std::io::{self, Write};
use transect_model::cell::Record;
use transect_model::json::write_json_members;
use transect_model::table::{self, Row, TableSink};

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
        let (table, record) = named(&row);
        match self.write(table, record) {
            Ok(()) => self.rows += 1,
            Err(error) => self.failed = Some(error),
        }
    }
}

/// The row with its table's name.
fn named(row: &Row) -> (&'static str, &dyn Record) {
    let (table, record): (_, &dyn Record) = match row {
        Row::Machine(r) => (table::Machine::TABLE, r),
        Row::Cpu(r) => (table::CpuRow::TABLE, r),
        Row::Vcpu(r) => (table::Vcpu::TABLE, r),
        Row::Thread(r) => (table::Thread::TABLE, r),
        Row::Cgroup(r) => (table::Cgroup::TABLE, r),
        Row::CpuSlice(r) => (table::CpuSlice::TABLE, r),
        Row::VcpuState(r) => (table::VcpuStateRow::TABLE, r),
        Row::ThreadState(r) => (table::ThreadStateRow::TABLE, r),
        Row::Exit(r) => (table::Exit::TABLE, r),
        Row::Wakeup(r) => (table::Wakeup::TABLE, r),
        Row::Irq(r) => (table::Irq::TABLE, r),
        Row::Syscall(r) => (table::Syscall::TABLE, r),
        Row::BlockIo(r) => (table::BlockIo::TABLE, r),
        Row::NetIo(r) => (table::NetIo::TABLE, r),
        Row::WorkItem(r) => (table::WorkItem::TABLE, r),
        Row::Counter(r) => (table::Counter::TABLE, r),
        Row::Window(r) => (table::Window::TABLE, r),
        Row::DomainState(r) => (table::DomainStateRow::TABLE, r),
        Row::ClockEdge(r) => (table::ClockEdge::TABLE, r),
        Row::ClockCheck(r) => (table::ClockCheck::TABLE, r),
        Row::WallClock(r) => (table::WallClock::TABLE, r),
        Row::Lost(r) => (table::Lost::TABLE, r),
        Row::ImportLog(r) => (table::ImportLog::TABLE, r),
    };
    (table.name, record)
}
