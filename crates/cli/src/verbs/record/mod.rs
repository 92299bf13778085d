//! `transect record`: what happens on this host, into a recording directory.

mod choose;
mod command;
mod compact;
mod compact_file;
mod continuous;
pub(crate) mod ending;
mod flight;
mod full;
mod guest_sink;
mod guests;
mod host;
mod kernel;
mod narrow;
mod newest;
mod progress;
mod service;
mod signals;
mod spool_sink;
pub(crate) mod units;
mod vms;
mod wall;
mod watch;
mod wishes;
mod xen;

use crate::terminal::{self, hint, note};
pub(crate) use service::flight_service;

use crate::recorders::{self, RecorderState, SnapshotWindow};
use anyhow::{Context, bail};
use choose::{Choice, choose};
use command::{CannotStart, Recorded};
use compact::CompactKernel;
use flight::{FlightPlan, Trigger};
use full::{FullKernel, FullPlan};
use guests::{GuestPlan, guest_events, guest_plan};
use host::Host;
use kernel::HostKernel;
use progress::{Numbers, Progress, summary};
use signals::Signals;
use std::{
    env,
    ffi::OsString,
    path::{Path, PathBuf},
    process::ExitCode,
    time::Duration,
};
use transect_access::Group;
use transect_bpf::Filters;
use transect_guest::transport::GuestSpec;
use transect_model::ids::Tid;
use transect_store::manifest::FilterEntry;
use transect_tracefs::{
    EventRequest, Namespaces, PROFILES, ProcessKey, Profile, Selection, Tracefs, choose_clock, cpus,
};
use watch::Watch;
use wishes::Wishes;
use xen::{NoKernel, XenPlan};

/// Buffer per CPU while events are drained all the time: seconds of a busy CPU.
const DEFAULT_KB_PER_CPU: u64 = 8 << 10;
/// Guests are smaller than their hosts, and their memory is not ours to measure.
const GUEST_KB_PER_CPU: u64 = 4 << 10;
/// A flight recorder's buffers are all it has.
const FLIGHT_KB_PER_CPU: u64 = 32 << 10;

/// Headings of `transect record --help`.
const EVENTS: &str = "Events and duration";
const OUTPUT: &str = "Buffers and output";
const FLIGHT: &str = "Flight recorder";

/// Arguments of `transect record`.
#[derive(clap::Args)]
#[command(after_help = "Examples:\n  \
    transect record --duration 5s                      host and KVM for 5 seconds\n  \
    transect record -o build.transect -- make -j8      until the command ends\n  \
    transect record --duration 5s -- make -j8          its first 5 seconds; make goes on\n  \
    transect record --guest vsock:3 --duration 10s     the host and one guest's kernel\n  \
    transect record --filter vm=web1 --profile io      the threads of one VM, with I/O events\n  \
    transect record -e sched:sched_switch --filter 'next_prio < 100'\n  \
    transect record --xen-events sched,pv              in dom0: two classes of Xen's records\n  \
    transect record --flight-recorder --trigger 'sched:sched_switch if prev_prio < 100'\n\n\
    Next: transect report DIR")]
