//! `transect bench`: what each layer and each tracer costs.

mod list;
mod plan;
mod report;
mod run;
mod worker;

use clap::Subcommand;
use std::{path::Path, process::ExitCode};
use transect_bench::{Fault, Kind, Refusal};

/// Arguments of `transect bench`.
#[derive(clap::Args)]
#[command(after_help = "Examples:\n  \
    transect bench list                            platforms, tracer arms, workloads, and what this machine refuses\n  \
    transect bench plan quick                      the cells of a plan and the time they take\n  \
    transect bench run quick -o results            carry it out; Ctrl-C ends it after the run that is under way\n  \
    transect bench resume results                  go on, after Ctrl-C, a crash, kill -9 or a reboot\n  \
    transect bench confirm results                 halve the suspected limiters, and see whether results follow\n  \
    transect bench report results                  the table\n  \
    transect bench report results --html page.html the same as one page with charts and every raw point\n  \
    transect bench compare before after            two sets of results, corrected for the number of comparisons\n  \
    transect bench gate results --at-most 5%       exit code 1 if a tracer costs more, by its interval\n\n\
    A plan is a TOML file, or quick, full, published. Docs: docs/reference/bench.md; the method: docs/reference/bench-method.md.")]
pub(crate) struct Args {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Subcommand)]
enum Verb {
    /// Show platforms, tracer arms and workloads, and what this machine refuses
    List(list::Args),
    /// Show a plan's cells, the time they take, and what this machine refuses
    Plan(plan::Args),
    /// Carry a plan out
    Run(run::Args),
    /// Go on with results that were cut off
    Resume(run::ResumeArgs),
    /// Halve what is suspected to be the limiter of each workload, and see how far its result follows
    Confirm(run::ConfirmArgs),
    /// Show what came of it
    Report(report::Args),
    /// Compare two sets of results
    Compare(report::CompareArgs),
    /// Put results beside the numbers of the papers
    Publish(report::PublishArgs),
    /// Say by exit code whether something costs more than it may
    Gate(report::GateArgs),
    /// Inside a machine: run what is asked for on standard input
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
            eprintln!("transect: {refused}");
            Ok(ExitCode::from(2))
        }
        _ => result,
    }
}

/// A plan's text and its name: a file, or one that is part of the program.
fn plan_of(name: &str) -> anyhow::Result<(String, String)> {
    if let Some((_, text)) = transect_bench::plan::BUILT_IN.iter().find(|(known, _)| *known == name)
        && !Path::new(name).exists()
    {
        return Ok(((*text).to_owned(), name.to_owned()));
    }
    let known: Vec<&str> = transect_bench::plan::BUILT_IN.iter().map(|(name, _)| *name).collect();
    let text = std::fs::read_to_string(name).map_err(|error| {
        anyhow::anyhow!(
            "cannot read the plan {name}: {error} (there are {} without a file)",
            known.join(", ")
        )
    })?;
    Ok((text, name.to_owned()))
}
