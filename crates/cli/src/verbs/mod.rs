//! Every verb of the command line, one module each. A new verb adds its module, one line in
//! [`Verb`] and one in [`Verb::run`].

mod bench;
mod doctor;
mod excerpt;
mod explain;
mod export;
mod flame;
mod import;
mod load;
mod machines;
pub(crate) mod record;
mod report;
mod sandbox;
mod serve;
mod snapshot;
mod sql;
mod stop;
mod tables;
mod top;
mod verify;
mod view;

use crate::terminal::note;
use clap::Subcommand;
use std::process::ExitCode;
use transect_recorder::leftovers::Removed;

/// The verbs, in the order in which `transect --help` lists them.
#[derive(Subcommand)]
pub(crate) enum Verb {
    /// Check which layers this machine can record, and print the command that fixes each gap
    Doctor(doctor::Args),
    /// Record this host, its VMs and, through the agent, the kernels of its guests
    Record(Box<record::Args>),
    /// Report CPU time, waits and antagonists of VMs and threads, and VM exits by reason
    Report(report::Args),
    /// Explain why a thread or vCPU was slow: its critical path through all machines, and whom it waited for
    Explain(explain::Args),
    /// Show the code with which the stages of packets and block requests begin, as flame graphs
    Flame(flame::Args),
    /// Show the timeline of a recording in the browser, all layers in one window
    View(Box<view::Args>),
    /// Query a recording in SQL: tables, documented views, as-of and interval joins
    Sql(Box<sql::Args>),
    /// Show the current CPU use and waits of every VM, container and thread, per window
    Top(top::Args),
    /// Serve a live dashboard, an HTTP API, a day of history, Prometheus metrics and snapshots
    Serve(Box<serve::Args>),
    /// Convert files of other tracers (trace.dat, xentrace) to a recording
    Import(import::Args),
    /// Export a recording or a time range of it: files for other tools, rows, or an excerpt
    Export(export::Args),
    /// Verify every file of a recording or of a service's data directory, and make damaged ones again
    Verify(verify::Args),
    /// Write the buffer of a running flight recorder to disk
    Snapshot(snapshot::Args),
    /// End a running recording and wait until it is complete
    Stop(stop::Args),
    /// Measure the cost of each layer and each tracer, with intervals and suspected limiters
    Bench(Box<bench::Args>),
    /// Build the tables of a recording now (queries build them on demand)
    #[command(hide = true)]
    Tables(tables::Args),
}

impl Verb {
    /// Runs the verb. The exit code is 0, or 1 where the verb's own result is "no".
    pub(crate) fn run(self) -> anyhow::Result<ExitCode> {
        // `doctor` reports them as one of its checks.
        if !matches!(self, Verb::Doctor(_)) {
            for line in Removed::now().lines() {
                note!("{line}");
            }
        }
        match self {
            Verb::Doctor(args) => doctor::run(args),
            Verb::Record(args) => record::run(&args),
            Verb::Report(args) => report::run(args),
            Verb::Explain(args) => explain::run(&args),
            Verb::Flame(args) => flame::run(&args),
            Verb::View(args) => view::run(*args),
            Verb::Sql(args) => sql::run(*args),
            Verb::Top(args) => top::run(&args),
            Verb::Serve(args) => serve::run(&args),
            Verb::Import(args) => import::run(args),
            Verb::Export(args) => export::run(args),
            Verb::Verify(args) => verify::run(&args),
            Verb::Snapshot(args) => snapshot::run(args),
            Verb::Stop(args) => stop::run(args),
            Verb::Bench(args) => bench::run(*args),
            Verb::Tables(args) => tables::run(args),
        }
    }
}
