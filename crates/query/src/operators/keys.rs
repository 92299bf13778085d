//! Rows of equal keys get equal slots: small dense numbers that state can be indexed by.
//!
//! Both sides of a join share one interner, so a slot means the same key on either. Integer keys
//! of one or two columns (machine and thread, machine and CPU: nearly all there are) are looked up
//! as integers; anything else goes through arrow's row format.

use arrow::array::{Array, ArrayRef, AsArray, Int64Array};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Int64Type};
use arrow::row::{RowConverter, SortField};
use datafusion::error::{DataFusionError, Result};
use rustc_hash::FxHashMap;

/// The slot of a row whose key has a null: SQL's equality never matches it.
pub(crate) const NO_SLOT: u32 = u32::MAX;

/// Gives equal keys equal slots.
#[derive(Debug)]
pub(crate) struct Interner {
    kinds: Vec<DataType>,
    slots: Slots,
    count: u32,
}

#[derive(Debug)]
enum Slots {
    /// No key columns: all rows share one slot.
    One,
    Int(FxHashMap<i64, u32>),
    Pair(FxHashMap<(i64, i64), u32>),
    Rows {
        converter: RowConverter,
        known: FxHashMap<Box<[u8]>, u32>,
    },
}

/// The type that key columns of this type are compared in, if they can be keys.
pub(crate) fn comparable(kind: &DataType) -> Option<DataType> {
    match kind {
        kind if kind.is_integer() => Some(DataType::Int64),
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => Some(DataType::Utf8View),
        DataType::Dictionary(_, values) => comparable(values),
        DataType::Boolean => Some(DataType::Boolean),
        _ => None,
    }
}

impl Interner {
    /// An interner for key columns whose values are compared as `kinds` (see [`comparable`]).
    pub(crate) fn new(kinds: Vec<DataType>) -> Result<Self> {
        let ints = kinds.iter().all(|kind| *kind == DataType::Int64);
        let slots = match kinds.len() {
            0 => Slots::One,
            1 if ints => Slots::Int(FxHashMap::default()),
            2 if ints => Slots::Pair(FxHashMap::default()),
            _ => {
                let fields = kinds.iter().cloned().map(SortField::new).collect();
                Slots::Rows { converter: RowConverter::new(fields)?, known: FxHashMap::default() }
            }
        };
        Ok(Self { kinds, slots, count: 0 })
    }

    /// How many slots there are: every slot given out is less than this.
    pub(crate) fn count(&self) -> usize {
        match self.slots {
            Slots::One => 1,
            _ => self.count as usize,
        }
    }

    /// About how much memory the interner holds, bytes.
    pub(crate) fn size_bytes(&self) -> usize {
        match &self.slots {
            Slots::One => 0,
            Slots::Int(known) => known.capacity() * 16,
            Slots::Pair(known) => known.capacity() * 24,
            Slots::Rows { known, .. } => {
                known.capacity() * 24 + known.keys().next().map_or(0, |k| k.len()) * known.len()
            }
        }
    }

    /// The slot of each of `rows` rows; a row with a null in its key gets [`NO_SLOT`].
    pub(crate) fn slots(&mut self, columns: &[ArrayRef], rows: usize) -> Result<Vec<u32>> {
        let columns: Vec<ArrayRef> = columns
            .iter()
            .zip(&self.kinds)
            .map(|(column, kind)| Ok(cast(column, kind)?))
            .collect::<Result<_>>()?;
        let count = &mut self.count;
        let mut slots = match (&mut self.slots, columns.as_slice()) {
            (Slots::One, _) => vec![0; rows],
            (Slots::Int(known), [key]) => ints(known, key.as_primitive::<Int64Type>(), count),
            (Slots::Pair(known), [first, second]) => {
                pairs(known, first.as_primitive(), second.as_primitive(), count)
            }
            (Slots::Rows { converter, known }, columns) => {
                let encoded = converter.convert_columns(columns)?;
                encoded
                    .iter()
                    .map(|row| match known.get(row.as_ref()) {
                        Some(slot) => *slot,
                        None => {
                            let slot = next(count);
                            known.insert(row.as_ref().into(), slot);
                            slot
                        }
                    })
                    .collect()
            }
            _ => {
                return Err(DataFusionError::Internal("a key column is missing".to_owned()));
            }
        };
        if *count == NO_SLOT {
            return Err(DataFusionError::Execution(
                "too many different keys to join by".to_owned(),
            ));
        }
        for column in columns.iter().filter(|column| column.null_count() > 0) {
            for (row, slot) in slots.iter_mut().enumerate() {
                if column.is_null(row) {
                    *slot = NO_SLOT;
                }
            }
        }
        Ok(slots)
    }
}

fn next(count: &mut u32) -> u32 {
    let slot = *count;
    *count += 1;
    slot
}

/// Neighbouring rows often have the same key: what was looked up last is tried first.
fn ints(known: &mut FxHashMap<i64, u32>, keys: &Int64Array, count: &mut u32) -> Vec<u32> {
    let mut last = None;
    let mut look_up = |key: i64| match last {
        Some((same, slot)) if same == key => slot,
        _ => {
            let slot = *known.entry(key).or_insert_with(|| next(count));
            last = Some((key, slot));
            slot
        }
    };
    keys.values().iter().map(|key| look_up(*key)).collect()
}

fn pairs(
    known: &mut FxHashMap<(i64, i64), u32>,
    first: &Int64Array,
    second: &Int64Array,
    count: &mut u32,
) -> Vec<u32> {
    let mut last = None;
    let mut look_up = |key: (i64, i64)| match last {
        Some((same, slot)) if same == key => slot,
        _ => {
            let slot = *known.entry(key).or_insert_with(|| next(count));
            last = Some((key, slot));
            slot
        }
    };
    first.values().iter().zip(second.values()).map(|(a, b)| look_up((*a, *b))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::array::{StringArray, UInt32Array};
    use std::sync::Arc;

    #[test]
    fn keys_of_two_batches_and_of_different_widths_get_the_same_slots() {
        let mut keys = Interner::new(vec![DataType::Int64, DataType::Int64]).unwrap();
        let a: ArrayRef = Arc::new(Int64Array::from(vec![Some(1), Some(1), None, Some(2)]));
        let b: ArrayRef = Arc::new(UInt32Array::from(vec![5, 5, 5, 5]));
        assert_eq!(keys.slots(&[a, b.clone()], 4).unwrap(), [0, 0, NO_SLOT, 2]);
        let a: ArrayRef = Arc::new(UInt32Array::from(vec![2, 1, 7, 2]));
        assert_eq!(keys.slots(&[a, b], 4).unwrap(), [2, 0, 3, 2]);
    }

    #[test]
    fn text_keys_and_no_keys() {
        let kinds = vec![DataType::Utf8View, DataType::Int64];
        let mut keys = Interner::new(kinds).unwrap();
        let name: ArrayRef = Arc::new(StringArray::from(vec!["a", "b", "a"]));
        let id: ArrayRef = Arc::new(Int64Array::from(vec![1, 1, 1]));
        assert_eq!(keys.slots(&[name, id], 3).unwrap(), [0, 1, 0]);
        assert_eq!(Interner::new(vec![]).unwrap().slots(&[], 3).unwrap(), [0, 0, 0]);
    }
}
