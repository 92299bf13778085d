//! `transect bench list`.

use crate::terminal;
use serde_json::json;
use std::{collections::BTreeMap, io::Write, process::ExitCode};
use transect_bench_core::{Job, Refusal, protocol::Role};
use transect_bench_platforms::{self as platforms, Shape};
use transect_bench_tracers as tracers;
use transect_bench_workloads as workloads;
use transect_model::guard::Syntax;

/// Arguments of `transect bench list`.
#[derive(clap::Args)]
#[command(after_help = "Example: transect bench list --json | jq .")]
pub(super) struct Args {
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// A line of the list.
struct Line {
    name: &'static str,
    about: String,
    refused: Option<Refusal>,
}

pub(super) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let lists =
        [("platforms", of_platforms()), ("tracers", of_tracers()), ("workloads", of_workloads())];
    let mut out = terminal::page();
    if args.json {
        let mut out = terminal::data(Syntax::Json);
        let of_line =
            |line: &Line| json!({"name": line.name, "about": line.about, "refused": line.refused});
        let all: BTreeMap<_, Vec<_>> = lists
            .iter()
            .map(|(what, lines)| (*what, lines.iter().map(of_line).collect()))
            .collect();
        writeln!(out, "{}", serde_json::to_string_pretty(&all)?)?;
        return Ok(ExitCode::SUCCESS);
    }
    for (what, lines) in &lists {
        writeln!(out, "{}", what.to_uppercase())?;
        let width = lines.iter().map(|line| line.name.len()).max().unwrap_or(0);
        for line in lines {
            writeln!(out, "  {:width$}  {}", line.name, line.about)?;
            if let Some(refusal) = &line.refused {
                writeln!(out, "  {:width$}  not here: {}", "", without_what(refusal))?;
            }
        }
        writeln!(out)?;
    }
    Ok(ExitCode::SUCCESS)
}

/// The reason and the remedy; the line above names the refused item.
fn without_what(refusal: &Refusal) -> String {
    let mend = refusal.mend.as_ref().map(|mend| format!(" ({mend})")).unwrap_or_default();
    format!("{}{mend}", refusal.why)
}

fn of_platforms() -> Vec<Line> {
    let shape = Shape {
        index: 0,
        memory_mib: 1024,
        cpus: 1,
        pin: Vec::new(),
        disk_mib: 1024,
        params: BTreeMap::new(),
    };
    let line = |platform: &&'static dyn platforms::Platform| Line {
        name: platform.name(),
        about: platform.about().to_owned(),
        refused: platform.can_run(&shape).err(),
    };
    platforms::registry().iter().map(line).collect()
}

fn of_tracers() -> Vec<Line> {
    let line = |tracer: &&'static dyn tracers::Tracer| Line {
        name: tracer.name(),
        about: tracer.about().to_owned(),
        refused: tracer.can_run(&Job::default()).err(),
    };
    tracers::registry().iter().map(line).collect()
}

fn of_workloads() -> Vec<Line> {
    let line = |workload: &&'static dyn workloads::Workload| {
        let about = workload.about();
        let (metric, ..) = about.metric;
        let params = about.params.iter().map(|(name, value, _)| (*name, value.clone()));
        let job = Job {
            workload: about.name.to_owned(),
            role: if about.is_distributed { Role::Server } else { Role::Whole },
            params: params.map(|(name, value)| (name.to_owned(), value)).collect(),
            ..Job::default()
        };
        Line {
            name: about.name,
            about: format!("{} [{metric}]", about.text),
            refused: workload.can_run(&job).err(),
        }
    };
    workloads::registry().iter().map(line).collect()
}
