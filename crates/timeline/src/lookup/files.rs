//! The Parquet files of one table, as runs in order of `ts`.

use crate::error::{TimelineError, io_error};
use crate::rows::known;
use std::fs;
use std::path::{Path, PathBuf};
use transect_integrity::{Folder, KnownFile};

/// Files that are in order of `ts` one behind the other.
#[derive(Clone, Debug, Default)]
pub(super) struct FileRun {
    pub(super) files: Vec<KnownFile>,
    /// The only machine of its rows, if a folder's name says so.
    pub(super) machine_id: Option<u32>,
    /// Does it hold the intervals that ended after their place in the order was written?
    pub(super) is_late: bool,
}

/// The runs of a table: `NAME.parquet`, and in each folder at any depth below `NAME/` its buckets,
/// which follow one another, then every other file by itself. `events/NAME` is the table of an event,
/// in the folder `events/name=NAME`. A table without files has no runs.
pub(super) fn runs_of_table(tables: &Folder, name: &str) -> Result<Vec<FileRun>, TimelineError> {
    let mut runs = Vec::new();
    let single = tables.dir().join(format!("{name}.parquet"));
    if single.is_file() {
        runs.push(FileRun { files: vec![known(tables, &single)?], ..FileRun::default() });
    }
    let dir = match name.strip_prefix("events/") {
        Some(event) => tables.dir().join("events").join(format!("name={event}")),
        None => tables.dir().join(name),
    };
    if dir.is_dir() {
        add_folder(tables, &dir, None, &mut runs)?;
    }
    Ok(runs)
}

fn add_folder(
    tables: &Folder,
    dir: &Path,
    machine_id: Option<u32>,
    runs: &mut Vec<FileRun>,
) -> Result<(), TimelineError> {
    let (mut buckets, mut others, mut folders) = (Vec::new(), Vec::new(), Vec::new());
    for entry in fs::read_dir(dir).map_err(io_error("list", dir))? {
        let path = entry.map_err(io_error("list", dir))?.path();
        let name = path.file_name().map(|name| name.to_string_lossy().into_owned());
        let name = name.unwrap_or_default();
        let stem = name.strip_suffix(".parquet").filter(|_| !name.starts_with('.'));
        // `bucket=10` comes after `bucket=9`.
        let (kind, number) = match stem.unwrap_or(&name).split_once('=') {
            Some((kind, number)) => (kind.to_owned(), number.parse::<u64>().ok()),
            None => (name.clone(), None),
        };
        let place = (kind, number, name.clone());
        match stem {
            _ if path.is_dir() => folders.push((place, path)),
            Some(_) if place.0 == "bucket" && number.is_some() => buckets.push((number, path)),
            Some(_) => others.push((place, path)),
            None => {}
        }
    }
    buckets.sort();
    others.sort();
    folders.sort();
    if !buckets.is_empty() {
        let files = buckets.into_iter().map(|(_, path): (_, PathBuf)| known(tables, &path));
        let files = files.collect::<Result<_, _>>()?;
        runs.push(FileRun { files, machine_id, is_late: false });
    }
    for ((kind, ..), path) in others {
        let files = vec![known(tables, &path)?];
        runs.push(FileRun { files, machine_id, is_late: kind == "late" });
    }
    for ((kind, number, _), path) in folders {
        let machine = number.filter(|_| kind == "machine_id");
        let machine = machine.and_then(|number| u32::try_from(number).ok());
        add_folder(tables, &path, machine.or(machine_id), runs)?;
    }
    Ok(())
}
