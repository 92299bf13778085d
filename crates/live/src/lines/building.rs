//! A window whose rows are being read.

use super::{blank::blank, cells::Cells};
use crate::{
    groups::{ContainerWindow, PressureWindow},
    histogram::Histogram,
    missing::Missing,
    snapshot::{
        ActorWindow, Antagonist, CpuWindow, ExitWindow, Health, IoWindow, Snapshot, ThreadWindow,
        WindowDetail,
    },
};
use serde_json::{Map, Value};
use std::collections::{BTreeMap, BTreeSet};
use transect_model::{
    column::{ColumnSource as _, Columnar as _},
    ids::MachineId,
    table::{Machine, Window},
};

/// More rows are no window: a host with 100,000 threads has half of that.
const MAX_ROWS: u64 = 1 << 20;

/// A window of which some rows are still to come.
pub(super) struct Building {
    snapshot: Snapshot,
    windows: Vec<Window>,
    details: Vec<(WindowDetail, Histogram)>,
    health: Option<Health>,
    /// Where numbers were null, and on which line first.
    nulls: BTreeMap<(&'static str, MachineId), u64>,
    /// Columns that the log does not have.
    absent: BTreeSet<&'static str>,
    rows: u64,
    read: u64,
}

/// A line's number (none: the window as a whole) and what is wrong with it.
pub(super) type Wrong = (Option<u64>, String);

impl Building {
    /// From the line of the table `snapshot`.
    pub(super) fn begin(object: &Map<String, Value>) -> Result<Self, String> {
        let mut cells = Cells::new(object);
        let mut number = |column| cells.value::<u64>(column);
        let (ended_unix_ns, missed_windows) = (number("ended_unix_ns")?, number("missed_windows")?);
        let rows = number("rows")?;
        let (ts, dur) = (cells.value("ts")?, cells.value("dur")?);
        if let Some(column) = cells.nulls.iter().chain(&cells.absent).next() {
            return Err(format!("\"{column}\" must be a number"));
        }
        if !(1..=MAX_ROWS).contains(&rows) {
            return Err(format!("a window cannot have {rows} rows (1 to {MAX_ROWS})"));
        }
        let snapshot = Snapshot { ts, dur, ended_unix_ns, missed_windows, ..Snapshot::default() };
        Ok(Building {
            snapshot,
            windows: Vec::new(),
            details: Vec::new(),
            health: None,
            nulls: BTreeMap::new(),
            absent: BTreeSet::new(),
            rows,
            read: 0,
        })
    }

    /// How many of its rows were read, and how many it has.
    pub(super) fn progress(&self) -> (u64, u64) {
        (self.read, self.rows)
    }

    pub(super) fn is_whole(&self) -> bool {
        self.read == self.rows
    }

    /// Adds the row of line `line`. Tables that this version does not know are passed over.
    pub(super) fn add(
        &mut self,
        table: &str,
        object: &Map<String, Value>,
        line: u64,
    ) -> Result<(), String> {
        let mut cells = Cells::new(object);
        let row = &mut cells;
        let to = &mut self.snapshot;
        let mut of = MachineId(0);
        match table {
            "machines" => to.machines.push(Machine::read(row)?),
            "windows" => {
                self.windows.push(Window::read(row)?);
                of = last(&self.windows, |row| row.machine_id);
            }
            "window_details" => {
                self.details.push((WindowDetail::read(row)?, lengths(object)?));
                of = last(&self.details, |(row, _)| row.machine_id);
            }
            "thread_windows" => {
                to.threads.push(ThreadWindow::read(row)?);
                of = last(&to.threads, |row| row.vm_machine_id.unwrap_or(row.machine_id));
            }
            "cpu_windows" => {
                to.cpus.push(CpuWindow::read(row)?);
                of = last(&to.cpus, |row| row.machine_id);
            }
            "exit_windows" => {
                to.exits.push((ExitWindow::read(row)?, lengths(object)?));
                of = last(&to.exits, |(row, _)| row.machine_id);
            }
            "antagonists" => {
                to.antagonists.push(Antagonist::read(row)?);
                of = last(&to.antagonists, |row| row.machine_id);
            }
            "io_windows" => {
                to.io.push((IoWindow::read(row)?, lengths(object)?));
                of = last(&to.io, |(row, _)| row.machine_id);
            }
            "container_windows" => {
                to.containers.push((ContainerWindow::read(row)?, lengths(object)?));
                of = last(&to.containers, |(row, _)| row.machine_id);
            }
            "pressure_windows" => {
                to.pressure.push(PressureWindow::read(row)?);
                of = last(&to.pressure, |row| row.machine_id);
            }
            "missing" => to.missing.push(Missing::read(row)?),
            "health" if self.health.is_some() => {
                return Err("a second row of table \"health\"".to_owned());
            }
            "health" => self.health = Some(Health::read(row)?),
            // "findings" among them: they are made of the other rows.
            _ => {}
        }
        // Of live windows null in any case: a log without it lacks nothing.
        cells.absent.retain(|column| *column != "time_unit");
        for column in cells.nulls {
            self.nulls.entry((column, of)).or_insert(line);
        }
        self.absent.extend(cells.absent);
        self.read += 1;
        Ok(())
    }

    /// The window, once it is whole.
    pub(super) fn finish(self) -> Result<Snapshot, Wrong> {
        let Building { mut snapshot, windows, details, health, nulls, absent, .. } = self;
        let wrong = |why: &str| (None, why.to_owned());
        snapshot.health =
            health.ok_or_else(|| wrong("the window has no row of table \"health\""))?;
        if windows.len() != details.len() {
            return Err(wrong(
                "the window has unequal numbers of rows of \"windows\" and \"window_details\"",
            ));
        }
        let both = windows.into_iter().zip(details);
        snapshot.actors =
            both.map(|(window, (detail, waits))| ActorWindow { window, detail, waits }).collect();
        snapshot.missing.extend(absent.into_iter().map(|column| Missing {
            metric: column.to_owned(),
            machine_id: None,
            why: "the log, written by another version, does not have this column".to_owned(),
        }));
        match nulls.iter().find(|((column, of), _)| !snapshot.lacks(column, *of)) {
            Some(((column, _), line)) => Err((
                Some(*line),
                format!("\"{column}\" is null, and no row of table \"missing\" gives the reason"),
            )),
            None => blank(snapshot).map_err(|why| wrong(&why)),
        }
    }
}

fn last<R>(rows: &[R], machine: impl Fn(&R) -> MachineId) -> MachineId {
    rows.last().map_or(MachineId(0), machine)
}

/// The distribution: `[[from_ns, count], …]`.
fn lengths(object: &Map<String, Value>) -> Result<Histogram, String> {
    let wrong =
        || "\"lengths\" must be [[from_ns, count], …] with bucket bounds as from_ns".to_owned();
    let pairs = object.get("lengths").and_then(Value::as_array).ok_or_else(wrong)?;
    let mut histogram = Histogram::default();
    for pair in pairs {
        let pair: Option<Vec<u64>> =
            pair.as_array().and_then(|pair| pair.iter().map(Value::as_u64).collect());
        let Some([from_ns, count]) = pair.as_deref() else { return Err(wrong()) };
        if !histogram.add_from(*from_ns, *count) {
            return Err(wrong());
        }
    }
    Ok(histogram)
}
