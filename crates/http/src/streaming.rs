//! Bodies that are written as they are made: streams and events.

use super::paced::{Paced, Phase};
use super::request::Request;
use super::response::{Events, Response, Stream, head};
use std::io::{self, Write};

/// Writes the head of a body that is written as it is made.
pub(crate) fn write_stream_head(
    to: &mut dyn Write,
    head: &Response,
    request: &Request,
) -> io::Result<()> {
    let mut text = head.head(request.keep_alive);
    text.push_str(if request.takes_chunks { "Transfer-Encoding: chunked\r\n\r\n" } else { "\r\n" });
    to.write_all(text.as_bytes())
}

/// Writes a body as it is made: in chunks, or, for HTTP/1.0, until the connection ends.
pub(crate) fn write_stream(
    mut to: &mut dyn Write,
    head: &Response,
    body: Stream,
    request: &Request,
) -> io::Result<()> {
    write_stream_head(to, head, request)?;
    if !request.takes_chunks {
        body(&mut to)?;
        return to.flush();
    }
    let mut chunks = io::BufWriter::with_capacity(CHUNK_BYTES, Chunks(to));
    if let Err(error) = body(&mut chunks) {
        // Not by dropping it, which would try to send the rest.
        drop(chunks.into_parts());
        return Err(error);
    }
    let Chunks(to) = chunks.into_inner().map_err(io::IntoInnerError::into_error)?;
    to.write_all(b"0\r\n\r\n")?;
    to.flush()
}

/// How much of a body is sent at once.
const CHUNK_BYTES: usize = 64 << 10;

/// Makes a chunk of everything that is written.
struct Chunks<'t>(&'t mut dyn Write);

impl Write for Chunks<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        // An empty chunk would be the last.
        if !bytes.is_empty() {
            write!(self.0, "{:x}\r\n", bytes.len())?;
            self.0.write_all(bytes)?;
            self.0.write_all(b"\r\n")?;
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

/// Writes the head of events.
pub(crate) fn write_events_head(to: &mut impl Write) -> io::Result<()> {
    to.write_all((head(200, "text/event-stream", false) + "\r\n").as_bytes())?;
    to.flush()
}

/// Writes events until there are no more or the client goes away.
pub(crate) fn write_events(to: &mut (impl Write + Paced), mut events: Events) -> io::Result<()> {
    write_events_head(to)?;
    while let Some(event) = events() {
        to.begin(Phase::Answer);
        match event {
            Some(event) => write!(to, "data: {event}\n\n")?,
            None => to.write_all(b": \n\n")?,
        }
        to.flush()?;
    }
    Ok(())
}
