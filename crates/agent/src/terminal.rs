//! The one place where the agent prints: texts of a recorder in a line cannot steer the guest's console.

use std::io::{self, Write};
use transect_model::escape::indented;

/// A line on standard error; further lines of its text are indented. A closed one takes none.
macro_rules! note {
    ($($text:tt)*) => { $crate::terminal::print_note(&format!($($text)*)) };
}

pub(crate) use note;

/// See [`note!`].
pub(crate) fn print_note(text: &str) {
    let _ = writeln!(io::stderr(), "{}", indented(text));
}

/// The answer to a question on the command line.
pub(crate) fn print(text: &str) {
    let _ = io::stdout().write_all(text.as_bytes());
}
