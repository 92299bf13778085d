//! Records as JSON objects, so that a number is the same digits in every face.
//!
//! Integers are written in full width (an `rip` needs all 64 bits; read them with a parser that keeps
//! integers, as Python's and jq 1.7's do). What JSON has no word for (infinite ratios) becomes null.
//!
//! In strings, every character that a terminal obeys is an escape (`\u009b`), more than JSON demands: the same bytes
//! are safe to print.

use crate::cell::{Cell, Record};
use crate::escape::is_unsafe;
use std::io::{self, Write};

/// Writes one record as a JSON object on one line, without a line end.
///
/// # Errors
/// The output's.
pub fn write_json(out: &mut dyn Write, record: &dyn Record) -> io::Result<()> {
    let mut text = vec![b'{'];
    push_json_members(&mut text, record);
    text.push(b'}');
    out.write_all(&text)
}

/// Writes the members of a JSON object, for callers that add members of their own before or behind them.
///
/// # Errors
/// The output's.
pub fn write_json_members(out: &mut dyn Write, record: &dyn Record) -> io::Result<()> {
    let mut text = Vec::new();
    push_json_members(&mut text, record);
    out.write_all(&text)
}

/// As [`write_json_members`], to memory: what writes thousands of records a second uses this.
pub fn push_json_members(out: &mut Vec<u8>, record: &dyn Record) {
    let mut before: &[u8] = b"\"";
    record.each_cell(&mut |name, cell| {
        out.extend_from_slice(before);
        before = b",\"";
        out.extend_from_slice(name.as_bytes());
        out.extend_from_slice(b"\":");
        push_cell(out, &cell);
    });
}

fn push_cell(out: &mut Vec<u8>, cell: &Cell<'_>) {
    match cell {
        Cell::Null => out.extend_from_slice(b"null"),
        Cell::Bool(v) => out.extend_from_slice(if *v { b"true" } else { b"false" }),
        Cell::I64(v) => {
            if *v < 0 {
                out.push(b'-');
            }
            push_digits(out, v.unsigned_abs());
        }
        Cell::U64(v) => push_digits(out, *v),
        Cell::F64(v) if !v.is_finite() => out.extend_from_slice(b"null"),
        Cell::F64(v) => out.extend_from_slice(format!("{v:?}").as_bytes()),
        Cell::Str(text) => push_json_str(out, text),
    }
}

/// The digits of 0 to 99.
const PAIRS: [[u8; 2]; 100] = {
    let mut pairs = [[b'0'; 2]; 100];
    let mut number: u8 = 0;
    while number < 100 {
        pairs[number as usize] = [b'0' + number / 10, b'0' + number % 10];
        number += 1;
    }
    pairs
};

/// Appends a number. Most of what is written are numbers, and formatting by the standard library costs several
/// times this.
pub fn push_digits(out: &mut Vec<u8>, mut number: u64) {
    // Most are 0.
    if number < 10 {
        return out.push(b'0' + (number % 10) as u8);
    }
    let mut digits = [b'0'; 20];
    let mut begin = digits.len();
    for pair in digits.rchunks_exact_mut(2) {
        pair.copy_from_slice(&PAIRS[(number % 100) as usize]);
        begin -= 2;
        number /= 100;
        if number == 0 {
            break;
        }
    }
    if digits.get(begin) == Some(&b'0') {
        begin += 1;
    }
    out.extend_from_slice(digits.get(begin..).unwrap_or_default());
}

/// Writes a JSON string, quotes and escapes included (RFC 8259, section 7).
///
/// # Errors
/// The output's.
pub fn write_json_str(out: &mut dyn Write, text: &str) -> io::Result<()> {
    let mut quoted = Vec::with_capacity(text.len() + 2);
    push_json_str(&mut quoted, text);
    out.write_all(&quoted)
}

/// The text as a JSON string, quotes included.
pub fn json_str(text: &str) -> String {
    let mut quoted = Vec::with_capacity(text.len() + 2);
    push_json_str(&mut quoted, text);
    String::from_utf8(quoted).unwrap_or_default()
}

fn push_json_str(out: &mut Vec<u8>, text: &str) {
    out.push(b'"');
    // Text in other scripts may hold controls of more than one byte.
    if text.is_ascii() {
        push_ascii(out, text)
    } else {
        push_unicode(out, text)
    }
    out.push(b'"');
}

