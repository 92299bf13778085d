//! `transect export`: a recording's tables in the formats other tools read.
//!
//! **Data flow.** recording → engine (`load`) → rows → one file. `perfetto` needs all rows of a
//! track before it can nest them and so holds the tables in memory; `jsonl` writes each row as it
//! comes and holds none.

mod jsonl;
#[cfg(test)]
mod tests;

use crate::output::Output;
use anyhow::Context as _;
use std::path::PathBuf;
use std::process::ExitCode;
use transect_model::table::Tables;

/// Arguments of `transect export`.
#[derive(clap::Args)]
#[command(after_help = "Examples:\n  \
    transect export demo.transect --to perfetto -o demo.perfetto-trace\n  \
    transect export demo.transect --to jsonl -o - | grep '\"table\":\"exits\"'\n\n\
    Open the Perfetto file at https://ui.perfetto.dev (it stays in your browser).\n\
    What is exported how is described in docs/export.md.")]
pub(crate) struct Args {
    /// The recording: a directory that `record` or `import` made, or a trace.dat or xentrace
    /// file
    recording: PathBuf,
    /// The format
    #[arg(long, value_name = "FORMAT", value_enum)]
    to: Format,
    /// The file to write; - for standard output
    #[arg(short, long, value_name = "FILE")]
    output: PathBuf,
    #[command(flatten)]
    source: super::load::SourceArgs,
}

/// What can be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Format {
    /// A timeline for ui.perfetto.dev: machines, CPUs, vCPU states, exits, threads, wakeups
    Perfetto,
    /// Every row of every table, one JSON object a line
    Jsonl,
}

/// Runs `transect export`.
pub(crate) fn run(args: Args) -> anyhow::Result<ExitCode> {
    let written = match args.to {
        Format::Perfetto => perfetto(&args)?,
        Format::Jsonl => rows(&args)?,
    };
    if args.output.as_os_str() != "-" {
        println!("{}: {written}", args.output.display());
        if args.to == Format::Perfetto {
            println!("next: open it at https://ui.perfetto.dev");
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn perfetto(args: &Args) -> anyhow::Result<String> {
    let (facts, mut tables): (_, Tables) =
        super::load::tables(&args.recording, &args.source, None)?;
    let mut output = Output::create(&args.output)?;
    tables.machines.sort_by_key(|machine| machine.machine_id);
    let written = transect_perfetto::timeline::write(&tables, facts.unit.as_str(), &mut output);
    let written = written.map_err(unwrap_io).with_context(|| args.output.display().to_string())?;
    output.finish()?;
    Ok(format!(
        "{} slices, {} instants and {} counter values on {} tracks",
        written.slices, written.instants, written.counters, written.tracks
    ))
}

/// The I/O error itself, so that a reader that went away is recognised as such.
fn unwrap_io(error: transect_perfetto::WriteError) -> anyhow::Error {
    match error {
        transect_perfetto::WriteError::Io(error) => error.into(),
        other => other.into(),
    }
}

fn rows(args: &Args) -> anyhow::Result<String> {
    let output = Output::create(&args.output)?;
    let mut sink = jsonl::JsonLines::new(output);
    super::load::rows(&args.recording, &args.source, None, &mut sink)?;
    let (rows, output) = sink.finish().with_context(|| args.output.display().to_string())?;
    output.finish()?;
    Ok(format!("{rows} rows"))
}
