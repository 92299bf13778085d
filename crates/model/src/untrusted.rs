//! Text that a guest, a process or a file chose.
//!
//! An error message of a guest that is formatted into a line of root's terminal is an attack that the compiler can
//! see: [`Untrusted`] has no `Display`, no `Deref` and no `AsRef<str>`, so a text leaves it escaped for the kind of
//! output that is named, or by [`Untrusted::raw_for_storage`], whose uses `tests/house/terminals.py` lists.

use crate::{escape, json};
use std::borrow::Cow;
use std::fmt;

/// A text from outside. It is shown by [`terminal`](Self::terminal), [`html`](Self::html) or [`json`](Self::json).
///
/// ```
/// use transect_model::untrusted::Untrusted;
/// let reason = Untrusted::new("no tracefs\nroot: all is well\u{1b}[2J");
/// assert_eq!(reason.terminal(), r"no tracefs\nroot: all is well\x1b[2J");
/// ```
///
/// It cannot be formatted by accident:
///
/// ```compile_fail
/// use transect_model::untrusted::Untrusted;
/// println!("{}", Untrusted::new("guest's text"));
/// ```
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Untrusted<T>(T);

impl<T: AsRef<str>> Untrusted<T> {
    /// Marks a text as one from outside.
    pub const fn new(text: T) -> Self {
        Untrusted(text)
    }

    /// On one line, for terminals, logs and messages; different texts look different.
    pub fn terminal(&self) -> Cow<'_, str> {
        escape::terminal(self.0.as_ref())
    }

    /// For the text and the quoted attributes of a page.
    pub fn html(&self) -> Cow<'_, str> {
        escape::html(self.0.as_ref())
    }

    /// As a JSON string with its quotes.
    pub fn json(&self) -> String {
        json::json_str(self.0.as_ref())
    }

    /// Is there no text?
    pub fn is_empty(&self) -> bool {
        self.0.as_ref().is_empty()
    }

    /// Its bytes.
    pub fn len(&self) -> usize {
        self.0.as_ref().len()
    }

    /// The text as it came, to store, send or compare it, never to print it.
    pub fn raw_for_storage(&self) -> &str {
        self.0.as_ref()
    }

    /// The same text, borrowed.
    pub fn borrowed(&self) -> Untrusted<&str> {
        Untrusted(self.0.as_ref())
    }
}

impl Untrusted<String> {
    /// What is text in these bytes; what is not, as U+FFFD.
    pub fn from_bytes(bytes: &[u8]) -> Self {
        Untrusted(String::from_utf8_lossy(bytes).into_owned())
    }

    /// At most so many characters, and a mark where there were more.
    #[must_use]
    pub fn cut(self, max_chars: usize) -> Self {
        match self.0.char_indices().nth(max_chars) {
            None => self,
            Some((end, _)) => Untrusted(format!("{} …", &self.0[..end])),
        }
    }
}

impl<T: AsRef<str>> PartialEq<str> for Untrusted<T> {
    fn eq(&self, other: &str) -> bool {
        self.0.as_ref() == other
    }
}

impl<T: AsRef<str>> PartialEq<&str> for Untrusted<T> {
    fn eq(&self, other: &&str) -> bool {
        self.0.as_ref() == *other
    }
}

impl From<String> for Untrusted<String> {
    fn from(text: String) -> Self {
        Untrusted(text)
    }
}

impl From<&str> for Untrusted<String> {
    fn from(text: &str) -> Self {
        Untrusted(text.to_owned())
    }
}

/// Escaped as on a terminal, in quotes.
impl<T: AsRef<str>> fmt::Debug for Untrusted<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "\"{}\"", self.terminal())
    }
}

/// Several texts as one list for a message: `a, b`.
pub fn terminal_list<T: AsRef<str>>(texts: &[Untrusted<T>]) -> String {
    texts.iter().map(Untrusted::terminal).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_way_out_escapes() {
        let text = Untrusted::new("a<b>\u{1b}[2J\n\u{202e}\"".to_owned());
        assert_eq!(text.terminal(), "a<b>\\x1b[2J\\n\\u{202e}\"");
        assert_eq!(text.html(), "a&lt;b&gt;\\x1b[2J\n\\u{202e}&quot;");
        assert_eq!(text.json(), r#""a<b>\u001b[2J\n\u202e\"""#);
        assert_eq!(format!("{text:?}"), "\"a<b>\\x1b[2J\\n\\u{202e}\"\"");
        assert_eq!(text.raw_for_storage(), "a<b>\u{1b}[2J\n\u{202e}\"");
    }

    #[test]
    fn lists_are_escaped_item_by_item() {
        let clocks = ["local", "x86-tsc\u{1b}[1A"].map(Untrusted::new);
        assert_eq!(terminal_list(&clocks), "local, x86-tsc\\x1b[1A");
        assert!(clocks[0] == "local");
        assert_eq!(Untrusted::from_bytes(b"a\xff").terminal(), "a\u{fffd}");
    }

    #[test]
    fn long_texts_are_cut_at_a_character() {
        let long = Untrusted::new("é".repeat(50));
        assert_eq!((long.len(), long.cut(40).terminal().chars().count()), (100, 42));
        assert_eq!(Untrusted::from("short").cut(5).terminal(), "short");
    }
}
