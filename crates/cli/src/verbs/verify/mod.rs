//! `transect verify`: is everything on disk what was written?
//!
//! **Data flow.** a directory → its kind (a recording, the data directory of `serve`, a folder of tables) → every byte
//! of its files against their checksums → one [`Line`] per file or folder → text or JSON. With `--repair`, what can be
//! made of other files is made again first: tables and tiles from the sources, the manifest and the clock evidence from
//! their copies, a file of the history from its whole frames.
//!
//! Exit code 1 says that something is damaged and remains so.

mod daemon;
mod line;
mod recording;

use crate::terminal::{self, note, say};
use anyhow::{Context as _, bail};
use line::{Line, State};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use transect_model::guard::Syntax;
use transect_store::Manifest;

/// Damaged places of a file that are printed.
const MOST_PLACES: usize = 3;

/// Arguments of `transect verify`.
#[derive(clap::Args)]
#[command(after_help = "Examples:\n  \
    transect verify demo.transect                    which files are whole\n  \
    transect verify --repair demo.transect           make tables and tiles again, restore copies\n  \
    transect verify /var/lib/transect                history and snapshots of transect serve\n  \
    transect verify --json demo.transect | jq '.[] | select(.state == \"damaged\")'\n\n\
    The checksum of each file: docs/reference/verify.md.")]
pub(crate) struct Args {
    /// A recording, the data directory of `transect serve`, or a folder of tables
    dir: PathBuf,
    /// Make damaged files again where that is possible: tables and tiles, the manifest and clocks.jsonl from their
    /// copies, files of the history without their damaged frames
    #[arg(long)]
    repair: bool,
    /// Print a JSON array of {file, bytes, state, places, remedy}
    #[arg(long)]
    json: bool,
}

/// Runs `transect verify`.
pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let dir = args.dir.as_path();
    let context = || dir.display().to_string();
    let lines = match Kind::of(dir)? {
        Kind::Recording => recording::lines(dir, args.repair).with_context(context)?,
        Kind::Daemon => daemon::lines(dir, args.repair).with_context(context)?,
        Kind::History => daemon::history(dir, "", args.repair).with_context(context)?,
        Kind::Tables => vec![recording::tables(dir, ".").with_context(context)?],
    };
    if args.json {
        let mut out = terminal::data(Syntax::Json);
        serde_json::to_writer_pretty(&mut out, &lines)?;
        writeln!(out)?;
    } else {
        lines.iter().for_each(print);
        summary(dir, &lines);
    }
    let is_damaged = lines.iter().any(|line| line.state == State::Damaged);
    Ok(if is_damaged { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

/// What a directory is.
enum Kind {
    Recording,
    Daemon,
    History,
    Tables,
}

impl Kind {
    fn of(dir: &Path) -> anyhow::Result<Self> {
        let has = |name: &str| dir.join(name).exists();
        if !dir.is_dir() {
            bail!(
                "{}: not a directory: name a recording, the data directory of transect serve, or a folder of tables",
                dir.display()
            );
        }
        if Manifest::is_at(dir) {
            return Ok(Kind::Recording);
        }
        if has("history") || has("snapshots") {
            return Ok(Kind::Daemon);
        }
        if has("stamp.json") || has("checksums.bin") {
            return Ok(Kind::Tables);
        }
        let names = dir.read_dir().with_context(|| dir.display().to_string())?;
        let is_series = |name: &str| name.ends_with(".jsonl.zst");
        let mut names = names.flatten().map(|entry| entry.file_name());
        if names.any(|name| name.to_str().is_some_and(is_series)) {
            return Ok(Kind::History);
        }
        bail!(
            "{}: neither a recording, nor the data directory of transect serve, nor a folder of tables: it has no \
             manifest.json, no history and no stamp.json",
            dir.display()
        )
    }
}

fn print(line: &Line) {
    let Line { file, state, places, .. } = line;
    let first = places.first().map_or_else(String::new, |place| format!("  {place}"));
    say!("{}", format!("{file:<28} {:<12}{first}", state.word()).trim_end());
    for place in places.iter().skip(1).take(MOST_PLACES - 1) {
        say!("{:<28} {:<12}  {place}", "", "");
    }
    if places.len() > MOST_PLACES {
        say!("{:<28} {:<12}  and {} more places", "", "", places.len() - MOST_PLACES);
    }
}

/// What to do, each once.
fn summary(dir: &Path, lines: &[Line]) {
    let mut remedies: Vec<&str> = Vec::new();
    for remedy in lines.iter().filter_map(|line| line.remedy.as_deref()) {
        if !remedies.contains(&remedy) {
            remedies.push(remedy);
        }
    }
    if lines.iter().all(|line| line.state == State::Whole) {
        say!("{}: {} files, all whole", dir.display(), lines.len());
    }
    for remedy in remedies {
        let files = lines.iter().filter(|line| line.remedy.as_deref() == Some(remedy));
        let names: Vec<&str> = files.map(|line| line.file.as_str()).take(MOST_PLACES).collect();
        note!("{}: {}: {remedy}", dir.display(), names.join(", "));
    }
}
