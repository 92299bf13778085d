//! The table that `cut` gives: its input's columns, with `ts` and `dur` of the pieces.

use super::cut::{Cut, CutExec};
use arrow::datatypes::SchemaRef;
use async_trait::async_trait;
use datafusion::catalog::{Session, TableProvider};
use datafusion::common::{Column, plan_err};
use datafusion::error::Result;
use datafusion::logical_expr::{
    Expr, LogicalPlan, LogicalPlanBuilder, TableProviderFilterPushDown, TableType,
};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::projection::ProjectionExec;
use std::collections::BTreeSet;
use std::sync::Arc;

/// A planned input and where to cut it.
#[derive(Debug)]
pub(crate) struct CutTable {
    input: LogicalPlan,
    cut: Cut,
    schema: SchemaRef,
}

impl CutTable {
    pub(crate) fn new(input: LogicalPlan, width_ns: i64, origin_ns: i64) -> Result<Self> {
        let schema: SchemaRef = Arc::clone(input.schema().inner());
        let find = |name: &str| match schema.index_of(name) {
            Ok(at) if schema.field(at).data_type().is_integer() => Ok(at),
            Ok(_) => plan_err!("cut: {name} must be an integer number of ns"),
            Err(_) => plan_err!("cut: the table has no column {name}"),
        };
        let cut = Cut { ts: find("ts")?, dur: find("dur")?, width_ns, origin_ns };
        Ok(Self { input, cut, schema })
    }

    /// Does the filter read the same before and after cutting?
    fn is_before(&self, filter: &Expr) -> bool {
        filter.column_refs().iter().all(|column| column.name != "ts" && column.name != "dur")
    }

    fn column(&self, at: usize) -> Expr {
        Expr::Column(Column::from(self.input.schema().qualified_field(at)))
    }

    /// The filter with the input's own names for its columns.
    fn on_input(&self, filter: &Expr) -> Result<Expr> {
        use datafusion::common::tree_node::{Transformed, TreeNode};
        let moved = filter.clone().transform(|expr| match &expr {
            Expr::Column(column) => {
                let at = self.schema.index_of(&column.name)?;
                Ok(Transformed::yes(self.column(at)))
            }
            _ => Ok(Transformed::no(expr)),
        })?;
        Ok(moved.data)
    }
}

#[async_trait]
impl TableProvider for CutTable {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }

    fn table_type(&self) -> TableType {
        TableType::View
    }

    fn supports_filters_pushdown(
        &self,
        filters: &[&Expr],
    ) -> Result<Vec<TableProviderFilterPushDown>> {
        let judge = |filter: &&Expr| match self.is_before(filter) {
            true => TableProviderFilterPushDown::Exact,
            false => TableProviderFilterPushDown::Unsupported,
        };
        Ok(filters.iter().map(judge).collect())
    }

    async fn scan(
        &self,
        state: &dyn Session,
        projection: Option<&Vec<usize>>,
        filters: &[Expr],
        _limit: Option<usize>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let all: Vec<usize> = (0..self.schema.fields().len()).collect();
        let projection = projection.unwrap_or(&all);
        let needed: BTreeSet<usize> =
            projection.iter().copied().chain([self.cut.ts, self.cut.dur]).collect();
        let needed: Vec<usize> = needed.into_iter().collect();
        let place = |at: usize| needed.binary_search(&at).unwrap_or_default();
        let mut builder = LogicalPlanBuilder::from(self.input.clone());
        for filter in filters.iter().filter(|filter| self.is_before(filter)) {
            builder = builder.filter(self.on_input(filter)?)?;
        }
        let plan = builder.project(needed.iter().map(|at| self.column(*at)))?.build()?;
        let input = state.create_physical_plan(&plan).await?;
        let cut = Cut { ts: place(self.cut.ts), dur: place(self.cut.dur), ..self.cut };
        let pieces: Arc<dyn ExecutionPlan> = Arc::new(CutExec::new(input, cut));
        let wanted = projection.iter().map(|at| {
            use datafusion::physical_expr::{PhysicalExpr, expressions::Column};
            let name = self.schema.field(*at).name().clone();
            let column: Arc<dyn PhysicalExpr> = Arc::new(Column::new(&name, place(*at)));
            (column, name)
        });
        Ok(Arc::new(ProjectionExec::try_new(wanted.collect::<Vec<_>>(), pieces)?))
    }
}
