//! `study-xenmon`: the XenMon study, run and written down.
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a program talks")]

use std::env;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use clap::Parser;
use transect_studies::xenmon::plan::{self, SETUPS, Setup};
use transect_studies::xenmon::{page, record};

/// Runs the XenMon study on Xen hosts of the testbed and writes its page; see docs/reference/studies/xenmon.md.
#[derive(Parser)]
#[command(
    after_help = "Example: study-xenmon --out docs/reference/studies && git diff docs/reference/studies"
)]
struct Arguments {
    /// Folder for the page, xenmon.md, and for xenmon/ with CSV files and charts
    #[arg(long, default_value = "docs/reference/studies")]
    out: PathBuf,
    /// Continue a study that was stopped: skip runs that are in the CSV files
    #[arg(long)]
    resume: bool,
    /// Only these ways to boot Xen: credit, credit2, credit-unlimited
    #[arg(long, value_delimiter = ',')]
    setups: Vec<String>,
    /// Only these loads, in requests per second
    #[arg(long, value_delimiter = ',')]
    rates: Vec<u32>,
    /// Number of repetitions of each run, each on a newly booted host
    #[arg(long, default_value_t = plan::REPETITIONS)]
    repetitions: u32,
    /// Folder for the traces [default: study-xenmon-traces beside this program]
    #[arg(long)]
    traces: Option<PathBuf>,
    /// Path of the built transect [default: beside this program]
    #[arg(long)]
    transect: Option<PathBuf>,
    /// Only record; do not read the traces or write the page
    #[arg(long)]
    record_only: bool,
    /// Do not record; query transect again for all traces, and write the page
    #[arg(long, conflicts_with = "record_only")]
    again: bool,
    /// Do not record or query; only write page and charts from the CSV files
    #[arg(long, conflicts_with_all = ["record_only", "again"])]
    page_only: bool,
}

fn main() -> ExitCode {
    match study(&Arguments::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("study-xenmon: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn study(arguments: &Arguments) -> Result<()> {
    let traces = arguments.traces.clone().map_or_else(|| beside("study-xenmon-traces"), Ok)?;
    if !(arguments.page_only || arguments.again) {
        run(arguments, &traces)?;
    }
    if arguments.record_only {
        return Ok(());
    }
    if !arguments.page_only {
        let transect = arguments.transect.clone().map_or_else(|| beside("transect"), Ok)?;
        ensure!(transect.is_file(), "{} is not built: run `make build` first", transect.display());
        record::analyse(&transect, &page::folder(&arguments.out), &traces, arguments.again)?;
    }
    page::write(&arguments.out)?;
    println!("wrote {}", page::path(&arguments.out).display());
    Ok(())
}

fn run(arguments: &Arguments, traces: &Path) -> Result<()> {
    if let Some(why) = transect_testbed::xen::missing() {
        anyhow::bail!("no Xen host here: {why}");
    }
    let rates =
        if arguments.rates.is_empty() { plan::RATES.to_vec() } else { arguments.rates.clone() };
    let orders = record::Orders {
        out: page::folder(&arguments.out),
        is_resumed: arguments.resume,
        traces: traces.to_owned(),
        setups: setups(&arguments.setups)?,
        rates,
        repetitions: arguments.repetitions,
    };
    let start = Instant::now();
    record::record(&orders, &mut |line| println!("{:4} s  {line}", start.elapsed().as_secs()))
}

fn setups(names: &[String]) -> Result<Vec<Setup>> {
    let known = || SETUPS.map(|setup| setup.name).join(", ");
    let named = |name: &String| {
        let setup = SETUPS.into_iter().find(|setup| setup.name == name);
        setup.with_context(|| format!("no setup {name}; there are {}", known()))
    };
    if names.is_empty() { Ok(SETUPS.to_vec()) } else { names.iter().map(named).collect() }
}

fn beside(name: &str) -> Result<PathBuf> {
    let own = env::current_exe().context("where am I?")?;
    Ok(own.parent().unwrap_or(Path::new(".")).join(name))
}
