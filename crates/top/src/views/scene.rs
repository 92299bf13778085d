//! What every view is made from: the windows, and the columns that lists share.

use crate::{
    level::Level,
    moment::Moment,
    number,
    part::Parts,
    sums::{Course, Span},
    table::{Cell, Column, Glyphs, Table, Tone},
    who::Who,
};
use transect_live::Snapshot;
use transect_model::ids::MachineId;

/// How many windows the second column of a pair sums up.
pub(crate) const LONG: u64 = 10;

/// A view of some windows, before it is known how large the screen is.
pub(crate) struct Page {
    pub(crate) summary: Vec<Parts>,
    pub(crate) tables: Vec<Table>,
}

/// What a view needs to be made.
pub(crate) struct Scene<'a> {
    pub(crate) span: &'a Span,
    pub(crate) level: &'a Level,
    pub(crate) glyphs: &'a Glyphs,
}

impl Scene<'_> {
    /// The window on the screen.
    pub(super) fn now(&self) -> Option<&Moment> {
        self.span.moments.last().map(|moment| &**moment)
    }

    /// Per cent of one CPU in the window on the screen.
    pub(super) fn share(&self, ns: i64) -> f64 {
        per_cent(ns, self.span.now_ns())
    }

    /// The same over all windows.
    pub(super) fn long_share(&self, ns: i64) -> f64 {
        per_cent(ns, self.span.all_ns())
    }

    pub(super) fn per_second(&self, count: u64) -> f64 {
        count as f64 * 1e9 / (self.span.now_ns().max(1) as f64)
    }

    /// What the second column of a pair is called.
    pub(super) fn long_title(&self) -> String {
        number::window(self.span.all_ns())
    }

    pub(super) fn trend(&self, course: &Course, of: f64) -> Cell {
        let lengths = self.span.moments.iter().map(|moment| moment.snapshot.dur);
        let shares = course.waited_ns.iter().zip(lengths);
        Cell::Trend(shares.map(|(ns, dur)| per_cent(*ns, dur) / of.max(1.0)).collect())
    }

    /// CPU% and WAIT%, each for the window and for all; `of` CPUs could wait at once.
    pub(super) fn pairs(&self, course: &Course, of: f64) -> [Cell; 5] {
        let waiting = |value: f64| Cell::Waiting(value, Tone::of_waiting(value / of.max(1.0)));
        let (share, wait) = match course.now {
            Some(now) => {
                (Cell::Share(self.share(now.gotten_ns)), waiting(self.share(now.waited_ns)))
            }
            None => (Cell::Nothing, Cell::Nothing),
        };
        [
            share,
            Cell::Share(self.long_share(course.all.gotten_ns)),
            wait,
            waiting(self.long_share(course.all.waited_ns)),
            self.trend(course, of),
        ]
    }

    /// The columns of [`Self::pairs`].
    pub(super) fn pair_columns(&self) -> [Column; 5] {
        let long = self.long_title();
        [
            Column::number("CPU%", 6, 0),
            Column::number(&long, 6, 2),
            Column::number("WAIT%", 6, 0),
            Column::number(&long, 6, 2),
            Column { is_left: true, ..Column::number("WAITING", 10, 3) },
        ]
    }
}

/// Where the column of [`Scene::pairs`] that rows are sorted by at first is, behind `before` columns.
pub(super) const WAIT: usize = 2;

/// Of a window whose columns cannot be had.
pub(super) fn lacks(snapshot: &Snapshot, column: &str, machine: MachineId) -> bool {
    snapshot.lacks(column, machine)
}

/// Is this a VM of which nothing tells which threads run its vCPUs?
pub(super) fn lacks_vcpus(snapshot: &Snapshot, who: &Who) -> bool {
    let Who::Vm(id) = who else { return false };
    let is_told = snapshot
        .missing
        .iter()
        .any(|missing| missing.metric == "vcpu_threads" && missing.machine_id == Some(*id));
    let has_one = |row: &&transect_live::ActorWindow| Who::of_actor(row) == *who;
    is_told && snapshot.actors.iter().find(has_one).is_none_or(|row| row.detail.threads == 0)
}

pub(crate) fn per_cent(part: i64, whole: i64) -> f64 {
    if whole <= 0 { 0.0 } else { part as f64 * 100.0 / whole as f64 }
}
