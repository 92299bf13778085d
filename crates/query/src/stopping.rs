//! Lets a query be stopped inside joins that compare far more rows than they read or give.
//!
//! A worker looks up only when an operator says that it waits, and DataFusion sees to that where
//! data is read. A join without equal keys goes on for hours on what it has read long ago: above
//! it a point where the worker looks up is put, and its filter, which is all that runs where no
//! pair of rows passes, asks for itself whether anybody still wants the answer.

use arrow::array::RecordBatch;
use arrow::datatypes::{FieldRef, Schema};
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::error::{DataFusionError, Result};
use datafusion::logical_expr::ColumnarValue;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::coop::CooperativeExec;
use datafusion::physical_plan::joins::utils::JoinFilter;
use datafusion::physical_plan::joins::{
    CrossJoinExec, NestedLoopJoinExec, NestedLoopJoinExecBuilder,
};
use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Set when nobody waits for a query's rows any more.
pub(crate) type Abandoned = Arc<AtomicBool>;

/// The plan, with every join without equal keys such that it ends soon after `abandoned` is set.
pub(crate) fn stoppable(
    plan: Arc<dyn ExecutionPlan>,
    abandoned: &Abandoned,
) -> Result<Arc<dyn ExecutionPlan>> {
    let watched = plan.transform_up(|node| {
        let join = match node.downcast_ref::<NestedLoopJoinExec>() {
            Some(join) => watch_filter(join, abandoned)?,
            None if node.is::<CrossJoinExec>() => node,
            None => return Ok(Transformed::no(node)),
        };
        Ok(Transformed::yes(Arc::new(CooperativeExec::new(join)) as _))
    })?;
    Ok(watched.data)
}

fn watch_filter(
    join: &NestedLoopJoinExec,
    abandoned: &Abandoned,
) -> Result<Arc<dyn ExecutionPlan>> {
    let filter = join.filter().map(|filter| {
        let expression: Arc<dyn PhysicalExpr> = Arc::new(Watched {
            inner: Arc::clone(filter.expression()),
            abandoned: Arc::clone(abandoned),
        });
        let indices = filter.column_indices().to_vec();
        JoinFilter::new(expression, indices, Arc::clone(filter.schema()))
    });
    Ok(Arc::new(NestedLoopJoinExecBuilder::from(join).with_filter(filter).build()?))
}

/// An expression that fails once its query is abandoned.
#[derive(Debug)]
struct Watched {
    inner: Arc<dyn PhysicalExpr>,
    abandoned: Abandoned,
}

impl fmt::Display for Watched {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.inner.fmt(f)
    }
}

impl PartialEq for Watched {
    fn eq(&self, other: &Self) -> bool {
        self.inner.eq(&other.inner)
    }
}

impl Eq for Watched {}

impl Hash for Watched {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.inner.hash(state);
    }
}

impl PhysicalExpr for Watched {
    fn evaluate(&self, batch: &RecordBatch) -> Result<ColumnarValue> {
        if self.abandoned.load(Ordering::Relaxed) {
            return Err(DataFusionError::Execution("the query was abandoned".to_owned()));
        }
        self.inner.evaluate(batch)
    }

    fn return_field(&self, input: &Schema) -> Result<FieldRef> {
        self.inner.return_field(input)
    }

    fn children(&self) -> Vec<&Arc<dyn PhysicalExpr>> {
        vec![&self.inner]
    }

    fn with_new_children(
        self: Arc<Self>,
        children: Vec<Arc<dyn PhysicalExpr>>,
    ) -> Result<Arc<dyn PhysicalExpr>> {
        let inner = children.into_iter().next().unwrap_or_else(|| Arc::clone(&self.inner));
        Ok(Arc::new(Watched { inner, abandoned: Arc::clone(&self.abandoned) }))
    }

    fn fmt_sql(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.inner.fmt_sql(f)
    }
}
