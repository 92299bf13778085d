//! The frames of the guest channel, written from its description (`crates/probes/guest/README.md`) and without any check:
//! a hostile agent sends what the real encoder refuses.

use std::io::{self, Read, Write};

const MAGIC: [u8; 4] = [0xf5, b'T', b'X', 0x1a];
const HEADER_BYTES: usize = 20;

pub(super) const HELLO: u8 = 1;
pub(super) const WELCOME: u8 = 2;
pub(super) const START: u8 = 3;
pub(super) const META: u8 = 4;
pub(super) const STARTED: u8 = 5;
pub(super) const DATA: u8 = 6;
pub(super) const PING: u8 = 7;
pub(super) const PONG: u8 = 8;
pub(super) const STATS: u8 = 9;
pub(super) const STOP: u8 = 10;
pub(super) const STOPPED: u8 = 11;
pub(super) const BYE: u8 = 12;
pub(super) const ERROR: u8 = 13;
pub(super) const START_COMPACT: u8 = 14;
pub(super) const STARTED_COMPACT: u8 = 15;
pub(super) const WORDS: u8 = 16;
pub(super) const READING: u8 = 17;

fn crc32(bytes: &[u8]) -> u32 {
    let mut crc = u32::MAX;
    for byte in bytes {
        crc ^= u32::from(*byte);
        for _ in 0..8 {
            crc = (crc >> 1) ^ if crc & 1 == 1 { 0xedb8_8320 } else { 0 };
        }
    }
    !crc
}

/// A frame from the recorder.
pub(super) struct Frame {
    pub(super) kind: u8,
    pub(super) session: u32,
    pub(super) payload: Vec<u8>,
}

/// Reads the next frame.
pub(super) fn read(from: &mut impl Read) -> io::Result<Frame> {
    let mut header = [0; HEADER_BYTES];
    from.read_exact(&mut header)?;
    let word = |at: usize| header[at..at + 4].try_into().map_or(0, u32::from_le_bytes);
    let length = usize::try_from(word(12)).unwrap_or(usize::MAX);
    if header[..4] != MAGIC || length > 1 << 20 {
        return Err(io::ErrorKind::InvalidData.into());
    }
    let mut payload = vec![0; length];
    from.read_exact(&mut payload)?;
    Ok(Frame { kind: header[5], session: word(8), payload })
}

/// A payload under construction.
#[derive(Default)]
pub(super) struct Payload(Vec<u8>);

impl Payload {
    pub(super) fn u8(mut self, value: u8) -> Self {
        self.0.push(value);
        self
    }

    pub(super) fn u16(mut self, value: u16) -> Self {
        self.0.extend(value.to_le_bytes());
        self
    }

    pub(super) fn u32(mut self, value: u32) -> Self {
        self.0.extend(value.to_le_bytes());
        self
    }

    pub(super) fn u64(mut self, value: u64) -> Self {
        self.0.extend(value.to_le_bytes());
        self
    }

    pub(super) fn text(self, text: &str) -> Self {
        let length = u16::try_from(text.len()).unwrap_or(u16::MAX);
        self.u16(length).bytes(&text.as_bytes()[..usize::from(length)])
    }

    pub(super) fn bytes(mut self, bytes: &[u8]) -> Self {
        self.0.extend(bytes);
        self
    }

    /// The frame.
    pub(super) fn frame(self, kind: u8, session: u32) -> Vec<u8> {
        let mut frame = MAGIC.to_vec();
        frame.extend([1, kind, 0, 0]);
        frame.extend(session.to_le_bytes());
        frame.extend(u32::try_from(self.0.len()).unwrap_or(u32::MAX).to_le_bytes());
        frame.extend(crc32(&frame[..16]).to_le_bytes());
        frame.extend(self.0);
        frame
    }

    /// Sends it as a frame.
    pub(super) fn send(self, kind: u8, session: u32, to: &mut impl Write) -> io::Result<()> {
        to.write_all(&self.frame(kind, session))
    }
}
