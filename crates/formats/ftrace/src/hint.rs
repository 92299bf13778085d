//! How the kernel would print each integer field: conversions found in the print format.
//!
//! `print fmt: "vcpu %u, rip 0x%lx", REC->vcpu_id, REC->rip` says that `rip` is best read in
//! hexadecimal. Only arguments that are a plain field (perhaps cast) count; what the kernel
//! computes from fields is not evaluated. Which field gets which conversion follows
//! libtraceevent's `print_field()` (1.7), so that raw text can be compared with its.

use crate::{
    field::{Field, FieldKind},
    format::EventFormat,
    names::Names,
};

/// One `%…` of a print format.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Conversion {
    /// `0x` stands right before it.
    pub has_0x: bool,
    /// `#`.
    pub is_alternate: bool,
    /// `0`.
    pub is_zero_padded: bool,
    /// `-`.
    pub is_left_aligned: bool,
    /// Minimum width.
    pub width: usize,
    /// Minimum digits.
    pub precision: Option<usize>,
    /// Bits of the argument: 8, 16, 32 or 64.
    pub bits: u32,
    /// `d`, `u`, `x`, `X`, `o` (`i` is `d`), `p` or `s` (a pointer to a constant string).
    pub letter: char,
    /// What follows `p`: `S` and `s` ask for the symbol, with and without the distance to it.
    pub pointer: Option<char>,
    /// Type the argument is cast to.
    pub cast: Option<Box<str>>,
}

/// A piece of a print format.
enum Part {
    Text { ends_in_0x: bool },
    Conversion { conversion: Option<Conversion>, field: Option<Box<str>> },
}

/// The conversion of each of the event's own fields, `None` where the print format has none.
pub fn conversions(event: &EventFormat) -> Vec<Option<Conversion>> {
    let parts = parse(&event.print_fmt).unwrap_or_default();
    let mut cursor = 0;
    event.fields.iter().map(|field| assign(field, &parts, &mut cursor)).collect()
}

/// Searches from the cursor on, once around. Behind the last part nothing is found any more:
/// libtraceevent's cursor is null then.
fn assign(field: &Field, parts: &[Part], cursor: &mut usize) -> Option<Conversion> {
    if *cursor >= parts.len() || !is_scalar(field) {
        return None;
    }
    let start = *cursor;
    let mut at = start;
    let mut has_0x = false;
    loop {
        match &parts[at] {
            Part::Text { ends_in_0x } => has_0x = *ends_in_0x,
            Part::Conversion { conversion: Some(conversion), field: Some(name) }
                if *name == field.name =>
            {
                *cursor = at + 1;
                return Some(Conversion { has_0x, ..conversion.clone() });
            }
            Part::Conversion { .. } => has_0x = false,
        }
        at = if at + 1 < parts.len() { at + 1 } else { 0 };
        if at == start {
            return None;
        }
    }
}

fn is_scalar(field: &Field) -> bool {
    matches!(
        field.kind,
        FieldKind::Int
            | FieldKind::Bool
            | FieldKind::Enum
            | FieldKind::Pointer
            | FieldKind::Bits { .. }
            | FieldKind::Bytes
            | FieldKind::CpuMask
    ) && !field.type_name.contains('[')
}

/// `None` if the format is more than is understood: then no field has a conversion.
fn parse(print_fmt: &str) -> Option<Vec<Part>> {
    let (format, rest) = leading_strings(print_fmt)?;
    if format.contains('\t') {
        // A tab that is no `\t`: libtraceevent 1.7 gives such a format up (the maple tree's).
        return None;
    }
    let arguments = split_arguments(rest)?;
    if arguments.iter().any(|argument| has_unknown_function(argument)) {
        return None;
    }
    let mut arguments = arguments.into_iter();
    let mut parts = Vec::new();
    let mut rest = format.as_str();
    while !rest.is_empty() {
        let text_end = text_length(rest);
        if text_end > 0 {
            let text = &rest[..text_end];
            parts.push(Part::Text { ends_in_0x: text.ends_with("0x") && text.len() > 1 });
            rest = &rest[text_end..];
            continue;
        }
        let (conversion, used) = conversion(rest, &mut arguments)?;
        let argument = arguments.next()?;
        let (field, cast) = plain_field(argument);
        parts.push(Part::Conversion {
            conversion: conversion.map(|c| Conversion { cast, ..c }),
            field: field.map(Into::into),
        });
        rest = &rest[used..];
    }
    Some(parts)
}

