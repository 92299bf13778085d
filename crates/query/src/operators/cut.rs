//! `cut`: intervals cut at the multiples of a width (from an origin), so that each piece lies in one bucket.
//!
//! The base of every timeline: how much of each pixel a state fills is a plain `GROUP BY` over
//! the pieces. Streaming, batch by batch; the pieces of one row come together, so the output is
//! not sorted by `ts` where rows are longer than the width.

use super::merge_exec::counted;
use arrow::array::{Array, ArrayRef, AsArray, Int64Array, RecordBatch, UInt32Array};
use arrow::compute::{cast, take};
use arrow::datatypes::{DataType, Int64Type, SchemaRef};
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::{EquivalenceProperties, PhysicalExpr};
use datafusion::physical_plan::execution_plan::{
    ChildrenPropertiesMode, EmissionType, ReplaceChildrenOptions,
};
use datafusion::physical_plan::metrics::{BaselineMetrics, ExecutionPlanMetricsSet, MetricsSet};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{DisplayAs, DisplayFormatType, ExecutionPlan, PlanProperties};
use futures::StreamExt;
use std::fmt;
use std::sync::Arc;

/// Which columns to cut, and where.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cut {
    pub(crate) ts: usize,
    pub(crate) dur: usize,
    /// Distance of the cuts, ns; more than 0.
    pub(crate) width_ns: i64,
    /// Where one of the cuts is, ns of trace time.
    pub(crate) origin_ns: i64,
}

/// Rows a batch of pieces has at most.
const BATCH_ROWS: usize = 8192;

/// Pieces of rows: which row each is of, and its own interval.
#[derive(Default)]
struct Pieces {
    row: Vec<u32>,
    ts: Vec<i64>,
    dur: Vec<Option<i64>>,
}

/// The rows of one batch, being cut.
struct Cutting {
    cut: Cut,
    rows: RecordBatch,
    ts: Int64Array,
    dur: Int64Array,
    at: usize,
    /// Where the rest of row `at` begins, if pieces of it were given out already.
    rest: Option<i64>,
}

impl Cutting {
    fn new(cut: Cut, rows: RecordBatch) -> Result<Self> {
        let int64 = |column: &ArrayRef| -> Result<Int64Array> {
            Ok(cast(column, &DataType::Int64)?.as_primitive::<Int64Type>().clone())
        };
        let (ts, dur) = (int64(rows.column(cut.ts))?, int64(rows.column(cut.dur))?);
        Ok(Self { cut, rows, ts, dur, at: 0, rest: None })
    }

    /// The next batch of pieces; none when every row is cut.
    fn next(&mut self) -> Result<Option<RecordBatch>> {
        let mut pieces = Pieces::default();
        while self.at < self.rows.num_rows() && pieces.row.len() < BATCH_ROWS {
            self.cut_row(&mut pieces)?;
        }
        if pieces.row.is_empty() { Ok(None) } else { self.batch(pieces).map(Some) }
    }

    /// Cuts row `at`, as far as the batch has room.
    fn cut_row(&mut self, pieces: &mut Pieces) -> Result<()> {
        let row = u32::try_from(self.at).unwrap_or(u32::MAX);
        let whole_ts = self.ts.value(self.at);
        let Some(dur) = self.dur.is_valid(self.at).then(|| self.dur.value(self.at)) else {
            pieces.push(row, whole_ts, None);
            self.at += 1;
            return Ok(());
        };
        let overflow =
            || DataFusionError::Execution(format!("ts {whole_ts} + dur {dur} is out of range"));
        let end = whole_ts.checked_add(dur).ok_or_else(overflow)?;
        let mut ts = self.rest.take().unwrap_or(whole_ts);
        while pieces.row.len() < BATCH_ROWS {
            let from_origin = ts.checked_sub(self.cut.origin_ns).ok_or_else(overflow)?;
            let into = from_origin.rem_euclid(self.cut.width_ns);
            let next = ts.checked_add(self.cut.width_ns - into).filter(|next| *next < end);
            pieces.push(row, ts, Some(next.unwrap_or(end) - ts));
            match next {
                Some(next) => ts = next,
                None => {
                    self.at += 1;
                    return Ok(());
                }
            }
        }
        self.rest = Some(ts);
        Ok(())
    }

