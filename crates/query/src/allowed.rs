//! The statements that are answered: queries. Changes of tables, settings and files are refused.

use crate::error::QueryError;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::logical_expr::LogicalPlan;

/// Refuses a plan with any node that is not part of a query, also below EXPLAIN and in subqueries.
pub(crate) fn check_is_query(plan: &LogicalPlan) -> Result<(), QueryError> {
    let mut refused = None;
    let walked = plan.apply_with_subqueries(|node| {
        refused = refusal(node);
        Ok(if refused.is_some() { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
    });
    match (refused, walked) {
        (Some(what), _) => Err(QueryError::sql(format!(
            "{what}: only SELECT, WITH, VALUES, EXPLAIN, SHOW and DESCRIBE are supported"
        ))),
        (None, Ok(_)) => Ok(()),
        (None, Err(error)) => Err(QueryError::sql(error.to_string())),
    }
}

/// The reason to refuse a node. There is no default: a new kind of node has to be judged here first.
fn refusal(node: &LogicalPlan) -> Option<&'static str> {
    match node {
        LogicalPlan::Projection(_)
        | LogicalPlan::Filter(_)
        | LogicalPlan::Window(_)
        | LogicalPlan::Aggregate(_)
        | LogicalPlan::Sort(_)
        | LogicalPlan::Join(_)
        | LogicalPlan::Repartition(_)
        | LogicalPlan::Union(_)
        | LogicalPlan::TableScan(_)
        | LogicalPlan::EmptyRelation(_)
        | LogicalPlan::Subquery(_)
        | LogicalPlan::SubqueryAlias(_)
        | LogicalPlan::Limit(_)
        | LogicalPlan::Values(_)
        | LogicalPlan::Explain(_)
        | LogicalPlan::Analyze(_)
        | LogicalPlan::Extension(_)
        | LogicalPlan::Distinct(_)
        | LogicalPlan::DescribeTable(_)
        | LogicalPlan::Unnest(_)
        | LogicalPlan::RecursiveQuery(_) => None,
        LogicalPlan::Dml(_) => Some("SQL cannot change the tables of a recording"),
        LogicalPlan::Ddl(_) => Some("CREATE, DROP and ALTER change the session"),
        LogicalPlan::Copy(_) => Some("COPY writes files (use transect sql -o FILE)"),
        LogicalPlan::Statement(_) => Some("settings and prepared statements are not available"),
    }
}