/// Bytes up to the next conversion (`%%` is text).
fn text_length(format: &str) -> usize {
    let bytes = format.as_bytes();
    let mut at = 0;
    while at < bytes.len() {
        if bytes[at] == b'%' {
            if bytes.get(at + 1) != Some(&b'%') {
                break;
            }
            at += 1;
        }
        at += 1;
    }
    at.min(bytes.len())
}

/// Reads `%-08llx`; gives its length.
fn conversion<'a>(
    format: &str,
    arguments: &mut impl Iterator<Item = &'a str>,
) -> Option<(Option<Conversion>, usize)> {
    let mut found = Conversion {
        has_0x: false,
        is_alternate: false,
        is_zero_padded: false,
        is_left_aligned: false,
        width: 0,
        precision: None,
        bits: 32,
        letter: 'd',
        pointer: None,
        cast: None,
    };
    let mut longs = 0i32;
    for (at, byte) in format.bytes().enumerate().skip(1) {
        match byte {
            b'#' => found.is_alternate = true,
            b'-' => found.is_left_aligned = true,
            b'.' => found.precision = Some(0),
            b'0' if found.width == 0 && found.precision.is_none() => found.is_zero_padded = true,
            b'0'..=b'9' => {
                let target = found.precision.as_mut().unwrap_or(&mut found.width);
                *target = target.checked_mul(10)?.checked_add(usize::from(byte - b'0'))?;
                if *target > 256 {
                    return None;
                }
            }
            b'*' => {
                arguments.next()?;
            }
            b'l' => longs += 1,
            b'h' => longs -= 1,
            b'L' => longs = 2,
            b'z' | b'Z' => longs = 1,
            b'd' | b'i' | b'u' | b'x' | b'X' | b'o' => {
                found.letter = if byte == b'i' { 'd' } else { char::from(byte) };
                found.bits = match longs {
                    -2 => 8,
                    -1 => 16,
                    0 => 32,
                    _ => 64,
                };
                return Some((Some(found), at + 1));
            }
            b'p' => {
                (found.letter, found.bits) = ('p', 64);
                found.pointer = format[at + 1..].chars().next().filter(char::is_ascii_alphabetic);
                let suffix = format[at + 1..].bytes().take_while(u8::is_ascii_alphabetic).count();
                return Some((Some(found), at + 1 + suffix));
            }
            b's' => {
                (found.letter, found.bits) = ('s', 64);
                return Some((Some(found), at + 1));
            }
            _ => return None,
        }
    }
    None
}

/// The string literals at the start, joined, escapes resolved as far as lengths matter.
fn leading_strings(text: &str) -> Option<(String, &str)> {
    let mut joined = String::new();
    let mut rest = text.trim_start().strip_prefix('"')?;
    loop {
        let end = closing_quote(rest)?;
        joined.push_str(&rest[..end].replace("\\n", "\n").replace("\\\"", "\""));
        let after = rest[end + 1..].trim_start();
        match after.strip_prefix('"') {
            Some(next) => rest = next,
            None => return Some((joined, after)),
        }
    }
}

fn closing_quote(text: &str) -> Option<usize> {
    let mut is_escaped = false;
    text.bytes().position(|byte| {
        let is_end = byte == b'"' && !is_escaped;
        is_escaped = byte == b'\\' && !is_escaped;
        is_end
    })
}

/// `, a, f(b, c)` → `a`, `f(b, c)`.
fn split_arguments(text: &str) -> Option<Vec<&str>> {
    let text = text.trim();
    let Some(list) = text.strip_prefix(',') else {
        return text.is_empty().then(Vec::new);
    };
    let (mut arguments, mut depth, mut start) = (Vec::new(), 0usize, 0);
    let (mut in_string, mut is_escaped) = (false, false);
    for (at, byte) in list.bytes().enumerate() {
        match byte {
            b'"' if !is_escaped => in_string = !in_string,
            _ if in_string => {}
            b'(' | b'{' | b'[' => depth += 1,
            b')' | b'}' | b']' => depth = depth.checked_sub(1)?,
            b',' if depth == 0 => {
                arguments.push(list[start..at].trim());
                start = at + 1;
            }
            _ => {}
        }
        is_escaped = byte == b'\\' && !is_escaped;
    }
    arguments.push(list[start..].trim());
    (depth == 0 && !in_string).then_some(arguments)
}

