//! What can come next at the prompt: keywords, tables, columns, functions, commands.

use rustyline::completion::{Completer, Pair};
use rustyline::highlight::Highlighter;
use rustyline::hint::Hinter;
use rustyline::validate::{ValidationContext, ValidationResult, Validator};
use rustyline::{Context, Helper};
use std::collections::BTreeMap;
use transect_model::escape::is_unsafe;
use transect_query::Database;

/// The prompt's commands, which are no SQL.
pub(super) const COMMANDS: [(&str, &str); 5] = [
    (".tables", "tables and views"),
    (".schema", "columns of a table or view: .schema exits"),
    (".views", "views with their columns and an example each"),
    (".help", "this list of commands"),
    (".quit", "exit (same as ^D)"),
];

const KEYWORDS: [&str; 46] = [
    "SELECT",
    "FROM",
    "WHERE",
    "GROUP",
    "BY",
    "ORDER",
    "HAVING",
    "LIMIT",
    "OFFSET",
    "JOIN",
    "LEFT",
    "RIGHT",
    "INNER",
    "OUTER",
    "FULL",
    "CROSS",
    "ON",
    "USING",
    "AS",
    "AND",
    "OR",
    "NOT",
    "IN",
    "IS",
    "NULL",
    "LIKE",
    "BETWEEN",
    "EXISTS",
    "CASE",
    "WHEN",
    "THEN",
    "ELSE",
    "END",
    "DISTINCT",
    "UNION",
    "ALL",
    "WITH",
    "CAST",
    "ASC",
    "DESC",
    "NULLS",
    "LAST",
    "OVER",
    "PARTITION",
    "EXPLAIN",
    "FILTER",
];

/// Completes words of one database.
pub(super) struct SqlHelper {
    /// Columns of each table and view.
    tables: BTreeMap<String, Vec<String>>,
    functions: Vec<String>,
}

impl SqlHelper {
    pub(super) fn new(database: &Database) -> Self {
        let columns = |table: String| {
            let schema = database.schema(&table).ok()?;
            Some((table, schema.fields().iter().map(|f| f.name().clone()).collect()))
        };
        let tables = database.tables().into_iter().filter_map(columns).collect();
        Self { tables, functions: database.functions() }
    }

    /// Words that begin with `word`: columns of the tables the text names first.
    fn candidates(&self, text: &str, word: &str) -> Vec<String> {
        let lower = word.to_lowercase();
        let mut found = Vec::new();
        let mut add = |candidate: String| {
            // A folder of tables from elsewhere chooses names of tables and columns.
            if !candidate.contains(is_unsafe) && !found.contains(&candidate) {
                found.push(candidate);
            }
        };
        let starts = |name: &str| name.to_lowercase().starts_with(&lower);
        let named: Vec<&str> = text.split(|c: char| !is_word(c)).collect();
        for (table, columns) in &self.tables {
            if named.contains(&table.as_str()) {
                columns.iter().filter(|c| starts(c)).cloned().for_each(&mut add);
            }
        }
        self.tables.keys().filter(|t| starts(t)).cloned().for_each(&mut add);
        if !word.is_empty() {
            KEYWORDS.iter().filter(|k| starts(k)).map(ToString::to_string).for_each(&mut add);
            self.functions.iter().filter(|f| starts(f)).map(|f| format!("{f}(")).for_each(&mut add);
        }
        found
    }
}

fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

impl Completer for SqlHelper {
    type Candidate = Pair;

    fn complete(
        &self,
        line: &str,
        pos: usize,
        _: &Context<'_>,
    ) -> rustyline::Result<(usize, Vec<Pair>)> {
        let before = line.get(..pos).unwrap_or(line);
        let pair = |text: String| Pair { display: text.clone(), replacement: text };
        if before.starts_with('.') && !before.contains(' ') {
            let commands = COMMANDS.iter().map(|(name, _)| (*name).to_owned());
            return Ok((0, commands.filter(|c| c.starts_with(before)).map(pair).collect()));
        }
        let start = before.rfind(|c: char| !is_word(c)).map_or(0, |at| {
            at + before.get(at..).and_then(|s| s.chars().next()).map_or(1, char::len_utf8)
        });
        let word = before.get(start..).unwrap_or_default();
        Ok((start, self.candidates(line, word).into_iter().map(pair).collect()))
    }
}

/// More lines are asked for until a `;` ends the statement; commands are one line.
impl Validator for SqlHelper {
    fn validate(&self, ctx: &mut ValidationContext<'_>) -> rustyline::Result<ValidationResult> {
        let text = ctx.input().trim();
        let is_whole = text.is_empty() || text.starts_with('.') || ends_statement(text);
        Ok(if is_whole { ValidationResult::Valid(None) } else { ValidationResult::Incomplete })
    }
}

/// Does the text end in a `;` that is not inside quotes or a comment?
pub(super) fn ends_statement(text: &str) -> bool {
    let mut quote = None;
    let mut ended = false;
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        match (quote, c) {
            (Some(open), c) if open == c => quote = None,
            (Some(_), _) => {}
            (None, '\'' | '"') => (quote, ended) = (Some(c), false),
            (None, '-') if chars.peek() == Some(&'-') => {
                chars.by_ref().take_while(|c| *c != '\n').for_each(drop);
            }
            (None, ';') => ended = true,
            (None, c) if c.is_whitespace() => {}
            (None, _) => ended = false,
        }
    }
    ended && quote.is_none()
}

impl Hinter for SqlHelper {
    type Hint = String;
}
impl Highlighter for SqlHelper {}
impl Helper for SqlHelper {}

#[cfg(test)]
mod tests {
    use super::ends_statement;

    #[test]
    fn a_semicolon_in_quotes_or_a_comment_ends_nothing() {
        assert!(ends_statement("SELECT 1;"));
        assert!(ends_statement("SELECT ';' ; -- done"));
        assert!(!ends_statement("SELECT ';"));
        assert!(!ends_statement("SELECT 1 -- ;"));
        assert!(!ends_statement("SELECT 1; SELECT 2"));
    }
}
