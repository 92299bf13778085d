//! Protocol on the engine's pipe.
//!
//! A frame is a length (u32, little-endian), a type byte ([`Part`]) and a body of that length. The engine sends [`Hello`]
//! first, or a [`Refusal`] if it cannot open the tables. It answers queries in order, each with its rows in [`Part::Arrow`]
//! or [`Part::Json`] frames and an [`End`], or with a [`Refusal`], also after some rows. docs/reference/sql.md documents the frames.

use serde::{Deserialize, Serialize, de::DeserializeOwned};
use std::fmt;
use std::io::{self, Read, Write};

/// Version of the protocol, raised by every incompatible change.
pub const PROTOCOL: u32 = 2;
/// Version of the program.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");
/// Limit of a request.
pub const MAX_REQUEST_BYTES: u64 = 4 << 20;

/// Type of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// A [`Request`], to the engine.
    Request,
    /// A [`Hello`].
    Hello,
    /// The next bytes of an Arrow IPC stream.
    Arrow,
    /// The next rows as lines of JSON.
    Json,
    /// An [`End`].
    End,
    /// A [`Refusal`].
    Refusal,
}

impl Part {
    const ALL: [Part; 6] =
        [Part::Request, Part::Hello, Part::Arrow, Part::Json, Part::End, Part::Refusal];

    fn byte(self) -> u8 {
        match self {
            Part::Request => b'Q',
            Part::Hello => b'H',
            Part::Arrow => b'A',
            Part::Json => b'J',
            Part::End => b'E',
            Part::Refusal => b'X',
        }
    }

    pub(crate) fn of(byte: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|part| part.byte() == byte)
    }
}

/// Message to the engine.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Request {
    /// Run a query.
    Query {
        /// Number that the answer repeats.
        id: u64,
        /// The query.
        #[serde(flatten)]
        query: Query,
    },
    /// Cancel a query, which then ends with [`Kind::Stopped`] unless it has already ended.
    Cancel {
        /// The query's.
        id: u64,
    },
}

/// One query.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Query {
    /// One statement.
    pub sql: String,
    /// Values for `$1`, `$2`, … of it: null, true and false, numbers, text.
    #[serde(default)]
    pub parameters: Vec<serde_json::Value>,
    /// Form of the rows.
    #[serde(default)]
    pub form: Form,
    /// Limits of the answer.
    #[serde(default)]
    pub limits: Limits,
}

/// Form of an answer's rows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Form {
    /// One Arrow IPC stream. A decoder believes its lengths, so a program that does not trust the engine hands it on and
    /// does not decode it.
    #[default]
    Arrow,
    /// One JSON object for each row, one line each.
    Json,
}

impl Form {
    /// Type of the frames with the rows.
    pub fn part(self) -> Part {
        match self {
            Form::Arrow => Part::Arrow,
            Form::Json => Part::Json,
        }
    }
}

/// Limits of an answer. Rows beyond `rows` or `bytes` are left out ([`End::truncated`]); `ms` ends the query.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Limits {
    /// Rows.
    #[serde(default = "most")]
    pub rows: u64,
    /// Bytes of its columns in memory: rows that do not fit are left out.
    #[serde(default = "most")]
    pub bytes: u64,
    /// Milliseconds.
    #[serde(default = "most")]
    pub ms: u64,
}

fn most() -> u64 {
    u64::MAX
}

impl Default for Limits {
    fn default() -> Self {
        Limits { rows: most(), bytes: most(), ms: most() }
    }
}

/// First frame of the engine.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hello {
    /// [`VERSION`].
    pub version: String,
    /// [`PROTOCOL`].
    pub protocol: u32,
    /// Walls that this kernel does not have.
    #[serde(default)]
    pub missing_walls: Vec<MissingWall>,
}

impl Hello {
    /// Of this program.
    pub fn ours() -> Self {
        Hello { version: VERSION.to_owned(), protocol: PROTOCOL, missing_walls: Vec::new() }
    }

    /// True if both are of the same version and protocol.
    pub fn fits(&self, other: &Hello) -> bool {
        (&self.version, self.protocol) == (&other.version, other.protocol)
    }
}

/// A wall around the engine that could not be raised.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MissingWall {
    /// `user`, `syscalls` or `limits`: see docs/reference/sql.md.
    pub wall: String,
    /// The reason, one line.
    pub why: String,
}

impl fmt::Display for MissingWall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.wall, self.why)
    }
}

/// The end of an answer.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct End {
    /// Of which query.
    pub id: u64,
    /// Rows that were given.
    pub rows: u64,
    /// From the request to the last row.
    pub ms: f64,
    /// Were there more rows than fit the limits?
    pub truncated: bool,
}

/// A query without a (complete) answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Refusal {
    /// The query's number; none if the engine itself failed.
    pub id: Option<u64>,
    /// Category.
    pub kind: Kind,
    /// One line, including the position.
    pub message: String,
    /// Line in the query's text, from 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub line: Option<u64>,
    /// Column in that line, from 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub column: Option<u64>,
}

