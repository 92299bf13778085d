//! What DataFusion asks of an aggregate, for any way of keeping values.

use super::values::Values;
use arrow::array::{
    Array, ArrayRef, AsArray, BooleanArray, Int64Array, Int64Builder, LargeBinaryArray,
    LargeBinaryBuilder, ListBuilder,
};
use arrow::datatypes::Int64Type;
use datafusion::common::ScalarValue;
use datafusion::error::{DataFusionError, Result};
use datafusion::logical_expr::{Accumulator, EmitTo, GroupsAccumulator};
use std::sync::Arc;

/// Gives the quantiles of groups as a column.
fn column<V: Values>(groups: &mut [V], shares: &[f64], many: bool) -> ArrayRef {
    if !many {
        let share = shares.first().copied().unwrap_or(0.5);
        let values: Int64Array = groups.iter_mut().map(|group| group.quantile(share)).collect();
        return Arc::new(values);
    }
    let mut lists = ListBuilder::new(Int64Builder::new());
    for group in groups {
        for share in shares {
            lists.values().append_option(group.quantile(*share));
        }
        lists.append(true);
    }
    Arc::new(lists.finish())
}

fn missing() -> DataFusionError {
    DataFusionError::Internal("a quantile without a column".to_owned())
}

fn int64(values: &[ArrayRef]) -> Result<&Int64Array> {
    values.first().and_then(|v| v.as_primitive_opt::<Int64Type>()).ok_or_else(missing)
}

fn states(values: &[ArrayRef]) -> Result<&LargeBinaryArray> {
    values.first().and_then(|v| v.as_binary_opt::<i64>()).ok_or_else(missing)
}

/// One group.
#[derive(Debug)]
pub(crate) struct Single<V> {
    values: V,
    shares: Vec<f64>,
    many: bool,
}

impl<V: Values> Single<V> {
    pub(crate) fn new(shares: Vec<f64>, many: bool) -> Self {
        Self { values: V::default(), shares, many }
    }
}

impl<V: Values> Accumulator for Single<V> {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        int64(values)?.iter().flatten().for_each(|value| self.values.add(value));
        Ok(())
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        let column = column(std::slice::from_mut(&mut self.values), &self.shares, self.many);
        ScalarValue::try_from_array(&column, 0)
    }

    fn size(&self) -> usize {
        self.values.size_bytes() + self.shares.capacity() * 8
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        let mut state = Vec::new();
        self.values.encode(&mut state);
        Ok(vec![ScalarValue::LargeBinary(Some(state))])
    }

    fn merge_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        states(values)?.iter().flatten().for_each(|state| self.values.merge(state));
        Ok(())
    }
}

/// Many groups at once.
#[derive(Debug)]
pub(crate) struct Grouped<V> {
    groups: Vec<V>,
    shares: Vec<f64>,
    many: bool,
    /// Memory held when it was last counted, and rows or states taken since.
    bytes: usize,
    since: usize,
}

impl<V: Values> Grouped<V> {
    pub(crate) fn new(shares: Vec<f64>, many: bool) -> Self {
        Self { groups: Vec::new(), shares, many, bytes: 0, since: 0 }
    }

    /// Counts the memory held, no more often than there are groups to look at.
    fn count_bytes(&mut self, taken: usize) {
        self.since += taken;
        if self.since >= self.groups.len() {
            self.since = 0;
            self.bytes = self.groups.iter().map(Values::size_bytes).sum();
        }
    }

    fn emit(&mut self, emit_to: EmitTo) -> Vec<V> {
        let emitted = match emit_to {
            EmitTo::All => std::mem::take(&mut self.groups),
            EmitTo::First(count) => self.groups.drain(..count.min(self.groups.len())).collect(),
        };
        self.count_bytes(usize::MAX / 2);
        emitted
    }
}

impl<V: Values> GroupsAccumulator for Grouped<V> {
    fn update_batch(
        &mut self,
        values: &[ArrayRef],
        group_indices: &[usize],
        opt_filter: Option<&BooleanArray>,
        total_num_groups: usize,
    ) -> Result<()> {
        let values = int64(values)?;
        self.groups.resize_with(total_num_groups, V::default);
        let wanted = |row: usize| opt_filter.is_none_or(|f| f.is_valid(row) && f.value(row));
        let all = values.null_count() == 0 && opt_filter.is_none();
        for (row, (value, group)) in values.values().iter().zip(group_indices).enumerate() {
            if all || (values.is_valid(row) && wanted(row)) {
                self.groups.get_mut(*group).ok_or_else(missing)?.add(*value);
            }
        }
        self.count_bytes(group_indices.len());
        Ok(())
    }

    fn evaluate(&mut self, emit_to: EmitTo) -> Result<ArrayRef> {
        let mut groups = self.emit(emit_to);
        Ok(column(&mut groups, &self.shares, self.many))
    }

    fn state(&mut self, emit_to: EmitTo) -> Result<Vec<ArrayRef>> {
        let mut builder = LargeBinaryBuilder::new();
        let mut state = Vec::new();
        for group in self.emit(emit_to) {
            state.clear();
            group.encode(&mut state);
            builder.append_value(&state);
        }
        Ok(vec![Arc::new(builder.finish())])
    }

    fn merge_batch(
        &mut self,
        values: &[ArrayRef],
        group_indices: &[usize],
        total_num_groups: usize,
    ) -> Result<()> {
        self.groups.resize_with(total_num_groups, V::default);
        for (state, group) in states(values)?.iter().zip(group_indices) {
            if let Some(state) = state {
                self.groups.get_mut(*group).ok_or_else(missing)?.merge(state);
            }
        }
        self.count_bytes(self.groups.len());
        Ok(())
    }

    fn convert_to_state(
        &self,
        values: &[ArrayRef],
        opt_filter: Option<&BooleanArray>,
    ) -> Result<Vec<ArrayRef>> {
        let mut builder = LargeBinaryBuilder::new();
        let mut state = Vec::new();
        for (row, value) in int64(values)?.iter().enumerate() {
            let wanted = opt_filter.is_none_or(|f| f.is_valid(row) && f.value(row));
            match value.filter(|_| wanted) {
                Some(value) => {
                    let mut one = V::default();
                    one.add(value);
                    state.clear();
                    one.encode(&mut state);
                    builder.append_value(&state);
                }
                None => builder.append_null(),
            }
        }
        Ok(vec![Arc::new(builder.finish())])
    }

    fn size(&self) -> usize {
        self.bytes + self.shares.capacity() * 8
    }
}
