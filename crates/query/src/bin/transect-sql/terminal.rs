//! The one place where this program prints.
//!
//! Errors hold SQL, names of columns and values of cells: no character of them but the line's end is one that a
//! terminal obeys. Outside of this module the macros of the standard library are denied (`clippy::print_stdout`).

use std::io::{self, IsTerminal, Stdout, Write};
use transect_model::escape::{indented, one_line};
use transect_model::guard::{Guard, Syntax};
use transect_query::output::Format;

/// One line on standard output.
macro_rules! say {
    ($($text:tt)*) => { $crate::terminal::print_line(&format!($($text)*)) };
}

pub(crate) use say;

/// An error on standard error; further lines of its text are indented.
pub(crate) fn error(program: &str, text: &str) {
    let _ = writeln!(io::stderr(), "{program}: {}", indented(text));
}

/// An error at the prompt, which is where its user looks.
pub(crate) fn print_error(text: &str) {
    let _ = writeln!(io::stdout(), "{}", indented(text));
}

/// See [`say!`].
pub(crate) fn print_line(text: &str) {
    let _ = writeln!(io::stdout(), "{}", one_line(text));
}

/// The program's own text.
///
/// # Errors
/// The output's.
pub(crate) fn print_text(text: &str) -> io::Result<()> {
    Guard::new(io::stdout(), Some(Syntax::Lines)).write_all(text.as_bytes())
}

/// Standard output for rows: escaped on a terminal, unchanged in a file or pipe.
pub(crate) fn rows(format: Format) -> Guard<Stdout> {
    let out = io::stdout();
    let syntax = syntax(format).filter(|_| out.is_terminal());
    Guard::new(out, syntax)
}

/// How a format is escaped on a terminal; none for bytes that are no text.
pub(crate) fn syntax(format: Format) -> Option<Syntax> {
    match format {
        Format::Table(_) => Some(Syntax::Lines),
        Format::Csv => Some(Syntax::Csv),
        Format::Json | Format::JsonLines => Some(Syntax::Json),
        Format::Arrow | Format::Parquet => None,
    }
}
