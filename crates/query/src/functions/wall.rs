//! `wall(ts)` and `ts_of(time)`: trace time to the host's wall clock and back, by the recording's table
//! `wall_clock`.

use arrow::array::{Array, AsArray, Int64Array, TimestampNanosecondArray};
use arrow::compute::{CastOptions, cast_with_options};
use arrow::datatypes::{DataType, Int64Type, TimeUnit, TimestampNanosecondType};
use datafusion::common::{DataFusionError, ScalarValue, exec_err};
use datafusion::error::Result;
use datafusion::logical_expr::{
    ColumnarValue, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};
use datafusion::prelude::SessionContext;
use std::hash::{Hash, Hasher};
use std::sync::Arc;
use transect_model::table::WallClock;
use transect_model::wall::WallMap;

/// Makes both functions known, for the recording's own map.
pub(crate) async fn register(context: &SessionContext) -> Result<()> {
    let map = Map(Arc::new(read(context).await.map_err(|error| error.to_string())));
    let exact = Signature::exact(vec![DataType::Int64], Volatility::Immutable);
    context.register_udf(ScalarUDF::from(Wall { signature: exact, map: map.clone() }));
    let any = Signature::any(1, Volatility::Immutable);
    context.register_udf(ScalarUDF::from(TsOf { signature: any, map }));
    Ok(())
}

async fn read(context: &SessionContext) -> Result<WallMap> {
    let columns = "ts, dur, unix_ns, unix_dur, error_ns";
    let frame = context.sql(&format!("SELECT {columns} FROM wall_clock")).await?;
    let mut rows = Vec::new();
    for batch in frame.collect().await? {
        let column = |at: usize| batch.column(at).as_primitive::<Int64Type>();
        rows.extend((0..batch.num_rows()).map(|row| WallClock {
            ts: column(0).value(row),
            dur: column(1).value(row),
            unix_ns: column(2).value(row),
            unix_dur: column(3).value(row),
            error_ns: column(4).value(row),
            step_ns: None,
        }));
    }
    Ok(WallMap::new(rows))
}

/// The map, or why the table cannot be read.
#[derive(Clone, Debug)]
struct Map(Arc<std::result::Result<WallMap, String>>);

impl Map {
    fn get(&self) -> Result<&WallMap> {
        self.0.as_ref().as_ref().map_err(|error| DataFusionError::Execution(error.clone()))
    }
}

// Two functions are the same if they are of the same database.
impl PartialEq for Map {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Eq for Map {}

impl Hash for Map {
    fn hash<H: Hasher>(&self, state: &mut H) {
        Arc::as_ptr(&self.0).hash(state);
    }
}

fn utc() -> DataType {
    DataType::Timestamp(TimeUnit::Nanosecond, Some("+00:00".into()))
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Wall {
    signature: Signature,
    map: Map,
}

impl ScalarUDFImpl for Wall {
    fn name(&self) -> &'static str {
        "wall"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(utc())
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let (array, is_scalar) = argument(&args, "wall(ts) takes a moment of trace time")?;
        let map = self.map.get()?;
        let ts = array.as_primitive::<Int64Type>();
        let times = ts.iter().map(|ts| ts.and_then(|ts| map.unix_at(ts)));
        let times: TimestampNanosecondArray = times.collect();
        value(Arc::new(times.with_timezone("+00:00")), is_scalar)
    }
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct TsOf {
    signature: Signature,
    map: Map,
}

impl ScalarUDFImpl for TsOf {
    fn name(&self) -> &'static str {
        "ts_of"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(DataType::Int64)
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let (array, is_scalar) = argument(&args, "ts_of(time) takes a wall-clock time")?;
        let map = self.map.get()?;
        // Text that is no time is an error, not null.
        let options = CastOptions { safe: false, ..CastOptions::default() };
        let times = cast_with_options(&array, &utc(), &options)?;
        let times = times.as_primitive::<TimestampNanosecondType>();
        let ts: Int64Array = times
            .iter()
            .map(|time| time.map_or(Ok(None), |time| moment(map, time)))
            .collect::<Result<_>>()?;
        value(Arc::new(ts), is_scalar)
    }
}

/// The moment with this wall-clock time; none if the recording has no such moment.
fn moment(map: &WallMap, unix_ns: i64) -> Result<Option<i64>> {
    match map.moments_of(unix_ns).as_slice() {
        [] => Ok(None),
        [ts] => Ok(Some(*ts)),
        [first, .., last] => exec_err!(
            "ts_of: the wall clock showed this time more than once, because it was set back: at {first} \
             and at {last}. Use one of these ts values"
        ),
    }
}

fn argument(args: &ScalarFunctionArgs, usage: &str) -> Result<(Arc<dyn Array>, bool)> {
    let Some(value) = args.args.first() else { return exec_err!("{usage}") };
    let is_scalar = matches!(value, ColumnarValue::Scalar(_));
    Ok((value.to_array(if is_scalar { 1 } else { args.number_rows })?, is_scalar))
}

fn value(array: Arc<dyn Array>, is_scalar: bool) -> Result<ColumnarValue> {
    if is_scalar {
        return Ok(ColumnarValue::Scalar(ScalarValue::try_from_array(&array, 0)?));
    }
    Ok(ColumnarValue::Array(array))
}