fn push_unicode(out: &mut Vec<u8>, text: &str) {
    let mut plain = text;
    while let Some(at) = plain.find(|c: char| !c.is_ascii() && is_unsafe(c)) {
        let (before, rest) = plain.split_at(at);
        push_ascii(out, before);
        let mut rest = rest.chars();
        for unit in rest.next().unwrap_or_default().encode_utf16(&mut [0; 2]) {
            out.extend_from_slice(format!("\\u{unit:04x}").as_bytes());
        }
        plain = rest.as_str();
    }
    push_ascii(out, plain);
}

/// Escapes what is unsafe among ASCII characters; others pass.
fn push_ascii(out: &mut Vec<u8>, text: &str) {
    let bytes = text.as_bytes();
    let mut plain = 0;
    for (at, byte) in bytes.iter().enumerate() {
        if !matches!(byte, b'"' | b'\\' | 0..0x20 | 0x7f) {
            continue;
        }
        out.extend_from_slice(&bytes[plain..at]);
        plain = at + 1;
        match byte {
            b'"' | b'\\' => out.extend_from_slice(&[b'\\', *byte]),
            b'\n' => out.extend_from_slice(b"\\n"),
            b'\r' => out.extend_from_slice(b"\\r"),
            b'\t' => out.extend_from_slice(b"\\t"),
            0x08 => out.extend_from_slice(b"\\b"),
            0x0c => out.extend_from_slice(b"\\f"),
            other => out.extend_from_slice(format!("\\u{other:04x}").as_bytes()),
        }
    }
    out.extend_from_slice(&bytes[plain..]);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        ids::{MachineId, Tid},
        setting::SchedPolicy,
        table::{ClockEdge, Thread},
    };

    fn text(write: impl Fn(&mut dyn Write) -> io::Result<()>) -> String {
        let mut out = Vec::new();
        write(&mut out).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn what_a_thread_name_can_hold_is_escaped() {
        let row = Thread {
            machine_id: MachineId(0),
            tid: Tid(-1),
            pid: None,
            name: "a\"\n\u{1b}[2J".to_owned(),
            cgroup: Some("/a,b".to_owned()),
            allowed_cpus: Some("0-3,8".to_owned()),
            policy: Some(SchedPolicy::Batch),
            nice: Some(-20),
            rt_priority: None,
        };
        assert_eq!(
            text(|out| write_json(out, &row)),
            r#"{"machine_id":0,"tid":-1,"pid":null,"name":"a\"\n\u001b[2J","cgroup":"/a,b","allowed_cpus":"0-3,8","policy":"batch","nice":-20,"rt_priority":null}"#
        );
        let all = text(|out| write_json_str(out, "\\ é \u{7f}\u{0}\t\r\u{8}\u{c}/"));
        assert_eq!(all, "\"\\\\ é \\u007f\\u0000\\t\\r\\b\\f/\"");
    }

    #[test]
    fn characters_that_a_terminal_obeys_are_escaped_in_json_too() {
        assert_eq!(
            json_str("é\u{9b}1m\u{202e}\u{e0041}\n中"),
            "\"é\\u009b1m\\u202e\\udb40\\udc41\\n中\""
        );
    }

    #[test]
    fn numbers_are_the_digits_the_standard_library_writes() {
        let powers = (0..20).map(|power| 10_u64.pow(power));
        let around = powers.flat_map(|n| [n - 1, n, n + 1, n.saturating_mul(9), n / 3, n / 7]);
        for number in around.chain([u64::MAX, u64::MAX - 1, i64::MAX as u64]) {
            let mut out = b"x".to_vec();
            push_digits(&mut out, number);
            assert_eq!(String::from_utf8(out).unwrap(), format!("x{number}"));
        }
    }

    #[test]
    fn floats_keep_every_digit_and_infinity_is_null() {
        let mut edge = ClockEdge {
            machine_id: MachineId(1),
            from_clock: "x86-tsc".to_owned(),
            to_clock: "x86-tsc".to_owned(),
            method: "tsc_offset".to_owned(),
            offset: i64::MIN,
            rate: 1.0,
            error_bound_ns: 0,
            samples: 0,
        };
        assert!(
            text(|out| write_json(out, &edge))
                .contains(r#""offset":-9223372036854775808,"rate":1.0,"#)
        );
        edge.rate = f64::INFINITY;
        assert!(text(|out| write_json(out, &edge)).contains(r#""rate":null"#));
    }
}
