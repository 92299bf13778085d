//! Hashes of files and texts.

use ring::digest::{Context, Digest, SHA256};
use std::{fs::File, io, io::Read, path::Path};

/// SHA-256 of a file, hex.
///
/// # Errors
/// If it cannot be read.
pub fn sha256_of(path: &Path) -> io::Result<String> {
    let mut file = File::open(path)?;
    let mut context = Context::new(&SHA256);
    let mut buffer = vec![0; 1 << 16];
    loop {
        match file.read(&mut buffer) {
            Ok(0) => return Ok(hex(&context.finish())),
            Ok(length) => context.update(buffer.get(..length).unwrap_or_default()),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}

/// The first 16 hex digits of a text's SHA-256: enough to tell two apart.
pub(super) fn short_hash(text: &str) -> String {
    let mut hex = hex(&ring::digest::digest(&SHA256, text.as_bytes()));
    hex.truncate(16);
    hex
}

fn hex(digest: &Digest) -> String {
    digest.as_ref().iter().map(|byte| format!("{byte:02x}")).collect()
}
