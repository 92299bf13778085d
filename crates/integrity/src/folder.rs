//! A folder of tables: which Parquet files it has, and what each was when it was written.
//!
//! ```text
//! stamp.json (sealed) ── "checksums": bytes and CRC-32 ──▶ checksums.bin ── blocks ──▶ *.parquet
//! ```
//! A folder without both files is one that another program wrote: it is read and not verified.

use crate::checked::CheckedFile;
use crate::damage::{Damage, What};
use crate::list::{LIST_FILE_NAME, List};
use crate::seal::{Seal, seal_of};
use crate::sums::FileSums;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

/// The file that states what a folder of tables is; written last.
pub const STAMP_FILE_NAME: &str = "stamp.json";

/// Folders within one another; tables have three.
const MAX_DEPTH: usize = 8;

/// What a stamp has of the list of checksums beside it, as its member `checksums`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ListSum {
    /// Length of `checksums.bin`.
    pub bytes: u64,
    /// CRC-32 of all of it.
    pub crc32: u32,
}

impl ListSum {
    /// Of an encoded list.
    pub fn of(list: &[u8]) -> Self {
        ListSum { bytes: list.len() as u64, crc32: crc32fast::hash(list) }
    }
}

/// The member of a stamp that is of interest here.
#[derive(Deserialize)]
struct Link {
    checksums: ListSum,
}

/// An open folder of tables. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Folder {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    dir: PathBuf,
    /// None: written by another program.
    files: Option<BTreeMap<String, Arc<FileSums>>>,
    found: Arc<OnceLock<Damage>>,
}

/// A file of a folder: where it is and what it was when it was written.
#[derive(Clone, Debug)]
pub struct KnownFile {
    path: PathBuf,
    sums: Option<Arc<FileSums>>,
    found: Arc<OnceLock<Damage>>,
}

/// What [`Folder::verify`] found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Verified {
    /// Parquet files that are what was written.
    pub whole: u64,
    /// Bytes of these.
    pub bytes: u64,
    /// The others, and damaged files that describe the folder.
    pub damage: Vec<Damage>,
    /// Files were there, and no checksums to verify them by.
    pub is_unknown: bool,
}

impl Folder {
    /// Opens a folder and verifies the stamp, the list of checksums, and that exactly the listed Parquet
    /// files are there, each with its length. Their content is verified as it is read.
    ///
    /// # Errors
    /// It cannot be read, or holds other files than were written ([`damage_in`](crate::damage_in) the error).
    pub fn open(dir: &Path) -> io::Result<Self> {
        let (folder, mut damage) = Self::look(dir)?;
        match damage.is_empty() {
            true => Ok(folder),
            false => Err(damage.swap_remove(0).into()),
        }
    }

    /// Reads and verifies every byte of a folder.
    ///
    /// # Errors
    /// It cannot be read. Damage is no error: it is in the result.
    pub fn verify(dir: &Path) -> io::Result<Verified> {
        let (folder, damage) = Self::look(dir)?;
        let Some(files) = &folder.inner.files else {
            let is_unknown = damage.is_empty();
            return Ok(Verified { damage, is_unknown, ..Verified::default() });
        };
        let mut verified = Verified { damage, ..Verified::default() };
        for (name, sums) in files {
            let path = dir.join(name);
            if verified.damage.iter().any(|damage| damage.path == path) {
                continue;
            }
            let read = CheckedFile::open(&path, Some(Arc::clone(sums)))
                .and_then(|file| file.verify().map(|_| file.bytes()));
            match read {
                Ok(bytes) => {
                    verified.whole += 1;
                    verified.bytes += bytes;
                }
                Err(error) => match crate::damage_in(&error) {
                    Some(damage) => verified.damage.push(damage.clone()),
                    None => return Err(error),
                },
            }
        }
        Ok(verified)
    }

    /// Makes every later opening of a folder that has checksums fail until its tables are made again: for a
    /// program that found damage while it read them. Does nothing where the folder cannot be written.
    pub fn distrust(dir: &Path) {
        if dir.join(LIST_FILE_NAME).exists() {
            let _ = fs::remove_file(dir.join(STAMP_FILE_NAME));
        }
    }

    /// Where it is.
    pub fn dir(&self) -> &Path {
        &self.inner.dir
    }

    /// Are there checksums to verify its files by?
    pub fn is_verified(&self) -> bool {
        self.inner.files.is_some()
    }

    /// The file at a path in the folder.
    ///
    /// # Errors
    /// It is not one of those that were written.
    pub fn file(&self, path: &Path) -> io::Result<KnownFile> {
        let known =
            |sums| KnownFile { path: path.to_owned(), sums, found: Arc::clone(&self.inner.found) };
        let Some(files) = &self.inner.files else { return Ok(known(None)) };
        let name = path.strip_prefix(&self.inner.dir).unwrap_or(path).to_string_lossy();
        match files.get(name.as_ref()) {
            Some(sums) => Ok(known(Some(Arc::clone(sums)))),
            None => Err(Damage { path: path.to_owned(), what: What::Unlisted }.into()),
        }
    }

