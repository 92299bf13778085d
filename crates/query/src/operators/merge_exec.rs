//! The physical operator of both joins: two inputs sorted by `ts`, merged into one stream.

use super::asof::Asof;
use super::cursor::{Columns, Cursor};
use super::held::Held;
use super::interval::{IntervalJoin, Side};
use super::keys::{Interner, comparable};
use super::output::{From, Output, Recipe};
use arrow::array::RecordBatch;
use arrow::compute::SortOptions;
use arrow::datatypes::DataType;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::memory_pool::MemoryConsumer;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_expr::{
    Distribution, EquivalenceProperties, LexOrdering, OrderingRequirements, Partitioning,
    PhysicalExpr, PhysicalSortExpr,
};
use datafusion::physical_plan::common::spawn_buffered;
use datafusion::physical_plan::execution_plan::{
    Boundedness, ChildrenPropertiesMode, EmissionType, ReplaceChildrenOptions,
};
use datafusion::physical_plan::metrics::{
    BaselineMetrics, ExecutionPlanMetricsSet, MetricsSet, RecordOutput,
};
use datafusion::physical_plan::stream::RecordBatchReceiverStream;
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, InputDistributionRequirements, PlanProperties,
};
use std::fmt;
use std::sync::Arc;

/// Which join it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Asof,
    Interval,
}

impl Kind {
    /// The table function's name.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Kind::Asof => "asof",
            Kind::Interval => "interval_join",
        }
    }
}

/// Batches that an input may be ahead of the merge.
const AHEAD: usize = 2;

/// Merges two inputs that are sorted by `ts`.
#[derive(Debug)]
pub(crate) struct MergeExec {
    kind: Kind,
    inputs: [Arc<dyn ExecutionPlan>; 2],
    columns: [Columns; 2],
    recipe: Recipe,
    properties: Arc<PlanProperties>,
    metrics: ExecutionPlanMetricsSet,
}

impl MergeExec {
    pub(crate) fn new(
        kind: Kind,
        inputs: [Arc<dyn ExecutionPlan>; 2],
        columns: [Columns; 2],
        recipe: Recipe,
    ) -> Self {
        let properties = Arc::new(PlanProperties::new(
            ordering(kind, &columns, &recipe),
            Partitioning::UnknownPartitioning(1),
            EmissionType::Incremental,
            Boundedness::Bounded,
        ));
        let metrics = ExecutionPlanMetricsSet::new();
        Self { kind, inputs, columns, recipe, properties, metrics }
    }

    /// The types keys are compared in; both sides must agree on them.
    fn key_types(&self) -> Result<Vec<DataType>> {
        let [left, right] = [0, 1].map(|side| {
            let schema = self.inputs[side].schema();
            let kinds = self.columns[side].keys.iter();
            kinds.map(|c| comparable(schema.field(*c).data_type())).collect::<Vec<_>>()
        });
        if left != right {
            return Err(DataFusionError::Internal("keys of different types".to_owned()));
        }
        left.into_iter()
            .collect::<Option<_>>()
            .ok_or_else(|| DataFusionError::Internal("a key that cannot be compared".to_owned()))
    }

    fn cursor(&self, side: usize, context: &Arc<TaskContext>) -> Result<Cursor> {
        let stream = self.inputs[side].execute(0, Arc::clone(context))?;
        let name = if side == 0 { "left" } else { "right" };
        Ok(Cursor::new(spawn_buffered(stream, AHEAD), self.columns[side].clone(), name))
    }
}

/// Output comes in order of the left's `ts` (as-of) or of the overlap's (intervals).
fn ordering(kind: Kind, columns: &[Columns; 2], recipe: &Recipe) -> EquivalenceProperties {
    let sorted = match kind {
        Kind::Asof => From::Left(columns[0].ts),
        Kind::Interval => From::OverlapTs,
    };
    let at = recipe.columns.iter().position(|from| *from == sorted);
    let order = at.map(|at| by_ts(recipe.schema.field(at).name(), at));
    let schema = Arc::clone(&recipe.schema);
    EquivalenceProperties::new_with_orderings(schema, order.into_iter().map(|expr| [expr]))
}

