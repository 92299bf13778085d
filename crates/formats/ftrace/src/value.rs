//! Typed values of fields, borrowed from the record.

use crate::{
    endian::Endian,
    field::{DynamicKind, Element, Field, FieldKind},
};

/// One field of one record.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Value<'a> {
    /// Signed integer.
    I64(i64),
    /// Unsigned integer, enum or bitfield.
    U64(u64),
    /// `bool`.
    Bool(bool),
    /// An address.
    Pointer(u64),
    /// Text without its terminating zero; the kernel promises no encoding.
    Str(&'a [u8]),
    /// Bytes without a known meaning.
    Bytes(&'a [u8]),
    /// Integers.
    Array(Array<'a>),
    /// A set of CPUs, or another bitmask of longs.
    CpuMask(CpuMask<'a>),
}

/// An array of integers in the traced machine's byte order.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Array<'a> {
    /// The elements' bytes.
    pub bytes: &'a [u8],
    /// Their type.
    pub element: Element,
    endian: Endian,
}

impl<'a> Array<'a> {
    /// The elements, as [`Value::I64`] or [`Value::U64`].
    pub fn iter(&self) -> impl Iterator<Item = Value<'a>> + use<'a> {
        let (endian, element) = (self.endian, self.element);
        let size = usize::from(element.size_bytes).max(1);
        self.bytes.chunks_exact(size).map(move |chunk| {
            if element.is_signed {
                Value::I64(endian.int(chunk, 0, size).unwrap_or_default())
            } else {
                Value::U64(endian.uint(chunk, 0, size).unwrap_or_default())
            }
        })
    }

    /// Element `at` as 64 bits, sign-extended if signed.
    pub fn get(&self, at: usize) -> Option<u64> {
        let size = usize::from(self.element.size_bytes);
        let offset = at.checked_mul(size)?;
        if self.element.is_signed {
            self.endian.int(self.bytes, offset, size).map(i64::cast_unsigned)
        } else {
            self.endian.uint(self.bytes, offset, size)
        }
    }
}

/// A bitmask kept in words of the traced machine's `long`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CpuMask<'a> {
    /// The words' bytes.
    pub bytes: &'a [u8],
    endian: Endian,
    long_bytes: usize,
}

impl<'a> CpuMask<'a> {
    /// Numbers of the set bits, ascending.
    pub fn cpus(&self) -> impl Iterator<Item = u32> + use<'a> {
        let (endian, long_bytes) = (self.endian, self.long_bytes.max(1));
        let words = self.bytes.chunks_exact(long_bytes).enumerate();
        words.flat_map(move |(at, chunk)| {
            let word = endian.uint(chunk, 0, long_bytes).unwrap_or_default();
            let base = at * long_bytes * 8;
            (0..long_bytes * 8)
                .filter(move |bit| word >> bit & 1 == 1)
                .filter_map(move |bit| u32::try_from(base + bit).ok())
        })
    }
}

impl Value<'_> {
    /// Any integer-like value as 64 bits, sign-extended if signed.
    pub fn as_u64(&self) -> Option<u64> {
        match *self {
            Value::I64(v) => Some(v.cast_unsigned()),
            Value::U64(v) | Value::Pointer(v) => Some(v),
            Value::Bool(v) => Some(u64::from(v)),
            Value::Str(_) | Value::Bytes(_) | Value::Array(_) | Value::CpuMask(_) => None,
        }
    }
}

/// Byte order and word size, which decoding a field depends on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Machine {
    /// Byte order.
    pub endian: Endian,
    /// Bytes of the kernel's `long`.
    pub long_bytes: usize,
}

impl Machine {
    /// A field of a record. `None` if the record ends before the field, or a locator points
    /// outside the record.
    pub fn value<'a>(self, field: &Field, payload: &'a [u8]) -> Option<Value<'a>> {
        let fixed = || fixed(field, payload);
        let uint = || self.endian.uint(payload, field.offset_bytes, field.size_bytes);
        Some(match field.kind {
            FieldKind::Int if field.is_signed => {
                Value::I64(self.endian.int(payload, field.offset_bytes, field.size_bytes)?)
            }
            FieldKind::Enum if field.is_signed => {
                Value::I64(self.endian.int(payload, field.offset_bytes, field.size_bytes)?)
            }
            FieldKind::Int | FieldKind::Enum => Value::U64(uint()?),
            FieldKind::Bool => Value::Bool(uint()? != 0),
            FieldKind::Pointer => Value::Pointer(uint()?),
            FieldKind::Bits { shift, width } => self.bits(field, uint()?, shift, width),
            FieldKind::Str => Value::Str(until_zero(fixed()?)),
            FieldKind::Array(element) => {
                Value::Array(Array { bytes: fixed()?, element, endian: self.endian })
            }
            FieldKind::CpuMask => self.cpu_mask(fixed()?),
            FieldKind::Bytes => Value::Bytes(fixed()?),
            FieldKind::Dynamic { kind, .. } => {
                let bytes = self.located(field, payload)?;
                match kind {
                    DynamicKind::Str => Value::Str(until_zero(bytes)),
                    DynamicKind::CpuMask => self.cpu_mask(bytes),
                    DynamicKind::Array(element) => {
                        Value::Array(Array { bytes, element, endian: self.endian })
                    }
                    DynamicKind::Bytes => Value::Bytes(bytes),
                }
            }
        })
    }

    /// The bytes a `__data_loc` or `__rel_loc` field points to; of any other field, its own.
    pub fn located<'a>(self, field: &Field, payload: &'a [u8]) -> Option<&'a [u8]> {
        let FieldKind::Dynamic { is_relative, .. } = field.kind else {
            return fixed(field, payload);
        };
        let locator = self.endian.u32(payload, field.offset_bytes)?;
        let (length, offset) = ((locator >> 16) as usize, (locator & 0xffff) as usize);
        let start = if is_relative { offset + field.end_bytes() } else { offset };
        payload.get(start..start.checked_add(length)?)
    }

    fn cpu_mask(self, bytes: &[u8]) -> Value<'_> {
        Value::CpuMask(CpuMask { bytes, endian: self.endian, long_bytes: self.long_bytes })
    }

    /// Compilers fill bitfields from the low end on little-endian machines, from the high end on
    /// big-endian ones.
    fn bits(self, field: &Field, word: u64, shift: u8, width: u8) -> Value<'static> {
        let unit_bits = u32::try_from(field.size_bytes.min(8) * 8).unwrap_or(64);
        let (shift, width) = (u32::from(shift), u32::from(width));
        let shift = match self.endian {
            Endian::Little => shift,
            Endian::Big => unit_bits.saturating_sub(shift + width),
        };
        let top = 64 - width.min(64);
        let low = word.checked_shr(shift).unwrap_or(0).checked_shl(top).unwrap_or(0);
        if field.is_signed { Value::I64(low.cast_signed() >> top) } else { Value::U64(low >> top) }
    }
}

