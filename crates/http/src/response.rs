//! Answers: a status, headers, and a body that is whole or comes as events.

use super::outbox::{Making, Spool};
use std::any::Any;
use std::borrow::Cow;
use std::fmt;
use std::fs::File;
use std::io::{self, Read as _, Seek as _, Write};
use std::sync::Arc;

/// What every answer says: nothing of it may be kept, framed, or read by another site.
const COMMON: &str = "Cache-Control: no-store\r\n\
    X-Content-Type-Options: nosniff\r\n\
    X-Frame-Options: DENY\r\n\
    Referrer-Policy: no-referrer\r\n\
    Cross-Origin-Resource-Policy: same-origin\r\n\
    Cross-Origin-Opener-Policy: same-origin\r\n\
    Content-Security-Policy: default-src 'self'; img-src 'self' data: blob:; \
    style-src 'self' 'unsafe-inline'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'\r\n";

/// Bytes that are put together before they are sent.
const TOGETHER: usize = 64 << 10;

/// Bytes of an answer.
pub(crate) type Body = Cow<'static, [u8]>;

/// A whole answer.
#[derive(Clone, Debug)]
pub struct Response {
    /// The status, 200 for what was found.
    pub status: u16,
    /// Its `Content-Type`.
    pub kind: &'static str,
    /// Other headers, in order.
    pub headers: Vec<(&'static str, String)>,
    /// What was asked for.
    pub body: Body,
    /// What comes after it: bytes that many answers share.
    pub shared: Vec<Arc<Vec<u8>>>,
    /// What comes after the body: a file, and how many bytes of it.
    file: Option<(Arc<File>, u64)>,
    /// Boxed, so that answers stay small.
    sending: Option<Box<Sending>>,
}

/// What the sending of an answer needs.
#[derive(Clone, Debug, Default)]
struct Sending {
    /// Dropped with the answer: once it is sent, or where it waits to be sent.
    kept: Option<Kept>,
    /// Room for what its client does not take at once.
    spool: Option<Spool>,
}

/// A value that lasts as long as an answer.
#[derive(Clone)]
struct Kept(#[expect(dead_code, reason = "only its end matters")] Arc<Box<dyn Any + Send + Sync>>);

impl fmt::Debug for Spool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Spool")
    }
}

impl fmt::Debug for Kept {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Kept")
    }
}

/// Header of a refusal over damaged tables, which are made again.
const TABLES: (&str, &str) = ("X-Tables", "damaged");

/// Events are given until it says that there are no more; each is one line of JSON. None is a sign
/// of life.
pub(crate) type Events = Box<dyn FnMut() -> Option<Option<String>> + Send>;

/// Writes the body of an answer that is too large to be held.
pub type Stream = Box<dyn FnOnce(&mut dyn Write) -> io::Result<()> + Send>;

/// An answer whose body is written while it is made.
pub struct Made {
    /// Its body is not sent.
    pub head: Response,
    /// Writes the body. An error ends the connection, so that what was sent cannot be taken for all.
    pub body: Stream,
    /// The place that the making takes. With one, the head must have room for unsent bytes.
    pub making: Option<Box<dyn Making>>,
}

/// What a handler gives.
pub enum Answer {
    /// All of it is in memory.
    Whole(Response),
    /// It is made while it is sent.
    Stream(Made),
    /// Events, as long as the client stays.
    Events(Events),
}

impl From<Response> for Answer {
    fn from(response: Response) -> Self {
        Answer::Whole(response)
    }
}

impl Answer {
    /// With another header; events have none of their own.
    pub fn with(self, header: &'static str, value: impl Into<String>) -> Self {
        match self {
            Answer::Whole(response) => Answer::Whole(response.with(header, value)),
            Answer::Stream(made) => {
                Answer::Stream(Made { head: made.head.with(header, value), ..made })
            }
            Answer::Events(events) => Answer::Events(events),
        }
    }

    /// Does it give the client a cookie?
    pub fn sets_cookie(&self) -> bool {
        match self {
            Answer::Whole(head) | Answer::Stream(Made { head, .. }) => {
                head.headers.iter().any(|(name, _)| *name == "Set-Cookie")
            }
            Answer::Events(_) => false,
        }
    }
}

