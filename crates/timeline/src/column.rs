//! Columns of a batch, by name.

use crate::error::TimelineError;
use crate::key::Interner;
use arrow::array::{
    Array, AsArray, DictionaryArray, Int32Array, Int64Array, PrimitiveArray, RecordBatch,
    UInt32Array,
};
use arrow::datatypes::{ArrowPrimitiveType, Int32Type, Int64Type, UInt32Type, UInt64Type};
use std::borrow::Cow;
use std::path::PathBuf;
use transect_model::cell::Cell;
use transect_model::from_cell::FromCell;

fn missing(name: &str) -> TimelineError {
    TimelineError::Table {
        path: PathBuf::from("tables"),
        reason: format!("column {name} is missing or of another type"),
    }
}

fn primitive<'b, T: ArrowPrimitiveType>(
    batch: &'b RecordBatch,
    name: &str,
) -> Result<&'b PrimitiveArray<T>, TimelineError> {
    let column = batch.column_by_name(name).ok_or_else(|| missing(name))?;
    column.as_primitive_opt::<T>().ok_or_else(|| missing(name))
}

pub(crate) fn i64s<'b>(
    batch: &'b RecordBatch,
    name: &str,
) -> Result<&'b Int64Array, TimelineError> {
    primitive::<Int64Type>(batch, name)
}

pub(crate) fn u64s<'b>(
    batch: &'b RecordBatch,
    name: &str,
) -> Result<&'b PrimitiveArray<UInt64Type>, TimelineError> {
    primitive::<UInt64Type>(batch, name)
}

pub(crate) fn i32s<'b>(
    batch: &'b RecordBatch,
    name: &str,
) -> Result<&'b Int32Array, TimelineError> {
    primitive::<Int32Type>(batch, name)
}

pub(crate) fn u32s<'b>(
    batch: &'b RecordBatch,
    name: &str,
) -> Result<&'b UInt32Array, TimelineError> {
    primitive::<UInt32Type>(batch, name)
}

/// A value, or none.
#[inline]
pub(crate) fn get<T: ArrowPrimitiveType>(
    array: &PrimitiveArray<T>,
    row: usize,
) -> Option<T::Native> {
    array.is_valid(row).then(|| array.value(row))
}

/// A column of words.
pub(crate) struct Words<'b> {
    numbers: &'b Int32Array,
    words: Vec<&'b str>,
}

impl<'b> Words<'b> {
    pub(crate) fn new(batch: &'b RecordBatch, name: &str) -> Result<Self, TimelineError> {
        let column = batch.column_by_name(name).ok_or_else(|| missing(name))?;
        let column: &DictionaryArray<Int32Type> =
            column.as_dictionary_opt().ok_or_else(|| missing(name))?;
        let values = column.values().as_string_opt::<i32>().ok_or_else(|| missing(name))?;
        let words = (0..values.len()).map(|at| match values.is_valid(at) {
            true => values.value(at),
            false => "",
        });
        Ok(Words { numbers: column.keys(), words: words.collect() })
    }

    /// Where the row's word is among the batch's; none where it is null.
    #[inline]
    pub(crate) fn place(&self, row: usize) -> Option<usize> {
        let number = get(self.numbers, row)?;
        usize::try_from(number).ok().filter(|at| *at < self.words.len())
    }

    /// The row's word; empty where it is null.
    #[inline]
    pub(crate) fn text(&self, row: usize) -> &'b str {
        self.place(row).map_or("", |at| self.words[at])
    }

    /// What is the row's word among those that were made of all words of the batch; none where it is null.
    #[inline]
    pub(crate) fn of<T: Copy>(&self, row: usize, values: &[Option<T>]) -> Option<T> {
        self.place(row).and_then(|at| *values.get(at)?)
    }

    /// What all words of the batch are to the model; none for a word that it does not know.
    pub(crate) fn values<T: FromCell>(&self) -> Vec<Option<T>> {
        let value = |word: &&str| T::from_cell(&Cell::Str(Cow::Borrowed(word)));
        self.words.iter().map(value).collect()
    }

    /// Numbers in a file of tiles of all words of the batch.
    pub(crate) fn numbers(&self, keys: &mut Interner) -> Vec<u32> {
        self.words.iter().map(|word| keys.word(word)).collect()
    }
}
