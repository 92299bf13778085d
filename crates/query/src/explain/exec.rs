//! The physical operator: reads its inputs, then gives the answer.

use super::answer::answer;
use super::call::Call;
use super::gather::Accounted;
use crate::catalog::arrow_schema;
use crate::operators::{by_ts, counted};
use arrow::datatypes::SchemaRef;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::memory_pool::MemoryConsumer;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::{
    Distribution, EquivalenceProperties, LexOrdering, OrderingRequirements, Partitioning,
    PhysicalExpr,
};
use datafusion::physical_plan::execution_plan::{
    Boundedness, ChildrenPropertiesMode, EmissionType, ReplaceChildrenOptions,
};
use datafusion::physical_plan::metrics::{BaselineMetrics, ExecutionPlanMetricsSet, MetricsSet};
use datafusion::physical_plan::stream::RecordBatchReceiverStream;
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, InputDistributionRequirements, PlanProperties,
};
use futures::StreamExt;
use std::fmt;
use std::sync::Arc;
use transect_model::table::TableDoc;

/// Batches of the answer that wait to be read.
const AHEAD: usize = 2;

/// Explains out of the rows of its inputs.
#[derive(Debug)]
pub(crate) struct ExplainExec {
    call: Call,
    tables: Vec<TableDoc>,
    inputs: Vec<Arc<dyn ExecutionPlan>>,
    properties: Arc<PlanProperties>,
    metrics: ExecutionPlanMetricsSet,
}

impl ExplainExec {
    pub(crate) fn new(call: Call, inputs: Vec<(TableDoc, Arc<dyn ExecutionPlan>)>) -> Self {
        let schema = arrow_schema(&call.asked.table());
        let properties = Arc::new(PlanProperties::new(
            EquivalenceProperties::new(schema),
            Partitioning::UnknownPartitioning(1),
            EmissionType::Final,
            Boundedness::Bounded,
        ));
        let (tables, inputs) = inputs.into_iter().unzip();
        Self { call, tables, inputs, properties, metrics: ExecutionPlanMetricsSet::new() }
    }
}

impl DisplayAs for ExplainExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ExplainExec: {}", self.call.asked.table().name)
    }
}

impl ExecutionPlan for ExplainExec {
    fn name(&self) -> &'static str {
        "ExplainExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn input_distribution_requirements(&self) -> InputDistributionRequirements {
        InputDistributionRequirements::new(vec![Distribution::SinglePartition; self.inputs.len()])
    }

    fn required_input_ordering(&self) -> Vec<Option<OrderingRequirements>> {
        let by_time = |input: &Arc<dyn ExecutionPlan>| {
            let ts = input.schema().index_of("ts").ok()?;
            LexOrdering::new([by_ts("ts", ts)]).map(OrderingRequirements::from)
        };
        self.inputs.iter().map(by_time).collect()
    }

    fn benefits_from_input_partitioning(&self) -> Vec<bool> {
        vec![false; self.inputs.len()]
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
        if children.len() != self.tables.len() {
            return Err(DataFusionError::Internal("an input for each table".to_owned()));
        }
        let inputs = self.tables.iter().copied().zip(children).collect();
        Ok(Arc::new(Self::new(self.call, inputs)))
    }

    fn with_new_children(
        self: Arc<Self>,
        children: Vec<Arc<dyn ExecutionPlan>>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let options = ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute);
        self.replace_children(children, options)
    }

    fn execute(&self, _: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let open = |input: &Arc<dyn ExecutionPlan>| input.execute(0, Arc::clone(&context));
        let inputs = self.inputs.iter().map(open).collect::<Result<Vec<_>>>()?;
        let inputs: Vec<_> = self.tables.iter().copied().zip(inputs).collect();
        let schema: SchemaRef = self.schema();
        let name = self.call.asked.table().name;
        let memory = MemoryConsumer::new(name).register(context.memory_pool());
        let mut stream = RecordBatchReceiverStream::builder(schema, AHEAD);
        let (to, call) = (stream.tx(), self.call);
        stream.spawn(async move {
            let mut gathered = Accounted::new(memory);
            for (table, mut input) in inputs {
                while let Some(batch) = input.next().await {
                    gathered.take(&table, &batch?)?;
                }
            }
            let wanted = || !to.is_closed();
            for batch in answer(call, &mut gathered, &wanted)? {
                if to.send(Ok(batch)).await.is_err() {
                    break;
                }
            }
            Ok(())
        });
        Ok(counted(stream.build(), BaselineMetrics::new(&self.metrics, 0)))
    }

    fn metrics(&self) -> Option<MetricsSet> {
        Some(self.metrics.clone_inner())
    }
}
