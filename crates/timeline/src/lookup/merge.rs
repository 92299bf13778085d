//! Rows of several runs in order of `ts`.

use super::group::{Group, GroupRows, Source};
use super::shape::shape;
use crate::error::TimelineError;
use arrow::array::{AsArray, RecordBatch};
use arrow::datatypes::Int64Type;
use std::sync::Arc;

/// Rows in order of `ts`, in stretches of one file each; rows with the same `ts`, and those of
/// tables without `ts`, are in the order of the files and of the rows in them. It ends at the first
/// error.
pub struct Rows {
    runs: Vec<Run>,
    /// Columns of each batch; empty for all that its file has.
    columns: Vec<&'static str>,
    /// Columns that are read: those and `ts`.
    read: Vec<&'static str>,
    /// Rows that may still be given.
    left: usize,
}

/// Row groups in order one behind the other.
struct Run {
    groups: std::vec::IntoIter<Group>,
    /// The group that comes next.
    next_group: Option<Group>,
    reading: Option<(Arc<Source>, GroupRows)>,
    head: Option<Head>,
    /// No row of the run that is still to come begins before this; none at the end.
    next_ts: Option<i64>,
}

/// A batch of which some rows have been given.
struct Head {
    batch: RecordBatch,
    source: Arc<Source>,
    at: usize,
}

impl Rows {
    pub(super) fn new(runs: Vec<Vec<Group>>, columns: &[&'static str], limit: usize) -> Self {
        let mut read = columns.to_vec();
        if !read.is_empty() && !read.contains(&"ts") {
            read.push("ts");
        }
        let runs = runs.into_iter().map(Run::new).collect();
        Rows { runs, columns: columns.to_vec(), read, left: limit }
    }

    fn step(&mut self) -> Result<Option<RecordBatch>, TimelineError> {
        while self.left > 0 {
            let pending = self.runs.iter().enumerate();
            let mut pending: Vec<(i64, usize)> =
                pending.filter_map(|(at, run)| Some((run.next_ts?, at))).collect();
            pending.sort_unstable();
            let Some((_, at)) = pending.first().copied() else { return Ok(None) };
            let run = &mut self.runs[at];
            let Some(head) = &mut run.head else {
                run.advance(&self.read, self.left)?;
                continue;
            };
            let rest = match stamps(head)? {
                None => head.batch.num_rows() - head.at,
                Some(stamps) => {
                    let other = pending.get(1).copied();
                    let is_first = |ts: &i64| other.is_none_or(|other| (*ts, at) < other);
                    // The first row is: that is why this run was chosen.
                    stamps[head.at..].partition_point(is_first).max(1)
                }
            };
            let rows = rest.min(self.left);
            let stretch = shape(&head.batch.slice(head.at, rows), &self.columns);
            let stretch = stretch.map_err(head.source.failed())?;
            head.at += rows;
            self.left -= rows;
            run.next_ts = match stamps(head)?.map(|stamps| stamps.get(head.at).copied()) {
                Some(Some(ts)) => Some(ts),
                _ => run.next_ts,
            };
            run.head.take_if(|head| head.at == head.batch.num_rows());
            return Ok(Some(stretch));
        }
        Ok(None)
    }
}

impl Iterator for Rows {
    type Item = Result<RecordBatch, TimelineError>;

    fn next(&mut self) -> Option<Self::Item> {
        let stretch = self.step().transpose();
        if !matches!(stretch, Some(Ok(_))) {
            self.runs.clear();
        }
        stretch
    }
}

impl Run {
    fn new(groups: Vec<Group>) -> Self {
        let mut groups = groups.into_iter();
        let next_group = groups.next();
        let next_ts = next_group.as_ref().map(first_ts);
        Run { groups, next_group, reading: None, head: None, next_ts }
    }

    /// Reads one batch, or moves to where the next group begins: other runs may come first.
    fn advance(&mut self, columns: &[&'static str], limit: usize) -> Result<(), TimelineError> {
        if let Some((source, rows)) = &mut self.reading {
            if let Some(batch) = rows.next_batch()? {
                let head = Head { batch, source: Arc::clone(source), at: 0 };
                if let Some(first) = stamps(&head)?.and_then(|stamps| stamps.first().copied()) {
                    self.next_ts = Some(first);
                }
                self.head = Some(head);
                return Ok(());
            }
            self.reading = None;
            let first = self.next_group.as_ref().map(first_ts);
            self.next_ts = first.map(|first| self.next_ts.map_or(first, |ts| ts.max(first)));
            return Ok(());
        }
        let Some(group) = self.next_group.take() else {
            self.next_ts = None;
            return Ok(());
        };
        self.next_group = self.groups.next();
        self.reading = Some((Arc::clone(&group.source), group.rows(columns, limit)?));
        Ok(())
    }
}

/// A group that does not say when it begins is read first.
fn first_ts(group: &Group) -> i64 {
    group.ts.map_or(i64::MIN, |(first, _)| first)
}

fn stamps(head: &Head) -> Result<Option<&[i64]>, TimelineError> {
    let Some(column) = head.batch.column_by_name("ts") else { return Ok(None) };
    let stamps = column.as_primitive_opt::<Int64Type>().ok_or_else(|| TimelineError::Table {
        path: head.source.file.path().to_owned(),
        reason: format!("column ts has type {}, not Int64", column.data_type()),
    })?;
    Ok(Some(stamps.values()))
}
