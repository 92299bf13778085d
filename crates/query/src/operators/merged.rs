//! The table that `asof` and `interval_join` give: its columns, and what can be pushed down.

use super::cursor::Columns;
use super::keys::comparable;
use super::lanes::{Lane, is_in, machines, share};
use super::merge_exec::{Kind, MergeExec};
use super::output::{From, Recipe};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use async_trait::async_trait;
use datafusion::catalog::{Session, TableProvider};
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{Column, plan_err};
use datafusion::error::Result;
use datafusion::execution::SessionState;
use datafusion::logical_expr::{
    Expr, LogicalPlan, LogicalPlanBuilder, Operator, TableProviderFilterPushDown, TableType, col,
};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::union::UnionExec;
use std::collections::BTreeSet;
use std::sync::Arc;

/// Two planned inputs and how their columns become the output's.
#[derive(Debug)]
pub(crate) struct MergedTable {
    kind: Kind,
    inputs: [LogicalPlan; 2],
    columns: [Columns; 2],
    recipe: Recipe,
    /// For each output column: the column of either side a filter on it can be moved to.
    sources: Vec<[Option<usize>; 2]>,
}

impl MergedTable {
    pub(crate) fn new(
        kind: Kind,
        left: LogicalPlan,
        right: LogicalPlan,
        keys: &[&str],
    ) -> Result<Self> {
        let columns = [meaning(kind, &left, "left", keys)?, meaning(kind, &right, "right", keys)?];
        let inputs = [left, right];
        for (at, key) in keys.iter().enumerate() {
            check_key(key, [0, 1].map(|s| field(&inputs[s], columns[s].keys[at])))?;
        }
        let layout = Layout::new(kind, &inputs, &columns);
        let schema = Arc::new(Schema::new(layout.fields));
        let recipe = Recipe { schema, columns: layout.columns };
        Ok(Self { kind, inputs, columns, recipe, sources: layout.sources })
    }

    /// The filter as it reads on one side, if all its columns exist there.
    fn on_side(&self, filter: &Expr, side: usize) -> Option<Expr> {
        let mut missing = false;
        let moved = filter.clone().transform(|expr| {
            let Expr::Column(column) = &expr else { return Ok(Transformed::no(expr)) };
            let at = self.recipe.schema.index_of(&column.name).ok();
            match at.and_then(|at| self.sources.get(at)?[side]) {
                Some(source) => Ok(Transformed::yes(column_of(&self.inputs[side], source))),
                None => {
                    missing = true;
                    Ok(Transformed::no(expr))
                }
            }
        });
        moved.ok().filter(|_| !missing).map(|moved| moved.data)
    }

    /// Which sides a filter can be moved to, and whether it is then done with.
    fn pushdown(&self, filter: &Expr) -> ([Option<Expr>; 2], TableProviderFilterPushDown) {
        let [left, right] = [0, 1].map(|side| self.on_side(filter, side));
        match (self.kind, left, right) {
            // A left row keeps its place whatever it is joined with; what only the right knows
            // must be judged after the join.
            (Kind::Asof, left @ Some(_), right) => {
                ([left, right], TableProviderFilterPushDown::Exact)
            }
            (Kind::Interval, None, None) => ([None, None], self.overlap_ts(filter)),
            (Kind::Interval, left, right) => ([left, right], TableProviderFilterPushDown::Exact),
            (Kind::Asof, None, _) => ([None, None], TableProviderFilterPushDown::Unsupported),
        }
    }

    /// An overlap before a stamp needs both intervals to begin before it.
    fn overlap_ts(&self, filter: &Expr) -> TableProviderFilterPushDown {
        match self.upper_bound(filter) {
            Some(_) => TableProviderFilterPushDown::Exact,
            None => TableProviderFilterPushDown::Unsupported,
        }
    }

