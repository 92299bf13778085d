//! Compression of block payloads.

/// Decompresses a payload of exactly `raw_bytes` into `into`; `None` if it is anything else.
pub(crate) fn expand(
    stored: &[u8],
    raw_bytes: usize,
    columns: bool,
    into: &mut Vec<u8>,
) -> Option<()> {
    into.clear();
    if columns {
        return None;
    }
    into.resize(raw_bytes, 0);
    let length = zstd::bulk::decompress_to_buffer(stored, into.as_mut_slice()).ok()?;
    (length == raw_bytes).then_some(())
}
