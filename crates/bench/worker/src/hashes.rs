//! Programs' hashes, each computed once as long as its file does not change.

use ring::digest::{Context, SHA256};
use std::{collections::HashMap, fs::File, io, io::Read, os::unix::fs::MetadataExt, path::Path};

/// Device, inode, bytes, changed at (s, ns).
type Stamp = (u64, u64, u64, i64, i64);

/// What was computed already.
#[derive(Debug, Default)]
pub(crate) struct Hashes(HashMap<Stamp, String>);

impl Hashes {
    /// SHA-256 of a file, hex.
    pub(crate) fn of(&mut self, path: &Path) -> io::Result<String> {
        let mut file = File::open(path)?;
        let data = file.metadata()?;
        let stamp = (data.dev(), data.ino(), data.size(), data.ctime(), data.ctime_nsec());
        if let Some(known) = self.0.get(&stamp) {
            return Ok(known.clone());
        }
        let mut context = Context::new(&SHA256);
        let mut buffer = vec![0; 1 << 18];
        loop {
            match file.read(&mut buffer)? {
                0 => break,
                bytes => context.update(&buffer[..bytes]),
            }
        }
        let hex: String = context.finish().as_ref().iter().map(|b| format!("{b:02x}")).collect();
        self.0.insert(stamp, hex.clone());
        Ok(hex)
    }
}
