//! Reads an HTTP/1.1 answer as its bytes come in, and says whether it is the one that was asked for. No I/O.
//!
//! Only what a static file's answer can be is understood (RFC 9112 §6): a length, chunks, or a body until the end. An
//! answer is right if its status is 200 and its body has the file's length and begins with the file's mark.

use super::files::{File, MARK};

/// No server needs more for a file.
const HEAD_LIMIT: usize = 16 * 1024;

/// Why an answer is none.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Wrong {
    /// No connection.
    Connect,
    /// The connection ended within the answer.
    Closed,
    /// It is no HTTP.
    Garbage,
    /// Another status than 200.
    Status,
    /// Another length than the file's.
    Length,
    /// The right length, but another file.
    Content,
    /// Nothing, or not everything, within the time-out.
    Late,
}

impl Wrong {
    /// Every kind, in the order of its number.
    pub(crate) const ALL: [Self; 7] = [
        Self::Connect,
        Self::Closed,
        Self::Garbage,
        Self::Status,
        Self::Length,
        Self::Content,
        Self::Late,
    ];

    /// For people.
    #[must_use]
    pub(crate) fn text(self) -> &'static str {
        match self {
            Self::Connect => "no connection",
            Self::Closed => "closed before the end",
            Self::Garbage => "no HTTP",
            Self::Status => "status not 200",
            Self::Length => "wrong length",
            Self::Content => "wrong content",
            Self::Late => "no answer in time",
        }
    }
}

/// What is known after some bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Progress {
    /// There is more to come.
    More,
    /// All is there, and right; may the connection be used again?
    Right {
        /// The server keeps it open.
        is_kept: bool,
    },
    /// It will not be right; the connection is of no use any more.
    Wrong(Wrong),
}

/// How the body's end is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Framing {
    Length,
    Chunks,
    Close,
}

/// What the next bytes are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Part {
    Head,
    Body,
    ChunkSize,
    ChunkData { left: u64 },
    ChunkEnd,
    Trailer,
    Over,
}

/// An answer that is coming in.
#[derive(Debug)]
pub(crate) struct Answer {
    file: File,
    part: Part,
    framing: Framing,
    is_kept: bool,
    /// The head, or a line of the chunks' framing, as far as it is there.
    line: Vec<u8>,
    body: u64,
    mark: [u8; MARK],
}

impl Answer {
    /// To a request for a file.
    #[must_use]
    pub(crate) fn to(file: File) -> Self {
        Self {
            file,
            part: Part::Head,
            framing: Framing::Close,
            is_kept: false,
            line: Vec::new(),
            body: 0,
            mark: [0; MARK],
        }
    }

    /// Has nothing of it come yet?
    #[must_use]
    pub(crate) fn is_untouched(&self) -> bool {
        self.part == Part::Head && self.line.is_empty()
    }

    /// Takes bytes. Bytes after a complete answer are no HTTP: nobody has asked for them.
    pub(crate) fn take(&mut self, mut bytes: &[u8]) -> Progress {
        while !bytes.is_empty() {
            let taken = match self.part {
                Part::Head => self.head(bytes),
                Part::Body => self.data(bytes, u64::MAX),
                Part::ChunkData { left } => self.chunk(bytes, left),
                Part::ChunkSize | Part::ChunkEnd | Part::Trailer => self.framing_line(bytes),
                Part::Over => Err(Wrong::Garbage),
            };
            match taken {
                Ok(count) => bytes = &bytes[count..],
                Err(wrong) => return Progress::Wrong(wrong),
            }
        }
        self.progress()
    }

    /// The connection has ended.
    #[must_use]
    pub(crate) fn close(&self) -> Progress {
        let is_whole = self.part == Part::Body && self.framing == Framing::Close;
        match (is_whole, self.part) {
            (true, _) if self.body == self.file.bytes() => self.verdict(false),
            (true, _) => Progress::Wrong(Wrong::Length),
            (false, Part::Over) => self.verdict(false),
            _ => Progress::Wrong(Wrong::Closed),
        }
    }

    fn progress(&self) -> Progress {
        let is_over = match self.part {
            Part::Over => true,
            Part::Body => self.framing == Framing::Length && self.body == self.file.bytes(),
            _ => false,
        };
        if is_over { self.verdict(self.is_kept) } else { Progress::More }
    }

    fn verdict(&self, is_kept: bool) -> Progress {
        if self.body != self.file.bytes() {
            Progress::Wrong(Wrong::Length)
        } else if self.mark != self.file.mark() {
            Progress::Wrong(Wrong::Content)
        } else {
            Progress::Right { is_kept }
        }
    }