    /// The first damage that was found in any of its files, by whatever read them.
    pub fn damage(&self) -> Option<&Damage> {
        self.inner.found.get()
    }

    /// Everything but the content of the Parquet files.
    fn look(dir: &Path) -> io::Result<(Self, Vec<Damage>)> {
        let mut damage = Vec::new();
        let files = match list_of(dir)? {
            Ok(Some(list)) => Some(list),
            Ok(None) => None,
            Err(found) => {
                damage.push(found);
                None
            }
        };
        if let Some(files) = &files {
            let mut found = BTreeMap::new();
            walk(dir, dir, 0, &mut found)?;
            let differ = |(name, sums): (&String, &Arc<FileSums>)| {
                let what = match found.get(name) {
                    None => What::Missing,
                    Some(bytes) if *bytes != sums.bytes => {
                        What::Length { found: *bytes, written: sums.bytes }
                    }
                    Some(_) => return None,
                };
                Some(Damage { path: dir.join(name), what })
            };
            damage.extend(files.iter().filter_map(differ));
            let unlisted = found.keys().filter(|name| !files.contains_key(*name));
            let unlisted = unlisted.map(|name| (dir.join(name), What::Unlisted));
            damage.extend(unlisted.map(|(path, what)| Damage { path, what }));
        }
        let inner = Inner { dir: dir.to_owned(), files, found: Arc::default() };
        Ok((Folder { inner: Arc::new(inner) }, damage))
    }
}

