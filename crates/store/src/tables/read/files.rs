//! Which files a table has.

use crate::error::{StoreError, io_error, read_error};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use transect_integrity::{Folder, KnownFile};

/// The files of one folder of a table, each kind in the order of their numbers.
#[derive(Clone, Debug)]
pub(crate) struct TableFolder {
    /// The folder, from that of the tables on.
    pub(crate) name: PathBuf,
    pub(crate) buckets: Vec<KnownFile>,
    pub(crate) late: Vec<KnownFile>,
}

/// Opens a folder of tables. What is wrong with it names the file.
pub(crate) fn open_folder(tables: &Path) -> Result<Folder, StoreError> {
    Folder::open(tables).map_err(read_error("open", tables))
}

/// The folders of the table `name` (`exits`, `events/name=sched_switch`): itself, or one for each
/// machine. None where it has no rows.
pub(crate) fn folders(tables: &Folder, name: &str) -> Result<Vec<TableFolder>, StoreError> {
    let name = PathBuf::from(name);
    let mut machines = Vec::new();
    for entry in list(&tables.dir().join(&name))? {
        let number = entry.strip_prefix("machine_id=").and_then(|id| id.parse::<u32>().ok());
        machines.extend(number.map(|number| (number, name.join(&entry))));
    }
    machines.sort();
    let names = std::iter::once(name).chain(machines.into_iter().map(|(_, name)| name));
    let all = names.map(|name| folder(tables, name)).collect::<Result<Vec<_>, _>>()?;
    Ok(all.into_iter().filter(|f| !f.buckets.is_empty() || !f.late.is_empty()).collect())
}

fn folder(tables: &Folder, name: PathBuf) -> Result<TableFolder, StoreError> {
    let dir = tables.dir().join(&name);
    let mut numbered = [Vec::new(), Vec::new()];
    for entry in list(&dir)? {
        let Some((kind, number)) =
            entry.strip_suffix(".parquet").and_then(|stem| stem.split_once('='))
        else {
            continue;
        };
        let Ok(number) = number.parse::<u64>() else { continue };
        match kind {
            "bucket" => numbered[0].push((number, dir.join(&entry))),
            "late" => numbered[1].push((number, dir.join(&entry))),
            _ => {}
        }
    }
    let known = |mut files: Vec<(u64, PathBuf)>| {
        files.sort();
        let files = files.into_iter();
        let known = files.map(|(_, path)| tables.file(&path).map_err(read_error("open", &path)));
        known.collect::<Result<Vec<_>, _>>()
    };
    let [buckets, late] = numbered;
    Ok(TableFolder { name, buckets: known(buckets)?, late: known(late)? })
}

/// The events there are files of, as `events/name=sched_switch`.
pub(crate) fn event_names(tables: &Path) -> Result<Vec<String>, StoreError> {
    let mut names = list(&tables.join("events"))?;
    names.retain(|name| name.starts_with("name="));
    names.sort();
    Ok(names.into_iter().map(|name| format!("events/{name}")).collect())
}

/// What is in a folder; nothing if there is none.
fn list(dir: &Path) -> Result<Vec<String>, StoreError> {
    let entries = match fs::read_dir(dir) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(io_error("list", dir)(error)),
    };
    let mut names = Vec::new();
    for entry in entries {
        let entry = entry.map_err(io_error("list", dir))?;
        names.push(entry.file_name().to_string_lossy().into_owned());
    }
    Ok(names)
}
