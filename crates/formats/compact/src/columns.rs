//! Words of a block sorted into columns, so that zstd finds like beside like.
//!
//! Every field of every kind of record has columns of its own; the kinds themselves are one more.
//! Most of what a log holds is time, and the low bits of time are noise: durations are split into
//! a byte of rough size, which compresses, and the bits below it, which do not and are packed.
//! What comes from a small set (threads, addresses, sectors) becomes a slot of a small table.
//! `README.md` has the format.

#![allow(
    clippy::cast_possible_truncation,
    reason = "every narrowing takes the bits that the field or byte has"
)]

use crate::{
    kind::{KINDS, PAD, TABLE, WORDS},
    record::{CHUNK_WORDS, WORD_BYTES},
};
use std::sync::LazyLock;

/// Most fields a kind has, its delta included.
const MAX_FIELDS: usize = 8;
/// Columns of a field: its symbols, and what stands behind them.
const PLANES: usize = 2;
/// Number of columns there can be.
pub(crate) const COLUMNS: usize = KINDS * MAX_FIELDS * PLANES;
/// The column of kinds. (PAD has no fields, its columns are free.)
const KIND_COLUMN: usize = 0;

/// How the values of a field are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Coding {
    /// As one byte.
    Byte,
    /// Rough size as a byte, the bits below packed.
    Time,
    /// Slot of a table as a byte, or 255 and the difference to the last value that was in none.
    Slot {
        /// Which table: fields of like meaning share one.
        table: usize,
    },
}

/// One field of a kind.
#[derive(Clone, Copy, Debug)]
struct Field {
    word: usize,
    at: u32,
    bits: u32,
    coding: Coding,
    column: usize,
}

/// The fields of one kind.
#[derive(Clone, Debug, Default)]
struct Row {
    words: usize,
    fields: Vec<Field>,
    /// Bits of each word that are in no field: they must be 0.
    spare: [u64; 3],
}

/// Tables of values: by what the names of their fields mean.
const TABLES: &[&[&str]] = &[
    &["current", "next", "prev", "tid", "child", "parent", "old_tid", "child_tgid"],
    &["rip", "rip_low"],
    &["gpa", "address"],
    &["sector"],
    &["skb", "work"],
    &["function"],
    &["arg0"],
    &["arg1"],
    &["ret"],
    &["dev", "data", "bytes"],
    &["info1", "error_code"],
    // All others: small numbers that seldom change.
    &[],
];
/// Slots of a table; one less than a byte has values.
const SLOTS: usize = 255;
/// The symbol of a value that is in no slot.
const MISS: u8 = 255;

/// The rows by kind: made from the texts of the table of kinds.
static ROWS: LazyLock<Vec<Row>> = LazyLock::new(|| TABLE.iter().map(row).collect());

fn row(info: &crate::kind::KindInfo) -> Row {
    let mut row = Row { words: usize::from(info.words), ..Row::default() };
    row.spare = [!63, !0, !0];
    if info.kind == PAD {
        return row;
    }
    row.add(info.kind, 0, 6, 24, "delta");
    let (mut word, mut at) = (0, 30);
    for token in info.fields.split_whitespace() {
        match token {
            "w1" => (word, at) = (1, 0),
            "w2" => (word, at) = (2, 0),
            _ => {
                let Some((name, bits)) = token.split_once(':') else { continue };
                let Ok(bits) = bits.parse() else { continue };
                // A name of 16 bytes is two words.
                if bits == 128 {
                    row.add(info.kind, 1, 0, 64, name);
                    row.add(info.kind, 2, 0, 64, name);
                } else {
                    row.add(info.kind, word, at, bits, name);
                    at += bits;
                }
            }
        }
    }
    row
}

impl Row {
    fn add(&mut self, kind: u8, word: usize, at: u32, bits: u32, name: &str) {
        // Spare bits have a place in the text but no value.
        if name == "0" {
            return;
        }
        let known = TABLES.iter().position(|names| names.contains(&name));
        let coding = match name {
            "delta" | "dur" => Coding::Time,
            "ns" if bits < 64 => Coding::Time,
            _ if bits <= 8 => Coding::Byte,
            _ => Coding::Slot { table: known.unwrap_or(TABLES.len() - 1) },
        };
        let column = (usize::from(kind) * MAX_FIELDS + self.fields.len()) * PLANES;
        self.fields.push(Field { word, at, bits, coding, column });
        self.spare[word] &= !(mask(bits) << at);
    }
}

fn mask(bits: u32) -> u64 {
    if bits == 64 { u64::MAX } else { (1 << bits) - 1 }
}

/// The slot a value goes to.
fn slot(value: u64) -> usize {
    (value.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40) as usize % SLOTS
}

