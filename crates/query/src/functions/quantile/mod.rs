//! `quantile` and `quantiles`, exact, and `approx_quantile` and `approx_quantiles`.
//!
//! A quantile here is an order statistic by nearest rank: the smallest recorded value that at
//! least that share of the values do not exceed (as in `transect report`), and of whole numbers,
//! as lengths in ns are. The plural forms give several quantiles for one pass and one copy of the
//! values: `quantiles(dur, [0.5, 0.99])[2]` is the 99th percentile.

mod accumulator;
mod exact;
mod histogram;
mod values;

use accumulator::{Grouped, Single};
use arrow::datatypes::{DataType, Field, FieldRef};
use datafusion::common::{ScalarValue, exec_err, plan_err};
use datafusion::error::Result;
use datafusion::logical_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion::logical_expr::{
    Accumulator, AggregateUDF, AggregateUDFImpl, GroupsAccumulator, Signature, Volatility,
};
use datafusion::physical_expr::expressions::Literal;
use datafusion::prelude::SessionContext;
use std::sync::Arc;

/// Makes the aggregates known to SQL.
pub(crate) fn register(context: &SessionContext) {
    for (is_exact, many, name) in [
        (true, false, "quantile"),
        (true, true, "quantiles"),
        (false, false, "approx_quantile"),
        (false, true, "approx_quantiles"),
    ] {
        context.register_udaf(AggregateUDF::from(Quantile::new(name, is_exact, many)));
    }
}

/// One of the four functions.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Quantile {
    name: &'static str,
    is_exact: bool,
    many: bool,
    signature: Signature,
}

impl Quantile {
    fn new(name: &'static str, is_exact: bool, many: bool) -> Self {
        Self { name, is_exact, many, signature: Signature::user_defined(Volatility::Immutable) }
    }

    /// The shares asked for.
    fn shares(&self, args: &AccumulatorArgs<'_>) -> Result<Vec<f64>> {
        let literal = args.exprs.get(1).and_then(|expr| expr.downcast_ref::<Literal>());
        let shares = match literal.map(Literal::value) {
            Some(ScalarValue::List(list)) => floats(&list.value(0))?,
            Some(single) => floats(&single.to_array()?)?,
            None => return exec_err!("{}: the share must be a number, such as 0.99", self.name),
        };
        match shares.iter().find(|share| !(0.0..=1.0).contains(*share)) {
            Some(bad) => exec_err!("{}: the share {bad} is not between 0 and 1", self.name),
            None => Ok(shares),
        }
    }
}

fn floats(array: &arrow::array::ArrayRef) -> Result<Vec<f64>> {
    use arrow::array::AsArray;
    let floats = arrow::compute::cast(array, &DataType::Float64)?;
    Ok(floats.as_primitive::<arrow::datatypes::Float64Type>().iter().flatten().collect())
}

impl AggregateUDFImpl for Quantile {
    fn name(&self) -> &str {
        self.name
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        let name = self.name;
        let [values, shares] = types else {
            return plan_err!("{name} takes a column and a share between 0 and 1");
        };
        if !values.is_integer() && !values.is_null() {
            return plan_err!("{name} needs an integer column, not {values}: use percentile_cont");
        }
        let shares = match (self.many, shares) {
            (true, DataType::List(_) | DataType::FixedSizeList(..)) => {
                DataType::List(Arc::new(Field::new_list_field(DataType::Float64, true)))
            }
            (false, shares) if shares.is_numeric() => DataType::Float64,
            (true, _) => return plan_err!("{name} takes a list of shares, such as [0.5, 0.99]"),
            (false, _) => return plan_err!("{name} takes a share, such as 0.99"),
        };
        Ok(vec![DataType::Int64, shares])
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        let item = Arc::new(Field::new_list_field(DataType::Int64, true));
        Ok(if self.many { DataType::List(item) } else { DataType::Int64 })
    }

    fn state_fields(&self, args: StateFieldsArgs<'_>) -> Result<Vec<FieldRef>> {
        let name = format!("{}[{}]", args.name, self.name);
        Ok(vec![Arc::new(Field::new(name, DataType::LargeBinary, true))])
    }

    fn accumulator(&self, args: AccumulatorArgs<'_>) -> Result<Box<dyn Accumulator>> {
        if args.is_distinct {
            return exec_err!("{} does not support DISTINCT", self.name);
        }
        let shares = self.shares(&args)?;
        Ok(match self.is_exact {
            true => Box::new(Single::<exact::Exact>::new(shares, self.many)),
            false => Box::new(Single::<histogram::Histogram>::new(shares, self.many)),
        })
    }

    fn groups_accumulator_supported(&self, args: AccumulatorArgs<'_>) -> bool {
        !args.is_distinct
    }

    fn create_groups_accumulator(
        &self,
        args: AccumulatorArgs<'_>,
    ) -> Result<Box<dyn GroupsAccumulator>> {
        let shares = self.shares(&args)?;
        Ok(match self.is_exact {
            true => Box::new(Grouped::<exact::Exact>::new(shares, self.many)),
            false => Box::new(Grouped::<histogram::Histogram>::new(shares, self.many)),
        })
    }
}
