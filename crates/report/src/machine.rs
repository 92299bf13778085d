//! The report for programs: JSON with every view, or CSV of one.

use super::View;
use super::build::Report;
use super::lines::{
    AntagonistLine, CpuLine, DomainLine, ExitLine, PacketLine, PacketStageLine, RequestLine,
    StageLine, ThreadLine, VcpuLine, WakeupLine,
};
use super::summary;
use crate::facts::{CostLine, RecordingLine, TimeUnit};
use crate::records::{write_csv, write_csv_header, write_json, write_json_str};
use std::io::{self, Write};
use transect_explain::lines::FindingLine;
use transect_model::cell::{Cell, Record};
use transect_model::ids::MachineId;
use transect_model::table::{
    ClockCheck, ClockEdge, ImportLog, Lost, Machine, TableDoc, WallClock, Window,
};

/// The version of the JSON's shape. New members may come without a new number; a member that
/// changes its meaning or goes away raises it.
pub(crate) const SCHEMA: &str = "transect-report/1";

/// Writes the views as one JSON object.
///
/// # Errors
/// Of the output.
pub fn write_json_report(
    report: &Report,
    views: &[View],
    top: Option<usize>,
    out: &mut dyn Write,
) -> io::Result<()> {
    write!(out, "{{\"schema\":\"{SCHEMA}\",\"time_unit\":\"{}\"", report.facts.unit.as_str())?;
    for view in views {
        match view {
            View::Summary => write_summary(report, out)?,
            View::Findings if report.findings.reason().is_some() => {
                out.write_all(b",\n\"findings\":null")?;
            }
            View::Recording => write_recording(report, out)?,
            View::Cost => write_cost(report, out)?,
            _ => write_lists(report, *view, top, out)?,
        }
    }
    out.write_all(b"}\n")
}

fn write_summary(report: &Report, out: &mut dyn Write) -> io::Result<()> {
    out.write_all(b",\n\"summary\":")?;
    write_strings(&summary::sentences(report), out)
}

fn write_recording(report: &Report, out: &mut dyn Write) -> io::Result<()> {
    out.write_all(b",\n\"recording\":")?;
    write_json(out, &report.recording())?;
    out.write_all(b",\n\"notes\":")?;
    write_strings(&report.facts.notes, out)
}

fn write_cost(report: &Report, out: &mut dyn Write) -> io::Result<()> {
    out.write_all(b",\n\"cost\":")?;
    match &report.facts.cost {
        Some(cost) => write_json(out, &CostLine::from(cost)),
        None => out.write_all(b"null"),
    }
}

fn write_strings(strings: &[String], out: &mut dyn Write) -> io::Result<()> {
    out.write_all(b"[")?;
    for (at, text) in strings.iter().enumerate() {
        out.write_all(if at == 0 { b"" } else { b"," })?;
        write_json_str(out, text)?;
    }
    out.write_all(b"]")
}

fn write_lists(
    report: &Report,
    view: View,
    top: Option<usize>,
    out: &mut dyn Write,
) -> io::Result<()> {
    for list in lists(report, view) {
        write!(out, ",\n\"{}\":[", list.name)?;
        for (at, record) in list.cut(top).enumerate() {
            out.write_all(if at == 0 { b"\n" } else { b",\n" })?;
            write_json(out, record)?;
        }
        out.write_all(b"]")?;
    }
    Ok(())
}

/// Writes one view as CSV: a header line, then one line per record. A view of several lists
/// (vcpus with their sums, machines with their clocks) writes its first, which holds the rest's
/// keys; `--json` has them all.
///
/// # Errors
/// Of the output.
pub fn write_csv_report(
    report: &Report,
    view: View,
    top: Option<usize>,
    out: &mut dyn Write,
) -> io::Result<()> {
    match view {
        View::Summary => {
            write_csv_header(out, &["sentence"])?;
            summary::sentences(report)
                .iter()
                .try_for_each(|text| writeln!(out, "\"{}\"", text.replace('"', "\"\"")))
        }
        View::Recording => Form::of(report, view).write(
            RecordingLine::COLUMNS,
            std::iter::once(&report.recording() as &dyn Record),
            out,
        ),
        View::Cost => {
            write_csv_header(out, CostLine::COLUMNS)?;
            report.facts.cost.iter().try_for_each(|cost| write_csv(out, &CostLine::from(cost)))
        }
        _ => lists(report, view)
            .first()
            .map_or(Ok(()), |list| Form::of(report, view).write(&list.columns, list.cut(top), out)),
    }
}

/// How a view is written as CSV.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    Plain,
    /// With a last column `time_unit`: the columns named `_ns` are in ticks.
    InTicks,
}

impl Form {
    fn of(report: &Report, view: View) -> Self {
        // Rows of `machines` have this column, and those of the log have no times.
        let has_times = !matches!(view, View::Machines | View::Log);
        match report.facts.unit {
            TimeUnit::Ticks if has_times => Form::InTicks,
            TimeUnit::Ticks | TimeUnit::Ns => Form::Plain,
        }
    }

