//! Findings: rules that hold in the window, by [`transect_explain::detect`]. They need the rows themselves.

use super::selection::Selection;
use crate::facts::{Facts, TimeUnit};
use transect_explain::{
    Gathered, Party, Rows,
    detect::{self, Range},
    lines::FindingLine,
};
use transect_model::table::Row;

/// Rows that are kept for findings, at most; of a larger recording they are made for a range of it.
const MOST_ROWS: usize = 1_000_000;
/// Files of more bytes have more rows: rows that are only needed for findings are not made of them.
const MOST_BYTES: u64 = 64 << 20;

/// What was found.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Findings {
    /// These, what takes most first.
    Found(Vec<FindingLine>),
    /// Nobody asked for them.
    NotAsked,
    /// The window is too short.
    TooShort,
    /// The recording has more rows than are kept.
    TooLarge,
}

impl Findings {
    /// Those that there are.
    pub(crate) fn lines(&self) -> &[FindingLine] {
        match self {
            Findings::Found(lines) => lines,
            Findings::NotAsked | Findings::TooShort | Findings::TooLarge => &[],
        }
    }

    /// Why there are none; nothing if they were looked for.
    pub(crate) fn reason(&self) -> Option<&'static str> {
        match self {
            Findings::Found(_) => None,
            Findings::NotAsked => Some("not asked for"),
            Findings::TooShort => Some("the range is shorter than a second"),
            Findings::TooLarge => Some(
                "the recording is too large to look for them as a whole: give a range (--from, --until), or see transect explain",
            ),
        }
    }
}

/// The rows that findings need, as long as there are not too many.
#[derive(Default)]
pub(super) struct FindingRows {
    wanted: Option<Vec<&'static str>>,
    is_too_large: bool,
    rows: Gathered,
    count: usize,
}

impl FindingRows {
    /// Of a report that shows findings, of files of so many bytes.
    pub(super) fn wanted(source_bytes: u64) -> Self {
        let is_too_large = source_bytes > MOST_BYTES;
        let names = detect::needed().into_iter().map(|table| table.name).collect();
        FindingRows { wanted: Some(names), is_too_large, ..FindingRows::default() }
    }

    /// Are rows of this table needed?
    pub(super) fn wants(&self, table: &str) -> bool {
        let wanted = self.wanted.as_ref().filter(|_| !self.is_too_large);
        wanted.is_some_and(|names| names.contains(&table))
    }

    /// Keeps a copy of the row if it is needed.
    pub(super) fn row(&mut self, row: &Row) {
        if !self.wants(row.table()) {
            return;
        }
        self.count += 1;
        if self.count > MOST_ROWS {
            (self.is_too_large, self.rows) = (true, Gathered::default());
            return;
        }
        self.rows.take(row.clone());
    }

    /// What is found about the selected machines.
    pub(super) fn findings(self, facts: &Facts, selection: &Selection) -> Findings {
        if self.wanted.is_none() {
            return Findings::NotAsked;
        }
        if self.is_too_large {
            return Findings::TooLarge;
        }
        let range = Range {
            from: facts.window.start.get(),
            until: facts.window.end.get(),
            second: (facts.unit == TimeUnit::Ns).then_some(1_000_000_000),
        };
        if !range.is_long_enough() {
            return Findings::TooShort;
        }
        let (tables, packed) = self.rows.into_parts();
        let rows = Rows::of(&tables, packed);
        let mut found = detect::findings(&rows, &tables, range);
        found.retain(|finding| is_selected(&finding.subject, selection));
        let line = |finding| FindingLine::new(&rows, finding, facts.unit);
        Findings::Found(found.iter().map(line).collect())
    }
}

fn is_selected(subject: &Party, selection: &Selection) -> bool {
    match subject {
        Party::Thread(thread) => selection.machine(thread.machine),
        Party::Vcpu(machine, _) | Party::Group(machine, _) | Party::Machine(machine) => {
            selection.machine(*machine)
        }
        Party::Idle | Party::Quota | Party::Unknown => false,
    }
}
