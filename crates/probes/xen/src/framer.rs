//! Cuts xentrace's stream into whole windows.
//!
//! A window is a CPU_CHANGE record (header word, pCPU, bytes that follow) and so many bytes of
//! records; see the README of the `xentrace` codec. What the records are is not looked at here.

use std::{collections::BTreeMap, io};

/// `TRC_TRACE_CPU_CHANGE` with its count of two words.
const CPU_CHANGE: u32 = 0x2001_f003;
/// Bytes of a CPU_CHANGE record.
pub(crate) const HEAD_BYTES: usize = 12;
/// No buffer of Xen's is larger: its size in pages is a `uint16_t` (`struct t_info`).
const MAX_WINDOW_BYTES: usize = (u16::MAX as usize) * 4096;
/// Room for a read, at least.
const READ_BYTES: usize = 256 << 10;

/// What the bytes at a window's place are, if they are no window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct OutOfStep;

/// Bytes that came, until they are whole windows.
#[derive(Debug, Default)]
pub(crate) struct Framer {
    bytes: Vec<u8>,
    filled: usize,
    /// The last whole window of this process.
    last: Vec<u8>,
    /// By pCPU, the last window of a process that has ended, if its successor may send it again.
    again: BTreeMap<u32, Vec<u8>>,
}

impl Framer {
    /// Where to read to next.
    pub(crate) fn space(&mut self) -> &mut [u8] {
        let wanted = self.filled + READ_BYTES;
        if self.bytes.len() < wanted {
            self.bytes.resize(wanted, 0);
        }
        &mut self.bytes[self.filled..]
    }

    /// So many bytes were read into [`Framer::space`].
    pub(crate) fn add(&mut self, bytes: usize) {
        self.filled = (self.filled + bytes).min(self.bytes.len());
    }

    /// Hands over the whole windows there are.
    pub(crate) fn take(
        &mut self,
        hand_over: &mut dyn FnMut(&[u8]) -> io::Result<()>,
    ) -> Result<(), TakeError> {
        let mut last = 0..0;
        let result = loop {
            match window_bytes(&self.bytes[last.end..self.filled]) {
                Ok(Some(bytes)) => last = last.end..last.end + bytes,
                Ok(None) => break Ok(()),
                Err(OutOfStep) => break Err(TakeError::OutOfStep),
            }
        };
        if last.end == 0 {
            return result;
        }
        let taken = if self.again.is_empty() {
            hand_over(&self.bytes[..last.end])
        } else {
            hand_over_once(&self.bytes[..last.end], &mut self.again, hand_over)
        };
        taken.map_err(TakeError::Sink)?;
        self.last.clear();
        self.last.extend_from_slice(&self.bytes[last.clone()]);
        self.bytes.copy_within(last.end..self.filled, 0);
        self.filled -= last.end;
        result
    }

    /// The process has ended: what it did not send to the end is forgotten. Returns its bytes.
    pub(crate) fn end_process(&mut self) -> usize {
        if let Some(cpu) = cpu_of(&self.last) {
            self.again.insert(cpu, std::mem::take(&mut self.last));
        }
        std::mem::take(&mut self.filled)
    }
}

/// A process that is killed between writing a window and telling Xen so leaves its successor the same records once
/// more, at the beginning of that pCPU's first window. Hands over whole windows without those.
fn hand_over_once(
    windows: &[u8],
    again: &mut BTreeMap<u32, Vec<u8>>,
    hand_over: &mut dyn FnMut(&[u8]) -> io::Result<()>,
) -> io::Result<()> {
    let mut rest = windows;
    while let Ok(Some(bytes)) = window_bytes(rest) {
        let (window, after) = rest.split_at(bytes);
        rest = after;
        let known = cpu_of(window).and_then(|cpu| again.remove(&cpu)).unwrap_or_default();
        let known = known.get(HEAD_BYTES..).unwrap_or_default();
        match window[HEAD_BYTES..].strip_prefix(known) {
            // Nothing is known of it, or it is another one.
            Some(_) if known.is_empty() => hand_over(window)?,
            None => hand_over(window)?,
            Some([]) => {}
            Some(new) => {
                // A window's size is a u32 already.
                let size = u32::try_from(new.len()).unwrap_or(0).to_le_bytes();
                hand_over(&[&window[..8], &size, new].concat())?;
            }
        }
    }
    Ok(())
}

fn cpu_of(window: &[u8]) -> Option<u32> {
    Some(u32::from_le_bytes(*window.get(4..)?.first_chunk()?))
}

/// Why windows were not handed over.
#[derive(Debug)]
pub(crate) enum TakeError {
    /// What came is no window. Those before it were handed over.
    OutOfStep,
    /// The sink's error.
    Sink(io::Error),
}