/// `(u8)(REC->data)` → `data`, `u8`. Parentheses around everything are looked through, and of
/// several casts the outermost counts, as the inner ones only widen in practice.
fn plain_field(argument: &str) -> (Option<&str>, Option<Box<str>>) {
    let mut rest = argument.trim();
    let mut cast = None;
    while let Some(inner) = rest.strip_prefix('(') {
        let Some(end) = closing_parenthesis(inner) else { return (None, None) };
        let (enclosed, after) = (inner[..end].trim(), inner[end + 1..].trim());
        if after.is_empty() {
            rest = enclosed;
        } else if enclosed.contains("->") || enclosed.contains('(') {
            return (None, None);
        } else {
            cast.get_or_insert_with(|| enclosed.into());
            rest = after;
        }
    }
    let name = rest.strip_prefix("REC->").map(str::trim);
    let is_name = |name: &&str| name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_');
    (name.filter(is_name).filter(|name| !name.is_empty()), cast)
}

/// Where the parenthesis opened before `text` closes.
fn closing_parenthesis(text: &str) -> Option<usize> {
    let mut depth = 1usize;
    text.bytes().position(|byte| {
        match byte {
            b'(' => depth += 1,
            b')' => depth -= 1,
            _ => {}
        }
        depth == 0
    })
}

/// Functions libtraceevent 1.7 knows without plugins; with another it gives the format up.
const FUNCTIONS: &[&str] = &[
    "__print_flags",
    "__print_symbolic",
    "__print_hex",
    "__print_hex_str",
    "__print_array",
    "__get_str",
    "__get_rel_str",
    "__get_bitmask",
    "__get_rel_bitmask",
    "__get_cpumask",
    "__get_rel_cpumask",
    "__get_dynamic_array",
    "__get_rel_dynamic_array",
    "__get_sockaddr",
    "__get_sockaddr_rel",
    "__get_dynamic_array_len",
    "__get_rel_dynamic_array_len",
    "__builtin_expect",
    "sizeof",
];

fn has_unknown_function(argument: &str) -> bool {
    let bytes = argument.as_bytes();
    let (mut in_string, mut is_escaped) = (false, false);
    for (at, byte) in bytes.iter().enumerate() {
        if *byte == b'"' && !is_escaped {
            in_string = !in_string;
        }
        is_escaped = *byte == b'\\' && !is_escaped;
        if *byte != b'(' || in_string {
            continue;
        }
        let name_start = bytes[..at]
            .iter()
            .rposition(|b| !(b.is_ascii_alphanumeric() || *b == b'_'))
            .map_or(0, |before| before + 1);
        let name = &argument[name_start..at];
        let is_member = argument[..name_start].ends_with("->");
        if !name.is_empty() && !is_member && !FUNCTIONS.contains(&name) {
            return true;
        }
    }
    false
}

impl Conversion {
    /// The value as the conversion prints it. `raw` is the field's bytes as an unsigned number.
    pub fn print(&self, raw: u64, names: &Names, out: &mut String) {
        match self.letter {
            's' => match names.text(raw) {
                Some(text) => out.push_str(text),
                None => out.push_str(&format!("{raw:x}")),
            },
            'p' => self.print_pointer(raw, names, out),
            _ => self.print_number(raw, out),
        }
    }

    fn print_pointer(&self, raw: u64, names: &Names, out: &mut String) {
        let is_symbol = matches!(self.pointer, Some('F' | 'f' | 'S' | 's'));
        match names.function(raw).filter(|_| is_symbol) {
            Some((name, distance)) if matches!(self.pointer, Some('F' | 'S')) => {
                out.push_str(&format!("{name}+0x{distance:x}"));
            }
            Some((name, _)) => out.push_str(name),
            // As glibc prints a null pointer.
            None if raw == 0 && !is_symbol => out.push_str("(nil)"),
            None => out.push_str(&format!("0x{raw:x}")),
        }
    }