/// A symbol for the rough size of a duration, and how many bits it leaves out: exact below 16,
/// then eight steps to every doubling.
fn rough(value: u64) -> (u8, u32) {
    if value < 16 {
        return (value as u8, 0);
    }
    let exponent = value.ilog2();
    let step = value >> (exponent - 3) & 7;
    (((exponent - 2) * 8) as u8 + step as u8, exponent - 3)
}

/// The smallest value with this symbol, and how many bits it leaves out. Symbols of values that
/// no field can hold give `None`.
fn smooth(symbol: u8) -> Option<(u64, u32)> {
    if symbol < 16 {
        return Some((u64::from(symbol), 0));
    }
    let left_out = u32::from(symbol / 8) - 1;
    (left_out < 32).then(|| ((8 | u64::from(symbol % 8)) << left_out, left_out))
}

/// One table: what is in its slots, and the last value that was in none.
#[derive(Clone, Debug)]
struct Table {
    slots: [u64; SLOTS],
    last: u64,
}

fn tables() -> Vec<Table> {
    vec![Table { slots: [0; SLOTS], last: 0 }; TABLES.len()]
}

/// Sorts words into columns. Buffers are kept from block to block.
#[derive(Debug)]
pub(crate) struct Splitter {
    columns: Vec<Vec<u8>>,
    /// Bits that do not fill a byte yet, for the second column of each time field.
    bits: Vec<(u64, u32)>,
    tables: Vec<Table>,
}

impl Splitter {
    pub(crate) fn new() -> Self {
        Splitter {
            columns: vec![Vec::new(); COLUMNS],
            bits: vec![(0, 0); COLUMNS],
            tables: tables(),
        }
    }

    /// The columns of these words by number, empty ones left out; `None` if there is a word that
    /// no kind explains.
    pub(crate) fn split(&mut self, words: &[u8]) -> Option<impl Iterator<Item = (u16, &[u8])>> {
        self.columns.iter_mut().for_each(Vec::clear);
        self.bits.fill((0, 0));
        self.tables = tables();
        let (words, []) = words.as_chunks::<WORD_BYTES>() else { return None };
        let mut rest = words;
        while let Some(first) = rest.first() {
            let kind = u64::from_le_bytes(*first) as u8 & 63;
            let row = ROWS.get(usize::from(kind))?;
            let (record, after) = rest.split_at_checked(row.words)?;
            self.columns[KIND_COLUMN].push(kind);
            self.record(row, record)?;
            rest = after;
        }
        self.flush_bits();
        let columns = self.columns.iter().enumerate().filter(|(_, column)| !column.is_empty());
        Some(columns.map(|(number, column)| (number as u16, column.as_slice())))
    }

    fn record(&mut self, row: &Row, record: &[[u8; WORD_BYTES]]) -> Option<()> {
        for (word, spare) in record.iter().zip(row.spare) {
            if u64::from_le_bytes(*word) & spare != 0 {
                return None;
            }
        }
        for field in &row.fields {
            let word = u64::from_le_bytes(record[field.word]);
            let value = word >> field.at & mask(field.bits);
            let symbol = match field.coding {
                Coding::Byte => value as u8,
                Coding::Time => self.time(field, value),
                Coding::Slot { table } => self.slot(field, table, value),
            };
            self.columns[field.column].push(symbol);
        }
        Some(())
    }

    fn time(&mut self, field: &Field, value: u64) -> u8 {
        let (symbol, left_out) = rough(value);
        let (held, count) = &mut self.bits[field.column];
        *held |= (value & mask(left_out)) << *count;
        *count += left_out;
        while *count >= 8 {
            self.columns[field.column + 1].push(*held as u8);
            *held >>= 8;
            *count -= 8;
        }
        symbol
    }

    fn flush_bits(&mut self) {
        for (column, (held, count)) in self.bits.iter().enumerate() {
            if *count > 0 {
                self.columns[column + 1].push(*held as u8);
            }
        }
    }

    fn slot(&mut self, field: &Field, table: usize, value: u64) -> u8 {
        let table = &mut self.tables[table];
        let slot = slot(value);
        if table.slots[slot] == value {
            return slot as u8;
        }
        table.slots[slot] = value;
        let difference = value.wrapping_sub(table.last) & mask(field.bits);
        table.last = value;
        let bytes = difference.to_le_bytes();
        self.columns[field.column + 1].extend_from_slice(&bytes[..literal_bytes(field)]);
        MISS
    }
}

fn literal_bytes(field: &Field) -> usize {
    field.bits.div_ceil(8) as usize
}

/// What is still to be read of the two columns of one field.
#[derive(Clone, Copy, Debug, Default)]
struct Cursor<'a> {
    symbols: &'a [u8],
    /// What symbols leave out: bits or bytes.
    rest: &'a [u8],
    /// Where in `rest`, in bits or bytes.
    at: usize,
}

