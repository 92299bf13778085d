//! Tables of a part of a recording's time, out of its tables.
//!
//! **Data flow.** file by file: row groups that may meet the range → the rows that do, columns as they
//! are → the same file in another folder. So order, lanes and machines' folders stay as they were.
//!
//! What a row becomes depends on its table ([`Rule`]). States are what they were in the whole
//! recording: at the edges they are cut, not derived anew from events that are not there.

use super::group::GroupEncoder;
use super::part::GROUP_ROWS;
use super::range::Range;
use super::read::{Column, Frame, TableFile, Timing, Values, event_names, folders};
use super::schema::{FileColumn, Layout};
use crate::error::{StoreError, io_error, of_excerpt};
use parquet::file::writer::SerializedFileWriter;
use rustc_hash::FxHashMap;
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::sync::Arc;
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
    /// Writes the part. Rows of each table, and of each event as `events/NAME`. `progress` hears now
    /// and then how many rows were looked at.
    ///
    /// # Errors
    /// A file is damaged or of another version's tables, one cannot be written, or the part is larger
    /// than it may be.
    pub fn write(
        &self,
        progress: &mut dyn FnMut(u64),
    ) -> Result<BTreeMap<String, u64>, StoreError> {
        let work = Work { cut: self, progress, seen: 0, bytes: 0 };
        work.all().map_err(of_excerpt)
    }
}

struct Work<'a> {
    cut: &'a Cut<'a>,
    progress: &'a mut dyn FnMut(u64),
    seen: u64,
    bytes: u64,
}

impl Work<'_> {
    fn all(mut self) -> Result<BTreeMap<String, u64>, StoreError> {
        let mut rows = BTreeMap::new();
        for table in TABLES {
            let rule = Rule::of(table);
            let written = match rule {
                Rule::Inside if !self.cut.with_windows => continue,
                _ => self.table(table.name, Some(table), rule)?,
            };
            rows.insert(table.name.to_owned(), written);
        }
        for name in event_names(self.cut.tables)? {
            let written = self.table(&name, None, Rule::Meeting)?;
            if written > 0 {
                rows.insert(name.replacen("name=", "", 1), written);
            }
        }
        Ok(rows)
    }

    /// One table, or the events of one name, which are moments whatever their own fields are called.
    fn table(
        &mut self,
        name: &str,
        table: Option<&TableDoc>,
        rule: Rule,
    ) -> Result<u64, StoreError> {
        let mut rows = 0;
        for folder in folders(self.cut.tables, name)? {
            let to = self.cut.to.join(&folder.name);
            let held = match (rule, table) {
                (Rule::Held, Some(table)) => {
                    self.held(folder.buckets.iter().chain(&folder.late), table)?
                }
                _ => None,
            };
            let mut out = OutFolder { dir: to, stem: "bucket", files: 0, rows: 0, bytes: 0 };
            if let Some((held, columns)) = held {
                out.lone(name, &columns, held)?;
            }
            for (stem, files) in [("bucket", &folder.buckets), ("late", &folder.late)] {
                if stem != out.stem {
                    (out.stem, out.files) = (stem, 0);
                }
                for path in files {
                    self.file(path, name, table, rule, &mut out)?;
                }
            }
            rows += out.rows;
        }
        Ok(rows)
    }

    fn file(
        &mut self,
        path: &Path,
        name: &str,
        table: Option<&TableDoc>,
        rule: Rule,
        out: &mut OutFolder,
    ) -> Result<(), StoreError> {
        let file = open(path, table)?;
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

    /// The values that hold when the range begins, as rows that begin there, in columns; none if there
    /// are none, or the range is open there.
    fn held<'p>(
        &mut self,
        files: impl Iterator<Item = &'p PathBuf>,
        table: &TableDoc,
    ) -> Result<Option<(Frame, Vec<FileColumn>)>, StoreError> {
        let from = self.cut.range.from;
        let timing = Timing::of(table);
        let mut last: FxHashMap<Vec<u8>, (i64, Frame)> = FxHashMap::default();
        let mut columns = Vec::new();
        for path in files {
            let file = open(path, Some(table))?;
            columns = file.columns().to_vec();
            for group in 0..file.groups() {
                let first = timing.ts.and_then(|at| file.bounds(group, at)).map(|bounds| bounds.0);
                if first.is_some_and(|first| first > from) {
                    continue;
                }
                let mut frames = file.frames(group)?;
                while let Some(frame) = frames.next()? {
                    note_last(&frame, timing, from, &mut last);
                }
            }
        }
        let mut held: Vec<_> = last.into_iter().filter(|(_, (ts, _))| *ts < from).collect();
        held.sort_by(|a, b| a.0.cmp(&b.0));
        let mut all = Frame::none(columns.iter().map(|column| column.ty));
        for (_, (_, row)) in &held {
            all.extend(row, &[0]);
        }
        if let Some(Column { values: Values::I64(ts), .. }) =
            timing.ts.and_then(|at| all.columns.get_mut(at))
        {
            ts.fill(from);
        }
        Ok((all.rows > 0).then_some((all, columns)))
    }
}

