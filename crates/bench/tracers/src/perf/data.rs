//! How many records a perf.data holds: its headers are walked, nothing is decoded.
//!
//! Layout: tools/perf/Documentation/perf.data-file-format.txt and include/uapi/linux/perf_event.h of 6.1. All numbers
//! in the machine's own byte order, because its own perf wrote it.

use std::{
    fs::File,
    io::{self, BufReader, Read, Seek, SeekFrom},
    path::Path,
};
use transect_bench_core::Fault;

const MAGIC: &[u8; 8] = b"PERFILE2";
/// Where the header tells the offset of the records; their length follows.
const DATA_SECTION: u64 = 40;
/// `struct perf_event_header`: type, misc, size.
const RECORD_HEADER: u64 = 8;
const LOST: u32 = 2;
const SAMPLE: u32 = 9;
const LOST_SAMPLES: u32 = 13;

/// What was found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Counted {
    /// Samples: one for each event that was recorded.
    pub(super) samples: u64,
    /// The file's length.
    pub(super) bytes: u64,
    /// Lost records, as the ring buffers told when they had room again (`PERF_RECORD_LOST`).
    told: u64,
    /// Lost samples, as each event's counter said in the end (`PERF_RECORD_LOST_SAMPLES`; kernels since 6.0).
    counted: u64,
}

impl Counted {
    /// Lost records: as the counters say, and where they say nothing (kernels before 6.0, or nothing was lost) as the
    /// buffers told. Never less than the lost events; where other records (forks, mappings) found no room, more.
    pub(super) fn lost(&self) -> u64 {
        if self.counted > 0 { self.counted } else { self.told }
    }
}

/// Counts.
///
/// # Errors
/// It cannot be read, is not what perf writes, or was not finished.
pub(super) fn count(path: &Path) -> Result<Counted, Fault> {
    let walk = || -> io::Result<Counted> {
        let file = File::open(path)?;
        let bytes = file.metadata()?.len();
        let counted = walk(&mut BufReader::with_capacity(1 << 20, file))?;
        Ok(Counted { bytes, ..counted })
    };
    walk().map_err(|error| Fault::failed(format!("{}: {error}", path.display())))
}

fn walk(file: &mut (impl Read + Seek)) -> io::Result<Counted> {
    let wrong = |why: &str| io::Error::new(io::ErrorKind::InvalidData, why.to_owned());
    let mut magic = [0; 8];
    file.read_exact(&mut magic)?;
    if &magic != MAGIC {
        return Err(wrong("not a perf.data file of this machine's byte order"));
    }
    file.seek(SeekFrom::Start(DATA_SECTION))?;
    let (offset, length) = (u64_of(file)?, u64_of(file)?);
    if length == 0 {
        return Err(wrong("the file is unfinished: its header states that it has no records"));
    }
    file.seek(SeekFrom::Start(offset))?;
    let mut counted = Counted::default();
    let mut left = length;
    while left >= RECORD_HEADER {
        let (kind, size) = header(file)?;
        if size < RECORD_HEADER || size > left {
            return Err(wrong(&format!(
                "a record of {size} bytes, but only {left} bytes are left"
            )));
        }
        let mut rest = size - RECORD_HEADER;
        if kind == LOST {
            // Its first word is the event's id.
            u64_of(file)?;
            counted.told += u64_of(file)?;
            rest = rest.saturating_sub(16);
        } else if kind == LOST_SAMPLES {
            counted.counted += u64_of(file)?;
            rest = rest.saturating_sub(8);
        }
        counted.samples += u64::from(kind == SAMPLE);
        // BufReader::seek throws its buffer away.
        io::copy(&mut file.by_ref().take(rest), &mut io::sink())?;
        left -= size;
    }
    Ok(counted)
}

fn header(file: &mut impl Read) -> io::Result<(u32, u64)> {
    let mut bytes = [0; 8];
    file.read_exact(&mut bytes)?;
    let [a, b, c, d, _, _, e, f] = bytes;
    Ok((u32::from_ne_bytes([a, b, c, d]), u64::from(u16::from_ne_bytes([e, f]))))
}

fn u64_of(file: &mut impl Read) -> io::Result<u64> {
    let mut bytes = [0; 8];
    file.read_exact(&mut bytes)?;
    Ok(u64::from_ne_bytes(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Cursor;

    fn record(kind: u32, words: &[u64]) -> Vec<u8> {
        let size = u16::try_from(8 + words.len() * 8).unwrap();
        let mut bytes = kind.to_ne_bytes().to_vec();
        bytes.extend([0, 0]);
        bytes.extend(size.to_ne_bytes());
        words.iter().for_each(|word| bytes.extend(word.to_ne_bytes()));
        bytes
    }

    fn file(records: &[Vec<u8>]) -> Vec<u8> {
        let records = records.concat();
        let mut bytes = MAGIC.to_vec();
        for word in [104, 136, 0, 0, 104, records.len() as u64, 0, 0, 0, 0, 0, 0] {
            bytes.extend(u64::to_ne_bytes(word));
        }
        bytes.extend(records);
        // Features come after.
        bytes.extend([0xff; 100]);
        bytes
    }

    #[test]
    fn samples_and_both_kinds_of_losses_are_counted() {
        let records = [
            record(1, &[0; 6]),
            record(SAMPLE, &[1, 2, 3]),
            record(LOST, &[7, 120, 0]),
            record(SAMPLE, &[]),
            record(LOST_SAMPLES, &[60, 0]),
            record(LOST_SAMPLES, &[45]),
            record(68, &[]),
        ];
        let counted = walk(&mut Cursor::new(file(&records))).unwrap();
        assert_eq!((counted.samples, counted.told, counted.counted), (2, 120, 105));
        assert_eq!(counted.lost(), 105);
        let older = walk(&mut Cursor::new(file(&records[..4]))).unwrap();
        assert_eq!((older.samples, older.lost()), (2, 120));
    }

    #[test]
    fn what_is_cut_or_something_else_is_an_error() {
        let whole = file(&[record(SAMPLE, &[1])]);
        for (bytes, says) in [
            (whole[..110].to_vec(), ""),
            (vec![0; 200], "not a perf.data"),
            (file(&[]), "the file is unfinished"),
            (file(&[vec![9, 0, 0, 0, 0, 0, 4, 0]]), "a record of 4 bytes"),
        ] {
            let error = walk(&mut Cursor::new(bytes)).unwrap_err().to_string();
            assert!(error.contains(says), "{error}");
        }
    }
}
