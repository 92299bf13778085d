//! `ns_text(dur)`: a length of time for people, `1.25 ms` for 1250000; in a recording whose ticks have no
//! known length `1.25 Mticks`.

use arrow::array::{AsArray, StringViewBuilder};
use arrow::datatypes::{DataType, Int64Type};
use datafusion::common::{ScalarValue, exec_err};
use datafusion::error::Result;
use datafusion::logical_expr::{
    ColumnarValue, ScalarFunctionArgs, ScalarUDFImpl, Signature, TypeSignature, Volatility,
};
use std::sync::Arc;

/// Its name in SQL.
pub(crate) const NAME: &str = "ns_text";

/// Three significant digits and the unit that fits.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(crate) struct NsText {
    signature: Signature,
    in_ticks: bool,
}

impl NsText {
    pub(crate) fn new(in_ticks: bool) -> Self {
        let types = [DataType::Int64, DataType::Float64];
        let exact = types.into_iter().map(|kind| TypeSignature::Exact(vec![kind])).collect();
        Self { signature: Signature::one_of(exact, Volatility::Immutable), in_ticks }
    }
}

impl ScalarUDFImpl for NsText {
    fn name(&self) -> &'static str {
        NAME
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(DataType::Utf8View)
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let Some(value) = args.args.first() else {
            return exec_err!("ns_text(dur) takes a length in ns");
        };
        let is_scalar = matches!(value, ColumnarValue::Scalar(_));
        let array = value.to_array(if is_scalar { 1 } else { args.number_rows })?;
        let ns = arrow::compute::cast(&array, &DataType::Int64)?;
        let ns = ns.as_primitive::<Int64Type>();
        let mut texts = StringViewBuilder::with_capacity(ns.len());
        let units = if self.in_ticks { &TICKS } else { &UNITS };
        for ns in ns {
            texts.append_option(ns.map(|ns| text(ns, units)));
        }
        let texts = texts.finish();
        if is_scalar {
            return Ok(ColumnarValue::Scalar(ScalarValue::try_from_array(&texts, 0)?));
        }
        Ok(ColumnarValue::Array(Arc::new(texts)))
    }
}

const UNITS: [(u64, &str); 4] = [(1_000_000_000, "s"), (1_000_000, "ms"), (1_000, "µs"), (1, "ns")];

const TICKS: [(u64, &str); 4] =
    [(1_000_000_000, "Gticks"), (1_000_000, "Mticks"), (1_000, "kticks"), (1, "ticks")];

/// `0 ns`, `950 ns`, `1.25 µs`, `12.5 ms`, `3600 s`.
fn text(ns: i64, units: &[(u64, &'static str); 4]) -> String {
    let size = ns.unsigned_abs();
    let sign = if ns < 0 { "-" } else { "" };
    // What rounds up to a thousand of a unit is one of the next.
    let fits = |unit: u64| u128::from(size) * 2000 >= u128::from(unit) * 1999;
    let (unit, name) = units.iter().find(|(unit, _)| fits(*unit)).copied().unwrap_or(units[3]);
    #[allow(clippy::cast_precision_loss)] // Three digits are shown.
    let value = size as f64 / unit as f64;
    let decimals = match value {
        _ if unit == 1 => 0,
        value if value < 9.995 => 2,
        value if value < 99.95 => 1,
        _ => 0,
    };
    format!("{sign}{value:.decimals$} {name}")
}

#[cfg(test)]
mod tests {
    use super::{TICKS, UNITS, text};

    #[test]
    fn three_digits_and_a_unit() {
        let shown: Vec<String> = [
            0,
            950,
            999,
            1_000,
            1_250,
            12_540,
            125_400,
            999_999,
            1_500_000_000,
            -2_000,
            3_600_000_000_000,
        ]
        .into_iter()
        .map(|ns| text(ns, &UNITS))
        .collect();
        let expected = [
            "0 ns",
            "950 ns",
            "999 ns",
            "1.00 µs",
            "1.25 µs",
            "12.5 µs",
            "125 µs",
            "1.00 ms",
            "1.50 s",
            "-2.00 µs",
            "3600 s",
        ];
        assert_eq!(shown, expected);
    }

    #[test]
    fn ticks_are_no_seconds() {
        let shown = [0, 950, 1_250_000, -2_000_000_000].map(|ticks| text(ticks, &TICKS));
        assert_eq!(shown, ["0 ticks", "950 ticks", "1.25 Mticks", "-2.00 Gticks"]);
    }
}
