//! Records as text for programs: JSON objects, JSON lines and CSV.
//!
//! Written once against [`Record`], for table rows and report lines alike, so that a number is the
//! same digits in every face. Integers are written in full width (an `rip` needs all 64 bits; read
//! them with a parser that keeps integers, as Python's and jq 1.7's do). What JSON has no word for
//! (infinite ratios) becomes null.

use std::io::{self, Write};
use transect_model::cell::{Cell, Record};

/// A record that only faces know: a struct that lists its columns, as table rows do.
macro_rules! line {
    (
        $(#[doc = $doc:literal])*
        $line:ident { $( $(#[doc = $cdoc:literal])+ $col:ident: $ty:ty, )* }
    ) => {
        $(#[doc = $doc])*
        #[derive(Clone, Debug, PartialEq)]
        pub(crate) struct $line { $( $(#[doc = $cdoc])+ pub $col: $ty, )* }

        impl $line {
            /// Names of the columns, in order.
            pub(crate) const COLUMNS: &'static [&'static str] = &[ $( stringify!($col) ),* ];
        }

        impl transect_model::cell::Record for $line {
            fn each_cell<'a>(
                &'a self,
                visit: &mut dyn FnMut(&'static str, transect_model::cell::Cell<'a>),
            ) {
                use transect_model::cell::ToCell;
                $( visit(stringify!($col), self.$col.to_cell()); )*
            }
        }
    };
}
pub(crate) use line;

/// Writes one record as a JSON object on one line, without a line end.
pub(crate) fn write_json(out: &mut dyn Write, record: &dyn Record) -> io::Result<()> {
    out.write_all(b"{")?;
    write_json_members(out, record)?;
    out.write_all(b"}")
}

/// Writes the members of a JSON object, for callers that add members of their own before.
pub(crate) fn write_json_members(out: &mut dyn Write, record: &dyn Record) -> io::Result<()> {
    let mut result = Ok(());
    let mut first = true;
    record.each_cell(&mut |name, cell| {
        if result.is_ok() {
            result = write_member(out, first, name, &cell);
            first = false;
        }
    });
    result
}

fn write_member(out: &mut dyn Write, first: bool, name: &str, cell: &Cell<'_>) -> io::Result<()> {
    let comma = if first { "" } else { "," };
    write!(out, "{comma}\"{name}\":")?;
    match cell {
        Cell::Null => out.write_all(b"null"),
        Cell::F64(v) if !v.is_finite() => out.write_all(b"null"),
        Cell::Str(text) => write_json_str(out, text),
        other => write_plain(out, other),
    }
}

/// Writes a JSON string, quotes and escapes included.
pub(crate) fn write_json_str(out: &mut dyn Write, text: &str) -> io::Result<()> {
    serde_json::to_writer(out, text).map_err(io::Error::from)
}

fn write_plain(out: &mut dyn Write, cell: &Cell<'_>) -> io::Result<()> {
    match cell {
        Cell::Null => Ok(()),
        Cell::Bool(v) => write!(out, "{v}"),
        Cell::I64(v) => write!(out, "{v}"),
        Cell::U64(v) => write!(out, "{v}"),
        Cell::F64(v) => write!(out, "{v:?}"),
        Cell::Str(v) => out.write_all(v.as_bytes()),
    }
}

/// Writes the header line of a CSV table.
pub(crate) fn write_csv_header(out: &mut dyn Write, columns: &[&str]) -> io::Result<()> {
    writeln!(out, "{}", columns.join(","))
}

/// Writes one record as a CSV line (RFC 4180 quoting; null is an empty field).
pub(crate) fn write_csv(out: &mut dyn Write, record: &dyn Record) -> io::Result<()> {
    let mut result = Ok(());
    let mut first = true;
    record.each_cell(&mut |_, cell| {
        if result.is_ok() {
            result = write_csv_cell(out, first, &cell);
            first = false;
        }
    });
    result?;
    out.write_all(b"\n")
}

fn write_csv_cell(out: &mut dyn Write, first: bool, cell: &Cell<'_>) -> io::Result<()> {
    if !first {
        out.write_all(b",")?;
    }
    match cell {
        Cell::Str(text) if text.contains(['"', ',', '\n', '\r']) => {
            write!(out, "\"{}\"", text.replace('"', "\"\""))
        }
        other => write_plain(out, other),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use transect_model::ids::{MachineId, Tid};
    use transect_model::table::{ClockEdge, Thread};

    fn thread(name: &str) -> Thread {
        Thread {
            machine_id: MachineId(0),
            tid: Tid(-1),
            pid: None,
            name: name.to_owned(),
            cgroup: Some("/a,b".to_owned()),
        }
    }

    fn text(write: impl Fn(&mut dyn Write) -> io::Result<()>) -> String {
        let mut out = Vec::new();
        write(&mut out).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn json_escapes_what_a_thread_name_can_hold() {
        let row = thread("a\"\n\u{1b}[2J");
        let json = text(|out| write_json(out, &row));
        assert_eq!(
            json,
            r#"{"machine_id":0,"tid":-1,"pid":null,"name":"a\"\n\u001b[2J","cgroup":"/a,b"}"#
        );
        serde_json::from_str::<serde_json::Value>(&json).unwrap();
    }

    #[test]
    fn csv_quotes_separators_and_leaves_null_empty() {
        assert_eq!(text(|out| write_csv(out, &thread("q\"x"))), "0,-1,,\"q\"\"x\",\"/a,b\"\n");
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
