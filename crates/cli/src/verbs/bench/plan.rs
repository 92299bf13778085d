//! `transect bench plan`.

use crate::terminal;
use serde_json::json;
use std::{collections::BTreeMap, io::Write, path::Path, process::ExitCode};
use transect_bench_run::plan::{BUILT_IN, Cell, Estimated, Plan, Planned};
use transect_model::guard::Syntax;

/// Arguments of `transect bench plan`.
#[derive(clap::Args)]
#[command(after_help = "Examples:\n  \
    transect bench plan quick\n  \
    transect bench plan quick --text > own.toml")]
pub(super) struct Args {
    /// Plan: a TOML file, or one of quick, full, published
    #[arg(value_name = "PLAN")]
    plan: String,
    /// Print every cell and every refusal as JSON
    #[arg(long)]
    json: bool,
    /// Print the plan's text, as a template for your own plan
    #[arg(long, conflicts_with = "json")]
    text: bool,
}

pub(super) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let (text, name) = plan_of(&args.plan)?;
    let mut out = terminal::page();
    if args.text {
        let mut out = terminal::data(Syntax::Lines);
        write!(out, "{text}")?;
        return Ok(ExitCode::SUCCESS);
    }
    let plan = Plan::parse(&text, &name)?;
    let planned = plan.planned()?;
    let estimated = plan.estimated(&planned.cells)?;
    if args.json {
        let mut out = terminal::data(Syntax::Json);
        let all = json!({"plan": plan, "planned": planned, "expected": estimated});
        writeln!(out, "{}", serde_json::to_string_pretty(&all)?)?;
    } else {
        write!(out, "{}", shown(&plan, &planned, &estimated))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// A plan's text and its name: a file, or one that is part of the program.
pub(super) fn plan_of(name: &str) -> anyhow::Result<(String, String)> {
    if let Some((_, text)) = BUILT_IN.iter().find(|(known, _)| *known == name)
        && !Path::new(name).exists()
    {
        return Ok(((*text).to_owned(), name.to_owned()));
    }
    let known: Vec<&str> = BUILT_IN.iter().map(|(name, _)| *name).collect();
    let text = std::fs::read_to_string(name).map_err(|error| {
        anyhow::anyhow!(
            "cannot read the plan {name}: {error} (built-in plans: {})",
            known.join(", ")
        )
    })?;
    Ok((text, name.to_owned()))
}

/// The cells as a grid: workloads down, platforms across, tracer arms in the boxes.
pub(super) fn shown(plan: &Plan, planned: &Planned, estimated: &Estimated) -> String {
    let mut text = format!("{}: {}\n\n", plan.name, plan.about);
    let mut groups: BTreeMap<String, BTreeMap<&str, Vec<&str>>> = BTreeMap::new();
    for Cell { group, platform, tracer } in &planned.cells {
        let of_group = groups.entry(group.to_string()).or_default();
        of_group.entry(platform).or_default().push(tracer);
    }
    for (group, platforms) in groups {
        text += &format!("  {group}\n");
        for (platform, tracers) in platforms {
            text += &format!("    {platform:14} {}\n", tracers.join(" "));
        }
    }
    text += &format!(
        "\n  {} cells, {} runs per block, {} to {} blocks, {} to {}{}\n",
        planned.cells.len(),
        estimated.runs_a_block,
        plan.procedure.looks.first().copied().unwrap_or(0),
        plan.most_blocks(),
        minutes(estimated.least_s),
        minutes(estimated.most_s),
        plan.procedure
            .budget_s
            .map(|s| format!(", at most about {}", minutes(s as f64)))
            .unwrap_or_default(),
    );
    text + &refusals(planned)
}

/// The refused cells, each reason once.
fn refusals(planned: &Planned) -> String {
    let mut reasons: BTreeMap<String, usize> = BTreeMap::new();
    for refused in &planned.refused {
        *reasons.entry(refused.refusal.to_string()).or_default() += 1;
    }
    let mut text = String::new();
    if !reasons.is_empty() {
        text += "\n  Unavailable on this machine\n";
    }
    for (reason, cells) in reasons {
        let s = if cells == 1 { "" } else { "s" };
        text += &format!("    {cells} cell{s}: {reason}\n");
    }
    text
}

fn minutes(seconds: f64) -> String {
    match seconds {
        s if s < 90.0 => format!("{s:.0} s"),
        s if s < 5400.0 => format!("{:.0} min", s / 60.0),
        s => format!("{:.1} h", s / 3600.0),
    }
}
