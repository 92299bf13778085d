//! `ratios`: the rows, or one of the roles that it plays for itself.

#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a program for people")]

use anyhow::Result;
use clap::{Parser, Subcommand};
use std::{path::PathBuf, process::ExitCode};
use transect_ratios::{bed::Bed, docs, machine::Machine, report::Rows, roles::Role, scenarios};

/// Measures transect against its peers; see docs/internals/performance.md
#[derive(Debug, Parser)]
#[command(name = "ratios", version)]
struct Cli {
    /// Measure only rows whose name contains NAME (may be given several times)
    #[arg(long, value_name = "NAME")]
    only: Vec<String>,
    /// Print the names of the rows and exit
    #[arg(long)]
    list: bool,
    /// Number of rounds of each comparison
    #[arg(long, value_name = "N")]
    rounds: Option<usize>,
    /// Use small recordings and few rounds: a test of the harness, not a measurement
    #[arg(long)]
    quick: bool,
    /// Exit with code 1 if a goal is missed
    #[arg(long)]
    strict: bool,
    /// Write the figures into docs/internals/performance.md after the run
    #[arg(long)]
    write_docs: bool,
    /// File for the rows as JSON [default: bench.json beside the build output]
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    #[command(subcommand)]
    what: Option<What>,
}

#[derive(Debug, Subcommand)]
enum What {
    /// A process of the harness itself
    #[command(subcommand, hide = true)]
    Role(Role),
    /// Write the figures of an earlier run into docs/internals/performance.md
    Docs {
        /// The rows of that run (bench.json)
        json: PathBuf,
    },
}

/// The pages of the tree this was built from.
fn docs_folder() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../docs/internals")
}

fn main() -> ExitCode {
    let cli = Cli::parse();
    let result = match &cli.what {
        Some(What::Role(role)) => role.play().map(|()| ExitCode::SUCCESS),
        Some(What::Docs { json }) => docs::write(json, &docs_folder()).map(|()| ExitCode::SUCCESS),
        None if cli.list => {
            scenarios::ALL.iter().flat_map(|s| s.rows).for_each(|name| println!("{name}"));
            Ok(ExitCode::SUCCESS)
        }
        None => measure(&cli),
    };
    result.unwrap_or_else(|err| {
        eprintln!("ratios: {err:#}");
        ExitCode::FAILURE
    })
}

fn measure(cli: &Cli) -> Result<ExitCode> {
    let bed = Bed::new(cli.rounds, cli.quick)?;
    let mut rows = Rows::only(&cli.only);
    let machine = Machine::here();
    println!("{} x {}, Linux {}", machine.cpus, machine.cpu, machine.kernel);
    println!("{}", Rows::HEADINGS.trim_end());
    for scenario in scenarios::ALL {
        scenario.run(&bed, &mut rows);
    }
    let json = cli.json.clone().unwrap_or_else(|| bed.beside_the_build("bench.json"));
    rows.write(&json, &machine)?;
    println!("{}; rows in {}", rows.verdict(), json.display());
    if cli.write_docs {
        docs::write(&json, &docs_folder())?;
    }
    Ok(if cli.strict && rows.any_missed() { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}
