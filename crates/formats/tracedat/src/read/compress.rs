//! Decompression with a limit, giving what there is when the input is cut or broken.

use std::io::Read;

/// How a file's sections are compressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Compression {
    /// Not at all.
    None,
    /// zlib streams (RFC 1950).
    Zlib,
    /// Zstandard frames.
    Zstd,
}

impl Compression {
    /// The algorithm of a name in the file header.
    pub fn from_name(name: &str) -> Option<Self> {
        match name {
            "" | "none" => Some(Compression::None),
            "zlib" => Some(Compression::Zlib),
            "zstd" => Some(Compression::Zstd),
            _ => None,
        }
    }

    /// The name in the file header.
    pub fn name(self) -> &'static str {
        match self {
            Compression::None => "none",
            Compression::Zlib => "zlib",
            Compression::Zstd => "zstd",
        }
    }

    /// Decompresses `input` into `out` (cleared first), `expected` bytes of it at most. On an
    /// error `out` holds what came before it.
    pub(crate) fn decompress(
        self,
        input: &[u8],
        expected: usize,
        out: &mut Vec<u8>,
    ) -> Result<(), String> {
        out.clear();
        match self {
            Compression::None => {
                out.extend_from_slice(&input[..expected.min(input.len())]);
            }
            Compression::Zlib => read_up_to(flate2::read::ZlibDecoder::new(input), expected, out)?,
            Compression::Zstd => {
                let mut decoder =
                    zstd::stream::read::Decoder::with_buffer(input).map_err(|e| e.to_string())?;
                // A frame may ask for a window of 2^31 bytes; trace-cmd's ask for 2 MiB.
                decoder.window_log_max(27).map_err(|e| e.to_string())?;
                read_up_to(decoder, expected, out)?;
            }
        }
        if out.len() < expected {
            return Err(format!("{} bytes expected, {} found", expected, out.len()));
        }
        Ok(())
    }
}

/// Reads until `expected` bytes are there. Grows with what really comes, so that a wrong size
/// costs nothing.
fn read_up_to(mut source: impl Read, expected: usize, out: &mut Vec<u8>) -> Result<(), String> {
    const STEP: usize = 64 << 10;
    while out.len() < expected {
        let start = out.len();
        out.resize(start + STEP.min(expected - start), 0);
        let got = source.read(&mut out[start..]);
        out.truncate(start + got.as_ref().copied().unwrap_or(0));
        match got {
            Ok(0) => break,
            Ok(_) => {}
            Err(err) => return Err(err.to_string()),
        }
    }
    Ok(())
}
