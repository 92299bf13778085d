//! What went wrong, where: fatal errors of a file, and problems that leave the rest readable.

use std::fmt;
use thiserror::Error;
use transect_model::ids::CpuId;

/// The file cannot be read at all.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum Error {
    /// Nothing in it.
    #[error(
        "xentrace file is empty: nothing was recorded (is tracing enabled, does `xentrace -e` name a class?)"
    )]
    Empty,
    /// It does not begin as xentrace begins a file.
    #[error(
        "not an xentrace file: it begins with {found}, expected a CPU_CHANGE record (03 f0 01 20)"
    )]
    Magic {
        /// The first bytes, printed.
        found: String,
    },
    /// The first record is not whole.
    #[error(
        "xentrace file is cut off at byte {at_bytes}, within its first CPU_CHANGE record: no records can be read"
    )]
    Cut {
        /// The file's length.
        at_bytes: u64,
    },
}

/// Something that could not be read although the rest could. Goes to the import log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Problem {
    /// Byte of the file it was found at.
    pub at_bytes: u64,
    /// The pCPU whose records it is in, where that is known.
    pub cpu: Option<CpuId>,
    /// What is wrong and what is therefore missing.
    pub what: What,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(cpu) = self.cpu {
            write!(f, "CPU {cpu}: ")?;
        }
        write!(f, "byte {}: {}", self.at_bytes, self.what)
    }
}

/// What a [`Problem`] is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum What {
    /// The file ends within a window.
    Truncated {
        /// Bytes of the window that are missing.
        missing_bytes: u64,
    },
    /// The file ends within a CPU_CHANGE record.
    CutChange,
    /// Bytes that are no window.
    NoWindow {
        /// How many were skipped to the next window, or the end.
        skipped_bytes: u64,
    },
    /// A window of a CPU that cannot be.
    NoSuchCpu {
        /// The CPU it names.
        cpu: u32,
        /// Bytes left out.
        bytes: u32,
    },
    /// A window reaches over the next one.
    WindowTooLong {
        /// Bytes it claims.
        claimed_bytes: u32,
        /// Bytes to the next window.
        bytes: u32,
    },
    /// Bytes that are not what was written, as checksums beside the file tell.
    Damaged {
        /// How many are left out.
        left_out_bytes: u64,
    },
    /// A record runs over the end of its window.
    CutRecord {
        /// Its event number.
        event: u32,
        /// Bytes of it, and what follows in the window, that are left out.
        left_out_bytes: u64,
    },
    /// A stamp before the one before it on the same CPU.
    TimeBack {
        /// By how many ticks.
        by_tsc: u64,
    },
    /// A CPU_CHANGE record among a CPU's records.
    StrayChange,
    /// A record of an event no version from 4.14 to 4.20 has. Reported once for each.
    Unknown {
        /// Its event number.
        event: u32,
    },
    /// A record with fewer or more words than its event has. Reported once for each event and CPU.
    Words {
        /// Its name.
        name: &'static str,
        /// Words it has.
        words: u8,
        /// Fewest it should have.
        min: u8,
        /// Most it should have.
        max: u8,
    },
    /// A LOST_RECORDS record that ends before it begins.
    LostBackward {
        /// By how many ticks.
        by_tsc: u64,
    },
    /// The list ended here; this many more problems were found.
    More {
        /// How many.
        count: u64,
    },
}

impl fmt::Display for What {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            What::Truncated { missing_bytes } => write!(
                f,
                "the file ends within a window, {missing_bytes} bytes of it are missing; the rest \
                 of it is read"
            ),
            What::CutChange => f.write_str(
                "the file ends within a CPU_CHANGE record; its window is missing",
            ),
            What::NoWindow { skipped_bytes } => write!(
                f,
                "{skipped_bytes} bytes are not a window (expected a CPU_CHANGE record) and are skipped"
            ),
            What::NoSuchCpu { cpu, bytes } => {
                write!(f, "a window of {bytes} bytes has the invalid CPU number {cpu}; it is skipped")
            }
            What::WindowTooLong { claimed_bytes, bytes } => write!(
                f,
                "the window claims {claimed_bytes} bytes, but the next one begins after {bytes}; \
                 only those are read"
            ),
            What::Damaged { left_out_bytes } => {
                write!(f, "the checksum is wrong: {left_out_bytes} bytes are skipped")
            }
            What::CutRecord { event, left_out_bytes } => write!(
                f,
                "record of event {event:#x} runs over the end of its window; the last \
                 {left_out_bytes} bytes of the window are skipped"
            ),
            What::TimeBack { by_tsc } => write!(
                f,
                "the timestamp is {by_tsc} ticks before the previous record's: the TSC was reset, or \
                 the file holds several recordings"
            ),
            What::StrayChange => f.write_str(
                "unexpected CPU_CHANGE record among the CPU's records; it is skipped, and the records \
                 after it may belong to another CPU",
            ),
            What::Unknown { event } => write!(
                f,
                "record of event {event:#x}, which no Xen from 4.14 to 4.20 writes; such records \
                 are counted and skipped"
            ),
            What::Words { name, words, min, max } if min == max => write!(
                f,
                "{name} has {words} words, expected {min}; such records are read up to their last \
                 word"
            ),
            What::Words { name, words, min, max } => write!(
                f,
                "{name} has {words} words, expected {min} to {max}; such records are read up to their \
                 last word"
            ),
            What::LostBackward { by_tsc } => write!(
                f,
                "first_tsc of LOST_RECORDS is {by_tsc} ticks after its own timestamp; the lost records \
                 are counted, the time they hide is unknown"
            ),
            What::More { count } => write!(f, "and {count} more problems"),
        }
    }
}

impl What {
    /// Is something of the file therefore not read? If so, results are partial.
    pub fn loses(&self) -> bool {
        !matches!(self, What::TimeBack { .. } | What::Words { .. } | What::WindowTooLong { .. })
    }
}

/// Most problems a list keeps; a broken file can have as many as it has records.
const MAX_PROBLEMS: usize = 1000;

/// Problems of one file or stream.
#[derive(Clone, Debug, Default)]
pub(crate) struct Problems(Vec<Problem>);

impl Problems {
    pub(crate) fn add(&mut self, at: usize, cpu: Option<CpuId>, what: What) {
        if self.0.len() < MAX_PROBLEMS {
            self.0.push(Problem { at_bytes: at as u64, cpu, what });
        } else if let Some(Problem { what: last, .. }) = self.0.last_mut() {
            let count = if let What::More { count } = last { *count + 1 } else { 2 };
            *last = What::More { count };
        }
    }

    pub(crate) fn as_slice(&self) -> &[Problem] {
        &self.0
    }
}