/// The order of a column, as tables have it.
pub(crate) fn by_ts(name: &str, at: usize) -> PhysicalSortExpr {
    let options = SortOptions { descending: false, nulls_first: false };
    PhysicalSortExpr::new(Arc::new(Column::new(name, at)), options)
}

impl DisplayAs for MergeExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let schema = self.inputs[0].schema();
        let keys: Vec<_> =
            self.columns[0].keys.iter().map(|c| schema.field(*c).name().as_str()).collect();
        let name = match self.kind {
            Kind::Asof => "AsofExec",
            Kind::Interval => "IntervalJoinExec",
        };
        write!(f, "{name}: keys=[{}]", keys.join(", "))
    }
}

impl ExecutionPlan for MergeExec {
    fn name(&self) -> &'static str {
        match self.kind {
            Kind::Asof => "AsofExec",
            Kind::Interval => "IntervalJoinExec",
        }
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn input_distribution_requirements(&self) -> InputDistributionRequirements {
        InputDistributionRequirements::new(vec![Distribution::SinglePartition; 2])
    }

    fn required_input_ordering(&self) -> Vec<Option<OrderingRequirements>> {
        let required = |side: usize| {
            let ts = self.columns[side].ts;
            let name = self.inputs[side].schema().field(ts).name().clone();
            LexOrdering::new([by_ts(&name, ts)]).map(OrderingRequirements::from)
        };
        vec![required(0), required(1)]
    }

    fn maintains_input_order(&self) -> Vec<bool> {
        vec![self.kind == Kind::Asof, false]
    }

    fn benefits_from_input_partitioning(&self) -> Vec<bool> {
        vec![false, false]
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        self.inputs.iter().collect()
    }

    fn apply_expressions(
        &self,
        _: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        Ok(TreeNodeRecursion::Continue)
    }

    fn replace_children(
        self: Arc<Self>,
        children: Vec<Arc<dyn ExecutionPlan>>,
        _: ReplaceChildrenOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let inputs = <[_; 2]>::try_from(children)
            .map_err(|_| DataFusionError::Internal("a join has two inputs".to_owned()))?;
        Ok(Arc::new(Self::new(self.kind, inputs, self.columns.clone(), self.recipe.clone())))
    }

    fn with_new_children(
        self: Arc<Self>,
        children: Vec<Arc<dyn ExecutionPlan>>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let options = ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute);
        self.replace_children(children, options)
    }

    fn execute(&self, _: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let keys = Interner::new(self.key_types()?)?;
        let [left, right] = [self.cursor(0, &context)?, self.cursor(1, &context)?];
        let schema = Arc::clone(&self.recipe.schema);
        let held = |side: usize| Held::new(&self.inputs[side].schema());
        let recipe = self.recipe.clone();
        let mut stream = RecordBatchReceiverStream::builder(schema.clone(), AHEAD);
        let memory = MemoryConsumer::new(self.kind.name()).register(context.memory_pool());
        let output = Output { to: stream.tx(), memory };
        match self.kind {
            Kind::Asof => {
                let join = Asof { left, right, keys, held: held(1)?, recipe };
                stream.spawn(join.run(output));
            }
            Kind::Interval => {
                let (left, right) = (Side::new(left, held(0)?), Side::new(right, held(1)?));
                let batch_rows = context.session_config().batch_size();
                let join = IntervalJoin { left, right, keys, recipe, batch_rows };
                stream.spawn(join.run(output));
            }
        }
        Ok(counted(stream.build(), BaselineMetrics::new(&self.metrics, 0)))
    }

    fn metrics(&self) -> Option<MetricsSet> {
        Some(self.metrics.clone_inner())
    }
}

/// Counts the rows that come out, for `EXPLAIN ANALYZE`.
pub(crate) fn counted(
    stream: SendableRecordBatchStream,
    metrics: BaselineMetrics,
) -> SendableRecordBatchStream {
    use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
    use futures::StreamExt;
    let schema = stream.schema();
    let rows =
        stream.map(move |batch: Result<RecordBatch>| batch.map(|b| b.record_output(&metrics)));
    Box::pin(RecordBatchStreamAdapter::new(schema, rows))
}
