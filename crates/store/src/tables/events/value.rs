//! One value of an event's column, whichever format the event came in.

use parquet::data_type::ByteArray;
use std::borrow::Cow;
use std::fmt::Write as _;
use transect_ftrace::field::{DynamicKind, Field, FieldKind};
use transect_ftrace::value::{Array, Machine, Value as FieldValue};
use transect_model::column::ColumnType;
use transect_model::event::CoreEvent;
use transect_model::setting::cpu_list;
use transect_xentrace::records::Table;

/// A value before it is put into its column's type.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Value<'a> {
    Null,
    Bool(bool),
    I64(i64),
    U64(u64),
    /// Text as the kernel wrote it, in no promised encoding.
    Raw(&'a [u8]),
    Text(Cow<'static, str>),
}

/// How to get a column's value out of one source's events.
#[derive(Clone, Debug)]
pub(super) enum Getter {
    /// The source's event has no such field.
    Missing,
    /// A field of an ftrace record.
    Field(Box<Field>, Machine),
    /// A value of a core event.
    Core(fn(&CoreEvent) -> Value<'static>),
    /// The field of this name of a record of Xen; where it is depends on the record's form.
    Xen(&'static Table, &'static str),
}

impl Value<'_> {
    pub(super) fn bool(&self) -> Option<bool> {
        match self {
            Value::Bool(v) => Some(*v),
            _ => None,
        }
    }

    /// As a 64-bit signed number; unsigned ones keep their bits.
    pub(super) fn i64(&self) -> Option<i64> {
        match self {
            Value::Bool(v) => Some(i64::from(*v)),
            Value::I64(v) => Some(*v),
            Value::U64(v) => Some(v.cast_signed()),
            _ => None,
        }
    }

    /// The low 32 bits: what a 32-bit column's value is made of.
    #[expect(clippy::cast_possible_truncation, reason = "the column's fields have 32 bits")]
    pub(super) fn i32(&self) -> Option<i32> {
        self.i64().map(|v| v as i32)
    }

    pub(super) fn text(self) -> Option<ByteArray> {
        let text = match self {
            Value::Null => return None,
            Value::Bool(v) => v.to_string(),
            Value::I64(v) => v.to_string(),
            Value::U64(v) => v.to_string(),
            Value::Raw(bytes) => String::from_utf8_lossy(bytes).into_owned(),
            Value::Text(text) => text.into_owned(),
        };
        Some(ByteArray::from(text.into_bytes()))
    }
}

/// What the column of a field holds.
pub(super) fn type_of(field: &Field) -> ColumnType {
    let int = |is_signed| match (field.size_bytes > 4, is_signed) {
        (false, true) => ColumnType::I32,
        (false, false) => ColumnType::U32,
        (true, true) => ColumnType::I64,
        (true, false) => ColumnType::U64,
    };
    match field.kind {
        FieldKind::Int | FieldKind::Enum | FieldKind::Bits { .. } => int(field.is_signed),
        FieldKind::Bool => ColumnType::Bool,
        FieldKind::Pointer => ColumnType::U64,
        FieldKind::Str
        | FieldKind::Array(_)
        | FieldKind::CpuMask
        | FieldKind::Bytes
        | FieldKind::Dynamic { .. } => ColumnType::Text,
    }
}

/// What the column of a field of Xen's holds.
pub(super) fn type_of_xen(field: &transect_xentrace::Field) -> ColumnType {
    use transect_xentrace::records::{FieldType, Meaning};
    match (field.meaning, field.sql_type()) {
        (Meaning::Runstate, _) => ColumnType::Text,
        (_, FieldType::Bool) => ColumnType::Bool,
        (_, FieldType::I32) => ColumnType::I32,
        (_, FieldType::U16 | FieldType::U32) => ColumnType::U32,
        (_, FieldType::U64) => ColumnType::U64,
    }
}

/// A field of a record of Xen: `payload` is its event number and its words.
pub(super) fn of_xen(table: &Table, name: &str, payload: &[u8]) -> Value<'static> {
    use transect_xentrace::{Value as XenValue, records::Meaning};
    let found = payload.split_first_chunk().and_then(|(event, words)| {
        let event = u32::from_le_bytes(*event);
        let field = table.lookup(event)?.fields.iter().find(|field| field.name == name)?;
        Some((field, field.value(event, words)?))
    });
    let Some((field, value)) = found else { return Value::Null };
    match (field.meaning, value) {
        (Meaning::Runstate, value) => Value::Text(field.show(value).into()),
        (_, XenValue::Unsigned(v)) => Value::U64(v),
        (_, XenValue::Signed(v)) => Value::I64(v),
        (_, XenValue::Bool(v)) => Value::Bool(v),
    }
}

/// The type that holds the values of both: kernels of different versions declare a field
/// differently.
pub(super) fn wider(a: ColumnType, b: ColumnType) -> ColumnType {
    use ColumnType::{Bool, I32, I64, Text, U32, U64};
    match (a, b) {
        (a, b) if a == b => a,
        (U32 | U64 | Bool, U32 | U64 | Bool) => U64,
        (I32 | U32 | I64 | Bool, I32 | U32 | I64 | Bool) => I64,
        _ => Text,
    }
}

/// A field of a record; null if the record is too short for it.
pub(super) fn of_field<'a>(field: &Field, machine: Machine, payload: &'a [u8]) -> Value<'a> {
    match machine.value(field, payload) {
        None => Value::Null,
        Some(FieldValue::I64(v)) => Value::I64(v),
        Some(FieldValue::U64(v) | FieldValue::Pointer(v)) => Value::U64(v),
        Some(FieldValue::Bool(v)) => Value::Bool(v),
        Some(FieldValue::Str(text)) => Value::Raw(text),
        Some(FieldValue::Bytes(bytes)) => Value::Text(hex(bytes).into()),
        Some(FieldValue::Array(array)) => Value::Text(list(array).into()),
        Some(FieldValue::CpuMask(mask)) => Value::Text(cpu_list(mask.cpus()).into()),
    }
}

/// Does the text of this field follow from its own bytes alone, so that equal bytes are equal text?
pub(super) fn is_plain_text(field: &Field) -> bool {
    matches!(field.kind, FieldKind::Str | FieldKind::Dynamic { kind: DynamicKind::Str, .. })
}

/// `[1,2,3]`, signed if the elements are.
fn list(array: Array<'_>) -> String {
    let mut text = String::with_capacity(2 + array.bytes.len() * 2);
    for item in array.iter() {
        text.push(if text.is_empty() { '[' } else { ',' });
        // Writing to a String cannot fail.
        let _ = match item {
            FieldValue::I64(v) => write!(text, "{v}"),
            other => write!(text, "{}", other.as_u64().unwrap_or_default()),
        };
    }
    if text.is_empty() {
        text.push('[');
    }
    text.push(']');
    text
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::with_capacity(bytes.len() * 2), |mut text, byte| {
        // Writing to a String cannot fail.
        let _ = write!(text, "{byte:02x}");
        text
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_that_differ_between_kernels_find_a_common_type() {
        use ColumnType::{Bool, I32, I64, Text, U32, U64};
        for (a, b, common) in [
            (I32, I32, I32),
            (I32, U32, I64),
            (U32, U64, U64),
            (Bool, U32, U64),
            (I64, U64, Text),
            (Text, U32, Text),
            (Bool, I32, I64),
        ] {
            assert_eq!((wider(a, b), wider(b, a)), (common, common), "{a:?} {b:?}");
        }
    }

    #[test]
    fn bytes_are_hexadecimal() {
        assert_eq!(hex(&[0, 0xab]), "00ab");
    }
}
