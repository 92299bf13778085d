//! Some rows of a table as columns, in the form the files have them.

use crate::error::StoreError;
use crate::tables::group::GroupEncoder;
use parquet::data_type::{BoolType, ByteArray, ByteArrayType, DoubleType, Int32Type, Int64Type};
use rustc_hash::FxHashMap;
use transect_model::cell::Cell;
use transect_model::column::ColumnType;

/// Values that are there, one behind the other.
#[derive(Clone, Debug)]
pub(crate) enum Values {
    Bool(Vec<bool>),
    I32(Vec<i32>),
    I64(Vec<i64>),
    F64(Vec<f64>),
    Text(Vec<ByteArray>),
}

/// One column.
#[derive(Clone, Debug)]
pub(crate) struct Column {
    pub(crate) ty: ColumnType,
    /// For each row whether it has a value (1) or not (0); empty if none can be missing.
    pub(crate) present: Vec<i16>,
    pub(crate) values: Values,
}

/// Rows as columns, in the table's order.
#[derive(Clone, Debug, Default)]
pub(crate) struct Frame {
    pub(crate) rows: usize,
    pub(crate) columns: Vec<Column>,
}

impl Values {
    /// None of a column of this type.
    pub(crate) fn none(ty: ColumnType) -> Self {
        match ty {
            ColumnType::Bool => Values::Bool(Vec::new()),
            ColumnType::I32 | ColumnType::U32 => Values::I32(Vec::new()),
            ColumnType::I64 | ColumnType::U64 => Values::I64(Vec::new()),
            ColumnType::F64 => Values::F64(Vec::new()),
            ColumnType::Text => Values::Text(Vec::new()),
        }
    }

    fn len(&self) -> usize {
        match self {
            Values::Bool(v) => v.len(),
            Values::I32(v) => v.len(),
            Values::I64(v) => v.len(),
            Values::F64(v) => v.len(),
            Values::Text(v) => v.len(),
        }
    }

    /// Adds those of `other` at these places.
    fn extend(&mut self, other: &Values, at: impl Iterator<Item = usize>) {
        match (self, other) {
            (Values::Bool(to), Values::Bool(from)) => to.extend(at.map(|at| from[at])),
            (Values::I32(to), Values::I32(from)) => to.extend(at.map(|at| from[at])),
            (Values::I64(to), Values::I64(from)) => to.extend(at.map(|at| from[at])),
            (Values::F64(to), Values::F64(from)) => to.extend(at.map(|at| from[at])),
            (Values::Text(to), Values::Text(from)) => to.extend(at.map(|at| from[at].clone())),
            // Frames are only joined with frames of the same columns.
            _ => {}
        }
    }
}

impl Column {
    pub(crate) fn none(ty: ColumnType) -> Self {
        Column { ty, present: Vec::new(), values: Values::none(ty) }
    }

    /// The value at a place among those that are there; none if it is not of the column's type
    /// (text that is not UTF-8).
    pub(crate) fn cell(&self, at: usize) -> Option<Cell<'_>> {
        Some(match (&self.values, self.ty) {
            (Values::Bool(v), _) => Cell::Bool(*v.get(at)?),
            (Values::I32(v), ColumnType::U32) => Cell::U64(v.get(at)?.cast_unsigned().into()),
            (Values::I32(v), _) => Cell::I64((*v.get(at)?).into()),
            (Values::I64(v), ColumnType::U64) => Cell::U64(v.get(at)?.cast_unsigned()),
            (Values::I64(v), _) => Cell::I64(*v.get(at)?),
            (Values::F64(v), _) => Cell::F64(*v.get(at)?),
            (Values::Text(v), _) => Cell::Str(v.get(at)?.as_utf8().ok()?.into()),
        })
    }

    /// A number for each row that is the same for equal values, within this column of this frame.
    pub(crate) fn marks(&self) -> Vec<u64> {
        let mut known: FxHashMap<&[u8], u64> = FxHashMap::default();
        let mut mark = |at: usize| match &self.values {
            Values::Bool(v) => v.get(at).copied().map(u64::from),
            Values::I32(v) => v.get(at).map(|v| u64::from(v.cast_unsigned())),
            Values::I64(v) => v.get(at).map(|v| v.cast_unsigned()),
            Values::F64(v) => v.get(at).map(|v| v.to_bits()),
            Values::Text(v) => v.get(at).map(|v| {
                let next = known.len() as u64;
                *known.entry(v.data()).or_insert(next)
            }),
        };
        let len = self.values.len();
        if self.present.is_empty() {
            return (0..len).map(|at| mark(at).unwrap_or(u64::MAX)).collect();
        }
        let mut place = 0;
        let of = |has: &i16| match *has {
            // None is like no value that ids or words have.
            0 => u64::MAX,
            _ => {
                place += 1;
                mark(place - 1).unwrap_or(u64::MAX)
            }
        };
        self.present.iter().map(of).collect()
    }

    /// The column's numbers, row by row; of a column of other values, nothing.
    pub(crate) fn numbers(&self) -> Vec<Option<i64>> {
        let Values::I64(values) = &self.values else { return Vec::new() };
        if self.present.is_empty() {
            return values.iter().copied().map(Some).collect();
        }
        let mut values = values.iter().copied();
        self.present.iter().map(|has| if *has == 0 { None } else { values.next() }).collect()
    }

    /// Adds the rows of `other` that are in `keep`, which is in order.
    fn extend(&mut self, other: &Column, keep: &[usize]) {
        if other.present.is_empty() {
            self.values.extend(&other.values, keep.iter().copied());
            return;
        }
        let mut places = Vec::with_capacity(keep.len());
        let (mut row, mut place) = (0, 0);
        for at in keep {
            place += other.present[row..*at].iter().filter(|has| **has != 0).count();
            row = *at;
            if other.present[row] != 0 {
                places.push(place);
            }
            self.present.push(other.present[row]);
        }
        self.values.extend(&other.values, places.into_iter());
    }
}

impl Frame {
    /// No rows, of columns of these types.
    pub(crate) fn none(types: impl Iterator<Item = ColumnType>) -> Self {
        Frame { rows: 0, columns: types.map(Column::none).collect() }
    }

    /// Adds the rows of `other` that are in `keep`, which is in order. Both have the same columns.
    pub(crate) fn extend(&mut self, other: &Frame, keep: &[usize]) {
        for (to, from) in self.columns.iter_mut().zip(&other.columns) {
            to.extend(from, keep);
        }
        self.rows += keep.len();
    }

    /// Writes it as a row group.
    pub(crate) fn encode(&self, group: &mut GroupEncoder<'_>) -> Result<(), StoreError> {
        for (at, column) in self.columns.iter().enumerate() {
            let nullable = group.is_nullable(at);
            let present = nullable.then_some(&column.present[..]);
            match &column.values {
                Values::Bool(v) => group.column::<BoolType>(v, present)?,
                Values::I32(v) => group.column::<Int32Type>(v, present)?,
                Values::I64(v) => group.column::<Int64Type>(v, present)?,
                Values::F64(v) => group.column::<DoubleType>(v, present)?,
                Values::Text(v) => group.column::<ByteArrayType>(v, present)?,
            }
        }
        Ok(())
    }
}
