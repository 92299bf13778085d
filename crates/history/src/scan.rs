//! The frames of a file, found by their notes, behind damage too.

use super::frame::{HEAD, NOTE_BYTES, Note, check};
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;

/// Notes that are kept of a file. A file of the daemon has some hundred.
const MAX_FRAMES: usize = 1 << 18;
/// Bytes that the search for a note reads at first, and at most, at once: most damage is short.
const FIRST_SEARCH_BYTES: usize = 4 << 10;
const SEARCH_BYTES: usize = 256 << 10;
const NOTE: u64 = NOTE_BYTES as u64;

/// A stretch of a file that is no frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Damage {
    pub(crate) offset: u64,
    pub(crate) bytes: u64,
    /// Of a frame whose note is intact, if nothing else is in the stretch.
    pub(crate) note: Option<Note>,
}

/// What a file has, in order of its bytes.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Scan {
    /// Notes with their offsets, also those without a frame.
    pub(crate) frames: Vec<(u64, Note)>,
    pub(crate) damaged: Vec<Damage>,
    /// Where an incomplete frame at the end begins; the file's length without one.
    pub(crate) whole_bytes: u64,
}

/// Reads the notes of a file of so many bytes, one after the other. A frame itself is read only where no note follows
/// it. Behind damage, the next intact note is searched. Time is linear in `bytes`, memory is bounded, for every content.
pub(crate) fn scan(file: &File, bytes: u64) -> io::Result<Scan> {
    let mut scan = Scan { whole_bytes: bytes, ..Scan::default() };
    let mut at = 0;
    // A note can claim a long frame in vain: each byte is read so often at most on average.
    let mut budget = bytes.saturating_mul(2);
    while at < bytes {
        let note = note_at(file, at, bytes)?;
        let end = note.map_or(at, |note| at.saturating_add(note.whole_bytes()));
        let search_from = match note {
            Some(note) if end <= bytes && scan.frames.len() < MAX_FRAMES => {
                let is_last = end == bytes;
                let is_followed = !is_last && note_at(file, end, bytes)?.is_some();
                if is_followed || is_whole(file, at, &note, &mut budget)? {
                    scan.frames.push((at, note));
                    at = end;
                    continue;
                }
                if is_last {
                    // Unless bytes are missing, and there are others in their place.
                    let (next, _) = next_note(file, at + NOTE, bytes)?;
                    let next = next.unwrap_or(bytes);
                    let note = (next == bytes).then_some(note);
                    scan.add_damage(Damage { offset: at, bytes: next - at, note });
                    at = next;
                    continue;
                }
                at + NOTE
            }
            // It ends behind the end of the file.
            Some(_) => at + NOTE,
            None => at + 1,
        };
        let (next, is_zero) = next_note(file, search_from, bytes)?;
        let is_first_zero = || -> io::Result<bool> {
            let mut first = [0];
            file.read_exact_at(&mut first, at)?;
            Ok(first == [0])
        };
        let is_torn = match note {
            Some(_) => end > bytes,
            None => bytes - at < NOTE || is_zero && is_first_zero()?,
        };
        if next.is_none() && is_torn {
            scan.whole_bytes = at;
            return Ok(scan);
        }
        let next = next.unwrap_or(bytes);
        let note = note.filter(|_| end == next);
        scan.add_damage(Damage { offset: at, bytes: next - at, note });
        at = next;
    }
    Ok(scan)
}

impl Scan {
    fn add_damage(&mut self, damage: Damage) {
        match self.damaged.last_mut() {
            Some(last) if last.offset + last.bytes == damage.offset => {
                last.bytes += damage.bytes;
                last.note = None;
            }
            _ => self.damaged.push(damage),
        }
    }
}

/// The intact note at an offset, if there is one.
fn note_at(file: &File, at: u64, bytes: u64) -> io::Result<Option<Note>> {
    if bytes - at < NOTE {
        return Ok(None);
    }
    let mut note = [0; NOTE_BYTES];
    file.read_exact_at(&mut note, at)?;
    Ok(Note::read(&note))
}

