//! One series of files: where frames are appended, and which files are there.

use super::frame::Note;
use super::segment::{Place, Segment};
use super::survey;
use std::collections::VecDeque;
use std::fs::{self, File};
use std::io::{self, Seek as _, SeekFrom, Write as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// What a series has: windows as they were, or merged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Tier {
    /// The beginning of its files' names.
    pub(crate) name: &'static str,
    /// Length of its steps; of windows, theirs.
    pub(crate) step_ns: u64,
    /// How long they are kept.
    pub(crate) keep_ns: u64,
    /// A file has so much time at most.
    pub(crate) file_ns: u64,
}

const S: u64 = 1_000_000_000;

/// The series: names, lengths of steps (of windows, the daemon's) and longest times of a file, ns.
pub(crate) const SERIES: [(&str, Option<u64>, u64); 3] =
    [("w", None, 600 * S), ("10s", Some(10 * S), 3600 * S), ("1m", Some(60 * S), 6 * 3600 * S)];

/// The files of a series that are there, the oldest first. An incomplete frame at the end of a file is cut off, a file
/// without anything else is deleted, and damage is reported.
pub(crate) fn existing(
    dir: &Path,
    tier: &Tier,
    now_unix_ns: u64,
    told: &mut Vec<String>,
) -> io::Result<VecDeque<Segment>> {
    let mut found = survey::find(dir, tier.name, transect_access::open_update)?;
    for file in &mut found {
        let Ok(scan) = &file.scan else { continue };
        let whole_bytes = scan.whole_bytes;
        if whole_bytes == file.bytes {
            continue;
        }
        told.push(format!(
            "{}: cut after byte {whole_bytes}, the {} bytes after it are not a complete frame: the daemon or the \
             machine stopped while it wrote them",
            file.path.display(),
            file.bytes - whole_bytes
        ));
        match transect_access::open_update(&file.path).and_then(|open| open.set_len(whole_bytes)) {
            Ok(()) => file.bytes = whole_bytes,
            Err(error) => told.push(format!("{}: {error}", file.path.display())),
        }
    }
    let is_empty = |file: &survey::Found| file.scan.is_ok() && file.bytes == 0;
    for file in found.iter().filter(|file| is_empty(file)) {
        if let Err(error) = fs::remove_file(&file.path) {
            told.push(format!("{}: {error}", file.path.display()));
        }
    }
    found.retain(|file| !is_empty(file));
    for file in &found {
        if let Err(why) = &file.scan {
            // A link is not damage: another user may want a file elsewhere to be read or changed.
            if fs::symlink_metadata(&file.path).is_ok_and(|facts| facts.is_symlink()) {
                return Err(io::Error::other(format!("{}: {why}", file.path.display())));
            }
        }
    }
    // Single windows may have had another length in older runs.
    let step_ns =
        SERIES.iter().find(|(name, ..)| *name == tier.name).and_then(|(_, step, _)| *step);
    let limits = survey::Limits { step_ns, file_ns: tier.file_ns, now_unix_ns };
    Ok(survey::segments(&found, limits))
}

/// The file that a series is being written to.
pub(crate) struct Appender {
    dir: PathBuf,
    tier: Tier,
    open: Option<Open>,
    /// The run of the newest frame, and its end.
    end: Option<(u64, u64)>,
}

struct Open {
    file: File,
    path: Arc<Path>,
    began_unix_ns: u64,
    bytes: u64,
    max_bytes: u64,
}

impl Open {
    /// False if its name is gone, or is that of another file.
    fn is_in_place(&self) -> bool {
        let of = |facts: fs::Metadata| (facts.dev(), facts.ino());
        let named = fs::symlink_metadata(&self.path).map(of);
        self.file.metadata().map(of).is_ok_and(|own| named.is_ok_and(|named| named == own))
    }
}

impl Appender {
    /// `end` is where the files that are there end: a run, and its time.
    pub(crate) fn new(dir: &Path, tier: Tier, end: Option<(u64, u64)>) -> Self {
        Appender { dir: dir.to_owned(), tier, open: None, end }
    }

    /// Writes a frame as a whole, or leaves the file as it was. `max_bytes` is what a file may have. Before a frame that
    /// does not continue its run, a note accounts for the time between. Gives where the note is, and its frame.
    pub(crate) fn append(
        &mut self,
        note: &Note,
        bytes: &[u8],
        max_bytes: u64,
    ) -> io::Result<Place> {
        let end = self.end.filter(|(run, end)| *run == note.run && note.is_behind_a_gap(*end));
        if let Some((run, end)) = end {
            let gap = Note::without_frame(end, note.from_unix_ns, run, 0);
            self.append_one(&gap, &gap.write(), max_bytes)?;
            self.end = Some((run, note.from_unix_ns));
        }
        let place = self.append_one(note, bytes, max_bytes)?;
        let same = self.end.filter(|(run, _)| *run == note.run).map_or(0, |(_, end)| end);
        self.end = Some((note.run, note.to_unix_ns.max(same)));
        Ok(place)
    }

    fn append_one(&mut self, note: &Note, bytes: &[u8], max_bytes: u64) -> io::Result<Place> {
        let is_full = |open: &Open| {
            let is_old = note.to_unix_ns.saturating_sub(open.began_unix_ns) > self.tier.file_ns;
            // A clock that was set back begins another file, too: times in one only go on.
            let is_before = note.from_unix_ns < open.began_unix_ns;
            is_old || is_before || open.bytes >= open.max_bytes || !open.is_in_place()
        };
        if self.open.as_ref().is_some_and(is_full)
            && let Some(open) = self.open.take()
        {
            open.file.sync_data()?;
        }
        let mut open = match self.open.take() {
            Some(open) => open,
            None => self.create(note.from_unix_ns, max_bytes)?,
        };
        let offset = open.bytes;
        if let Err(error) = open.file.write_all(bytes) {
            // What did get there is no whole frame.
            let mended = open.file.set_len(offset).and_then(|()| open.file.seek(SeekFrom::End(0)));
            if mended.is_ok() && offset > 0 {
                self.open = Some(open);
            } else if offset == 0 {
                let _ = fs::remove_file(&open.path);
            }
            return Err(error);
        }
        open.bytes += note.whole_bytes();
        let path = Arc::clone(&open.path);
        self.open = Some(open);
        Ok(Place { path, offset, note: *note })
    }

    fn create(&self, began_unix_ns: u64, max_bytes: u64) -> io::Result<Open> {
        let mut seconds = began_unix_ns / 1_000_000_000;
        loop {
            let name = format!("{}-{seconds:012}.jsonl.zst", self.tier.name);
            let path = self.dir.join(name);
            match transect_access::create_file(&path) {
                Ok(file) => {
                    return Ok(Open {
                        file,
                        path: path.into(),
                        began_unix_ns,
                        bytes: 0,
                        max_bytes,
                    });
                }
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => seconds += 1,
                Err(error) => return Err(error),
            }
        }
    }

    /// Whether this file is being written to.
    pub(crate) fn is_open(&self, path: &Path) -> bool {
        self.open.as_ref().is_some_and(|open| &*open.path == path)
    }

    /// To the disk with it, before the machine fails.
    pub(crate) fn sync(&self) -> io::Result<()> {
        self.open.as_ref().map_or(Ok(()), |open| open.file.sync_data())
    }
}
