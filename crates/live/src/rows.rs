//! Every row of a snapshot in turn, for faces that write them out.

use crate::{histogram::Histogram, snapshot::Snapshot};
use std::collections::{BTreeMap, BTreeSet};
use transect_model::{
    cell::{Cell, Record},
    ids::MachineId,
};

/// The tables of a snapshot, in the order in which [`Snapshot::each_row`] gives them.
pub const TABLES: [&str; 13] = [
    "machines",
    "windows",
    "window_details",
    "thread_windows",
    "cpu_windows",
    "exit_windows",
    "antagonists",
    "io_windows",
    "container_windows",
    "pressure_windows",
    "findings",
    "missing",
    "health",
];

/// Is this table made of the others, so that whoever keeps windows need not keep it?
pub fn is_derived(table: &str) -> bool {
    table == "findings"
}

/// A row in which what cannot be had is null.
struct Known<'a> {
    row: &'a dyn Record,
    /// Of each column: can it not be had?
    lacks: &'a [bool],
}

impl Record for Known<'_> {
    fn each_cell<'a>(&'a self, visit: &mut dyn FnMut(&'static str, Cell<'a>)) {
        let mut lacks = self.lacks.iter();
        self.row.each_cell(&mut |name, cell| {
            let is_lacking = lacks.next() == Some(&true);
            visit(name, if is_lacking { Cell::Null } else { cell });
        });
    }
}

/// Which columns of a table cannot be had: asked once for all machines that lack nothing of their own, and not
/// for every cell.
pub(crate) struct Lacking<'a> {
    snapshot: &'a Snapshot,
    special: BTreeSet<MachineId>,
    common: Option<Vec<bool>>,
    own: BTreeMap<MachineId, Vec<bool>>,
}

impl<'a> Lacking<'a> {
    pub(crate) fn of_a_table(snapshot: &'a Snapshot) -> Self {
        let special = snapshot.missing.iter().filter_map(|missing| missing.machine_id).collect();
        Lacking { snapshot, special, common: None, own: BTreeMap::new() }
    }

    pub(crate) fn of(&mut self, machine: MachineId, row: &dyn Record) -> &[bool] {
        let lacks = || {
            let mut lacks = Vec::new();
            row.each_cell(&mut |name, _| lacks.push(self.snapshot.lacks(name, machine)));
            lacks
        };
        match self.special.contains(&machine) {
            true => self.own.entry(machine).or_insert_with(lacks),
            false => self.common.get_or_insert_with(lacks),
        }
    }
}