/// A field's own bytes. An array without a length (`char buf[]`, size 0) is all that follows.
fn fixed<'a>(field: &Field, payload: &'a [u8]) -> Option<&'a [u8]> {
    let is_open = field.size_bytes == 0 && field.type_name.ends_with("[]");
    let end = if is_open { payload.len() } else { field.end_bytes() };
    payload.get(field.offset_bytes..end)
}

fn until_zero(bytes: &[u8]) -> &[u8] {
    let end = bytes.iter().position(|b| *b == 0).unwrap_or(bytes.len());
    &bytes[..end]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::EventFormat;

    const LITTLE: Machine = Machine { endian: Endian::Little, long_bytes: 8 };

    fn event(fields: &str) -> EventFormat {
        let text = format!(
            "name: x\nID: 7\nformat:\n\
             \tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;\n{fields}\n"
        );
        EventFormat::parse("t", text.as_bytes(), 8).unwrap()
    }

    #[test]
    fn located_values() {
        let event = event(
            "\tfield:__data_loc char[] s;\toffset:4;\tsize:4;\tsigned:0;\n\
             \tfield:__rel_loc u16[] r;\toffset:8;\tsize:4;\tsigned:0;\n\
             \tfield:__data_loc cpumask_t m;\toffset:12;\tsize:4;\tsigned:0;",
        );
        let mut record = vec![7, 0, 0, 0];
        record.extend((3u32 << 16 | 16).to_le_bytes());
        record.extend((4u32 << 16 | 8).to_le_bytes());
        record.extend((8u32 << 16 | 24).to_le_bytes());
        record.extend(b"hi\0_");
        record.extend([1, 0, 2, 0]);
        record.extend(0x8000_0000_0000_0005u64.to_le_bytes());
        let value = |name| LITTLE.value(event.field(name).unwrap(), &record).unwrap();
        assert_eq!(value("s"), Value::Str(b"hi"));
        let Value::Array(array) = value("r") else { panic!() };
        assert_eq!(array.iter().collect::<Vec<_>>(), [Value::U64(1), Value::U64(2)]);
        assert_eq!(array.get(1), Some(2));
        let Value::CpuMask(mask) = value("m") else { panic!() };
        assert_eq!(mask.cpus().collect::<Vec<_>>(), [0, 2, 63]);
    }

    #[test]
    fn an_array_without_a_length_is_the_rest() {
        let event = event("\tfield:char buf[];\toffset:4;\tsize:0;\tsigned:0;");
        let field = event.field("buf").unwrap();
        assert_eq!(LITTLE.value(field, b"\x07\0\0\0a mark\0\0"), Some(Value::Str(b"a mark")));
        assert_eq!(LITTLE.value(field, b"\x07"), None);
    }

    #[test]
    fn a_locator_outside_the_record_is_no_value() {
        let event = event("\tfield:__data_loc char[] s;\toffset:4;\tsize:4;\tsigned:0;");
        let field = event.field("s").unwrap();
        let record = [7, 0, 0, 0, 0xff, 0xff, 0xff, 0xff];
        assert_eq!(LITTLE.value(field, &record), None);
        assert_eq!(LITTLE.value(field, &record[..6]), None);
    }

    #[test]
    fn bitfields_follow_the_byte_order() {
        let event = event(
            "\tfield:unsigned char lo:3;\toffset:4;\tsize:1;\tsigned:0;\n\
             \tfield:int hi:5;\toffset:4;\tsize:1;\tsigned:1;",
        );
        let record = [7, 0, 0, 0, 0b1111_0101];
        let value = |machine: Machine, name| machine.value(event.field(name).unwrap(), &record);
        assert_eq!(value(LITTLE, "lo"), Some(Value::U64(0b101)));
        assert_eq!(value(LITTLE, "hi"), Some(Value::I64(-2)));
        let big = Machine { endian: Endian::Big, long_bytes: 8 };
        assert_eq!(value(big, "lo"), Some(Value::U64(0b111)));
        assert_eq!(value(big, "hi"), Some(Value::I64(0b10101 - 32)));
    }
}
