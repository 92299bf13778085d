//! From rows to the lines of a report: one file per view, no formatting.

mod antagonists;
mod cpus;
mod domains;
mod exits;
mod findings;
mod names;
mod packets;
mod requests;
mod selection;
mod threads;
mod vcpus;
mod wakeups;
mod ways;

use super::lines::{
    AntagonistLine, CpuLine, DomainLine, ExitLine, PacketLine, PacketStageLine, RequestLine,
    StageLine, ThreadLine, VcpuLine, WakeupLine,
};
use crate::facts::{Facts, RecordingLine};
use antagonists::AntagonistSums;
use anyhow::{Context, bail};
use cpus::CpuSums;
use domains::DomainSums;
use exits::ExitSums;
use findings::FindingRows;
pub(crate) use findings::Findings;
pub(crate) use names::Names;
use packets::PacketSums;
use requests::RequestSums;
use selection::Selection;
use threads::ThreadSums;
use transect_model::table::{
    BlockIo, Cause, ClockCheck, ClockEdge, Counter, ImportLog, Irq, IrqLine, LockWait, Lost,
    Machine, NetIo, Queue, Reclaim, Row, Stack, StackSample, Syscall, TableDoc, TableSink, Tables,
    Throttle, WallClock, Window, WorkItem,
};
use transect_model::time::Span;
use transect_model::wall::WallMap;
use vcpus::VcpuSums;
use wakeups::WakeupSums;

/// Everything a report says, before it is cut to `--top` and written in one of the forms.
pub struct Report {
    pub(crate) facts: Facts,
    pub(crate) findings: Findings,
    pub(crate) machines: Vec<Machine>,
    pub(crate) clock_edges: Vec<ClockEdge>,
    pub(crate) clock_check: Vec<ClockCheck>,
    pub(crate) vcpus: Vec<VcpuLine>,
    pub(crate) vms: Vec<VcpuLine>,
    pub(crate) domains: Vec<DomainLine>,
    pub(crate) cpus: Vec<CpuLine>,
    pub(crate) exits: Vec<ExitLine>,
    pub(crate) antagonists: Vec<AntagonistLine>,
    pub(crate) threads: Vec<ThreadLine>,
    pub(crate) wakeups: Vec<WakeupLine>,
    pub(crate) requests: Vec<RequestLine>,
    pub(crate) request_stages: Vec<StageLine>,
    pub(crate) packets: Vec<PacketLine>,
    pub(crate) packet_stages: Vec<PacketStageLine>,
    pub(crate) windows: Vec<Window>,
    pub(crate) lost: Vec<Lost>,
    pub(crate) import_log: Vec<ImportLog>,
    /// Wall-clock time in the window.
    pub(crate) wall: WallMap,
}

/// Reduces rows to sums as they come, so that memory grows with the actors of a recording and not
/// with its events (but for 8 to 16 bytes per exit and wakeup, 200 per block request and packet, and for a bounded number
/// of rows in which findings are looked for).
#[derive(Default)]
pub struct Gather {
    /// The tables that are small: who is who, windows, clocks, losses.
    small: Tables,
    finding_rows: FindingRows,
    vcpus: VcpuSums,
    domains: DomainSums,
    cpus: CpuSums,
    exits: ExitSums,
    antagonists: AntagonistSums,
    threads: ThreadSums,
    wakeups: WakeupSums,
    requests: RequestSums,
    packets: PacketSums,
}

impl TableSink for Gather {
    fn row(&mut self, row: Row) {
        self.finding_rows.row(&row);
        match row {
            Row::VcpuState(row) => {
                self.vcpus.state(&row);
                self.antagonists.state(&row);
            }
            Row::Exit(row) => {
                self.vcpus.exit(&row);
                self.exits.exit(&row);
            }
            Row::DomainState(row) => self.domains.state(&row),
            Row::CpuSlice(row) => self.cpus.slice(&row),
            Row::ThreadState(row) => self.threads.state(&row),
            Row::Wakeup(row) => self.wakeups.wakeup(&row),
            Row::IoRequest(row) => self.requests.request(&row),
            Row::Packet(row) => self.packets.packet(&row),
            row if UNREPORTED.contains(&row.table()) => {}
            small => self.small.row(small),
        }
    }

    fn wants(&self, table: &TableDoc) -> bool {
        !UNREPORTED.contains(&table.name) || self.finding_rows.wants(table.name)
    }
}

/// Large tables of which nothing in the report is made.
const UNREPORTED: [&str; 14] = [
    Irq::TABLE.name,
    Syscall::TABLE.name,
    BlockIo::TABLE.name,
    NetIo::TABLE.name,
    StackSample::TABLE.name,
    Stack::TABLE.name,
    WorkItem::TABLE.name,
    Counter::TABLE.name,
    Cause::TABLE.name,
    IrqLine::TABLE.name,
    Queue::TABLE.name,
    LockWait::TABLE.name,
    Throttle::TABLE.name,
    Reclaim::TABLE.name,
];

