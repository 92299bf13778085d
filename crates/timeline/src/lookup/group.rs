//! Row groups: what their statistics prove, and the rows of one that pass a condition.

use super::condition::{Condition, Known};
use super::files::FileRun;
use crate::error::{TimelineError, reader_error, table_error};
use crate::rows::{checked, metadata_of};
use arrow::array::{BooleanArray, RecordBatch};
use arrow::datatypes::DataType;
use arrow::error::ArrowError;
use parquet::arrow::ProjectionMask;
use parquet::arrow::arrow_reader::{
    ArrowPredicate, ArrowPredicateFn, ArrowReaderMetadata, ParquetRecordBatchReader,
    ParquetRecordBatchReaderBuilder, RowFilter,
};
use parquet::file::metadata::RowGroupMetaData;
use parquet::file::statistics::Statistics;
use std::collections::BTreeSet;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use transect_integrity::KnownFile;

/// Rows of a batch, both where conditions are judged and where rows are given.
const BATCH_ROWS: usize = 8192;

/// An open file, as its footer describes it.
pub(super) struct Source {
    pub(super) file: KnownFile,
    metadata: ArrowReaderMetadata,
}

/// A row group that may have rows which pass.
pub(super) struct Group {
    pub(super) source: Arc<Source>,
    number: usize,
    /// First and last start; none where the file has no `ts`, or does not say.
    pub(super) ts: Option<(i64, i64)>,
    /// What is left to be judged by row.
    condition: Condition,
}

/// Rows of a row group, batch by batch.
pub(super) struct GroupRows {
    source: Arc<Source>,
    /// None at the end.
    reader: Option<ParquetRecordBatchReader>,
}

impl Source {
    fn open(known: &KnownFile) -> Result<Self, TimelineError> {
        let file = checked(known)?;
        let metadata = guarded(known, || metadata_of(&file, known))?;
        Ok(Source { file: known.clone(), metadata })
    }

    fn type_of(&self, column: &str) -> Option<&DataType> {
        self.metadata.schema().field_with_name(column).ok().map(|field| field.data_type())
    }

    fn groups(&self) -> &[RowGroupMetaData] {
        self.metadata.metadata().row_groups()
    }

    pub(super) fn failed(&self) -> impl Fn(ArrowError) -> TimelineError {
        let file = self.file.clone();
        move |error| reader_error(&file, &error)
    }
}

/// The row groups of a run that may have rows which pass, in order.
pub(super) fn groups_of_run(
    run: &FileRun,
    condition: &Condition,
) -> Result<Vec<Group>, TimelineError> {
    let machine = run.machine_id.map(i64::from);
    let by_folder = |column: &str| match machine {
        Some(id) if column == "machine_id" => {
            Known { bounds: Some((id, id)), is_complete: true, is_absent: false }
        }
        _ => Known::default(),
    };
    let condition = condition.simplified(&by_folder);
    let mut groups = Vec::new();
    if condition.is_never() {
        return Ok(groups);
    }
    for file in &run.files {
        let source = Arc::new(Source::open(file)?);
        for (number, group) in source.groups().iter().enumerate() {
            let left = condition.simplified(&|column| known(&source, group, column));
            if !left.is_never() && group.num_rows() > 0 {
                let ts = known(&source, group, "ts").bounds;
                groups.push(Group { source: Arc::clone(&source), number, ts, condition: left });
            }
        }
    }
    Ok(groups)
}

