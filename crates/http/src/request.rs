//! Requests: read from a connection, within bounds.

use super::paced::{Paced, Phase};
use super::response::Response;
use std::io::{self, Read};

/// The longest head that is read.
const MAX_HEAD_BYTES: usize = 16 << 10;
/// The most headers.
const MAX_HEADERS: usize = 64;
/// The longest body.
const MAX_BODY_BYTES: usize = 1 << 20;

/// What is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Method {
    /// GET, and HEAD.
    Get,
    /// POST.
    Post,
    /// DELETE.
    Delete,
}

impl Method {
    /// The word in a request.
    pub fn name(self) -> &'static str {
        match self {
            Method::Get => "GET",
            Method::Post => "POST",
            Method::Delete => "DELETE",
        }
    }
}

/// One request.
#[derive(Clone, Debug)]
pub struct Request {
    /// What is asked.
    pub method: Method,
    /// As sent, without the query.
    pub path: String,
    /// What is behind the `?`, as sent.
    pub query: String,
    headers: Vec<(String, String)>,
    /// What came behind the head.
    pub body: Vec<u8>,
    /// Is only the head of the answer wanted? The request is that of GET.
    pub is_head: bool,
    /// May the next request come over the same connection?
    pub keep_alive: bool,
    /// Does the client know HTTP/1.1, hence bodies in chunks?
    pub takes_chunks: bool,
}

impl Request {
    /// A request without headers, for tests of handlers.
    pub fn new_plain(method: Method, path: &str, body: &str) -> Self {
        Request {
            method,
            path: path.to_owned(),
            query: String::new(),
            headers: Vec::new(),
            body: body.into(),
            is_head: false,
            keep_alive: true,
            takes_chunks: true,
        }
    }

    /// The same request of something below its path.
    pub fn below(&self, path: String) -> Self {
        Request { path, ..self.clone() }
    }

    /// The only header of that name (in lower case); none if there is none, or several, which
    /// could be read in more than one way.
    pub fn header(&self, name: &str) -> Option<&str> {
        let mut found = self.headers.iter().filter(|(known, _)| known == name);
        let (_, value) = found.next()?;
        found.next().is_none().then_some(value)
    }

    /// Is there a header of that name, however often?
    pub fn has_header(&self, name: &str) -> bool {
        self.headers.iter().any(|(known, _)| known == name)
    }

    /// A value of the query. Only plain words and numbers are asked for: nothing is unescaped.
    pub fn value(&self, name: &str) -> Option<&str> {
        let pairs = self.query.split('&').filter_map(|pair| pair.split_once('='));
        pairs.into_iter().find(|(key, _)| *key == name).map(|(_, value)| value)
    }

    /// A value of the query, unescaped. None if there is none, or if it is no text.
    pub fn param(&self, name: &str) -> Option<String> {
        self.value(name).and_then(unescape)
    }

    /// The names of all values of the query.
    pub fn param_names(&self) -> impl Iterator<Item = &str> {
        let pairs = self.query.split('&').filter(|pair| !pair.is_empty());
        pairs.map(|pair| pair.split_once('=').map_or(pair, |(name, _)| name))
    }

    /// One of the cookies.
    pub fn cookie(&self, name: &str) -> Option<&str> {
        let cookies = self.header("cookie")?.split(';').filter_map(|pair| pair.split_once('='));
        cookies.into_iter().find(|(key, _)| key.trim() == name).map(|(_, value)| value.trim())
    }
}

/// Percent-encoding, as forms and `URLSearchParams` write it.
pub(crate) fn unescape(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        bytes.push(match byte {
            b'+' => b' ',
            b'%' => {
                let mut digit = || char::from(rest.next()?).to_digit(16);
                u8::try_from(digit()? * 16 + digit()?).ok()?
            }
            other => other,
        });
    }
    String::from_utf8(bytes).ok()
}

/// Why there is no request.
pub(crate) enum NoRequest {
    /// The client went away or said nothing for too long.
    Gone,
    /// It sent what is no request: the answer, after which nothing more is read.
    Bad(Response),
}

impl From<io::Error> for NoRequest {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            // What a read says whose time is over differs from system to system.
            io::ErrorKind::TimedOut | io::ErrorKind::WouldBlock => {
                bad(408, "the request took too long")
            }
            _ => NoRequest::Gone,
        }
    }
}

fn bad(status: u16, message: &str) -> NoRequest {
    NoRequest::Bad(Response::error(status, message))
}

/// Reads the next request. `left` is what was read beyond the last one.
pub(crate) fn read(
    from: &mut (impl Read + Paced),
    left: &mut Vec<u8>,
) -> Result<Request, NoRequest> {
    if left.is_empty() {
        from.begin(Phase::Idle);
        // Who says nothing asks nothing: no answer is owed.
        more(from, left).map_err(|_| NoRequest::Gone)?;
    }
    from.begin(Phase::Head);
    let (mut request, head_bytes, body_bytes) = loop {
        if let Some(found) = parse(left)? {
            break found;
        }
        if left.len() >= MAX_HEAD_BYTES {
            return Err(bad(431, "the request head is longer than 16 KiB"));
        }
        more(from, left)?;
    };
    from.begin(Phase::Body);
    while left.len() < head_bytes + body_bytes {
        more(from, left)?;
    }
    request.body = left[head_bytes..head_bytes + body_bytes].to_vec();
    left.drain(..head_bytes + body_bytes);
    Ok(request)
}

