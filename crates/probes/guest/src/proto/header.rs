//! The header of a frame, which all protocol versions share.

use super::error::ProtoError;

/// Version of the frame header, which all protocol versions share.
const HEADER_VERSION: u8 = 1;
/// First bytes of every frame. Not text, so that a console writing to the port is never taken for it.
pub const MAGIC: [u8; 4] = [0xf5, b'T', b'X', 0x1a];
/// Bytes of a frame's header.
pub const HEADER_BYTES: usize = 20;
/// Largest payload: one 64 KiB sub-buffer (arm64 with 64 KiB pages) and its CPU number.
pub const MAX_PAYLOAD_BYTES: usize = 64 * 1024 + 64;

/// The header of a frame that was received.
pub(super) struct Header {
    pub(super) kind: u8,
    pub(super) session: u32,
    pub(super) payload_bytes: usize,
}

/// The 20 bytes before a payload.
pub(super) fn header(
    kind: u8,
    session: u32,
    payload: usize,
) -> Result<[u8; HEADER_BYTES], ProtoError> {
    let too_long = ProtoError::TooLong { what: "payload", len: payload, max: MAX_PAYLOAD_BYTES };
    if payload > MAX_PAYLOAD_BYTES {
        return Err(too_long);
    }
    let payload_len = u32::try_from(payload).map_err(|_| too_long)?;
    let mut header = [0_u8; HEADER_BYTES];
    header[0..4].copy_from_slice(&MAGIC);
    header[4] = HEADER_VERSION;
    header[5] = kind;
    header[8..12].copy_from_slice(&session.to_le_bytes());
    header[12..16].copy_from_slice(&payload_len.to_le_bytes());
    let crc = crc32(&header[..16]);
    header[16..20].copy_from_slice(&crc.to_le_bytes());
    Ok(header)
}

/// The header at the start of `bytes`, or which check failed.
pub(super) fn parse_header(bytes: &[u8]) -> Result<Header, &'static str> {
    let header = bytes.first_chunk::<HEADER_BYTES>().ok_or("too short")?;
    if header[..4] != MAGIC {
        return Err("wrong magic");
    }
    if u32_at(header, 16) != crc32(&header[..16]) {
        return Err("wrong checksum");
    }
    if header[4] != HEADER_VERSION {
        return Err("unknown header version");
    }
    let payload_bytes = usize::try_from(u32_at(header, 12)).unwrap_or(usize::MAX);
    if payload_bytes > MAX_PAYLOAD_BYTES {
        return Err("payload too long");
    }
    Ok(Header { kind: header[5], session: u32_at(header, 8), payload_bytes })
}

fn u32_at(header: &[u8; HEADER_BYTES], at: usize) -> u32 {
    u32::from_le_bytes([header[at], header[at + 1], header[at + 2], header[at + 3]])
}

/// CRC-32 (IEEE), bit by bit: it only ever sees the 16 bytes of a header.
fn crc32(bytes: &[u8]) -> u32 {
    let mut crc = u32::MAX;
    for byte in bytes {
        crc ^= u32::from(*byte);
        for _ in 0..8 {
            let low_bit_set = crc & 1 == 1;
            crc >>= 1;
            if low_bit_set {
                crc ^= 0xedb8_8320;
            }
        }
    }
    !crc
}