impl Gather {
    /// Of a report that also looks for findings, in a recording whose files have so many bytes.
    pub fn with_findings(source_bytes: u64) -> Self {
        Gather { finding_rows: FindingRows::wanted(source_bytes), ..Gather::default() }
    }

    /// The lines of the report about the VMs of these names; about all without names.
    ///
    /// # Errors
    /// No VM has a name given, or a sum is larger than 64 bits.
    pub fn report(self, facts: Facts, vms: &[String]) -> anyhow::Result<Report> {
        let mut tables = self.small;
        check_sums_fit(&facts, &tables)?;
        let selection = &Selection::by_name(&tables, vms)?;
        let findings = self.finding_rows.findings(&facts, selection);
        let names = Names::new(&tables);
        let (vcpus, vms) = self.vcpus.lines(&tables, &names, selection);
        let domains = self.domains.lines(&tables, &vms, &names, selection);
        let cpus = self.cpus.lines(&names, selection);
        let exits = self.exits.lines(&names, selection);
        let antagonists = self.antagonists.lines(&names, selection);
        let threads = self.threads.lines(&names, selection);
        let wakeups = self.wakeups.lines(&names, selection);
        let (requests, request_stages) = self.requests.lines(&names, selection);
        let (packets, packet_stages) = self.packets.lines(&names, selection);
        drop(names);
        tables.machines.retain(|m| selection.machine_or_host(m));
        tables.clock_check.retain(|r| selection.machine(r.machine_id));
        tables.windows.retain(|r| selection.machine(r.machine_id));
        tables
            .windows
            .sort_by_cached_key(|r| (r.machine_id, r.cgroup.clone(), r.cpu, r.vcpu, r.ts));
        tables.lost.sort_by_key(|r| (r.machine_id, r.cpu, r.ts));
        let window = facts.window;
        let mut wall_clock = std::mem::take(&mut tables.wall_clock);
        // An excerpt has whole rows, which begin before it.
        wall_clock.retain_mut(|row| cut_to(row, window));
        let wall = WallMap::new(wall_clock);
        Ok(Report {
            facts,
            findings,
            machines: tables.machines,
            clock_edges: tables.clock_edges,
            clock_check: tables.clock_check,
            vcpus,
            vms,
            domains,
            cpus,
            exits,
            antagonists,
            threads,
            wakeups,
            requests,
            request_stages,
            packets,
            packet_stages,
            windows: tables.windows,
            lost: tables.lost,
            import_log: tables.import_log,
            wall,
        })
    }
}

impl Report {
    /// Has it domains of Xen?
    pub fn has_domains(&self) -> bool {
        !self.domains.is_empty()
    }

    /// The facts of the recording as one record.
    pub(crate) fn recording(&self) -> RecordingLine {
        let window = self.facts.window;
        let [start_unix_ns, end_unix_ns] =
            [window.start, window.end].map(|ts| self.wall.unix_at(ts.get()));
        let error_ns = self.wall.rows().iter().map(|row| row.error_ns).max();
        RecordingLine {
            start_unix_ns,
            end_unix_ns,
            unix_error_ns: error_ns,
            ..(&self.facts).into()
        }
    }
}

/// Cuts a row of `wall_clock` to the window; false if nothing of it is left.
fn cut_to(row: &mut WallClock, window: Span) -> bool {
    let (from, until) = (row.ts.max(window.start.get()), row.end().min(window.end.get()));
    let (Some(unix_ns), Some(unix_end)) = (row.unix_at(from), row.unix_at(until)) else {
        return false;
    };
    let is_first_part = from == row.ts;
    *row = WallClock {
        ts: from,
        dur: until - from,
        unix_ns,
        unix_dur: unix_end - unix_ns,
        error_ns: row.error_ns,
        step_ns: row.step_ns.filter(|_| is_first_part && from > window.start.get()),
    };
    from < until
}

/// A VM's sums go up to the window times its vCPUs; stamps so broken that this leaves 64 bits must
/// not turn into a wrapped number.
fn check_sums_fit(facts: &Facts, tables: &Tables) -> anyhow::Result<()> {
    let vcpus = i64::try_from(tables.vcpus.len().max(1)).context("vCPU count exceeds 2^63")?;
    if facts.window.dur_ns().checked_mul(vcpus).is_none() {
        bail!(
            "{}: the timestamps span {} {}, longer than any recording: one of its timestamps is corrupt \
             (see --view log)",
            facts.path,
            facts.window.dur_ns(),
            facts.unit.as_str()
        );
    }
    Ok(())
}