/// What the statistics say of a column.
fn known(source: &Source, group: &RowGroupMetaData, column: &str) -> Known {
    let Some(data_type) = source.type_of(column) else {
        return Known { is_absent: true, ..Known::default() };
    };
    let chunk = group.columns().iter().find(|chunk| chunk.column_path().string() == column);
    let Some(statistics) = chunk.and_then(|chunk| chunk.statistics()) else {
        return Known::default();
    };
    // Unsigned numbers are stored in signed ones' bits, and ordered as what they are.
    let bounds = match (statistics, data_type) {
        (Statistics::Int32(found), DataType::Int32) => found
            .min_opt()
            .zip(found.max_opt())
            .map(|(min, max)| (i64::from(*min), i64::from(*max))),
        (Statistics::Int32(found), DataType::UInt32) => {
            let number = |bits: &i32| i64::from(bits.cast_unsigned());
            found.min_opt().zip(found.max_opt()).map(|(min, max)| (number(min), number(max)))
        }
        (Statistics::Int64(found), DataType::Int64) => {
            found.min_opt().zip(found.max_opt()).map(|(min, max)| (*min, *max))
        }
        (Statistics::Boolean(found), DataType::Boolean) => found
            .min_opt()
            .zip(found.max_opt())
            .map(|(min, max)| (i64::from(*min), i64::from(*max))),
        _ => None,
    };
    let bounds = bounds.filter(|(min, max)| min <= max);
    Known { is_absent: false, bounds, is_complete: statistics.null_count_opt() == Some(0) }
}

impl Group {
    /// Its rows that pass, up to `limit`: these columns, as far as the file has them; without any, all.
    /// Conditions are judged first, one behind the other, each by its own columns; of the others only
    /// the rows that pass are decoded.
    pub(super) fn rows(
        &self,
        columns: &[&'static str],
        limit: usize,
    ) -> Result<GroupRows, TimelineError> {
        let Source { file: known, metadata } = self.source.as_ref();
        let file = checked(known)?;
        let mut builder =
            ParquetRecordBatchReaderBuilder::new_with_metadata(file, metadata.clone())
                .with_row_groups(vec![self.number])
                .with_batch_size(BATCH_ROWS)
                .with_limit(limit);
        if !columns.is_empty() {
            let mask = ProjectionMask::columns(metadata.parquet_schema(), columns.iter().copied());
            builder = builder.with_projection(mask);
        }
        let parts = match &self.condition {
            Condition::All(parts) => parts.as_slice(),
            one => std::slice::from_ref(one),
        };
        let predicates: Vec<_> = parts.iter().map(|part| self.predicate(part)).collect();
        if !predicates.is_empty() {
            builder = builder.with_row_filter(RowFilter::new(predicates));
        }
        let reader = guarded(known, || builder.build().map_err(table_error(known)))?;
        Ok(GroupRows { source: Arc::clone(&self.source), reader: Some(reader) })
    }

    fn predicate(&self, condition: &Condition) -> Box<dyn ArrowPredicate> {
        let mut columns = BTreeSet::new();
        condition.columns(&mut columns);
        let mask = ProjectionMask::columns(self.source.metadata.parquet_schema(), columns);
        let condition = condition.clone();
        let judge = move |batch: RecordBatch| {
            condition.judge(&batch).map(|passed| BooleanArray::new(passed, None))
        };
        Box::new(ArrowPredicateFn::new(mask, judge))
    }
}

impl GroupRows {
    /// The next batch with rows; none at the end, and after an error.
    pub(super) fn next_batch(&mut self) -> Result<Option<RecordBatch>, TimelineError> {
        let Some(reader) = &mut self.reader else { return Ok(None) };
        let source = &self.source;
        let batch = guarded(&source.file, || {
            loop {
                match reader.next().transpose().map_err(source.failed())? {
                    Some(batch) if batch.num_rows() == 0 => {}
                    batch => return Ok(batch),
                }
            }
        });
        if !matches!(batch, Ok(Some(_))) {
            self.reader = None;
        }
        batch
    }
}

/// Runs what decodes a file: a panic over damaged bytes is an error that names it.
fn guarded<T>(
    known: &KnownFile,
    work: impl FnOnce() -> Result<T, TimelineError>,
) -> Result<T, TimelineError> {
    let done = catch_unwind(AssertUnwindSafe(work));
    done.unwrap_or_else(|_| Err(reader_error(known, &io::Error::other("the decoder panicked"))))
}