    fn head(&mut self, bytes: &[u8]) -> Result<usize, Wrong> {
        let before = self.line.len();
        let room = HEAD_LIMIT - before;
        self.line.extend_from_slice(&bytes[..bytes.len().min(room)]);
        let known = self.line.len().min(5);
        if self.line[..known] != b"HTTP/"[..known] {
            return Err(Wrong::Garbage);
        }
        // The blank line may have begun in the bytes before.
        let from = before.saturating_sub(3);
        let Some(end) = self.line[from..].windows(4).position(|four| four == b"\r\n\r\n") else {
            return if self.line.len() >= HEAD_LIMIT {
                Err(Wrong::Garbage)
            } else {
                Ok(bytes.len())
            };
        };
        let end = from + end + 4;
        let head = std::mem::take(&mut self.line);
        self.read_head(&head[..end])?;
        Ok(end - before)
    }

    fn read_head(&mut self, head: &[u8]) -> Result<(), Wrong> {
        let head = std::str::from_utf8(head).map_err(|_| Wrong::Garbage)?;
        let mut lines = head.split("\r\n");
        let mut status = lines.next().unwrap_or_default().split(' ');
        let version = status.next().unwrap_or_default();
        let code = status.next().unwrap_or_default();
        if !matches!(version, "HTTP/1.1" | "HTTP/1.0") || code.len() != 3 {
            return Err(Wrong::Garbage);
        }
        if code != "200" {
            return Err(Wrong::Status);
        }
        self.is_kept = version == "HTTP/1.1";
        for line in lines.filter(|line| !line.is_empty()) {
            let (name, value) = line.split_once(':').ok_or(Wrong::Garbage)?;
            self.read_header(name, value.trim())?;
        }
        self.part = match self.framing {
            Framing::Chunks => Part::ChunkSize,
            Framing::Length | Framing::Close => Part::Body,
        };
        Ok(())
    }

    fn read_header(&mut self, name: &str, value: &str) -> Result<(), Wrong> {
        if name.eq_ignore_ascii_case("content-length") {
            let length: u64 = value.parse().map_err(|_| Wrong::Garbage)?;
            if length != self.file.bytes() {
                return Err(Wrong::Length);
            }
            // Chunks win over a length (RFC 9112 §6.3).
            if self.framing == Framing::Close {
                self.framing = Framing::Length;
            }
        } else if name.eq_ignore_ascii_case("transfer-encoding") {
            if !value.eq_ignore_ascii_case("chunked") {
                return Err(Wrong::Garbage);
            }
            self.framing = Framing::Chunks;
        } else if name.eq_ignore_ascii_case("connection") {
            self.is_kept = value.eq_ignore_ascii_case("keep-alive")
                || (self.is_kept && !value.eq_ignore_ascii_case("close"));
        }
        Ok(())
    }

    fn data(&mut self, bytes: &[u8], limit: u64) -> Result<usize, Wrong> {
        let count = usize::try_from(limit).map_or(bytes.len(), |limit| bytes.len().min(limit));
        let at = usize::try_from(self.body).unwrap_or(usize::MAX);
        if at < MARK {
            let marked = count.min(MARK - at);
            self.mark[at..at + marked].copy_from_slice(&bytes[..marked]);
        }
        self.body += count as u64;
        if self.body > self.file.bytes() {
            return Err(Wrong::Length);
        }
        Ok(count)
    }

    fn chunk(&mut self, bytes: &[u8], left: u64) -> Result<usize, Wrong> {
        let count = self.data(bytes, left)?;
        let left = left - count as u64;
        self.part = if left == 0 { Part::ChunkEnd } else { Part::ChunkData { left } };
        Ok(count)
    }

    /// A line of the framing: a chunk's size, the line end after its data, or a trailer.
    fn framing_line(&mut self, bytes: &[u8]) -> Result<usize, Wrong> {
        let end = bytes.iter().position(|&byte| byte == b'\n');
        let count = end.map_or(bytes.len(), |end| end + 1);
        self.line.extend_from_slice(&bytes[..count]);
        if self.line.len() > HEAD_LIMIT {
            return Err(Wrong::Garbage);
        }
        if end.is_some() {
            let line = std::mem::take(&mut self.line);
            let line = std::str::from_utf8(&line).map_err(|_| Wrong::Garbage)?.trim();
            self.part = self.after(line)?;
        }
        Ok(count)
    }