    fn batch(&self, pieces: Pieces) -> Result<RecordBatch> {
        let rows = UInt32Array::from(pieces.row);
        let schema = self.rows.schema();
        let (ts, dur) = (Int64Array::from(pieces.ts), Int64Array::from(pieces.dur));
        let column = |(at, column): (usize, &ArrayRef)| -> Result<ArrayRef> {
            let kind = schema.field(at).data_type();
            match at {
                _ if at == self.cut.ts => Ok(cast(&ts, kind)?),
                _ if at == self.cut.dur => Ok(cast(&dur, kind)?),
                _ => Ok(take(column, &rows, None)?),
            }
        };
        let columns = self.rows.columns().iter().enumerate().map(column).collect::<Result<_>>()?;
        Ok(RecordBatch::try_new(schema, columns)?)
    }
}

impl Pieces {
    fn push(&mut self, row: u32, ts: i64, dur: Option<i64>) {
        self.row.push(row);
        self.ts.push(ts);
        self.dur.push(dur);
    }
}

/// The physical operator.
#[derive(Debug)]
pub(crate) struct CutExec {
    input: Arc<dyn ExecutionPlan>,
    cut: Cut,
    properties: Arc<PlanProperties>,
    metrics: ExecutionPlanMetricsSet,
}

impl CutExec {
    pub(crate) fn new(input: Arc<dyn ExecutionPlan>, cut: Cut) -> Self {
        let properties = Arc::new(PlanProperties::new(
            EquivalenceProperties::new(input.schema()),
            input.properties().output_partitioning().clone(),
            EmissionType::Incremental,
            input.properties().boundedness,
        ));
        Self { input, cut, properties, metrics: ExecutionPlanMetricsSet::new() }
    }
}

impl DisplayAs for CutExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "CutExec: width={} ns", self.cut.width_ns)
    }
}

impl ExecutionPlan for CutExec {
    fn name(&self) -> &'static str {
        "CutExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        vec![&self.input]
    }

    fn apply_expressions(
        &self,
        _: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        Ok(TreeNodeRecursion::Continue)
    }

    fn replace_children(
        self: Arc<Self>,
        mut children: Vec<Arc<dyn ExecutionPlan>>,
        _: ReplaceChildrenOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let input = children
            .pop()
            .ok_or_else(|| DataFusionError::Internal("a cut has one input".to_owned()))?;
        Ok(Arc::new(Self::new(input, self.cut)))
    }

    fn with_new_children(
        self: Arc<Self>,
        children: Vec<Arc<dyn ExecutionPlan>>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let options = ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute);
        self.replace_children(children, options)
    }

    fn execute(
        &self,
        partition: usize,
        context: Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream> {
        let input = self.input.execute(partition, context)?;
        let pieces = futures::stream::try_unfold(
            (input, self.cut, None::<Cutting>),
            |(mut input, cut, mut cutting)| async move {
                loop {
                    if let Some(mut rows) = cutting.take()
                        && let Some(batch) = rows.next()?
                    {
                        return Ok(Some((batch, (input, cut, Some(rows)))));
                    }
                    match input.next().await.transpose()? {
                        Some(rows) => cutting = Some(Cutting::new(cut, rows)?),
                        None => return Ok(None),
                    }
                }
            },
        );
        let schema: SchemaRef = self.input.schema();
        let stream = Box::pin(RecordBatchStreamAdapter::new(schema, pieces));
        Ok(counted(stream, BaselineMetrics::new(&self.metrics, partition)))
    }

    fn metrics(&self) -> Option<MetricsSet> {
        Some(self.metrics.clone_inner())
    }
}