pub(crate) struct Args {
    /// Set of events: sched, vm, io, boot or full [default: vm; none if -e is given]
    #[arg(long, value_name = "NAME", value_parser = parse_profile, help_heading = EVENTS)]
    profile: Option<Profile>,
    #[command(flatten)]
    wishes: Wishes,
    /// Use the full collector: tracefs ring buffers, any tracepoint, writes a trace.dat for
    /// trace-cmd [default: the compact collector, if it can record the chosen events]
    #[arg(long, help_heading = EVENTS)]
    full: bool,
    /// Trace clock [default: mono; full collector: x86-tsc if the TSC is reliable, else mono]
    #[arg(long, value_name = "NAME", help_heading = EVENTS)]
    clock: Option<String>,
    /// End after this time, e.g. 500ms, 5s, 2m; a bare number is seconds [default: no limit]
    #[arg(long, value_name = "T", value_parser = units::parse_duration, help_heading = EVENTS)]
    duration: Option<Duration>,
    /// Also record the kernel of this guest through its agent, repeatable: vsock:CID[:PORT],
    /// virtio-serial:PATH or tcp:ADDRESS[:PORT], each with an optional prefix 'name=NAME,'
    #[arg(long, value_name = "SPEC", help_heading = "Guests")]
    guest: Vec<GuestSpec>,
    /// New directory for the recording [default: transect-N.transect, first free N]
    #[arg(short, long, value_name = "DIR", help_heading = OUTPUT)]
    output: Option<PathBuf>,
    /// Also let this group (name or number) read the recording: mode 0750 and 0640 instead of 0700 and 0600
    #[arg(long, value_name = "GROUP", value_parser = Group::from_name, help_heading = OUTPUT)]
    group: Option<Group>,
    /// Buffer per CPU, in K, M, G or T [default: 8M; guests: 4M; flight recorder: 32M]
    #[arg(long, value_name = "SIZE", value_parser = units::parse_size_kb, help_heading = OUTPUT)]
    buffer_size: Option<u64>,
    /// Also store the kernel's symbol table, several MB (full collector)
    #[arg(long, help_heading = OUTPUT)]
    kallsyms: bool,
    /// Print no progress line and no summary
    #[arg(short, long, help_heading = OUTPUT)]
    quiet: bool,
    /// Keep events in memory only, SIZE per CPU, and write them to disk on transect snapshot,
    /// SIGUSR2, a trigger, or failure of the command [default SIZE: 32M]
    #[arg(long, value_name = "SIZE", num_args = 0..=1, require_equals = true,
          default_missing_value = "32M", value_parser = units::parse_size_kb,
          help_heading = FLIGHT)]
    flight_recorder: Option<u64>,
    /// Take a snapshot when this event occurs, e.g. 'kvm:kvm_exit if dur>=1ms' or, in kernel
    /// filter syntax (full collector), 'sched:sched_switch if prev_prio < 100'; implies
    /// --flight-recorder
    #[arg(long, value_name = "SYS:EVENT if EXPR", help_heading = FLIGHT)]
    trigger: Option<String>,
    /// End after N snapshots [default: 1 with --trigger, else no limit]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..),
          help_heading = FLIGHT)]
    snapshots: Option<u32>,
    /// Window of each snapshot: this long before it, e.g. 5s, or 'all' for everything since the recorder was
    /// started; what the buffers do not cover is unknown [default: the stretch that all CPUs cover]
    #[arg(long, value_name = "T", help_heading = FLIGHT)]
    last: Option<SnapshotWindow>,
    #[command(flatten)]
    xen: xen::XenArgs,
    /// When the recording ends before the command does, end the command with SIGTERM [default: wait for it]
    #[arg(long, requires = "command", help_heading = EVENTS)]
    kill: bool,
    /// Record until this command ends, and exit with its exit code (127 if there is no such command)
    #[arg(last = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

/// Result of a recording.
struct Outcome {
    dir: PathBuf,
    numbers: Numbers,
    ended_by: String,
    /// For people, not about errors.
    said: Vec<String>,
    /// Did not work, though the recording can be read.
    problems: Vec<String>,
    /// Why the recording ended before its time.
    failure: Option<anyhow::Error>,
}

fn parse_profile(name: &str) -> Result<Profile, String> {
    let names: Vec<_> = PROFILES.iter().map(|(name, _)| *name).collect();
    Profile::from_name(name)
        .ok_or_else(|| format!("unknown profile; known are {}", names.join(", ")))
}

pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let flight = flight_plan(args)?;
    let output = recorders::absolute(&args.output.clone().unwrap_or_else(default_output));
    if flight.is_none() {
        // Before anything is set up.
        transect_store::check_free(&output)?;
    }
    if let Err(error) = command::check(&args.command) {
        return Ok(report_unstartable(&error));
    }
    buffer_kb(args)?;
    let choice = choose(args, flight.as_ref())?;
    let xen = xen::plan(&args.xen, flight.is_some())?;
    // Before anything is set up, so that a signal from here on takes it down in order.
    let signals = Signals::listen()?;
    let guest_kb = args.buffer_size.unwrap_or(GUEST_KB_PER_CPU);
    let compact_guests = match &choice {
        Choice::Compact(plan) => Some(guest_plan(plan, guest_kb)),
        Choice::Full(_) => None,
    };
    let mut notes = xen.as_ref().map_or(Vec::new(), |xen| xen.notes().to_vec());
    notes.extend(Namespaces::current().note().map(str::to_owned));
    let host = prepare(args, choice, flight.as_ref(), xen)?;
    if !args.quiet {
        host.kernel.notes().iter().chain(&notes).for_each(|note| note!("{note}"));
    }
    let state = recorder_state(&output, flight.is_some())?;
    let mut watch = Watch::start(signals, &state, args.duration, args.kill)?;
    let mut progress = Progress::new(args.quiet);
    let start_command = |watch: &mut Watch| {
        watch.command(Recorded::start(&args.command)?);
        Ok(())
    };
    let outcome = match &flight {
        None => {
            let guests = GuestPlan {
                specs: args.guest.clone(),
                events: guest_events(&requests(args, None)),
                buffer_kb: guest_kb,
                compact: compact_guests,
            };
            continuous::run(host, &output, &guests, &mut watch, start_command, &mut progress)
        }
        Some(plan) => flight::run(host, &output, plan, &mut watch, start_command, &mut progress),
    };
    progress.clear();
    if let Err(error) = &outcome
        && let Some(error) = error.downcast_ref::<CannotStart>()
    {
        return Ok(report_unstartable(error));
    }
    conclude(outcome, watch, args.quiet || flight.is_some())
}

