//! Which units a recording's timeline is made of, and what time it covers.

use crate::chunk::MAX_NS;
use crate::error::{TimelineError, io_error};
use crate::names;
use crate::rows::{self, Files};
use crate::tables::{INSIDE, TABLES};
use std::fs;
use std::path::{Path, PathBuf};
use transect_integrity::Folder;

/// One folder of a table, which becomes one file of tiles.
#[derive(Clone, Debug)]
pub(crate) struct UnitPlan {
    /// The table, or `events/NAME`.
    pub(crate) table: String,
    pub(crate) files: Files,
    pub(crate) rows: u64,
    /// Name of its file of tiles.
    pub(crate) name: String,
}

/// What there is to do.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    pub(crate) units: Vec<UnitPlan>,
    /// The tables.
    pub(crate) folder: Folder,
    /// First moment of all tables, ns of trace time.
    pub(crate) origin: i64,
    /// Their end, as far as it is known before they are read.
    pub(crate) to: i64,
    /// Times are in ticks of unknown length.
    pub(crate) in_ticks: bool,
}

impl Plan {
    /// Looks at the folder `tables`: at names and Parquet footers, not at rows.
    pub(crate) fn new(tables: &Path) -> Result<Self, TimelineError> {
        let checked = rows::open_folder(tables)?;
        let mut units = Vec::new();
        for table in TABLES {
            for (dir, part) in folders(&tables.join(table))? {
                add(&mut units, &checked, table, part.as_deref(), &dir)?;
            }
        }
        if units.iter().any(|unit| unit.table == "cpu_slices") {
            // Before what is not looked at first.
            let at = units.iter().position(|unit| unit.table == "irqs").unwrap_or(units.len());
            let (table, name) = (INSIDE.to_owned(), INSIDE.to_owned());
            units.insert(at, UnitPlan { table, name, files: Files::default(), rows: 0 });
        }
        for (dir, name) in folders(&tables.join("events"))? {
            let name = name.as_deref().and_then(|name| name.strip_prefix("name="));
            let Some(name) = name else { continue };
            for (dir, part) in folders(&dir)? {
                add(&mut units, &checked, &format!("events/{name}"), part.as_deref(), &dir)?;
            }
        }
        let (origin, to) = window(tables, &units)?;
        for (number, unit) in units.iter_mut().enumerate() {
            unit.name = format!("{number:04}-{}.tiles", unit.name);
        }
        let in_ticks = names::is_in_ticks(&checked)?;
        Ok(Plan { units, folder: checked, origin, to, in_ticks })
    }

    /// Rows of all units.
    pub(crate) fn rows(&self) -> u64 {
        self.units.iter().map(|unit| unit.rows).sum()
    }
}

fn add(
    units: &mut Vec<UnitPlan>,
    tables: &Folder,
    table: &str,
    part: Option<&str>,
    dir: &Path,
) -> Result<(), TimelineError> {
    let files = Files::in_dir(tables, dir)?;
    if files.is_empty() {
        return Ok(());
    }
    let mut rows = 0;
    for file in files.all() {
        rows += rows::facts(file)?.rows;
    }
    let plain = |text: &str| text.replace(|c: char| !c.is_ascii_alphanumeric() && c != '_', ".");
    let name = match part {
        Some(part) => format!("{}-{}", plain(table), plain(part)),
        None => plain(table),
    };
    units.push(UnitPlan { table: table.to_owned(), files, rows, name });
    Ok(())
}

/// The folder itself and those in it, by number or name.
fn folders(dir: &Path) -> Result<Vec<(PathBuf, Option<String>)>, TimelineError> {
    let mut found = Vec::new();
    if !dir.is_dir() {
        return Ok(found);
    }
    for entry in fs::read_dir(dir).map_err(io_error("list", dir))? {
        let path = entry.map_err(io_error("list", dir))?.path();
        let name = path.file_name().and_then(|name| name.to_str()).map(str::to_owned);
        if let Some(name) = name.filter(|_| path.is_dir()) {
            found.push((path, Some(name)));
        }
    }
    let number = |name: &Option<String>| {
        name.as_ref().and_then(|name| name.rsplit_once('=')?.1.parse::<u64>().ok())
    };
    found.sort_by_key(|(_, name)| (number(name), name.clone()));
    found.insert(0, (dir.to_owned(), None));
    Ok(found)
}

fn window(tables: &Path, units: &[UnitPlan]) -> Result<(i64, i64), TimelineError> {
    let mut window: Option<(i64, i64)> = None;
    let mut include = |from: i64, to: i64| {
        let known = window.unwrap_or((from, to));
        window = Some((known.0.min(from), known.1.max(to)));
    };
    for unit in units {
        for file in unit.files.all() {
            if let Some((first, last)) = rows::facts(file)?.ts {
                include(first, last.saturating_add(1));
            }
        }
    }
    // How long the last intervals are, only their rows tell; the windows cover most of them.
    for unit in units.iter().filter(|unit| unit.table == "windows") {
        rows::each(&unit.files, &["ts", "dur"], false, |batch, range| {
            let dur = crate::column::i64s(batch, "dur")?;
            let stamps = rows::stamps(batch)?;
            for row in range {
                include(stamps[row], stamps[row].saturating_add(dur.value(row)));
            }
            Ok(())
        })?;
    }
    let (origin, to) = window.unwrap_or((0, 0));
    if origin.checked_abs().is_none_or(|ns| ns > MAX_NS) || to > MAX_NS {
        return Err(TimelineError::Table {
            path: tables.to_owned(),
            reason: format!(
                "its rows span {origin} to {to}, which is outside the valid time range"
            ),
        });
    }
    Ok((origin, to))
}
