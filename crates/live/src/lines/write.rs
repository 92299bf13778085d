//! From a snapshot to lines, or to one object.

use crate::{histogram::Histogram, rows::TABLES, snapshot::Snapshot};
use std::{
    convert::Infallible,
    io::{self, Write},
    sync::Arc,
};
use transect_model::{
    cell::Record,
    json::{push_digits, push_json_members},
};

/// A table of a few rows is hardly longer; of many, this is a beginning.
const TEXT_BYTES: usize = 8 << 10;
/// Tables whose rows have no time of their own.
const TIMELESS: [&str; 3] = ["machines", "missing", "health"];

/// Writes a window: a line that says what it is and how many rows it has, and a line for each row.
///
/// # Errors
/// The output's.
pub fn write(snapshot: &Snapshot, to: &mut impl Write) -> io::Result<()> {
    let mut out = Vec::new();
    push_head(snapshot, snapshot.rows(), &mut out);
    to.write_all(&out)?;
    for table in TABLES {
        let begin = line_begin(snapshot, table);
        snapshot.each_row_of(table, |row, lengths| {
            out.clear();
            out.extend_from_slice(begin.as_bytes());
            push_members(&mut out, row, lengths);
            out.extend_from_slice(b"}\n");
            to.write_all(&out)
        })?;
    }
    Ok(())
}

/// As [`write`], to memory, of tables of this snapshot that were rendered already, each with its name.
pub fn push_rendered(snapshot: &Snapshot, tables: &[(&str, &Rendered)], out: &mut Vec<u8>) {
    push_head(snapshot, tables.iter().map(|(_, rendered)| rendered.rows.len()).sum(), out);
    for (table, rendered) in tables {
        let begin = line_begin(snapshot, table);
        for row in rendered.rows() {
            out.extend_from_slice(begin.as_bytes());
            // Its bracket is in the beginning.
            out.extend_from_slice(row.get(1..).unwrap_or_default());
            out.push(b'\n');
        }
    }
}

fn push_head(snapshot: &Snapshot, rows: usize, out: &mut Vec<u8>) {
    out.extend_from_slice(b"{\"table\":\"snapshot\",");
    out.extend_from_slice(header(snapshot).as_bytes());
    out.extend_from_slice(format!(",\"rows\":{rows}}}\n").as_bytes());
}

/// What the lines of a table begin with. Rows that are about no time of their own have the window's.
fn line_begin(Snapshot { ts, dur, .. }: &Snapshot, table: &str) -> String {
    match TIMELESS.contains(&table) {
        true => format!("{{\"table\":\"{table}\",\"ts\":{ts},\"dur\":{dur},"),
        false => format!("{{\"table\":\"{table}\","),
    }
}

/// The rows of a table as JSON: a list, or, of `health`, an object. The same bytes as in [`write_object`].
#[derive(Clone, Debug)]
pub struct Rendered {
    json: Arc<Vec<u8>>,
    /// Where rows begin and end.
    rows: Vec<(usize, usize)>,
}

impl Rendered {
    /// Of a table of this window.
    pub fn table(snapshot: &Snapshot, table: &str) -> Self {
        Self::some_of(snapshot, table, |_| true)
    }

    /// Of those rows of it that are wanted.
    pub fn some_of(
        snapshot: &Snapshot,
        table: &str,
        is_wanted: impl Fn(&dyn Record) -> bool,
    ) -> Self {
        let (mut out, mut rows) = (Vec::with_capacity(TEXT_BYTES), Vec::new());
        let is_list = table != "health";
        if is_list {
            out.push(b'[');
        }
        // Nothing fails in memory.
        let Ok(()) = snapshot.each_row_of::<Infallible>(table, |row, lengths| {
            if !is_wanted(row) {
                return Ok(());
            }
            if !rows.is_empty() {
                out.extend_from_slice(b",\n");
            }
            let begin = out.len();
            out.push(b'{');
            push_members(&mut out, row, lengths);
            out.push(b'}');
            rows.push((begin, out.len()));
            Ok(())
        });
        if is_list {
            out.push(b']');
        }
        Rendered { json: Arc::new(out), rows }
    }

    /// The text; whoever sends it shares it.
    pub fn json(&self) -> Arc<Vec<u8>> {
        Arc::clone(&self.json)
    }

    fn rows(&self) -> impl Iterator<Item = &[u8]> {
        self.rows.iter().filter_map(|(begin, end)| self.json.get(*begin..*end))
    }
}

/// Writes a window as one JSON object: what it is, and each of these tables as an array of its rows
/// (`health` as an object).
///
/// # Errors
/// The output's.
pub fn write_object(snapshot: &Snapshot, tables: &[&str], to: &mut impl Write) -> io::Result<()> {
    write!(to, "{{{}", header(snapshot))?;
    for table in TABLES.into_iter().filter(|table| tables.contains(table)) {
        write!(to, ",\n\"{table}\":")?;
        to.write_all(&Rendered::table(snapshot, table).json)?;
    }
    to.write_all(b"}\n")
}

fn header(snapshot: &Snapshot) -> String {
    let Snapshot { ts, dur, ended_unix_ns, missed_windows, .. } = snapshot;
    format!(
        "\"ts\":{ts},\"dur\":{dur},\"ended_unix_ns\":{ended_unix_ns},\"missed_windows\":{missed_windows}"
    )
}

fn push_members(out: &mut Vec<u8>, row: &dyn Record, lengths: Option<&Histogram>) {
    push_json_members(out, row);
    let Some(lengths) = lengths else { return };
    out.extend_from_slice(b",\"lengths\":[");
    for (number, ((from_ns, _), count)) in lengths.buckets().enumerate() {
        out.extend_from_slice(if number == 0 { b"[" } else { b",[" });
        push_digits(out, from_ns);
        out.push(b',');
        push_digits(out, count);
        out.push(b']');
    }
    out.push(b']');
}
