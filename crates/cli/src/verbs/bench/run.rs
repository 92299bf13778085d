//! `transect bench run` and `resume`.

use super::{plan, report};
use crate::terminal::{self, hint, note};
use anyhow::Context as _;
use signal_hook::{
    consts::{SIGHUP, SIGINT, SIGTERM},
    flag,
};
use std::{
    path::{Path, PathBuf},
    process::ExitCode,
    sync::{Arc, atomic::AtomicBool},
    time::{Duration, Instant},
};
use transect_bench_core::Fault;
use transect_bench_limiter::perturb::Elasticity;
use transect_bench_run::{
    journal::{Confirmation, Entry, Outcome, State},
    plan::Plan,
    procedure::{self, Boots, ByHand, Grub, Own, Results, Witness},
};

/// Arguments of `transect bench run`.
#[derive(clap::Args)]
#[command(after_help = "Example: transect bench run quick -o results")]
pub(super) struct Args {
    /// Plan: a TOML file, or one of quick, full, published
    #[arg(value_name = "PLAN")]
    plan: String,
    /// Folder for the results: created if missing; it must not contain results
    #[arg(short, long, value_name = "DIR")]
    output: PathBuf,
    /// Stop before the first run if any cell is unavailable on this machine
    #[arg(long)]
    strict: bool,
    /// Reboot this host when a platform of the plan requires another boot loader entry, and continue there
    #[arg(long)]
    may_reboot: bool,
    /// Print only errors
    #[arg(short, long)]
    quiet: bool,
}

/// Arguments of `transect bench resume`.
#[derive(clap::Args)]
#[command(after_help = "Example: transect bench resume results")]
pub(super) struct ResumeArgs {
    /// Folder with the results
    #[arg(value_name = "DIR")]
    results: PathBuf,
    /// Reboot this host when a platform of the plan requires another boot loader entry, and continue there
    #[arg(long)]
    may_reboot: bool,
    /// Print only errors
    #[arg(short, long)]
    quiet: bool,
}

/// Arguments of `transect bench confirm`.
#[derive(clap::Args)]
#[command(after_help = "Example: transect bench confirm results")]
pub(super) struct ConfirmArgs {
    /// Folder with the results
    #[arg(value_name = "DIR")]
    results: PathBuf,
    /// Number of runs with the suspect halved, and the same number without
    #[arg(long, value_name = "N", default_value_t = 6, value_parser = clap::value_parser!(u32).range(4..))]
    times: u32,
    /// Print only errors
    #[arg(short, long)]
    quiet: bool,
}

pub(super) fn confirm(args: &ConfirmArgs) -> anyhow::Result<ExitCode> {
    let results = Results::at(&args.results);
    let must_stop = stop_on_signals()?;
    let mut teller = Teller::new(args.quiet);
    let own = own(&args.results, false)?;
    procedure::confirm(&results, &own, args.times, &must_stop, &mut teller)?;
    Ok(ExitCode::SUCCESS)
}

pub(super) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let (text, name) = plan::plan_of(&args.plan)?;
    let plan = Plan::parse(&text, &name)?;
    let planned = plan.planned()?;
    if !args.quiet {
        terminal::hints(&plan::shown(&plan, &planned, &plan.estimated(&planned.cells)?));
    }
    if args.strict
        && let Some(refused) = planned.refused.first()
    {
        return Err(Fault::from(refused.refusal.clone()).into());
    }
    let results = Results::at(&args.output);
    let must_stop = stop_on_signals()?;
    let mut teller = Teller::new(args.quiet);
    let state = procedure::run(
        &text,
        &results,
        &own(&args.output, args.may_reboot)?,
        &must_stop,
        &mut teller,
    )?;
    ended(&state, &results, args.quiet)
}

pub(super) fn resume(args: &ResumeArgs) -> anyhow::Result<ExitCode> {
    if args.may_reboot {
        // root's unit runs the commands of this directory after every boot.
        transect_access::check_dir(&args.results)?;
    }
    let results = Results::at(&args.results);
    let must_stop = stop_on_signals()?;
    let mut teller = Teller::new(args.quiet);
    let state = procedure::resume(
        &results,
        &own(&args.results, args.may_reboot)?,
        &must_stop,
        &mut teller,
    )?;
    ended(&state, &results, args.quiet)
}

fn own(results: &Path, may_reboot: bool) -> anyhow::Result<Own> {
    let results = results.to_owned();
    let boots: Arc<dyn Boots> =
        if may_reboot { Arc::new(Grub { results }) } else { Arc::new(ByHand) };
    Ok(Own {
        boots,
        worker: std::env::current_exe().context("cannot find the path of this program")?,
        worker_arguments: vec!["bench".to_owned(), "worker".to_owned()],
        version: env!("CARGO_PKG_VERSION").to_owned(),
    })
}

