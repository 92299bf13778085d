//! `transect sql`: questions to a recording's tables.
//!
//! **Data flow.** arguments → a folder of tables ([`tables_dir`]) → a database
//! (`transect-query`) → each statement's rows → one writer ([`answer`]). Without SQL on a
//! terminal, [`prompt`] asks for it.
//!
//! Exit code 2 says that the SQL is wrong, 1 that it could not be answered.

mod answer;
mod complete;
mod prompt;

use super::load::SourceArgs;
use answer::Target;
use anyhow::Context as _;
use std::io::{self, IsTerminal, Read};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use transect_query::{Database, Options, QueryError, docs};

/// Arguments of `transect sql`.
#[derive(clap::Args)]
#[command(after_help = "Examples:\n  \
    transect sql demo.transect 'SELECT * FROM antagonists LIMIT 10'\n  \
    transect sql demo.transect                       a prompt with completion\n  \
    transect sql demo.transect --csv 'SELECT * FROM exit_latency' > exits.csv\n  \
    transect sql --views                             what is there to ask\n\n\
    Tables, views, functions and ten worked questions: docs/sql.md.")]
pub(crate) struct Args {
    /// The recording: a directory that `record` or `import` made, or a trace.dat or xentrace
    /// file
    recording: Option<PathBuf>,
    /// What to ask; several statements separated by ; (without it: standard input, or a prompt)
    sql: Option<String>,
    /// Read the SQL from a file
    #[arg(short, long, value_name = "FILE", conflicts_with = "sql")]
    file: Option<PathBuf>,
    /// Write comma-separated values
    #[arg(long, group = "format")]
    csv: bool,
    /// Write one JSON array
    #[arg(long, group = "format")]
    json: bool,
    /// Write one JSON object a line
    #[arg(long, group = "format")]
    jsonl: bool,
    /// Write an Arrow IPC file
    #[arg(long, value_name = "FILE", group = "format")]
    arrow: Option<PathBuf>,
    /// Write a Parquet file
    #[arg(long, value_name = "FILE", group = "format")]
    parquet: Option<PathBuf>,
    /// Write to a file rather than to standard output; the format follows from its name (.csv,
    /// .json, .jsonl, .arrow, .parquet) unless an option says it
    #[arg(short, long, value_name = "FILE", conflicts_with_all = ["arrow", "parquet"])]
    output: Option<PathBuf>,
    /// Rows shown on a terminal
    #[arg(long, value_name = "N", default_value_t = 200)]
    rows: usize,
    /// Say how the query would be run, and do not run it
    #[arg(long)]
    explain: bool,
    /// List tables and columns with their meaning, and do not query
    #[arg(long)]
    schema: bool,
    /// List the views with their columns and an example each, and do not query
    #[arg(long)]
    views: bool,
    /// With --schema or --views: as Markdown
    #[arg(long)]
    markdown: bool,
    /// Memory for sorting, grouping and joining before it spills to a temporary folder
    #[arg(long, value_name = "SIZE", default_value = "1G", value_parser = transect_query::parse_memory)]
    memory: usize,
    #[command(flatten)]
    source: SourceArgs,
}

/// Runs `transect sql`.
pub(crate) fn run(args: Args) -> anyhow::Result<ExitCode> {
    if args.schema || args.views {
        print_docs(&args)?;
        return Ok(ExitCode::SUCCESS);
    }
    match query(&args) {
        Err(error) => match error.downcast_ref::<QueryError>() {
            Some(QueryError::Stopped) => Ok(ExitCode::from(130)),
            Some(bad) if bad.is_bad_sql() => {
                eprintln!("transect: {bad}");
                Ok(ExitCode::from(2))
            }
            _ => Err(error),
        },
        Ok(()) => Ok(ExitCode::SUCCESS),
    }
}

fn query(args: &Args) -> anyhow::Result<()> {
    let Some(recording) = &args.recording else {
        return Err(bad("which recording? transect sql RECORDING 'SELECT …'"));
    };
    let sql = sql_text(args)?;
    let target = Target::of(args)?;
    let tables = tables_dir(recording, &args.source)?;
    let options = Options { memory_bytes: args.memory, ..Options::default() };
    let database = Database::open(&tables, &options)?;
    match sql {
        Some(sql) => answer::all(&database, &sql, args.explain, &target),
        None => prompt::run(&database, args.rows),
    }
}

/// An error of the command line.
fn bad(message: &str) -> anyhow::Error {
    QueryError::Sql { message: message.to_owned() }.into()
}

/// The SQL to run; none to ask for it.
fn sql_text(args: &Args) -> anyhow::Result<Option<String>> {
    if let Some(sql) = &args.sql {
        return Ok(Some(sql.clone()));
    }
    if let Some(file) = &args.file {
        let text = std::fs::read_to_string(file).with_context(|| file.display().to_string())?;
        return Ok(Some(text));
    }
    if io::stdin().is_terminal() {
        return Ok(None);
    }
    let mut text = String::new();
    io::stdin().read_to_string(&mut text).context("standard input")?;
    Ok(Some(text))
}

/// The folder of a recording's Parquet tables, made if they are missing or stale. A folder of
/// tables without its recording will do, too.
fn tables_dir(recording: &Path, source: &SourceArgs) -> anyhow::Result<PathBuf> {
    let is_bare = recording.is_dir() && !recording.join("manifest.json").exists();
    let inside = recording.join("tables");
    if is_bare && inside.is_dir() {
        return Ok(inside);
    }
    Ok(super::load::tables::ensure(recording, source)?.path)
}

fn print_docs(args: &Args) -> anyhow::Result<()> {
    use std::io::Write as _;
    let text = match (args.views, args.markdown) {
        (false, false) => docs::tables_text(None),
        (false, true) => docs::tables_markdown(),
        (true, false) => docs::views_text(None),
        (true, true) => docs::views_markdown(),
    };
    Ok(io::stdout().write_all(text.as_bytes())?)
}
