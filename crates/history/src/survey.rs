//! What the files of a series have, and which windows are gone.
//!
//! The time of a damaged stretch is the time between the frames around it: from the end of the frame before it (or
//! the begin of its file, by the file's name) until the begin of the next frame (or of the next file, or the longest
//! time that a file has). How many windows it had follows from that time where both frames are of one run, else from
//! its bytes and the mean length of a window on disk. A frame whose note is intact has both in its note.

use super::frame::Note;
use super::scan::{Damage, Scan, scan};
use super::segment::{Lost, Segment, Why};
use std::collections::{HashSet, VecDeque};
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

const S: u64 = 1_000_000_000;
/// Names of files have whole seconds, and a second that has a file already is counted up.
const NAME_NS: u64 = 4 * S;

/// A file of a series.
#[derive(Debug)]
pub(crate) struct Found {
    pub(crate) path: PathBuf,
    pub(crate) bytes: u64,
    pub(crate) scan: Result<Scan, String>,
}

/// Limits of the time of what is not known.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    /// Length of a window of the series; none: as the frames have it.
    pub(crate) step_ns: Option<u64>,
    /// Time of a file, at most.
    pub(crate) file_ns: u64,
    /// Nothing is newer.
    pub(crate) now_unix_ns: u64,
}

/// The files of a series in order of time, each opened by `open` and scanned.
pub(crate) fn find(
    dir: &Path,
    name: &str,
    open: impl Fn(&Path) -> io::Result<File>,
) -> io::Result<Vec<Found>> {
    let prefix = format!("{name}-");
    let mut paths = Vec::new();
    for entry in fs::read_dir(dir)? {
        let path = entry?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        if name.starts_with(&prefix) && name.ends_with(".jsonl.zst") {
            paths.push(path);
        }
    }
    paths.sort();
    let found = paths.into_iter().filter_map(|path| match look(&path, &open) {
        // The daemon deletes the oldest.
        Err(error) if error.kind() == io::ErrorKind::NotFound => None,
        Ok((bytes, scan)) => Some(Found { path, bytes, scan: Ok(scan) }),
        Err(error) => {
            let bytes = fs::symlink_metadata(&path).ok().filter(fs::Metadata::is_file);
            let bytes = bytes.map_or(0, |facts| facts.len());
            Some(Found { path, bytes, scan: Err(error.to_string()) })
        }
    });
    Ok(found.collect())
}

fn look(path: &Path, open: impl Fn(&Path) -> io::Result<File>) -> io::Result<(u64, Scan)> {
    // A named pipe would have to be waited for.
    let kind = fs::symlink_metadata(path)?.file_type();
    if !kind.is_file() && !kind.is_symlink() {
        return Err(io::Error::other("is no plain file"));
    }
    let file = open(path)?;
    let bytes = file.metadata()?.len();
    Ok((bytes, scan(&file, bytes)?))
}

/// Begin of a file by its name, ns since 1970.
fn named_begin(path: &Path) -> u64 {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let seconds = name.strip_suffix(".jsonl.zst").and_then(|name| name.rsplit('-').next());
    seconds.and_then(|text| text.parse::<u64>().ok()).unwrap_or(0).saturating_mul(S)
}

/// The segments of a series, with everything that is gone.
pub(crate) fn segments(found: &[Found], limits: Limits) -> VecDeque<Segment> {
    let mut survey = Survey::new(found, limits);
    // Of each file, where the first of those behind it begins.
    let mut nexts = vec![None];
    for file in found.iter().skip(1).rev() {
        let next = nexts.last().copied().flatten();
        nexts.push(Some(next.map_or(file.begin(), |next: u64| next.min(file.begin()))));
    }
    found.iter().zip(nexts.into_iter().rev()).map(|(f, next)| survey.segment(f, next)).collect()
}

impl Found {
    fn notes(&self) -> &[(u64, Note)] {
        self.scan.as_ref().map_or(&[], |scan| &scan.frames)
    }

    fn begin(&self) -> u64 {
        let first = self.notes().first().filter(|(offset, _)| *offset == 0);
        first.map_or_else(|| named_begin(&self.path), |(_, note)| note.from_unix_ns)
    }
}

