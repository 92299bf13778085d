//! `transect top`: what every VM, container and thread does now.

mod log;

use crate::terminal;
use anyhow::Context as _;
use log::Log;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use std::{
    io::{BufWriter, Write},
    path::{Path, PathBuf},
    process::ExitCode,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    time::Duration,
};
use transect_live::{LivePlan, Source, SourceKind, TABLES, lines};
use transect_model::guard::Syntax;
use transect_recorder::units;
use transect_top::Feed;

/// How soon a signal is noticed.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// Arguments of `transect top`.
#[derive(clap::Args)]
#[command(after_help = "Examples:\n  \
    transect top                                  the screen; ? shows its keys\n  \
    transect top --interval 200ms                 200 ms windows, each beside the last 2 s\n  \
    transect top --log night.jsonl --interval 10s no screen: append all rows to a file every 10 s\n  \
    transect top night.jsonl                      replay that log, with the same keys\n  \
    transect top --log night.parquet              a directory of tables, for DuckDB, pandas, Polars\n  \
    transect top --once --json | jq '.antagonists | sort_by(-.ns) | .[:5]'\n\n\
    The screen and its keys: docs/reference/top.md. The columns, and when metrics are missing: docs/reference/live.md.")]
pub(crate) struct Args {
    /// Replay this log, written by --log FILE.jsonl, instead of observing this host
    #[arg(value_name = "FILE", conflicts_with_all = ["once", "log", "interval", "no_io", "source"])]
    replay: Option<PathBuf>,
    /// Print one window and exit
    #[arg(long, requires = "json", conflicts_with = "log")]
    once: bool,
    /// With --once: print JSON
    #[arg(long, requires = "once")]
    json: bool,
    /// No screen: append the rows of every window to FILE.jsonl, FILE.csv or the directory FILE.parquet (- for JSON lines
    /// on standard output)
    #[arg(long, value_name = "FILE")]
    log: Option<PathBuf>,
    /// Window length, 50ms to 1m
    #[arg(long, value_name = "T", default_value = "1s", value_parser = units::parse_duration)]
    interval: Duration,
    /// With --log: exit after N windows [default: run until SIGINT]
    #[arg(long, value_name = "N", requires = "log", value_parser = clap::value_parser!(u64).range(1..))]
    windows: Option<u64>,
    /// Do not count block requests and packets
    #[arg(long)]
    no_io: bool,
    /// Source of the windows: bpf, tracefs, xen (in a dom0), or auto, the best available one
    #[arg(long, value_name = "WHICH", default_value_t)]
    source: SourceKind,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    if let Some(path) = &args.replay {
        transect_top::run(Feed::Log(transect_top::Log::open(path)?))?;
        return Ok(ExitCode::SUCCESS);
    }
    let window_ns = u64::try_from(args.interval.as_nanos()).unwrap_or(u64::MAX);
    let plan = LivePlan { window_ns, io: !args.no_io, ..LivePlan::default() };
    match &args.log {
        Some(path) => log_windows(path, args.source, &plan, args.windows)?,
        None if args.once => once(args.source, &plan)?,
        None => {
            // Before anything is loaded: nobody waits for what cannot be shown.
            transect_top::check_terminal()?;
            transect_top::run(Feed::Live(transect_live::open(args.source, &plan)?))?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn once(source: SourceKind, plan: &LivePlan) -> anyhow::Result<()> {
    let snapshot = transect_live::open(source, plan)?.take()?;
    let mut out = BufWriter::new(terminal::data(Syntax::Json));
    lines::write_object(&snapshot, &TABLES, &mut out)?;
    Ok(out.flush()?)
}

fn log_windows(
    path: &Path,
    source: SourceKind,
    plan: &LivePlan,
    windows: Option<u64>,
) -> anyhow::Result<()> {
    // Before anything is loaded: a file that cannot be written is known at once.
    let mut log = Log::open(path)?;
    let ended = ending_signals()?;
    let mut source = transect_live::open(source, plan)?;
    let mut left = windows;
    while left != Some(0) && wait_for_edge(&*source, &ended) {
        log.write(&source.take()?)?;
        left = left.map(|left| left - 1);
    }
    log.finish()
}

fn ending_signals() -> anyhow::Result<Arc<AtomicBool>> {
    let ended = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM, SIGHUP] {
        // The second one ends the process at once; the kernel takes the programs out.
        signal_hook::flag::register_conditional_shutdown(signal, 128 + signal, ended.clone())?;
        signal_hook::flag::register(signal, ended.clone())
            .context("cannot install signal handlers")?;
    }
    Ok(ended)
}

/// False: a signal came first.
fn wait_for_edge(source: &dyn Source, ended: &AtomicBool) -> bool {
    let Some(edge_ns) = source.next_edge_ns() else { return !ended.load(Relaxed) };
    loop {
        let left = Duration::from_nanos(edge_ns.saturating_sub(transect_bpf::live::monotonic_ns()));
        if ended.load(Relaxed) {
            return false;
        }
        if left.is_zero() {
            return true;
        }
        std::thread::sleep(left.min(LOOK_EVERY));
    }
}
