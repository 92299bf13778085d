//! A field of a record: where it is, what it means, and how to take it out.

use crate::{hypercall, runstate::Runstate, word::word_at};
use std::fmt;

/// Where in a record a field is. Words are counted from the first after header and stamp.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum At {
    /// A whole word.
    Word(u8),
    /// A whole word, two's complement.
    Signed(u8),
    /// Two words, the lower first.
    Pair(u8),
    /// Some bits of a word.
    Bits {
        /// Which word.
        word: u8,
        /// Its lowest bit.
        shift: u8,
        /// How many bits.
        bits: u8,
    },
    /// Some bits of a word, two's complement.
    SignedBits {
        /// Which word.
        word: u8,
        /// Its lowest bit.
        shift: u8,
        /// How many bits.
        bits: u8,
    },
    /// Some bits of the event number itself.
    Event {
        /// Its lowest bit.
        shift: u8,
        /// How many bits.
        bits: u8,
    },
    /// Argument of a hypercall, 0 to 5; word 0 says which of them were recorded.
    Argument(u8),
}

/// What a field's number means; decides how it is shown and named in SQL.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Meaning {
    /// A number as it is.
    Plain,
    /// An address, a mask or flags: shown in hexadecimal.
    Hex,
    /// Yes or no.
    Bool,
    /// A domain id; 32767 is the idle domain.
    Dom,
    /// A vCPU (or, with core scheduling, the first vCPU of a scheduling unit) of that domain.
    Vcpu,
    /// A pCPU.
    Cpu,
    /// Nanoseconds.
    Ns,
    /// Microseconds.
    Us,
    /// Ticks of the TSC.
    Tsc,
    /// A runstate: running, runnable, blocked, offline.
    Runstate,
    /// A hypercall's number.
    Hypercall,
    /// An exit reason of the hardware.
    ExitReason,
}

/// SQL type of a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum FieldType {
    /// BOOLEAN.
    Bool,
    /// 16 bits unsigned.
    U16,
    /// 32 bits unsigned.
    U32,
    /// 32 bits signed.
    I32,
    /// 64 bits unsigned.
    U64,
}

impl fmt::Display for FieldType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            FieldType::Bool => "bool",
            FieldType::U16 => "u16",
            FieldType::U32 => "u32",
            FieldType::I32 => "i32",
            FieldType::U64 => "u64",
        })
    }
}

/// A field of a record.
#[derive(Clone, Copy, Debug)]
pub struct Field {
    /// Its name, also as SQL column; with the unit where it has one.
    pub name: &'static str,
    /// Where it is.
    pub at: At,
    /// What it means.
    pub meaning: Meaning,
    /// What a reader should know beyond the name; may be empty.
    pub doc: &'static str,
}

/// A field's value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Value {
    /// An unsigned number.
    Unsigned(u64),
    /// A signed number.
    Signed(i64),
    /// Yes or no.
    Bool(bool),
}

impl Value {
    /// The number, if it is not negative; a `Bool` as 0 or 1.
    pub fn as_u64(self) -> Option<u64> {
        match self {
            Value::Unsigned(value) => Some(value),
            Value::Signed(value) => u64::try_from(value).ok(),
            Value::Bool(value) => Some(u64::from(value)),
        }
    }
}

/// Takes `bits` bits from bit `shift` of a word.
fn part(word: u32, shift: u8, bits: u8) -> u32 {
    let word = word >> u32::from(shift).min(31);
    if bits >= 32 { word } else { word & ((1 << bits) - 1) }
}

fn extend(value: u32, bits: u8) -> i64 {
    let unused = 64 - u32::from(bits.clamp(1, 32));
    (i64::from(value) << unused) >> unused
}

impl Field {
    /// The value in a record of this event number with these bytes after header and stamp. None
    /// where the record is too short for it, or a hypercall's argument was not recorded.
    pub fn value(&self, event: u32, extra: &[u8]) -> Option<Value> {
        let word = |word: u8| {
            let at = usize::from(word) * 4;
            (extra.len() >= at + 4).then(|| word_at(extra, at))
        };
        let unsigned = match self.at {
            At::Word(at) => u64::from(word(at)?),
            At::Signed(at) => return Some(Value::Signed(extend(word(at)?, 32))),
            At::Pair(at) => u64::from(word(at + 1)?) << 32 | u64::from(word(at)?),
            At::Bits { word: at, shift, bits } => u64::from(part(word(at)?, shift, bits)),
            At::SignedBits { word: at, shift, bits } => {
                return Some(Value::Signed(extend(part(word(at)?, shift, bits), bits)));
            }
            At::Event { shift, bits } => u64::from(part(event, shift, bits)),
            At::Argument(number) => hypercall::argument(extra, number)?,
        };
        Some(match self.meaning {
            Meaning::Bool => Value::Bool(unsigned != 0),
            _ => Value::Unsigned(unsigned),
        })
    }

