//! Verification and repair of a history without its daemon.

use super::frame::Note;
use super::segment::{Lost, Place, Segment, Why};
use super::series::SERIES;
use super::survey::{Found, Limits, find, segments};
use std::collections::VecDeque;
use std::fs::{self, File};
use std::io::{self, BufReader, BufWriter, Read as _, Seek as _, SeekFrom, Write as _};
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

/// The result of [`verify`]: one entry for each file of a series, in order of series and time.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// The files.
    pub files: Vec<FileReport>,
}

/// One file of a history.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FileReport {
    /// The file.
    pub path: PathBuf,
    /// Its length.
    pub bytes: u64,
    /// Whole frames.
    pub frames: u64,
    /// Windows in whole frames. A window of a merged series is a step of 10 s or of a minute.
    pub windows: u64,
    /// Damaged stretches, in order of their offsets.
    pub damaged: Vec<Damaged>,
    /// Windows that an earlier repair took out.
    pub removed_windows: u64,
    /// Bytes of an incomplete frame at the end. A daemon that is killed leaves one, which the next start cuts off; in a
    /// file that a daemon is writing, it is the frame that is being written.
    pub incomplete_bytes: u64,
    /// Why the file cannot be read; then its windows are counted in `damaged`.
    pub unreadable: Option<String>,
}

/// A stretch of a file without whole frames.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Damaged {
    /// Where it begins.
    pub offset: u64,
    /// Its length; 0 if frames are missing here.
    pub bytes: u64,
    /// Time of the windows that are gone, ns since 1970. Where the notes of the frames are damaged, it is the time
    /// between the frames around the stretch.
    pub from_unix_ns: u64,
    /// End of that time.
    pub until_unix_ns: u64,
    /// Windows that are gone; 0 for a frame that is there twice. Where the note is damaged, they are computed from the
    /// time, or, if the frames around the stretch are of different runs of the daemon, from its bytes.
    pub windows: u64,
    /// The kind of damage, as a noun phrase.
    pub kind: &'static str,
}

impl Report {
    /// Windows that are gone, in all files, without those that an earlier repair took out.
    #[must_use]
    pub fn gone_windows(&self) -> u64 {
        self.files.iter().flat_map(|file| &file.damaged).map(|damaged| damaged.windows).sum()
    }

    /// Whether nothing is damaged. An incomplete frame at the end of a file is no damage.
    #[must_use]
    pub fn is_whole(&self) -> bool {
        self.files.iter().all(|file| file.damaged.is_empty() && file.unreadable.is_none())
    }
}

/// The result of [`repair`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Repaired {
    /// Files that were written anew.
    pub files: u64,
    /// Damaged bytes that were left out.
    pub bytes: u64,
    /// Windows that are gone with them.
    pub windows: u64,
}

/// Reads every frame of the history in a directory (`history` in the data directory of `transect serve`) and verifies
/// its checksum. It takes no lock: a daemon may write at the same time.
///
/// # Errors
/// The directory cannot be read. A file that cannot be read is part of the report.
pub fn verify(dir: &Path) -> io::Result<Report> {
    let mut report = Report::default();
    for (file, segment) in survey(dir)? {
        let lost = || segment.lost.iter();
        let removed = lost().filter(|lost| lost.why == Why::Removed).map(|lost| lost.windows);
        let incomplete = file.scan.as_ref().map_or(0, |scan| file.bytes - scan.whole_bytes);
        report.files.push(FileReport {
            bytes: file.bytes,
            frames: segment.frames.len() as u64,
            windows: segment.frames.iter().map(|(_, note)| u64::from(note.windows)).sum(),
            damaged: lost().filter(|lost| lost.why != Why::Removed).map(Damaged::of).collect(),
            removed_windows: removed.sum(),
            incomplete_bytes: incomplete,
            unreadable: file.scan.err(),
            path: file.path,
        });
    }
    Ok(report)
}

/// Writes the damaged files of a history anew, without what is damaged in them, so that every reader of zstd reads them
/// to their ends. Whole frames are kept as they are. A note takes the place of a stretch with windows: answers of the
/// daemon go on to state that they are gone.
///
/// # Errors
/// A daemon uses the directory, or a file cannot be written. Files that cannot be read are left alone.
pub fn repair(dir: &Path) -> io::Result<Repaired> {
    let _lock = super::writer::lock(dir).map_err(io::Error::other)?;
    let mut repaired = Repaired::default();
    for (file, segment) in survey(dir)? {
        let Ok(scan) = &file.scan else { continue };
        let lost: Vec<_> = segment.lost.iter().filter(|lost| lost.why != Why::Removed).collect();
        if lost.is_empty() {
            continue;
        }
        rewrite(&file.path, scan.whole_bytes, &lost)?;
        repaired.files += 1;
        repaired.bytes += lost.iter().map(|lost| lost.bytes).sum::<u64>();
        repaired.windows += lost.iter().map(|lost| lost.windows).sum::<u64>();
    }
    if repaired.files > 0 {
        File::open(dir)?.sync_all()?;
    }
    Ok(repaired)
}

