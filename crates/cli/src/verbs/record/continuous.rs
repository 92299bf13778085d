//! Recording from start to end, everything to disk as it comes.

use super::{
    Outcome,
    guests::{GuestPlan, GuestTotals, Guests},
    host::{HostProbe, HostResult},
    progress::{Numbers, Progress},
    vms::Vms,
    watch::{Wake, Watch},
};
use crate::recorders::Pending;
use anyhow::Context;
use std::{
    path::Path,
    sync::Arc,
    thread,
    time::{Duration, Instant},
};
use transect_tracefs::{Collector, CpuTime, Totals, TracefsError};

/// New CPUs are looked for this often; their events wait in their buffers.
const HOTPLUG_EVERY: Duration = Duration::from_millis(500);

/// After guests were told to end, before the host's own tracing is switched off: the last events
/// of a guest lie inside what the host recorded.
const GUEST_LEAD: Duration = Duration::from_millis(30);

/// Records until something ends it.
pub(super) fn run(
    mut probe: HostProbe,
    dir: &Path,
    guest_plan: &GuestPlan,
    watch: &mut Watch,
    start_command: impl FnOnce(&mut Watch) -> anyhow::Result<()>,
    progress: &mut Progress,
) -> anyhow::Result<Outcome> {
    let recording = probe.begin(dir)?;
    let collector = Collector::start(&probe.instance, Arc::new(recording.sink()))?;
    let guests =
        Guests::start(guest_plan, &recording, &probe.clock.name, &|| watch.is_interrupted())
            .inspect_err(|_| discard(dir))?;
    let cpu_before = CpuTime::of_this_process();
    probe.instance.set_tracing(true)?;
    let vms = recording.vms.clone();
    let started = Instant::now();
    let mut run = Run { probe: &probe, vms, collector, guests, started, cpu_before, failure: None };
    let begun = start_command(watch);
    let ended_by = match &begun {
        Ok(()) => run.until_the_end(watch, progress),
        Err(error) => crate::one_line(error),
    };
    progress.say("finishing …");
    let Stopped { totals, guests, traced, traced_cpu_ns, failure } = run.stop();
    let ended_command = watch.end_command();
    let events = totals.events() + guests.events;
    let lost = totals.lost() + guests.lost;
    let result = HostResult {
        ended_by: ended_by.clone(),
        totals,
        traced,
        traced_cpu_ns,
        guest_events: guests.events,
    };
    let finished = probe
        .finish(recording, result)
        .with_context(|| format!("{}: could not be closed, but can be read", dir.display()))?;
    begun?;
    let mut problems = guests.problems;
    problems.extend(finished.problems.iter().map(ToString::to_string));
    Ok(Outcome {
        dir: finished.dir,
        numbers: Numbers {
            elapsed: traced,
            events,
            lost,
            bytes: finished.bytes,
            cpu_ns: traced_cpu_ns,
        },
        ended_by,
        said: ended_command.into_iter().collect(),
        problems,
        failure: failure.map(Into::into),
    })
}

/// What runs between the start and the end.
struct Run<'a> {
    probe: &'a HostProbe,
    vms: Arc<Vms>,
    collector: Collector,
    guests: Guests,
    started: Instant,
    cpu_before: CpuTime,
    failure: Option<TracefsError>,
}

/// What came of it.
struct Stopped {
    totals: Totals,
    guests: GuestTotals,
    traced: Duration,
    traced_cpu_ns: u64,
    failure: Option<TracefsError>,
}

impl Run<'_> {
    /// Looks around until there is a reason to end; returns it.
    fn until_the_end(&mut self, watch: &mut Watch, progress: &mut Progress) -> String {
        let mut hotplug = Instant::now();
        loop {
            match watch.next() {
                Wake::End(reason) => return reason,
                Wake::Snapshot(pending) => refuse_snapshot(pending),
                Wake::Look => {}
            }
            self.failure = self.collector.take_failure();
            if hotplug.elapsed() >= HOTPLUG_EVERY && self.failure.is_none() {
                hotplug = Instant::now();
                self.failure = self.collector.follow_hotplug(&self.probe.instance).err();
            }
            if let Some(failure) = &self.failure {
                return ended_by_failure(failure);
            }
            let mut notes = self.guests.take_notes();
            match self.vms.look() {
                Ok(found) => notes.extend(found),
                Err(error) => return format!("failure: {error}"),
            }
            for note in notes {
                progress.clear();
                eprintln!("transect: {note}");
            }
            if progress.is_due() {
                progress.show(self.numbers());
            }
        }
    }

    fn numbers(&self) -> Numbers {
        let totals = Totals::read(&self.probe.instance, self.collector.cpus());
        let mut numbers = Numbers {
            elapsed: self.started.elapsed(),
            events: totals.events(),
            lost: totals.lost(),
            bytes: self.collector.bytes(),
            cpu_ns: self.cpu_ns(),
        };
        self.guests.add_to(&mut numbers);
        numbers
    }

    /// Transect's own CPU time since tracing was switched on.
    fn cpu_ns(&self) -> u64 {
        CpuTime::of_this_process().total_ns().wrapping_sub(self.cpu_before.total_ns())
    }

    /// Ends the guests, then the host.
    fn stop(mut self) -> Stopped {
        if !self.guests.is_empty() {
            self.guests.request_stop();
            thread::sleep(GUEST_LEAD);
        }
        let traced = self.started.elapsed();
        let traced_cpu_ns = self.cpu_ns();
        let cpus: Vec<_> = self.collector.cpus().collect();
        let totals = match self.collector.stop(&self.probe.instance) {
            Ok(totals) => totals,
            Err(error) => {
                self.failure.get_or_insert(error);
                Totals::read(&self.probe.instance, cpus)
            }
        };
        let notes = self.guests.take_notes();
        let mut guests = self.guests.stop();
        guests.problems.splice(0..0, notes);
        Stopped { totals, guests, traced, traced_cpu_ns, failure: self.failure }
    }
}

fn refuse_snapshot(pending: Option<Pending>) {
    let why = "this recording is written all the time; end it with transect stop";
    if let Some(pending) = pending {
        pending.reply(&Err(why.to_owned()));
    }
}

/// Nothing was recorded: the directory made for it goes again.
fn discard(dir: &Path) {
    let _ = std::fs::remove_dir_all(dir);
}

fn ended_by_failure(failure: &TracefsError) -> String {
    if failure.is_storage_full() { "disk_full".to_owned() } else { format!("failure: {failure}") }
}
