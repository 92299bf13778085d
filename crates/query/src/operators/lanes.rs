//! Joins whose keys hold the machine are done machine by machine: the tables' files are parted by
//! machine already, so each part reads its own files in order, and the parts run in parallel.

use crate::catalog::RecordingTable;
use datafusion::common::Column;
use datafusion::datasource::source_as_provider;
use datafusion::logical_expr::{Expr, LogicalPlan, lit};
use std::any::Any;

/// Machines a lane is for.
pub(crate) type Lane = Vec<u32>;

/// Which machines the rows of `plan` are of, if the column at `at` is the `machine_id` that the
/// files of one table are parted by.
pub(crate) fn machines(plan: &LogicalPlan, at: usize) -> Option<Vec<u32>> {
    match plan {
        LogicalPlan::Projection(projection) => {
            let column = column(projection.expr.get(at)?)?;
            let input = &projection.input;
            machines(input, input.schema().index_of_column(column).ok()?)
        }
        LogicalPlan::Filter(filter) => machines(&filter.input, at),
        LogicalPlan::SubqueryAlias(alias) => machines(&alias.input, at),
        LogicalPlan::Sort(sort) if sort.fetch.is_none() => machines(&sort.input, at),
        LogicalPlan::TableScan(scan) => {
            let name = scan.projected_schema.field(at).name();
            let provider = source_as_provider(&scan.source).ok()?;
            if let Some(plan) = provider.get_logical_plan() {
                let at = plan.schema().index_of_column_by_name(None, name)?;
                return machines(&plan, at);
            }
            let table = (provider.as_ref() as &dyn Any).downcast_ref::<RecordingTable>()?;
            if name == "machine_id" { table.machines() } else { None }
        }
        _ => None,
    }
}

fn column(expr: &Expr) -> Option<&Column> {
    match expr {
        Expr::Column(column) => Some(column),
        Expr::Alias(alias) => column(&alias.expr),
        _ => None,
    }
}

/// Shares machines out to at most `count` lanes.
pub(crate) fn share(machines: &[u32], count: usize) -> Vec<Lane> {
    let count = count.clamp(1, machines.len().max(1));
    let mut lanes = vec![Lane::new(); count];
    for (at, machine) in machines.iter().enumerate() {
        if let Some(lane) = lanes.get_mut(at % count) {
            lane.push(*machine);
        }
    }
    lanes
}

/// Is `machine` one of the lane's?
pub(crate) fn is_in(machine: Expr, lane: &Lane) -> Expr {
    match lane.as_slice() {
        [only] => machine.eq(lit(*only)),
        all => machine.in_list(all.iter().map(|id| lit(*id)).collect(), false),
    }
}