/// Bytes of the window that begins here; none if it is not all there yet.
fn window_bytes(bytes: &[u8]) -> Result<Option<usize>, OutOfStep> {
    let word = |at: usize| {
        let word = bytes.get(at..).and_then(|rest| rest.first_chunk()).copied();
        word.map(u32::from_le_bytes)
    };
    if word(0).is_some_and(|head| head != CPU_CHANGE) {
        return Err(OutOfStep);
    }
    let Some(size) = word(8) else { return Ok(None) };
    // On every target usize has at least 32 bits.
    let size = size as usize;
    if size > MAX_WINDOW_BYTES || !size.is_multiple_of(4) {
        return Err(OutOfStep);
    }
    let total = HEAD_BYTES + size;
    Ok((bytes.len() >= total).then_some(total))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn window(cpu: u32, records: &[u8]) -> Vec<u8> {
        let mut bytes = CPU_CHANGE.to_le_bytes().to_vec();
        bytes.extend_from_slice(&cpu.to_le_bytes());
        bytes.extend_from_slice(&u32::try_from(records.len()).unwrap().to_le_bytes());
        bytes.extend_from_slice(records);
        bytes
    }

    fn feed(framer: &mut Framer, bytes: &[u8], out: &mut Vec<u8>) -> Result<(), TakeError> {
        framer.space()[..bytes.len()].copy_from_slice(bytes);
        framer.add(bytes.len());
        framer.take(&mut |windows| {
            out.extend_from_slice(windows);
            Ok(())
        })
    }

    #[test]
    fn only_whole_windows_are_handed_over() {
        let stream = [window(0, &[1; 40]), window(1, &[2; 8]), window(0, &[])].concat();
        for step in [1, 3, 7, 11, 12, 13, 50, stream.len()] {
            let (mut framer, mut out) = (Framer::default(), Vec::new());
            let mut expected = 0;
            for piece in stream.chunks(step) {
                feed(&mut framer, piece, &mut out).unwrap();
                expected += piece.len();
                assert!([0, 52, 72, 84].contains(&out.len()) && out.len() <= expected);
            }
            assert_eq!(out, stream);
            assert_eq!(framer.end_process(), 0);
        }
    }

    #[test]
    fn half_a_window_is_forgotten_with_its_process() {
        let (mut framer, mut out) = (Framer::default(), Vec::new());
        let (first, second) = (window(0, &[1; 40]), window(1, &[2; 40]));
        feed(&mut framer, &[&first[..], &second[..30]].concat(), &mut out).unwrap();
        assert_eq!(framer.end_process(), 30);
        // Its successor sends it whole, and more.
        let longer = window(1, &[2; 48]);
        feed(&mut framer, &longer, &mut out).unwrap();
        assert_eq!(out, [first, longer].concat());
    }

    #[test]
    fn what_was_sent_already_is_not_handed_over_again() {
        let records: Vec<u8> = (0..80).collect();
        let before = [window(0, &[9; 8]), window(1, &records[..40])].concat();
        // Sent wholly, but Xen was not told: the successor begins with the same records.
        for (again, expected) in [
            (window(1, &records), window(1, &records[40..])),
            (window(1, &records[..40]), Vec::new()),
            (window(1, &[7; 44]), window(1, &[7; 44])),
        ] {
            let (mut framer, mut out) = (Framer::default(), Vec::new());
            feed(&mut framer, &before, &mut out).unwrap();
            framer.end_process();
            let others = (window(0, &[5; 4]), window(2, &[6; 4]));
            let stream = [&others.0[..], &again, &others.1].concat();
            for piece in stream.chunks(5) {
                feed(&mut framer, piece, &mut out).unwrap();
            }
            let whole = [&before[..], &others.0, &expected, &others.1].concat();
            assert_eq!(out, whole);
            // Once only: later windows may look alike.
            feed(&mut framer, &again, &mut out).unwrap();
            assert_eq!(out, [whole, again].concat());
        }
    }

    #[test]
    fn a_successor_that_dies_too_changes_nothing() {
        let (mut framer, mut out) = (Framer::default(), Vec::new());
        let (zero, one) = (window(0, &[1; 8]), window(1, &[2; 8]));
        feed(&mut framer, &[&zero[..], &one].concat(), &mut out).unwrap();
        framer.end_process();
        // It gets as far as the first pCPU.
        feed(&mut framer, &window(0, &[3; 8]), &mut out).unwrap();
        framer.end_process();
        feed(&mut framer, &[window(0, &[3; 12]), one.clone()].concat(), &mut out).unwrap();
        assert_eq!(out, [zero, one, window(0, &[3; 8]), window(0, &[3; 4])].concat());
    }

    #[test]
    fn what_is_no_window_is_noticed() {
        let good = window(0, &[1; 8]);
        for bad in [b"ERROR: no".to_vec(), window(0, &[1; 6]), {
            let mut huge = window(0, &[]);
            huge[8..12].copy_from_slice(&0xffff_fff0_u32.to_le_bytes());
            huge
        }] {
            let (mut framer, mut out) = (Framer::default(), Vec::new());
            let fed = feed(&mut framer, &[&good[..], &bad].concat(), &mut out);
            assert!(matches!(fed, Err(TakeError::OutOfStep)), "{bad:?}");
            assert_eq!(out, good);
        }
    }
}
