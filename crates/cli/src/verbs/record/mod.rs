//! `transect record`: what happens on this host, into a recording directory.

mod command;
mod progress;
mod signals;
mod watch;
mod wishes;
mod xen;

use crate::errors::one_line;
use crate::terminal::{self, hint, note};
use anyhow::bail;
use command::CannotStart;
use progress::{Progress, summary};
use signals::Signals;
use std::{
    ffi::OsString,
    path::{Path, PathBuf},
    process::ExitCode,
    time::Duration,
};
use transect_access::Group;
use transect_guest::transport::GuestSpec;
use transect_recorder::{
    FlightPlan, Outcome, Recorder, SnapshotWindow, Trigger,
    control::{self, RecorderState},
    numbered, units,
};
use transect_tracefs::{PROFILES, Profile};
use watch::Watch;
use wishes::Wishes;

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
    /// Set of events: sched, vm, io, explain, boot or full [default: vm; none if -e is given]
    #[arg(long, value_name = "NAME", value_parser = parse_profile, help_heading = EVENTS)]
    profile: Option<Profile>,
    #[command(flatten)]
    wishes: Wishes,
    /// Also record the stack of each event with which a stage of a block request or packet begins, for transect flame
    /// (compact collector); implies --profile explain if neither --profile nor -e is given
    #[arg(long, help_heading = EVENTS)]
    stacks: bool,
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

fn parse_profile(name: &str) -> Result<Profile, String> {
    let names: Vec<_> = PROFILES.iter().map(|(name, _)| *name).collect();
    Profile::from_name(name)
        .ok_or_else(|| format!("unknown profile; known are {}", names.join(", ")))
}

pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let output = control::absolute(&args.output.clone().unwrap_or_else(default_output));
    let flight = flight_plan(args)?;
    let is_flight = flight.is_some();
    let recorder = recorder(args, &output, flight);
    recorder.check()?;
    if let Err(error) = command::check(&args.command) {
        return Ok(report_unstartable(&error));
    }
    let planned = recorder.plan()?;
    planned.warnings().iter().for_each(|warning| note!("{warning}"));
    // Before anything is set up, so that a signal from here on takes it down in order.
    let signals = Signals::listen()?;
    if let Some(reason) = planned.why_full().filter(|_| !args.quiet) {
        note!("full collector: {reason}");
    }
    let ready = planned.set_up()?;
    if !args.quiet {
        ready.notes().iter().for_each(|note| note!("{note}"));
    }
    let state = RecorderState::of_this_process(&output, is_flight)?;
    let mut watch = Watch::start(signals, &state, &args.command, args.duration, args.kill)?;
    let mut progress = Progress::new(args.quiet);
    let outcome = ready.run(&mut watch, &mut progress);
    progress.clear();
    if let Err(error) = &outcome
        && let Some(error) = error.downcast_ref::<CannotStart>()
    {
        return Ok(report_unstartable(error));
    }
    conclude(outcome, watch, args.quiet || is_flight)
}

/// The recorder that the arguments describe.
fn recorder(args: &Args, output: &Path, flight: Option<FlightPlan>) -> Recorder {
    let Wishes { events, filters, narrow } = args.wishes.clone();
    let mut recorder = Recorder::new(output)
        .events(events)
        .conditions(filters)
        .narrow(narrow)
        .guests(args.guest.iter().cloned())
        .xen(args.xen.settings());
    let implied = (args.stacks && args.wishes.events.is_empty()).then_some(Profile::Explain);
    if let Some(profile) = args.profile.or(implied) {
        recorder = recorder.profile(profile);
    }
    if args.full {
        recorder = recorder.full();
    }
    if let Some(clock) = &args.clock {
        recorder = recorder.clock(clock);
    }
    if let Some(group) = args.group {
        recorder = recorder.group(group);
    }
    if let Some(kb) = args.buffer_size.or(args.flight_recorder) {
        recorder = recorder.buffer_kb(kb);
    }
    if args.kallsyms {
        recorder = recorder.kallsyms();
    }
    if args.stacks {
        recorder = recorder.stacks();
    }
    match flight {
        Some(plan) => recorder.flight_recorder(plan),
        None => recorder,
    }
}

/// Reports a command that cannot be started, with the exit code that shells have for it.
fn report_unstartable(error: &CannotStart) -> ExitCode {
    note!("{error}");
    ExitCode::from(error.exit_code)
}

/// Reports the result to the user and to waiting clients, and returns the exit code.
fn conclude(
    outcome: anyhow::Result<Outcome>,
    watch: Watch<'_>,
    quiet: bool,
) -> anyhow::Result<ExitCode> {
    let outcome = match outcome {
        Ok(outcome) => outcome,
        Err(error) => {
            watch.finish(&Err(one_line(&error)));
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
            let text = one_line(&error);
            terminal::error(&text);
            watch.finish(&Err(text));
            Ok(ExitCode::FAILURE)
        }
    }
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
    let snapshots = args.snapshots.or(trigger.is_some().then_some(1));
    Ok(Some(FlightPlan { trigger, snapshots, window: args.last.unwrap_or_default() }))
}

/// `transect-1.transect`, or the next number no recording or snapshot has.
fn default_output() -> PathBuf {
    let taken = |path: &Path| path.exists() || numbered(path, 1).exists();
    let names = (1..).map(|number: u32| PathBuf::from(format!("transect-{number}.transect")));
    let mut free = names.filter(|path| !taken(path));
    free.next().unwrap_or_default()
}