/// Columns while they are joined again.
struct Joiner<'a> {
    cursors: Vec<Cursor<'a>>,
    tables: Vec<Table>,
}

/// Makes words of columns again, `raw_bytes` in all; `None` if they are not what `split` gives.
pub(crate) fn join<'a>(
    columns: impl Iterator<Item = (u16, &'a [u8])>,
    raw_bytes: usize,
    words: &mut Vec<u8>,
) -> Option<()> {
    let rows: &[Row] = &ROWS;
    let mut joiner =
        Joiner { cursors: vec![Cursor::default(); COLUMNS / PLANES], tables: tables() };
    for (number, column) in columns {
        let number = usize::from(number);
        let cursor = joiner.cursors.get_mut(number / PLANES)?;
        *(if number % PLANES == 0 { &mut cursor.symbols } else { &mut cursor.rest }) = column;
    }
    words.resize(raw_bytes, 0);
    let (mut left, []) = words.as_chunks_mut::<WORD_BYTES>() else { return None };
    for kind in joiner.cursors[KIND_COLUMN].symbols {
        let row = rows.get(usize::from(*kind))?;
        let record = joiner.record(row, *kind)?;
        let (place, after) = left.split_at_mut_checked(row.words)?;
        for (place, word) in place.iter_mut().zip(record) {
            *place = word.to_le_bytes();
        }
        left = after;
    }
    left.is_empty().then_some(())
}

impl Joiner<'_> {
    #[inline]
    fn record(&mut self, row: &Row, kind: u8) -> Option<[u64; 3]> {
        let mut record = [u64::from(kind), 0, 0];
        for field in &row.fields {
            let cursor = self.cursors.get_mut(field.column / PLANES)?;
            let (symbol, after) = cursor.symbols.split_first()?;
            cursor.symbols = after;
            let value = match field.coding {
                Coding::Byte => u64::from(*symbol),
                Coding::Time => cursor.time(*symbol)?,
                Coding::Slot { table } => {
                    let table = self.tables.get_mut(table)?;
                    match table.slots.get(usize::from(*symbol)) {
                        Some(value) => *value,
                        None => cursor.literal(field, table)?,
                    }
                }
            };
            *record.get_mut(field.word)? |= (value & mask(field.bits)) << field.at;
        }
        Some(record)
    }
}

impl Cursor<'_> {
    #[inline]
    fn time(&mut self, symbol: u8) -> Option<u64> {
        let (base, left_out) = smooth(symbol)?;
        let from = self.rest.get(self.at / 8..)?;
        let held = match from.first_chunk() {
            Some(bytes) => u64::from_le_bytes(*bytes),
            // The last bytes of a column.
            None => from.iter().rev().fold(0, |held, byte| held << 8 | u64::from(*byte)),
        };
        let value = base | held >> (self.at % 8) & mask(left_out);
        self.at += left_out as usize;
        (self.at <= self.rest.len() * 8).then_some(value)
    }

    /// A value that was in no slot.
    #[cold]
    fn literal(&mut self, field: &Field, table: &mut Table) -> Option<u64> {
        let length = literal_bytes(field);
        let literal = self.rest.get(self.at..self.at + length)?;
        self.at += length;
        let difference = literal.iter().rev().fold(0, |value, byte| value << 8 | u64::from(*byte));
        let value = table.last.wrapping_add(difference) & mask(field.bits);
        table.last = value;
        table.slots[slot(value)] = value;
        Some(value)
    }
}

/// Most bytes the columns of so many bytes of words can have.
pub(crate) fn longest_image(raw_bytes: usize) -> usize {
    // A field has at most 9 bytes, a kind at most MAX_FIELDS.
    raw_bytes / WORD_BYTES * (1 + 9 * MAX_FIELDS) + COLUMNS * 8
}

const _: () = assert!(CHUNK_WORDS * WORD_BYTES <= u32::MAX as usize && WORDS.len() == KINDS);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rough_and_smooth_are_inverse() {
        let values = (0..100_000).chain((0..34).flat_map(|shift| {
            let power = 1_u64 << shift;
            [power - 1, power, power + 1, power | power >> 1]
        }));
        for value in values {
            let (symbol, left_out) = rough(value);
            let (base, again) = smooth(symbol).unwrap();
            assert_eq!(left_out, again, "{value}");
            assert_eq!(base | value & mask(left_out), value);
            assert!(base <= value);
        }
    }

    #[test]
    fn every_kind_has_its_fields() {
        for (kind, row) in ROWS.iter().enumerate() {
            assert!(row.fields.len() <= MAX_FIELDS, "kind {kind}");
            assert_eq!(row.words, usize::from(WORDS[kind]));
        }
        assert_eq!(ROWS[usize::from(crate::kind::SWITCH_FROM)].fields.len(), 6);
    }
}
