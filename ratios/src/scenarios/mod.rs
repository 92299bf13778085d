//! What is shown, one file a group of rows. Each scenario names its rows beforehand, so that a run
//! can be asked for a few of them and does only what they need.

mod bytes;
mod cost;
mod explain;
mod import;
mod lost;
mod nested;
mod overhead;
mod page;
mod scale;
mod sql;
mod timeline;
mod xen;

pub(crate) use cost::inside as costs_inside;
pub(crate) use overhead::inside as watched_inside;

use crate::{
    bed::Bed,
    report::{Row, Rows},
};
use anyhow::Result;

/// A group of rows that are measured together.
pub struct Scenario {
    /// The rows it makes; `harness/…` rows measure the measuring.
    pub rows: &'static [&'static str],
    run: fn(&Bed, &mut Rows) -> Result<()>,
}

/// All of them, in the order in which a run shows them.
pub const ALL: &[Scenario] = &[
    Scenario { rows: cost::ROWS, run: cost::run },
    Scenario { rows: overhead::PACED, run: overhead::paced },
    Scenario { rows: overhead::EVENTFD, run: overhead::eventfd },
    Scenario { rows: overhead::GETPPID, run: overhead::getppid },
    Scenario { rows: overhead::NESTED, run: overhead::nested },
    Scenario { rows: overhead::OWN, run: overhead::own },
    Scenario { rows: lost::ROWS, run: lost::run },
    Scenario { rows: bytes::ROWS, run: bytes::run },
    Scenario { rows: nested::ROWS, run: nested::run },
    Scenario { rows: import::ROWS, run: import::run },
    Scenario { rows: xen::ROWS, run: xen::run },
    Scenario { rows: sql::ROWS, run: sql::run },
    Scenario { rows: explain::ROWS, run: explain::run },
    Scenario { rows: timeline::ROWS, run: timeline::run },
    Scenario { rows: page::ROWS, run: page::run },
    Scenario { rows: scale::ROWS, run: scale::run },
];

impl Scenario {
    /// Measures, if one of its rows is wanted. A failure is a row of its own for each that is then
    /// missing, and the run goes on.
    pub fn run(&self, bed: &Bed, rows: &mut Rows) {
        if !rows.wants_any(self.rows) {
            return;
        }
        let Err(err) = (self.run)(bed, rows) else { return };
        let missing: Vec<&str> = self
            .rows
            .iter()
            .copied()
            .filter(|name| rows.wants(name) && rows.all().iter().all(|row| row.name != *name))
            .collect();
        for name in missing {
            rows.push(Row::skipped(name, format!("failed: {err:#}")));
        }
    }
}