/// Goes through the files of a series.
struct Survey {
    limits: Limits,
    step_ns: u64,
    /// Bytes and windows of whole frames, for what is only known by its length.
    bytes: u64,
    windows: u64,
    seen: HashSet<(u64, u64, u64)>,
    /// Until where everything is accounted for, and of which run.
    end: Option<(u64, u64)>,
}

/// A frame, or a stretch that is none.
enum Item {
    Frame(u64, Note),
    Damaged(Damage),
}

impl Survey {
    fn new(found: &[Found], limits: Limits) -> Self {
        let frames = || found.iter().flat_map(Found::notes).filter(|(_, note)| note.has_frame());
        let windows = frames().map(|(_, note)| u64::from(note.windows)).sum();
        let bytes = frames().map(|(_, note)| note.whole_bytes()).sum();
        let time = |note: &Note| note.to_unix_ns.saturating_sub(note.from_unix_ns);
        let mean = frames().map(|(_, note)| u128::from(time(note))).sum::<u128>();
        let mean = mean.checked_div(u128::from(windows)).and_then(|ns| u64::try_from(ns).ok());
        let step_ns = limits.step_ns.or(mean).unwrap_or(S).max(1);
        Survey { limits, step_ns, bytes, windows, seen: HashSet::new(), end: None }
    }

    fn segment(&mut self, file: &Found, next_file: Option<u64>) -> Segment {
        let mut segment = Segment {
            path: file.path.as_path().into(),
            frames: Vec::new(),
            lost: Vec::new(),
            bytes: file.bytes,
            cause: file.scan.as_ref().err().cloned(),
        };
        let begin = self.begin_of(file);
        let longest = begin.saturating_add(self.limits.file_ns);
        // A clock that was set back leaves files of the future.
        let now = Some(self.limits.now_unix_ns).filter(|now| *now > begin).unwrap_or(longest);
        let longest = longest.min(now);
        let until = next_file.map_or(longest, |next| next.min(longest)).max(begin);
        let scan = match &file.scan {
            Ok(scan) => scan,
            Err(_) => {
                let windows = self.windows_of(file.bytes, until - begin);
                let run = self.end.map_or(0, |(_, run)| run);
                self.extend(until, run);
                segment.lost.push(Lost {
                    offset: 0,
                    bytes: file.bytes,
                    from_unix_ns: begin,
                    until_unix_ns: until,
                    windows,
                    run,
                    why: Why::Unreadable,
                });
                return segment;
            }
        };
        let mut items: Vec<Item> = scan.damaged.iter().copied().map(Item::Damaged).collect();
        items.extend(scan.frames.iter().map(|(offset, note)| Item::Frame(*offset, *note)));
        items.sort_by_key(|item| match item {
            Item::Frame(offset, _) => *offset,
            Item::Damaged(damage) => damage.offset,
        });
        let mut items = items.into_iter().peekable();
        let mut is_first = true;
        while let Some(item) = items.next() {
            if let Item::Frame(offset, note)
            | Item::Damaged(Damage { offset, note: Some(note), .. }) = &item
                && is_first
            {
                self.head(named_begin(&file.path), *offset, note, &mut segment);
            }
            match item {
                Item::Frame(offset, note) => self.frame(offset, note, &mut segment),
                Item::Damaged(Damage { offset, bytes, note: Some(note) }) => {
                    self.gap(offset, &note, &mut segment);
                    let is_new = self.seen.insert(key(&note));
                    self.extend(note.to_unix_ns, note.run);
                    let windows = if is_new { u64::from(note.windows) } else { 0 };
                    segment.lost.push(Lost {
                        bytes,
                        windows,
                        ..Lost::of(offset, &note, Why::Damaged)
                    });
                }
                Item::Damaged(Damage { offset, bytes, note: None }) => {
                    let before = self.end.filter(|_| !is_first);
                    let next = items.peek().and_then(|item| match item {
                        Item::Frame(_, note) => Some(note),
                        Item::Damaged(damage) => damage.note.as_ref(),
                    });
                    let from = before.map_or(begin, |(end, _)| end);
                    let until = next.map_or(until, |note| note.from_unix_ns).max(from);
                    let next_run = next.map(|note| note.run);
                    let windows = match (before, next_run) {
                        (Some((_, before)), Some(next)) if before == next => {
                            self.windows_in(until - from)
                        }
                        _ => self.windows_of(bytes, until - from),
                    };
                    let run = before.map(|(_, run)| run).or(next_run).unwrap_or(0);
                    self.extend(until, next_run.unwrap_or(run));
                    segment.lost.push(Lost {
                        offset,
                        bytes,
                        from_unix_ns: from,
                        until_unix_ns: until,
                        windows,
                        run,
                        why: Why::Damaged,
                    });
                }
            }
            is_first = false;
        }
        // A copy of a frame may be before frames that are older.
        if !segment.lost.is_empty() {
            segment.frames.sort_by_key(|(_, note)| note.from_unix_ns);
        }
        segment
    }

