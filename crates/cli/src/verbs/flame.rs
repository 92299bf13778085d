//! `transect flame`: the arguments, and where the flame graphs go ([`transect_flame`] makes them).

use super::{
    excerpt::{self, Stretch},
    load,
    machines::machine_named,
};
use crate::moment::RangeArgs;
use crate::output::Output;
use crate::terminal::{self, say};
use anyhow::{Context as _, ensure};
use std::io::{BufWriter, Write};
use std::path::PathBuf;
use std::process::ExitCode;
use transect_flame::{Flames, GroupKey, NEEDS, write_folded, write_page, write_text};
use transect_model::ids::MachineId;
use transect_model::number::counted;
use transect_model::table::{Machine, Selected, Tables};
use transect_model::time::Span;

/// Stacks per stage in the text without `--top`.
const DEFAULT_TOP: usize = 3;

/// Arguments of `transect flame`.
#[derive(clap::Args)]
#[command(after_help = "Examples:\n  \
    transect record --stacks --profile explain -o demo.transect --duration 5s\n  \
    transect flame demo.transect                              the widest stacks of each stage\n  \
    transect flame demo.transect -o stages.html               a page with a flame graph for each stage\n  \
    transect flame before.transect after.transect -o both.html\n  \
    transect flame demo.transect --packets --vm web --stage send..kick --top 20\n  \
    transect flame demo.transect --folded > stages.folded     for flamegraph.pl or speedscope\n\n\
    docs/reference/flame.md lists the stages that have stacks.")]
pub(crate) struct Args {
    /// Recordings to read, made with `record --stacks`; of several, each has a section
    #[arg(required = true, value_name = "RECORDING")]
    recordings: Vec<PathBuf>,
    /// File to write, - for standard output: one HTML page with a flame graph for each stage, or with --folded its lines
    /// [default: text on standard output]
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Print folded stacks, one line each: group;stage;thread;frames, the outermost first, and ns
    #[arg(long)]
    folded: bool,
    /// Only packets [default: packets and block requests]
    #[arg(long, conflicts_with = "requests")]
    packets: bool,
    /// Only block requests
    #[arg(long)]
    requests: bool,
    /// Stage to show, as in the report (send..kick) or by its first event (send); repeat it for several [default: all]
    #[arg(long, value_name = "NAME")]
    stage: Vec<String>,
    /// VM whose packets and requests are shown, by name or machine number; repeat it for several [default: all]
    #[arg(long, value_name = "NAME")]
    vm: Vec<String>,
    /// Stacks per stage in the text
    #[arg(long, value_name = "N", default_value_t = DEFAULT_TOP)]
    top: usize,
    #[command(flatten)]
    range: RangeArgs,
    #[command(flatten)]
    source: load::SourceArgs,
}

/// Runs `transect flame`.
pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let all = args.recordings.iter().map(|path| {
        let stretch = Stretch { path, source: &args.source, range: args.range };
        let flames = gathered(&stretch).and_then(|flames| select(args, flames));
        let flames = flames.with_context(|| path.display().to_string())?;
        Ok((load::display_name(path), flames))
    });
    let all: Vec<(String, Flames)> = all.collect::<anyhow::Result<_>>()?;
    match &args.output {
        Some(path) => {
            let mut output = Output::create(path)?;
            let written = match args.folded {
                true => write_folded(&all, &mut output),
                false => write_page(&all, &mut output),
            };
            written.with_context(|| path.display().to_string())?;
            output.finish()?;
            if path.as_os_str() != "-" {
                let groups: usize = all.iter().map(|(_, flames)| flames.groups.len()).sum();
                let groups = counted(groups as u64, "group");
                say!("{}: {groups} of packets and requests", path.display());
            }
        }
        None => {
            let mut out = BufWriter::new(terminal::page());
            match args.folded {
                true => write_folded(&all, &mut out)?,
                false => write_text(&all, args.top, &mut out)?,
            }
            out.flush()?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// Writes the page of a stretch of a recording, with all its stages.
pub(crate) fn page_of(stretch: &Stretch<'_>, out: &mut dyn Write) -> anyhow::Result<()> {
    let (flames, _) = gathered(stretch)?;
    ensure!(!flames.groups.is_empty(), "no packet or block request of the range has a stage");
    Ok(write_page(&[(excerpt::name_of(stretch.path), flames)], out)?)
}

/// The stages of a stretch of a recording, and its machines.
fn gathered(stretch: &Stretch<'_>) -> anyhow::Result<(Flames, Vec<Machine>)> {
    let tables = tables(stretch)?;
    ensure!(
        !tables.stack_samples.is_empty(),
        "no stacks in this {}: record them with 'transect record --stacks --profile explain'",
        if stretch.range.is_given() { "range" } else { "recording" }
    );
    Ok((Flames::gather(&tables)?, tables.machines))
}

/// The stages that were selected.
fn select(args: &Args, (mut flames, machines): (Flames, Vec<Machine>)) -> anyhow::Result<Flames> {
    let machines = args.vm.iter().map(|vm| machine_named(&machines, vm));
    let machines: Vec<MachineId> = machines.collect::<anyhow::Result<_>>()?;
    flames.retain_groups(|key| {
        let is_kind = match key {
            GroupKey::Packets(..) => !args.requests,
            GroupKey::Requests(..) => !args.packets,
        };
        is_kind && (machines.is_empty() || machines.iter().any(|id| key.has_machine(*id)))
    });
    ensure!(!flames.groups.is_empty(), "no packet or block request of the selection has a stage");
    if !args.stage.is_empty() {
        let names = stage_names(&flames);
        flames.retain_stages(&args.stage);
        ensure!(
            !flames.groups.is_empty(),
            "no packet or block request of the selection has the stage {}; there are {}",
            args.stage.join(" or "),
            names.join(", ")
        );
    }
    Ok(flames)
}

fn tables(stretch: &Stretch<'_>) -> anyhow::Result<Tables> {
    let mut sink = Selected::new(&NEEDS);
    if !stretch.range.is_given() {
        return Ok(load::kept(stretch.path, stretch.source, None, sink)?.1.into_tables());
    }
    let window = stretch.rows(&mut sink)?.window;
    let mut tables = sink.into_tables();
    // A row that begins before the range or ends after it has stacks outside of the range, which were not read.
    tables.packets.retain(|row| is_inside(window, row.ts, row.dur));
    tables.io_requests.retain(|row| is_inside(window, row.ts, row.dur));
    Ok(tables)
}

/// Does a row begin and end in the range?
fn is_inside(range: Span, ts: i64, dur: Option<i64>) -> bool {
    let end = dur.and_then(|dur| ts.checked_add(dur));
    ts >= range.start.get() && end.is_some_and(|end| end <= range.end.get())
}

/// The stages of all groups, each once.
fn stage_names(flames: &Flames) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    for stage in flames.groups.iter().flat_map(|group| &group.stages) {
        if !names.contains(&stage.name) {
            names.push(stage.name.clone());
        }
    }
    names
}