    fn write<'r>(
        self,
        columns: &[&str],
        mut records: impl Iterator<Item = &'r dyn Record>,
        out: &mut dyn Write,
    ) -> io::Result<()> {
        match self {
            Form::Plain => {
                write_csv_header(out, columns)?;
                records.try_for_each(|record| write_csv(out, record))
            }
            Form::InTicks => {
                write_csv_header(out, &[columns, &["time_unit"]].concat())?;
                records.try_for_each(|record| write_csv(out, &InTicks(record)))
            }
        }
    }
}

/// A record with its unit of time as the last cell.
struct InTicks<'r>(&'r dyn Record);

impl Record for InTicks<'_> {
    fn each_cell<'a>(&'a self, visit: &mut dyn FnMut(&'static str, Cell<'a>)) {
        self.0.each_cell(visit);
        visit("time_unit", Cell::Str(TimeUnit::Ticks.as_str().into()));
    }
}

/// The machine (and vCPU) `--top` counts within.
type Group = Option<(MachineId, u32)>;

/// A list of records under its JSON name.
struct List<'a> {
    name: &'static str,
    columns: Vec<&'static str>,
    records: Vec<(Group, &'a dyn Record)>,
}

impl<'a> List<'a> {
    /// A list that `--top` leaves whole.
    fn whole<T: Record>(name: &'static str, columns: &[&'static str], rows: &'a [T]) -> Self {
        Self::grouped(name, columns, rows, |_| None)
    }

    fn grouped<T: Record>(
        name: &'static str,
        columns: &[&'static str],
        rows: &'a [T],
        group: impl Fn(&T) -> Group,
    ) -> Self {
        let records = rows.iter().map(|row| (group(row), row as &dyn Record)).collect();
        List { name, columns: columns.to_vec(), records }
    }

    /// The first `top` records of each group.
    fn cut(&self, top: Option<usize>) -> impl Iterator<Item = &'a dyn Record> {
        let mut last = None;
        let mut seen = 0;
        self.records.iter().filter_map(move |(group, record)| {
            seen = if *group == last { seen + 1 } else { 1 };
            last = *group;
            let shown = group.is_none() || top.is_none_or(|top| seen <= top);
            shown.then_some(*record)
        })
    }
}

fn lists(report: &Report, view: View) -> Vec<List<'_>> {
    match view {
        View::Summary | View::Recording | View::Cost | View::Events => Vec::new(),
        View::Findings => {
            let columns = names(&FindingLine::TABLE);
            vec![List::whole("findings", &columns, report.findings.lines())]
        }
        View::Machines => vec![
            List::whole("machines", &names(&Machine::TABLE), &report.machines),
            List::whole("clock_edges", &names(&ClockEdge::TABLE), &report.clock_edges),
            List::whole("clock_check", &names(&ClockCheck::TABLE), &report.clock_check),
            List::whole("wall_clock", &names(&WallClock::TABLE), report.wall.rows()),
        ],
        View::Vcpus => vec![
            List::whole("vcpus", VcpuLine::COLUMNS, &report.vcpus),
            List::whole("vms", VcpuLine::COLUMNS, &report.vms),
        ],
        View::Domains => vec![List::whole("domains", DomainLine::COLUMNS, &report.domains)],
        View::Cpus => vec![List::whole("cpus", CpuLine::COLUMNS, &report.cpus)],
        View::Exits => vec![List::grouped("exits", ExitLine::COLUMNS, &report.exits, |l| {
            Some((l.machine_id, 0))
        })],
        View::Antagonists => {
            vec![List::grouped("antagonists", AntagonistLine::COLUMNS, &report.antagonists, |l| {
                Some((l.machine_id, l.vcpu.0))
            })]
        }
        View::Threads => {
            vec![List::grouped("threads", ThreadLine::COLUMNS, &report.threads, |l| {
                Some((l.machine_id, 0))
            })]
        }
        View::Wakeups => {
            vec![List::grouped("wakeups", WakeupLine::COLUMNS, &report.wakeups, |l| {
                Some((l.machine_id, 0))
            })]
        }
        View::Requests => vec![
            List::whole("requests", RequestLine::COLUMNS, &report.requests),
            List::whole("request_stages", StageLine::COLUMNS, &report.request_stages),
        ],
        View::Packets => vec![
            List::whole("packets", PacketLine::COLUMNS, &report.packets),
            List::whole("packet_stages", PacketStageLine::COLUMNS, &report.packet_stages),
        ],
        View::Windows => vec![List::whole("windows", &names(&Window::TABLE), &report.windows)],
        View::Lost => vec![List::whole("lost", &names(&Lost::TABLE), &report.lost)],
        View::Log => vec![List::whole("import_log", &names(&ImportLog::TABLE), &report.import_log)],
    }
}

fn names(table: &TableDoc) -> Vec<&'static str> {
    table.columns.iter().map(|column| column.name).collect()
}
