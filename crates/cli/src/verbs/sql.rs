//! `transect sql`: questions to a recording's tables.
//!
//! **Data flow.** arguments → a folder of tables ([`tables_dir`]) → `transect-sql`, which takes this process's place, its
//! terminal and its pipes: DataFusion is in that program alone.
//!
//! Exit code 2 says that the SQL is wrong, 1 that it could not be answered.

use super::load::SourceArgs;
use anyhow::Context as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use transect_ask::{Wanted, protocol};

/// Arguments of `transect sql`.
#[derive(clap::Args)]
#[command(after_help = "Examples:\n  \
    transect sql demo.transect 'SELECT * FROM antagonists LIMIT 10'\n  \
    transect sql demo.transect                       a prompt with completion\n  \
    transect sql demo.transect --csv 'SELECT * FROM exit_latency' > exits.csv\n  \
    transect sql --views                             views, with columns and an example each\n\n\
    Tables, views, functions and ten worked questions: docs/reference/sql.md.")]
pub(crate) struct Args {
    /// Recording to query: a directory made by `record` or `import`, a trace.dat or an xentrace file
    recording: Option<PathBuf>,
    #[command(flatten)]
    wanted: Wanted,
    #[command(flatten)]
    source: SourceArgs,
}

/// Runs `transect sql`; returns only if the engine cannot be run.
pub(crate) fn run(args: Args) -> anyhow::Result<ExitCode> {
    let engine = transect_ask::program()?;
    let is_question = !args.wanted.schema && !args.wanted.views;
    let tables = match &args.recording {
        _ if !is_question => None,
        None => return Ok(bad("no recording given: transect sql RECORDING 'SELECT …'")),
        Some(recording) => {
            // A mistake is told before tables are made.
            if let Err(mistake) = args.wanted.target() {
                return Ok(bad(&mistake));
            }
            Some(tables_dir(recording, &args.source)?)
        }
    };
    let mut command = Command::new(&engine);
    command.args(args.wanted.options()).arg(format!("--of-version={}", protocol::VERSION));
    command.arg("--").args(tables).args(args.wanted.sql);
    Err(command.exec()).with_context(|| engine.display().to_string())
}

/// An error of the command line.
fn bad(message: &str) -> ExitCode {
    eprintln!("transect: {message}");
    ExitCode::from(2)
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