    /// Begin of a file: not before the end of the one before it, as far as the name leaves it open.
    fn begin_of(&self, file: &Found) -> u64 {
        let begin = file.begin();
        let end = self.end.map(|(end, _)| end);
        end.filter(|end| *end > begin && *end - begin < NAME_NS).unwrap_or(begin)
    }

    fn frame(&mut self, offset: u64, note: Note, segment: &mut Segment) {
        if !self.seen.insert(key(&note)) {
            let nothing = Lost { windows: 0, ..Lost::of(offset, &note, Why::Repeated) };
            segment.lost.push(nothing);
            return;
        }
        self.gap(offset, &note, segment);
        self.extend(note.to_unix_ns, note.run);
        if note.has_frame() {
            segment.frames.push((offset, note));
        } else if note.windows > 0 {
            segment.lost.push(Lost::of(offset, &note, Why::Removed));
        }
    }

    /// Time from the begin of a file, by its name, to its first frame.
    fn head(&mut self, begin: u64, offset: u64, note: &Note, segment: &mut Segment) {
        let is_covered = self.end.is_some_and(|(end, run)| run == note.run && end > begin);
        // A name has the whole seconds of the first frame.
        if is_covered || note.sum == 0 || note.from_unix_ns < begin.saturating_add(S) {
            return;
        }
        segment.lost.push(Lost {
            offset,
            bytes: 0,
            from_unix_ns: begin,
            until_unix_ns: note.from_unix_ns,
            windows: self.windows_in(note.from_unix_ns - begin).max(1),
            run: note.run,
            why: Why::Missing,
        });
        self.extend(note.from_unix_ns, note.run);
    }

    /// Time before a frame that nothing accounts for. Older versions wrote no notes for windows that they missed.
    fn gap(&mut self, offset: u64, note: &Note, segment: &mut Segment) {
        let end = self.end.filter(|(_, run)| *run == note.run);
        let is_new = note.sum != 0 || !note.has_frame();
        if let Some((end, run)) = end.filter(|(end, _)| is_new && note.is_behind_a_gap(*end)) {
            let missing = note.from_unix_ns - end;
            segment.lost.push(Lost {
                offset,
                bytes: 0,
                from_unix_ns: end,
                until_unix_ns: note.from_unix_ns,
                windows: self.windows_in(missing).max(1),
                run,
                why: Why::Missing,
            });
        }
    }

    fn extend(&mut self, until: u64, run: u64) {
        let same = self.end.filter(|(_, of)| *of == run).map_or(0, |(end, _)| end);
        self.end = Some((until.max(same), run));
    }

    fn windows_in(&self, ns: u64) -> u64 {
        ns.saturating_add(self.step_ns / 2) / self.step_ns
    }

    /// Windows of so many bytes, which are not more than their time has.
    fn windows_of(&self, bytes: u64, ns: u64) -> u64 {
        let by_time = ns.div_ceil(self.step_ns);
        let by_bytes = u128::from(bytes) * u128::from(self.windows);
        let by_bytes = by_bytes.div_ceil(u128::from(self.bytes.max(1)));
        match self.windows {
            0 => by_time,
            _ => by_time.min(u64::try_from(by_bytes).unwrap_or(u64::MAX)),
        }
    }
}

fn key(note: &Note) -> (u64, u64, u64) {
    (note.run, note.from_unix_ns, note.to_unix_ns)
}
