//! `transect-sql`: the SQL engine as a program.
//!
//! **Data flow.** A folder of tables → a database (`transect-query`) → each statement's rows → one writer ([`answer`]);
//! without SQL on a terminal, [`prompt`] reads statements. With `--pipe` it serves `transect serve` and `transect view`
//! over standard input and output ([`pipe`]).
//!
//! `transect sql` makes a recording's tables and executes this program. If the tables turn out to be damaged before
//! anything was printed, this program executes `transect sql` again, which makes them again ([`again`]).
//!
//! Exit code 2 says that the SQL is wrong, 1 that it could not be answered.

mod again;
mod answer;
mod complete;
mod output;
mod pipe;
mod prompt;
mod terminal;
mod walls;

use anyhow::Context as _;
use clap::Parser;
use std::ffi::OsString;
use std::io::{self, IsTerminal, Read};
use std::path::PathBuf;
use std::process::ExitCode;
use transect_ask::{Wanted, protocol};
use transect_query::{Database, Options, QueryError, docs};

#[derive(Parser)]
#[command(
    name = "transect-sql",
    version,
    about = "Run SQL queries on the tables of a recording (the engine of transect sql, serve and view)",
    after_help = "Examples:\n  \
        transect sql demo.transect 'SELECT * FROM exit_latency'       makes the tables first\n  \
        transect-sql demo.transect/tables 'SELECT * FROM machines'    reads existing tables\n  \
        transect-sql --views                                          views, with columns and an example each\n\n\
        Tables, views, functions and the protocol of --pipe: docs/reference/sql.md."
)]
struct Cli {
    /// Folder of the tables
    tables: Option<PathBuf>,
    #[command(flatten)]
    wanted: Wanted,
    /// Number of threads, and of partitions of a query [default: number of CPUs]
    #[arg(long, value_name = "N")]
    threads: Option<usize>,
    /// Read requests from standard input and write answers to standard output (for programs)
    #[arg(long, conflicts_with_all = ["sql", "file", "format", "output", "explain", "schema", "views"])]
    pipe: bool,
    /// With --pipe: exit if a wall around this process is missing
    #[arg(long, requires = "pipe")]
    require_sandbox: bool,
    /// Print the walls around a child of serve or view that this machine does not have; exit code 1 if any is missing
    #[arg(long, exclusive = true)]
    check_sandbox: bool,
    /// A command that makes damaged tables again and then runs this query, an argument each
    #[arg(long, value_name = "ARGUMENT", hide = true)]
    again: Vec<OsString>,
    /// Exit with an error unless this is the version
    #[arg(long, value_name = "VERSION", hide = true)]
    of_version: Option<String>,
}

fn main() -> ExitCode {
    let cli = Cli::parse();
    if cli.check_sandbox {
        return check_sandbox();
    }
    match run(&cli).map_err(|error| again::if_damaged(&cli, error)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) if is_broken_pipe(&error) => ExitCode::SUCCESS,
        Err(error) => match error.downcast_ref::<QueryError>() {
            Some(QueryError::Stopped) => ExitCode::from(130),
            known => {
                terminal::error("transect", &one_line(&error));
                ExitCode::from(if known.is_some_and(QueryError::is_bad_sql) { 2 } else { 1 })
            }
        },
    }
}

/// Raises the walls around this process and names those that are missing.
fn check_sandbox() -> ExitCode {
    let missing = walls::raise_walls(&Options::default(), 0);
    for wall in &missing {
        terminal::print_line(&wall.to_string());
    }
    if missing.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn run(cli: &Cli) -> anyhow::Result<()> {
    if let Some(theirs) = cli.of_version.as_deref().filter(|theirs| *theirs != protocol::VERSION) {
        let ours = protocol::VERSION;
        anyhow::bail!(
            "version mismatch: transect is {theirs}, transect-sql is {ours}: install the same version of both"
        );
    }
    if cli.wanted.schema || cli.wanted.views {
        return print_docs(&cli.wanted);
    }
    let Some(tables) = &cli.tables else {
        return Err(QueryError::sql("no tables given: transect-sql FOLDER 'SELECT …'").into());
    };
    let threads = cli.threads.unwrap_or(Options::default().threads);
    let options = Options { memory_bytes: cli.wanted.memory, threads, ..Options::default() };
    if cli.pipe {
        return pipe::run(tables, &options, cli.require_sandbox);
    }
    let sql = sql_text(&cli.wanted)?;
    let target = answer::Target::of(&cli.wanted)?;
    let database = Database::open(tables, &options)?;
    if !database.is_verified() {
        let tables = tables.display();
        terminal::error(
            "transect",
            &format!("{tables}: no checksums, so these tables are not verified"),
        );
    }
    match sql {
        Some(sql) => answer::all(&database, &sql, cli.wanted.explain, &target),
        None => prompt::run(&database, cli.wanted.rows, || again::distrust(cli)),
    }
}

/// The error and its causes; a cause that is already in the line is not repeated.
fn one_line(error: &anyhow::Error) -> String {
    let mut line = String::new();
    for cause in error.chain().map(ToString::to_string) {
        if line.is_empty() {
            line = cause;
        } else if !line.contains(&cause) {
            line = format!("{line}: {cause}");
        }
    }
    line
}

/// The SQL to run; none to ask for it.
fn sql_text(wanted: &Wanted) -> anyhow::Result<Option<String>> {
    if let Some(sql) = &wanted.sql {
        return Ok(Some(sql.clone()));
    }
    if let Some(file) = &wanted.file {
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

fn print_docs(wanted: &Wanted) -> anyhow::Result<()> {
    let text = match (wanted.views, wanted.markdown) {
        (false, false) => docs::tables_text(None),
        (false, true) => docs::tables_markdown(),
        (true, false) => docs::views_text(None),
        (true, true) => docs::views_markdown(),
    };
    Ok(terminal::print_text(&text)?)
}

/// Did the error come from a reader that closed our standard output?
fn is_broken_pipe(error: &anyhow::Error) -> bool {
    error.chain().any(|cause| {
        cause.downcast_ref::<io::Error>().is_some_and(|io| io.kind() == io::ErrorKind::BrokenPipe)
    })
}