/// The first signal ends it after the run that is under way is given up; the second at once.
fn stop_on_signals() -> anyhow::Result<Arc<AtomicBool>> {
    let must_stop = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM, SIGHUP] {
        flag::register_conditional_shutdown(signal, 128 + signal, Arc::clone(&must_stop))?;
        flag::register(signal, Arc::clone(&must_stop))?;
    }
    Ok(must_stop)
}

fn ended(state: &State, results: &Results, is_quiet: bool) -> anyhow::Result<ExitCode> {
    let folder = results.folder().display();
    if state.finished.is_none() {
        note!("not finished; `transect bench resume {folder}` continues it");
        return Ok(ExitCode::from(130));
    }
    if !is_quiet {
        report::show(results)?;
        hint("");
        hint(&format!(
            "Results as one page: transect bench report {folder} --html {folder}/report.html"
        ));
    }
    Ok(ExitCode::SUCCESS)
}

/// The result of halving a suspect.
fn told(confirmation: &Confirmation) -> String {
    let cell = &confirmation.cell;
    if let Some(refusal) = &confirmation.refused {
        return format!("{cell}: not halved: {}", refusal.why);
    }
    let lever = confirmation.lever.as_ref().map(ToString::to_string).unwrap_or_default();
    match &confirmation.elasticity {
        Some(Elasticity { value, interval: Some((low, high)), verdict, .. }) => format!(
            "{cell}: {lever}: elasticity {value:.2} [{low:.2} … {high:.2}], {}",
            format!("{verdict:?}").to_lowercase()
        ),
        _ => format!("{cell}: {lever}: the runs give no elasticity"),
    }
}

/// Tells people how far it is: a line that is written over on a terminal, a line for each block elsewhere.
struct Teller {
    is_quiet: bool,
    is_terminal: bool,
    began: Instant,
    before: Option<usize>,
    block: Option<u32>,
}

impl Teller {
    fn new(is_quiet: bool) -> Self {
        let is_terminal = terminal::shows_progress();
        Self { is_quiet, is_terminal, began: Instant::now(), before: None, block: None }
    }

    fn line(&self, text: &str) {
        if self.is_terminal {
            terminal::clear_progress();
        }
        hint(text);
    }

    /// From how fast it was until now; the last blocks may never come.
    fn left(&self, done: usize, all: usize) -> String {
        let here = done.saturating_sub(self.before.unwrap_or(0));
        if here < 5 {
            return String::new();
        }
        let each = self.began.elapsed().as_secs_f64() / here as f64;
        let left = Duration::from_secs_f64(each * all.saturating_sub(done) as f64);
        format!(", at most {} min left", left.as_secs().div_ceil(60))
    }
}

impl Witness for Teller {
    fn wrote(&mut self, entry: &Entry, done: usize, all: usize) {
        let before = *self.before.get_or_insert(done);
        if self.is_quiet {
            return;
        }
        match entry {
            Entry::Resumed { was_torn, interrupted, .. } => {
                let torn = if *was_torn { ", an incomplete line was removed" } else { "" };
                let again = interrupted.as_ref().map(|key| format!("; repeated: {}", key.cell));
                self.line(&format!(
                    "{before} of {all} runs are complete{torn}{}",
                    again.unwrap_or_default()
                ));
            }
            Entry::Started(started) => {
                if self.block.replace(started.key.block) != Some(started.key.block) {
                    self.line(&format!(
                        "block {}: {done} of at most {all} runs",
                        started.key.block + 1
                    ));
                }
                if self.is_terminal {
                    let left = self.left(done, all);
                    terminal::progress(&format!("{done}/{all}{left}: {}", started.key.cell));
                }
            }
            Entry::Ended(ended) => {
                if let Outcome::Faulted { fault, is_final } = &ended.outcome {
                    let again = if *is_final { "" } else { " (will be repeated)" };
                    self.line(&format!("{}: {fault}{again}", ended.key.cell));
                }
            }
            Entry::Stopped(stop) => {
                // A plan with a fixed number of blocks has no precision to reach.
                let how =
                    if stop.is_precise { "done" } else { "stopped without the wanted precision" };
                let blocks = if stop.blocks == 1 { "block" } else { "blocks" };
                self.line(&format!("{}: {how} after {} {blocks}", stop.workload, stop.blocks));
            }
            Entry::Finished { why, .. } => self.line(&format!("done: {why}")),
            Entry::Confirmed(confirmation) => self.line(&told(confirmation)),
            Entry::Rebooting { boot, .. } => self.line(&format!("rebooting this host into {boot}")),
            Entry::Begun { .. }
            | Entry::Opened(_)
            | Entry::Booted { .. }
            | Entry::Sentinel { .. } => {}
        }
    }
}