    /// `ts < x`, `ts <= x` on the overlap's own `ts`: the operator and x.
    fn upper_bound<'e>(&self, filter: &'e Expr) -> Option<(Operator, &'e Expr)> {
        let Expr::BinaryExpr(binary) = filter else { return None };
        let is_ts = |expr: &Expr| matches!(expr, Expr::Column(c) if c.name == "ts");
        match (binary.op, &*binary.left, &*binary.right) {
            (op @ (Operator::Lt | Operator::LtEq), ts, x @ Expr::Literal(..)) if is_ts(ts) => {
                Some((op, x))
            }
            (Operator::Gt, x @ Expr::Literal(..), ts) if is_ts(ts) => Some((Operator::Lt, x)),
            (Operator::GtEq, x @ Expr::Literal(..), ts) if is_ts(ts) => Some((Operator::LtEq, x)),
            _ => None,
        }
    }

    /// The filters to apply to each side before the join.
    fn filters(&self, filters: &[Expr]) -> [Vec<Expr>; 2] {
        let mut sides = [Vec::new(), Vec::new()];
        for filter in filters {
            let (moved, _) = self.pushdown(filter);
            let bound = (self.kind == Kind::Interval).then(|| self.upper_bound(filter)).flatten();
            for (side, moved) in moved.into_iter().enumerate() {
                sides[side].extend(moved);
                if let Some((op, x)) = bound {
                    let ts = column_of(&self.inputs[side], self.columns[side].ts);
                    sides[side].push(datafusion::logical_expr::binary_expr(ts, op, x.clone()));
                }
            }
        }
        sides
    }

    /// The machines to join one by one, if the keys hold the machine and the files are parted so.
    fn lanes(&self, target: usize) -> Option<(usize, Vec<Lane>)> {
        let by_key = |key: usize| {
            let machines_of =
                |side: usize| machines(&self.inputs[side], self.columns[side].keys[key]);
            let (left, right) = (machines_of(0)?, machines_of(1)?);
            // A machine that only the right side has is in no row of the result.
            let all = if self.kind == Kind::Asof { left } else { common(left, &right) };
            (all.len() > 1).then(|| (key, share(&all, 4 * target)))
        };
        (0..self.columns[0].keys.len()).find_map(by_key)
    }

    /// One side's plan: filtered, only the columns needed, sorted by `ts`.
    async fn input(
        &self,
        state: &dyn Session,
        side: usize,
        wanted: &[usize],
        filters: Vec<Expr>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let plan = &self.inputs[side];
        let ts = column_of(plan, self.columns[side].ts);
        let mut builder = LogicalPlanBuilder::from(plan.clone());
        for filter in filters {
            builder = builder.filter(filter)?;
        }
        if field(plan, self.columns[side].ts).is_nullable() {
            builder = builder.filter(ts.clone().is_not_null())?;
        }
        // Columns of a join may share a name: positions stand for them from here on.
        let columns = wanted.iter().map(|at| column_of(plan, *at).alias(position(*at)));
        let builder = builder.project(columns)?;
        let by_ts = col(position(self.columns[side].ts)).sort(true, false);
        state.create_physical_plan(&builder.sort([by_ts])?.build()?).await
    }

    /// The join of the rows that `filters` leave on each side.
    async fn join(
        &self,
        state: &dyn Session,
        outputs: &[usize],
        [left_filters, right_filters]: [Vec<Expr>; 2],
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let wanted: Vec<From> = outputs.iter().map(|at| self.recipe.columns[*at]).collect();
        let [left, right] = [0, 1].map(|side| needed(side, &self.columns[side], &wanted));
        let inputs = [
            self.input(state, 0, &left, left_filters).await?,
            self.input(state, 1, &right, right_filters).await?,
        ];
        let columns = [renumber(&self.columns[0], &left), renumber(&self.columns[1], &right)];
        let wanted = wanted.into_iter().map(|from| match from {
            From::Left(at) => From::Left(place(&left, at)),
            From::Right(at) => From::Right(place(&right, at)),
            overlap => overlap,
        });
        let recipe = Recipe {
            schema: Arc::new(self.recipe.schema.project(outputs)?),
            columns: wanted.collect(),
        };
        Ok(Arc::new(MergeExec::new(self.kind, inputs, columns, recipe)))
    }
}

#[async_trait]
impl TableProvider for MergedTable {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.recipe.schema)
    }

    fn table_type(&self) -> TableType {
        TableType::View
    }

    fn supports_filters_pushdown(
        &self,
        filters: &[&Expr],
    ) -> Result<Vec<TableProviderFilterPushDown>> {
        Ok(filters.iter().map(|filter| self.pushdown(filter).1).collect())
    }

    async fn scan(
        &self,
        state: &dyn Session,
        projection: Option<&Vec<usize>>,
        filters: &[Expr],
        _limit: Option<usize>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let all: Vec<usize> = (0..self.recipe.columns.len()).collect();
        let outputs = projection.unwrap_or(&all);
        let filters = self.filters(filters);
        let Some((key, lanes)) = self.lanes(state.config().target_partitions()) else {
            return self.join(state, outputs, filters).await;
        };
        // A lane's files follow one another: one reader, in order, is all it wants.
        let one_reader = one_partition(state);
        let state = one_reader.as_ref().map_or(state, |state| state as &dyn Session);
        let mut joins = Vec::new();
        for lane in lanes {
            let mut filters = filters.clone();
            for (side, filters) in filters.iter_mut().enumerate() {
                let machine = column_of(&self.inputs[side], self.columns[side].keys[key]);
                filters.push(is_in(machine, &lane));
            }
            joins.push(self.join(state, outputs, filters).await?);
        }
        UnionExec::try_new(joins)
    }
}

/// The same session, planning for one thread.
fn one_partition(state: &dyn Session) -> Option<SessionState> {
    let mut state = state.as_any().downcast_ref::<SessionState>()?.clone();
    state.config_mut().options_mut().execution.target_partitions = 1;
    Some(state)
}

/// What both lists hold.
fn common(mut left: Vec<u32>, right: &[u32]) -> Vec<u32> {
    left.retain(|id| right.contains(id));
    left
}

