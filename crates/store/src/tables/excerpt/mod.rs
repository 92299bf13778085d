//! Tables of a part of a recording's time, out of its tables.
//!
//! **Data flow.** file by file: row groups that may meet the range → the rows that do, columns as they
//! are → the same file in another folder. So order, lanes and machines' folders stay as they were.
//!
//! What a row becomes depends on its table ([`Rule`]). States are what they were in the whole
//! recording: at the edges they are cut, not derived anew from events that are not there.

mod held;
mod out;

use super::part::GROUP_ROWS;
use super::range::Range;
use super::read::{Column, Frame, TableFile, Timing, Values, event_names, folders, open_folder};
use super::written::{Files, Written};
use crate::error::{StoreError, of_excerpt};
use held::Held;
use out::OutFolder;
use std::path::Path;
use std::sync::Arc;
use transect_integrity::{Folder, KnownFile};
use transect_model::table::{
    Counter, CpuSlice, DomainStateRow, TABLES, TableDoc, ThreadStateRow, VcpuStateRow, Window,
};

/// What becomes of a table's rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Rule {
    /// They have no time: all stay.
    All,
    /// Those that meet the range stay, whole.
    Meeting,
    /// They tile time: those that meet the range stay, cut to it.
    Cut,
    /// A value holds until the next: as `Meeting`, and what held when the range begins begins there.
    Held,
    /// Sums of which a part cannot be told: those that lie in the range as a whole stay.
    Inside,
}

impl Rule {
    fn of(table: &TableDoc) -> Self {
        const TILING: [&str; 4] = [
            CpuSlice::TABLE.name,
            VcpuStateRow::TABLE.name,
            ThreadStateRow::TABLE.name,
            DomainStateRow::TABLE.name,
        ];
        match table.name {
            name if TILING.contains(&name) => Rule::Cut,
            name if name == Counter::TABLE.name => Rule::Held,
            name if name == Window::TABLE.name => Rule::Inside,
            _ if Timing::of(table).ts.is_some() => Rule::Meeting,
            _ => Rule::All,
        }
    }
}

/// What is to be written.
pub struct Cut<'a> {
    /// The folder of tables that are there.
    pub tables: &'a Path,
    /// The folder to write to, which is there and empty.
    pub to: &'a Path,
    /// What stays.
    pub range: Range,
    /// Are the windows, too, taken from the tables that are there? Then only those remain that lie in
    /// the range as a whole. Else somebody writes them who can make them anew.
    pub with_windows: bool,
    /// Bytes of all files at most; more is an error.
    pub max_bytes: u64,
}

impl Cut<'_> {
    /// Writes the part. Rows of each table, and of each event as `events/NAME`, and the checksums of all files.
    /// `progress` hears now and then how many rows were looked at.
    ///
    /// # Errors
    /// A file is damaged or of another version's tables, one cannot be written, or the part is larger
    /// than it may be.
    pub fn write(&self, progress: &mut dyn FnMut(u64)) -> Result<Written, StoreError> {
        let from = open_folder(self.tables)?;
        let written = Arc::new(Files::below(self.to));
        let work = Work { cut: self, from, written, progress, seen: 0, bytes: 0 };
        work.all().map_err(of_excerpt)
    }
}

struct Work<'a> {
    cut: &'a Cut<'a>,
    from: Folder,
    written: Arc<Files>,
    progress: &'a mut dyn FnMut(u64),
    seen: u64,
    bytes: u64,
}

