//! A frame: some windows as JSON lines, compressed, behind a note that says what it is.
//!
//! The note is a *skippable* frame of the zstd format (RFC 8878, 3.1.2), which `zstdcat` and all
//! other readers pass over:
//!
//! | bytes | what |
//! |---|---|
//! | 4 | 0x184D2A5A |
//! | 4 | length of what follows: 52 |
//! | 8 | `transect` |
//! | 4, 4, 4 | bytes of the frame behind it, compressed; unpacked; windows in it |
//! | 8, 8, 8 | begin and end, ns since 1970; run of the daemon, ms since 1970 |
//! | 4 | CRC-32 of the frame behind it as it is on disk, 1 instead of 0; 0: unknown (older versions) |
//! | 4 | CRC-32 of the 48 bytes before it |
//!
//! All numbers are little endian.
//!
//! A note without a frame (its length is 0) accounts for a stretch of time without data: no window was written (0
//! windows), or so many windows were damaged and have been removed. So within a run, time between two frames that
//! neither a frame nor such a note covers is the time of windows that are gone.

use std::io::{self, Read as _};
use transect_live::{Snapshot, lines};
use zstd::zstd_safe::CParameter;

/// The beginning of each note: 0x184D2A5A, 52 and a name.
pub(crate) const HEAD: &[u8; 16] = b"\x5A\x2A\x4D\x18\x34\0\0\0transect";
/// The note, its own head included.
pub(crate) const NOTE_BYTES: usize = 60;
/// Fast, for most of what is written is never read: of windows it makes a tenth, level 1 a thirteenth in 1.4 times the
/// time.
const LEVEL: i32 = -1;
/// More than this is in no frame: it would be unpacked into memory.
const MAX_RAW_BYTES: u32 = 256 << 20;
/// What cannot be compressed becomes a little longer.
const MAX_FRAME_BYTES: u32 = MAX_RAW_BYTES + (MAX_RAW_BYTES >> 7);

/// What a frame has, as its note says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Note {
    pub(crate) frame_bytes: u32,
    pub(crate) raw_bytes: u32,
    pub(crate) windows: u32,
    pub(crate) from_unix_ns: u64,
    pub(crate) to_unix_ns: u64,
    pub(crate) run: u64,
    /// Of the compressed frame; 0 if unknown.
    pub(crate) sum: u32,
}

/// The checksum of a compressed frame, never 0.
pub(crate) fn sum_of(frame: &[u8]) -> u32 {
    crc32fast::hash(frame).max(1)
}

impl Note {
    /// A note without a frame: so many windows of this stretch are gone, or none was written.
    pub(crate) fn without_frame(from_unix_ns: u64, to_unix_ns: u64, run: u64, gone: u32) -> Self {
        let (frame_bytes, raw_bytes, sum) = (0, 0, 0);
        Note { frame_bytes, raw_bytes, windows: gone, from_unix_ns, to_unix_ns, run, sum }
    }

    pub(crate) fn has_frame(&self) -> bool {
        self.frame_bytes > 0
    }

    /// The length of one of its windows, ns.
    pub(crate) fn window_ns(&self) -> u64 {
        self.to_unix_ns.saturating_sub(self.from_unix_ns) / u64::from(self.windows.max(1))
    }

    /// True if windows of the same run are missing between an end and this: edges of windows that follow each other
    /// are some µs apart.
    pub(crate) fn is_behind_a_gap(&self, end_unix_ns: u64) -> bool {
        self.from_unix_ns > end_unix_ns.saturating_add(self.window_ns() / 2)
    }

    /// Bytes of both on disk.
    pub(crate) fn whole_bytes(&self) -> u64 {
        NOTE_BYTES as u64 + u64::from(self.frame_bytes)
    }

