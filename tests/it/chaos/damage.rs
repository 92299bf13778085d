//! What happens to a file: bit flips, overwritten stretches, cuts, deletions, exchanges.

use super::random::Random;
use anyhow::{Context, Result, bail};
use std::{
    fmt,
    fs::{self, File, FileTimes},
    path::{Path, PathBuf},
};

/// The unit in which disks and file systems lose data.
const BLOCK: u64 = 4096;
/// The longest stretch that is overwritten.
const LONGEST: u64 = 8192;

/// What is in a stretch afterwards.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Fill {
    Zeros,
    Ones,
    Random(u64),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Change {
    Flip {
        bit: u64,
    },
    Overwrite {
        at: u64,
        len: u64,
        fill: Fill,
    },
    Cut {
        len: u64,
    },
    Empty,
    Delete,
    /// The folder so many levels above the file.
    DeleteFolder {
        up: usize,
    },
    ReplaceWith(PathBuf),
    Duplicate {
        at: u64,
        len: u64,
    },
    Swap {
        a: u64,
        b: u64,
    },
}

/// One damage of one file, whose path begins at the directory of the case.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Damage {
    pub(crate) file: PathBuf,
    pub(crate) change: Change,
    /// Bit rot does not change the time of modification; a program that writes does.
    pub(crate) keeps_time: bool,
}

impl fmt::Display for Damage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let time = if self.keeps_time { ", time kept" } else { "" };
        write!(f, "{}: {:?}{time}", self.file.display(), self.change)
    }
}

impl Change {
    /// The word in the table of outcomes.
    pub(crate) fn name(&self) -> &'static str {
        match self {
            Change::Flip { .. } => "flip",
            Change::Overwrite { .. } => "overwrite",
            Change::Cut { .. } => "cut",
            Change::Empty => "empty",
            Change::Delete => "delete",
            Change::DeleteFolder { .. } => "delete folder",
            Change::ReplaceWith(_) => "replace",
            Change::Duplicate { .. } => "duplicate",
            Change::Swap { .. } => "swap",
        }
    }

    fn draw(bytes: u64, folders: usize, alike: &[PathBuf], random: &mut Random) -> Self {
        match random.below(20) {
            0..=6 => Change::Flip { bit: random.below(bytes * 8) },
            7..=10 => {
                let len = 1 + random.below(LONGEST.min(bytes));
                let fill = match random.below(3) {
                    0 => Fill::Zeros,
                    1 => Fill::Ones,
                    _ => Fill::Random(random.next()),
                };
                Change::Overwrite { at: random.below(bytes.saturating_sub(len) + 1), len, fill }
            }
            11..=13 => Change::Cut {
                len: match random.below(4) {
                    0 => bytes.saturating_sub(1),
                    1 => random.below(bytes / BLOCK + 1) * BLOCK,
                    _ => random.below(bytes),
                },
            },
            14 => Change::Empty,
            15 => Change::Delete,
            16 if folders > 0 => {
                let up = usize::try_from(random.below(folders as u64)).unwrap_or(0);
                Change::DeleteFolder { up: up + 1 }
            }
            16 => Change::Delete,
            17 => random.one_of(alike).map_or(Change::Empty, |f| Change::ReplaceWith(f.clone())),
            18 => {
                let len = 1 + random.below(LONGEST.min(bytes));
                Change::Duplicate { at: random.below(bytes.saturating_sub(len) + 1), len }
            }
            _ => {
                let blocks = bytes / BLOCK;
                Change::Swap { a: random.below(blocks) * BLOCK, b: random.below(blocks) * BLOCK }
            }
        }
    }
}

impl Damage {
    /// A random damage that changes this file. `alike` are the other files of its kind.
    pub(crate) fn draw(
        dir: &Path,
        file: &Path,
        alike: &[PathBuf],
        random: &mut Random,
    ) -> Result<Self> {
        let before = fs::read(dir.join(file)).with_context(|| format!("{}", file.display()))?;
        // Below the recording, which is the first part of the path. A data directory without its whole history is that of
        // a daemon that has just begun: nothing could tell.
        let is_history = file.iter().any(|part| part == "history");
        let folders = if is_history { 0 } else { file.iter().count().saturating_sub(2) };
        for _ in 0..100 {
            let change = Change::draw(before.len() as u64, folders, alike, random);
            let keeps_time = random.below(2) == 0;
            if changed(&change, &before, dir)?.as_ref() != Some(&before) {
                return Ok(Damage { file: file.to_path_buf(), change, keeps_time });
            }
        }
        // An empty file stays as it is under most of them.
        Ok(Damage { file: file.to_path_buf(), change: Change::Delete, keeps_time: false })
    }

