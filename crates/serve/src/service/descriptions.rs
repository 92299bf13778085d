//! The descriptions of snapshots, `snapshots/ID.json`, and what the directory has at the start.
//!
//! A description has a checksum. A recording whose description is missing or damaged is not removed if it is whole: only
//! what a daemon left that was killed while it wrote or removed a snapshot is.

use serde::{Deserialize, Serialize};
use std::{fs, io, path::Path};

/// A recording that is being removed has this instead of `.transect`.
pub(super) const REMOVED: &str = "removed";

/// A snapshot, as it is listed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Snap {
    pub(crate) id: String,
    /// When it was taken, ns since 1970.
    pub(crate) taken_unix_ns: u64,
    /// How much of the past was asked for.
    pub(crate) seconds: u64,
    pub(crate) reason: String,
    /// The trigger that took it.
    pub(crate) trigger: Option<String>,
    pub(crate) events: u64,
    pub(crate) lost: u64,
    pub(crate) bytes: u64,
    /// The host's wall clock at the start of its window, ns since 1970; null where unknown.
    #[serde(default)]
    pub(crate) from_unix_ns: Option<i64>,
    /// The same at the end.
    #[serde(default)]
    pub(crate) until_unix_ns: Option<i64>,
}

/// Only such names are made, and only such are looked for: no path is ever made of what a client sent.
pub(crate) fn is_id(text: &str) -> bool {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || c == '-';
    !text.is_empty() && text.len() <= 32 && text.chars().all(is_plain)
}

#[derive(Serialize, Deserialize)]
struct Stored {
    #[serde(flatten)]
    snap: Snap,
    /// CRC-32 of the JSON of all other members; descriptions of earlier versions have none.
    #[serde(default)]
    crc32: Option<u32>,
}

fn checksum(snap: &Snap) -> u32 {
    crc32fast::hash(&serde_json::to_vec(snap).unwrap_or_default())
}

/// The text of a description.
pub(super) fn text_of(snap: &Snap) -> Vec<u8> {
    let stored = Stored { snap: snap.clone(), crc32: Some(checksum(snap)) };
    serde_json::to_vec(&stored).unwrap_or_default()
}

/// The description of this snapshot, unless it is damaged.
fn read(path: &Path, id: &str) -> Option<Snap> {
    let mut bytes = Vec::new();
    let mut file = transect_access::open_read(path).ok()?;
    io::Read::read_to_end(&mut file, &mut bytes).ok()?;
    let stored: Stored = serde_json::from_slice(&bytes).ok()?;
    let is_whole = stored.crc32.is_none_or(|crc32| crc32 == checksum(&stored.snap));
    (is_whole && stored.snap.id == id).then_some(stored.snap)
}

/// What a directory of snapshots has.
#[derive(Debug, Default)]
pub(super) struct Survey {
    /// In order of time.
    pub(super) kept: Vec<Snap>,
    /// A line for each snapshot that cannot be listed.
    pub(super) told: Vec<String>,
}

/// Reads the descriptions, and removes what a killed daemon left.
pub(super) fn survey(dir: &Path) -> io::Result<Survey> {
    let mut survey = Survey::default();
    for entry in fs::read_dir(dir)?.flatten() {
        let (path, name) = (entry.path(), entry.file_name().to_string_lossy().into_owned());
        let Some((id, suffix)) = name.rsplit_once('.').filter(|(id, _)| is_id(id)) else {
            continue;
        };
        let recording = dir.join(format!("{id}.transect"));
        match suffix {
            "json" => survey.description(&path, id, &recording),
            "transect" => survey.recording(&path, &dir.join(format!("{id}.json"))),
            REMOVED => {
                let _ = fs::remove_dir_all(&path);
            }
            _ => {}
        }
    }
    survey.kept.sort_by(|a, b| (a.taken_unix_ns, &a.id).cmp(&(b.taken_unix_ns, &b.id)));
    survey.told.sort();
    Ok(survey)
}