impl Damaged {
    fn of(lost: &Lost) -> Self {
        let kind = match lost.why {
            Why::Unreadable => "unreadable file",
            Why::Missing => "missing frames",
            Why::Repeated => "repeated frame",
            Why::Damaged | Why::Removed => "damaged bytes",
        };
        Damaged {
            offset: lost.offset,
            bytes: lost.bytes,
            from_unix_ns: lost.from_unix_ns,
            until_unix_ns: lost.until_unix_ns,
            windows: lost.windows,
            kind,
        }
    }
}

/// All files with all their damage: every frame is read.
fn survey(dir: &Path) -> io::Result<Vec<(Found, Segment)>> {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let now_unix_ns = u64::try_from(now.as_nanos()).unwrap_or(u64::MAX);
    let mut series = Vec::new();
    // The coarsest first: a daemon writes windows before the steps that are made of them.
    for (name, step_ns, file_ns) in SERIES.into_iter().rev() {
        let limits = Limits { step_ns, file_ns, now_unix_ns };
        let found = find(dir, name, transect_access::open_read)?;
        let segments = segments(&found, limits);
        let step_ns = step_ns.or_else(|| window_ns(&segments)).unwrap_or(1);
        series.push((step_ns, found, segments));
    }
    series.reverse();
    let parts = series.iter_mut().map(|(step_ns, _, segments)| (*step_ns, segments));
    super::cross::compare(&mut parts.collect::<Vec<_>>());
    let mut all = Vec::new();
    for (file, mut segment) in
        series.into_iter().flat_map(|(_, found, segments)| found.into_iter().zip(segments))
    {
        let damaged: Vec<Place> = segment.places().filter(|place| place.check().is_err()).collect();
        for place in damaged {
            segment.lose(&place, Why::Damaged);
        }
        all.push((file, segment));
    }
    Ok(all)
}

/// The length of a single window.
fn window_ns(segments: &VecDeque<Segment>) -> Option<u64> {
    segments.iter().flat_map(Segment::places).map(|place| place.note.window_ns()).max()
}

/// Copies a file but for these stretches, and puts it in its own place.
fn rewrite(path: &Path, bytes: u64, lost: &[&Lost]) -> io::Result<()> {
    let mut name = path.as_os_str().to_owned();
    name.push(".repair");
    let new = PathBuf::from(name);
    let mut from = BufReader::new(transect_access::open_read(path)?);
    let mut to = BufWriter::new(transect_access::replace_file(&new)?);
    let mut at = 0;
    let written = (|| {
        for lost in lost {
            copy(&mut from, at, lost.offset.saturating_sub(at), &mut to)?;
            at = at.max(lost.offset + lost.bytes);
            if lost.windows > 0 {
                let windows = u32::try_from(lost.windows).unwrap_or(u32::MAX);
                let (begin, end) = (lost.from_unix_ns, lost.until_unix_ns);
                to.write_all(&Note::without_frame(begin, end, lost.run, windows).write())?;
            }
        }
        copy(&mut from, at, bytes.saturating_sub(at), &mut to)?;
        to.flush()?;
        to.get_ref().sync_all()?;
        fs::rename(&new, path)
    })();
    if written.is_err() {
        let _ = fs::remove_file(&new);
    }
    written
}

