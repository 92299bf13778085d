//! The table functions `asof`, `interval_join`, `cut` and `tiles`: their arguments and what is wrong
//! with them.

use super::cutting::CutTable;
use super::merge_exec::Kind;
use super::merged::MergedTable;
use crate::arguments::{number, plan, source, text};
use datafusion::catalog::{TableFunctionArgs, TableFunctionImpl, TableProvider};
use datafusion::common::plan_err;
use datafusion::datasource::ViewTable;
use datafusion::error::Result;
use datafusion::prelude::SessionContext;
use std::sync::Arc;

/// Makes the table functions known to SQL.
pub(crate) fn register(context: &SessionContext) {
    context.register_udtf("asof", Arc::new(Merge(Kind::Asof)));
    context.register_udtf("interval_join", Arc::new(Merge(Kind::Interval)));
    context.register_udtf("cut", Arc::new(CutFunction));
    context.register_udtf("tiles", Arc::new(Tiles));
}

#[derive(Debug)]
struct Merge(Kind);

impl TableFunctionImpl for Merge {
    fn call_with_args(&self, args: TableFunctionArgs<'_, '_>) -> Result<Arc<dyn TableProvider>> {
        let name = self.0.name();
        let usage = format!("{name}('LEFT', 'RIGHT', 'KEY, …')");
        let (left, right, keys) = match args.exprs() {
            [left, right] => (text(left, &usage)?, text(right, &usage)?, String::new()),
            [left, right, keys] => (text(left, &usage)?, text(right, &usage)?, text(keys, &usage)?),
            _ => {
                return plan_err!("{name} takes two tables and the key columns: {usage}");
            }
        };
        let keys: Vec<&str> =
            keys.split(',').map(str::trim).filter(|key| !key.is_empty()).collect();
        let left = plan(args.session(), &left)?;
        let right = plan(args.session(), &right)?;
        Ok(Arc::new(MergedTable::new(self.0, left, right, &keys)?))
    }
}

#[derive(Debug)]
struct CutFunction;

impl TableFunctionImpl for CutFunction {
    fn call_with_args(&self, args: TableFunctionArgs<'_, '_>) -> Result<Arc<dyn TableProvider>> {
        let usage = "cut('TABLE', WIDTH_NS[, ORIGIN_NS])";
        let (table, width, origin_ns) = match args.exprs() {
            [table, width] => (table, width, 0),
            [table, width, origin] => (table, width, number(origin, "the origin", usage)?),
            _ => return plan_err!("cut takes a table and a width: {usage}"),
        };
        let width_ns = number(width, "the width", usage)?;
        if width_ns <= 0 {
            return plan_err!("the width must be above 0 ns: {usage}");
        }
        let input = plan(args.session(), &text(table, usage)?)?;
        Ok(Arc::new(CutTable::new(input, width_ns, origin_ns)?))
    }
}

/// `tiles`: how much of each pixel of a timeline each key fills. A query over `cut`.
#[derive(Debug)]
struct Tiles;

impl TableFunctionImpl for Tiles {
    fn call_with_args(&self, args: TableFunctionArgs<'_, '_>) -> Result<Arc<dyn TableProvider>> {
        let usage = "tiles('TABLE', FROM_NS, TO_NS, TILES, 'KEY, …')";
        let [table, from, to, count, keys] = args.exprs() else {
            return plan_err!(
                "tiles takes a table, a time range, a number of tiles and keys: {usage}"
            );
        };
        let (table, keys) = (text(table, usage)?, text(keys, usage)?);
        let (from, to) = (number(from, "FROM_NS", usage)?, number(to, "TO_NS", usage)?);
        let count = number(count, "TILES", usage)?;
        let length = to.checked_sub(from).filter(|length| *length > 0 && count > 0);
        let Some(length) = length else {
            return plan_err!("TILES must be above 0 and TO_NS after FROM_NS: {usage}");
        };
        let width = length / count + i64::from(length % count > 0);
        let sql = tiles_sql(&source(&table), &keys, from, to, width);
        let plan = plan(args.session(), &sql)?;
        Ok(Arc::new(ViewTable::new(plan, None)))
    }
}

fn tiles_sql(source: &str, keys: &str, from: i64, to: i64, width: i64) -> String {
    let cut_input =
        format!("SELECT ts, dur, {keys} FROM ({source}) WHERE ts < {to} AND ts + dur >= {from}");
    format!(
        "SELECT {from} + bucket(ts - {from}, {width}) AS ts, CAST({width} AS BIGINT) AS dur, {keys},
             sum(least(ts + dur, {to}) - ts) AS covered_ns, count(*) AS count
         FROM cut('{}', {width}, {from})
         WHERE ts >= {from} AND ts < {to}
         GROUP BY {from} + bucket(ts - {from}, {width}), {keys}",
        cut_input.replace('\'', "''")
    )
}
