//! The rows of one folder of a table, in order of `ts`.
//!
//! The `bucket` files of a folder are in order one behind the other, and each `late` file is in
//! itself (crates/store/src/tables/README.md). Rows that are late are few, so the merge hands out
//! long stretches of a batch, not rows: what it costs is looking for their ends.

use crate::column;
use crate::error::{TimelineError, io_error, read_error, reader_error, table_error};
use arrow::array::RecordBatch;
use arrow::datatypes::{DataType, Field, Schema};
use arrow::error::ArrowError;
use parquet::arrow::ProjectionMask;
use parquet::arrow::arrow_reader::{
    ArrowReaderMetadata, ArrowReaderOptions, ParquetRecordBatchReader,
    ParquetRecordBatchReaderBuilder,
};
use parquet::file::statistics::Statistics;
use std::fs;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, sync_channel};
use std::thread;
use transect_integrity::{CheckedFile, Folder, KnownFile};

const BATCH_ROWS: usize = 16 * 1024;
/// Batches decoded ahead.
const AHEAD: usize = 3;

/// The files of a folder.
#[derive(Clone, Debug, Default)]
pub(crate) struct Files {
    buckets: Vec<KnownFile>,
    late: Vec<KnownFile>,
}

impl Files {
    /// Those in `dir` itself, which is in the folder of tables; none where there is no such folder.
    pub(crate) fn in_dir(tables: &Folder, dir: &Path) -> Result<Self, TimelineError> {
        let mut numbered = [Vec::new(), Vec::new()];
        if !dir.exists() {
            return Ok(Files::default());
        }
        for entry in fs::read_dir(dir).map_err(io_error("list", dir))? {
            let path = entry.map_err(io_error("list", dir))?.path();
            let stem = path.file_name().and_then(|name| name.to_str()?.strip_suffix(".parquet"));
            let Some((kind, number)) = stem.and_then(|stem| stem.split_once('=')) else { continue };
            let Ok(number) = number.parse::<u64>() else { continue };
            match kind {
                "bucket" => numbered[0].push((number, known(tables, &path)?)),
                "late" => numbered[1].push((number, known(tables, &path)?)),
                _ => {}
            }
        }
        let [buckets, late] = numbered.map(|mut files| {
            files.sort_by_key(|(number, _)| *number);
            files.into_iter().map(|(_, file)| file).collect()
        });
        Ok(Files { buckets, late })
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.buckets.is_empty() && self.late.is_empty()
    }

    pub(crate) fn all(&self) -> impl Iterator<Item = &KnownFile> {
        self.buckets.iter().chain(&self.late)
    }
}

/// Opens a folder of tables. What is wrong with it names the file.
pub(crate) fn open_folder(tables: &Path) -> Result<Folder, TimelineError> {
    Folder::open(tables).map_err(read_error("open", tables))
}

/// What is known of a file of tables.
pub(crate) fn known(tables: &Folder, path: &Path) -> Result<KnownFile, TimelineError> {
    tables.file(path).map_err(read_error("open", path))
}

/// Opens a file, whose blocks are verified as they are read.
pub(crate) fn checked(known: &KnownFile) -> Result<CheckedFile, TimelineError> {
    known.open().map_err(read_error("open", known.path()))
}

/// Opens a file for some of its columns; words come as dictionaries.
pub(crate) fn open(
    known: &KnownFile,
    columns: &[&str],
) -> Result<ParquetRecordBatchReader, TimelineError> {
    let file = checked(known)?;
    let metadata = metadata_of(&file, known)?;
    let builder = ParquetRecordBatchReaderBuilder::new_with_metadata(file, metadata);
    let mask = ProjectionMask::columns(builder.parquet_schema(), columns.iter().copied());
    builder.with_projection(mask).with_batch_size(BATCH_ROWS).build().map_err(table_error(known))
}

