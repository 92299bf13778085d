//! The protocol between recorder and agent, without any I/O.
//!
//! **What.** A byte stream (vsock or virtio-serial) is cut into frames: a 20-byte header and a
//! payload of at most [`MAX_PAYLOAD_BYTES`]. [`Frame`] says what a frame means, [`Decoder`] finds
//! frames in bytes, [`Frame::encode`] makes them. The layout, byte by byte, is in this crate's
//! `README.md`.
//!
//! **A session**, recorder on the left:
//! ```text
//! Hello ─────────────▶            (repeated until answered: the agent may still be booting)
//!       ◀───────────── Welcome    version chosen, facts about the machine
//! Ping  ─────────────▶
//!       ◀───────────── Pong       a burst while the channel is quiet: tightest clock brackets
//! Start ─────────────▶
//!       ◀───────────── Meta…      format files, header page, …
//!       ◀───────────── Started    what really runs: clock, page size, events that are missing
//!       ◀───────────── Data…      whole sub-buffers; Stats now and then; Ping/Pong meanwhile
//!                      (Words…    slices of logs, if the guest records compactly; Readings of its clock)
//! Stop  ─────────────▶
//!       ◀───────────── Data… Meta… Stats… Stopped
//! Ping/Pong burst, Bye
//! ```
//!
//! **Design constraints.**
//! - A virtio-serial port outlives both peers, so a reader may find the tail of a dead session.
//!   Every header carries a checksum and a session number chosen by the recorder; until the
//!   handshake the decoder searches for it byte by byte and believes nothing else.
//! - A Pong must not wait for megabytes of Data: frames are small.
//! - Nothing a peer sends makes the other panic, or reserve more memory than two frames.

mod compact;
mod decoder;
mod error;
mod frame;
mod header;
mod settings;
mod start;
mod wire;

pub use compact::{CAUSES_VERSION, CHUNK_BYTES, CompactPlan, CompactRun, SyscallForm, Words};
pub use decoder::{Decoder, Role};
pub use error::ProtoError;
pub use frame::{CpuStats, Frame, Hello, MachineFacts, Pong, Stats, Welcome};
pub use header::{HEADER_BYTES, MAGIC, MAX_PAYLOAD_BYTES};
pub use settings::is_settings;
pub(crate) use settings::{CGROUPS, IRQ_LINES, SETTINGS_VERSION, TASKS};
pub use start::{EventRequest, Start, Started};

/// The newest protocol version; [`Hello`] carries a range, and the agent answers with the newest
/// that both speak.
pub const VERSION: u8 = 4;
/// The oldest version spoken: tracefs pages only, and no readings of the guest's clock.
pub const OLDEST_VERSION: u8 = 1;
/// Default AF_VSOCK port of the agent (the first digits of e: easy to remember, unassigned).
pub const DEFAULT_VSOCK_PORT: u32 = 2718;
/// Default name of the agent's virtio-serial port in the guest.
pub const DEFAULT_PORT_NAME: &str = "org.transect.0";

/// The entry point of the fuzz target: any bytes, in any pieces, must give frames or an error,
/// and a frame that decodes must encode to something that decodes to the same frame. The same bytes
/// are also taken for a payload of every type, for few come past the header's checksum.
pub fn fuzz(input: &[u8]) {
    let Some((first, rest)) = input.split_first() else { return };
    if let Ok(frame) = Frame::decode(first & 31, rest) {
        assert_roundtrip(&frame);
    }
    let role = if first & 1 == 0 { Role::Agent } else { Role::Recorder { session: 1 } };
    let piece_bytes = usize::from(first >> 1) + 1;
    let mut decoder = Decoder::new(role);
    for piece in rest.chunks(piece_bytes) {
        let mut piece = piece;
        while !piece.is_empty() {
            let room = decoder.room();
            let taken = room.len().min(piece.len());
            room[..taken].copy_from_slice(&piece[..taken]);
            decoder.filled(taken);
            piece = &piece[taken..];
            loop {
                match decoder.next() {
                    Ok(Some(frame)) => assert_roundtrip(&frame),
                    Ok(None) => break,
                    Err(_) => return,
                }
            }
        }
    }
}

fn assert_roundtrip(frame: &Frame<'_>) {
    let mut payload = Vec::new();
    let encoded = frame.encode_payload(&mut payload);
    assert!(encoded.is_ok(), "decoded frame does not encode: {frame:?}");
    assert_eq!(Frame::decode(frame.kind(), &payload).as_ref(), Ok(frame));
}