/// Category of a refusal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// The query's text.
    Sql,
    /// The query is valid and failed: too little memory, damaged data.
    Run,
    /// Cancelled.
    Stopped,
    /// Time limit exceeded.
    Time,
    /// The tables cannot be read.
    Tables,
    /// A wall is missing and required.
    Walls,
}

/// Writes a frame.
///
/// # Errors
/// The pipe's; or the body has 4 GiB or more.
pub fn write(to: &mut impl Write, part: Part, bytes: &[u8]) -> io::Result<()> {
    let too_long = |_| io::Error::new(io::ErrorKind::InvalidInput, "frame of 4 GiB or more");
    let length = u32::try_from(bytes.len()).map_err(too_long)?.to_le_bytes();
    to.write_all(&[length[0], length[1], length[2], length[3], part.byte()])?;
    to.write_all(bytes)
}

/// Writes a frame of JSON, and sends it off.
///
/// # Errors
/// The pipe's.
pub fn write_json(to: &mut impl Write, part: Part, value: &impl Serialize) -> io::Result<()> {
    write(to, part, &serde_json::to_vec(value)?)?;
    to.flush()
}

/// Reads a frame; none at the end of the pipe.
///
/// # Errors
/// The pipe's; [`io::ErrorKind::InvalidData`] for an unknown type or a body longer than `max`.
pub fn read(from: &mut impl Read, max: u64) -> io::Result<Option<(Part, Vec<u8>)>> {
    let mut head = [0; HEAD_BYTES];
    if !read_whole(from, &mut head)? {
        return Ok(None);
    }
    let bad = |what: String| io::Error::new(io::ErrorKind::InvalidData, what);
    let (part, length) = parse_head(head).map_err(bad)?;
    if u64::from(length) > max {
        return Err(bad(format!("frame of {length} bytes, the limit is {max}")));
    }
    let mut bytes = Vec::new();
    from.take(u64::from(length)).read_to_end(&mut bytes)?;
    if bytes.len() as u64 != u64::from(length) {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    Ok(Some((part, bytes)))
}

pub(crate) const HEAD_BYTES: usize = 5;

pub(crate) fn parse_head(head: [u8; HEAD_BYTES]) -> Result<(Part, u32), String> {
    let [a, b, c, d, part] = head;
    let part = Part::of(part).ok_or_else(|| format!("frame of unknown kind {part:#x}"))?;
    Ok((part, u32::from_le_bytes([a, b, c, d])))
}

/// False at the end of the pipe.
fn read_whole(from: &mut impl Read, bytes: &mut [u8]) -> io::Result<bool> {
    let mut read = 0;
    while let Some(rest) = bytes.get_mut(read..).filter(|rest| !rest.is_empty()) {
        match from.read(rest) {
            Ok(0) if read == 0 => return Ok(false),
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(count) => read += count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(true)
}

/// Decodes a body of JSON.
///
/// # Errors
/// The body is no JSON of that type.
pub fn parse<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, String> {
    serde_json::from_slice(bytes).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn requests_are_what_the_documentation_says() {
        let text = json!({ "query": { "id": 7, "sql": "SELECT $1", "parameters": [1, "a"],
            "form": "json", "limits": { "rows": 10, "bytes": 1 << 20, "ms": 500 } } });
        let request: Request = serde_json::from_value(text.clone()).unwrap();
        assert_eq!(serde_json::to_value(&request).unwrap(), text);
        let short: Request =
            serde_json::from_value(json!({ "query": { "id": 1, "sql": "x" } })).unwrap();
        let query = Query { sql: "x".to_owned(), ..Query::default() };
        assert_eq!(short, Request::Query { id: 1, query });
        assert_eq!(
            serde_json::to_value(Request::Cancel { id: 7 }).unwrap(),
            json!({ "cancel": { "id": 7 } })
        );
    }

    #[test]
    fn frames_come_back_and_what_is_none_is_an_error() {
        let mut bytes = Vec::new();
        write(&mut bytes, Part::Arrow, b"abc").unwrap();
        write_json(&mut bytes, Part::Hello, &Hello::ours()).unwrap();
        let mut from = bytes.as_slice();
        assert_eq!(read(&mut from, 3).unwrap(), Some((Part::Arrow, b"abc".to_vec())));
        let (part, hello) = read(&mut from, 1000).unwrap().unwrap();
        assert_eq!((part, parse(&hello)), (Part::Hello, Ok(Hello::ours())));
        assert_eq!(read(&mut from, 1000).unwrap(), None);
        for (bytes, kind) in [
            (&b"\x03\0\0\0?abc"[..], io::ErrorKind::InvalidData),
            (b"\xff\xff\xff\xffAabc", io::ErrorKind::InvalidData),
            (b"\x03\0\0\0Aab", io::ErrorKind::UnexpectedEof),
            (b"\x03\0", io::ErrorKind::UnexpectedEof),
        ] {
            assert_eq!(read(&mut &*bytes, 1000).unwrap_err().kind(), kind, "{bytes:?}");
        }
    }
}
