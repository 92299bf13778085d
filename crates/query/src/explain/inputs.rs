//! The result of a call as a table, and the scans that it needs.

use super::call::Call;
use super::exec::ExplainExec;
use crate::arguments::plan;
use crate::catalog::arrow_schema;
use arrow::datatypes::SchemaRef;
use async_trait::async_trait;
use datafusion::catalog::{Session, TableProvider};
use datafusion::error::Result;
use datafusion::logical_expr::{Expr, LogicalPlan, TableType};
use datafusion::physical_expr::{PhysicalExpr, expressions};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::projection::ProjectionExec;
use std::sync::Arc;
use transect_model::table::{Column, TableDoc};

/// What a call gives.
#[derive(Debug)]
pub(crate) struct ExplainedTable {
    call: Call,
    inputs: Vec<(TableDoc, LogicalPlan)>,
    schema: SchemaRef,
}

impl ExplainedTable {
    pub(crate) fn new(call: Call, session: &dyn Session) -> Result<Self> {
        let scan = |table: TableDoc| Ok((table, plan(session, &scan_of(&table, &call))?));
        let inputs = call.asked.needs().into_iter().map(scan).collect::<Result<_>>()?;
        Ok(Self { call, inputs, schema: arrow_schema(&call.asked.table()) })
    }
}

/// The rows of a table that meet the range, whole, in order of time.
fn scan_of(table: &TableDoc, call: &Call) -> String {
    let has = |name: &str| table.columns.iter().any(|column| column.name == name);
    // Names may be words of SQL.
    let quoted = |column: &Column| format!("\"{}\"", column.name);
    let columns: Vec<String> = table.columns.iter().map(quoted).collect();
    let (columns, name) = (columns.join(", "), table.name);
    if !has("ts") {
        return format!("SELECT {columns} FROM {name}");
    }
    // An interval without an end, or without length, is where it began.
    let reaches = if has("dur") {
        |from| format!("(ts >= {from} OR ts + dur > {from})")
    } else {
        |from| format!("ts >= {from}")
    };
    let conditions = [call.until.map(|until| format!("ts < {until}")), call.from.map(reaches)];
    let conditions: Vec<String> = conditions.into_iter().flatten().collect();
    let filter = match conditions.is_empty() {
        true => String::new(),
        false => format!(" WHERE {}", conditions.join(" AND ")),
    };
    format!("SELECT {columns} FROM {name}{filter} ORDER BY ts")
}

#[async_trait]
impl TableProvider for ExplainedTable {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }

    fn table_type(&self) -> TableType {
        TableType::View
    }

    async fn scan(
        &self,
        state: &dyn Session,
        projection: Option<&Vec<usize>>,
        _filters: &[Expr],
        _limit: Option<usize>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let mut inputs = Vec::new();
        for (table, input) in &self.inputs {
            inputs.push((*table, state.create_physical_plan(input).await?));
        }
        let all = Arc::new(ExplainExec::new(self.call, inputs));
        let Some(projection) = projection else { return Ok(all) };
        let wanted = projection.iter().map(|at| {
            let name = self.schema.field(*at).name().clone();
            let column: Arc<dyn PhysicalExpr> = Arc::new(expressions::Column::new(&name, *at));
            (column, name)
        });
        Ok(Arc::new(ProjectionExec::try_new(wanted.collect::<Vec<_>>(), all)?))
    }
}
