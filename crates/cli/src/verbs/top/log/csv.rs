//! A log for spreadsheets: a line for each VM, vCPU and control group and window.

use super::sink::{Sink, append};
use anyhow::ensure;
use std::{
    borrow::Cow,
    collections::HashMap,
    fs::File,
    io::{BufRead as _, BufReader, BufWriter, Write as _},
    path::Path,
};
use transect_live::{Snapshot, WindowDetail};
use transect_model::{
    cell::{Cell, Record},
    ids::MachineId,
    table::Window,
};
use transect_report::{
    records::{write_csv, write_csv_header},
    utc_text,
};

/// What stands before the rows' own columns.
const FIRST: [&str; 3] = ["time_utc", "kind", "name"];
/// Columns of both halves of a row.
const KEYS: [&str; 5] = ["ts", "dur", "machine_id", "vcpu", "cgroup"];

/// A CSV file.
pub(super) struct Csv(BufWriter<File>);

impl Csv {
    /// Opens a log to go on with it, or a new one with its header.
    pub(super) fn open(path: &Path) -> anyhow::Result<Self> {
        let mut out = BufWriter::new(append(path)?);
        let mut first = String::new();
        BufReader::new(File::open(path)?).read_line(&mut first)?;
        let columns = columns();
        if first.is_empty() {
            write_csv_header(&mut out, &columns)?;
            out.flush()?;
        } else {
            ensure!(
                first.trim_end() == columns.join(","),
                "{}: its columns differ from those that this version writes: start a new log",
                path.display()
            );
        }
        Ok(Csv(out))
    }
}

fn columns() -> Vec<&'static str> {
    let details = WindowDetail::COLUMNS.iter().copied();
    let windows = Window::TABLE.columns.iter().map(|column| column.name);
    FIRST.into_iter().chain(windows).chain(details.filter(|name| !KEYS.contains(name))).collect()
}

/// A line: owned, because its two halves come one after the other.
#[derive(Default)]
struct Line(Vec<Cell<'static>>);

impl Record for Line {
    fn each_cell<'a>(&'a self, visit: &mut dyn FnMut(&'static str, Cell<'a>)) {
        for cell in &self.0 {
            visit("", cell.clone());
        }
    }
}

impl Line {
    fn add(&mut self, row: &dyn Record, wanted: impl Fn(&str) -> bool) {
        row.each_cell(&mut |name, cell| {
            if wanted(name) {
                self.0.push(match cell {
                    Cell::Str(text) => Cell::Str(Cow::Owned(text.into_owned())),
                    Cell::Null => Cell::Null,
                    Cell::Bool(v) => Cell::Bool(v),
                    Cell::I64(v) => Cell::I64(v),
                    Cell::U64(v) => Cell::U64(v),
                    Cell::F64(v) => Cell::F64(v),
                });
            }
        });
    }
}

impl Sink for Csv {
    fn write(&mut self, snapshot: &Snapshot) -> anyhow::Result<()> {
        for line in lines(snapshot) {
            write_csv(&mut self.0, &line)?;
        }
        Ok(self.0.flush()?)
    }
}

fn lines(snapshot: &Snapshot) -> Vec<Line> {
    let names = Names::of(snapshot);
    let time = time(snapshot.ended_unix_ns);
    let mut lines: Vec<Line> = snapshot
        .actors
        .iter()
        .map(|actor| {
            let (kind, name) = names.of_row(&actor.window);
            let first = [time.clone(), kind, name];
            Line(first.map(|text| Cell::Str(Cow::Owned(text))).into())
        })
        .collect();
    let mut halves = [0, 0];
    // Windows and details come in the actors' order. The visitor cannot fail.
    let _: Result<(), std::convert::Infallible> = snapshot.each_row(|table, row| {
        let half = match table {
            "windows" => 0,
            "window_details" => 1,
            _ => return Ok(()),
        };
        if let Some(line) = lines.get_mut(halves[half]) {
            line.add(row, |name| half == 0 || !KEYS.contains(&name));
        }
        halves[half] += 1;
        Ok(())
    });
    lines
}

/// `2026-11-21 05:14:16.250`, as spreadsheets read it.
fn time(unix_ns: u64) -> String {
    i64::try_from(unix_ns).map(utc_text).unwrap_or_default()
}

/// What actors are called.
struct Names<'a> {
    machines: HashMap<MachineId, &'a str>,
    /// Kind and name of containers by their own control group.
    containers: HashMap<&'a str, (&'a str, &'a str)>,
}

impl<'a> Names<'a> {
    fn of(snapshot: &'a Snapshot) -> Self {
        let machines = snapshot.machines.iter();
        let containers = snapshot.containers.iter().map(|(row, _)| row);
        Names {
            machines: machines.map(|row| (row.machine_id, row.name.as_str())).collect(),
            containers: containers
                .map(|row| (row.cgroup.as_str(), (row.kind.as_str(), row.name.as_str())))
                .collect(),
        }
    }

    /// Kind and name.
    fn of_row(&self, row: &Window) -> (String, String) {
        let machine = || self.machines.get(&row.machine_id).map_or("", |name| name).to_owned();
        match (&row.cgroup, row.vcpu) {
            (Some(group), _) => match self.containers.get(group.as_str()) {
                Some((kind, name)) => ((*kind).to_owned(), (*name).to_owned()),
                None => ("group".to_owned(), group.clone()),
            },
            (None, Some(_)) => ("vcpu".to_owned(), machine()),
            (None, None) => ("vm".to_owned(), machine()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use transect_live::lines::Reader;

    #[test]
    fn a_line_for_each_actor_with_its_name() {
        let log = concat!(env!("CARGO_MANIFEST_DIR"), "/../../testdata/succeed/live/nested.jsonl");
        let log = BufReader::new(File::open(log).unwrap());
        let snapshot = Reader::new(log).next().unwrap().unwrap();
        let scratch = tempfile::tempdir().unwrap();
        let path = scratch.path().join("x.csv");
        for _ in 0..2 {
            Csv::open(&path).unwrap().write(&snapshot).unwrap();
        }
        let text = std::fs::read_to_string(&path).unwrap();
        let rows: Vec<Vec<&str>> = text.lines().map(|line| line.split(',').collect()).collect();
        assert_eq!(rows.len(), 1 + 2 * snapshot.actors.len(), "one header");
        assert!(rows.iter().all(|row| row.len() == rows[0].len()));
        let at = |name: &str| rows[0].iter().position(|column| *column == name).unwrap();
        let vcpu = rows.iter().find(|row| row[1] == "vcpu" && row[2] == "starved").unwrap();
        let row = snapshot.actors.iter().find(|row| row.window.vcpu.is_some()).unwrap();
        assert_eq!(vcpu[at("waited_ns")], row.window.waited_ns.to_string());
        assert_eq!(vcpu[at("wait_max_ns")], row.detail.wait_max_ns.to_string());
        assert!(vcpu[0].starts_with("2026-11-22 01:14:1") && vcpu[0].len() == 23, "{vcpu:?}");
        std::fs::write(&path, "a,b\n").unwrap();
        let error = Csv::open(&path).err().unwrap().to_string();
        assert!(error.contains("its columns differ"), "{error}");
    }
}
