//! Is a recording what was written? Every byte of its own files is read; its tables are another crate's.

use crate::{
    checksums,
    error::{StoreError, io_error},
    evidence::CLOCKS_FILE_NAME,
    manifest::{COPIES, FILE_NAME, Manifest, why},
    mapping::Mapping,
    replace::replace,
};
use std::{
    collections::BTreeMap,
    fs, io,
    ops::Range,
    path::{Path, PathBuf},
};
use transect_compact::Compact;
use transect_integrity::{FileSums, LIST_FILE_NAME, List, Seal, seal_of, seal_of_line};

/// A file of a recording, and whether it is what was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileCheck {
    /// Its name in the directory.
    pub name: String,
    /// Its length; none if it is missing.
    pub bytes: Option<u64>,
    /// What was found.
    pub state: FileState,
    /// Can [`repair`] make it what was written, of what is still there?
    pub can_be_repaired: bool,
}

/// Whether a file is what was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FileState {
    /// It is.
    Whole,
    /// Nothing tells: why.
    Unverified(String),
    /// It is not: what is wrong, each place on a line of its own.
    Damaged(Vec<String>),
}

impl FileCheck {
    /// Is it not what was written?
    pub fn is_damaged(&self) -> bool {
        matches!(self.state, FileState::Damaged(_))
    }
}

/// Reads every file of the recording in `dir` but its tables and tiles, and verifies it.
///
/// # Errors
/// The directory cannot be read, or is no recording.
pub fn verify(dir: &Path) -> Result<Vec<FileCheck>, StoreError> {
    let manifest = Manifest::read(dir);
    let mut files = vec![manifest_check(&dir.join(FILE_NAME))];
    let manifest = match manifest {
        Ok(manifest) => manifest,
        Err(error @ StoreError::NotARecording { .. }) => return Err(error),
        // Nothing else is understood without it.
        Err(_) => return Ok(files),
    };
    files[0].can_be_repaired = files[0].is_damaged();
    let list = list_of(dir, &manifest, &mut files);
    for name in names(dir, &manifest)? {
        files.push(check(dir, &name, &manifest, &list)?);
    }
    let of_copies = copies(dir, &manifest, &files)?;
    files.extend(of_copies);
    let copy_is_whole = |name: &str, files: &[FileCheck]| {
        let copy = format!("{COPIES}/{name}");
        files.iter().any(|file| file.name == copy && file.state == FileState::Whole)
    };
    for at in 0..files.len() {
        if files[at].name == CLOCKS_FILE_NAME && files[at].is_damaged() {
            files[at].can_be_repaired = copy_is_whole(CLOCKS_FILE_NAME, &files);
        }
    }
    Ok(files)
}

/// Makes files what was written, of the copies of them that are whole. Which ones.
///
/// # Errors
/// The recording cannot be read, or a file cannot be written.
pub fn repair(dir: &Path) -> Result<Vec<String>, StoreError> {
    let checks = verify(dir)?;
    let is_whole =
        |name: &str| checks.iter().any(|file| file.name == name && file.state == FileState::Whole);
    let mut repaired = Vec::new();
    for name in [FILE_NAME, CLOCKS_FILE_NAME] {
        let copy = format!("{COPIES}/{name}");
        for (from, to) in [(copy.as_str(), name), (name, copy.as_str())] {
            let is_damaged = checks.iter().any(|file| file.name == to && file.is_damaged());
            if is_damaged && is_whole(from) {
                let folder = dir.join(COPIES);
                if !folder.is_dir() {
                    transect_access::create_dir(&folder).map_err(io_error("make", &folder))?;
                }
                let from = dir.join(from);
                let bytes = fs::read(&from).map_err(io_error("read", &from))?;
                replace(&dir.join(to), &bytes)?;
                repaired.push(to.to_owned());
            }
        }
    }
    Ok(repaired)
}

