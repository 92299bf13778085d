//! `transect export`: a recording's tables in the formats other tools read, or a smaller recording.
//!
//! **Data flow.** recording → engine (`load`) → rows → one file. `perfetto` needs all rows of a
//! track before it can nest them and so holds the tables in memory; `jsonl` writes each row as it
//! comes and holds none. Of a stretch of time the rows come from the recording's tables (`excerpt`),
//! and so does a smaller recording.

mod jsonl;
#[cfg(test)]
mod tests;

use super::excerpt::{self, Stretch, Written, pack};
use super::load;
use super::load::Noting;
use crate::moment::RangeArgs;
use crate::output::Output;
use crate::terminal::say;
use anyhow::Context as _;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;
use transect_model::table::Tables;
use transect_recorder::units;
use transect_recording::losses;

/// Arguments of `transect export`.
#[derive(clap::Args)]
#[command(after_help = "Examples:\n  \
    transect export demo.transect --to perfetto -o demo.perfetto-trace\n  \
    transect export demo.transect --to jsonl -o - | grep '\"table\":\"exits\"'\n  \
    transect export demo.transect --to recording --from +1s --until +1.5s -o small.transect\n  \
    transect export demo.transect --to recording --from 2026-11-25T02:41:38Z -o small.transect.tar\n\n\
    Open the Perfetto file at https://ui.perfetto.dev (it stays in your browser). report, sql, view and\n\
    export read the smaller recording.\n\
    docs/reference/export.md describes the contents of each format.")]
pub(crate) struct Args {
    /// Recording to read: a directory made by `record` or `import`, a trace.dat or an xentrace file
    recording: PathBuf,
    /// Output format
    #[arg(long, value_name = "FORMAT", value_enum)]
    to: Format,
    #[command(flatten)]
    range: RangeArgs,
    /// File to write, - for standard output; for a recording a directory or a *.tar file
    #[arg(short, long, value_name = "FILE")]
    output: PathBuf,
    /// Length of the windows in jsonl; they begin at multiples of it on the recording's clock, as in
    /// 'transect top' [default: 1s, from the recording's start; not for recordings in ticks]
    #[arg(long, value_name = "T", value_parser = units::parse_duration, conflicts_with_all = ["from", "until"])]
    window: Option<Duration>,
    #[command(flatten)]
    source: super::load::SourceArgs,
}

/// Output formats.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Format {
    /// Timeline for ui.perfetto.dev: machines, CPUs, vCPU states, exits, threads, wakeups
    Perfetto,
    /// Every row of every table, one JSON object per line
    Jsonl,
    /// Smaller recording with the tables and events of the range
    Recording,
}

impl Args {
    /// The requested range of time.
    fn stretch(&self) -> Stretch<'_> {
        Stretch { path: &self.recording, source: &self.source, range: self.range }
    }

    fn is_to_stdout(&self) -> bool {
        self.output.as_os_str() == "-"
    }
}

/// Where all losses of a recording are.
const IMPORT_LOG: &str = "transect report --view log lists them";

/// Runs `transect export`.
pub(crate) fn run(args: Args) -> anyhow::Result<ExitCode> {
    let (written, next) = match args.to {
        Format::Perfetto => {
            (perfetto(&args)?, Some("open it at https://ui.perfetto.dev".to_owned()))
        }
        Format::Jsonl => (rows(&args)?, None),
        Format::Recording => recording(&args)?,
    };
    if !args.is_to_stdout() {
        say!("{}: {written}", args.output.display());
        if let Some(next) = next {
            say!("next: {next}");
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn perfetto(args: &Args) -> anyhow::Result<String> {
    let (facts, mut tables) = if args.range.is_given() {
        let mut tables = Tables::default();
        (args.stretch().rows(&mut tables)?, tables)
    } else {
        super::load::tables(&args.recording, &args.source, None)?
    };
    load::note_losses(&losses::among(&tables.import_log), IMPORT_LOG);
    let mut output = Output::binary(&args.output)?;
    tables.machines.sort_by_key(|machine| machine.machine_id);
    let written = transect_perfetto::timeline::write(&tables, facts.unit.as_str(), &mut output);
    let written = written.map_err(unwrap_io).with_context(|| args.output.display().to_string())?;
    output.finish()?;
    Ok(excerpt::written_words(&written, facts.unit))
}

/// Returns the I/O error itself, so that a closed pipe is recognised.
fn unwrap_io(error: transect_perfetto::WriteError) -> anyhow::Error {
    match error {
        transect_perfetto::WriteError::Io(error) => error.into(),
        other => other.into(),
    }
}

fn rows(args: &Args) -> anyhow::Result<String> {
    let output = Output::create(&args.output)?;
    let mut sink = jsonl::JsonLines::new(output);
    let mut watched = Noting::new(&mut sink);
    let (recording, source) = (&args.recording, &args.source);
    match args.window {
        _ if args.range.is_given() => args.stretch().rows(&mut watched).map(drop)?,
        None => super::load::rows(recording, source, None, &mut watched).map(drop)?,
        Some(window) => {
            let window_ns = i64::try_from(window.as_nanos()).context("--window is too long")?;
            super::load::rows_in_aligned_windows(recording, source, window_ns, &mut watched)
                .map(drop)?;
        }
    }
    load::note_losses(&watched.losses, IMPORT_LOG);
    let (rows, output) = sink.finish().with_context(|| args.output.display().to_string())?;
    output.finish()?;
    Ok(format!("{rows} rows"))
}

/// Writes the excerpt; returns its summary and the suggested next command.
fn recording(args: &Args) -> anyhow::Result<(String, Option<String>)> {
    let is_tar = args.output.extension().is_some_and(|extension| extension == "tar");
    if !is_tar && !args.is_to_stdout() {
        let dir = excerpt::directory(&args.output)?;
        let written = args.stretch().write(dir, u64::MAX, None)?;
        load::note_problems(&load::ensure(&args.recording, &args.source, None)?);
        let next = format!("transect report {0}, transect view {0}", dir.display());
        return Ok((words(&written), Some(next)));
    }
    let name = args.output.file_stem().map(|name| name.to_string_lossy().into_owned());
    let name = name.filter(|name| is_tar && !name.is_empty());
    let name = name.unwrap_or_else(|| "excerpt.transect".to_owned());
    let beside = args.output.parent().filter(|dir| is_tar && !dir.as_os_str().is_empty());
    let scratch = match beside {
        Some(dir) => tempfile::tempdir_in(dir),
        None if is_tar => tempfile::tempdir_in("."),
        None => tempfile::tempdir(),
    };
    let scratch = scratch.context("cannot create the temporary directory for the excerpt")?;
    let written = args.stretch().write(&scratch.path().join(&name), u64::MAX, None)?;
    load::note_problems(&load::ensure(&args.recording, &args.source, None)?);
    let output = Output::binary(&args.output)?;
    let output = pack::tar(&written.path, &name, output);
    output.with_context(|| args.output.display().to_string())?.finish()?;
    let next = format!("tar xf {}; transect view {name}", args.output.display());
    Ok((words(&written), Some(next)))
}

fn words(written: &Written) -> String {
    let Written { rows, events, window, unit, .. } = written;
    let (start, end) = (window.start, window.end);
    format!("{rows} rows and {events} events from {start} to {end} {}", unit.as_str())
}
