//! Which rows of a table are wanted: of one machine, control group, vCPU.
//!
//! A day of one VM is asked for far more often than a day of everything, and is a small part of it.

use super::columns::columns;
use super::triggers::matches;
use std::collections::BTreeMap;
use transect_live::{Snapshot, TABLES};
use transect_model::cell::{Cell, Record};

/// Always given whole: what the numbers of machines mean, and what the other rows lack.
const WHOLE: [&str; 3] = ["machines", "missing", "health"];
/// Columns that say whose a row is.
const MACHINE: [&str; 2] = ["machine_id", "vm_machine_id"];

/// What rows have to be of; of which nothing is said, all are wanted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Rows {
    /// A machine's name, in which `*` and `?` stand for anything.
    pub(crate) machine: Option<String>,
    /// A control group's path, likewise.
    pub(crate) cgroup: Option<String>,
    pub(crate) vcpu: Option<u32>,
}

impl Rows {
    pub(crate) fn is_all(&self) -> bool {
        *self == Rows::default()
    }

    /// What a table (by its place in `TABLES`) would have to have, and has not.
    pub(crate) fn lacking(&self, table: usize) -> Option<&'static str> {
        if WHOLE.contains(&TABLES.get(table).copied().unwrap_or_default()) {
            return None;
        }
        let columns = columns(table);
        let has = |name: &str| columns.iter().any(|column| column.name == name);
        let wanted = [
            ("machine", self.machine.is_some(), MACHINE.iter().any(|name| has(name))),
            ("cgroup", self.cgroup.is_some(), has("cgroup")),
            ("vcpu", self.vcpu.is_some(), has("vcpu")),
        ];
        wanted.into_iter().find(|(_, is_asked, has)| *is_asked && !has).map(|(name, ..)| name)
    }

    /// These rows of one window.
    pub(crate) fn of<'w>(&'w self, window: &'w Snapshot) -> RowsOf<'w> {
        let machines = self.machine.as_ref().map(|pattern| {
            let machines = window.machines.iter();
            machines.map(|m| (u64::from(m.machine_id.0), matches(pattern, &m.name))).collect()
        });
        RowsOf { rows: self, machines }
    }
}

/// [`Rows`], and which machines of a window they are.
pub(crate) struct RowsOf<'w> {
    rows: &'w Rows,
    machines: Option<BTreeMap<u64, bool>>,
}

impl RowsOf<'_> {
    /// Is this row of this table one of them?
    pub(crate) fn has(&self, table: &str, row: &dyn Record) -> bool {
        if self.rows.is_all() || WHOLE.contains(&table) {
            return true;
        }
        let mut fits_machine = self.machines.is_none();
        let mut fits_cgroup = self.rows.cgroup.is_none();
        let mut fits_vcpu = self.rows.vcpu.is_none();
        row.each_cell(&mut |name, cell| match (name, &cell, &self.machines) {
            (name, Cell::U64(id), Some(machines)) if MACHINE.contains(&name) => {
                fits_machine |= machines.get(id).copied().unwrap_or(false);
            }
            ("cgroup", Cell::Str(path), _) => {
                fits_cgroup |= self.rows.cgroup.as_ref().is_some_and(|p| matches(p, path));
            }
            ("vcpu", Cell::U64(vcpu), _) => {
                fits_vcpu |= self.rows.vcpu.is_some_and(|wanted| u64::from(wanted) == *vcpu);
            }
            _ => {}
        });
        fits_machine && fits_cgroup && fits_vcpu
    }
}
