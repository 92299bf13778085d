//! The one place where this program prints.
//!
//! Lines on standard error and standard output, and streams to standard output. Whatever a message embeds, no
//! character of it but the line's end is one that a terminal obeys, and none begins a line that this program did not
//! write. Outside of this module the macros of the standard library are denied (`clippy::print_stderr`), and
//! `tests/house/terminals.py` lists the files that open the streams themselves.

use std::backtrace::{Backtrace, BacktraceStatus};
use std::io::{self, IsTerminal, Stdout, Write};
use transect_model::escape::{indented, one_line};
use transect_model::guard::{Guard, Syntax};

/// One line on standard error: `transect: …`. A closed standard error takes none, and nothing ends for it.
macro_rules! note {
    ($($text:tt)*) => { $crate::terminal::print_note(&format!($($text)*)) };
}

/// One line on standard output.
macro_rules! say {
    ($($text:tt)*) => { $crate::terminal::print_line(&format!($($text)*)) };
}

pub(crate) use {note, say};

/// See [`note!`].
pub(crate) fn print_note(text: &str) {
    let _ = writeln!(io::stderr(), "transect: {}", one_line(text));
}

/// An error: further lines of its text are indented.
pub(crate) fn error(text: &str) {
    let _ = writeln!(io::stderr(), "transect: {}", indented(text));
}

/// Prints a panic as an error: its message can quote a name that was read.
pub(crate) fn print_panics() {
    std::panic::set_hook(Box::new(|panic| {
        let thread = std::thread::current();
        error(&format!("thread '{}' {panic}", thread.name().unwrap_or("unnamed")));
        let backtrace = Backtrace::capture();
        if backtrace.status() == BacktraceStatus::Captured {
            hints(&backtrace.to_string());
        }
    }));
}

/// A line on standard error that belongs to the one before it.
pub(crate) fn hint(text: &str) {
    let _ = writeln!(io::stderr(), "{}", one_line(text));
}

/// The program's own lines on standard error, such as a plan.
pub(crate) fn hints(text: &str) {
    text.lines().for_each(hint);
}

/// See [`say!`]. A reader that is gone (`| head`) is no error.
pub(crate) fn print_line(text: &str) {
    let _ = writeln!(io::stdout(), "{}", one_line(text));
}

/// A line on standard error that the next one replaces; nothing where standard error is no terminal.
pub(crate) fn progress(text: &str) {
    let mut err = io::stderr().lock();
    if err.is_terminal() {
        let _ = write!(err, "\r{}\x1b[K", one_line(text));
        let _ = err.flush();
    }
}

/// Takes the progress line away.
pub(crate) fn clear_progress() {
    let mut err = io::stderr().lock();
    if err.is_terminal() {
        let _ = write!(err, "\r\x1b[K");
        let _ = err.flush();
    }
}

/// Is standard error a terminal, which a progress line needs?
pub(crate) fn shows_progress() -> bool {
    io::stderr().is_terminal()
}

/// Standard output for data: escaped on a terminal in the given syntax, unchanged in a file or pipe.
pub(crate) fn data(syntax: Syntax) -> Guard<Stdout> {
    let out = io::stdout();
    let syntax = out.is_terminal().then_some(syntax);
    Guard::new(out, syntax)
}

/// Standard output for people: always escaped.
pub(crate) fn page() -> Guard<Stdout> {
    Guard::new(io::stdout(), Some(Syntax::Lines))
}

/// Standard output for a writer that guards its text itself, because it also sets headings bold.
pub(crate) fn unguarded() -> Stdout {
    io::stdout()
}

/// Is standard output a terminal?
pub(crate) fn is_stdout_terminal() -> bool {
    io::stdout().is_terminal()
}

/// A page with colours of its own, whose texts its writer has escaped one by one (`transect bench report`).
pub(crate) fn coloured(page: &str) -> io::Result<()> {
    io::stdout().lock().write_all(page.as_bytes())
}
