//! What can go wrong with a query, in one line for people.

use crate::suggest::nearest;
use datafusion::common::{Diagnostic, SchemaError};
use datafusion::error::DataFusionError;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use transect_integrity::{Damage, damage_in};

/// Why there is no (further) answer.
#[derive(Debug, thiserror::Error)]
pub enum QueryError {
    /// The query makes no sense: its text must be changed.
    #[error("{}{message}", place.map_or_else(String::new, |place| place.to_string()))]
    Sql {
        /// Where in the text, if that is known.
        place: Option<Place>,
        /// What is wrong, and what was perhaps meant.
        message: String,
    },
    /// The query makes sense, and could not be answered.
    #[error("{message}")]
    Run {
        /// Why, and what to do.
        message: String,
    },
    /// The caller's [`crate::Stop`] was set.
    #[error("stopped")]
    Stopped,
    /// The time that the caller's [`crate::Stop`] gives is over.
    #[error("the query exceeded its time limit")]
    Time,
    /// The tables cannot be read.
    #[error("{}: {source}", path.display())]
    Tables {
        /// File or folder.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A file of the tables is not what was written, or is missing.
    #[error(
        "{0}; 'transect verify DIR --repair' makes the tables again, or copy the excerpt again"
    )]
    Damaged(#[from] Damage),
    /// A result cannot be written.
    #[error("{0}")]
    Write(#[from] io::Error),
}

/// A place in a query's text, both from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// The line.
    pub line: u64,
    /// The column.
    pub column: u64,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}, column {}: ", self.line, self.column)
    }
}

impl QueryError {
    /// A text that makes no sense as a whole.
    pub fn sql(message: impl Into<String>) -> Self {
        QueryError::Sql { place: None, message: message.into() }
    }

    /// Is the query's text to blame, rather than the data or this machine?
    pub fn is_bad_sql(&self) -> bool {
        matches!(self, QueryError::Sql { .. })
    }

    /// Tables that cannot be read; perhaps because they are damaged.
    pub(crate) fn tables(path: &Path, error: io::Error) -> Self {
        match damage_in(&error) {
            Some(damage) => QueryError::Damaged(damage.clone()),
            None => QueryError::Tables { path: path.to_owned(), source: error },
        }
    }

    /// An error while planning: nearly always the text's.
    /// `tables` and `functions` are what there is, for what was perhaps meant.
    pub(crate) fn planning(
        error: &DataFusionError,
        tables: &[String],
        functions: &[String],
    ) -> Self {
        match find(error) {
            Cause::Run(message) => QueryError::Run { message },
            Cause::Sql(found, message) => QueryError::Sql {
                place: error.diagnostic().and_then(place).or(found),
                message: named(message, tables, functions),
            },
        }
    }

    /// An error that damage of the tables explains, and not the query.
    pub(crate) fn or_damage(self, damage: Option<&Damage>) -> Self {
        match (self, damage) {
            (QueryError::Run { .. } | QueryError::Tables { .. }, Some(damage)) => {
                QueryError::Damaged(damage.clone())
            }
            (error, _) => error,
        }
    }

    /// An error while running.
    pub(crate) fn running(error: &DataFusionError, memory_bytes: usize) -> Self {
        if let DataFusionError::ResourcesExhausted(_) = error.find_root() {
            return QueryError::Run { message: exhausted(error.find_root(), memory_bytes) };
        }
        QueryError::Run { message: plain(error.find_root()) }
    }
}

enum Cause {
    Sql(Option<Place>, String),
    Run(String),
}

fn find(error: &DataFusionError) -> Cause {
    match error.find_root() {
        DataFusionError::ObjectStore(e) => Cause::Run(e.to_string()),
        DataFusionError::IoError(e) => Cause::Run(e.to_string()),
        DataFusionError::ParquetError(e) => Cause::Run(e.to_string()),
        DataFusionError::ArrowError(e, _) => Cause::Run(e.to_string()),
        DataFusionError::External(e) => Cause::Run(e.to_string()),
        DataFusionError::SQL(e, _) => {
            let (place, message) = syntax(&e.to_string());
            Cause::Sql(place, message)
        }
        root => Cause::Sql(None, plain(root)),
    }
}

/// The error's own words, without DataFusion's name for its kind.
fn plain(error: &DataFusionError) -> String {
    match error {
        DataFusionError::SchemaError(e, _) => schema(e),
        other => one_line(&other.message()),
    }
}

