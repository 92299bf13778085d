//! `transect bench`: what each layer and each tracer costs.

mod list;
mod plan;
mod report;
mod run;
mod worker;

use crate::terminal::note;
use clap::Subcommand;
use std::process::ExitCode;
use transect_bench_core::{Fault, Kind, Refusal};

/// Arguments of `transect bench`.
#[derive(clap::Args)]
#[command(after_help = "Examples:\n  \
    transect bench list                            platforms, tracer arms, workloads\n  \
    transect bench plan quick                      the cells of a plan and their expected duration\n  \
    transect bench run quick -o results            run the plan; Ctrl-C stops it\n  \
    transect bench resume results                  continue after Ctrl-C, a crash, kill -9 or a reboot\n  \
    transect bench confirm results                 halve the suspected limiters\n  \
    transect bench report results                  the results as tables\n  \
    transect bench report results --html page.html one page with charts\n  \
    transect bench compare before after            two sets of results side by side\n  \
    transect bench gate results --at-most 5%       exit code 1 if a tracer costs more\n\n\
    A plan is a TOML file, or one of quick, full, published. Documentation: docs/reference/bench.md; the method: docs/reference/bench-method.md.")]
pub(crate) struct Args {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Subcommand)]
enum Verb {
    /// List platforms, tracer arms and workloads, and those unavailable on this machine
    List(list::Args),
    /// Show a plan's cells, their expected duration, and those unavailable on this machine
    Plan(plan::Args),
    /// Run a plan
    Run(run::Args),
    /// Continue an interrupted run
    Resume(run::ResumeArgs),
    /// Halve the suspected limiter of each workload, and measure how far its result follows
    Confirm(run::ConfirmArgs),
    /// Report results
    Report(report::Args),
    /// Compare two sets of results
    Compare(report::CompareArgs),
    /// Compare results with the published numbers of the papers
    Publish(report::PublishArgs),
    /// Check by exit code whether a tracer exceeds a cost limit
    Gate(report::GateArgs),
    /// Inside a machine: run the jobs that arrive on standard input
    #[command(hide = true)]
    Worker(worker::Args),
}

/// Runs the verb.
pub(crate) fn run(args: Args) -> anyhow::Result<ExitCode> {
    let result = match args.verb {
        Verb::List(args) => list::run(&args),
        Verb::Plan(args) => plan::run(&args),
        Verb::Run(args) => run::run(&args),
        Verb::Resume(args) => run::resume(&args),
        Verb::Confirm(args) => run::confirm(&args),
        Verb::Report(args) => report::run(&args),
        Verb::Compare(args) => report::compare(&args),
        Verb::Publish(args) => report::publish(&args),
        Verb::Gate(args) => report::gate(&args),
        Verb::Worker(args) => worker::run(&args),
    };
    match result.as_ref().err().and_then(|error| error.downcast_ref::<Fault>()) {
        Some(Fault::Refused(Refusal {
            kind: Kind::Plan | Kind::NoReference | Kind::Senseless,
            ..
        })) => {
            // What makes no sense is the user's to mend, as a wrong command line is.
            let refused = result.err().map(|error| format!("{error:#}")).unwrap_or_default();
            note!("{refused}");
            Ok(ExitCode::from(2))
        }
        _ => result,
    }
}
