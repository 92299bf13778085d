//! Values in columns that a log says cannot be had: they are not kept, so that nothing is made of them that the window's own text
//! does not have.

use super::cells::nothing_of;
use crate::{
    groups::{ContainerWindow, PressureWindow},
    rows::Lacking,
    snapshot::{Antagonist, CpuWindow, ExitWindow, IoWindow, Snapshot, ThreadWindow, WindowDetail},
};
use transect_model::{
    cell::{Cell, Record},
    column::{ColumnSource, ColumnValue, Columnar as _},
    ids::MachineId,
    table::{Machine, Window},
};

/// A row that is made anew of its own cells.
trait Again: Record + Sized {
    /// The machine whose metrics it has.
    fn machine(&self) -> MachineId;
    fn again(cells: &mut Known<'_>) -> Result<Self, String>;
}

macro_rules! again {
    ($($row:ident: |$it:ident| $machine:expr;)*) => { $(
        impl Again for $row {
            fn machine(&self) -> MachineId {
                let $it = self;
                $machine
            }
            fn again(cells: &mut Known<'_>) -> Result<Self, String> {
                $row::read(cells)
            }
        }
    )* };
}
again! {
    Machine: |row| row.machine_id;
    Window: |row| row.machine_id;
    WindowDetail: |row| row.machine_id;
    ThreadWindow: |row| row.vm_machine_id.unwrap_or(row.machine_id);
    CpuWindow: |row| row.machine_id;
    ExitWindow: |row| row.machine_id;
    Antagonist: |row| row.machine_id;
    IoWindow: |row| row.machine_id;
    ContainerWindow: |row| row.machine_id;
    PressureWindow: |row| row.machine_id;
}

/// The window without them.
pub(super) fn blank(mut snapshot: Snapshot) -> Result<Snapshot, String> {
    if snapshot.missing.is_empty() {
        return Ok(snapshot);
    }
    let of = Snapshot { missing: snapshot.missing.clone(), ..Snapshot::default() };
    rows(&of, snapshot.machines.iter_mut())?;
    rows(&of, snapshot.actors.iter_mut().map(|row| &mut row.window))?;
    rows(&of, snapshot.actors.iter_mut().map(|row| &mut row.detail))?;
    rows(&of, snapshot.threads.iter_mut())?;
    rows(&of, snapshot.cpus.iter_mut())?;
    rows(&of, snapshot.exits.iter_mut().map(|(row, _)| row))?;
    rows(&of, snapshot.antagonists.iter_mut())?;
    rows(&of, snapshot.io.iter_mut().map(|(row, _)| row))?;
    rows(&of, snapshot.containers.iter_mut().map(|(row, _)| row))?;
    rows(&of, snapshot.pressure.iter_mut())?;
    Ok(snapshot)
}

fn rows<'r, R: Again + 'r>(
    of: &Snapshot,
    rows: impl Iterator<Item = &'r mut R>,
) -> Result<(), String> {
    let mut lacking = Lacking::of_a_table(of);
    for row in rows {
        // A row that loses its machine is then one of another.
        loop {
            let machine = row.machine();
            let lacks = lacking.of(machine, row);
            if !lacks.contains(&true) {
                break;
            }
            let mut cells = Vec::new();
            row.each_cell(&mut |_, cell| cells.push(cell));
            let known = R::again(&mut Known { cells: cells.iter().zip(lacks) })?;
            drop(cells);
            *row = known;
            if row.machine() == machine {
                break;
            }
        }
    }
    Ok(())
}

/// The cells of a row, those that cannot be had without a value.
struct Known<'a> {
    cells: std::iter::Zip<std::slice::Iter<'a, Cell<'a>>, std::slice::Iter<'a, bool>>,
}

impl ColumnSource for Known<'_> {
    type Error = String;

    fn value<T: ColumnValue>(&mut self, column: &'static str) -> Result<T, String> {
        let value = match self.cells.next() {
            Some((_, true)) => {
                let null = T::from_cell(&Cell::Null);
                null.or_else(|| T::from_cell(&nothing_of(T::TYPE)?))
            }
            Some((cell, false)) => T::from_cell(cell),
            None => None,
        };
        value.ok_or_else(|| format!("column \"{column}\" cannot be missing"))
    }
}