    pub(crate) fn write(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(NOTE_BYTES);
        bytes.extend(HEAD);
        for number in [self.frame_bytes, self.raw_bytes, self.windows] {
            bytes.extend(number.to_le_bytes());
        }
        for number in [self.from_unix_ns, self.to_unix_ns, self.run] {
            bytes.extend(number.to_le_bytes());
        }
        bytes.extend(self.sum.to_le_bytes());
        let sum = crc32fast::hash(&bytes[8..]);
        bytes.extend(sum.to_le_bytes());
        bytes
    }

    /// None if this is no note, or a damaged one.
    pub(crate) fn read(bytes: &[u8; NOTE_BYTES]) -> Option<Self> {
        let u32_at = |at: usize| Some(u32::from_le_bytes(bytes.get(at..at + 4)?.try_into().ok()?));
        let u64_at = |at: usize| Some(u64::from_le_bytes(bytes.get(at..at + 8)?.try_into().ok()?));
        let sum = crc32fast::hash(bytes.get(8..56)?);
        if bytes.get(..16)? != HEAD || u32_at(56)? != sum {
            return None;
        }
        let note = Note {
            frame_bytes: u32_at(16)?,
            raw_bytes: u32_at(20)?,
            windows: u32_at(24)?,
            from_unix_ns: u64_at(28)?,
            to_unix_ns: u64_at(36)?,
            run: u64_at(44)?,
            sum: u32_at(52)?,
        };
        (note.raw_bytes <= MAX_RAW_BYTES && note.frame_bytes <= MAX_FRAME_BYTES).then_some(note)
    }
}

/// Of which windows a frame is.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Span {
    windows: u32,
    from_unix_ns: u64,
    to_unix_ns: u64,
}

impl Span {
    pub(crate) fn of<'w>(windows: impl Iterator<Item = &'w Snapshot>) -> Self {
        let nothing = Span { windows: 0, from_unix_ns: u64::MAX, to_unix_ns: 0 };
        windows.fold(nothing, |span, window| Span {
            windows: span.windows.saturating_add(1),
            from_unix_ns: span.from_unix_ns.min(crate::rendered::began_unix_ns(window)),
            to_unix_ns: span.to_unix_ns.max(window.ended_unix_ns),
        })
    }
}

/// Makes frames; keeps its memory for the next.
pub(crate) struct Maker {
    compressor: zstd::bulk::Compressor<'static>,
    raw: Vec<u8>,
}

impl Maker {
    pub(crate) fn new() -> io::Result<Self> {
        let mut compressor = zstd::bulk::Compressor::new(LEVEL)?;
        compressor.set_parameter(CParameter::ChecksumFlag(true))?;
        Ok(Maker { compressor, raw: Vec::new() })
    }

    /// Note and frame of one window, which began at that time.
    pub(crate) fn make(
        &mut self,
        window: &Snapshot,
        from_unix_ns: u64,
        run: u64,
    ) -> io::Result<(Note, Vec<u8>)> {
        let mut raw = std::mem::take(&mut self.raw);
        raw.clear();
        let made = lines::write(window, &mut raw);
        let span = Span { windows: 1, from_unix_ns, to_unix_ns: window.ended_unix_ns };
        let made = made.and_then(|()| self.pack(&raw, &span, run));
        self.raw = raw;
        made
    }

    /// Note and frame of the lines of some windows of one run.
    pub(crate) fn pack(&mut self, raw: &[u8], of: &Span, run: u64) -> io::Result<(Note, Vec<u8>)> {
        let frame = self.compressor.compress(raw)?;
        let too_large = || io::Error::other("a window is too large for the history");
        let size = |bytes: usize| u32::try_from(bytes).map_err(|_| too_large());
        let note = Note {
            frame_bytes: size(frame.len())?,
            raw_bytes: size(raw.len())?,
            windows: of.windows,
            from_unix_ns: of.from_unix_ns,
            to_unix_ns: of.to_unix_ns,
            run,
            sum: sum_of(&frame),
        };
        if note.raw_bytes > MAX_RAW_BYTES {
            return Err(too_large());
        }
        let mut bytes = note.write();
        bytes.extend_from_slice(&frame);
        Ok((note, bytes))
    }
}