    /// Its SQL type: as small as its bits allow.
    pub fn sql_type(&self) -> FieldType {
        match (self.meaning, self.at) {
            (Meaning::Bool, _) => FieldType::Bool,
            (_, At::Pair(_) | At::Argument(_)) => FieldType::U64,
            (_, At::Signed(_) | At::SignedBits { .. }) => FieldType::I32,
            (_, At::Bits { bits, .. } | At::Event { bits, .. }) if bits <= 16 => FieldType::U16,
            _ => FieldType::U32,
        }
    }

    /// Words a record must have for this field to be in it.
    pub fn words_needed(&self) -> usize {
        match self.at {
            At::Word(at) | At::Signed(at) => usize::from(at) + 1,
            At::Bits { word, .. } | At::SignedBits { word, .. } => usize::from(word) + 1,
            At::Pair(at) => usize::from(at) + 2,
            At::Event { .. } => 0,
            At::Argument(_) => 1,
        }
    }

    /// The value as people read it: hexadecimal where it is an address, names where there are.
    pub fn show(&self, value: Value) -> String {
        match (self.meaning, value) {
            (Meaning::Hex, Value::Unsigned(value)) => format!("{value:#x}"),
            (Meaning::Runstate, Value::Unsigned(value)) => match Runstate::new(value) {
                Some(state) => state.to_string(),
                None => value.to_string(),
            },
            (Meaning::Hypercall, Value::Unsigned(value)) => {
                match u32::try_from(value).ok().and_then(hypercall::name) {
                    Some(name) => name.to_owned(),
                    None => value.to_string(),
                }
            }
            (_, Value::Unsigned(value)) => value.to_string(),
            (_, Value::Signed(value)) => value.to_string(),
            (_, Value::Bool(value)) => value.to_string(),
        }
    }
}

/// A whole word.
pub(super) const fn word(name: &'static str, at: u8) -> Field {
    Field { name, at: At::Word(at), meaning: Meaning::Plain, doc: "" }
}

/// A whole signed word.
pub(super) const fn signed(name: &'static str, at: u8) -> Field {
    Field { name, at: At::Signed(at), meaning: Meaning::Plain, doc: "" }
}

/// Two words.
pub(super) const fn pair(name: &'static str, at: u8) -> Field {
    Field { name, at: At::Pair(at), meaning: Meaning::Plain, doc: "" }
}

/// Part of a word.
pub(super) const fn bits(name: &'static str, word: u8, shift: u8, bits: u8) -> Field {
    Field { name, at: At::Bits { word, shift, bits }, meaning: Meaning::Plain, doc: "" }
}

/// Part of the event number.
pub(super) const fn in_event(name: &'static str, shift: u8, bits: u8) -> Field {
    Field { name, at: At::Event { shift, bits }, meaning: Meaning::Plain, doc: "" }
}

impl Field {
    /// With a meaning.
    pub(super) const fn is(mut self, meaning: Meaning) -> Field {
        self.meaning = meaning;
        self
    }

    /// With a doc.
    pub(super) const fn doc(mut self, doc: &'static str) -> Field {
        self.doc = doc;
        self
    }
}

/// `struct { uint16_t unit, dom; }` in one word, as most records name a vCPU.
pub(super) const fn dom_in(word: u8) -> Field {
    bits("domid", word, 16, 16).is(Meaning::Dom)
}

/// See [`dom_in`].
pub(super) const fn vcpu_in(word: u8) -> Field {
    bits("vcpu", word, 0, 16).is(Meaning::Vcpu)
}

/// A domain id in a word of its own.
pub(super) const fn dom(at: u8) -> Field {
    word("domid", at).is(Meaning::Dom)
}

/// A vCPU in a word of its own.
pub(super) const fn vcpu(at: u8) -> Field {
    word("vcpu", at).is(Meaning::Vcpu)
}

/// A pCPU in a word of its own.
pub(super) const fn cpu(at: u8) -> Field {
    word("cpu", at).is(Meaning::Cpu)
}

/// A hypercall's argument.
pub(super) const fn argument(name: &'static str, number: u8) -> Field {
    Field { name, at: At::Argument(number), meaning: Meaning::Plain, doc: "" }
}