/// Reports a command that cannot be started, with the exit code that shells have for it.
fn report_unstartable(error: &CannotStart) -> ExitCode {
    note!("{error}");
    ExitCode::from(error.exit_code)
}

/// Reports the result to the user and to waiting clients, and returns the exit code.
fn conclude(
    outcome: anyhow::Result<Outcome>,
    watch: Watch,
    quiet: bool,
) -> anyhow::Result<ExitCode> {
    let outcome = match outcome {
        Ok(outcome) => outcome,
        Err(error) => {
            watch.finish(&Err(crate::one_line(&error)));
            return Err(error);
        }
    };
    for said in &outcome.said {
        note!("{said}");
    }
    for problem in &outcome.problems {
        note!("{problem}");
    }
    if !quiet {
        note!("{}: {}", outcome.ended_by, summary(outcome.numbers));
        hint(&outcome.dir.display().to_string());
    }
    match outcome.failure {
        None => {
            let code = watch.finish(&Ok(outcome.dir));
            // Something is missing, which the exit code must not hide.
            Ok(ExitCode::from(if code == 0 && !outcome.problems.is_empty() { 1 } else { code }))
        }
        Some(error) => {
            // Before the command ends, which may take long.
            let text = crate::one_line(&error);
            terminal::error(&text);
            watch.finish(&Err(text));
            Ok(ExitCode::FAILURE)
        }
    }
}

fn prepare(
    args: &Args,
    choice: Choice,
    flight: Option<&FlightPlan>,
    xen: Option<XenPlan>,
) -> anyhow::Result<Host> {
    let filter = filter_entry(args, &choice)?;
    let kernel: Box<dyn HostKernel> = match choice {
        _ if args.xen.is_only() => Box::new(NoKernel::new()),
        Choice::Compact(mut plan) => {
            if args.buffer_size.or(args.flight_recorder).is_none() {
                plan.log_bytes_per_cpu = choose::log_bytes(buffer_kb(args)?)?;
            }
            Box::new(CompactKernel::prepare(*plan)?)
        }
        Choice::Full(reason) => {
            if let Some(reason) = reason.filter(|_| !args.quiet) {
                note!("full collector: {reason}");
            }
            full_kernel(args, flight)?
        }
    };
    let command_line = env::args_os().map(|word| word.to_string_lossy().into_owned()).collect();
    Ok(Host::new(kernel, command_line, xen).with_filter(filter).with_group(args.group))
}

/// What the manifest says about the filter; the full collector's conditions are with its events, too.
fn filter_entry(args: &Args, choice: &Choice) -> anyhow::Result<Option<FilterEntry>> {
    let Wishes { events, filters, narrow } = &args.wishes;
    if let Choice::Compact(plan) = choice {
        if narrow.is_empty() {
            return Ok(None);
        }
        let tids = |ids: &[u32]| ids.iter().map(|id| Tid(id.cast_signed())).collect();
        let Filters { tids: threads, tgids, cgroup, min_exit_ns, .. } = &plan.filters;
        return Ok(Some(FilterEntry {
            text: narrow.describe(),
            tids: tids(threads),
            pids: tids(tgids),
            cgroup: cgroup.as_deref().map(transect_bpf::cgroup_path).transpose()?,
            moved: Vec::new(),
            uncertain: false,
            min_ns: *min_exit_ns,
        }));
    }
    let conditions = filters.iter().map(|condition| {
        let event = condition.event.as_ref();
        let event =
            event.map_or_else(String::new, |(system, event)| format!("{system}:{event} if "));
        format!("{event}{}", condition.expression)
    });
    let of_events = events.iter().filter_map(|event| {
        let filter = event.filter.as_ref()?;
        Some(format!("{}:{} if {filter}", event.system, event.event))
    });
    let text = conditions.chain(of_events).collect::<Vec<_>>().join(", ");
    Ok((!text.is_empty()).then(|| FilterEntry { text, ..FilterEntry::default() }))
}