    pub(crate) fn apply(&self, dir: &Path) -> Result<()> {
        let path = dir.join(&self.file);
        let facts = fs::metadata(&path).with_context(|| format!("{}", path.display()))?;
        if let Change::DeleteFolder { up } = self.change {
            let folder = path.ancestors().nth(up).context("no folder")?;
            return fs::remove_dir_all(folder).context("remove a folder");
        }
        match changed(&self.change, &fs::read(&path)?, dir)? {
            None => fs::remove_file(&path)?,
            Some(bytes) => {
                fs::write(&path, bytes)?;
                if self.keeps_time {
                    let times = FileTimes::new().set_modified(facts.modified()?);
                    File::options().write(true).open(&path)?.set_times(times)?;
                }
            }
        }
        Ok(())
    }
}

/// The content afterwards, or none for a file that is gone.
fn changed(change: &Change, before: &[u8], dir: &Path) -> Result<Option<Vec<u8>>> {
    let mut bytes = before.to_vec();
    let at = |place: u64| usize::try_from(place).context("place");
    match change {
        Change::Flip { bit } => match bytes.get_mut(at(bit / 8)?) {
            Some(byte) => *byte ^= 1 << (bit % 8),
            None if before.is_empty() => {}
            None => bail!("no bit {bit}"),
        },
        Change::Overwrite { at: from, len, fill } => {
            let len = at(*len)?;
            let content = match fill {
                Fill::Zeros => vec![0; len],
                Fill::Ones => vec![0xff; len],
                Fill::Random(seed) => Random::new(*seed).bytes(len),
            };
            let from = at(*from)?;
            let until = (from + len).min(bytes.len());
            bytes[from..until].copy_from_slice(&content[..until - from]);
        }
        Change::Cut { len } => bytes.truncate(at(*len)?),
        Change::Empty => bytes.clear(),
        Change::Delete | Change::DeleteFolder { .. } => return Ok(None),
        Change::ReplaceWith(other) => bytes = fs::read(dir.join(other))?,
        Change::Duplicate { at: from, len } => {
            let from = at(*from)?;
            let until = (from + at(*len)?).min(bytes.len());
            let again = bytes[from..until].to_vec();
            bytes.splice(until..until, again);
        }
        Change::Swap { a, b } => {
            let (a, b, len) = (at(*a)?, at(*b)?, at(BLOCK)?);
            if a.max(b) + len <= bytes.len() {
                for place in 0..len {
                    bytes.swap(a + place, b + place);
                }
            }
        }
    }
    Ok(Some(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_drawn_damage_changes_its_file_and_nothing_else() {
        let dir = tempfile::tempdir().unwrap();
        let content = Random::new(1).bytes(20_000);
        let mut random = Random::new(2);
        let mut seen = std::collections::BTreeSet::new();
        for _ in 0..300 {
            fs::create_dir_all(dir.path().join("r/f")).unwrap();
            fs::write(dir.path().join("r/f/one"), &content).unwrap();
            fs::write(dir.path().join("two"), b"two").unwrap();
            let alike = [PathBuf::from("two")];
            let damage =
                Damage::draw(dir.path(), Path::new("r/f/one"), &alike, &mut random).unwrap();
            seen.insert(damage.change.name());
            let time = || fs::metadata(dir.path().join("r/f/one")).unwrap().modified().unwrap();
            let before = time();
            damage.apply(dir.path()).unwrap();
            assert_eq!(fs::read(dir.path().join("two")).unwrap(), b"two", "{damage}");
            let after = fs::read(dir.path().join("r/f/one")).ok();
            assert_ne!(after.as_ref(), Some(&content), "{damage}");
            assert!(after.is_none() || !damage.keeps_time || time() == before, "{damage}");
        }
        assert_eq!(seen.len(), 9, "{seen:?}");
    }

    #[test]
    fn equal_seeds_give_equal_damages() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("one"), [7; 9000]).unwrap();
        let draw = |seed| {
            let mut random = Random::new(seed);
            let draws =
                (0..20).map(|_| Damage::draw(dir.path(), Path::new("one"), &[], &mut random));
            draws.collect::<Result<Vec<_>>>().unwrap()
        };
        assert_eq!(draw(5), draw(5));
        assert_ne!(draw(5), draw(6));
    }
}