impl KnownFile {
    /// A file that nothing is known of.
    pub fn unknown(path: &Path) -> Self {
        KnownFile { path: path.to_owned(), sums: None, found: Arc::default() }
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Opens it; its length is verified at once and its blocks as they are read.
    ///
    /// # Errors
    /// It cannot be opened, or is another one than was written.
    pub fn open(&self) -> io::Result<CheckedFile> {
        CheckedFile::open_noting(&self.path, self.sums.clone(), Arc::clone(&self.found))
    }

    /// The first damage that was found in any file of its folder: libraries turn errors into texts.
    pub fn damage(&self) -> Option<&Damage> {
        self.found.get()
    }
}

type Files = BTreeMap<String, Arc<FileSums>>;

/// The checksums of a folder's files; none where another program wrote them.
fn list_of(dir: &Path) -> io::Result<Result<Option<Files>, Damage>> {
    let (stamp, list) = (dir.join(STAMP_FILE_NAME), dir.join(LIST_FILE_NAME));
    let damaged = |path: &Path, what| Ok(Err(Damage { path: path.to_owned(), what }));
    let Some(text) = read(&stamp)? else {
        // With a look at the folder itself: one that is not there is an error.
        let is_ours = dir.read_dir().map(|_| list.exists())?;
        return if is_ours { damaged(&stamp, What::Distrusted) } else { Ok(Ok(None)) };
    };
    let Ok(text) = String::from_utf8(text) else { return damaged(&stamp, What::Sum) };
    match seal_of(&text) {
        Seal::Whole => {}
        Seal::Broken => return damaged(&stamp, What::Sum),
        Seal::None => return damaged(&stamp, What::NoSum),
    }
    let Ok(Link { checksums }) = serde_json::from_str(&text) else {
        return damaged(&stamp, What::NoSum);
    };
    let Some(bytes) = read(&list)? else { return damaged(&list, What::Missing) };
    if ListSum::of(&bytes) != checksums {
        return damaged(&list, What::Sum);
    }
    match List::decode(&bytes) {
        Ok(list) => {
            let files = list.files.into_iter().map(|(name, sums)| (name, Arc::new(sums)));
            Ok(Ok(Some(files.collect())))
        }
        Err(error) => damaged(&list, What::List(error)),
    }
}

fn read(path: &Path) -> io::Result<Option<Vec<u8>>> {
    match fs::read(path) {
        Ok(bytes) => Ok(Some(bytes)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// Every Parquet file below a folder, by its name from there, and its length.
fn walk(top: &Path, dir: &Path, depth: usize, found: &mut BTreeMap<String, u64>) -> io::Result<()> {
    for entry in fs::read_dir(dir)? {
        let path = entry?.path();
        let Ok(about) = fs::metadata(&path) else { continue };
        if about.is_dir() && depth < MAX_DEPTH {
            walk(top, &path, depth + 1, found)?;
        } else if path.extension().is_some_and(|extension| extension == "parquet") {
            let name = path.strip_prefix(top).unwrap_or(&path).to_string_lossy().into_owned();
            found.insert(name, about.len());
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::seal::seal;

    const NAMES: [&str; 3] = ["a/bucket=0.parquet", "a/bucket=1.parquet", "b/late=0.parquet"];

    /// A folder of three files as the store writes it.
    fn written() -> tempfile::TempDir {
        let dir = tempfile::tempdir().unwrap();
        let mut list = List::default();
        for (number, name) in NAMES.iter().enumerate() {
            let path = dir.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            let content = vec![number.to_le_bytes()[0]; 20_000 * number];
            fs::write(path, &content).unwrap();
            list.files.insert((*name).to_owned(), FileSums::of(&content));
        }
        let bytes = list.encode();
        let ListSum { bytes: length, crc32 } = ListSum::of(&bytes);
        fs::write(dir.path().join(LIST_FILE_NAME), bytes).unwrap();
        let stamp = format!(
            "{{\n  \"layout\": 2,\n  \"checksums\": {{ \"bytes\": {length}, \"crc32\": {crc32} }}\n}}"
        );
        fs::write(dir.path().join(STAMP_FILE_NAME), seal(&stamp)).unwrap();
        dir
    }

    fn damage(dir: &Path) -> (String, What) {
        let error = Folder::open(dir).unwrap_err();
        let damage = crate::damage_in(&error).unwrap().clone();
        assert_eq!(Folder::verify(dir).unwrap().damage[0], damage);
        let name = damage.path.strip_prefix(dir).unwrap().to_string_lossy().into_owned();
        (name, damage.what)
    }

    #[test]
    fn whole_folder_opens_and_its_files_are_verified_as_they_are_read() {
        let dir = written();
        let dir = dir.path();
        let folder = Folder::open(dir).unwrap();
        assert!(folder.is_verified());
        let path = dir.join(NAMES[2]);
        fs::write(&path, vec![3; 40_000]).unwrap();
        let file = Folder::open(dir).unwrap().file(&path).unwrap();
        let checked = file.open().unwrap();
        assert!(file.damage().is_none() && checked.read_range(0..10).is_err());
        let what = What::Block { offset: 0 };
        assert_eq!(file.damage(), Some(&Damage { path: path.clone(), what }));
        let verified = Folder::verify(dir).unwrap();
        assert_eq!((verified.whole, verified.bytes, verified.damage.len()), (2, 20_000, 1));
        assert!(folder.file(&dir.join("c/bucket=0.parquet")).is_err());
    }

    #[test]
    fn other_files_than_were_written_are_damage() {
        let dir = written();
        let dir = dir.path();
        let file = dir.join(NAMES[1]);
        let content = fs::read(&file).unwrap();
        fs::write(&file, &content[1..]).unwrap();
        let what = What::Length { found: 19_999, written: 20_000 };
        assert_eq!(damage(dir), (NAMES[1].to_owned(), what));
        fs::remove_file(&file).unwrap();
        assert_eq!(damage(dir), (NAMES[1].to_owned(), What::Missing));
        fs::write(&file, content).unwrap();
        fs::write(dir.join("a/bucket=2.parquet"), "").unwrap();
        assert_eq!(damage(dir), ("a/bucket=2.parquet".to_owned(), What::Unlisted));
        // What no reader of tables reads.
        fs::rename(dir.join("a/bucket=2.parquet"), dir.join("a/notes.txt")).unwrap();
        Folder::open(dir).unwrap();
    }

    #[test]
    fn every_flip_in_stamp_and_list_is_damage() {
        let dir = written();
        let dir = dir.path();
        for name in [STAMP_FILE_NAME, LIST_FILE_NAME] {
            let path = dir.join(name);
            let whole = fs::read(&path).unwrap();
            for at in 0..whole.len() {
                let mut bytes = whole.clone();
                bytes[at] ^= 1;
                fs::write(&path, &bytes).unwrap();
                assert_eq!(damage(dir).0, name, "byte {at}");
            }
            fs::remove_file(&path).unwrap();
            assert_eq!(damage(dir).0, name);
            fs::write(&path, whole).unwrap();
        }
        Folder::open(dir).unwrap();
    }

    #[test]
    fn distrusted_folder_does_not_open_and_foreign_files_do() {
        let dir = written();
        Folder::distrust(dir.path());
        assert_eq!(damage(dir.path()), (STAMP_FILE_NAME.to_owned(), What::Distrusted));
        fs::remove_file(dir.path().join(LIST_FILE_NAME)).unwrap();
        let folder = Folder::open(dir.path()).unwrap();
        assert!(!folder.is_verified());
        folder.file(&dir.path().join(NAMES[1])).unwrap().open().unwrap();
        assert!(Folder::verify(dir.path()).unwrap().is_unknown);
        assert!(Folder::open(&dir.path().join("none")).is_err());
    }
}
