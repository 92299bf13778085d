//! Finds frames in a byte stream, also in one that starts in the middle of a dead session.

use super::{
    error::ProtoError,
    frame::Frame,
    header::{HEADER_BYTES, Header, MAX_PAYLOAD_BYTES, parse_header},
};
use std::ops::Range;

/// Frame types the decoder itself must know to find the handshake.
const HELLO: u8 = 1;
const WELCOME: u8 = 2;
const ERROR: u8 = 13;

const MAX_FRAME_BYTES: usize = HEADER_BYTES + MAX_PAYLOAD_BYTES;

/// Which end of the channel this is: it decides what a handshake looks like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Waits for the Welcome (or Error) of the session it proposed.
    Recorder {
        /// The number it proposed.
        session: u32,
    },
    /// Waits for any Hello, and lets a new one end the session it is in.
    Agent,
}

/// Bytes in, frames out.
///
/// ```
/// use transect_guest::proto::{Decoder, Frame, Role};
/// let mut wire = b"stale bytes of a dead session".to_vec();
/// Frame::Error { text: "no tracefs".into() }.encode(7, &mut wire)?;
///
/// let mut decoder = Decoder::new(Role::Recorder { session: 7 });
/// decoder.room()[..wire.len()].copy_from_slice(&wire);
/// decoder.filled(wire.len());
/// assert_eq!(decoder.next()?, Some(Frame::Error { text: "no tracefs".into() }));
/// assert_eq!(decoder.skipped_bytes(), 29);
/// # Ok::<(), transect_guest::proto::ProtoError>(())
/// ```
pub struct Decoder {
    /// Twice a frame, so that a whole frame always fits behind an incomplete one.
    buffer: Box<[u8]>,
    filled: Range<usize>,
    /// Stream offset of `filled.start`.
    offset: u64,
    skipped_bytes: u64,
    role: Role,
    /// The session that is established; `None` while searching.
    session: Option<u32>,
}

impl Decoder {
    /// A decoder at the start of a connection.
    pub fn new(role: Role) -> Self {
        Decoder {
            buffer: vec![0; 2 * MAX_FRAME_BYTES].into_boxed_slice(),
            filled: 0..0,
            offset: 0,
            skipped_bytes: 0,
            role,
            session: None,
        }
    }

    /// The session that is established: the one to answer in.
    pub fn session(&self) -> Option<u32> {
        self.session
    }

    /// Bytes thrown away because they belonged to no frame of this session.
    pub fn skipped_bytes(&self) -> u64 {
        self.skipped_bytes
    }

    /// Forgets the session and every byte of it; the next handshake is searched for.
    pub fn reset(&mut self) {
        self.session = None;
        self.skip(self.filled.len());
    }

    /// Where to read into; never empty once [`Decoder::next`] has said `None`.
    pub fn room(&mut self) -> &mut [u8] {
        if self.filled.is_empty() {
            self.filled = 0..0;
        } else if self.buffer.len() - self.filled.end < MAX_FRAME_BYTES {
            self.buffer.copy_within(self.filled.clone(), 0);
            self.filled = 0..self.filled.len();
        }
        &mut self.buffer[self.filled.end..]
    }

    /// Says that the first `bytes` of [`Decoder::room`] have been read into.
    pub fn filled(&mut self, bytes: usize) {
        self.filled.end = (self.filled.end + bytes).min(self.buffer.len());
    }

    /// The next frame, or `None` if more bytes are needed.
    ///
    /// # Errors
    /// [`ProtoError`] if the stream broke inside a session. The decoder then searches for the
    /// next handshake.
    #[allow(clippy::should_implement_trait)] // Frames borrow from the buffer: no Iterator can.
    pub fn next(&mut self) -> Result<Option<Frame<'_>>, ProtoError> {
        match self.find()? {
            Some((kind, payload)) => Frame::decode(kind, &self.buffer[payload]).map(Some),
            None => Ok(None),
        }
    }

    fn find(&mut self) -> Result<Option<(u8, Range<usize>)>, ProtoError> {
        loop {
            if self.session.is_none() && !self.seek() {
                return Ok(None);
            }
            if self.filled.len() < HEADER_BYTES {
                return Ok(None);
            }
            let header = self.header_here()?;
            let frame_bytes = HEADER_BYTES + header.payload_bytes;
            if self.filled.len() < frame_bytes {
                if self.jump_to_newer_hello() {
                    continue;
                }
                return Ok(None);
            }
            if self.accepts(&header) {
                let payload = self.filled.start + HEADER_BYTES..self.filled.start + frame_bytes;
                self.take(frame_bytes);
                return Ok(Some((header.kind, payload)));
            }
            self.skip(frame_bytes);
        }
    }

    /// Is this frame of our session, or does it open one?
    fn accepts(&mut self, header: &Header) -> bool {
        if self.opens_session(header) {
            self.session = Some(header.session);
        }
        self.session == Some(header.session)
    }

    fn opens_session(&self, header: &Header) -> bool {
        match self.role {
            Role::Agent => header.kind == HELLO && header.session != 0,
            Role::Recorder { session } => {
                matches!(header.kind, WELCOME | ERROR) && header.session == session
            }
        }
    }

    /// Moves to the next handshake header; false if the bytes so far hold none.
    fn seek(&mut self) -> bool {
        match self.find_handshake(0) {
            Some(at) => {
                self.skip(at);
                true
            }
            None => {
                // A header may have begun in the last bytes.
                self.skip(self.filled.len().saturating_sub(HEADER_BYTES - 1));
                false
            }
        }
    }

    /// An incomplete frame may be the cut-off end of a dead session: if a whole Hello header
    /// follows inside of what would be its payload, the frame will never be completed.
    fn jump_to_newer_hello(&mut self) -> bool {
        if self.role != Role::Agent {
            return false;
        }
        match self.find_handshake(1) {
            Some(at) => {
                self.skip(at);
                true
            }
            None => false,
        }
    }

    fn find_handshake(&self, from: usize) -> Option<usize> {
        let bytes = &self.buffer[self.filled.clone()];
        (from..(bytes.len() + 1).saturating_sub(HEADER_BYTES))
            .find(|at| parse_header(&bytes[*at..]).is_ok_and(|header| self.opens_session(&header)))
    }

    fn header_here(&mut self) -> Result<Header, ProtoError> {
        let parsed = parse_header(&self.buffer[self.filled.clone()]);
        parsed.map_err(|why| {
            let offset = self.offset;
            self.session = None;
            self.skip(1);
            ProtoError::BadHeader { offset, why }
        })
    }

    fn take(&mut self, bytes: usize) {
        self.filled.start += bytes;
        self.offset += bytes as u64;
    }

    fn skip(&mut self, bytes: usize) {
        self.take(bytes);
        self.skipped_bytes += bytes as u64;
    }
}
