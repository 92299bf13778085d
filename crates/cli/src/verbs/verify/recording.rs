//! A recording: its own files, its tables, its tiles.

use super::line::{Line, State};
use crate::verbs::load::{SourceArgs, parent};
use std::path::Path;
use transect_integrity::Folder;
use transect_store::{FileCheck, FileState, Manifest};
use transect_timeline::Verified;

/// What restores a file that other files can be made of.
const REPAIR: &str = "transect verify --repair makes it again";
/// What restores one of which there is no other.
const COPY: &str = "copy the file again from where the recording came from; until then its events that are damaged are \
                    unknown, and every report states it";
const COPY_EXCERPT: &str = "copy the excerpt again, or export it again from the recording";

/// The files of the recording in `dir`.
pub(super) fn lines(dir: &Path, repair: bool) -> anyhow::Result<Vec<Line>> {
    let repaired = if repair { transect_store::repair(dir)? } else { Vec::new() };
    let mut lines: Vec<Line> = transect_store::verify(dir)?.into_iter().map(of_file).collect();
    for line in lines.iter_mut().filter(|line| repaired.contains(&line.file)) {
        line.state = State::Repaired;
        line.places = vec!["restored from its copy".to_owned()];
    }
    let Ok(manifest) = Manifest::read(dir) else { return Ok(lines) };
    let is_excerpt = manifest.excerpt.is_some();
    lines.extend(derived(dir, is_excerpt, repair)?);
    Ok(lines)
}

fn of_file(check: FileCheck) -> Line {
    let FileCheck { name, bytes, state, can_be_repaired } = check;
    match state {
        FileState::Whole => Line::whole(name, bytes),
        FileState::Unverified(why) => Line { bytes, ..Line::unverified(name, why) },
        FileState::Damaged(places) => {
            let remedy = if can_be_repaired { REPAIR } else { COPY };
            Line { bytes, ..Line::damaged(name, places, remedy) }
        }
    }
}

/// Tables and tiles, which are made of the sources; those of an excerpt's tables are all there is. Of a recording that
/// this user cannot write to they are in the user's cache.
fn derived(dir: &Path, is_excerpt: bool, repair: bool) -> anyhow::Result<Vec<Line>> {
    let home = match is_excerpt {
        true => dir.to_owned(),
        // Without a cache there are none in it.
        false => parent(dir).unwrap_or_else(|_| dir.to_owned()),
    };
    let named = |folder: &str| match home == dir {
        true => folder.to_owned(),
        false => home.join(folder).display().to_string(),
    };
    let mut lines = Vec::new();
    let at = home.join("tables");
    if at.is_dir() || is_excerpt {
        let mut line = tables(&at, &named("tables"))?;
        if is_excerpt && line.state == State::Damaged {
            line.remedy = Some(COPY_EXCERPT.to_owned());
        } else if line.state == State::Damaged && repair {
            Folder::distrust(&at);
            crate::verbs::load::ensure(dir, &SourceArgs::default(), None)?;
            let again = tables(&at, &named("tables"))?;
            line = if again.state == State::Damaged { again } else { line.repaired() };
        }
        lines.push(line);
    }
    lines.extend(tiles(&home, &at, named("view"), repair)?);
    Ok(lines)
}

/// The tiles of the timeline, in `view` of their home.
fn tiles(home: &Path, tables: &Path, name: String, repair: bool) -> anyhow::Result<Option<Line>> {
    Ok(match transect_timeline::verify(home, tables)? {
        Verified::None => None,
        Verified::Stale => {
            let why = "made of other tables: the next transect view makes them again";
            Some(Line::unverified(name, why))
        }
        Verified::Whole { bytes, .. } => Some(Line::whole(name, Some(bytes))),
        Verified::Damaged(errors) => {
            let places = errors.iter().map(ToString::to_string).collect();
            let line = Line::damaged(name, places, REPAIR);
            match repair {
                false => Some(line),
                // The next view makes them.
                true => {
                    std::fs::remove_dir_all(home.join("view"))?;
                    Some(Line {
                        places: vec!["removed: the next transect view makes them again".to_owned()],
                        ..line.repaired()
                    })
                }
            }
        }
    })
}

/// A folder of tables.
pub(super) fn tables(at: &Path, name: &str) -> anyhow::Result<Line> {
    if !at.is_dir() {
        return Ok(Line::damaged(name, vec!["the folder is missing".to_owned()], COPY_EXCERPT));
    }
    let verified = Folder::verify(at)?;
    if verified.is_unknown {
        let why = "written by another program or an earlier transect: no checksums";
        return Ok(Line::unverified(name, why));
    }
    let place = |damage: &transect_integrity::Damage| {
        let path = damage.path.strip_prefix(at).unwrap_or(&damage.path);
        format!("{}: {}", path.display(), damage.what)
    };
    Ok(match verified.damage.is_empty() {
        true => Line::whole(name, Some(verified.bytes)),
        false => Line::damaged(name, verified.damage.iter().map(place).collect(), REPAIR),
    })
}
