//! Reading and writing the small files of tracefs, with errors that name the file.

use crate::TracefsError;
use std::{
    fs,
    io::{self, Read, Write},
    path::Path,
};

/// One read: the largest file that must come in one piece is a page.
const READ_BYTES: usize = 64 << 10;

pub(crate) fn read_text(path: &Path) -> Result<String, TracefsError> {
    let bytes = read_bytes(path)?;
    // Names of threads may hold any byte; everything else is ASCII.
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

pub(crate) fn read_bytes(path: &Path) -> Result<Vec<u8>, TracefsError> {
    read_whole(path).map_err(|source| read_error(path, source))
}

/// Like [`fs::read`], but with large reads only: `events/header_page` answers its first read and
/// nothing after it (kernel/trace/trace_events.c, `show_header`: `if (*ppos) return 0`), and
/// `fs::read` begins with a probe of 32 bytes.
fn read_whole(path: &Path) -> io::Result<Vec<u8>> {
    let mut file = fs::File::open(path)?;
    let mut bytes = Vec::new();
    loop {
        let have = bytes.len();
        bytes.resize(have + READ_BYTES, 0);
        let read = file.read(&mut bytes[have..]);
        bytes.truncate(have + read.as_ref().map_or(0, |read| *read));
        match read {
            Ok(0) => return Ok(bytes),
            Err(e) if e.kind() != io::ErrorKind::Interrupted => return Err(e),
            _ => {}
        }
    }
}

pub(crate) fn read_error(path: &Path, source: io::Error) -> TracefsError {
    if source.kind() == io::ErrorKind::PermissionDenied {
        TracefsError::Permission(path.to_owned())
    } else {
        TracefsError::Read { path: path.to_owned(), source }
    }
}

/// Writes `value` in one write(2) without O_TRUNC: truncating means "clear" to some files.
pub(crate) fn write_raw(path: &Path, value: &str) -> io::Result<()> {
    fs::File::options().write(true).open(path)?.write_all(value.as_bytes())
}

pub(crate) fn write(path: &Path, value: &str, mend: &str) -> Result<(), TracefsError> {
    write_raw(path, value).map_err(|source| match source.kind() {
        io::ErrorKind::PermissionDenied => TracefsError::Permission(path.to_owned()),
        _ => TracefsError::Setting {
            path: path.to_owned(),
            value: value.to_owned(),
            source,
            mend: if mend.is_empty() { String::new() } else { format!("; {mend}") },
        },
    })
}