fn full_kernel(args: &Args, flight: Option<&FlightPlan>) -> anyhow::Result<Box<dyn HostKernel>> {
    let tracefs = Tracefs::find()?;
    let requests = requests(args, flight);
    let mut selection = Selection::resolve(&tracefs, &requests)?;
    for condition in &args.wishes.filters {
        selection.filter(condition)?;
    }
    if selection.events.is_empty() {
        bail!("this kernel has none of the chosen events: {}", selection.absent.join(", "));
    }
    let clock = choose_clock(&tracefs, args.clock.as_deref())?;
    let trigger = flight.and_then(|plan| plan.trigger.as_ref());
    Ok(Box::new(FullKernel::prepare(FullPlan {
        tracefs,
        selection,
        clock,
        buffer_kb: buffer_kb(args)?,
        kallsyms: args.kallsyms,
        trigger,
    })?))
}

/// A profile unless only named events are wanted, then the named ones, then the trigger's.
fn requests(args: &Args, flight: Option<&FlightPlan>) -> Vec<EventRequest> {
    let only_named = args.profile.is_none() && !args.wishes.events.is_empty();
    let profile = (!only_named).then(|| args.profile.unwrap_or(Profile::Vm));
    let mut requests: Vec<_> = profile.into_iter().flat_map(EventRequest::from_profile).collect();
    requests.extend(args.wishes.events.iter().cloned());
    requests.extend(flight.and_then(|plan| plan.trigger.as_ref()).map(Trigger::request));
    requests
}

fn flight_plan(args: &Args) -> anyhow::Result<Option<FlightPlan>> {
    let trigger = args.trigger.as_deref().map(Trigger::parse).transpose()?;
    if args.flight_recorder.is_none() && trigger.is_none() {
        if args.snapshots.is_some() {
            bail!("--snapshots requires --flight-recorder or --trigger");
        }
        if args.last.is_some() {
            bail!("--last requires --flight-recorder or --trigger");
        }
        return Ok(None);
    }
    if !args.guest.is_empty() {
        bail!(
            "a flight recorder cannot record guests; remove --guest, or --flight-recorder and --trigger"
        );
    }
    let snapshots = args.snapshots.or(trigger.is_some().then_some(1));
    Ok(Some(FlightPlan { trigger, snapshots, window: args.last.unwrap_or_default() }))
}

/// KiB per CPU; the default shrinks where all CPUs together would take a quarter of memory.
///
/// # Errors
/// The wanted buffers are larger than memory.
fn buffer_kb(args: &Args) -> anyhow::Result<u64> {
    if let Some(kb) = args.buffer_size.or(args.flight_recorder) {
        units::check_memory(kb, u64::try_from(cpus::possible()?.len())?, memory_kb())?;
        return Ok(kb);
    }
    let wanted = if args.trigger.is_some() { FLIGHT_KB_PER_CPU } else { DEFAULT_KB_PER_CPU };
    let cpus = u64::try_from(cpus::possible()?.len())?.max(1);
    Ok(wanted.min(memory_kb() / 4 / cpus).max(64))
}

/// Memory of this machine, KiB.
fn memory_kb() -> u64 {
    let memory = rustix::system::sysinfo();
    memory.totalram * u64::from(memory.mem_unit) / 1024
}

fn recorder_state(output: &Path, flight_recorder: bool) -> anyhow::Result<RecorderState> {
    let me = ProcessKey::current().context("cannot read /proc/self/stat; mount procfs")?;
    let output = output.to_owned();
    Ok(RecorderState { pid: me.pid, start_ticks: me.start_ticks, output, flight_recorder })
}

/// `transect-1.transect`, or the next number no recording or snapshot has.
fn default_output() -> PathBuf {
    let taken = |path: &Path| path.exists() || flight::numbered(path, 1).exists();
    let names = (1..).map(|number: u32| PathBuf::from(format!("transect-{number}.transect")));
    let mut free = names.filter(|path| !taken(path));
    free.next().unwrap_or_default()
}