impl Response {
    /// Of a kind, with status 200.
    pub fn new(kind: &'static str, body: impl Into<Body>) -> Self {
        let (headers, shared) = (Vec::new(), Vec::new());
        let (file, sending) = (None, None);
        Response { status: 200, kind, headers, body: body.into(), shared, file, sending }
    }

    /// The rest of a file, from where it stands.
    pub fn file(kind: &'static str, mut file: File) -> io::Result<Self> {
        let bytes = file.metadata()?.len().saturating_sub(file.stream_position()?);
        Ok(Response { file: Some((Arc::new(file), bytes)), ..Response::new(kind, Vec::new()) })
    }

    /// A value as JSON.
    pub fn json(value: &impl serde::Serialize) -> Self {
        Response::new("application/json", serde_json::to_vec(value).unwrap_or_default())
    }

    /// An Arrow IPC stream.
    pub fn arrow(bytes: Vec<u8>) -> Self {
        Response::new("application/vnd.apache.arrow.stream", bytes)
    }

    /// Without a body.
    pub fn empty(status: u16) -> Self {
        Response::new("text/plain; charset=utf-8", Vec::new()).status(status)
    }

    /// The same with another status.
    pub fn status(mut self, status: u16) -> Self {
        self.status = status;
        self
    }

    /// An error in one line.
    pub fn error(status: u16, message: &str) -> Self {
        let line = message.lines().collect::<Vec<_>>().join(" ");
        Response { status, ..Response::json(&serde_json::json!({ "error": line })) }
    }

    /// An error in one line, and what would do instead.
    pub fn refusal(status: u16, message: &str, hint: &str) -> Self {
        let line = |text: &str| text.lines().collect::<Vec<_>>().join(" ");
        let body = serde_json::json!({ "error": line(message), "hint": line(hint) });
        Response { status, ..Response::json(&body) }
    }

    /// The same with one more header.
    pub fn with(mut self, header: &'static str, value: impl Into<String>) -> Self {
        self.headers.push((header, value.into()));
        self
    }

    /// The tables that the answer was to be made of are damaged.
    pub fn of_damaged_tables(self) -> Self {
        self.with(TABLES.0, TABLES.1)
    }

    /// See [`Response::of_damaged_tables`].
    pub fn is_of_damaged_tables(&self) -> bool {
        self.headers.iter().any(|(name, value)| *name == TABLES.0 && value == TABLES.1)
    }

    /// Keeps a value until the answer is sent, besides those that it keeps already.
    pub fn keep_until_sent(mut self, value: impl Send + Sync + 'static) -> Self {
        let sending = self.sending.get_or_insert_default();
        let before = sending.kept.take();
        sending.kept = Some(Kept(Arc::new(Box::new((before, value)))));
        self
    }

    /// What its client does not take at once waits in a file, not in memory.
    pub fn spooled(mut self, spool: Spool) -> Self {
        self.sending.get_or_insert_default().spool = Some(spool);
        self
    }

    pub(crate) fn spool(&self) -> Option<&Spool> {
        self.sending.as_ref()?.spool.as_ref()
    }

    /// Bytes of memory that the body takes, without those that answers share.
    pub fn owned_bytes(&self) -> usize {
        match &self.body {
            Cow::Owned(body) => body.capacity(),
            Cow::Borrowed(_) => 0,
        }
    }

    /// True for a refusal after which the client may repeat the request.
    pub fn is_refused_for_now(&self) -> bool {
        let has_time = || self.headers.iter().any(|(name, _)| *name == "Retry-After");
        matches!(self.status, 429 | 503) && has_time()
    }

    /// Writes the head and no body: the answer to HEAD.
    pub fn write_head(&self, to: &mut impl Write, keep_alive: bool) -> io::Result<()> {
        to.write_all(self.whole_head(keep_alive).as_bytes())?;
        to.flush()
    }

    fn whole_head(&self, keep_alive: bool) -> String {
        let of_file = self.file.as_ref().map_or(0, |(_, bytes)| *bytes);
        let own = self.body.len() + self.shared.iter().map(|part| part.len()).sum::<usize>();
        let bytes = u64::try_from(own).unwrap_or(u64::MAX).saturating_add(of_file);
        self.head(keep_alive) + &format!("Content-Length: {bytes}\r\n\r\n")
    }