impl Work<'_> {
    fn all(mut self) -> Result<Written, StoreError> {
        let mut written = Written::default();
        for table in TABLES {
            let rule = Rule::of(table);
            let rows = match rule {
                Rule::Inside if !self.cut.with_windows => continue,
                _ => self.table(table.name, Some(table), rule)?,
            };
            written.rows.insert(table.name.to_owned(), rows);
        }
        for name in event_names(self.cut.tables)? {
            let rows = self.table(&name, None, Rule::Meeting)?;
            if rows > 0 {
                written.rows.insert(name.replacen("name=", "", 1), rows);
            }
        }
        written.sums = self.written.sums();
        Ok(written)
    }

    /// One table, or the events of one name, which are moments whatever their own fields are called.
    fn table(
        &mut self,
        name: &str,
        table: Option<&TableDoc>,
        rule: Rule,
    ) -> Result<u64, StoreError> {
        let mut rows = 0;
        for folder in folders(&self.from, name)? {
            let mut out = OutFolder::new(self.cut.to.join(&folder.name), Arc::clone(&self.written));
            if let (Rule::Held, Some(table)) = (rule, table) {
                let mut held = Held::at(self.cut.range.from, table);
                for file in folder.buckets.iter().chain(&folder.late) {
                    held.file(&open(file, Some(table))?)?;
                }
                if let Some((rows, columns)) = held.rows() {
                    out.lone(name, &columns, rows)?;
                }
            }
            for (stem, files) in [("bucket", &folder.buckets), ("late", &folder.late)] {
                out.turn_to(stem);
                for file in files {
                    self.file(file, name, table, rule, &mut out)?;
                }
            }
            rows += out.rows;
        }
        Ok(rows)
    }

    fn file(
        &mut self,
        file: &KnownFile,
        name: &str,
        table: Option<&TableDoc>,
        rule: Rule,
        out: &mut OutFolder,
    ) -> Result<(), StoreError> {
        let file = open(file, table)?;
        let timing = timing_of(&file, table);
        let range = self.cut.range;
        let mut writer = None;
        let mut kept = Frame::none(file.columns().iter().map(|column| column.ty));
        for group in 0..file.groups() {
            if rule != Rule::All && !timing.may_meet(&file, group, range) {
                continue;
            }
            let mut frames = file.frames(group)?;
            while let Some(mut frame) = frames.next()? {
                self.seen += u64::try_from(frame.rows).unwrap_or(0);
                let keep = rule.apply(&mut frame, timing, range);
                kept.extend(&frame, &keep);
                if kept.rows >= GROUP_ROWS {
                    out.group(&mut writer, name, file.columns(), &mut kept)?;
                }
            }
            (self.progress)(self.seen);
        }
        if kept.rows > 0 {
            out.group(&mut writer, name, file.columns(), &mut kept)?;
        }
        if let Some(writer) = writer {
            out.bytes += writer.close()?;
        }
        self.bytes += std::mem::take(&mut out.bytes);
        if self.bytes > self.cut.max_bytes {
            return Err(StoreError::ExcerptTooLarge { max_bytes: self.cut.max_bytes });
        }
        Ok(())
    }
}

/// Opens a file and checks that it is the table's.
fn open(file: &KnownFile, table: Option<&TableDoc>) -> Result<TableFile, StoreError> {
    let file = TableFile::open(file)?;
    if let Some(table) = table {
        file.check(table)?;
    }
    Ok(file)
}

fn timing_of(file: &TableFile, table: Option<&TableDoc>) -> Timing {
    match table {
        Some(table) => Timing::of(table),
        None => Timing { ts: file.position("ts"), dur: None },
    }
}

impl Rule {
    /// Which rows of the frame stay; changes those that are cut.
    fn apply(self, frame: &mut Frame, timing: Timing, range: Range) -> Vec<usize> {
        let mut keep = match self {
            Rule::All => return (0..frame.rows).collect(),
            _ => timing.meeting(frame, range),
        };
        let (Some(ts_at), Some(dur_at)) = (timing.ts, timing.dur) else { return keep };
        let ts = frame.columns[ts_at].numbers();
        let dur = frame.columns[dur_at].numbers();
        let interval = |row: usize| Some(((*ts.get(row)?)?, (*dur.get(row)?)?));
        if self == Rule::Inside {
            keep.retain(|row| interval(*row).is_some_and(|(ts, dur)| range.covers(ts, dur)));
        }
        if self == Rule::Cut {
            for row in &keep {
                let Some((ts, dur)) = interval(*row) else { continue };
                let (ts, dur) = range.part_of(ts, dur);
                // Columns of what tiles time have a value in every row.
                set(&mut frame.columns[ts_at], *row, ts);
                set(&mut frame.columns[dur_at], *row, dur);
            }
        }
        keep
    }
}

fn set(column: &mut Column, row: usize, value: i64) {
    if let Values::I64(values) = &mut column.values
        && let Some(slot) = values.get_mut(row)
    {
        *slot = value;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Somebody has to say what becomes of a new table.
    #[test]
    fn every_table_has_its_rule() {
        let of = |rule| TABLES.iter().filter(move |table| Rule::of(table) == rule).map(|t| t.name);
        assert_eq!(
            of(Rule::Cut).collect::<Vec<_>>(),
            ["cpu_slices", "vcpu_states", "thread_states", "domain_states"]
        );
        assert_eq!(of(Rule::Held).collect::<Vec<_>>(), ["counters"]);
        assert_eq!(of(Rule::Inside).collect::<Vec<_>>(), ["windows"]);
        let timeless = [
            "machines",
            "cpus",
            "vcpus",
            "threads",
            "cgroups",
            "stacks",
            "irq_lines",
            "queues",
            "clock_edges",
            "clock_check",
            "import_log",
        ];
        assert_eq!(of(Rule::All).collect::<Vec<_>>(), timeless);
        let meeting = [
            "exits",
            "wakeups",
            "irqs",
            "syscalls",
            "block_io",
            "io_requests",
            "net_io",
            "packets",
            "stack_samples",
            "work_items",
            "causes",
            "locks",
            "throttles",
            "reclaims",
            "wall_clock",
            "lost",
        ];
        assert_eq!(of(Rule::Meeting).collect::<Vec<_>>(), meeting);
    }
}