fn copy(
    from: &mut BufReader<File>,
    at: u64,
    bytes: u64,
    to: &mut BufWriter<File>,
) -> io::Result<()> {
    from.seek(SeekFrom::Start(at))?;
    match io::copy(&mut from.take(bytes), to)? {
        copied if copied == bytes => Ok(()),
        _ => Err(io::ErrorKind::UnexpectedEof.into()),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests report by failing")]
    use super::*;
    use crate::frame::NOTE_BYTES;
    use crate::tests::{plan_of, windows, write};

    fn file_of(dir: &Path, series: &str) -> PathBuf {
        let mut paths = fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path());
        paths.find(|path| path.to_string_lossy().contains(&format!("/{series}-"))).unwrap()
    }

    fn lines_of(path: &Path) -> usize {
        let text = zstd::stream::decode_all(fs::read(path).unwrap().as_slice()).unwrap();
        let text = String::from_utf8(text).unwrap();
        text.lines().filter(|line| line.contains("\"table\":\"snapshot\"")).count()
    }

    #[test]
    fn a_whole_history_is_whole_and_a_flip_is_found_and_taken_out() {
        let dir = tempfile::tempdir().unwrap();
        write(plan_of(dir.path(), 1), &windows(60));
        let report = verify(dir.path()).unwrap();
        assert!(report.is_whole(), "{report:?}");
        assert_eq!(report.files.iter().map(|file| file.windows).collect::<Vec<_>>(), [60, 6, 1]);
        assert_eq!(repair(dir.path()).unwrap(), Repaired::default());
        // The content of the third frame, and the note of the sixth.
        let path = file_of(dir.path(), "w");
        let mut bytes = fs::read(&path).unwrap();
        let whole = bytes.clone();
        let offsets: Vec<usize> =
            (0..bytes.len()).filter(|at| bytes[*at..].starts_with(crate::frame::HEAD)).collect();
        bytes[offsets[2] + NOTE_BYTES + 20] ^= 1;
        bytes[offsets[5] + 30] ^= 1;
        fs::write(&path, &bytes).unwrap();
        let report = verify(dir.path()).unwrap();
        let file = &report.files[0];
        assert_eq!((file.frames, file.windows, file.incomplete_bytes), (10, 50, 0));
        let begin = crate::synthetic::START_UNIX_NS;
        let stretch = |number: usize| Damaged {
            offset: offsets[number] as u64,
            bytes: (offsets[number + 1] - offsets[number]) as u64,
            from_unix_ns: begin + number as u64 * 5_000_000_000,
            until_unix_ns: begin + (number as u64 + 1) * 5_000_000_000,
            windows: 5,
            kind: "damaged bytes",
        };
        assert_eq!(file.damaged, [stretch(2), stretch(5)]);
        let repaired = repair(dir.path()).unwrap();
        assert_eq!((repaired.files, repaired.windows), (1, 10));
        assert_eq!(repaired.bytes, file.damaged.iter().map(|damaged| damaged.bytes).sum::<u64>());
        assert_eq!(lines_of(&path), 50);
        let report = verify(dir.path()).unwrap();
        assert!(report.is_whole(), "{report:?}");
        assert_eq!((report.files[0].windows, report.files[0].removed_windows), (50, 10));
        assert_eq!(bytes.len() as u64 - repaired.bytes + 120, fs::metadata(&path).unwrap().len());
        assert!(bytes.len() == whole.len());
    }

    #[test]
    fn a_file_in_use_is_verified_and_not_repaired() {
        let dir = tempfile::tempdir().unwrap();
        write(plan_of(dir.path(), 1), &windows(20));
        let path = file_of(dir.path(), "w");
        let bytes = fs::read(&path).unwrap();
        fs::write(&path, &bytes[..bytes.len() - 5]).unwrap();
        let opened = plan_of(dir.path(), 2).open().unwrap();
        let why = repair(dir.path()).unwrap_err().to_string();
        assert!(why.contains("another daemon"), "{why}");
        // As if it had begun to write a frame. The steps of its windows are written behind it.
        for series in ["10s", "1m"] {
            fs::remove_file(file_of(dir.path(), series)).unwrap();
        }
        let whole = fs::metadata(&path).unwrap().len();
        fs::write(&path, &bytes[..bytes.len() - 5]).unwrap();
        let report = verify(dir.path()).unwrap();
        assert!(report.is_whole(), "{report:?}");
        assert_eq!(report.files[0].incomplete_bytes, bytes.len() as u64 - 5 - whole);
        drop(opened);
    }

    #[test]
    fn what_is_missing_repeated_or_unreadable_is_counted() {
        let dir = tempfile::tempdir().unwrap();
        write(plan_of(dir.path(), 1), &windows(60));
        let path = file_of(dir.path(), "w");
        let bytes = fs::read(&path).unwrap();
        let offsets: Vec<usize> =
            (0..bytes.len()).filter(|at| bytes[*at..].starts_with(crate::frame::HEAD)).collect();
        let frame = |number: usize| &bytes[offsets[number]..offsets[number + 1]];
        // Without the third and fourth, and with the second once more.
        let changed = [&bytes[..offsets[2]], frame(1), &bytes[offsets[4]..]].concat();
        fs::write(&path, changed).unwrap();
        let report = verify(dir.path()).unwrap();
        let damaged: Vec<_> =
            report.files[0].damaged.iter().map(|damaged| (damaged.kind, damaged.windows)).collect();
        assert_eq!(damaged, [("repeated frame", 0), ("missing frames", 10)]);
        assert_eq!(repair(dir.path()).unwrap().windows, 10);
        assert_eq!(lines_of(&path), 50);
        assert!(verify(dir.path()).unwrap().is_whole());
        // A directory in place of a file.
        fs::remove_file(&path).unwrap();
        fs::create_dir(&path).unwrap();
        let report = verify(dir.path()).unwrap();
        assert!(report.files[0].unreadable.is_some() && !report.is_whole());
        assert!(report.gone_windows() >= 60, "{report:?}");
    }
}
