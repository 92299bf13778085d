//! `study-paths`: the transmit paths of four platforms, recorded and written down.
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a program talks")]

use std::fs;
use std::path::PathBuf;
use std::process::{Command, ExitCode};
use std::time::Instant;

use anyhow::{Context, Result};
use clap::Parser;
use transect_studies::asked::output;
use transect_studies::csv;
use transect_studies::paths::plan::PLATFORMS;
use transect_studies::paths::record::{self, Programs, recording};
use transect_studies::paths::{analysis, page};
use transect_testbed::demo;

/// Records how a packet leaves a host, a container, KVM guests and a domain of Xen, and writes the page; see
/// docs/reference/studies/paths.md.
#[derive(Parser)]
#[command(after_help = "Example: study-paths --bin-dir target --out docs/reference/studies")]
struct Arguments {
    /// Folder for the page, paths.md, and for paths/ with the stacks
    #[arg(long, default_value = "docs/reference/studies")]
    out: PathBuf,
    /// Cargo's target folder, with release/transect and */agent/transect-agent
    #[arg(long, default_value = "target")]
    bin_dir: PathBuf,
    /// Folder for the recordings [default: study-paths-recordings in the target folder]
    #[arg(long)]
    recordings: Option<PathBuf>,
    /// Do not record; query transect again for all recordings, and write the page
    #[arg(long)]
    again: bool,
    /// Do not record or query; only write the page from the CSV file
    #[arg(long, conflicts_with = "again")]
    page_only: bool,
}

fn main() -> ExitCode {
    match study(&Arguments::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("study-paths: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn study(arguments: &Arguments) -> Result<()> {
    if !arguments.page_only {
        let programs = Programs {
            transect: demo::built(&arguments.bin_dir, "release/transect")?,
            agent: demo::agent(&arguments.bin_dir)?,
        };
        let recordings = arguments.recordings.clone();
        let recordings =
            recordings.unwrap_or_else(|| arguments.bin_dir.join("study-paths-recordings"));
        if !arguments.again {
            record_all(&programs, &recordings)?;
        }
        analyse(&programs, &recordings, &page::folder(&arguments.out))?;
    }
    page::write(&arguments.out)?;
    println!("wrote {}", page::path(&arguments.out).display());
    Ok(())
}

fn record_all(programs: &Programs, recordings: &std::path::Path) -> Result<()> {
    if let Some(why) = transect_testbed::xen::missing() {
        anyhow::bail!("no Xen host here: {why}");
    }
    let start = Instant::now();
    record::record(programs, recordings, &mut |line| {
        println!("{:4} s  {line}", start.elapsed().as_secs());
    })
}

/// `stages.csv` and `stacks.html` of all recordings.
fn analyse(programs: &Programs, recordings: &std::path::Path, to: &std::path::Path) -> Result<()> {
    fs::create_dir_all(to).with_context(|| to.display().to_string())?;
    let mut text = csv::line(&analysis::COLUMNS.map(str::to_owned));
    let absolute = |path: &std::path::Path| {
        std::path::absolute(path).with_context(|| path.display().to_string())
    };
    // The page has the recordings' names as they are given here.
    let mut flame = Command::new(absolute(&programs.transect)?);
    flame.args(["flame", "--packets"]).current_dir(recordings);
    for platform in PLATFORMS {
        let recording = recording(recordings, platform.name);
        let lines = analysis::lines(&programs.transect, &recording, &platform)?;
        // A way of one event has no length, and no flame graph.
        if lines.lines().count() > 1 {
            flame.arg(recording.file_name().context("a recording without a name")?);
        }
        text += &lines;
    }
    let stages = to.join("stages.csv");
    fs::write(&stages, text).with_context(|| stages.display().to_string())?;
    output(flame.arg("-o").arg(absolute(&to.join("stacks.html"))?)).map(drop)
}