fn more(from: &mut impl Read, to: &mut Vec<u8>) -> Result<(), NoRequest> {
    let mut buffer = [0; 8 << 10];
    match from.read(&mut buffer)? {
        0 => Err(NoRequest::Gone),
        len => {
            to.extend_from_slice(&buffer[..len]);
            Ok(())
        }
    }
}

/// The request without its body, the length of its head, and that of its body; none if the head
/// is not whole yet.
fn parse(bytes: &[u8]) -> Result<Option<(Request, usize, usize)>, NoRequest> {
    let mut headers = [httparse::EMPTY_HEADER; MAX_HEADERS];
    let mut parsed = httparse::Request::new(&mut headers);
    let head_bytes = match parsed.parse(bytes) {
        Ok(httparse::Status::Complete(len)) => len,
        Ok(httparse::Status::Partial) => return Ok(None),
        Err(error) => return Err(bad(400, &format!("no HTTP request: {error}"))),
    };
    let method = match parsed.method {
        Some("GET" | "HEAD") => Method::Get,
        Some("POST") => Method::Post,
        Some("DELETE") => Method::Delete,
        _ => return Err(bad(405, "only GET, HEAD, POST and DELETE are answered")),
    };
    let target = parsed.path.unwrap_or("/");
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    let mut request = Request {
        method,
        path: path.to_owned(),
        query: query.to_owned(),
        headers: Vec::new(),
        body: Vec::new(),
        is_head: parsed.method == Some("HEAD"),
        keep_alive: parsed.version == Some(1),
        takes_chunks: parsed.version == Some(1),
    };
    for header in parsed.headers.iter() {
        let value = std::str::from_utf8(header.value);
        let value = value.map_err(|_| bad(400, "a header value is not text"))?;
        request.headers.push((header.name.to_ascii_lowercase(), value.trim().to_owned()));
    }
    if request.header("connection").is_some_and(|value| value.eq_ignore_ascii_case("close")) {
        request.keep_alive = false;
    }
    let body_bytes = body_bytes(&request)?;
    Ok(Some((request, head_bytes, body_bytes)))
}

fn body_bytes(request: &Request) -> Result<usize, NoRequest> {
    if request.has_header("transfer-encoding") {
        return Err(bad(411, "a request with a body needs Content-Length"));
    }
    if !request.has_header("content-length") {
        return Ok(0);
    }
    let len = request.header("content-length").filter(|v| v.bytes().all(|b| b.is_ascii_digit()));
    let len = len.and_then(|value| value.parse::<usize>().ok());
    let len = len.ok_or_else(|| bad(400, "Content-Length is not a number"))?;
    if len > MAX_BODY_BYTES {
        return Err(bad(413, "the request body is longer than 1 MiB"));
    }
    Ok(len)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read_all(bytes: &[u8]) -> Result<Vec<Request>, u16> {
        let (mut from, mut left) = (bytes, Vec::new());
        let mut requests = Vec::new();
        loop {
            match read(&mut from, &mut left) {
                Ok(request) => requests.push(request),
                Err(NoRequest::Gone) => return Ok(requests),
                Err(NoRequest::Bad(response)) => return Err(response.status),
            }
        }
    }

    #[test]
    fn requests_one_behind_the_other() {
        let bytes = b"GET /a?x=1&y=2 HTTP/1.1\r\nHost: h\r\nCookie: a=1; b=2\r\n\r\n\
                      POST /b HTTP/1.1\r\nContent-Length: 4\r\n\r\nbodyGET / HTTP/1.0\r\n\r\n";
        let requests = read_all(bytes).unwrap();
        assert_eq!(requests.len(), 3);
        assert_eq!((requests[0].value("y"), requests[0].cookie("b")), (Some("2"), Some("2")));
        assert_eq!((requests[1].path.as_str(), &requests[1].body[..]), ("/b", &b"body"[..]));
        assert!(requests[0].keep_alive && !requests[2].keep_alive);
    }

    #[test]
    fn what_is_refused() {
        assert_eq!(read_all(b"\0\x01\x02 / HTTP/1.1\r\n\r\n").unwrap_err(), 400);
        assert_eq!(read_all(b"PUT / HTTP/1.1\r\n\r\n").unwrap_err(), 405);
        let chunked = b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n";
        assert_eq!(read_all(chunked).unwrap_err(), 411);
        for (length, status) in [("-1", 400), ("+1", 400), ("9999999", 413), ("1e3", 400)] {
            let text = format!("POST / HTTP/1.1\r\nContent-Length: {length}\r\n\r\n");
            assert_eq!(read_all(text.as_bytes()).unwrap_err(), status, "{length}");
        }
        let twice = b"POST / HTTP/1.1\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab";
        assert_eq!(read_all(twice).unwrap_err(), 400);
        let long = format!("GET / HTTP/1.1\r\nA: {}\r\n\r\n", "a".repeat(20_000));
        assert_eq!(read_all(long.as_bytes()).unwrap_err(), 431);
    }
}
