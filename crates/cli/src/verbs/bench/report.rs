//! `transect bench report`, `compare`, `publish` and `gate`: what came of it.

mod parquet;

use crate::{output::Output, terminal};
use anyhow::Context as _;
use std::{
    io::Write,
    path::{Path, PathBuf},
    process::ExitCode,
};
use transect_bench_published as published;
use transect_bench_report::{self as report, Asked, Chosen, rows, text};
use transect_bench_run::procedure::Results;
use transect_bench_stats::design::{
    compare::{Basis, Comparison, Terms},
    gate::{Gate, Outcome},
};
use transect_model::{escape::one_line, guard::Syntax};

/// Arguments of `transect bench report`.
#[derive(clap::Args)]
#[command(after_help = "Examples:\n  \
    transect bench report results\n  \
    transect bench report results --html report.html\n  \
    transect bench report results --csv runs > runs.csv")]
pub(super) struct Args {
    /// Folder with the results
    #[arg(value_name = "DIR")]
    results: PathBuf,
    /// Compare platforms with this one instead of the plan's reference, for example a guest with its own host
    #[arg(long, value_name = "PLATFORM")]
    against: Option<String>,
    /// Judge limiters again, by the rules of this program and from the stored samples
    #[arg(long)]
    rejudge: bool,
    /// Print the whole report as JSON
    #[arg(long, group = "form")]
    json: bool,
    /// Print one table as CSV: runs, cells, metrics, comparisons or machines
    #[arg(long, value_name = "TABLE", group = "form")]
    csv: Option<String>,
    /// Write all tables as Parquet files to a folder
    #[arg(long, value_name = "FOLDER", group = "form")]
    parquet: Option<PathBuf>,
    /// Write one HTML page with charts, every raw point and the environment (- for standard output)
    #[arg(long, value_name = "FILE", group = "form")]
    html: Option<PathBuf>,
}

