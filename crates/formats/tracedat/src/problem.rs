//! What went wrong, where: fatal errors of a file, and problems that leave the rest readable.

use std::fmt;
use thiserror::Error;

/// The file cannot be read at all.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum Error {
    /// It does not begin as a trace.dat does.
    #[error(
        "not a trace.dat file: it begins with {found}, expected 17 08 44 \"tracing\"; check the file name, or copy the file again"
    )]
    Magic {
        /// The first bytes, printed.
        found: String,
    },
    /// A version this codec does not know.
    #[error(
        "trace.dat version {version:?} is not supported (6 and 7 are); convert it with `trace-cmd convert --file-version 7`"
    )]
    Version {
        /// The version string.
        version: String,
    },
    /// A compression this codec does not know.
    #[error(
        "trace.dat is compressed with {name:?}, which is not supported (zlib and zstd are); convert it with `trace-cmd convert --compression zstd`"
    )]
    Compression {
        /// The algorithm's name.
        name: String,
    },
    /// An impossible value in the initial header.
    #[error(
        "trace.dat header at byte {at_bytes}: {what}; check the file name, or copy the file again"
    )]
    Header {
        /// Where the value is.
        at_bytes: u64,
        /// What is wrong with it.
        what: String,
    },
    /// Text of a latency tracer instead of events.
    #[error(
        "trace.dat at byte {at_bytes} holds a latency tracer's text (`trace-cmd record -p …lat`), \
         not events; record events instead"
    )]
    Latency {
        /// Where it says so.
        at_bytes: u64,
    },
    /// The file ends before anything of use.
    #[error(
        "trace.dat is cut off at byte {at_bytes}, within {place}: no events can be read; copy the file again, or record again if the original is cut off, too"
    )]
    Cut {
        /// The file's length.
        at_bytes: u64,
        /// What would have been there.
        place: Place,
    },
    /// The ring buffer is laid out in a way this codec cannot read.
    #[error(
        "trace.dat {place} at byte {at_bytes}: {what}; copy the file again, or record again with Linux 2.6.33 or later"
    )]
    Layout {
        /// Where the description is.
        at_bytes: u64,
        /// Which.
        place: Place,
        /// What is wrong with it.
        what: String,
    },
}

/// A part of a trace.dat file.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Place {
    /// Magic, version, byte order, sizes, compression.
    Header,
    /// A section by its name in the file format's documentation.
    Section(&'static str),
    /// An option by its name.
    Option(&'static str),
    /// One CPU's data of one buffer.
    Cpu {
        /// The buffer's name; empty for the top buffer.
        buffer: String,
        /// The CPU.
        cpu: u32,
    },
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Place::Header => f.write_str("file header"),
            Place::Section(name) => write!(f, "section {name}"),
            Place::Option(name) => write!(f, "option {name}"),
            Place::Cpu { buffer, cpu } if buffer.is_empty() => write!(f, "CPU {cpu}"),
            Place::Cpu { buffer, cpu } => write!(f, "buffer {buffer:?} CPU {cpu}"),
        }
    }
}

/// Something that could not be read although the rest could. Goes to the import log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// Byte of the file it was found at (for compressed data: that of the compressed chunk).
    pub at_bytes: u64,
    /// In which part.
    pub place: Place,
    /// What is wrong and what is therefore missing.
    pub what: String,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} at byte {}: {}", self.place, self.at_bytes, self.what)
    }
}

/// Most problems a file's list keeps; a broken file can have as many as it has events.
const MAX_PROBLEMS: usize = 1000;

/// The problems of one file.
#[derive(Clone, Debug, Default)]
pub(crate) struct Problems {
    list: Vec<Problem>,
    dropped: usize,
}

impl Problems {
    pub(crate) fn add(&mut self, at_bytes: u64, place: Place, what: impl Into<String>) {
        if self.list.len() < MAX_PROBLEMS {
            self.list.push(Problem { at_bytes, place, what: what.into() });
        } else {
            self.dropped += 1;
            if let Some(last) = self.list.last_mut() {
                last.what = format!("and {} more problems", self.dropped + 1);
            }
        }
    }

    pub(crate) fn as_slice(&self) -> &[Problem] {
        &self.list
    }
}
