//! The data directory of `transect serve`: history and snapshots.

use super::{
    line::{Line, State},
    recording,
};
use std::path::Path;
use transect_history::{Damaged, FileReport};

const REMEDY: &str = "transect verify --repair, with the daemon stopped, rewrites it without the damaged frames; \
                      answers still state the windows that are gone";

/// Everything in the directory.
pub(super) fn lines(dir: &Path, repair: bool) -> anyhow::Result<Vec<Line>> {
    let mut lines = Vec::new();
    if dir.join("history").is_dir() {
        lines.extend(history(&dir.join("history"), "history/", repair)?);
    }
    let mut snapshots: Vec<_> = match dir.join("snapshots").read_dir() {
        Ok(entries) => entries.flatten().map(|entry| entry.path()).collect(),
        Err(_) => Vec::new(),
    };
    snapshots.retain(|path| path.is_dir());
    snapshots.sort();
    for path in snapshots {
        let name = path.strip_prefix(dir).unwrap_or(&path).display().to_string();
        match recording::lines(&path, repair) {
            Ok(of_snapshot) => lines.extend(
                of_snapshot
                    .into_iter()
                    .map(|line| Line { file: format!("{name}/{}", line.file), ..line }),
            ),
            Err(error) => {
                let places = vec![crate::errors::one_line(&error)];
                lines.push(Line::damaged(name, places, "delete the snapshot"));
            }
        }
    }
    Ok(lines)
}

/// The files of a history.
pub(super) fn history(dir: &Path, prefix: &str, repair: bool) -> anyhow::Result<Vec<Line>> {
    let before = transect_history::verify(dir)?;
    let mut lines: Vec<Line> = before.files.iter().map(|file| of_file(file, prefix)).collect();
    if repair && !before.is_whole() {
        transect_history::repair(dir)?;
        let after = transect_history::verify(dir)?;
        for line in lines.iter_mut().filter(|line| line.state == State::Damaged) {
            let now = after.files.iter().map(|file| of_file(file, prefix));
            let is_whole = |now: &Line| now.file == line.file && now.state != State::Damaged;
            if now.into_iter().any(|now| is_whole(&now)) {
                line.state = State::Repaired;
                line.remedy = None;
            }
        }
    }
    Ok(lines)
}

fn of_file(file: &FileReport, prefix: &str) -> Line {
    let name = file.path.file_name().unwrap_or_default().to_string_lossy();
    let name = format!("{prefix}{name}");
    let bytes = Some(file.bytes);
    if let Some(why) = &file.unreadable {
        return Line {
            bytes,
            ..Line::damaged(name, vec![why.clone()], "restore the file or delete it")
        };
    }
    if file.damaged.is_empty() {
        return Line::whole(name, bytes);
    }
    let place = |damaged: &Damaged| {
        format!(
            "byte {}: {}: {} bytes, {} windows are gone",
            damaged.offset, damaged.kind, damaged.bytes, damaged.windows
        )
    };
    Line { bytes, ..Line::damaged(name, file.damaged.iter().map(place).collect(), REMEDY) }
}
