//! Recording from start to end, everything to disk as it comes.

use super::{
    Outcome,
    guests::{GuestPlan, GuestTotals, Guests},
    host::{Host, HostResult},
    kernel::{HostKernel, KernelTotals},
    progress::{Numbers, Progress},
    vms::Vms,
    watch::{Wake, Watch},
    xen::{XenRecording, XenTotals},
};
use crate::recorders::Pending;
use anyhow::Context;
use std::{
    path::Path,
    sync::Arc,
    thread,
    time::{Duration, Instant},
};
use transect_tracefs::CpuTime;

/// After guests were told to end, before the host's own tracing is switched off: the last events
/// of a guest lie inside what the host recorded.
const GUEST_LEAD: Duration = Duration::from_millis(30);

/// Records until something ends it.
pub(super) fn run(
    mut host: Host,
    dir: &Path,
    guest_plan: &GuestPlan,
    watch: &mut Watch,
    start_command: impl FnOnce(&mut Watch) -> anyhow::Result<()>,
    progress: &mut Progress,
) -> anyhow::Result<Outcome> {
    let mut recording = host.begin(dir)?;
    host.kernel.start()?;
    let clock = host.kernel.clock().to_owned();
    let guests = Guests::start(guest_plan, &recording, &clock, &|| watch.is_interrupted())
        .inspect_err(|_| discard(dir))?;
    let cpu_before = CpuTime::of_this_process();
    // First: what a domain does is inside what the hypervisor does.
    let mut xen = recording.xen.take();
    if let Some(xen) = &mut xen {
        xen.start().inspect_err(|_| discard(dir))?;
    }
    host.kernel.switch_on()?;
    // Threads made while everything was set up, which may be gone before the end.
    host.gather_threads();
    let vms = recording.vms.clone();
    let started = Instant::now();
    let kernel = host.kernel.as_mut();
    let mut run = Run { kernel, vms, guests, xen, started, cpu_before, failure: None };
    let begun = start_command(watch);
    let ended_by = match &begun {
        Ok(()) => run.until_the_end(watch, progress),
        Err(error) => crate::one_line(error),
    };
    progress.say("finishing …");
    let Stopped { totals, guests, xen, traced, traced_cpu_ns, failure, recorded } = run.stop();
    let ended_command = watch.end_command();
    let (xen, xen_totals) = xen;
    recording.xen = xen;
    let other_events = guests.events + xen_totals.events;
    let events = totals.events + other_events;
    let lost = totals.lost_events() + guests.lost + xen_totals.lost;
    let result = HostResult {
        ended_by: ended_by.clone(),
        totals,
        traced,
        traced_cpu_ns,
        other_events,
        helpers_cpu: xen_totals.cpu,
        recorded,
    };
    let finished = host.finish(recording, result).with_context(|| {
        format!("{}: cannot complete the recording; it is readable", dir.display())
    })?;
    begun?;
    let mut problems = guests.problems;
    problems.extend(xen_totals.problems);
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
        failure,
    })
}

/// What runs between the start and the end.
struct Run<'a> {
    kernel: &'a mut dyn HostKernel,
    vms: Arc<Vms>,
    guests: Guests,
    xen: Option<XenRecording>,
    started: Instant,
    cpu_before: CpuTime,
    failure: Option<anyhow::Error>,
}

/// What came of it.
struct Stopped {
    totals: KernelTotals,
    guests: GuestTotals,
    xen: (Option<XenRecording>, XenTotals),
    traced: Duration,
    traced_cpu_ns: u64,
    failure: Option<anyhow::Error>,
    /// From when to when the kernel was recorded, raw.
    recorded: Option<(u64, u64)>,
}

impl Run<'_> {
    /// Looks around until there is a reason to end; returns it.
    fn until_the_end(&mut self, watch: &mut Watch, progress: &mut Progress) -> String {
        loop {
            match watch.next() {
                Wake::End(reason) => return reason,
                Wake::Snapshot(_, pending) => refuse_snapshot(pending),
                Wake::Look => {}
            }
            if let Err(failure) = self.kernel.look() {
                let is_full = self.kernel.is_storage_full(&failure);
                let reason =
                    if is_full { "disk_full".to_owned() } else { format!("failure: {failure}") };
                self.failure = Some(failure);
                return reason;
            }
            let mut notes = self.guests.take_notes();
            let takes_readings = self.takes_readings_for_xen();
            match self.xen.as_mut().map(|xen| xen.look(takes_readings)).transpose() {
                Ok(told) => notes.extend(told.into_iter().flatten()),
                Err(failure) => {
                    self.failure = Some(failure);
                    return "disk_full".to_owned();
                }
            }
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
        let kernel = self.kernel.numbers();
        let mut numbers = Numbers {
            elapsed: self.started.elapsed(),
            events: kernel.events,
            lost: kernel.lost,
            bytes: kernel.bytes,
            cpu_ns: self.cpu_ns(),
        };
        self.guests.add_to(&mut numbers);
        if let Some(xen) = &self.xen {
            let (events, lost, bytes) = xen.numbers();
            numbers.events += events;
            numbers.lost += lost;
            numbers.bytes += bytes;
        }
        numbers
    }

    /// Must Xen's part read dom0's clock beside the TSC, because its kernel's part does not?
    fn takes_readings_for_xen(&self) -> bool {
        !self.kernel.takes_readings()
    }

    /// Transect's own CPU time since tracing was switched on, and its helpers'.
    fn cpu_ns(&self) -> u64 {
        let own = CpuTime::of_this_process().total_ns().wrapping_sub(self.cpu_before.total_ns());
        own + self.xen.as_ref().map_or(0, XenRecording::cpu_ns)
    }

    /// Ends the guests, then the host.
    fn stop(mut self) -> Stopped {
        if !self.guests.is_empty() {
            self.guests.request_stop();
            thread::sleep(GUEST_LEAD);
        }
        let traced = self.started.elapsed();
        let traced_cpu_ns = self.cpu_ns();
        let recorded = self.kernel.holds_from().zip(self.kernel.stamp_now());
        let (totals, failure) = self.kernel.stop();
        if let Some(failure) = failure {
            self.failure.get_or_insert(failure);
        }
        // Last: the hypervisor's trace is around all others.
        let mut xen = self.xen.as_mut().map(XenRecording::stop).unwrap_or_default();
        if let Some(full) = xen.failure.take() {
            self.failure.get_or_insert(full.into());
        }
        let notes = self.guests.take_notes();
        let mut guests = self.guests.stop();
        guests.problems.splice(0..0, notes);
        let xen = (self.xen, xen);
        let failure = self.failure;
        Stopped { totals, guests, xen, traced, traced_cpu_ns, failure, recorded }
    }
}

fn refuse_snapshot(pending: Option<Pending>) {
    let why =
        "not a flight recorder: this recording is written continuously; end it with transect stop";
    if let Some(pending) = pending {
        pending.reply(&Err(why.to_owned()));
    }
}

/// Nothing was recorded: the directory made for it goes again.
fn discard(dir: &Path) {
    let _ = std::fs::remove_dir_all(dir);
}