/// Whether the frame of a note is as it was written. Beyond the budget, it counts as damaged.
fn is_whole(file: &File, at: u64, note: &Note, budget: &mut u64) -> io::Result<bool> {
    if !note.has_frame() {
        return Ok(true);
    }
    let Some(left) = budget.checked_sub(u64::from(note.frame_bytes)) else { return Ok(false) };
    let frame = read_frame(file, at, note)?;
    let is_whole = check(&frame, note).is_ok();
    if !is_whole {
        *budget = left;
    }
    Ok(is_whole)
}

/// The compressed frame of the note at an offset.
pub(crate) fn read_frame(file: &File, at: u64, note: &Note) -> io::Result<Vec<u8>> {
    let mut frame = vec![0; usize::try_from(note.frame_bytes).unwrap_or(0)];
    file.read_exact_at(&mut frame, at + NOTE)?;
    Ok(frame)
}

/// The first intact note from an offset on whose frame is within the file, and whether all bytes up to it, or to the
/// end, are 0.
fn next_note(file: &File, from: u64, bytes: u64) -> io::Result<(Option<u64>, bool)> {
    let (mut buffer, mut most) = (Vec::new(), FIRST_SEARCH_BYTES);
    let (mut at, mut is_zero) = (from, true);
    while at < bytes {
        let left = usize::try_from(bytes - at).unwrap_or(usize::MAX);
        let len = left.min(most);
        most = (2 * most).min(SEARCH_BYTES);
        buffer.resize(len, 0);
        file.read_exact_at(&mut buffer, at)?;
        let part = buffer.as_slice();
        let mut searched = 0;
        while let Some(found) = find_head(part.get(searched..).unwrap_or_default()) {
            let offset = at + (searched + found) as u64;
            let note = part.get(searched + found..).and_then(|rest| rest.first_chunk());
            let is_in = |note: &Note| offset.saturating_add(note.whole_bytes()) <= bytes;
            if note.and_then(Note::read).is_some_and(|note| is_in(&note)) {
                let before = part.get(..searched + found).unwrap_or_default();
                return Ok((Some(offset), is_zero && before.iter().all(|byte| *byte == 0)));
            }
            searched += found + 1;
        }
        is_zero = is_zero && part.iter().all(|byte| *byte == 0);
        // A note at the end of this part is whole in the next.
        at += if len == left { len } else { len - (NOTE_BYTES - 1) } as u64;
    }
    Ok((None, is_zero))
}