    fn after(&self, line: &str) -> Result<Part, Wrong> {
        Ok(match self.part {
            Part::ChunkSize => {
                let digits = line.split(';').next().unwrap_or_default().trim();
                match u64::from_str_radix(digits, 16).map_err(|_| Wrong::Garbage)? {
                    0 => Part::Trailer,
                    left => Part::ChunkData { left },
                }
            }
            Part::ChunkEnd if line.is_empty() => Part::ChunkSize,
            Part::ChunkEnd => return Err(Wrong::Garbage),
            _ if line.is_empty() => Part::Over,
            _ => Part::Trailer,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const FILE: File = File { directory: 0, class: 0, index: 3 };

    fn size() -> usize {
        FILE.bytes().try_into().unwrap()
    }

    fn body() -> Vec<u8> {
        let mut body = FILE.mark().to_vec();
        body.resize(size(), b'x');
        body
    }

    fn plain(headers: &str) -> Vec<u8> {
        [format!("HTTP/1.1 200 OK\r\n{headers}\r\n").into_bytes(), body()].concat()
    }

    fn chunked(sizes: &[usize]) -> Vec<u8> {
        let mut all = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n".to_vec();
        let body = body();
        let mut rest = &body[..];
        for size in sizes.iter().copied().chain([usize::MAX]) {
            let (now, then) = rest.split_at(size.min(rest.len()));
            if !now.is_empty() {
                all.extend(format!("{:x};a=b\r\n", now.len()).bytes());
                all.extend(now);
                all.extend(b"\r\n");
            }
            rest = then;
        }
        all.extend(b"0\r\nX-Trailer: 1\r\n\r\n");
        all
    }

    fn whole(bytes: &[u8]) -> Progress {
        Answer::to(FILE).take(bytes)
    }

    #[test]
    fn right_and_wrong_answers_are_told_apart() {
        let length = format!("Content-Length: {}\r\n", FILE.bytes());
        assert_eq!(whole(&plain(&length)), Progress::Right { is_kept: true });
        let close = format!("{length}Connection: close\r\n");
        assert_eq!(whole(&plain(&close)), Progress::Right { is_kept: false });
        assert_eq!(whole(&chunked(&[1, 7, 100])), Progress::Right { is_kept: true });
        assert_eq!(whole(b"SSH-2.0-OpenSSH\r\n"), Progress::Wrong(Wrong::Garbage));
        assert_eq!(whole(b"HTTP/1.1 503 No\r\n\r\n"), Progress::Wrong(Wrong::Status));
        assert_eq!(whole(b"HTTP/1.1 200 OK\r\nno colon\r\n\r\n"), Progress::Wrong(Wrong::Garbage));
        assert_eq!(whole(&plain("Content-Length: 5\r\n")), Progress::Wrong(Wrong::Length));
        let mut longer = plain(&length);
        longer.push(b'x');
        assert_eq!(whole(&longer), Progress::Wrong(Wrong::Length));
        let mut other = plain(&length);
        let at = other.len() - size();
        other[at] = b'!';
        assert_eq!(whole(&other), Progress::Wrong(Wrong::Content));
        assert_eq!(whole(&[b'H'; 1]), Progress::More);
        let endless = [&b"HTTP/1.1 200 OK\r\nX: "[..], &vec![b'x'; 2 * HEAD_LIMIT]].concat();
        assert_eq!(whole(&endless), Progress::Wrong(Wrong::Garbage));
    }

    #[test]
    fn an_answer_without_a_length_ends_with_the_connection() {
        let mut answer = Answer::to(FILE);
        assert_eq!(answer.take(&plain("")), Progress::More);
        assert_eq!(answer.close(), Progress::Right { is_kept: false });
        let mut answer = Answer::to(FILE);
        let all = plain("");
        assert_eq!(answer.take(&all[..all.len() - 1]), Progress::More);
        assert_eq!(answer.close(), Progress::Wrong(Wrong::Length));
        let length = format!("Content-Length: {}\r\n", FILE.bytes());
        let mut answer = Answer::to(FILE);
        let all = plain(&length);
        assert_eq!(answer.take(&all[..all.len() - 1]), Progress::More);
        assert_eq!(answer.close(), Progress::Wrong(Wrong::Closed));
    }

    proptest! {
        #[test]
        fn it_does_not_matter_how_the_bytes_are_cut(
            cuts in prop::collection::vec(1..60usize, 1..400), sizes in prop::collection::vec(1..200usize, 0..5),
        ) {
            for bytes in [chunked(&sizes), plain(&format!("content-length:{}\r\n", FILE.bytes()))] {
                let mut answer = Answer::to(FILE);
                let (mut rest, mut cuts) = (&bytes[..], cuts.iter().cycle());
                while !rest.is_empty() {
                    let (now, then) = rest.split_at((*cuts.next().unwrap()).min(rest.len()));
                    let progress = answer.take(now);
                    rest = then;
                    let wanted = if rest.is_empty() { Progress::Right { is_kept: true } } else { Progress::More };
                    prop_assert_eq!(progress, wanted);
                }
            }
        }

        #[test]
        fn no_bytes_make_it_panic(bytes in prop::collection::vec(any::<u8>(), 0..500), at in 0..200usize) {
            let mut some = chunked(&[10]);
            let at = at.min(some.len());
            some.splice(at.., bytes.iter().copied());
            let mut answer = Answer::to(FILE);
            let _ = answer.take(&some);
            let _ = answer.close();
            let _ = Answer::to(FILE).take(&bytes);
        }
    }
}