/// Whether a frame is as it was written, by its checksum; one without is decompressed for that.
pub(crate) fn check(frame: &[u8], note: &Note) -> io::Result<()> {
    match note.sum {
        0 => unpack(frame, note).map(drop),
        sum if sum == sum_of(frame) => Ok(()),
        _ => Err(io::Error::other("the checksum of a frame differs from the one in its note")),
    }
}

/// The windows of a frame; its checksums are held against it.
pub(crate) fn unpack(frame: &[u8], note: &Note) -> io::Result<Vec<Snapshot>> {
    if note.sum != 0 {
        check(frame, note)?;
    }
    let mut raw = Vec::with_capacity(usize::try_from(note.raw_bytes).unwrap_or(0));
    let decoder = zstd::stream::read::Decoder::with_buffer(frame)?.single_frame();
    decoder.take(u64::from(note.raw_bytes) + 1).read_to_end(&mut raw)?;
    if u64::try_from(raw.len()).ok() != Some(u64::from(note.raw_bytes)) {
        return Err(io::Error::other(
            "the length of a frame differs from the length in its skippable frame",
        ));
    }
    let windows: Result<Vec<_>, _> = lines::Reader::new(raw.as_slice()).collect();
    let windows = windows.map_err(io::Error::other)?;
    match u32::try_from(windows.len()) == Ok(note.windows) {
        true => Ok(windows),
        false => Err(io::Error::other("a frame has another number of windows than its note")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_note_that_was_damaged_anywhere_is_none() {
        let note = Note {
            frame_bytes: 7,
            raw_bytes: 9,
            windows: 1,
            from_unix_ns: 3,
            to_unix_ns: u64::MAX,
            run: 5,
            sum: 11,
        };
        let bytes: [u8; NOTE_BYTES] = note.write().try_into().unwrap();
        assert_eq!(Note::read(&bytes), Some(note));
        for at in 0..NOTE_BYTES {
            let mut damaged = bytes;
            damaged[at] ^= 4;
            assert_eq!(Note::read(&damaged), None, "byte {at}");
        }
    }

    #[test]
    fn a_frame_is_what_zstd_itself_unpacks_and_knows_when_it_is_damaged() {
        let windows =
            [3, 5].map(|ts| Snapshot { ts, dur: 2, ended_unix_ns: 10, ..Snapshot::default() });
        let mut raw = Vec::new();
        windows.iter().for_each(|window| lines::write(window, &mut raw).unwrap());
        let span = Span::of(windows.iter());
        let (note, bytes) = Maker::new().unwrap().pack(&raw, &span, 1).unwrap();
        assert_eq!(note.whole_bytes(), bytes.len() as u64);
        assert_eq!((note.from_unix_ns, note.to_unix_ns, note.windows), (8, 10, 2));
        // With the note before it, as other programs see it.
        let text = zstd::stream::decode_all(bytes.as_slice()).unwrap();
        assert_eq!(text.len(), note.raw_bytes as usize);
        let read = unpack(&bytes[NOTE_BYTES..], &note).unwrap();
        assert_eq!(read.iter().map(|w| w.ts).collect::<Vec<_>>(), [3, 5]);
        for at in NOTE_BYTES..bytes.len() {
            let mut damaged = bytes.clone();
            damaged[at] ^= 0x10;
            assert!(check(&damaged[NOTE_BYTES..], &note).is_err(), "byte {at}");
            assert!(unpack(&damaged[NOTE_BYTES..], &note).is_err(), "byte {at}");
            // Of a file of an older version, whose notes have no checksum of the frame.
            let old = Note { sum: 0, ..note };
            let unpacked = unpack(&damaged[NOTE_BYTES..], &old);
            assert!(unpacked.is_err() || unpacked.unwrap() == read, "byte {at}");
        }
        assert!(unpack(&bytes[NOTE_BYTES..bytes.len() - 1], &note).is_err());
    }
}
