//! Every verb of the command line, one module each. A new verb adds its module, one line in
//! [`Verb`] and one in [`Verb::run`].

mod bench;
mod doctor;
mod excerpt;
mod export;
mod import;
mod load;
mod record;
mod report;
#[cfg(test)]
mod sample;
mod sandbox;
mod serve;
mod snapshot;
mod sql;
mod stop;
mod tables;
mod top;
mod view;

use clap::Subcommand;
use std::process::ExitCode;

/// What to do.
#[derive(Subcommand)]
pub(crate) enum Verb {
    /// Measure what each layer and each tracer costs, with an interval and a limiter
    Bench(Box<bench::Args>),
    /// Say what this machine allows, what is missing, and the one command that mends it
    Doctor(doctor::Args),
    /// Make a recording of files that other tools recorded: trace.dat, xentrace
    Import(import::Args),
    /// Write a recording, or a stretch of it, for other tools, as rows, or as a smaller recording
    Export(export::Args),
    /// Say who had the CPU, who waited and behind whom, and why guests exited
    Report(report::Args),
    /// Ask a recording in SQL: its tables, documented views, as-of and interval joins
    Sql(Box<sql::Args>),
    /// Show a recording's timeline in the browser: every layer in one window
    View(Box<view::Args>),
    /// Record what this host and its guests do
    Record(Box<record::Args>),
    /// Have a running flight recorder write what it holds
    Snapshot(snapshot::Args),
    /// End a running recording
    Stop(stop::Args),
    /// Say what every VM, container and thread does now, window by window
    Top(top::Args),
    /// Keep watching: dashboard, API, history of a day, metrics for Prometheus, snapshots
    Serve(Box<serve::Args>),
    /// Make the tables of a recording now (queries make them when they are needed)
    #[command(hide = true)]
    Tables(tables::Args),
}

impl Verb {
    /// Runs the verb. The exit code is 0, or 1 where the verb's own result is "no".
    pub(crate) fn run(self) -> anyhow::Result<ExitCode> {
        match self {
            Verb::Bench(args) => bench::run(*args),
            Verb::Doctor(args) => doctor::run(args),
            Verb::Import(args) => import::run(args),
            Verb::Export(args) => export::run(args),
            Verb::Report(args) => report::run(args),
            Verb::Sql(args) => sql::run(*args),
            Verb::View(args) => view::run(*args),
            Verb::Record(args) => record::run(&args),
            Verb::Snapshot(args) => snapshot::run(args),
            Verb::Stop(args) => stop::run(args),
            Verb::Top(args) => top::run(&args),
            Verb::Serve(args) => serve::run(&args),
            Verb::Tables(args) => tables::run(args),
        }
    }
}
