//! Whether a folder of tiles is what was written.

use crate::error::{TimelineError, io_error};
use crate::stamp::{Stamp, folder};
use crate::unit::Unit;
use std::path::Path;

/// What is known of the tiles of a recording.
#[derive(Debug)]
pub enum Verified {
    /// There are none.
    None,
    /// They were made from other tables, or by another version: the next view makes them again.
    Stale,
    /// Every byte of them is what was written.
    Whole {
        /// Files of tiles.
        files: u64,
        /// Bytes of these.
        bytes: u64,
    },
    /// Files that are not what was written, with an error for each. The next view makes the tiles again.
    Damaged(Vec<TimelineError>),
}

/// Reads and verifies the tiles in `parent/view`, which were made from `tables`.
///
/// # Errors
/// A file cannot be read. Damage is no error: it is in the result.
pub fn verify(parent: &Path, tables: &Path) -> Result<Verified, TimelineError> {
    let dir = folder(parent);
    if !dir.try_exists().map_err(io_error("look at", &dir))? {
        return Ok(Verified::None);
    }
    let stamp = match Stamp::read(parent, tables) {
        Ok(stamp) => stamp,
        Err(TimelineError::Stale) => return Ok(Verified::Stale),
        Err(error) => return damaged(vec![error]),
    };
    let (mut files, mut bytes, mut errors) = (0, 0, Vec::new());
    for unit in stamp.units() {
        let opened = Unit::open(&dir.join(&unit.name), unit.bytes, unit.crc);
        match opened.and_then(|unit| every_byte(&unit)) {
            Ok(()) => {
                files += 1;
                bytes += unit.bytes;
            }
            Err(error) => errors.push(error),
        }
    }
    if errors.is_empty() { Ok(Verified::Whole { files, bytes }) } else { damaged(errors) }
}

fn every_byte(unit: &Unit) -> Result<(), TimelineError> {
    unit.blobs.magic()?;
    let mut intervals = Vec::new();
    for track in &unit.index.tracks {
        for chunk in &track.chunks {
            intervals.clear();
            unit.blobs.chunk(chunk, &mut intervals)?;
        }
        for tile in &track.tiles {
            unit.blobs.tile(tile)?;
        }
    }
    Ok(())
}

/// A file that is missing is damage; one that cannot be read is not.
fn damaged(errors: Vec<TimelineError>) -> Result<Verified, TimelineError> {
    let is_other = |error: &TimelineError| match error {
        TimelineError::Io { source, .. } => source.kind() != std::io::ErrorKind::NotFound,
        error => !error.is_damage(),
    };
    let mut errors = errors;
    match errors.iter().position(is_other) {
        Some(at) => Err(errors.swap_remove(at)),
        None => Ok(Verified::Damaged(errors)),
    }
}