/// Opens a file and checks that it is the table's.
fn open(path: &Path, table: Option<&TableDoc>) -> Result<TableFile, StoreError> {
    let file = TableFile::open(path)?;
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

/// Remembers of every subject the last row that is not after `from`. A subject is told by all columns
/// but the stamp and the value.
fn note_last(
    frame: &Frame,
    timing: Timing,
    from: i64,
    last: &mut FxHashMap<Vec<u8>, (i64, Frame)>,
) {
    let Some(ts) = timing.ts.and_then(|at| frame.columns.get(at)) else { return };
    let value = Counter::TABLE.columns.iter().position(|column| column.name == "value");
    let types = || frame.columns.iter().map(|column| column.ty);
    for (row, ts) in ts.numbers().into_iter().enumerate() {
        let Some(ts) = ts.filter(|ts| *ts <= from) else { continue };
        let mut one = Frame::none(types());
        one.extend(frame, &[row]);
        let mut subject = Vec::new();
        for (at, column) in one.columns.iter().enumerate() {
            if Some(at) != timing.ts && Some(at) != value {
                subject.extend_from_slice(format!("{:?};", column.cell(0)).as_bytes());
            }
        }
        // Of equal stamps the later row holds.
        if last.get(&subject).is_none_or(|(known, _)| *known <= ts) {
            last.insert(subject, (ts, one));
        }
    }
}

/// Where the files of a folder go.
struct OutFolder {
    dir: PathBuf,
    stem: &'static str,
    files: u32,
    rows: u64,
    bytes: u64,
}

impl OutFolder {
    /// Writes a row group and empties the frame; opens the next file if there is none.
    fn group(
        &mut self,
        writer: &mut Option<OutFile>,
        table: &str,
        columns: &[FileColumn],
        frame: &mut Frame,
    ) -> Result<(), StoreError> {
        let mut open = match writer.take() {
            Some(open) => open,
            None => self.next(table, columns)?,
        };
        let full = std::mem::replace(frame, Frame::none(columns.iter().map(|column| column.ty)));
        self.rows += u64::try_from(full.rows).unwrap_or(0);
        open.group(&full)?;
        *writer = Some(open);
        Ok(())
    }

    /// Writes a file of these rows alone.
    fn lone(
        &mut self,
        table: &str,
        columns: &[FileColumn],
        mut frame: Frame,
    ) -> Result<(), StoreError> {
        let mut writer = None;
        self.group(&mut writer, table, columns, &mut frame)?;
        if let Some(writer) = writer {
            self.bytes += writer.close()?;
        }
        Ok(())
    }

    fn next(&mut self, table: &str, columns: &[FileColumn]) -> Result<OutFile, StoreError> {
        fs::create_dir_all(&self.dir).map_err(io_error("make", &self.dir))?;
        let path = self.dir.join(format!("{}={}.parquet", self.stem, self.files));
        self.files += 1;
        let layout = Layout::new(table, columns)?;
        let file = File::create_new(&path).map_err(io_error("make", &path))?;
        let (schema, properties) = (layout.schema.clone(), layout.properties.clone());
        let writer = SerializedFileWriter::new(file, schema, properties);
        let writer = writer.map_err(|error| layout.write_failed(&path, error))?;
        Ok(OutFile { path, layout, writer })
    }
}

/// A file that is being written.
struct OutFile {
    path: PathBuf,
    layout: Arc<Layout>,
    writer: SerializedFileWriter<File>,
}

impl OutFile {
    fn group(&mut self, frame: &Frame) -> Result<(), StoreError> {
        let mut encoder = GroupEncoder::new(&self.layout);
        frame.encode(&mut encoder)?;
        let group = encoder.finish(frame.rows)?;
        let appended = group.append_to(&mut self.writer);
        appended.map_err(|error| self.layout.write_failed(&self.path, error))
    }

    /// Bytes of the whole file.
    fn close(mut self) -> Result<u64, StoreError> {
        let path = &self.path;
        self.writer.finish().map_err(|error| self.layout.write_failed(path, error))?;
        self.writer.flush().map_err(io_error("write", path))?;
        self.writer.inner().sync_data().map_err(io_error("write", path))?;
        Ok(fs::metadata(path).map_err(io_error("look at", path))?.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Somebody has to say what becomes of a new table.
    #[test]
    fn every_table_has_its_rule() {
        let of = |rule| TABLES.iter().filter(|table| Rule::of(table) == rule).map(|t| t.name);
        assert_eq!(
            of(Rule::Cut).collect::<Vec<_>>(),
            ["cpu_slices", "vcpu_states", "thread_states", "domain_states"]
        );
        assert_eq!(of(Rule::Held).collect::<Vec<_>>(), ["counters"]);
        assert_eq!(of(Rule::Inside).collect::<Vec<_>>(), ["windows"]);
        let timeless =
            ["machines", "cpus", "vcpus", "threads", "clock_edges", "clock_check", "import_log"];
        assert_eq!(of(Rule::All).collect::<Vec<_>>(), timeless);
        let meeting = [
            "exits", "wakeups", "irqs", "syscalls", "block_io", "net_io", "work_items", "lost",
        ];
        assert_eq!(of(Rule::Meeting).collect::<Vec<_>>(), meeting);
    }
}
