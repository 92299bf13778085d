//! From rows to columns: a buffer of one table's rows becomes a row group, in order of time.
//!
//! Runs in the encoding threads; whoever makes the rows only moves them into a buffer.

use super::group::GroupEncoder;
use crate::error::StoreError;
use parquet::data_type::{
    BoolType, ByteArray, ByteArrayType, DataType, DoubleType, Int32Type, Int64Type,
};
use rustc_hash::FxHashMap;
use transect_model::cell::Cell;
use transect_model::column::{ColumnType, ColumnValue, ColumnVisitor, Columnar};

/// Encodes every column of `rows`, sorted by their `ts` column if they have one.
pub(crate) fn encode<R: Columnar>(
    rows: &[R],
    group: &mut GroupEncoder<'_>,
) -> Result<(), StoreError> {
    let order = order_by_ts(rows);
    R::each_column(&mut Transposer { rows, order: order.as_deref(), group })
}

/// Indices of the rows in order of time; none if they are in it already. Stable: rows of one actor
/// keep their order.
fn order_by_ts<R: Columnar>(rows: &[R]) -> Option<Vec<u32>> {
    let mut stamps = Stamps { rows, ts: Vec::new() };
    // Stamps cannot fail.
    let _ = R::each_column(&mut stamps);
    sorting(&stamps.ts)
}

/// Indices that put stamps in order; none if they are.
pub(crate) fn sorting(ts: &[i64]) -> Option<Vec<u32>> {
    if ts.is_sorted() {
        return None;
    }
    let mut order: Vec<u32> = (0..u32::try_from(ts.len()).unwrap_or(u32::MAX)).collect();
    order.sort_by_key(|at| ts[*at as usize]);
    Some(order)
}

struct Stamps<'a, R> {
    rows: &'a [R],
    ts: Vec<i64>,
}

impl<R> ColumnVisitor<R> for Stamps<'_, R> {
    type Error = std::convert::Infallible;

    fn column<T: ColumnValue>(
        &mut self,
        name: &'static str,
        get: impl Fn(&R) -> &T,
    ) -> Result<(), Self::Error> {
        if name == "ts" {
            self.ts.extend(self.rows.iter().filter_map(|row| match get(row).to_cell() {
                Cell::I64(ts) => Some(ts),
                _ => None,
            }));
        }
        Ok(())
    }
}

struct Transposer<'a, 'g, R> {
    rows: &'a [R],
    order: Option<&'a [u32]>,
    group: &'a mut GroupEncoder<'g>,
}

impl<R> ColumnVisitor<R> for Transposer<'_, '_, R> {
    type Error = StoreError;

    fn column<T: ColumnValue>(
        &mut self,
        _: &'static str,
        get: impl Fn(&R) -> &T,
    ) -> Result<(), StoreError> {
        // `T::TYPE` is known when this is compiled: each instance is one of these loops.
        match T::TYPE {
            ColumnType::I64 => self.plain::<Int64Type, T>(get, |cell| match cell {
                Cell::I64(v) => Some(v),
                _ => None,
            }),
            ColumnType::U64 => self.plain::<Int64Type, T>(get, |cell| match cell {
                Cell::U64(v) => Some(v.cast_signed()),
                _ => None,
            }),
            ColumnType::I32 => self.plain::<Int32Type, T>(get, |cell| match cell {
                Cell::I64(v) => i32::try_from(v).ok(),
                _ => None,
            }),
            ColumnType::U32 => self.plain::<Int32Type, T>(get, |cell| match cell {
                Cell::U64(v) => u32::try_from(v).ok().map(u32::cast_signed),
                _ => None,
            }),
            ColumnType::Bool => self.plain::<BoolType, T>(get, |cell| match cell {
                Cell::Bool(v) => Some(v),
                _ => None,
            }),
            ColumnType::F64 => self.plain::<DoubleType, T>(get, |cell| match cell {
                Cell::F64(v) => Some(v),
                _ => None,
            }),
            ColumnType::Text => self.text(get),
        }
    }
}

impl<R> Transposer<'_, '_, R> {
    fn plain<D: DataType, T: ColumnValue>(
        &mut self,
        get: impl Fn(&R) -> &T,
        value: impl Fn(Cell<'_>) -> Option<D::T>,
    ) -> Result<(), StoreError> {
        self.write::<D, T>(|row| value(get(row).to_cell()))
    }

    fn text<T: ColumnValue>(&mut self, get: impl Fn(&R) -> &T) -> Result<(), StoreError> {
        let mut words: FxHashMap<u64, ByteArray> = FxHashMap::default();
        self.write::<ByteArrayType, T>(|row| {
            let value = get(row);
            match value.word() {
                Some(word) => match words.get(&word) {
                    Some(known) => Some(known.clone()),
                    None => {
                        let new = text(value.to_cell())?;
                        words.insert(word, new.clone());
                        Some(new)
                    }
                },
                None => text(value.to_cell()),
            }
        })
    }

    fn write<D: DataType, T: ColumnValue>(
        &mut self,
        mut value: impl FnMut(&R) -> Option<D::T>,
    ) -> Result<(), StoreError> {
        let mut values = Vec::with_capacity(self.rows.len());
        let mut present = Vec::with_capacity(if T::NULLABLE { self.rows.len() } else { 0 });
        let mut take = |row: &R| {
            let value = value(row);
            if T::NULLABLE {
                present.push(i16::from(value.is_some()));
            }
            values.extend(value);
        };
        match self.order {
            Some(order) => order.iter().for_each(|at| take(&self.rows[*at as usize])),
            None => self.rows.iter().for_each(&mut take),
        }
        self.group.column::<D>(&values, T::NULLABLE.then_some(&present[..]))
    }
}

fn text(cell: Cell<'_>) -> Option<ByteArray> {
    match cell {
        Cell::Str(text) => Some(ByteArray::from(text.into_owned().into_bytes())),
        _ => None,
    }
}