/// A file's metadata, by which words come as dictionaries.
pub(crate) fn metadata_of(
    file: &CheckedFile,
    known: &KnownFile,
) -> Result<ArrowReaderMetadata, TimelineError> {
    let failed = || table_error(known);
    let plain = ArrowReaderMetadata::load(file, ArrowReaderOptions::new()).map_err(failed())?;
    let options = ArrowReaderOptions::new().with_schema(with_dictionaries(plain.schema()));
    ArrowReaderMetadata::try_new(Arc::clone(plain.metadata()), options).map_err(failed())
}

fn with_dictionaries(schema: &Schema) -> Arc<Schema> {
    let words = || DataType::Dictionary(Box::new(DataType::Int32), Box::new(DataType::Utf8));
    let fields = schema.fields().iter().map(|field| match field.data_type() {
        DataType::Utf8 => Field::new(field.name(), words(), field.is_nullable()),
        _ => field.as_ref().clone(),
    });
    Arc::new(Schema::new(fields.collect::<Vec<_>>()))
}

/// What a file's metadata says.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct FileFacts {
    pub(crate) rows: u64,
    /// First and last start, where the file has stamps.
    pub(crate) ts: Option<(i64, i64)>,
}

/// Looks at a file's metadata.
pub(crate) fn facts(known: &KnownFile) -> Result<FileFacts, TimelineError> {
    let file = checked(known)?;
    let metadata = ArrowReaderMetadata::load(&file, ArrowReaderOptions::new());
    let metadata = metadata.map_err(table_error(known))?;
    let mut facts = FileFacts::default();
    for group in metadata.metadata().row_groups() {
        facts.rows += u64::try_from(group.num_rows()).unwrap_or(0);
        let ts = group.columns().iter().find(|c| c.column_descr().name() == "ts");
        let Some(Statistics::Int64(found)) = ts.and_then(|c| c.statistics()) else { continue };
        let (Some(min), Some(max)) = (found.min_opt(), found.max_opt()) else { continue };
        let known = facts.ts.unwrap_or((*min, *max));
        facts.ts = Some((known.0.min(*min), known.1.max(*max)));
    }
    Ok(facts)
}

/// Hands out every row of the files in order of `ts`, as stretches of batches.
pub(crate) fn each(
    files: &Files,
    columns: &'static [&'static str],
    ahead: bool,
    mut take: impl FnMut(&RecordBatch, Range<usize>) -> Result<(), TimelineError>,
) -> Result<(), TimelineError> {
    let mut runs = Runs::new(files, columns, ahead)?;
    while let Some((at, limit)) = runs.first()? {
        let Some(head) = &mut runs.open[at].head else { continue };
        let stamps = stamps(&head.batch)?;
        let end = match limit {
            Some(limit) => head.at + stamps[head.at..].partition_point(|ts| *ts <= limit),
            None => stamps.len(),
        };
        // The first of all runs has a row that is not beyond the limit.
        let end = end.max(head.at + 1);
        take(&head.batch, head.at..end)?;
        head.at = end;
        match stamps.get(end).copied() {
            Some(ts) => head.ts = ts,
            None => runs.open[at].advance()?,
        }
    }
    Ok(())
}

/// The column `ts`.
pub(crate) fn stamps(batch: &RecordBatch) -> Result<&[i64], TimelineError> {
    Ok(column::i64s(batch, "ts")?.values())
}

/// Files that are in order one behind the other, and are merged with each other.
struct Runs {
    columns: &'static [&'static str],
    open: Vec<Run>,
    /// Late files that begin later: first stamp and file, the next one last.
    waiting: Vec<(i64, KnownFile)>,
}

struct Run {
    source: Source,
    head: Option<Head>,
}

/// The row of a run that comes next.
struct Head {
    batch: RecordBatch,
    at: usize,
    ts: i64,
}

