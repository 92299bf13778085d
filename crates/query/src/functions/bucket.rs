//! `bucket(ts, width)`: the start of the bucket of time that `ts` lies in.

use arrow::array::{Array, AsArray, Int64Array};
use arrow::buffer::ScalarBuffer;
use arrow::datatypes::{DataType, Int64Type};
use datafusion::common::{ScalarValue, exec_err};
use datafusion::error::Result;
use datafusion::logical_expr::sort_properties::{ExprProperties, SortProperties};
use datafusion::logical_expr::{
    ColumnarValue, ScalarFunctionArgs, ScalarUDFImpl, Signature, Volatility,
};
use std::sync::Arc;

/// Rounds down to a multiple of the width, before zero too.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(crate) struct Bucket {
    signature: Signature,
}

impl Bucket {
    pub(crate) fn new() -> Self {
        let types = vec![DataType::Int64, DataType::Int64];
        Self { signature: Signature::exact(types, Volatility::Immutable) }
    }
}

impl ScalarUDFImpl for Bucket {
    fn name(&self) -> &'static str {
        "bucket"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(DataType::Int64)
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let [ts, ColumnarValue::Scalar(ScalarValue::Int64(width))] = args.args.as_slice() else {
            return exec_err!("the width of bucket(ts, width) must be a constant number");
        };
        let width = match width {
            Some(width) if *width > 0 => *width,
            _ => return exec_err!("the width of bucket(ts, width) must be above 0 ns"),
        };
        match ts {
            ColumnarValue::Scalar(ScalarValue::Int64(ts)) => {
                let start = ts.map(|ts| round_down(ts, width));
                Ok(ColumnarValue::Scalar(ScalarValue::Int64(start)))
            }
            ColumnarValue::Scalar(other) => exec_err!("{other} is not a time in ns"),
            ColumnarValue::Array(ts) => {
                let ts = ts.as_primitive::<Int64Type>();
                Ok(ColumnarValue::Array(Arc::new(round_all(ts, width))))
            }
        }
    }

    /// Later stamps are never in earlier buckets: groups of sorted input come one after another.
    fn output_ordering(&self, inputs: &[ExprProperties]) -> Result<SortProperties> {
        Ok(inputs.first().map_or(SortProperties::Unordered, |ts| ts.sort_properties))
    }
}

/// At the lowest of all stamps the bucket would begin out of range: it begins at the stamp.
fn round_down(ts: i64, width: i64) -> i64 {
    ts.checked_sub(ts.rem_euclid(width)).unwrap_or(ts)
}

/// Divides once per run of stamps in one bucket: sorted tables have long runs.
fn round_all(ts: &Int64Array, width: i64) -> Int64Array {
    let (mut start, mut end) = (0, 0);
    let round = |ts: &i64| {
        if *ts < start || *ts >= end {
            start = round_down(*ts, width);
            end = start.checked_add(width).unwrap_or(start);
        }
        start
    };
    let starts: ScalarBuffer<i64> = ts.values().iter().map(round).collect();
    Int64Array::new(starts, ts.nulls().cloned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::cases;

    #[test]
    fn runs_round_as_single_stamps_do() {
        cases(200, |random| {
            let width = random.wide().saturating_abs().max(1);
            let ts: Vec<i64> = random.list(50, |r| r.wide());
            let starts = round_all(&Int64Array::from(ts.clone()), width);
            for (ts, start) in ts.iter().zip(starts.values()) {
                assert_eq!(*start, round_down(*ts, width), "{ts} in {width}");
            }
        });
    }

    #[test]
    fn before_zero_buckets_begin_lower() {
        assert_eq!(round_down(-1, 10), -10);
        assert_eq!(round_down(19, 10), 10);
    }
}