impl Snapshot {
    /// Calls `visit` with each row and its table, table by table. Columns that cannot be had are null.
    ///
    /// # Errors
    /// The visitor's first.
    pub fn each_row<E>(
        &self,
        mut visit: impl FnMut(&'static str, &dyn Record) -> Result<(), E>,
    ) -> Result<(), E> {
        self.each_row_with_lengths(|table, row, _| visit(table, row))
    }

    /// As [`Self::each_row`], with the distribution that the row's quantiles were taken from, where it
    /// has one: waits for a CPU (`window_details`, `container_windows`), exits, block requests.
    ///
    /// # Errors
    /// The visitor's first.
    pub fn each_row_with_lengths<E>(
        &self,
        mut visit: impl FnMut(&'static str, &dyn Record, Option<&Histogram>) -> Result<(), E>,
    ) -> Result<(), E> {
        TABLES.into_iter().try_for_each(|table| {
            self.each_row_of(table, |row, lengths| visit(table, row, lengths))
        })
    }

    /// The rows of one table (one of [`TABLES`]; others have none), as [`Self::each_row_with_lengths`] gives
    /// them.
    ///
    /// # Errors
    /// The visitor's first.
    pub fn each_row_of<E>(
        &self,
        table: &str,
        mut visit: impl FnMut(&dyn Record, Option<&Histogram>) -> Result<(), E>,
    ) -> Result<(), E> {
        let mut lacking = Lacking::of_a_table(self);
        let mut known = |row: &dyn Record, machine, lengths: Option<&Histogram>| {
            let lacks = lacking.of(machine, row);
            match lacks.contains(&true) {
                true => visit(&Known { row, lacks }, lengths),
                false => visit(row, lengths),
            }
        };
        match table {
            "machines" => self.machines.iter().try_for_each(|row| known(row, row.machine_id, None)),
            "windows" => self
                .actors
                .iter()
                .try_for_each(|row| known(&row.window, row.window.machine_id, None)),
            "window_details" => self
                .actors
                .iter()
                .try_for_each(|row| known(&row.detail, row.detail.machine_id, Some(&row.waits))),
            "thread_windows" => self
                .threads
                .iter()
                .try_for_each(|row| known(row, row.vm_machine_id.unwrap_or(row.machine_id), None)),
            "cpu_windows" => self.cpus.iter().try_for_each(|row| known(row, row.machine_id, None)),
            "exit_windows" => {
                self.exits.iter().try_for_each(|(row, of)| known(row, row.machine_id, Some(of)))
            }
            "antagonists" => {
                self.antagonists.iter().try_for_each(|row| known(row, row.machine_id, None))
            }
            "io_windows" => {
                self.io.iter().try_for_each(|(row, of)| known(row, row.machine_id, Some(of)))
            }
            "container_windows" => self
                .containers
                .iter()
                .try_for_each(|(row, of)| known(row, row.machine_id, Some(of))),
            "pressure_windows" => {
                self.pressure.iter().try_for_each(|row| known(row, row.machine_id, None))
            }
            // Made of what can be had.
            "findings" => self.findings().iter().try_for_each(|row| visit(row, None)),
            "missing" => self.missing.iter().try_for_each(|row| visit(row, None)),
            "health" => visit(&self.health, None),
            _ => Ok(()),
        }
    }

    /// How many rows [`Self::each_row`] gives.
    pub fn rows(&self) -> usize {
        self.machines.len()
            + 2 * self.actors.len()
            + self.threads.len()
            + self.cpus.len()
            + self.exits.len()
            + self.antagonists.len()
            + self.io.len()
            + self.containers.len()
            + self.pressure.len()
            + self.findings().len()
            + self.missing.len()
            + 1
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        missing::{Metric, Missing},
        snapshot::Health,
    };

    #[test]
    fn what_cannot_be_had_is_null_and_not_zero() {
        let mut snapshot = Snapshot::default();
        let machine_id = MachineId(3);
        let row = crate::snapshot::WindowDetail { machine_id, ..Default::default() };
        let cell = |snapshot: &Snapshot, wanted: &str| {
            let mut lacking = Lacking::of_a_table(snapshot);
            let lacks = lacking.of(MachineId(3), &row);
            let known = Known { row: &row, lacks };
            let mut found = None;
            known.each_cell(&mut |name, cell| {
                if name == wanted {
                    found = Some(cell == Cell::Null);
                }
            });
            found.unwrap()
        };
        assert!(!cell(&snapshot, "halts"));
        snapshot.missing.push(Missing::everywhere(Metric::Halts, "no such event"));
        assert!(cell(&snapshot, "halts") && cell(&snapshot, "poll_ns"));
        assert!(!cell(&snapshot, "migrations"));
        snapshot.missing[0].machine_id = Some(MachineId(4));
        assert!(!cell(&snapshot, "halts"), "of another machine");
        snapshot.health = Health { late_threads: 7, ..Health::default() };
        let mut tables = Vec::new();
        let all: Result<(), ()> = snapshot.each_row(|table, _| {
            tables.push(table);
            Ok(())
        });
        assert_eq!((all, tables.as_slice()), (Ok(()), ["missing", "health"].as_slice()));
        assert_eq!(snapshot.rows(), 2);
    }
}
