//! Records as text for programs: JSON objects, JSON lines and CSV.
//!
//! Written once against [`Record`], for table rows and report lines alike, so that a number is the
//! same digits in every face (JSON: [`transect_model::json`]).

use std::io::{self, Write};
use transect_model::cell::{Cell, Record};

/// A record that only faces know: a struct that lists its columns, as table rows do. Behind its own
/// columns can be those of another record, which several have in common.
macro_rules! line {
    (
        $(#[doc = $doc:literal])*
        $line:ident { $( $(#[doc = $cdoc:literal])+ $col:ident: $ty:ty, )* }
        $( $(#[doc = $rdoc:literal])+ $rest:ident: $rest_ty:ty )?
    ) => {
        $(#[doc = $doc])*
        #[derive(Clone, Debug, PartialEq)]
        pub(crate) struct $line {
            $( $(#[doc = $cdoc])+ pub $col: $ty, )*
            $( $(#[doc = $rdoc])+ pub $rest: $rest_ty, )?
        }

        impl $line {
            /// Names of the columns, in order.
            pub(crate) const COLUMNS: &'static [&'static str] = {
                const OWN: &[&str] = &[ $( stringify!($col) ),* ];
                const REST: &[&str] = crate::records::line!(@rest $( $rest_ty )?);
                &crate::records::joined::<{ OWN.len() + REST.len() }>(OWN, REST)
            };
        }

        impl transect_model::cell::Record for $line {
            fn each_cell<'a>(
                &'a self,
                visit: &mut dyn FnMut(&'static str, transect_model::cell::Cell<'a>),
            ) {
                use transect_model::cell::ToCell;
                $( visit(stringify!($col), self.$col.to_cell()); )*
                $( self.$rest.each_cell(visit); )?
            }
        }
    };
    (@rest) => { &[] };
    (@rest $rest_ty:ty) => { <$rest_ty>::COLUMNS };
}

/// The names of a record's own columns and of those behind them.
pub(crate) const fn joined<const N: usize>(
    own: &[&'static str],
    rest: &[&'static str],
) -> [&'static str; N] {
    let mut all = [""; N];
    let mut at = 0;
    while at < N {
        all[at] = if at < own.len() { own[at] } else { rest[at - own.len()] };
        at += 1;
    }
    all
}
pub(crate) use line;
pub(crate) use transect_model::json::{write_json, write_json_str};

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
///
/// # Errors
/// Of the output.
pub fn write_csv_header(out: &mut dyn Write, columns: &[&str]) -> io::Result<()> {
    writeln!(out, "{}", columns.join(","))
}

/// Writes one record as a CSV line (RFC 4180 quoting; null is an empty field).
///
/// # Errors
/// Of the output.
pub fn write_csv(out: &mut dyn Write, record: &dyn Record) -> io::Result<()> {
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
    use transect_model::table::Thread;

    fn thread(name: &str) -> Thread {
        Thread {
            machine_id: MachineId(0),
            tid: Tid(-1),
            pid: None,
            name: name.to_owned(),
            cgroup: Some("/a,b".to_owned()),
            allowed_cpus: None,
            policy: None,
            nice: None,
            rt_priority: None,
        }
    }

    fn text(write: impl Fn(&mut dyn Write) -> io::Result<()>) -> String {
        let mut out = Vec::new();
        write(&mut out).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn csv_quotes_separators_and_leaves_null_empty() {
        assert_eq!(text(|out| write_csv(out, &thread("q\"x"))), "0,-1,,\"q\"\"x\",\"/a,b\",,,,\n");
    }
}