/// Where the head of a note begins.
fn find_head(bytes: &[u8]) -> Option<usize> {
    let mut from = 0;
    loop {
        let rest = bytes.get(from..)?;
        let found = from + rest.iter().position(|byte| *byte == HEAD[0])?;
        if bytes.get(found..)?.starts_with(HEAD) {
            return Some(found);
        }
        from = found + 1;
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests report by failing")]
    use super::*;
    use crate::frame::{Maker, Span};
    use std::io::Write as _;
    use transect_live::{Snapshot, lines};

    /// Frames of two windows each; bytes and offsets.
    fn frames(count: u64) -> (Vec<u8>, Vec<usize>) {
        let (mut file, mut offsets) = (Vec::new(), Vec::new());
        for number in 0..count {
            let windows = [0, 1].map(|n| Snapshot {
                dur: 10,
                ended_unix_ns: (number * 2 + n + 1) * 10,
                ..Snapshot::default()
            });
            let mut raw = Vec::new();
            windows.iter().for_each(|window| lines::write(window, &mut raw).unwrap());
            let made = Maker::new().unwrap().pack(&raw, &Span::of(windows.iter()), 7).unwrap();
            offsets.push(file.len());
            file.extend(made.1);
        }
        (file, offsets)
    }

    fn scan_of(bytes: &[u8]) -> Scan {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(bytes).unwrap();
        scan(&file, bytes.len() as u64).unwrap()
    }

    fn begins(scan: &Scan) -> Vec<u64> {
        scan.frames.iter().map(|(_, note)| note.from_unix_ns).collect()
    }

    #[test]
    fn notes_behind_a_damaged_one_are_found() {
        let (file, offsets) = frames(5);
        let whole = scan_of(&file);
        assert_eq!(begins(&whole), [0, 20, 40, 60, 80]);
        assert_eq!((whole.damaged.len(), whole.whole_bytes), (0, file.len() as u64));
        for at in offsets[2]..offsets[2] + NOTE_BYTES {
            let mut damaged = file.clone();
            damaged[at] ^= 1;
            let scan = scan_of(&damaged);
            assert_eq!(begins(&scan), [0, 20, 60, 80], "byte {at}");
            let bytes = (offsets[3] - offsets[2]) as u64;
            assert_eq!(scan.damaged, [Damage { offset: offsets[2] as u64, bytes, note: None }]);
            assert_eq!(scan.whole_bytes, file.len() as u64, "nothing is cut");
        }
    }

    #[test]
    fn bytes_that_were_taken_out_or_put_in_cost_one_frame() {
        let (file, offsets) = frames(5);
        for length in [1, 7, 40] {
            let at = offsets[1] + NOTE_BYTES + 3;
            let without = [&file[..at], &file[at + length..]].concat();
            let with = [&file[..at], &vec![b'x'; length], &file[at..]].concat();
            for damaged in [without, with] {
                let scan = scan_of(&damaged);
                assert_eq!(begins(&scan), [0, 40, 60, 80], "{length} bytes");
                assert_eq!(scan.damaged.len(), 1);
                assert_eq!(scan.damaged[0].offset, offsets[1] as u64);
            }
        }
    }

    #[test]
    fn only_an_incomplete_end_is_torn() {
        let (file, offsets) = frames(3);
        let last = offsets[2] as u64;
        for cut in offsets[2] + 1..file.len() {
            let scan = scan_of(&file[..cut]);
            assert_eq!((begins(&scan), scan.whole_bytes), (vec![0, 20], last), "cut at {cut}");
            assert_eq!(scan.damaged, []);
        }
        let zeros = [&file[..], &[0; 5000]].concat();
        assert_eq!(
            (scan_of(&zeros).whole_bytes, begins(&scan_of(&zeros)).len()),
            (file.len() as u64, 3)
        );
        // What is there in full and is not as it was written is damage.
        let mut flipped = file.clone();
        let end = flipped.len() - 9;
        flipped[end] ^= 1;
        let scan = scan_of(&flipped);
        assert_eq!((begins(&scan), scan.whole_bytes), (vec![0, 20], file.len() as u64));
        assert_eq!(scan.damaged[0].note.unwrap().from_unix_ns, 40);
        let rubbish = [&file[..], &[b'r'; 600]].concat();
        let scan = scan_of(&rubbish);
        assert_eq!((scan.frames.len(), scan.whole_bytes), (3, rubbish.len() as u64));
        assert_eq!(scan.damaged, [Damage { offset: file.len() as u64, bytes: 600, note: None }]);
    }

    #[test]
    fn a_note_is_found_wherever_the_search_reads_in_parts() {
        let (file, _) = frames(1);
        for before in (1..70).chain(FIRST_SEARCH_BYTES - 70..FIRST_SEARCH_BYTES + 5) {
            let bytes = [&vec![b'Z'; before], &file[..]].concat();
            assert_eq!(scan_of(&bytes).frames[0].0, before as u64);
        }
    }

    /// Each note claims a frame as long as what is behind it: read for each of them, that were 1 TB.
    #[test]
    fn notes_with_false_lengths_are_read_in_linear_time() {
        let count = 100_000_u32;
        let mut bytes = Vec::new();
        for left in (0..count).rev() {
            let frame_bytes = (left * 60).saturating_sub(1).min(200 << 20);
            let (raw_bytes, windows, from_unix_ns, to_unix_ns, run, sum) = (1, 1, 1, 2, 3, 4);
            let note = Note { frame_bytes, raw_bytes, windows, from_unix_ns, to_unix_ns, run, sum };
            bytes.extend(note.write());
        }
        let scan = scan_of(&bytes);
        assert!(scan.frames.len() <= MAX_FRAMES);
        let damaged: u64 = scan.damaged.iter().map(|damage| damage.bytes).sum();
        let whole: u64 = scan.frames.iter().map(|(_, note)| note.whole_bytes()).sum();
        assert_eq!(damaged + whole + (bytes.len() as u64 - scan.whole_bytes), bytes.len() as u64);
    }
}
