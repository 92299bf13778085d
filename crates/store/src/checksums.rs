//! The lengths and checksums of a recording's files, taken when it is finished and verified when it is opened.
//!
//! Compact files have checksums of their own, and lines of `clocks.jsonl` and the manifest are sealed. All
//! other files are in `checksums.bin`. The manifest has the length of every file, so that one that was cut
//! between two blocks or lines, or removed, does not pass for a shorter recording.

use crate::{
    error::{StoreError, io_error},
    evidence::CLOCKS_FILE_NAME,
    manifest::{COPIES, FileEntry, Manifest, SourceEntry, SourceFormat},
    mapping::Mapping,
    problem::OpenProblem,
    replace::replace,
};
use std::{
    collections::BTreeMap,
    fs::{self, File},
    io::{self, Read, Write},
    path::Path,
};
use transect_compact::Compact;
use transect_integrity::{FileSums, LIST_FILE_NAME, List, SummingWriter};
use transect_tracedat::TraceDat;
use transect_xentrace::{XenTrace, XenVersion};

/// Bytes read between two looks at whether to give up.
const READ_BYTES: u64 = 64 << 20;

/// Writes `checksums.bin` for the files that have no checksums of their own. False if `gives_up` ended it: then
/// there is no list.
pub(crate) fn write(
    dir: &Path,
    manifest: &Manifest,
    gives_up: &dyn Fn() -> bool,
) -> Result<bool, StoreError> {
    let mut list = List::default();
    for (name, _) in files(dir)? {
        if has_own(&name, manifest) {
            continue;
        }
        let path = dir.join(&name);
        match sums_of(&path, gives_up).map_err(io_error("read", &path))? {
            Some(sums) => list.files.insert(name, sums),
            None => return Ok(false),
        };
    }
    if !list.files.is_empty() {
        replace(&dir.join(LIST_FILE_NAME), &list.encode())?;
    }
    Ok(true)
}

/// Every file that is kept but the manifest, by its name.
pub(crate) fn entries(
    dir: &Path,
    manifest: &Manifest,
) -> Result<BTreeMap<String, FileEntry>, StoreError> {
    let mut files = files(dir)?;
    files.remove(crate::manifest::FILE_NAME);
    let entries = files.into_iter().map(|(name, bytes)| {
        let entry = match manifest.sources.iter().find(|source| source.file == name) {
            Some(source) => source_entry(dir, source, bytes)?,
            None => FileEntry { bytes, ..FileEntry::default() },
        };
        Ok((name, entry))
    });
    entries.collect()
}

/// What is known of a source without reading all of it; where it cannot be read, less.
fn source_entry(dir: &Path, source: &SourceEntry, bytes: u64) -> Result<FileEntry, StoreError> {
    let file = Mapping::open(&dir.join(&source.file))?;
    let mut entry = FileEntry { bytes, ..FileEntry::default() };
    match source.format {
        SourceFormat::Compact => {
            entry.end = Some(end_of(&file, bytes));
            let Ok(compact) = Compact::parse(&file) else { return Ok(entry) };
            let begins = |log| compact.chunks(log).next().map_or(0, |chunk| chunk.sync.get());
            let logs = compact.logs().map(|log| (log.cpu, log.side, begins(log)));
            entry.logs = logs.collect();
            entry.span = compact.span().map(|(first, last)| (first.get(), last.get()));
        }
        SourceFormat::TraceDat => {
            let Ok(trace) = TraceDat::parse(&file) else { return Ok(entry) };
            let ranges = trace.event_ranges().into_iter();
            entry.events = ranges.map(|range| (range.start, range.end)).collect();
            entry.span = trace.span(&source.clock).map(|(first, last)| (first.get(), last.get()));
        }
        // The records' layout does not matter for their stamps.
        SourceFormat::Xentrace => {
            let trace = XenTrace::parse(&file, XenVersion::Unknown);
            entry.span = trace.ok().and_then(|trace| trace.span());
        }
    }
    Ok(entry)
}

/// Bytes at the end of a file that tell it from another of its format.
const END_BYTES: u64 = 4096;

/// The checksum of the end of a file that has so many bytes.
pub(crate) fn end_of(content: &[u8], bytes: u64) -> u32 {
    let at = |offset: u64| usize::try_from(offset).unwrap_or(usize::MAX).min(content.len());
    crc32fast::hash(&content[at(bytes.saturating_sub(END_BYTES))..at(bytes)])
}

