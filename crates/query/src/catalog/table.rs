//! A table of a recording: its files picked by machine, its order by `ts` declared where true.

use super::files::{Files, TableFile, sorted_range};
use arrow::array::{Array, BooleanArray, RecordBatch, UInt32Array};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use async_trait::async_trait;
use datafusion::catalog::{Session, TableProvider};
use datafusion::common::DFSchema;
use datafusion::datasource::file_format::parquet::ParquetFormat;
use datafusion::datasource::listing::{
    ListingOptions, ListingTable, ListingTableConfig, ListingTableUrl,
};
use datafusion::error::Result;
use datafusion::logical_expr::{Expr, TableProviderFilterPushDown, TableType, col};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::empty::EmptyExec;
use std::collections::BTreeSet;
use std::sync::{Arc, OnceLock};

/// One table and its files.
#[derive(Debug)]
pub(crate) struct RecordingTable {
    schema: SchemaRef,
    files: Files,
    /// Is every file sorted by `ts`? Found out once, when it first matters.
    is_sorted: OnceLock<bool>,
}

impl RecordingTable {
    pub(crate) fn new(schema: SchemaRef, files: Files) -> Self {
        Self { schema, files, is_sorted: OnceLock::new() }
    }

    /// The machines there are rows of, if every file is of one machine only.
    pub(crate) fn machines(&self) -> Option<Vec<u32>> {
        let ids: Option<BTreeSet<u32>> = self.files.0.iter().map(|file| file.machine_id).collect();
        ids.map(|ids| ids.into_iter().collect())
    }

    fn is_sorted(&self) -> bool {
        *self.is_sorted.get_or_init(|| {
            let sorted = |file: &TableFile| {
                file.read_metadata()
                    .is_ok_and(|m| sorted_range(&m).is_some() || m.file_metadata().num_rows() == 0)
            };
            self.schema.index_of("ts").is_ok() && self.files.0.iter().all(sorted)
        })
    }

    /// The files that may hold rows all of `filters` allow, as far as machines tell.
    fn pick(&self, state: &dyn Session, filters: &[Expr]) -> Result<Vec<&TableFile>> {
        let ids: BTreeSet<u32> = self.files.0.iter().filter_map(|file| file.machine_id).collect();
        let ids: Vec<u32> = ids.into_iter().collect();
        let kept = kept_machines(state, &ids, filters)?;
        let wanted = |file: &&TableFile| file.machine_id.is_none_or(|id| kept.contains(&id));
        Ok(self.files.0.iter().filter(wanted).collect())
    }

    fn listing(&self, state: &dyn Session, files: &[&TableFile]) -> Result<ListingTable> {
        let urls = files.iter().map(|file| ListingTableUrl::try_new(file.url().clone(), None));
        let urls = urls.collect::<Result<Vec<_>>>()?;
        let mut options =
            ListingOptions::new(Arc::new(ParquetFormat::default())).with_file_extension(".parquet");
        if self.is_sorted() {
            options = options.with_file_sort_order(vec![vec![col("ts").sort(true, false)]]);
        }
        let config = ListingTableConfig::new_with_multi_paths(urls)
            .with_listing_options(options)
            .with_schema(Arc::clone(&self.schema));
        let statistics = state.runtime_env().cache_manager.get_file_statistic_cache();
        Ok(ListingTable::try_new(config)?.with_cache(statistics))
    }
}

/// The machines for which no filter that is about `machine_id` alone says no.
fn kept_machines(state: &dyn Session, ids: &[u32], filters: &[Expr]) -> Result<BTreeSet<u32>> {
    let mut kept: BTreeSet<u32> = ids.iter().copied().collect();
    let schema = Arc::new(Schema::new(vec![Field::new("machine_id", DataType::UInt32, false)]));
    let about_machine = |filter: &&Expr| {
        let columns = filter.column_refs();
        !columns.is_empty() && columns.iter().all(|column| column.name == "machine_id")
    };
    for filter in filters.iter().filter(about_machine) {
        let batch = RecordBatch::try_new(
            Arc::clone(&schema),
            vec![Arc::new(UInt32Array::from(ids.to_vec()))],
        )?;
        let filter = unqualified(filter)?;
        let judge =
            state.create_physical_expr(filter, &DFSchema::try_from(Arc::clone(&schema))?)?;
        let verdict = judge.evaluate(&batch)?.into_array(ids.len())?;
        if let Some(verdict) = verdict.as_any().downcast_ref::<BooleanArray>() {
            for (at, id) in ids.iter().enumerate() {
                if verdict.is_null(at) || !verdict.value(at) {
                    kept.remove(id);
                }
            }
        }
    }
    Ok(kept)
}

fn unqualified(filter: &Expr) -> Result<Expr> {
    use datafusion::common::tree_node::{Transformed, TreeNode};
    let plain = filter.clone().transform(|expr| match expr {
        Expr::Column(column) => Ok(Transformed::yes(col(column.name))),
        other => Ok(Transformed::no(other)),
    })?;
    Ok(plain.data)
}

#[async_trait]
impl TableProvider for RecordingTable {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }

    fn table_type(&self) -> TableType {
        TableType::Base
    }

    fn supports_filters_pushdown(
        &self,
        filters: &[&Expr],
    ) -> Result<Vec<TableProviderFilterPushDown>> {
        // Which files and pages are read follows from the filters; each row is judged again
        // unless the Parquet reader takes the filter over when the plan is optimized.
        Ok(vec![TableProviderFilterPushDown::Inexact; filters.len()])
    }

    async fn scan(
        &self,
        state: &dyn Session,
        projection: Option<&Vec<usize>>,
        filters: &[Expr],
        limit: Option<usize>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let files = self.pick(state, filters)?;
        if files.is_empty() {
            let schema = match projection {
                Some(columns) => Arc::new(self.schema.project(columns)?),
                None => Arc::clone(&self.schema),
            };
            return Ok(Arc::new(EmptyExec::new(schema)));
        }
        self.listing(state, &files)?.scan(state, projection, filters, limit).await
    }
}
