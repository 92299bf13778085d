//! `transect explain`: the arguments, and which threads they mean ([`transect_report::explain`] makes the rest).

mod calls;
mod longest;
mod packets;
mod requests;

use super::{excerpt::Stretch, load, machines::machine_named};
use crate::moment::RangeArgs;
use crate::terminal;
use anyhow::{anyhow, bail, ensure};
use std::io::{BufWriter, Write};
use std::path::PathBuf;
use std::process::ExitCode;
use transect_explain::{Actor, Explained, Gathered, Root, Rows, ThreadId, detect};
use transect_model::guard::Syntax;
use transect_model::ids::{MachineId, Tid};
use transect_model::table::{Syscall, Tables};
use transect_model::time::TimeUnit;
use transect_recording::Facts;
use transect_report::explain::{About, Shown, write_json, write_text};

/// Lines per list in the text without `--top`.
const DEFAULT_TOP: usize = 10;
/// Threads of one name that an error lists.
const MOST_LISTED: usize = 8;

/// Arguments of `transect explain`.
#[derive(clap::Args)]
#[command(after_help = "Examples:\n  \
    transect explain demo.transect                            every vCPU\n  \
    transect explain demo.transect --vm web                   the vCPUs of one VM\n  \
    transect explain demo.transect --vm web --thread nginx    a thread inside the VM\n  \
    transect explain demo.transect --thread 4711 --from +1s --until +1.2s\n                                                            \
    a thread of the host, 200 ms of it\n  \
    transect explain demo.transect --all --vm web             a line for each thread of the VM\n  \
    transect explain demo.transect --thread 4711 --syscall fsync    its longest calls of fsync\n  \
    transect explain demo.transect --vm web --request 1       the longest block request of the VM, by stage\n  \
    transect explain demo.transect --vm web --packet 1        the packet that took longest to a thread of the VM\n  \
    transect explain demo.transect --vm web --json | jq '.roots[0].sentences'\n\n\
    Every column is described in docs/reference/explain.md.")]
pub(crate) struct Args {
    /// Recording to read: a directory made by `record` or `import`, a trace.dat or an xentrace file
    recording: PathBuf,
    /// Thread to explain, by name or number; repeat it for several [default: the vCPUs]
    #[arg(long, value_name = "NAME", conflicts_with = "all")]
    thread: Vec<String>,
    /// VM whose vCPUs, or with --thread or --all whose threads, are explained, by name or machine number
    #[arg(long, value_name = "NAME")]
    vm: Option<String>,
    /// Explain every thread, with a line for each
    #[arg(long)]
    all: bool,
    /// Explain the longest calls of this system call (name, number, or any), as many as --top, by the threads of --thread or of
    /// all
    #[arg(long, value_name = "NAME")]
    syscall: Option<String>,
    /// Explain a block request with its stages: the N-th longest that begins and ends in the range, of --vm or of all machines
    #[arg(long, value_name = "N", conflicts_with_all = ["thread", "all", "syscall"], value_parser = clap::value_parser!(u64).range(1..))]
    request: Option<u64>,
    /// Explain a packet with its stages: the N-th longest that begins and ends in the range and woke a thread, of those to the
    /// machine of --vm or to all
    #[arg(long, value_name = "N", conflicts_with_all = ["thread", "all", "syscall", "request"], value_parser = clap::value_parser!(u64).range(1..))]
    packet: Option<u64>,
    #[command(flatten)]
    range: RangeArgs,
    /// Maximum lines per list [default: 10]
    #[arg(long, value_name = "N")]
    top: Option<usize>,
    /// Print JSON; all times in ns (in ticks if time_unit states it). Without --all, with every piece of the paths
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    source: load::SourceArgs,
}

/// Runs `transect explain`.
pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let stretch = Stretch { path: &args.recording, source: &args.source, range: args.range };
    let mut needed = detect::needed();
    needed.extend(args.syscall.is_some().then_some(Syscall::TABLE));
    let (facts, gathered) = match args.range.is_given() {
        true => stretch.gathered(&needed)?,
        // All of it is sooner made of the events than read from tables.
        false => load::kept(&args.recording, &args.source, None, Gathered::new(&needed))?,
    };
    let (tables, packed) = gathered.into_parts();
    let rows = Rows::of(&tables, packed);
    let name = args.recording.display();
    ensure!(
        rows.extent().is_some(),
        "{name}: no scheduler events (sched:sched_switch, or Xen's) in this range, from which states of threads and vCPUs are made"
    );
    let machine = args.vm.as_deref().map(|vm| machine_named(&tables.machines, vm)).transpose()?;
    if let Some(number) = args.request {
        let request = requests::longest(&tables, machine, number, facts.window)
            .map_err(|what| anyhow!("{name}: {what}"))?;
        let root = Root::of_request(&rows, request);
        let root = root.ok_or_else(|| anyhow!("{name}: request {number} took no time"))?;
        return explain(args, &facts, &rows, &tables, vec![root]);
    }
    if let Some(number) = args.packet {
        let packet = packets::longest(&tables, machine, number, facts.window)
            .map_err(|what| anyhow!("{name}: {what}"))?;
        let root = Root::of_packet(&rows, packet);
        let root = root.ok_or_else(|| anyhow!("{name}: packet {number} took no time"))?;
        return explain(args, &facts, &rows, &tables, vec![root]);
    }
    let actors = match (args.all || args.syscall.is_some(), args.thread.is_empty()) {
        (true, true) => all(&rows, machine),
        (_, false) => {
            let named =
                args.thread.iter().map(|thread| thread_named(&rows, &tables, machine, thread));
            named.collect::<anyhow::Result<_>>()?
        }
        (false, true) => vcpus(&rows, machine),
    };
    if actors.is_empty() {
        let of = args.vm.as_deref().map(|vm| format!(" of {vm}")).unwrap_or_default();
        bail!("{name}: no vCPU{of} in this range: select threads with --thread, or --all");
    }
    let mut roots: Vec<Root> = match &args.syscall {
        Some(wanted) => {
            let calls = calls::longest(&tables, wanted, &actors, facts.window)
                .map_err(|what| anyhow!("{name}: {what}"))?;
            let most = calls.len().min(args.top.unwrap_or(DEFAULT_TOP));
            Root::of_calls(&rows, &calls[..most])
        }
        None => Root::in_lives(&rows, &actors, facts.window),
    };
    ensure!(!roots.is_empty(), "{name}: none of these exists in this range");
    if args.all && args.syscall.is_none() {
        roots.sort_by_key(|root| std::cmp::Reverse(root.kept()));
    }
    explain(args, &facts, &rows, &tables, roots)
}

