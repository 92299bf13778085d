//! From SQL text to rows in a file or on standard output.

use crate::output::{Output, has_begun};
use crate::terminal;
use anyhow::Context as _;
use std::io::{self, IsTerminal, Write};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use transect_ask::{Layout, Wanted};
use transect_query::output::{Format, Limits, writer};
use transect_query::{Database, QueryError, Rows, Statement, Stop};

/// Where results go, and how they are written.
pub(super) struct Target {
    path: PathBuf,
    format: Format,
}

impl Target {
    pub(super) fn of(wanted: &Wanted) -> anyhow::Result<Self> {
        let (path, layout) = wanted.target().map_err(QueryError::sql)?;
        let format = match layout {
            Layout::Table(rows) if path.as_os_str() == "-" => Format::Table(limits(rows)),
            Layout::Table(_) => Format::Table(Limits::default()),
            Layout::Csv => Format::Csv,
            Layout::Json => Format::Json,
            Layout::JsonLines => Format::JsonLines,
            Layout::Arrow => Format::Arrow,
            Layout::Parquet => Format::Parquet,
        };
        Ok(Self { path: path.to_owned(), format })
    }
}

/// What fits a terminal; everything elsewhere.
pub(super) fn limits(rows: usize) -> Limits {
    if !io::stdout().is_terminal() {
        return Limits::default();
    }
    let width = terminal_size::terminal_size().map(|(width, _)| usize::from(width.0));
    Limits { rows: Some(rows), width }
}

/// Set by ^C; a second one ends the program at once.
pub(super) fn interrupted() -> anyhow::Result<Arc<AtomicBool>> {
    use signal_hook::{consts::SIGINT, flag};
    let flag = Arc::new(AtomicBool::new(false));
    flag::register_conditional_shutdown(SIGINT, 130, Arc::clone(&flag))?;
    flag::register(SIGINT, Arc::clone(&flag))?;
    Ok(flag)
}

/// Set by ^C while a query runs; at the prompt itself ^C is a key.
pub(super) fn interrupted_at_prompt() -> anyhow::Result<Arc<AtomicBool>> {
    let flag = Arc::new(AtomicBool::new(false));
    signal_hook::flag::register(signal_hook::consts::SIGINT, Arc::clone(&flag))?;
    Ok(flag)
}

/// Answers every statement of a text, one after the other.
pub(super) fn all(
    database: &Database,
    sql: &str,
    explain: bool,
    target: &Target,
) -> anyhow::Result<()> {
    let stop = Stop::on(interrupted()?);
    let sql = if explain { format!("EXPLAIN FORMAT TREE {sql}") } else { sql.to_owned() };
    let statements = database.parse(&sql)?;
    if statements.is_empty() {
        return Err(QueryError::sql("no SQL statement given").into());
    }
    let is_file = matches!(target.format, Format::Arrow | Format::Parquet);
    if is_file && statements.len() > 1 {
        let what = "an Arrow or Parquet file holds the result of one statement";
        return Err(QueryError::sql(what).into());
    }
    // The file takes its name only when everything is in it.
    let mut output = Output::create(&target.path, target.format)?;
    for (at, statement) in statements.into_iter().enumerate() {
        if at > 0 && matches!(target.format, Format::Table(_)) {
            writeln!(output)?;
        }
        let written = database
            .run(statement)
            .and_then(|rows| write(rows, target.format, &mut output, &stop))
            .with_context(|| target.path.display().to_string())
            .map_err(unnamed_stdout);
        if let Err(error) = written {
            if database.damage().is_some() && !has_begun() {
                // Perhaps the whole answer follows from tables that are made again.
                output.abandon();
            }
            return Err(error);
        }
    }
    output.finish()
}

/// `-: …` says nothing.
fn unnamed_stdout(error: anyhow::Error) -> anyhow::Error {
    if error.to_string() == "-" {
        return match error.downcast::<QueryError>() {
            Ok(error) => error.into(),
            Err(error) => error,
        };
    }
    error
}

/// Writes the rows of one statement; how many there were.
pub(super) fn write(
    mut rows: Rows<'_>,
    format: Format,
    to: &mut (impl Write + Send),
    stop: &Stop,
) -> Result<usize, QueryError> {
    let schema = rows.schema();
    let mut count = 0;
    if schema.fields().is_empty() {
        // CREATE VIEW, SET: nothing to show.
        while rows.next(stop)?.is_some() {}
        return Ok(0);
    }
    let mut writer = writer(format, &schema, to)?;
    while let Some(batch) = rows.next(stop)? {
        count += batch.num_rows();
        if !writer.write(&batch)? {
            break;
        }
    }
    writer.finish()?;
    Ok(count)
}

/// Runs one statement at the prompt.
pub(super) fn one(
    database: &Database,
    statement: Statement,
    rows: usize,
    stop: &Stop,
) -> Result<usize, QueryError> {
    let answer = database.run(statement)?;
    let format = Format::Table(limits(rows));
    let mut out = io::BufWriter::new(terminal::rows(format));
    write(answer, format, &mut out, stop)
}
