//! Which files a table has.

use crate::error::{StoreError, io_error};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// The files of one folder of a table, each kind in the order of their numbers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Folder {
    /// The folder, from that of the tables on.
    pub(crate) name: PathBuf,
    pub(crate) buckets: Vec<PathBuf>,
    pub(crate) late: Vec<PathBuf>,
}

/// The folders of the table `name` (`exits`, `events/name=sched_switch`): itself, or one for each
/// machine. None where it has no rows.
pub(crate) fn folders(tables: &Path, name: &str) -> Result<Vec<Folder>, StoreError> {
    let name = PathBuf::from(name);
    let mut machines = Vec::new();
    for entry in list(&tables.join(&name))? {
        let number = entry.strip_prefix("machine_id=").and_then(|id| id.parse::<u32>().ok());
        machines.extend(number.map(|number| (number, name.join(&entry))));
    }
    machines.sort();
    let names = std::iter::once(name).chain(machines.into_iter().map(|(_, name)| name));
    let all = names.map(|name| folder(tables, name)).collect::<Result<Vec<_>, _>>()?;
    Ok(all.into_iter().filter(|f| !f.buckets.is_empty() || !f.late.is_empty()).collect())
}

fn folder(tables: &Path, name: PathBuf) -> Result<Folder, StoreError> {
    let dir = tables.join(&name);
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
    let [buckets, late] = numbered.map(|mut files| {
        files.sort();
        files.into_iter().map(|(_, path)| path).collect()
    });
    Ok(Folder { name, buckets, late })
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