impl Runs {
    fn new(
        files: &Files,
        columns: &'static [&'static str],
        ahead: bool,
    ) -> Result<Self, TimelineError> {
        let mut waiting = Vec::new();
        for file in &files.late {
            let first = facts(file)?.ts.map_or(i64::MIN, |(first, _)| first);
            waiting.push((first, file.clone()));
        }
        waiting.sort_by(|(a, file), (b, other)| (b, other.path()).cmp(&(a, file.path())));
        let mut runs = Runs { columns, open: Vec::new(), waiting };
        runs.start(files.buckets.clone(), ahead)?;
        Ok(runs)
    }

    fn start(&mut self, files: Vec<KnownFile>, ahead: bool) -> Result<(), TimelineError> {
        let mut run = Run { source: Source::new(files, self.columns, ahead), head: None };
        run.advance()?;
        self.open.push(run);
        Ok(())
    }

    /// The run that goes on, and the last stamp it may hand out; none at the end.
    fn first(&mut self) -> Result<Option<(usize, Option<i64>)>, TimelineError> {
        self.open.retain(|run| run.head.is_some());
        loop {
            let mut first: Option<(i64, usize)> = None;
            let mut limit = self.waiting.last().map(|(ts, _)| *ts);
            for (at, run) in self.open.iter().enumerate() {
                let Some(head) = &run.head else { continue };
                let second = match first {
                    Some((ts, _)) if ts <= head.ts => head.ts,
                    _ => match first.replace((head.ts, at)) {
                        Some((ts, _)) => ts,
                        None => continue,
                    },
                };
                limit = Some(limit.map_or(second, |limit| limit.min(second)));
            }
            let is_due =
                |(waiting, _): &mut (i64, KnownFile)| first.is_none_or(|(ts, _)| *waiting <= ts);
            match self.waiting.pop_if(is_due) {
                Some((_, file)) => self.start(vec![file], false)?,
                None => return Ok(first.map(|(_, at)| (at, limit))),
            }
        }
    }
}

impl Run {
    /// The next batch with rows.
    fn advance(&mut self) -> Result<(), TimelineError> {
        self.head = None;
        while let Some(batch) = self.source.next()? {
            if let Some(ts) = stamps(&batch)?.first().copied() {
                self.head = Some(Head { batch, at: 0, ts });
                return Ok(());
            }
        }
        Ok(())
    }
}

/// Batches of files, one behind the other.
enum Source {
    Here(Reading),
    /// Decoded by a thread of its own, which ends when nobody takes its batches any more.
    Ahead(Receiver<Option<Result<RecordBatch, TimelineError>>>),
}

impl Source {
    fn new(files: Vec<KnownFile>, columns: &'static [&'static str], ahead: bool) -> Self {
        let mut reading = Reading { files: files.into_iter(), columns, reader: None };
        if !ahead {
            return Source::Here(reading);
        }
        let (to, batches) = sync_channel(AHEAD);
        let work = move || {
            loop {
                let batch = reading.next().transpose();
                let goes_on = matches!(batch, Some(Ok(_)));
                if to.send(batch).is_err() || !goes_on {
                    return;
                }
            }
        };
        // A machine that gives no thread gives no tiles either: `spawn` may panic, and the builder of
        // units tells.
        thread::spawn(work);
        Source::Ahead(batches)
    }

    fn next(&mut self) -> Result<Option<RecordBatch>, TimelineError> {
        match self {
            Source::Here(reading) => reading.next(),
            Source::Ahead(batches) => match batches.recv() {
                Ok(batch) => batch.transpose(),
                // It did not say that this is the end: it died.
                Err(_) => Err(TimelineError::Request("a table reader thread panicked".to_owned())),
            },
        }
    }
}

struct Reading {
    files: std::vec::IntoIter<KnownFile>,
    columns: &'static [&'static str],
    reader: Option<(KnownFile, ParquetRecordBatchReader)>,
}

impl Reading {
    fn next(&mut self) -> Result<Option<RecordBatch>, TimelineError> {
        loop {
            if let Some((file, reader)) = &mut self.reader {
                let failed = |error: ArrowError| reader_error(file, &error);
                if let Some(batch) = reader.next().transpose().map_err(failed)? {
                    return Ok(Some(batch));
                }
            }
            let Some(file) = self.files.next() else { return Ok(None) };
            let reader = open(&file, self.columns)?;
            self.reader = Some((file, reader));
        }
    }
}