impl Survey {
    fn description(&mut self, path: &Path, id: &str, recording: &Path) {
        // Not a symbolic link to one.
        let is_dir = fs::symlink_metadata(recording).is_ok_and(|facts| facts.is_dir());
        match read(path, id) {
            Some(snap) if is_dir => self.kept.push(snap),
            Some(_) => self.told.push(format!(
                "{}: the recording of this snapshot is gone: remove the description",
                recording.display()
            )),
            None => self.told.push(format!(
                "{}: the description of a snapshot is damaged: the snapshot is not listed. Read {} with `transect view`, or remove both",
                path.display(),
                recording.display()
            )),
        }
    }

    fn recording(&mut self, path: &Path, description: &Path) {
        if description.exists() {
            return;
        }
        if is_finished(path) {
            self.told.push(format!(
                "{}: the description of a snapshot is missing: the snapshot is not listed. Read {} with `transect view`, or remove it",
                description.display(),
                path.display()
            ));
        } else {
            let _ = fs::remove_dir_all(path);
        }
    }
}

/// Was the recording written to its end?
fn is_finished(recording: &Path) -> bool {
    let text = fs::read(recording.join("manifest.json")).unwrap_or_default();
    let manifest: serde_json::Value = serde_json::from_slice(&text).unwrap_or_default();
    manifest["finished"] == true
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests report by failing")]
    use super::*;

    const ID: &str = "20260101T000000Z";

    fn snap() -> Snap {
        Snap {
            id: ID.to_owned(),
            taken_unix_ns: 1_767_225_600_123_456_789,
            seconds: 10,
            reason: "slow".to_owned(),
            trigger: None,
            events: 6487,
            lost: 0,
            bytes: 79_753,
            from_unix_ns: Some(1_767_225_590_123_456_789),
            until_unix_ns: None,
        }
    }

    /// A directory with one snapshot.
    fn one(text: Option<&[u8]>, is_finished: bool) -> (tempfile::TempDir, std::path::PathBuf) {
        let dir = tempfile::tempdir().unwrap();
        let recording = dir.path().join(format!("{ID}.transect"));
        fs::create_dir(&recording).unwrap();
        let manifest = format!("{{\"finished\":{is_finished}}}");
        fs::write(recording.join("manifest.json"), manifest).unwrap();
        if let Some(text) = text {
            fs::write(dir.path().join(format!("{ID}.json")), text).unwrap();
        }
        (dir, recording)
    }

    #[test]
    fn each_flipped_bit_of_a_description_is_stated_or_changes_nothing() {
        let text = text_of(&snap());
        for bit in 0..text.len() * 8 {
            let mut damaged = text.clone();
            damaged[bit / 8] ^= 1 << (bit % 8);
            let (dir, recording) = one(Some(&damaged), true);
            let survey = survey(dir.path()).unwrap();
            assert!(recording.is_dir(), "the recording was removed");
            match survey.kept.first() {
                Some(kept) => assert_eq!(*kept, snap(), "bit {bit}"),
                None => assert!(survey.told[0].contains(&format!("{ID}.json")), "bit {bit}"),
            }
        }
    }

    #[test]
    fn a_whole_recording_without_a_description_stays() {
        let (dir, recording) = one(None, true);
        let found = survey(dir.path()).unwrap();
        assert!(recording.is_dir() && found.kept.is_empty());
        assert!(found.told[0].contains("is missing"), "{found:?}");
    }

    #[test]
    fn what_a_killed_daemon_left_is_removed() {
        let (dir, recording) = one(None, false);
        fs::create_dir(dir.path().join(format!("{ID}-1.{REMOVED}"))).unwrap();
        let found = survey(dir.path()).unwrap();
        assert!(!recording.exists() && found.told.is_empty(), "{found:?}");
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
    }

    #[test]
    fn a_description_without_its_recording_is_stated() {
        let (dir, recording) = one(Some(&text_of(&snap())), true);
        fs::remove_dir_all(recording).unwrap();
        let found = survey(dir.path()).unwrap();
        assert!(found.kept.is_empty() && found.told[0].contains("is gone"), "{found:?}");
    }
}