/// The files to look at beside the manifest, by name: those that were there when the recording was finished, and its
/// sources.
fn names(dir: &Path, manifest: &Manifest) -> Result<Vec<String>, StoreError> {
    let mut names: BTreeMap<String, ()> = BTreeMap::new();
    names.extend(manifest.files.keys().map(|name| (name.clone(), ())));
    let sources = manifest.sources.iter().filter(|entry| !entry.spooled);
    names.extend(sources.map(|entry| (entry.file.clone(), ())));
    if manifest.excerpt.is_none() {
        names.insert(CLOCKS_FILE_NAME.to_owned(), ());
    }
    // What a recorder left that was killed.
    for entry in fs::read_dir(dir).map_err(io_error("list", dir))? {
        let entry = entry.map_err(io_error("list", dir))?;
        let name = entry.file_name().to_string_lossy().into_owned();
        if name.ends_with(".raw") {
            names.insert(name, ());
        }
    }
    names.remove(LIST_FILE_NAME);
    Ok(names.into_keys().collect())
}

fn manifest_check(path: &Path) -> FileCheck {
    let is_sealed = |bytes: Vec<u8>| seal_of(&String::from_utf8_lossy(&bytes)) == Seal::Whole;
    let state = match Manifest::read_file(path) {
        Err(StoreError::Io { source, .. }) if source.kind() == io::ErrorKind::NotFound => {
            damaged("the file is missing")
        }
        Err(error) => damaged(&why(&error)),
        Ok(_) if fs::read(path).is_ok_and(is_sealed) => FileState::Whole,
        Ok(_) => FileState::Unverified("it has no checksum".to_owned()),
    };
    let bytes = fs::metadata(path).ok().map(|facts| facts.len());
    FileCheck { name: FILE_NAME.to_owned(), bytes, state, can_be_repaired: false }
}

fn damaged(what: &str) -> FileState {
    FileState::Damaged(vec![what.to_owned()])
}

/// The list of checksums, and its own check if the recording has one.
fn list_of(dir: &Path, manifest: &Manifest, files: &mut Vec<FileCheck>) -> List {
    if !manifest.files.contains_key(LIST_FILE_NAME) {
        return List::default();
    }
    let mut problems = Vec::new();
    let list = checksums::read(dir, manifest, &mut problems);
    let bytes = fs::metadata(dir.join(LIST_FILE_NAME)).ok().map(|facts| facts.len());
    let state = match problems.first() {
        Some(problem) => damaged(&problem.message),
        None => FileState::Whole,
    };
    let name = LIST_FILE_NAME.to_owned();
    files.push(FileCheck { name, bytes, state, can_be_repaired: false });
    list
}

/// Checks one file.
fn check(
    dir: &Path,
    name: &str,
    manifest: &Manifest,
    list: &List,
) -> Result<FileCheck, StoreError> {
    let path = dir.join(name);
    let made =
        |bytes, state| FileCheck { name: name.to_owned(), bytes, state, can_be_repaired: false };
    let map = match Mapping::open(&path) {
        Ok(map) => map,
        Err(StoreError::Io { source, .. }) if source.kind() == io::ErrorKind::NotFound => {
            return Ok(made(None, damaged("the file is missing")));
        }
        Err(error) => return Ok(made(None, damaged(&why(&error)))),
    };
    let bytes = map.len() as u64;
    let mut found = Vec::new();
    let written = manifest.files.get(name).map(|entry| entry.bytes);
    if let Some(written) = written.filter(|written| *written != bytes) {
        found.push(format!("the file has {bytes} bytes; {written} were written"));
    }
    let end = manifest.files.get(name).and_then(|entry| Some((entry.bytes, entry.end?)));
    if end.is_some_and(|(bytes, end)| checksums::end_of(&map, bytes) != end) {
        found.push("its end is not what was written".to_owned());
    }
    let is_verified = Mapping::read_through(&[&map], || match list.files.get(name) {
        Some(sums) => {
            found.extend(blocks(sums, &map));
            true
        }
        None => own(name, &map, manifest, &mut found),
    });
    let state = match (found.is_empty(), is_verified) {
        (false, _) => FileState::Damaged(found),
        (true, true) => FileState::Whole,
        (true, false) => FileState::Unverified(match manifest.finished {
            true => "it has no checksum".to_owned(),
            false => "the recorder ended before it took checksums".to_owned(),
        }),
    };
    Ok(made(Some(bytes), state))
}

