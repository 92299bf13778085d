//! Records as text: `name=value` for every field.
//!
//! The same text `trace-cmd report -R` prints (libtraceevent 1.7, no plugins), down to its
//! habits: integers as the print format would show them if it shows them at all, text only
//! where it is printable, other arrays as bytes. So the two can be compared event by event.

use crate::{
    event::EventTable,
    field::{Field, FieldKind},
    hint::{Conversion, conversions},
    names::Names,
    value::Machine,
};
use std::{collections::HashMap, fmt::Write};

/// Prints records of one kernel.
#[derive(Clone, Debug)]
pub struct RawText<'t> {
    table: &'t EventTable,
    names: Names,
    events: HashMap<u16, Vec<Plan>>,
}

/// How one field is printed.
#[derive(Clone, Debug)]
struct Plan {
    field: Field,
    conversion: Option<Conversion>,
    is_array: bool,
    /// Text until proven otherwise: libtraceevent gives a field up for text when one record's
    /// bytes are not printable.
    is_text: bool,
    is_long: bool,
}

impl<'t> RawText<'t> {
    /// For the events of a table; `names` resolves addresses of strings and functions.
    pub fn new(table: &'t EventTable, names: Names) -> Self {
        RawText { table, names, events: HashMap::new() }
    }

    /// Appends ` name=value` for each of the record's own fields. Nothing for an unknown event.
    pub fn fields(&mut self, payload: &[u8], out: &mut String) {
        let Some(event) = self.table.event_of(payload) else { return };
        let plans = self.events.entry(event.id).or_insert_with(|| {
            let conversions = conversions(event);
            event.fields.iter().zip(conversions).map(|(f, c)| Plan::new(f, c)).collect()
        });
        for plan in plans {
            out.push(' ');
            out.push_str(&plan.field.name);
            out.push('=');
            plan.print(self.table.machine(), &self.names, payload, out);
        }
    }
}

impl Plan {
    fn new(field: &Field, conversion: Option<Conversion>) -> Self {
        let has = |word: &str| field.type_name.contains(word);
        let is_array = has("[") || matches!(field.kind, FieldKind::Str);
        let is_text = is_array && (has("char") || has("u8") || has("s8"));
        Plan { field: field.clone(), conversion, is_array, is_text, is_long: has("long") }
    }

    fn print(&mut self, machine: Machine, names: &Names, payload: &[u8], out: &mut String) {
        if self.is_array {
            self.print_array(machine.located(&self.field, payload).unwrap_or_default(), out);
            return;
        }
        let field = &self.field;
        let raw = machine.endian.uint(payload, field.offset_bytes, field.size_bytes);
        let raw = match field.kind {
            FieldKind::Bits { .. } => {
                machine.value(field, payload).and_then(|value| value.as_u64())
            }
            _ => raw,
        };
        let raw = raw.unwrap_or(0);
        match &self.conversion {
            Some(conversion) if self.is_convertible(conversion, machine) => {
                conversion.print(raw, names, out);
            }
            _ => self.print_number(raw, out),
        }
    }

    /// `%s` of a number makes sense only for an address.
    fn is_convertible(&self, conversion: &Conversion, machine: Machine) -> bool {
        conversion.letter != 's' || self.field.size_bytes == machine.long_bytes
    }

    fn print_array(&mut self, bytes: &[u8], out: &mut String) {
        let text = bytes.split(|b| *b == 0).next().unwrap_or_default();
        if self.is_text && text.iter().all(|b| is_printable(*b)) {
            out.push_str(&String::from_utf8_lossy(text));
            return;
        }
        self.is_text = false;
        out.push_str("ARRAY[");
        for (at, byte) in bytes.iter().enumerate() {
            let comma = if at > 0 { ", " } else { "" };
            let _ = write!(out, "{comma}{byte:02x}");
        }
        out.push(']');
    }

    /// A number no conversion is known for.
    fn print_number(&self, raw: u64, out: &mut String) {
        let signed = |bits: u32| (raw << (64 - bits)).cast_signed() >> (64 - bits);
        let field = &self.field;
        let written = if field.kind == FieldKind::Pointer {
            write!(out, "0x{raw:x}")
        } else if field.is_signed {
            match field.size_bytes {
                4 if self.is_long => write!(out, "0x{raw:x}"),
                4 => write!(out, "{}", signed(32)),
                2 => write!(out, "{:2}", signed(16)),
                1 => write!(out, "{}", signed(8)),
                _ => write!(out, "{}", raw.cast_signed()),
            }
        } else if self.is_long {
            write!(out, "0x{raw:x}")
        } else {
            write!(out, "{raw}")
        };
        // Writing to a String cannot fail.
        let _ = written;
    }
}

/// C's `isprint() || isspace()` in the C locale.
fn is_printable(byte: u8) -> bool {
    (0x20..0x7f).contains(&byte) || (0x09..=0x0d).contains(&byte)
}