/// Arguments of `transect bench compare`.
#[derive(clap::Args)]
#[command(after_help = "Example: transect bench compare before after")]
pub(super) struct CompareArgs {
    /// Folder with the results before the change
    #[arg(value_name = "BEFORE")]
    before: PathBuf,
    /// Folder with the results after the change
    #[arg(value_name = "AFTER")]
    after: PathBuf,
    #[command(flatten)]
    terms: TermArgs,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// How two sets are compared.
#[derive(clap::Args)]
struct TermArgs {
    /// Compare the costs of tracers over their references instead of the times and rates themselves
    #[arg(long)]
    ratios: bool,
    /// Allowed difference, by its name in the refusal: binary, "native kernel", … (repeatable)
    #[arg(long, value_name = "NAME")]
    may_differ: Vec<String>,
    /// Confidence level of the intervals, between 0 and 1
    #[arg(long, value_name = "SHARE", default_value_t = 0.95)]
    confidence: f64,
}

impl TermArgs {
    fn terms(&self) -> Terms {
        Terms {
            basis: if self.ratios { Basis::Ratios } else { Basis::Costs },
            confidence: self.confidence,
            may_differ: self.may_differ.iter().cloned().collect(),
        }
    }
}

/// Arguments of `transect bench publish`.
#[derive(clap::Args)]
#[command(after_help = "Example: transect bench publish results --csv > published.csv")]
pub(super) struct PublishArgs {
    /// Folders with results
    #[arg(value_name = "DIR", required = true)]
    results: Vec<PathBuf>,
    /// Print JSON
    #[arg(long, group = "form")]
    json: bool,
    /// Print CSV
    #[arg(long, group = "form")]
    csv: bool,
}

/// Arguments of `transect bench gate`.
#[derive(clap::Args)]
#[command(
    after_help = "Exit code: 0 if every interval is within the limit, 1 if one is beyond the limit, contains it \
    or is missing (too few blocks), 2 if the command line is invalid.\n\n\
    Examples:\n  \
    transect bench gate results --at-most 5% --tracer transect-compact\n  \
    transect bench gate after --before before --at-most 1% --may-differ binary"
)]
pub(super) struct GateArgs {
    /// Folder with the results
    #[arg(value_name = "DIR")]
    results: PathBuf,
    /// Largest allowed additional cost, for example 5%
    #[arg(long, value_name = "PERCENT", value_parser = percent)]
    at_most: f64,
    /// Compare with these results instead of the reference in the same results
    #[arg(long, value_name = "DIR")]
    before: Option<PathBuf>,
    /// Check only this tracer arm (repeatable)
    #[arg(long, value_name = "NAME")]
    tracer: Vec<String>,
    /// Check only this platform (repeatable)
    #[arg(long, value_name = "NAME")]
    platform: Vec<String>,
    /// Check only this workload (repeatable)
    #[arg(long, value_name = "NAME")]
    workload: Vec<String>,
    #[command(flatten)]
    terms: TermArgs,
    /// Pass undecided comparisons: exit code 1 only if an interval is entirely beyond the limit
    #[arg(long)]
    lenient: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

fn percent(text: &str) -> Result<f64, String> {
    let number = text.strip_suffix('%').ok_or("a percentage: 5%")?;
    let value: f64 = number.trim().parse().map_err(|_| "a percentage: 5%".to_owned())?;
    if value.is_finite() && value >= 0.0 {
        Ok(value / 100.0)
    } else {
        Err("not below 0%".to_owned())
    }
}

pub(super) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let results = Results::at(&args.results);
    let asked = Asked { against: args.against.as_deref(), judges_again: args.rejudge };
    let report = report::of_asked(&results, asked)?;
    if let Some(folder) = &args.parquet {
        for table in rows::all(&report) {
            parquet::write(&table, folder)?;
        }
        return Ok(ExitCode::SUCCESS);
    }
    if let Some(path) = &args.html {
        return whole(path, &report::html::page(&report)?);
    }
    if args.json {
        let mut out = terminal::data(Syntax::Json);
        writeln!(out, "{}", serde_json::to_string_pretty(&report)?)?;
    } else if let Some(name) = &args.csv {
        let tables = rows::all(&report);
        let names: Vec<&str> = tables.iter().map(|table| table.name).collect();
        let table = tables.iter().find(|table| table.name == name);
        let table = table
            .with_context(|| format!("no table {name}; the tables are {}", names.join(", ")))?;
        terminal::data(Syntax::Csv).write_all(table.csv().as_bytes())?;
    } else {
        terminal::coloured(&text::report(&report, style()))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// The table, on standard output.
pub(super) fn show(results: &Results) -> anyhow::Result<()> {
    Ok(terminal::coloured(&text::report(&report::of(results)?, style()))?)
}

fn style() -> text::Style {
    let is_terminal = terminal::is_stdout_terminal();
    let width = terminal_size::terminal_size().map(|(width, _)| usize::from(width.0));
    text::Style {
        width: width.filter(|_| is_terminal),
        has_colour: is_terminal && std::env::var_os("NO_COLOR").is_none(),
    }
}

fn whole(path: &Path, text: &str) -> anyhow::Result<ExitCode> {
    let mut out = Output::create(path)?;
    out.write_all(text.as_bytes())?;
    out.finish()?;
    Ok(ExitCode::SUCCESS)
}

pub(super) fn compare(args: &CompareArgs) -> anyhow::Result<ExitCode> {
    let (before, after) = (Results::at(&args.before), Results::at(&args.after));
    let comparison = report::compare(&before, &after, &args.terms.terms())?;
    let mut out = terminal::page();
    if args.json {
        let mut out = terminal::data(Syntax::Json);
        writeln!(out, "{}", serde_json::to_string_pretty(&comparison)?)?;
    } else {
        write!(out, "{}", shown(&comparison))?;
    }
    Ok(ExitCode::SUCCESS)
}

fn shown(comparison: &Comparison) -> String {
    let mut text = String::new();
    for (name, before, after) in &comparison.differing {
        let line = format!("{name}: {before} before, {after} after");
        text += &format!("{}\n", one_line(&line));
    }
    let width =
        comparison.rows.iter().map(|row| one_line(&row.cell).chars().count()).max().unwrap_or(0);
    text += &format!("{:width$}  cost after/before             n        verdict\n", "");
    for row in &comparison.rows {
        let interval = row.interval.map_or_else(
            || "no interval".to_owned(),
            |(low, high)| format!("[{low:.4} … {high:.4}]"),
        );
        let ratio = row.ratio.map_or_else(|| "–".to_owned(), |ratio| format!("{ratio:.4}"));
        let n = format!("{}/{}", row.n.0, row.n.1);
        let cell = one_line(&row.cell);
        text += &format!("{cell:width$}  {ratio:>7} {interval:21} {n:8} {}\n", row.verdict);
    }
    for (which, cells) in [("before", &comparison.only_first), ("after", &comparison.only_second)] {
        if !cells.is_empty() {
            text += &format!("only {which}: {}\n", one_line(&cells.join(", ")));
        }
    }
    text
}

pub(super) fn publish(args: &PublishArgs) -> anyhow::Result<ExitCode> {
    let reports = args
        .results
        .iter()
        .map(|folder| report::of(&Results::at(folder)))
        .collect::<Result<Vec<_>, _>>()?;
    let rows = published::compare_all(&reports.iter().collect::<Vec<_>>())?;
    let mut out = terminal::page();
    if args.json {
        let mut out = terminal::data(Syntax::Json);
        writeln!(out, "{}", serde_json::to_string_pretty(&rows)?)?;
    } else if args.csv {
        terminal::data(Syntax::Csv).write_all(published::csv_table(&rows).as_bytes())?;
    } else {
        write!(out, "{}", published::text_table(&rows))?;
    }
    Ok(ExitCode::SUCCESS)
}

pub(super) fn gate(args: &GateArgs) -> anyhow::Result<ExitCode> {
    let results = Results::at(&args.results);
    let gate = Gate { limit: 1.0 + args.at_most, confidence: args.terms.confidence };
    let judged = match &args.before {
        Some(before) => {
            report::gate_between(&Results::at(before), &results, &gate, &args.terms.terms())?
        }
        None => {
            let (tracers, platforms) = (args.tracer.clone(), args.platform.clone());
            let chosen = Chosen { tracers, platforms, workloads: args.workload.clone() };
            report::gate(&results, &gate, &chosen)?
        }
    };
    let mut out = terminal::page();
    if args.json {
        let mut out = terminal::data(Syntax::Json);
        writeln!(out, "{}", serde_json::to_string_pretty(&judged)?)?;
    } else {
        for check in &judged.checks {
            let interval = check.interval.map_or_else(
                || "no interval".to_owned(),
                |(low, high)| {
                    format!("{:+.2} % … {:+.2} %", (low - 1.0) * 100.0, (high - 1.0) * 100.0)
                },
            );
            let word = match check.outcome {
                Outcome::Passed => "passed",
                Outcome::Undecided => "undecided",
                Outcome::Failed => "failed",
            };
            writeln!(out, "{word:9}  {}  {interval}", one_line(&check.what))?;
        }
    }
    Ok(match judged.outcome {
        Outcome::Passed => ExitCode::SUCCESS,
        Outcome::Undecided if args.lenient => ExitCode::SUCCESS,
        Outcome::Undecided | Outcome::Failed => ExitCode::FAILURE,
    })
}