    fn print_number(&self, raw: u64, out: &mut String) {
        let raw = self.cast.as_deref().map_or(raw, |cast| cast_value(raw, cast));
        let mask = if self.bits == 64 { u64::MAX } else { (1 << self.bits) - 1 };
        let value = raw & mask;
        let (sign, digits) = match self.letter {
            'd' => {
                let signed = (value << (64 - self.bits)).cast_signed() >> (64 - self.bits);
                (if signed < 0 { "-" } else { "" }, signed.unsigned_abs().to_string())
            }
            'u' => ("", value.to_string()),
            'o' => (if self.is_alternate { "0" } else { "" }, format!("{value:o}")),
            'X' => (if self.is_alternate { "0X" } else { "" }, format!("{value:X}")),
            _ => (if self.is_alternate && value != 0 { "0x" } else { "" }, format!("{value:x}")),
        };
        if self.has_0x {
            out.push_str("0x");
        }
        self.pad(sign, &digits, out);
    }

    fn pad(&self, sign: &str, digits: &str, out: &mut String) {
        let zeroes = self.precision.unwrap_or(0).saturating_sub(digits.len());
        let length = sign.len() + zeroes + digits.len();
        let fill = self.width.saturating_sub(length);
        let is_zero_filled =
            self.is_zero_padded && !self.is_left_aligned && self.precision.is_none();
        if !is_zero_filled && !self.is_left_aligned {
            out.extend(std::iter::repeat_n(' ', fill));
        }
        out.push_str(sign);
        let zeroes = if is_zero_filled { zeroes + fill } else { zeroes };
        out.extend(std::iter::repeat_n('0', zeroes));
        out.push_str(digits);
        if self.is_left_aligned {
            out.extend(std::iter::repeat_n(' ', fill));
        }
    }
}

/// libtraceevent's `eval_type_str()`: narrows, never sign-extends.
fn cast_value(value: u64, cast: &str) -> u64 {
    let cast = cast.strip_prefix("unsigned ").unwrap_or(cast);
    match cast {
        "u8" | "s8" | "char" => value & 0xff,
        "u16" | "s16" | "short" => value & 0xffff,
        "u32" | "s32" | "int" => value & 0xffff_ffff,
        _ => value,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hints(fields: &[&str], print_fmt: &str) -> Vec<Option<Conversion>> {
        let mut text = "name: x\nID: 7\nformat:\n\tfield:unsigned short common_type;\
                        \toffset:0;\tsize:2;\tsigned:0;\n"
            .to_owned();
        for field in fields {
            text.push_str(&format!("\tfield:u64 {field};\toffset:8;\tsize:8;\tsigned:0;\n"));
        }
        text.push_str("\nprint fmt: ");
        text.push_str(print_fmt);
        conversions(&EventFormat::parse("t", text.as_bytes(), 8).unwrap())
    }

    fn printed(hint: &Option<Conversion>, value: u64) -> String {
        let mut out = String::new();
        hint.as_ref().unwrap().print(value, &Names::new(), &mut out);
        out
    }

    #[test]
    fn prints_as_c_does() {
        let hints = hints(
            &["a", "b", "c", "d", "e"],
            r#""a %d b 0x%016llx" " c %#x, d %03d (100%%) e=%-4u|", REC->a, REC->b, ((u8)(REC->c)),
               (REC->d), REC->e"#,
        );
        assert_eq!(printed(&hints[0], 0xffff_ffff), "-1");
        assert_eq!(printed(&hints[1], 0xab), "0x00000000000000ab");
        assert_eq!(printed(&hints[2], 0x1ff), "0xff");
        assert_eq!(printed(&hints[3], 7), "007");
        assert_eq!(printed(&hints[4], 7), "7   ");
    }

    #[test]
    fn computed_arguments_hint_nothing() {
        let hints = hints(
            &["a", "b"],
            r#""%s %d", __print_symbolic(REC->a, { 1, "x,\"y" }), REC->b ? 1 : 0"#,
        );
        assert_eq!(hints, [None, None]);
    }

    #[test]
    fn unknown_functions_make_the_format_unreadable() {
        assert_eq!(hints(&["a"], r#""%lx", wizardry(REC->a), REC->a"#), [None]);
        assert_eq!(hints(&["a"], r#""%lx"#), [None]);
        assert_eq!(hints(&["a"], r#""%lx""#), [None]);
        assert_eq!(hints(&["a"], r#""%lx", ((("#), [None]);
        assert_eq!(hints(&["a"], ""), [None]);
    }

    #[test]
    fn behind_the_last_part_nothing_is_found() {
        let hints = hints(&["b", "a"], r#""%x %x", REC->a, REC->b"#);
        assert!(hints[0].is_some());
        assert!(hints[1].is_none());
    }
}
