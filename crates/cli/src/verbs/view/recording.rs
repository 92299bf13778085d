//! A recording as the server sees it: it can be opened, and a range of it written as a file.

use super::range::InRange;
use crate::facts::TimeUnit;
use crate::verbs::load::{self, SourceArgs};
use std::path::{Path, PathBuf};
use transect_model::table::Tables;
use transect_serve::{Opened, Recording};

/// The recording at a path.
pub(super) struct Shown {
    path: PathBuf,
    source: SourceArgs,
}

impl Shown {
    pub(super) fn new(path: PathBuf, source: SourceArgs) -> Self {
        Shown { path, source }
    }
}

impl Recording for Shown {
    fn name(&self) -> String {
        let name = self.path.canonicalize().unwrap_or_else(|_| self.path.clone());
        name.file_name().map_or_else(String::new, |name| name.to_string_lossy().into_owned())
    }

    fn open(&self, progress: load::progress::Tell<'_>) -> Result<Opened, String> {
        open(&self.path, &self.source, progress).map_err(|error| one_line(&error))
    }

    fn export(&self, from: i64, to: i64, format: &str) -> Result<(String, Vec<u8>), String> {
        let stem = self.name();
        let stem = stem.strip_suffix(".transect").unwrap_or(&stem);
        match format {
            "perfetto" => perfetto(&self.path, &self.source, from, to)
                .map(|bytes| (format!("{stem}-{from}-{to}.perfetto-trace"), bytes))
                .map_err(|error| one_line(&error)),
            "recording" => Err("a part of a recording cannot be written as a recording yet: \
                                export it for Perfetto, or rows with transect sql"
                .to_owned()),
            _ => Err(format!("there is no format {format}: perfetto")),
        }
    }
}

fn one_line(error: &anyhow::Error) -> String {
    crate::one_line(error)
}

fn open(
    path: &Path,
    source: &SourceArgs,
    tell: load::progress::Tell<'_>,
) -> anyhow::Result<Opened> {
    let tables = load::tables::ensure_and_tell(path, source, Some(tell))?;
    let (mut unit, mut notes) = (TimeUnit::Ns, Vec::new());
    load::events(path, source, |loaded| {
        unit = load::unit(&loaded.clocks);
        notes.clone_from(&loaded.facts.notes);
        if !loaded.facts.finished {
            notes
                .push("its recorder did not end in order: the last moments are missing".to_owned());
        }
        Ok(())
    })?;
    let parent = load::tables::parent(path)?;
    Ok(Opened { tables: tables.path, parent, unit: unit.as_str(), notes })
}

/// The rows that reach into the range, as a Perfetto file.
fn perfetto(path: &Path, source: &SourceArgs, from: i64, to: i64) -> anyhow::Result<Vec<u8>> {
    let mut tables = Tables::default();
    let facts = load::rows(path, source, None, &mut InRange::new(&mut tables, from, to))?;
    tables.machines.sort_by_key(|machine| machine.machine_id);
    let mut bytes = Vec::new();
    transect_perfetto::timeline::write(&tables, facts.unit.as_str(), &mut bytes)?;
    Ok(bytes)
}
