//! One file of frames: which are there, and which windows are gone.

use super::frame::Note;
use std::io;
use std::path::Path;
use std::sync::Arc;

/// Where a frame is.
#[derive(Clone, Debug)]
pub struct Place {
    pub(crate) path: Arc<Path>,
    pub(crate) offset: u64,
    pub(crate) note: Note,
}

/// Windows that the history had in a stretch of time, and has no more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gone {
    /// From when, ns since 1970.
    pub from_unix_ns: u64,
    /// Until when, ns since 1970.
    pub until_unix_ns: u64,
    /// How many.
    pub windows: u64,
}

/// Why windows are gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Why {
    /// The bytes are not as they were written.
    Damaged,
    /// The file cannot be opened, or is not there any more.
    Unreadable,
    /// Nothing accounts for the time between two frames of a run.
    Missing,
    /// A repair took them out.
    Removed,
    /// The frame is there twice; no window is gone.
    Repeated,
}

/// A stretch of a file without whole frames.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Lost {
    pub(crate) offset: u64,
    pub(crate) bytes: u64,
    pub(crate) from_unix_ns: u64,
    pub(crate) until_unix_ns: u64,
    pub(crate) windows: u64,
    pub(crate) run: u64,
    pub(crate) why: Why,
}

impl Lost {
    /// A frame as a whole.
    pub(crate) fn of(offset: u64, note: &Note, why: Why) -> Self {
        Lost {
            offset,
            bytes: note.whole_bytes(),
            from_unix_ns: note.from_unix_ns,
            until_unix_ns: note.to_unix_ns,
            windows: u64::from(note.windows),
            run: note.run,
            why,
        }
    }
}

/// A file of frames.
#[derive(Debug)]
pub(crate) struct Segment {
    pub(crate) path: Arc<Path>,
    pub(crate) frames: Vec<(u64, Note)>,
    pub(crate) lost: Vec<Lost>,
    pub(crate) bytes: u64,
    /// Why it cannot be read.
    pub(crate) cause: Option<String>,
}

impl Segment {
    pub(crate) fn begin_unix_ns(&self) -> u64 {
        let frames = self.frames.iter().map(|(_, note)| note.from_unix_ns).min();
        let lost = self.with_windows().map(|lost| lost.from_unix_ns);
        frames.into_iter().chain(lost).min().unwrap_or(0)
    }

    pub(crate) fn end_unix_ns(&self) -> u64 {
        let frames = self.frames.iter().map(|(_, note)| note.to_unix_ns).max();
        let lost = self.with_windows().map(|lost| lost.until_unix_ns);
        frames.into_iter().chain(lost).max().unwrap_or(0)
    }

    fn with_windows(&self) -> impl Iterator<Item = &Lost> {
        self.lost.iter().filter(|lost| lost.windows > 0)
    }

    pub(crate) fn places(&self) -> impl Iterator<Item = Place> + '_ {
        let place = |(offset, note): &(u64, Note)| {
            let path = Arc::clone(&self.path);
            Place { path, offset: *offset, note: *note }
        };
        self.frames.iter().map(place)
    }

    /// Stretches in which windows are gone.
    pub(crate) fn gone(&self) -> impl Iterator<Item = Gone> + '_ {
        self.with_windows().map(|lost| Gone {
            from_unix_ns: lost.from_unix_ns,
            until_unix_ns: lost.until_unix_ns,
            windows: lost.windows,
        })
    }

    pub(crate) fn gone_windows(&self) -> u64 {
        self.lost.iter().map(|lost| lost.windows).sum()
    }

    /// Takes a frame out; true if it was there.
    pub(crate) fn lose(&mut self, place: &Place, why: Why) -> bool {
        let at = self.frames.iter().position(|(offset, _)| *offset == place.offset);
        let Some(at) = at else { return false };
        self.frames.remove(at);
        self.lost.push(Lost::of(place.offset, &place.note, why));
        self.lost.sort_by_key(|lost| lost.offset);
        true
    }

    /// What the log reports of the damage of this file, if there is any that no repair has taken out.
    pub(crate) fn report(&self) -> Option<String> {
        self.report_of(&self.lost)
    }

    pub(crate) fn report_of(&self, lost: &[Lost]) -> Option<String> {
        let news = || lost.iter().filter(|lost| lost.why != Why::Removed);
        let first = news().next()?;
        let windows: u64 = news().map(|lost| lost.windows).sum();
        let path = self.path.display();
        let place = match first.why {
            Why::Unreadable => match &self.cause {
                Some(cause) => format!("it cannot be read ({cause})"),
                None => "it cannot be read".to_owned(),
            },
            Why::Missing => format!("frames are missing before byte {}", first.offset),
            Why::Repeated => format!("a frame is repeated at byte {}", first.offset),
            _ => format!("{} bytes are damaged at byte {}", first.bytes, first.offset),
        };
        let more = match news().count() - 1 {
            0 => String::new(),
            1 => " (and 1 more stretch)".to_owned(),
            more => format!(" (and {more} more stretches)"),
        };
        let dir = self.path.parent().and_then(Path::parent).unwrap_or(Path::new("."));
        Some(format!(
            "{path}: {place}{more}: {windows} {} gone; answers leave them out and count them. Run \
             `transect verify {}` for details",
            if windows == 1 { "window is" } else { "windows are" },
            dir.display()
        ))
    }
}

impl Place {
    /// Its windows.
    ///
    /// # Errors
    /// The file cannot be read, or the frame is damaged.
    pub(crate) fn read(&self) -> io::Result<Vec<transect_live::Snapshot>> {
        super::frame::unpack(&self.bytes()?, &self.note)
    }

    /// Whether the frame is as it was written.
    ///
    /// # Errors
    /// It is not, or the file cannot be read.
    pub(crate) fn check(&self) -> io::Result<()> {
        super::frame::check(&self.bytes()?, &self.note)
    }

    /// The compressed frame.
    pub(crate) fn bytes(&self) -> io::Result<Vec<u8>> {
        let file = transect_access::open_read(&self.path)?;
        super::scan::read_frame(&file, self.offset, &self.note)
    }
}
