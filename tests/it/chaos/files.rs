//! The files of a recording or of a daemon's data directory, by kind.

use anyhow::Result;
use std::{
    collections::BTreeMap,
    fmt, fs,
    path::{Path, PathBuf},
};

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Kind {
    Manifest,
    Clocks,
    Source,
    TableStamp,
    Table,
    TableOther,
    TileStamp,
    Tiles,
    History,
    Other,
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Kind::Manifest => "manifest",
            Kind::Clocks => "clocks",
            Kind::Source => "source",
            Kind::TableStamp => "stamp of tables",
            Kind::Table => "table",
            Kind::TableOther => "tables, others",
            Kind::TileStamp => "stamp of tiles",
            Kind::Tiles => "tiles",
            Kind::History => "history",
            Kind::Other => "others",
        })
    }
}

impl Kind {
    /// The kind of a file by its path.
    pub(crate) fn of(file: &Path) -> Self {
        let name = file.file_name().unwrap_or_default().to_string_lossy();
        let is_in = |folder: &str| file.iter().any(|part| part == folder);
        let is_stamp = name == "stamp.json";
        match () {
            () if is_in("history") => Kind::History,
            () if is_in("tables") && is_stamp => Kind::TableStamp,
            () if is_in("tables") && name.ends_with(".parquet") => Kind::Table,
            () if is_in("tables") => Kind::TableOther,
            () if is_in("view") && is_stamp => Kind::TileStamp,
            () if is_in("view") => Kind::Tiles,
            () if name == "manifest.json" => Kind::Manifest,
            () if name == "clocks.jsonl" => Kind::Clocks,
            () if [".compact", ".dat", ".bin", ".raw"].iter().any(|e| name.ends_with(e)) => {
                Kind::Source
            }
            () if name.starts_with("xen.") || name.starts_with("guest-") => Kind::Source,
            () => Kind::Other,
        }
    }

    /// Is it made from other files of the recording?
    pub(crate) fn is_derived(self) -> bool {
        matches!(
            self,
            Kind::TableStamp | Kind::Table | Kind::TableOther | Kind::TileStamp | Kind::Tiles
        )
    }
}

/// All files below a directory, in order.
pub(crate) fn files_of(dir: &Path) -> Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    let mut left = vec![PathBuf::new()];
    while let Some(folder) = left.pop() {
        for entry in fs::read_dir(dir.join(&folder))? {
            let entry = entry?;
            let path = folder.join(entry.file_name());
            match entry.file_type()? {
                kind if kind.is_dir() => left.push(path),
                kind if kind.is_file() => found.push(path),
                _ => {}
            }
        }
    }
    found.sort();
    Ok(found)
}

pub(crate) fn by_kind(files: Vec<PathBuf>) -> BTreeMap<Kind, Vec<PathBuf>> {
    let mut kinds: BTreeMap<Kind, Vec<PathBuf>> = BTreeMap::new();
    for file in files {
        kinds.entry(Kind::of(&file)).or_default().push(file);
    }
    kinds
}

/// Copies a directory with its times, into one that does not exist.
pub(crate) fn copy_tree(from: &Path, to: &Path) -> Result<()> {
    let status = std::process::Command::new("cp")
        .args(["-a", "--reflink=auto", "--"])
        .args([from, to])
        .status()?;
    anyhow::ensure!(status.success(), "cp {} {}", from.display(), to.display());
    Ok(())
}
