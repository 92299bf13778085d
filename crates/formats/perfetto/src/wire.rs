//! The protobuf wire format: varints, 64-bit fields and length-delimited fields.
//!
//! Source: protobuf.dev, "Encoding". Messages are built in one buffer; the length of a nested
//! message is put in front of it once it is known.
//!
//! ```
//! use transect_perfetto::wire::Message;
//! let mut outer = Message::default();
//! outer.uint(1, 150);
//! outer.message(3, |inner| inner.string(2, "hi"));
//! assert_eq!(outer.as_bytes(), [0x08, 0x96, 0x01, 0x1a, 0x04, 0x12, 0x02, b'h', b'i']);
//! ```

const VARINT: u64 = 0;
const FIXED64: u64 = 1;
const LENGTH_DELIMITED: u64 = 2;

/// A message under construction.
#[derive(Clone, Debug, Default)]
pub struct Message {
    bytes: Vec<u8>,
}

impl Message {
    /// The encoded fields so far.
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Empties the message and keeps its memory.
    pub fn clear(&mut self) {
        self.bytes.clear();
    }

    /// A `uint32`, `uint64` or enum field.
    pub fn uint(&mut self, field: u32, value: u64) {
        self.tag(field, VARINT);
        self.varint(value);
    }

    /// An `int32` or `int64` field: negative numbers take ten bytes.
    pub fn int(&mut self, field: u32, value: i64) {
        self.uint(field, value.cast_unsigned());
    }

    /// A `bool` field.
    pub fn bool(&mut self, field: u32, value: bool) {
        self.uint(field, u64::from(value));
    }

    /// A `fixed64` field.
    pub fn fixed64(&mut self, field: u32, value: u64) {
        self.tag(field, FIXED64);
        self.bytes.extend_from_slice(&value.to_le_bytes());
    }

    /// A `string` field.
    pub fn string(&mut self, field: u32, value: &str) {
        self.tag(field, LENGTH_DELIMITED);
        self.varint(value.len() as u64);
        self.bytes.extend_from_slice(value.as_bytes());
    }

    /// A nested message.
    pub fn message(&mut self, field: u32, fill: impl FnOnce(&mut Message)) {
        self.tag(field, LENGTH_DELIMITED);
        let start = self.bytes.len();
        fill(self);
        let length = (self.bytes.len() - start) as u64;
        let before = self.bytes.len();
        self.varint(length);
        let prefix = self.bytes.len() - before;
        self.bytes[start..].rotate_right(prefix);
    }

    /// Fields encoded elsewhere.
    pub fn append(&mut self, fields: &Message) {
        self.bytes.extend_from_slice(&fields.bytes);
    }

    /// Tag and length of a nested message whose bytes the caller writes behind it.
    pub fn length_prefix(&mut self, field: u32, length_bytes: usize) {
        self.tag(field, LENGTH_DELIMITED);
        self.varint(length_bytes as u64);
    }

    fn tag(&mut self, field: u32, wire_type: u64) {
        self.varint(u64::from(field) << 3 | wire_type);
    }

    fn varint(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.bytes.push(value.to_le_bytes()[0] | 0x80);
            value >>= 7;
        }
        self.bytes.push(value.to_le_bytes()[0]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn read_varint(bytes: &[u8]) -> (u64, usize) {
        let mut value = 0;
        for (at, byte) in bytes.iter().enumerate() {
            value |= u64::from(byte & 0x7f) << (7 * at);
            if byte & 0x80 == 0 {
                return (value, at + 1);
            }
        }
        panic!("varint without an end");
    }

    #[test]
    fn negative_numbers_take_ten_bytes() {
        let mut message = Message::default();
        message.int(1, -1);
        assert_eq!(message.as_bytes()[1..], [255, 255, 255, 255, 255, 255, 255, 255, 255, 1]);
    }

    #[test]
    fn long_nested_messages_get_long_lengths() {
        let text = "x".repeat(300);
        let mut message = Message::default();
        message.message(1, |inner| inner.message(2, |inner| inner.string(3, &text)));
        let (length, used) = read_varint(&message.as_bytes()[1..]);
        assert_eq!(usize::try_from(length).unwrap(), message.as_bytes().len() - 1 - used);
    }

    proptest! {
        #[test]
        fn varints_read_back(value: u64, field in 1u32..1 << 29) {
            let mut message = Message::default();
            message.uint(field, value);
            let (tag, used) = read_varint(message.as_bytes());
            prop_assert_eq!(tag, u64::from(field) << 3);
            prop_assert_eq!(read_varint(&message.as_bytes()[used..]).0, value);
        }
    }
}