/// The files of a recording, without those that are there only while it is made, and their lengths.
fn files(dir: &Path) -> Result<BTreeMap<String, u64>, StoreError> {
    let mut files = BTreeMap::new();
    for entry in fs::read_dir(dir).map_err(io_error("list", dir))? {
        let entry = entry.map_err(io_error("list", dir))?;
        let Ok(name) = entry.file_name().into_string() else { continue };
        let is_kept = !name.starts_with('.') && !name.ends_with(".tmp") && !name.ends_with(".raw");
        let facts = entry.metadata().map_err(io_error("look at", entry.path()))?;
        if is_kept && facts.is_file() {
            files.insert(name, facts.len());
        }
    }
    Ok(files)
}

/// Does the file tell by itself whether it is what was written?
fn has_own(name: &str, manifest: &Manifest) -> bool {
    [crate::manifest::FILE_NAME, CLOCKS_FILE_NAME, LIST_FILE_NAME].contains(&name)
        || is_compact(name, manifest)
}

/// Is it a source of the compact format, whose blocks have checksums?
pub(crate) fn is_compact(name: &str, manifest: &Manifest) -> bool {
    let is_it = |entry: &SourceEntry| entry.file == name && entry.format == SourceFormat::Compact;
    manifest.sources.iter().any(is_it)
}

/// The checksums of a file, read once through; none if `gives_up` ended it.
fn sums_of(path: &Path, gives_up: &dyn Fn() -> bool) -> io::Result<Option<FileSums>> {
    let mut file = File::open(path)?;
    let mut sums = SummingWriter::new(io::sink());
    let mut buffer = vec![0; 1 << 20];
    let mut since = 0;
    loop {
        let read = file.read(&mut buffer)?;
        if read == 0 {
            return Ok(Some(sums.sums()));
        }
        sums.write_all(buffer.get(..read).unwrap_or_default())?;
        since += read as u64;
        if since >= READ_BYTES {
            since = 0;
            if gives_up() {
                return Ok(None);
            }
        }
    }
}

/// Writes the copies of what all other files are understood by.
pub(crate) fn write_copies(dir: &Path) -> Result<(), StoreError> {
    let copies = dir.join(COPIES);
    if !copies.is_dir() {
        transect_access::create_dir(&copies).map_err(io_error("make", &copies))?;
    }
    for name in [CLOCKS_FILE_NAME, crate::manifest::FILE_NAME] {
        let path = dir.join(name);
        let bytes = fs::read(&path).map_err(io_error("read", &path))?;
        replace(&copies.join(name), &bytes)?;
    }
    Ok(())
}

/// The list in a recording that has one; what is wrong with it is a problem.
pub(crate) fn read(dir: &Path, manifest: &Manifest, problems: &mut Vec<OpenProblem>) -> List {
    if !manifest.files.contains_key(LIST_FILE_NAME) {
        return List::default();
    }
    let path = dir.join(LIST_FILE_NAME);
    let read = fs::read(&path).map_err(|error| error.to_string());
    let list = read.and_then(|bytes| List::decode(&bytes).map_err(|error| error.to_string()));
    list.unwrap_or_else(|why| {
        problems.push(OpenProblem {
            file: LIST_FILE_NAME.to_owned(),
            message: format!("{why}: the files that it is of cannot be verified"),
            data_loss: false,
        });
        List::default()
    })
}

/// Files that are missing, or have another length than when the recording was finished.
pub(crate) fn check_lengths(dir: &Path, manifest: &Manifest) -> Vec<OpenProblem> {
    let check = |(name, entry): (&String, &FileEntry)| {
        let written = entry.bytes;
        let problem = |message: String| {
            let data_loss = name != LIST_FILE_NAME;
            Some(OpenProblem { file: name.clone(), message, data_loss })
        };
        match fs::metadata(dir.join(name)) {
            Ok(facts) if facts.len() == written => None,
            Ok(facts) if facts.len() < written => {
                let missing = written - facts.len();
                problem(format!("cut: the last {missing} of {written} bytes are missing"))
            }
            Ok(facts) => {
                let added = facts.len() - written;
                problem(format!("{added} bytes were added to the {written} that were written"))
            }
            // A source that is missing is told by whoever opens it.
            Err(_) if manifest.sources.iter().any(|entry| entry.file == *name) => None,
            Err(error) => problem(format!("cannot be read: {error}")),
        }
    };
    manifest.files.iter().filter_map(check).collect()
}
