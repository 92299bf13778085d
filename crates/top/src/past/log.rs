//! A log on disk, read where it is looked at.

use crate::moment::Moment;
use std::{
    cell::RefCell,
    collections::VecDeque,
    fs::File,
    io::{self, BufRead, BufReader, Read as _, Seek as _, SeekFrom},
    path::Path,
    rc::Rc,
};
use transect_live::lines::{LinesError, Reader};

/// So many windows are kept after they were read: ten for the sums, and as many to go back and forth.
const KEPT: usize = 40;
/// How a window's first line begins.
const BEGINS: &[u8] = b"{\"table\":\"snapshot\"";

/// Why a log cannot be shown.
#[derive(Debug, thiserror::Error)]
pub enum LogError {
    /// It cannot be read.
    #[error("cannot read {name}")]
    Io {
        /// The log.
        name: String,
        /// Why.
        source: io::Error,
    },
    /// Nothing in it can be shown.
    #[error("{name}: {why}")]
    NoLog {
        /// The log.
        name: String,
        /// What is wrong with it.
        why: String,
    },
}

/// Where a window begins.
#[derive(Clone, Copy)]
struct Place {
    byte: u64,
    /// Lines before it.
    lines: u64,
}

/// A log that `transect top --log x.jsonl` wrote.
pub struct Log {
    name: String,
    file: RefCell<File>,
    /// Of each window, and where the last one ends.
    places: Vec<Place>,
    kept: RefCell<VecDeque<(u64, Rc<Moment>)>>,
    /// What is wrong with its end.
    note: Option<String>,
}

impl Log {
    /// Finds the windows of a log.
    ///
    /// # Errors
    /// It cannot be read, is none, or has no whole window.
    pub fn open(path: &Path) -> Result<Self, LogError> {
        let name = path.display().to_string();
        let fault = |source| LogError::Io { name: name.clone(), source };
        let file = File::open(path).map_err(fault)?;
        if file.metadata().map_err(fault)?.is_dir() {
            let why =
                "is a directory: only .jsonl logs can be replayed (read Parquet with other tools)"
                    .to_owned();
            return Err(LogError::NoLog { name, why });
        }
        let places = places(&file).map_err(fault)?;
        let mut log =
            Log { name, file: RefCell::new(file), places, kept: RefCell::default(), note: None };
        log.check_first()?;
        log.check_last();
        match log.len() {
            0 => {
                let why =
                    log.note.take().unwrap_or_else(|| "contains no complete window".to_owned());
                Err(LogError::NoLog { name: log.name, why })
            }
            _ => Ok(log),
        }
    }

    /// How many windows it has.
    pub fn len(&self) -> u64 {
        (self.places.len() as u64).saturating_sub(1)
    }

    /// Has it none? (A log that was opened has.)
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// What is wrong with its end.
    pub fn note(&self) -> Option<&str> {
        self.note.as_deref()
    }

    pub(super) fn get(&self, at: u64) -> Option<Result<Rc<Moment>, String>> {
        let mut kept = self.kept.borrow_mut();
        if let Some((_, moment)) = kept.iter().find(|(number, _)| *number == at) {
            return Some(Ok(moment.clone()));
        }
        let moment = match self.read_all(at)?.into_iter().next()? {
            Ok(moment) => Rc::new(moment),
            Err(why) => return Some(Err(why)),
        };
        if kept.len() == KEPT {
            kept.pop_front();
        }
        kept.push_back((at, moment.clone()));
        Some(Ok(moment))
    }

    /// A file that is no log at all is told apart before anything is shown.
    fn check_first(&self) -> Result<(), LogError> {
        let begins_late = self.places.first().is_none_or(|place| place.byte > 0);
        if !begins_late {
            return Ok(());
        }
        let mut file = self.file.borrow_mut();
        let fault = |source| LogError::Io { name: self.name.clone(), source };
        file.seek(SeekFrom::Start(0)).map_err(fault)?;
        match Reader::new(BufReader::new(&mut *file)).next() {
            Some(Err(error)) => {
                Err(LogError::NoLog { name: self.name.clone(), why: error.to_string() })
            }
            _ => Ok(()),
        }
    }

    /// Tells what is wrong with the log's end, and leaves the last window out if it is not whole.
    fn check_last(&mut self) {
        let Some(last) = self.len().checked_sub(1) else { return };
        let Some(windows) = self.read_all(last) else { return };
        let is_whole = windows.first().is_some_and(Result::is_ok);
        self.note = windows.into_iter().find_map(Result::err);
        if !is_whole {
            self.places.pop();
        }
    }

    /// All that stands between the begin of a window and the next one's.
    fn read_all(&self, at: u64) -> Option<Vec<Result<Moment, String>>> {
        let at = usize::try_from(at).ok()?;
        let (from, to) = (self.places.get(at)?, self.places.get(at + 1)?);
        let mut file = self.file.borrow_mut();
        if let Err(error) = file.seek(SeekFrom::Start(from.byte)) {
            return Some(vec![Err(format!("cannot read {}: {error}", self.name))]);
        }
        let text = BufReader::new((&mut *file).take(to.byte - from.byte));
        let read = |read: Result<_, LinesError>| {
            read.map(Moment::new).map_err(|error| told(error, from.lines))
        };
        // One window, and what may be wrong behind it.
        Some(Reader::new(text).map(read).take(2).collect())
    }
}

/// An error with the line's number in the whole log.
fn told(error: LinesError, before: u64) -> String {
    let error = match error {
        LinesError::Broken { line, what } => LinesError::Broken { line: line + before, what },
        LinesError::Cut { line, read, rows } => LinesError::Cut { line: line + before, read, rows },
        LinesError::Io { line, source } => LinesError::Io { line: line + before, source },
    };
    error.to_string()
}

/// Where each window begins, and the end.
fn places(file: &File) -> io::Result<Vec<Place>> {
    let mut input = BufReader::with_capacity(1 << 18, file);
    let (mut places, mut at) = (Vec::new(), Place { byte: 0, lines: 0 });
    loop {
        let begins = begins_with(&mut input, BEGINS)?;
        let length = skip_line(&mut input)?;
        if length == 0 {
            places.push(at);
            return Ok(places);
        }
        if begins {
            places.push(at);
        }
        at = Place { byte: at.byte + length, lines: at.lines + 1 };
    }
}

/// Does what comes next begin so? Where the buffer ends too soon, it is filled up to a line's begin only by
/// chance, so more is read as long as it could.
fn begins_with(input: &mut BufReader<&File>, with: &[u8]) -> io::Result<bool> {
    if input.buffer().len() < with.len() {
        // A window's first line is found at the seam of two buffers, too.
        let rest = input.buffer().len();
        let at = input.stream_position()?;
        if rest > 0 {
            input.seek(SeekFrom::Start(at))?;
        }
    }
    Ok(input.fill_buf()?.starts_with(with))
}

fn skip_line(input: &mut impl BufRead) -> io::Result<u64> {
    let mut length = 0;
    loop {
        let buffer = input.fill_buf()?;
        let end = buffer.iter().position(|byte| *byte == b'\n');
        let used = end.map_or(buffer.len(), |end| end + 1);
        let is_end = end.is_some() || used == 0;
        input.consume(used);
        length += used as u64;
        if is_end {
            return Ok(length);
        }
    }
}