    /// Sends it, the head first.
    ///
    /// # Errors
    /// The client is gone, or takes too long.
    pub fn write(&self, to: &mut impl Write, keep_alive: bool) -> io::Result<()> {
        // What is small goes out together: each write is a packet.
        let mut waiting = self.whole_head(keep_alive).into_bytes();
        for part in [&*self.body].into_iter().chain(self.shared.iter().map(|part| part.as_slice()))
        {
            if waiting.len() + part.len() <= TOGETHER {
                waiting.extend_from_slice(part);
                continue;
            }
            if !waiting.is_empty() {
                to.write_all(&waiting)?;
                waiting.clear();
            }
            match part.len() <= TOGETHER / 2 {
                true => waiting.extend_from_slice(part),
                false => to.write_all(part)?,
            }
        }
        if !waiting.is_empty() {
            to.write_all(&waiting)?;
        }
        if let Some((file, bytes)) = &self.file {
            copy(file, *bytes, to)?;
        }
        to.flush()
    }

    pub(super) fn head(&self, keep_alive: bool) -> String {
        let mut head = head(self.status, self.kind, keep_alive);
        for (name, value) in &self.headers {
            head.push_str(&format!("{name}: {value}\r\n"));
        }
        head
    }
}

/// Writes so many bytes of a file. One that became shorter ends the connection, so that what was sent
/// cannot be taken for all.
fn copy(file: &File, bytes: u64, to: &mut impl Write) -> io::Result<()> {
    match io::copy(&mut file.take(bytes), to)? {
        copied if copied == bytes => Ok(()),
        _ => Err(io::ErrorKind::UnexpectedEof.into()),
    }
}

pub(super) fn head(status: u16, kind: &str, keep_alive: bool) -> String {
    let connection = if keep_alive { "keep-alive" } else { "close" };
    format!(
        "HTTP/1.1 {status} {}\r\n{COMMON}Content-Type: {kind}\r\nConnection: {connection}\r\n",
        phrase(status)
    )
}

fn phrase(status: u16) -> &'static str {
    match status {
        200 => "OK",
        201 => "Created",
        204 => "No Content",
        302 => "Found",
        400 => "Bad Request",
        401 => "Unauthorized",
        403 => "Forbidden",
        404 => "Not Found",
        405 => "Method Not Allowed",
        406 => "Not Acceptable",
        408 => "Request Timeout",
        409 => "Conflict",
        411 => "Length Required",
        413 => "Content Too Large",
        429 => "Too Many Requests",
        431 => "Request Header Fields Too Large",
        500 => "Internal Server Error",
        501 => "Not Implemented",
        503 => "Service Unavailable",
        504 => "Gateway Timeout",
        _ => "Other",
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a failure is what tests are for")]
    use super::*;
    use std::io::SeekFrom;

    /// A file of these bytes that stands at `at`.
    fn file(bytes: &[u8], at: u64) -> File {
        let path =
            std::env::temp_dir().join(format!("transect-response-{}-{at}", std::process::id()));
        let mut file =
            File::options().create(true).truncate(true).read(true).write(true).open(&path);
        std::fs::remove_file(&path).unwrap();
        let file = file.as_mut().unwrap();
        file.write_all(bytes).unwrap();
        file.seek(SeekFrom::Start(at)).unwrap();
        file.try_clone().unwrap()
    }

    #[test]
    fn a_file_is_sent_from_where_it_stands() {
        let bytes: Vec<u8> = (0..200_000_u32).map(|n| n.to_le_bytes()[0]).collect();
        let answer = Response::file("application/octet-stream", file(&bytes, 3)).unwrap();
        let mut sent = Vec::new();
        answer.with("X-Name", "it").write(&mut sent, true).unwrap();
        let end = sent.windows(4).position(|four| four == b"\r\n\r\n").unwrap() + 4;
        let head = String::from_utf8(sent[..end].to_vec()).unwrap();
        assert!(head.contains("Content-Length: 199997\r\n") && head.contains("X-Name: it\r\n"));
        assert_eq!(sent[end..], bytes[3..]);
    }

    #[test]
    fn a_file_that_became_shorter_is_not_passed_for_whole() {
        let file = file(&[7; 1000], 0);
        let answer = Response::file("application/octet-stream", file.try_clone().unwrap()).unwrap();
        file.set_len(999).unwrap();
        let error = answer.write(&mut Vec::new(), true).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::UnexpectedEof);
    }
}
