//! What is said over the engine's pipe.
//!
//! A frame is its length (u32, little-endian), one byte that says what it is, and as many bytes. The engine begins with
//! [`Hello`], or with a [`Refusal`] if it cannot open the tables. Then it takes [`Request`]s, one after the other, and
//! answers each query with one Arrow IPC stream, cut into frames of [`Part::Arrow`], and an [`End`]; or with a
//! [`Refusal`], at any time. docs/sql.md has the same for people.

use serde::{Deserialize, Serialize, de::DeserializeOwned};
use std::io::{self, Read, Write};

/// Raised when either side would misunderstand the other.
pub const PROTOCOL: u32 = 1;
/// Both sides are of one build.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");
/// A request is text that people wrote.
pub const MAX_REQUEST_BYTES: u64 = 4 << 20;

/// What a frame is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// A [`Request`], to the engine.
    Request,
    /// A [`Hello`].
    Hello,
    /// The next bytes of an Arrow IPC stream.
    Arrow,
    /// An [`End`].
    End,
    /// A [`Refusal`].
    Refusal,
}

impl Part {
    const ALL: [Part; 5] = [Part::Request, Part::Hello, Part::Arrow, Part::End, Part::Refusal];

    fn byte(self) -> u8 {
        match self {
            Part::Request => b'Q',
            Part::Hello => b'H',
            Part::Arrow => b'A',
            Part::End => b'E',
            Part::Refusal => b'X',
        }
    }

    pub(crate) fn of(byte: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|part| part.byte() == byte)
    }
}

/// To the engine.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Request {
    /// Answer this; queries are answered in the order they come.
    Query {
        /// Says which query the answer is of.
        id: u64,
        /// What to ask.
        #[serde(flatten)]
        query: Query,
    },
    /// Stop answering that one: it ends with a [`Refusal`] of [`Kind::Stopped`], unless it has ended.
    Cancel {
        /// The query's.
        id: u64,
    },
}

/// One question.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Query {
    /// One statement.
    pub sql: String,
    /// Values for `$1`, `$2`, … of it: null, true and false, numbers, text.
    #[serde(default)]
    pub parameters: Vec<serde_json::Value>,
    /// What its answer may take.
    #[serde(default)]
    pub limits: Limits,
}

/// What an answer may take. Rows beyond are left out, and said to be; of the others the query ends.
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

/// The engine's first words.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hello {
    /// [`VERSION`].
    pub version: String,
    /// [`PROTOCOL`].
    pub protocol: u32,
}

impl Hello {
    /// This side's.
    pub fn ours() -> Self {
        Hello { version: VERSION.to_owned(), protocol: PROTOCOL }
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

/// Why there is no (whole) answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Refusal {
    /// Of which query; none: the engine itself cannot go on.
    pub id: Option<u64>,
    /// What is to blame.
    pub kind: Kind,
    /// One line for people, the place included.
    pub message: String,
    /// Where in the text, from 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub line: Option<u64>,
    /// Where in the line, from 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub column: Option<u64>,
}

/// What is to blame.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// The query's text.
    Sql,
    /// It makes sense, and could not be answered: too little memory, damaged data.
    Run,
    /// It was cancelled.
    Stopped,
    /// Its time is over.
    Time,
    /// The tables cannot be read; nothing can be asked.
    Tables,
}

/// Writes a frame.
///
/// # Errors
/// The pipe's; a frame of 4 GiB or more is none.
pub fn write(to: &mut impl Write, part: Part, bytes: &[u8]) -> io::Result<()> {
    let too_long = |_| io::Error::new(io::ErrorKind::InvalidInput, "a frame of 4 GiB or more");
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
/// The pipe's; [`io::ErrorKind::InvalidData`] for what is no frame, or is longer than `max`.
pub fn read(from: &mut impl Read, max: u64) -> io::Result<Option<(Part, Vec<u8>)>> {
    let mut head = [0; HEAD_BYTES];
    if !read_whole(from, &mut head)? {
        return Ok(None);
    }
    let bad = |what: String| io::Error::new(io::ErrorKind::InvalidData, what);
    let (part, length) = parse_head(head).map_err(bad)?;
    if u64::from(length) > max {
        return Err(bad(format!("a frame of {length} bytes, where {max} are taken")));
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
    let part = Part::of(part).ok_or_else(|| format!("a frame of kind {part:#x}"))?;
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

/// What a frame of JSON says.
///
/// # Errors
/// It is none of that kind.
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
            "limits": { "rows": 10, "bytes": 1 << 20, "ms": 500 } } });
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