/// The output's columns while they are laid out.
struct Layout {
    fields: Vec<Field>,
    columns: Vec<From>,
    sources: Vec<[Option<usize>; 2]>,
}

impl Layout {
    /// As-of: all of the left's, then the right's but its keys. Intervals: ts and dur of the
    /// overlap, the keys, then the other columns of both. A name that is taken gets the prefix
    /// `right_` (of intervals' own ts and dur, `left_` too).
    fn new(kind: Kind, inputs: &[LogicalPlan; 2], columns: &[Columns; 2]) -> Self {
        let mut layout = Self { fields: Vec::new(), columns: Vec::new(), sources: Vec::new() };
        let [left, right] = columns;
        if kind == Kind::Interval {
            layout.push(Field::new("ts", DataType::Int64, false), From::OverlapTs, [None; 2]);
            layout.push(Field::new("dur", DataType::Int64, true), From::OverlapDur, [None; 2]);
        }
        for at in 0..inputs[0].schema().fields().len() {
            let key = left.keys.iter().position(|key| *key == at);
            let same = key.and_then(|key| right.keys.get(key)).copied();
            let own = layout.named(field(&inputs[0], at), "left_");
            layout.push(own, From::Left(at), [Some(at), same]);
        }
        for at in (0..inputs[1].schema().fields().len()).filter(|at| !right.keys.contains(at)) {
            let own = layout.named(field(&inputs[1], at), "right_");
            let own = if kind == Kind::Asof { own.with_nullable(true) } else { own };
            layout.push(own, From::Right(at), [None, Some(at)]);
        }
        layout
    }

    fn push(&mut self, field: Field, from: From, sources: [Option<usize>; 2]) {
        self.fields.push(field);
        self.columns.push(from);
        self.sources.push(sources);
    }

    fn named(&self, field: &Field, prefix: &str) -> Field {
        let mut name = field.name().clone();
        while self.fields.iter().any(|taken| *taken.name() == name) {
            name = format!("{prefix}{name}");
        }
        field.clone().with_name(name)
    }
}

/// Finds `ts`, `dur` and the keys among a side's columns.
fn meaning(kind: Kind, plan: &LogicalPlan, side: &str, keys: &[&str]) -> Result<Columns> {
    let find = |name: &str| {
        let fields = plan.schema().fields();
        match fields.iter().position(|field| field.name().eq_ignore_ascii_case(name)) {
            Some(at) => Ok(at),
            None => {
                let names: Vec<_> = fields.iter().map(|f| f.name().as_str()).collect();
                plan_err!(
                    "{}: the {side} table has no column {name}; it has {}",
                    kind.name(),
                    names.join(", ")
                )
            }
        }
    };
    let columns = Columns {
        ts: find("ts")?,
        dur: if kind == Kind::Interval { Some(find("dur")?) } else { None },
        keys: keys.iter().map(|key| find(key)).collect::<Result<_>>()?,
    };
    for at in [Some(columns.ts), columns.dur].into_iter().flatten() {
        let field = field(plan, at);
        if !field.data_type().is_integer() {
            let (name, kind) = (field.name(), field.data_type());
            return plan_err!(
                "the {side} table's {name} must be an integer number of ns, not {kind}"
            );
        }
    }
    Ok(columns)
}

fn check_key(key: &str, sides: [&Field; 2]) -> Result<()> {
    let [left, right] = sides.map(Field::data_type);
    match (comparable(left), comparable(right)) {
        (Some(a), Some(b)) if a == b => Ok(()),
        _ => plan_err!("key {key} cannot be compared: {left} on the left, {right} on the right"),
    }
}

fn field(plan: &LogicalPlan, at: usize) -> &Field {
    plan.schema().field(at).as_ref()
}

fn column_of(plan: &LogicalPlan, at: usize) -> Expr {
    Expr::Column(Column::from(plan.schema().qualified_field(at)))
}

fn position(at: usize) -> String {
    format!("c{at}")
}

/// The columns of one side that the join itself and its output need, in order.
fn needed(side: usize, columns: &Columns, outputs: &[From]) -> Vec<usize> {
    let mut needed: BTreeSet<usize> = columns.keys.iter().copied().collect();
    needed.insert(columns.ts);
    needed.extend(columns.dur);
    needed.extend(outputs.iter().filter_map(|from| match (side, from) {
        (0, From::Left(at)) | (1, From::Right(at)) => Some(*at),
        _ => None,
    }));
    needed.into_iter().collect()
}

fn place(needed: &[usize], at: usize) -> usize {
    needed.binary_search(&at).unwrap_or_default()
}

fn renumber(columns: &Columns, needed: &[usize]) -> Columns {
    Columns {
        ts: place(needed, columns.ts),
        dur: columns.dur.map(|at| place(needed, at)),
        keys: columns.keys.iter().map(|at| place(needed, *at)).collect(),
    }
}
