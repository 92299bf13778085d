//! `transect sql`: questions to a recording's tables.
//!
//! **Data flow.** arguments → a folder of tables ([`tables_dir`]) → `transect-sql`, which takes this process's place, its
//! terminal and its pipes: DataFusion is in that program alone. If it finds the tables damaged before it has printed
//! anything, it executes this verb again, which makes them again. With a range, the folder is that of a temporary
//! excerpt ([`Part`]), and this process waits for the child to remove it.
//!
//! Exit code 2 says that the SQL is wrong, 1 that it could not be answered.

use super::excerpt::{Part, Stretch};
use super::load::SourceArgs;
use crate::moment::RangeArgs;
use crate::terminal::note;
use anyhow::Context as _;
use std::ffi::OsString;
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use transect_ask::{Wanted, protocol};
use transect_store::Manifest;
use transect_store::tables::TablesFolder;

/// How often the end of the engine is noticed.
const LOOK_EVERY: Duration = Duration::from_millis(10);

/// Arguments of `transect sql`.
#[derive(clap::Args)]
#[command(after_help = "Examples:\n  \
    transect sql demo.transect 'SELECT * FROM antagonists LIMIT 10'\n  \
    transect sql demo.transect                       a prompt with completion\n  \
    transect sql demo.transect --csv 'SELECT * FROM exit_latency' > exits.csv\n  \
    transect sql demo.transect --from +1s --until +2s 'SELECT * FROM vcpu_time'\n  \
    transect sql --views                             views, with columns and an example each\n\n\
    Tables, views, functions and ten worked questions: docs/reference/sql.md.")]
pub(crate) struct Args {
    /// Recording to query: a directory made by `record` or `import`, a trace.dat or an xentrace file
    recording: Option<PathBuf>,
    #[command(flatten)]
    wanted: Wanted,
    #[command(flatten)]
    range: RangeArgs,
    #[command(flatten)]
    source: SourceArgs,
    /// The tables were found to be damaged, and are made again
    #[arg(long, hide = true)]
    made_again: bool,
}

/// Runs `transect sql`; returns only if the engine cannot be run.
pub(crate) fn run(args: Args) -> anyhow::Result<ExitCode> {
    let engine = transect_ask::program()?;
    let is_question = !args.wanted.schema && !args.wanted.views;
    let mut part = None;
    let mut again = Vec::new();
    let tables = match &args.recording {
        _ if !is_question => None,
        None => return Ok(bad("no recording given: transect sql RECORDING 'SELECT …'")),
        Some(recording) => {
            // A mistake is told before tables are made.
            if let Err(mistake) = args.wanted.target() {
                return Ok(bad(&mistake));
            }
            if args.range.is_given() {
                let (path, source, range) = (recording.as_path(), &args.source, args.range);
                let written = Part::write(&Stretch { path, source, range })?;
                let whole = super::load::ensure(recording, &args.source, None)?;
                super::load::note_problems(&whole);
                Some(part.insert(written).tables()?)
            } else {
                let (tables, can_be_made_again) = tables_dir(recording, &args)?;
                if can_be_made_again {
                    again = this_command()?;
                }
                Some(tables)
            }
        }
    };
    let mut command = Command::new(&engine);
    command.args(args.wanted.options()).arg(format!("--of-version={}", protocol::VERSION));
    command.args(again.iter().map(as_again));
    command.arg("--").args(tables).args(args.wanted.sql);
    let Some(part) = part else {
        return Err(command.exec()).with_context(|| engine.display().to_string());
    };
    let code = wait_for(&mut command).with_context(|| engine.display().to_string());
    drop(part);
    code
}

/// Runs the engine to its end. ^C is the engine's: it cancels a query at its prompt.
fn wait_for(command: &mut Command) -> std::io::Result<ExitCode> {
    use signal_hook::consts::{SIGINT, SIGQUIT, SIGTERM};
    let ends: Vec<Arc<AtomicBool>> = [SIGINT, SIGQUIT, SIGTERM]
        .into_iter()
        .map(|signal| {
            let has_come = Arc::new(AtomicBool::new(false));
            signal_hook::flag::register(signal, Arc::clone(&has_come)).map(|_| has_come)
        })
        .collect::<Result<_, _>>()?;
    let mut child = command.spawn()?;
    let has_to_end = || ends.last().is_some_and(|end| end.load(Ordering::Relaxed));
    loop {
        if let Some(status) = child.try_wait()? {
            let code = status.code().or_else(|| Some(128 + status.signal()?));
            return Ok(ExitCode::from(u8::try_from(code.unwrap_or(1)).unwrap_or(1)));
        }
        if has_to_end() {
            // Already gone: then the next look finds its status.
            let _ = child.kill();
        }
        std::thread::sleep(LOOK_EVERY);
    }
}

/// An error of the command line.
fn bad(message: &str) -> ExitCode {
    note!("{message}");
    ExitCode::from(2)
}

/// The folder of a recording's Parquet tables, made if they are missing, stale or damaged. A folder of
/// tables without its recording will do, too. True if the engine may have them made again.
fn tables_dir(recording: &Path, args: &Args) -> anyhow::Result<(PathBuf, bool)> {
    let is_bare = recording.is_dir() && !Manifest::is_at(recording);
    let inside = recording.join("tables");
    if is_bare && inside.is_dir() {
        return Ok((inside, false));
    }
    let tables = match args.made_again {
        false => super::load::ensure(recording, &args.source, None)?,
        true => super::load::ensure_again(recording, &args.source)?,
    };
    super::load::note_problems(&tables);
    let can_be_made_again = tables.can_be_made_again() && !args.made_again;
    let TablesFolder { path, .. } = tables;
    Ok((path, can_be_made_again))
}

/// This command, for the engine: it finds damage while it answers, and has the tables made again.
fn this_command() -> anyhow::Result<Vec<OsString>> {
    let program = std::env::current_exe().context("cannot find the path of this program")?;
    let mut command = vec![program.into_os_string()];
    command.extend(std::env::args_os().skip(1));
    let verb = command.iter().position(|argument| argument == "sql").unwrap_or(0);
    command.insert(verb + 1, "--made-again".into());
    Ok(command)
}

fn as_again(argument: &OsString) -> OsString {
    let mut option = OsString::from("--again=");
    option.push(argument);
    option
}