fn one_line(text: &str) -> String {
    let text = text.split("\n\nbacktrace").next().unwrap_or(text);
    text.lines().map(str::trim).filter(|l| !l.is_empty()).collect::<Vec<_>>().join(" ")
}

/// `sql parser error: Expected: …, found: … at Line: 1, Column: 8`, as a place and words.
fn syntax(text: &str) -> (Option<Place>, String) {
    let text = text.trim_start_matches("sql parser error: ");
    let (what, place) = match text.rsplit_once(" at Line: ") {
        Some((what, place)) => (what, place.split_once(", Column: ")),
        None => (text, None),
    };
    let what =
        what.replace("Expected: ", "expected ").replace("found: EOF", "found the end of the text");
    let what = lower(&what.replace("found: ", "found "));
    let place = place.and_then(|(line, column)| {
        Some(Place { line: line.trim().parse().ok()?, column: column.trim().parse().ok()? })
    });
    (place, what)
}

fn lower(text: &str) -> String {
    let mut chars = text.chars();
    match chars.next() {
        Some(first) if !chars.as_str().starts_with(char::is_uppercase) => {
            first.to_lowercase().chain(chars).collect()
        }
        _ => text.to_owned(),
    }
}

fn schema(error: &SchemaError) -> String {
    match error {
        SchemaError::FieldNotFound { field, valid_fields } => {
            let names: Vec<&str> = valid_fields.iter().map(|f| f.name.as_str()).collect();
            let hint = match nearest(&field.name, names.iter().copied()) {
                Some(near) => format!("; did you mean {near}?"),
                None if names.is_empty() => String::new(),
                None => format!("; columns: {}", some(&names)),
            };
            format!("no column {}{hint}", field.flat_name())
        }
        SchemaError::AmbiguousReference { field } => {
            format!("column {} is ambiguous: write TABLE.{}", field.name, field.name)
        }
        other => one_line(&other.to_string()),
    }
}

fn some(names: &[&str]) -> String {
    let mut unique: Vec<&str> = Vec::new();
    for name in names {
        if !unique.contains(name) {
            unique.push(name);
        }
    }
    let more = if unique.len() > 12 { ", …" } else { "" };
    unique.truncate(12);
    format!("{}{more}", unique.join(", "))
}

/// Says which table or function was perhaps meant.
fn named(message: String, tables: &[String], functions: &[String]) -> String {
    let near = |missing: &str, names: &[String], otherwise: &str| match nearest(
        missing,
        names.iter().map(String::as_str),
    ) {
        Some(near) => format!("; did you mean {near}?"),
        None => otherwise.to_owned(),
    };
    if let Some(missing) = missing_table(&message) {
        let hint = near(missing, tables, "; --schema lists the tables, --views the views");
        return format!("no table {missing}{hint}");
    }
    let function = message.split_once("Invalid function '").and_then(|(_, m)| m.split_once('\''));
    if let Some((missing, _)) = function {
        return format!("no function {missing}{}", near(missing, functions, ""));
    }
    message
}

fn place(diagnostic: &Diagnostic) -> Option<Place> {
    let start = diagnostic.span.filter(|span| span.start.line > 0)?.start;
    Some(Place { line: start.line, column: start.column })
}

/// The name in `table 'transect.public.exit' not found`.
fn missing_table(message: &str) -> Option<&str> {
    let (_, rest) = message.split_once("table '")?;
    let (name, rest) = rest.split_once('\'')?;
    rest.starts_with(" not found").then(|| name.rsplit('.').next().unwrap_or(name))
}

fn exhausted(error: &DataFusionError, memory_bytes: usize) -> String {
    let text = error.message();
    let disk = text.contains("disk");
    let who = text.split("for ").nth(1).and_then(|s| s.split(['[', '(', '#', ' ']).next());
    let who = who.filter(|who| !who.is_empty()).map_or(String::new(), |who| format!(" (in {who})"));
    let limit = transect_ask::memory::text(memory_bytes);
    match disk {
        true => {
            "the query exceeded the limit of the temporary folder: restrict ts or machine_id, or \
                 increase --memory"
                .to_owned()
        }
        false => format!(
            "the query needs more memory than {limit}{who}: restrict ts or machine_id, select fewer \
             columns, or increase --memory"
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn syntax_errors_say_the_place_first() {
        let text = "sql parser error: Expected: an expression, found: FROM at Line: 1, Column: 8";
        let (place, message) = syntax(text);
        assert_eq!(place, Some(Place { line: 1, column: 8 }));
        let said = QueryError::Sql { place, message }.to_string();
        assert_eq!(said, "line 1, column 8: expected an expression, found FROM");
    }
}