fn explain(
    args: &Args,
    facts: &Facts,
    rows: &Rows<'_>,
    tables: &Tables,
    roots: Vec<Root>,
) -> anyhow::Result<ExitCode> {
    let about =
        About { recording: facts.path.clone(), unit: facts.unit, start: facts.window.start.get() };
    let range = detect::Range {
        from: facts.window.start.get(),
        until: facts.window.end.get(),
        second: (facts.unit == TimeUnit::Ns).then_some(1_000_000_000),
    };
    write(args, rows, &about, &Explained::new(rows, tables, roots, range))?;
    Ok(ExitCode::SUCCESS)
}

fn write(args: &Args, rows: &Rows<'_>, about: &About, explained: &Explained) -> anyhow::Result<()> {
    if args.json {
        let mut out = BufWriter::new(terminal::data(Syntax::Json));
        write_json(rows, about, explained, !args.all, &mut out)?;
        out.flush()?;
        return Ok(());
    }
    let width = terminal::is_stdout_terminal().then(terminal_size::terminal_size).flatten();
    let shown = Shown {
        width: width.map(|(width, _)| usize::from(width.0)),
        top: args.top.unwrap_or(DEFAULT_TOP),
    };
    let mut out = BufWriter::new(terminal::page());
    write_text(rows, about, explained, shown, &mut out)?;
    out.flush()?;
    Ok(())
}

fn all_threads(rows: &Rows<'_>, machine: Option<MachineId>) -> Vec<ThreadId> {
    let mut all = rows.threads();
    all.retain(|thread| machine.is_none_or(|machine| thread.machine == machine));
    all
}

/// Every thread, and every vCPU without one.
fn all(rows: &Rows<'_>, machine: Option<MachineId>) -> Vec<Actor> {
    let mut all = rows.actors();
    all.retain(|actor| machine.is_none_or(|machine| machine == actor.machine()));
    all
}

fn vcpus(rows: &Rows<'_>, machine: Option<MachineId>) -> Vec<Actor> {
    let of = rows.vcpu_threads().into_iter();
    let of = of.filter(|((vm, _), _)| machine.is_none_or(|machine| machine == *vm));
    of.map(|(_, thread)| Actor::Thread(thread)).chain(vcpus_alone(rows, machine)).collect()
}

fn vcpus_alone(rows: &Rows<'_>, machine: Option<MachineId>) -> impl Iterator<Item = Actor> {
    let of = rows.vcpus_without_threads().into_iter();
    let of = of.filter(move |(vm, _)| machine.is_none_or(|machine| machine == *vm));
    of.map(|(vm, vcpu)| Actor::Vcpu(vm, vcpu))
}

/// The thread of that name or number, in the machine if one was named.
fn thread_named(
    rows: &Rows<'_>,
    tables: &Tables,
    machine: Option<MachineId>,
    name: &str,
) -> anyhow::Result<Actor> {
    let number = name.parse::<i32>().ok().map(Tid);
    let fits = |thread: &ThreadId| {
        let known = rows.thread(*thread).map(|row| row.name.as_str());
        Some(thread.tid) == number || known == Some(name)
    };
    let mut found: Vec<ThreadId> = all_threads(rows, machine).into_iter().filter(fits).collect();
    let text = |thread: &ThreadId| {
        let machine = tables.machines.iter().find(|machine| machine.machine_id == thread.machine);
        let machine = machine.map_or("", |machine| machine.name.as_str());
        let name = rows.thread(*thread).map_or("", |row| row.name.as_str());
        format!("{} ({name:?}) of {machine}", thread.tid)
    };
    match found.len() {
        0 => bail!(
            "no thread in this range is called {name:?} or has that number; `transect explain --all` lists them"
        ),
        1 => Ok(Actor::Thread(found.remove(0))),
        many => {
            let listed: Vec<String> = found.iter().take(MOST_LISTED).map(text).collect();
            let more = if many > MOST_LISTED { ", …" } else { "" };
            bail!(
                "{many} threads are called {name:?}: {}{more}; give the number, and --vm for a VM's",
                listed.join(", ")
            )
        }
    }
}
