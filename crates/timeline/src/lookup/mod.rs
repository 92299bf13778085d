//! Rows of a recording's tables, picked by time and by conditions on columns.
//!
//! The tables are read as they lie in their folder (crates/store/src/tables/README.md): `NAME.parquet`,
//! or any `*.parquet` below `NAME/`, where a folder `machine_id=N` names the machine of its rows; an
//! event's below `events/name=NAME/`. Every file is in order of `ts`.
//!
//! Row groups are left out by their statistics. Of the others the columns of the conditions are
//! decoded first, and the wanted columns only for rows that pass. What is held is one batch of each
//! file that is being read, and the rows that were asked for.

mod condition;
mod files;
mod group;
mod merge;
mod shape;
#[cfg(test)]
mod tests;

pub use condition::Condition;
pub use merge::Rows;

use crate::error::TimelineError;
use crate::rows::open_folder;
use arrow::array::{AsArray, RecordBatch};
use arrow::datatypes::Int64Type;
use files::runs_of_table;
use group::{Group, groups_of_run};
use shape::shape;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use transect_integrity::Folder;

/// The tables of a recording.
#[derive(Clone, Debug)]
pub struct Lookup {
    tables: PathBuf,
    /// Opened when rows are asked for; by all clones once.
    folder: Arc<Mutex<Option<Folder>>>,
}

/// Which rows of a table, and what of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wanted {
    /// Columns of each batch, in this order; without any, all that the row's file has. A column
    /// that a file lacks is null in its rows, with Arrow's type `Null`.
    pub columns: Vec<&'static str>,
    /// Rows that begin in this range, ns of trace time; none for all rows, and for tables without
    /// `ts`.
    pub ts: Option<Range<i64>>,
    /// Rows for which this holds.
    pub only: Condition,
    /// Rows at most.
    pub limit: usize,
}

impl Default for Wanted {
    /// All of every row.
    fn default() -> Self {
        let (columns, only) = (Vec::new(), Condition::always());
        Wanted { columns, ts: None, only, limit: usize::MAX }
    }
}

impl Wanted {
    fn condition(&self) -> Condition {
        let ts = self.ts.iter().map(|range| Condition::Between("ts", range.clone()));
        Condition::All(ts.chain([self.only.clone()]).collect())
    }