/// The damaged ranges of a file, for people.
fn blocks(sums: &FileSums, content: &[u8]) -> Vec<String> {
    let line =
        |Range { start, end }: Range<u64>| format!("bytes {start} to {end}: the checksum is wrong");
    sums.damage(content).into_iter().map(line).collect()
}

/// What the file's own checksums tell; false if it has none.
fn own(name: &str, content: &[u8], manifest: &Manifest, found: &mut Vec<String>) -> bool {
    if name == CLOCKS_FILE_NAME {
        let (lines, is_sealed) = lines(content);
        found.extend(lines);
        return is_sealed;
    }
    if !checksums::is_compact(name, manifest) {
        return false;
    }
    match Compact::parse(content) {
        Ok(file) => {
            let of_blocks = file.damaged_blocks();
            found.extend(file.problems().iter().chain(&of_blocks).map(
                |problem| match problem.log {
                    Some(log) => format!("byte {}: {log}: {}", problem.at_bytes, problem.what),
                    None => format!("byte {}: {}", problem.at_bytes, problem.what),
                },
            ));
            if manifest.finished && file.totals().is_none() {
                found.push("its last block is missing".to_owned());
            }
        }
        Err(error) => found.push(error.to_string()),
    }
    true
}

/// The damaged lines of clock evidence, and whether the others are sealed.
fn lines(content: &[u8]) -> (Vec<String>, bool) {
    let text = String::from_utf8_lossy(content);
    let has_seals = text.lines().any(|line| seal_of_line(line) == Seal::Whole);
    let is_object = |line: &str| serde_json::from_str::<serde_json::Value>(line).is_ok();
    let check = |(at, line): (usize, &str)| {
        let what = match seal_of_line(line) {
            Seal::Broken => "its checksum is wrong",
            Seal::None if has_seals => "its checksum is missing",
            Seal::None if !is_object(line) => "it is no JSON object",
            Seal::Whole | Seal::None => return None,
        };
        Some(format!("line {}: {what}", at + 1))
    };
    let found: Vec<_> = text.lines().enumerate().filter_map(check).collect();
    (found, has_seals || text.is_empty())
}

/// The copies, compared with what they are of where that is whole.
fn copies(
    dir: &Path,
    manifest: &Manifest,
    files: &[FileCheck],
) -> Result<Vec<FileCheck>, StoreError> {
    // An unfinished recording and an excerpt have none.
    if manifest.files.is_empty() {
        return Ok(Vec::new());
    }
    let mut checks = Vec::new();
    for name in [FILE_NAME, CLOCKS_FILE_NAME] {
        let path: PathBuf = dir.join(COPIES).join(name);
        let of = files.iter().find(|file| file.name == name);
        let original = of.filter(|file| file.state == FileState::Whole).map(|_| dir.join(name));
        let copy = fs::read(&path);
        let state = match (&copy, original.map(fs::read)) {
            (Err(error), _) if error.kind() == io::ErrorKind::NotFound => {
                damaged("the file is missing")
            }
            (Err(error), _) => damaged(&format!("cannot be read: {error}")),
            (Ok(copy), Some(Ok(original))) if *copy != original => {
                damaged("it differs from what it is a copy of")
            }
            (Ok(_), Some(Ok(_))) => FileState::Whole,
            (Ok(_), _) if name == FILE_NAME => manifest_check(&path).state,
            (Ok(copy), _) => {
                let (mut found, _) = lines(copy);
                let written = manifest.files.get(name).map(|entry| entry.bytes);
                if written.is_some_and(|written| written != copy.len() as u64) {
                    found.push(format!("the file has {} bytes", copy.len()));
                }
                if found.is_empty() { FileState::Whole } else { FileState::Damaged(found) }
            }
        };
        let can_be_repaired = matches!(state, FileState::Damaged(_))
            && of.is_some_and(|file| file.state == FileState::Whole);
        let bytes = copy.ok().map(|copy| copy.len() as u64);
        let name = format!("{COPIES}/{name}");
        checks.push(FileCheck { name, bytes, state, can_be_repaired });
    }
    Ok(checks)
}
