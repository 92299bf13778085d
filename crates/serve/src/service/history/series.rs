//! One series of files: where frames are appended, and which files are there.

use super::frame::{NOTE_BYTES, Note};
use std::collections::VecDeque;
use std::fs::{self, File};
use std::io::{self, Read as _, Seek as _, SeekFrom, Write as _};
use std::os::unix::fs::FileExt as _;
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

/// Where a frame is.
#[derive(Clone, Debug)]
pub(crate) struct Place {
    pub(super) path: Arc<Path>,
    pub(super) offset: u64,
    pub(super) note: Note,
}

/// A file of frames.
#[derive(Debug)]
pub(super) struct Segment {
    pub(super) path: Arc<Path>,
    pub(super) frames: Vec<(u64, Note)>,
    pub(super) bytes: u64,
}

impl Segment {
    pub(super) fn begin_unix_ns(&self) -> u64 {
        self.frames.first().map_or(0, |(_, note)| note.from_unix_ns)
    }

    pub(super) fn end_unix_ns(&self) -> u64 {
        self.frames.last().map_or(0, |(_, note)| note.to_unix_ns)
    }

    pub(super) fn places(&self) -> impl Iterator<Item = Place> + '_ {
        let place = |(offset, note): &(u64, Note)| {
            let path = Arc::clone(&self.path);
            Place { path, offset: *offset, note: *note }
        };
        self.frames.iter().map(place)
    }

    /// Reads the notes of a file. What does not belong to a whole frame is cut off, and told.
    pub(super) fn open(path: &Path, told: &mut Vec<String>) -> io::Result<Self> {
        let file = transect_access::open_update(path)?;
        let bytes = file.metadata()?.len();
        let mut segment = Segment { path: path.into(), frames: Vec::new(), bytes: 0 };
        let mut note = [0; NOTE_BYTES];
        while segment.bytes < bytes {
            let read = file.read_exact_at(&mut note, segment.bytes).ok();
            let note = read.and_then(|()| Note::read(&note));
            let Some(note) = note.filter(|note| segment.bytes + note.whole_bytes() <= bytes) else {
                break;
            };
            segment.frames.push((segment.bytes, note));
            segment.bytes += note.whole_bytes();
        }
        // Whether the last one reached the disk as a whole is told by its checksum.
        if let Some((offset, note)) = segment.frames.last()
            && let place = (Place { path: path.into(), offset: *offset, note: *note })
            && place.read().is_err()
        {
            segment.bytes = *offset;
            segment.frames.pop();
        }
        if segment.bytes < bytes {
            told.push(format!(
                "{}: cut after byte {}, the {} bytes after it are not a complete frame: the daemon \
                 or the machine stopped while it wrote them",
                path.display(),
                segment.bytes,
                bytes - segment.bytes
            ));
            file.set_len(segment.bytes)?;
        }
        Ok(segment)
    }
}

impl Place {
    /// Its windows.
    pub(crate) fn read(&self) -> io::Result<Vec<transect_live::Snapshot>> {
        let mut file = transect_access::open_read(&self.path)?;
        file.seek(SeekFrom::Start(self.offset + NOTE_BYTES as u64))?;
        let mut frame = Vec::new();
        file.take(u64::from(self.note.frame_bytes)).read_to_end(&mut frame)?;
        super::frame::unpack(&frame, &self.note)
    }
}

/// The files of a series that are there, the oldest first.
pub(super) fn existing(
    dir: &Path,
    tier: &Tier,
    told: &mut Vec<String>,
) -> io::Result<VecDeque<Segment>> {
    let prefix = format!("{}-", tier.name);
    let mut paths = Vec::new();
    for entry in fs::read_dir(dir)? {
        let path = entry?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        if name.starts_with(&prefix) && name.ends_with(".jsonl.zst") {
            paths.push(path);
        }
    }
    paths.sort();
    let mut segments = VecDeque::new();
    for path in paths {
        let segment = Segment::open(&path, told)?;
        if segment.frames.is_empty() {
            fs::remove_file(&path)?;
        } else {
            segments.push_back(segment);
        }
    }
    Ok(segments)
}

/// The file that a series is being written to.
pub(super) struct Appender {
    dir: PathBuf,
    tier: Tier,
    open: Option<Open>,
}

struct Open {
    file: File,
    path: Arc<Path>,
    began_unix_ns: u64,
    bytes: u64,
    max_bytes: u64,
}

impl Appender {
    pub(super) fn new(dir: &Path, tier: Tier) -> Self {
        Appender { dir: dir.to_owned(), tier, open: None }
    }

    /// Writes a frame as a whole, or leaves the file as it was. `max_bytes` is what a file may have.
    pub(super) fn append(
        &mut self,
        note: &Note,
        bytes: &[u8],
        max_bytes: u64,
    ) -> io::Result<Place> {
        let is_full = |open: &Open| {
            let is_old = note.to_unix_ns.saturating_sub(open.began_unix_ns) > self.tier.file_ns;
            // A clock that was set back begins another file, too: times in one only go on.
            is_old || open.bytes >= open.max_bytes || note.from_unix_ns < open.began_unix_ns
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
    pub(super) fn is_open(&self, path: &Path) -> bool {
        self.open.as_ref().is_some_and(|open| &*open.path == path)
    }

    /// To the disk with it, before the machine fails.
    pub(super) fn sync(&self) -> io::Result<()> {
        self.open.as_ref().map_or(Ok(()), |open| open.file.sync_data())
    }
}