    /// Columns to read where `ts` is needed, too; empty for all.
    fn columns_and(&self, more: &[&'static str]) -> Vec<&'static str> {
        let mut columns = self.columns.clone();
        if !columns.is_empty() {
            columns.extend(more);
        }
        columns
    }
}

impl Lookup {
    /// The tables in this folder. Nothing is read before rows are asked for.
    pub fn new(tables: &Path) -> Self {
        Lookup { tables: tables.to_owned(), folder: Arc::default() }
    }

    /// The folder of tables, verified but for the content of its files.
    fn folder(&self) -> Result<Folder, TimelineError> {
        let mut folder = self.folder.lock().unwrap_or_else(PoisonError::into_inner);
        match folder.as_ref() {
            Some(folder) => Ok(folder.clone()),
            None => Ok(folder.insert(open_folder(&self.tables)?).clone()),
        }
    }

    /// Rows of a table, in order of `ts`, as they are read. The table of an event is `events/NAME`. A
    /// table without files has no rows.
    ///
    /// # Errors
    /// A folder cannot be listed, or a file's footer cannot be read.
    pub fn open(&self, table: &str, wanted: &Wanted) -> Result<Rows, TimelineError> {
        let condition = wanted.condition();
        let runs = runs_of_table(&self.folder()?, table)?;
        let groups = runs.iter().map(|run| groups_of_run(run, &condition));
        let groups = groups.collect::<Result<Vec<_>, _>>()?;
        Ok(Rows::new(groups, &wanted.columns, wanted.limit))
    }

    /// The same, all of them at once.
    ///
    /// # Errors
    /// A file cannot be read: [`TimelineError::Table`] names it.
    pub fn rows(&self, table: &str, wanted: &Wanted) -> Result<Vec<RecordBatch>, TimelineError> {
        self.open(table, wanted)?.collect()
    }

    /// The row that begins last, of those that [`Lookup::rows`] would give; `limit` is not heeded. The
    /// table has `ts`. Row groups are read from the last one back, until none can have a later row.
    ///
    /// # Errors
    /// A file cannot be read.
    pub fn last_row(
        &self,
        table: &str,
        wanted: &Wanted,
    ) -> Result<Option<RecordBatch>, TimelineError> {
        let condition = wanted.condition();
        let mut groups: Vec<Group> = Vec::new();
        for run in runs_of_table(&self.folder()?, table)? {
            groups.extend(groups_of_run(&run, &condition)?);
        }
        let last_ts = |group: &Group| group.ts.map_or(i64::MAX, |(_, last)| last);
        groups.sort_by_key(|group| std::cmp::Reverse(last_ts(group)));
        let columns = wanted.columns_and(&["ts"]);
        let mut found: Option<(i64, RecordBatch)> = None;
        for group in &groups {
            if found.as_ref().is_some_and(|(ts, _)| last_ts(group) <= *ts) {
                break;
            }
            let mut rows = group.rows(&columns, usize::MAX)?;
            while let Some(batch) = rows.next_batch()? {
                let Some(ts) = times(&batch, "ts") else { continue };
                let Some(last) = ts.last().copied() else { continue };
                if found.as_ref().is_none_or(|(ts, _)| last > *ts) {
                    let row = shape(&batch.slice(ts.len() - 1, 1), &wanted.columns);
                    found = Some((last, row.map_err(group.source.failed())?));
                }
            }
        }
        Ok(found.map(|(_, row)| row))
    }

    /// The row whose interval covers a moment (`ts <= at < ts + dur`), of an actor whose intervals do
    /// not overlap, as those of a thread or vCPU: `wanted.only` names the actor; `ts` and `limit` are not
    /// heeded. From a run of files that are in order it reads row groups backwards from the moment, up to
    /// the one that has the actor's last row before it. Late files are read first: they have few rows.
    ///
    /// # Errors
    /// A file cannot be read.
    pub fn row_at(
        &self,
        table: &str,
        wanted: &Wanted,
        at: i64,
    ) -> Result<Option<RecordBatch>, TimelineError> {
        let begun = Some(i64::MIN..at.saturating_add(1));
        let condition = Wanted { ts: begun, ..wanted.clone() }.condition();
        let mut runs = runs_of_table(&self.folder()?, table)?;
        runs.sort_by_key(|run| !run.is_late);
        for run in &runs {
            for group in groups_of_run(run, &condition)?.iter().rev() {
                let (covering, has_earlier) = covering_row(group, wanted, at)?;
                if covering.is_some() {
                    return Ok(covering);
                }
                if has_earlier {
                    break;
                }
            }
        }
        Ok(None)
    }
}

/// The last row of a group that covers a moment, and whether any row that passes begins before it.
fn covering_row(
    group: &Group,
    wanted: &Wanted,
    at: i64,
) -> Result<(Option<RecordBatch>, bool), TimelineError> {
    let mut rows = group.rows(&wanted.columns_and(&["ts", "dur"]), usize::MAX)?;
    let (mut covering, mut has_earlier) = (None, false);
    while let Some(batch) = rows.next_batch()? {
        let (Some(ts), Some(dur)) = (times(&batch, "ts"), times(&batch, "dur")) else { continue };
        has_earlier |= ts.iter().any(|ts| *ts < at);
        // A null length is 0 below its validity: such a row covers nothing.
        let last = (0..ts.len()).rev().find(|row| ts[*row].saturating_add(dur[*row]) > at);
        if let Some(row) = last {
            let row = shape(&batch.slice(row, 1), &wanted.columns);
            covering = Some(row.map_err(group.source.failed())?);
        }
    }
    Ok((covering, has_earlier))
}

/// A column of times; none where the batch has no such column.
fn times<'b>(batch: &'b RecordBatch, column: &str) -> Option<&'b [i64]> {
    let column = batch.column_by_name(column)?.as_primitive_opt::<Int64Type>()?;
    Some(column.values())
}
