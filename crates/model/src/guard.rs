//! A stream to a terminal in which nothing from outside can be obeyed.
//!
//! **Data flow.** A writer of lines, CSV or JSON → [`Guard`] → the terminal. What is written to a file or a pipe passes
//! unchanged: there it is data, and a reader wants the bytes of the recording.

use crate::escape::{is_unsafe, push_char};
use std::fmt::Write as _;
use std::io::{self, Write};

/// How unsafe characters are shown, so that the result still is what it claims to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Syntax {
    /// Lines for people: `\x1b`; only line ends pass.
    Lines,
    /// Comma-separated values: as lines, but a line end inside quotes is shown as `\n`.
    Csv,
    /// JSON: `\u001b`, which every reader of JSON reads as the character. Line ends stand outside of strings.
    Json,
}

/// Passes text on with unsafe characters shown as escapes.
#[derive(Debug)]
pub struct Guard<W> {
    out: W,
    /// `None`: everything passes.
    syntax: Option<Syntax>,
    /// Bytes of a character that is not complete yet.
    partial: Vec<u8>,
    shown: String,
    is_quoted: bool,
}

/// A change of the terminal's attributes by the program itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Weight {
    /// Bold from here on.
    Bold,
    /// Plain from here on.
    Plain,
}

impl<W: Write> Guard<W> {
    /// Guards `out`; with `None` it is no terminal and everything passes.
    pub fn new(out: W, syntax: Option<Syntax>) -> Self {
        Guard { out, syntax, partial: Vec::new(), shown: String::new(), is_quoted: false }
    }

    /// Changes the attributes: the only escape sequences that reach the terminal.
    ///
    /// # Errors
    /// The output's.
    pub fn weight(&mut self, weight: Weight) -> io::Result<()> {
        self.out.write_all(match weight {
            Weight::Bold => b"\x1b[1m",
            Weight::Plain => b"\x1b[0m",
        })
    }

    fn push_text(&mut self, syntax: Syntax, text: &str) {
        for c in text.chars() {
            let is_line_end = c == '\n' && !(syntax == Syntax::Csv && self.is_quoted);
            self.is_quoted ^= c == '"';
            match syntax {
                _ if is_line_end || !is_unsafe(c) => self.shown.push(c),
                Syntax::Lines | Syntax::Csv => push_char(&mut self.shown, c),
                Syntax::Json => {
                    for unit in c.encode_utf16(&mut [0; 2]) {
                        // Writing to a String does not fail.
                        let _ = write!(self.shown, "\\u{unit:04x}");
                    }
                }
            }
        }
    }

    fn push_invalid(&mut self, syntax: Syntax, bytes: &[u8]) {
        for byte in bytes {
            let _ = match syntax {
                Syntax::Json => write!(self.shown, "\\ufffd"),
                Syntax::Lines | Syntax::Csv => write!(self.shown, "\\x{byte:02x}"),
            };
        }
    }

    fn push(&mut self, syntax: Syntax, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            match std::str::from_utf8(bytes) {
                Ok(text) => return self.push_text(syntax, text),
                Err(error) => {
                    let (valid, rest) = bytes.split_at(error.valid_up_to());
                    self.push_text(syntax, std::str::from_utf8(valid).unwrap_or_default());
                    let Some(invalid) = error.error_len() else {
                        self.partial = rest.to_vec();
                        return;
                    };
                    let (invalid, rest) = rest.split_at(invalid);
                    self.push_invalid(syntax, invalid);
                    bytes = rest;
                }
            }
        }
    }

    fn pass(&mut self) -> io::Result<()> {
        let passed = self.out.write_all(self.shown.as_bytes());
        self.shown.clear();
        passed
    }
}

impl<W: Write> Write for Guard<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let Some(syntax) = self.syntax else { return self.out.write(bytes) };
        let is_plain = |byte: &u8| matches!(byte, b' '..=b'~' | b'\n');
        if syntax != Syntax::Csv && self.partial.is_empty() && bytes.iter().all(is_plain) {
            return self.out.write(bytes);
        }
        let mut begun = std::mem::take(&mut self.partial);
        if begun.is_empty() {
            self.push(syntax, bytes);
        } else {
            begun.extend_from_slice(bytes);
            self.push(syntax, &begun);
        }
        self.pass()?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        if let Some(syntax) = self.syntax {
            let partial = std::mem::take(&mut self.partial);
            self.push_invalid(syntax, &partial);
            self.pass()?;
        }
        self.out.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// What passes, written in pieces of so many bytes.
    fn passed(syntax: Option<Syntax>, bytes: &[u8], piece: usize) -> String {
        let mut guard = Guard::new(Vec::new(), syntax);
        for piece in bytes.chunks(piece) {
            guard.write_all(piece).unwrap();
        }
        guard.flush().unwrap();
        String::from_utf8(guard.out).unwrap()
    }

    #[test]
    fn a_file_gets_the_bytes_and_a_terminal_gets_escapes() {
        let text = "evil\u{1b}[2J,\"a\nb\u{9b}\"\n";
        assert_eq!(passed(None, text.as_bytes(), 100), text);
        let lines = passed(Some(Syntax::Lines), text.as_bytes(), 100);
        assert_eq!(lines, "evil\\x1b[2J,\"a\nb\\x9b\"\n");
        let csv = passed(Some(Syntax::Csv), text.as_bytes(), 100);
        assert_eq!(csv, "evil\\x1b[2J,\"a\\nb\\x9b\"\n");
        let json = passed(Some(Syntax::Json), "{\"a\":\"\u{9b}\u{e0041}\"}\n".as_bytes(), 100);
        assert_eq!(json, "{\"a\":\"\\u009b\\udb40\\udc41\"}\n");
    }

    #[test]
    fn bytes_that_are_no_text_are_shown_as_such() {
        assert_eq!(
            passed(Some(Syntax::Lines), b"a\xff\x9b1m\xe2\x80", 100),
            "a\\xff\\x9b1m\\xe2\\x80"
        );
        assert_eq!(passed(Some(Syntax::Json), b"\"\xff\"", 100), "\"\\ufffd\"");
    }

    #[test]
    fn only_the_program_itself_sets_attributes() {
        let mut guard = Guard::new(Vec::new(), Some(Syntax::Lines));
        guard.weight(Weight::Bold).unwrap();
        guard.write_all(b"\x1b[31mname").unwrap();
        guard.weight(Weight::Plain).unwrap();
        assert_eq!(guard.out, b"\x1b[1m\\x1b[31mname\x1b[0m");
    }

    proptest! {
        #[test]
        fn no_bytes_pass_that_a_terminal_obeys(bytes in prop::collection::vec(any::<u8>(), 0..80), piece in 1_usize..9) {
            for syntax in [Syntax::Lines, Syntax::Csv, Syntax::Json] {
                let shown = passed(Some(syntax), &bytes, piece);
                prop_assert!(!shown.chars().any(|c| c != '\n' && is_unsafe(c)), "{:?}", shown);
                // Pieces make no difference.
                prop_assert_eq!(passed(Some(syntax), &bytes, 1000), shown);
            }
        }
    }
}
