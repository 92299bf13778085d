//! What a folder of tiles was made from, and which files are in it.

use crate::error::{TimelineError, io_error};
use crate::plan::Plan;
use crate::unit::Unit;
use serde::{Deserialize, Serialize};
use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use transect_integrity::{Seal, seal, seal_of};

/// The folder of tiles.
pub(crate) const VIEW: &str = "view";
/// Version of the folder's layout (docs/reference/timeline-format.md); raise it with every change of what
/// is in the files.
const LAYOUT: u32 = 4;
/// The stamp's file, written last.
const STAMP: &str = "stamp.json";

/// The folder of tiles about itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Stamp {
    layout: u32,
    /// Checksum and length of the tables' own stamp: new tables have another.
    tables: (u32, u64),
    pub(crate) origin: i64,
    pub(crate) to: i64,
    units: Vec<UnitStamp>,
}

/// A file of tiles.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct UnitStamp {
    pub(crate) name: String,
    pub(crate) bytes: u64,
    /// Checksum of its index, which has those of everything else.
    pub(crate) crc: u32,
}

impl Stamp {
    pub(crate) fn new(
        tables: &Path,
        plan: &Plan,
        units: Vec<UnitStamp>,
    ) -> Result<Self, TimelineError> {
        let (origin, to) = (plan.origin, plan.to);
        Ok(Stamp { layout: LAYOUT, tables: of_tables(tables)?, origin, to, units })
    }

    /// The stamp of tiles that were made from these tables as they are.
    pub(crate) fn read(parent: &Path, tables: &Path) -> Result<Self, TimelineError> {
        let path = folder(parent).join(STAMP);
        let bytes = fs::read(&path).map_err(io_error("read", &path))?;
        let damaged = |what| TimelineError::Damaged { path: path.clone(), offset: 0, what };
        let text = String::from_utf8(bytes).map_err(|_| damaged("invalid stamp"))?;
        match seal_of(&text) {
            Seal::Whole => {}
            Seal::Broken => return Err(damaged("checksum mismatch in the stamp")),
            Seal::None => return Err(damaged("the stamp has no checksum")),
        }
        // What another version sealed is whole, and not ours.
        let stamp: Stamp = serde_json::from_str(&text).map_err(|_| TimelineError::Stale)?;
        if stamp.layout != LAYOUT || stamp.tables != of_tables(tables)? {
            return Err(TimelineError::Stale);
        }
        Ok(stamp)
    }

    pub(crate) fn units(&self) -> &[UnitStamp] {
        &self.units
    }

    /// Opens every file.
    pub(crate) fn open_units(&self, parent: &Path) -> Result<Vec<Arc<Unit>>, TimelineError> {
        let dir = folder(parent);
        let units = self.units.iter();
        units.map(|u| Unit::open(&dir.join(&u.name), u.bytes, u.crc).map(Arc::new)).collect()
    }

    pub(crate) fn write(&self, dir: &Path) -> Result<(), TimelineError> {
        let path = dir.join(STAMP);
        let json = seal(&serde_json::to_string_pretty(self).unwrap_or_default());
        let written = transect_access::create_file(&path).and_then(|mut file| {
            file.write_all(json.as_bytes())?;
            file.sync_all()
        });
        written.map_err(io_error("write", &path))
    }
}

fn of_tables(tables: &Path) -> Result<(u32, u64), TimelineError> {
    let path = tables.join("stamp.json");
    match fs::read(&path) {
        Ok(bytes) => Ok((crc32fast::hash(&bytes), bytes.len() as u64)),
        // A folder of tables without its recording.
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok((0, 0)),
        Err(error) => Err(io_error("read", &path)(error)),
    }
}

/// Where the tiles of `parent` are.
pub(crate) fn folder(parent: &Path) -> PathBuf {
    parent.join(VIEW)
}
