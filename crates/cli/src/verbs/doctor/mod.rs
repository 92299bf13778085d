//! `transect doctor`: what this machine allows, what is missing, and the command that mends it.
//!
//! A check never trusts a file's existence where trying is cheap: it creates a tracefs instance,
//! runs a VM, boots a kernel. What it tried is in the finding.

mod channels;
mod check;
mod compact;
mod kvm;
mod leftovers;
mod namespaces;
mod recording;
#[cfg_attr(not(target_arch = "x86_64"), path = "tiny_vm_none.rs")]
mod tiny_vm;
mod tracing;
mod xen;

use crate::terminal;
use check::{Check, Status};
use std::{io::Write, path::PathBuf, process::ExitCode};
use transect_model::{escape::one_line, guard::Syntax};

/// Arguments of `transect doctor`.
#[derive(clap::Args)]
#[command(after_help = "Examples:\n  \
    transect doctor            one line per facility, and the fix for each gap\n  \
    transect doctor --json     the same as JSON, for scripts\n  \
    transect doctor r.transect how a recording ended, and what of it can be read\n\n\
    Exit code: 0 if this host can be recorded, 1 if it cannot. With DIR: 0 if the recording is whole.")]
pub(crate) struct Args {
    /// Check this recording instead of this host
    #[arg(value_name = "DIR")]
    recording: Option<PathBuf>,
    /// Print a JSON array of {facility, status, finding, fix}
    #[arg(long)]
    json: bool,
    /// Run the tiny VM of the KVM check in this process (the check starts this as a child, with a deadline)
    #[arg(long, hide = true)]
    run_tiny_vm: bool,
}

pub(crate) fn run(args: Args) -> anyhow::Result<ExitCode> {
    if args.run_tiny_vm {
        return tiny_vm::run();
    }
    let checks = match &args.recording {
        Some(dir) => recording::checks(dir)?,
        None => checks_of_host(),
    };
    if args.json {
        let mut out = terminal::data(Syntax::Json);
        serde_json::to_writer_pretty(&mut out, &checks)?;
        writeln!(out)?;
    } else {
        print(&checks)?;
    }
    // A recording is whole, or it is not; a host can lack much and be recorded all the same.
    let is_bad = |check: &Check| match args.recording {
        Some(_) => check.status != Status::Ok,
        None => check.essential && check.status == Status::Missing,
    };
    Ok(if checks.iter().any(is_bad) { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

fn checks_of_host() -> Vec<Check> {
    [
        leftovers::checks(),
        tracing::checks(),
        vec![compact::check(), namespaces::check()],
        kvm::checks(),
        xen::checks(),
        channels::checks(),
    ]
    .into_iter()
    .flatten()
    .collect()
}

fn print(checks: &[Check]) -> std::io::Result<()> {
    let mut out = terminal::page();
    let width = checks.iter().map(|c| c.facility.len()).max().unwrap_or(0);
    for check in checks {
        let mark = match check.status {
            Status::Ok => "ok     ",
            Status::Limited => "limited",
            Status::Missing => "MISSING",
        };
        writeln!(out, "{mark}  {:width$}  {}", check.facility, one_line(&check.finding))?;
        if !check.fix.is_empty() {
            writeln!(out, "         {:width$}  → {}", "", one_line(&check.fix))?;
        }
    }
    Ok(())
}
