//! Recording from start to end, everything to disk as it comes.

use super::{
    Outcome,
    ending::{self, Ending},
    guests::{GuestPlan, GuestTotals, Guests},
    host::{Host, HostResult},
    kernel::{HostKernel, KernelTotals},
    progress::{Numbers, Progress},
    vms::Vms,
    watch::{Wake, Watch},
    xen::{XenRecording, XenTotals},
};
use crate::recorders::Pending;
use std::{
    path::Path,
    sync::{Arc, PoisonError},
    thread,
    time::{Duration, Instant},
};
use transect_store::RecordingWriter;
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
    host.write_wall_readings(&recording);
    host.kernel.start().inspect_err(|_| discard(dir))?;
    let clock = host.kernel.clock().to_owned();
    let guests = Guests::start(guest_plan, &recording, &clock, &|| watch.is_interrupted())
        .inspect_err(|_| discard(dir))?;
    // First: what a domain does is inside what the hypervisor does.
    let mut xen = recording.xen.take();
    if let Some(xen) = &mut xen {
        xen.start().inspect_err(|_| discard(dir))?;
    }
    host.kernel.switch_on().inspect_err(|_| discard(dir))?;
    // Both at the same moment: switching on took time of its own.
    let (started, cpu_before) = (Instant::now(), CpuTime::of_this_process());
    // Threads made while everything was set up, which may be gone before the end.
    host.gather_threads();
    let vms = recording.vms.clone();
    let writer = recording.writer.clone();
    let kernel = host.kernel.as_mut();
    let mut run = Run { kernel, writer, vms, guests, xen, started, cpu_before };
    if let Err(error) = start_command(watch) {
        // Without the command there is nothing to record.
        let _ = run.stop();
        drop(recording);
        discard(dir);
        return Err(error);
    }
    let mut ending = run.until_the_end(watch, progress);
    progress.say("finishing …");
    let Stopped { totals, notes, guests, xen, traced, traced_cpu_ns, failure, recorded } =
        run.stop();
    if let Some(late) = failure.filter(|_| ending.failure.is_none()) {
        ending = Ending::failed(late);
    }
    let ended_command = watch.end_command();
    let (xen, xen_totals) = xen;
    recording.xen = xen;
    let other_events = guests.events + xen_totals.events;
    let events = totals.events + other_events;
    let lost = totals.lost_events() + guests.lost + xen_totals.lost;
    let not_kept = totals.not_kept.iter().filter_map(|(_, count)| *count).sum();
    let result = HostResult {
        ended_by: ending.reason.clone(),
        totals,
        traced,
        traced_cpu_ns,
        other_events,
        helpers_cpu: xen_totals.cpu,
        recorded,
    };
    let writer = recording.writer.clone();
    let finished = match host.finish(recording, result) {
        Ok(finished) => finished,
        Err(error) if ending::is_out_of_place(&error) => {
            return Err(ending.failure.filter(ending::is_out_of_place).unwrap_or(error));
        }
        Err(error) => {
            return Err(error.context(format!(
                "{0}: cannot complete the recording; its data can be read: transect report {0}",
                dir.display()
            )));
        }
    };
    let mut problems = guests.problems;
    problems.extend(xen_totals.problems);
    problems.extend(finished.problems.iter().map(ToString::to_string));
    let manifest = writer.manifest();
    let failure = ending.failure.map(|failure| ending::explain(failure, &manifest, dir));
    let elapsed = traced;
    let (bytes, cpu_ns) = (finished.bytes, traced_cpu_ns);
    Ok(Outcome {
        dir: finished.dir,
        numbers: Numbers { elapsed, events, lost, not_kept, bytes, cpu_ns },
        ended_by: ending.reason,
        said: notes.into_iter().chain(ended_command).collect(),
        problems,
        failure,
    })
}

/// What runs between the start and the end.
struct Run<'a> {
    kernel: &'a mut dyn HostKernel,
    writer: Arc<RecordingWriter>,
    vms: Arc<Vms>,
    guests: Guests,
    xen: Option<XenRecording>,
    started: Instant,
    cpu_before: CpuTime,
}

/// What came of it.
struct Stopped {
    totals: KernelTotals,
    /// What the guests' sessions reported last.
    notes: Vec<String>,
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
    fn until_the_end(&mut self, watch: &mut Watch, progress: &mut Progress) -> Ending {
        loop {
            match watch.next() {
                Wake::End(reason) => return Ending::in_order(reason),
                Wake::Snapshot(_, pending) => refuse_snapshot(pending),
                Wake::Look => {}
            }
            let notes = match self.look() {
                Ok(notes) => notes,
                Err(failure) => return Ending::failed(failure),
            };
            for note in notes {
                progress.clear();
                eprintln!("transect: {note}");
            }
            if progress.is_due() {
                progress.show(self.numbers());
            }
        }
    }

    /// Looks at everything that can fail; returns what the user should know.
    fn look(&mut self) -> anyhow::Result<Vec<String>> {
        self.writer.check_place()?;
        self.kernel.look()?;
        if let Some(failure) = self.guests.take_failure() {
            return Err(failure);
        }
        let mut notes = self.guests.take_notes();
        let takes_readings = self.takes_readings_for_xen();
        if let Some(xen) = &mut self.xen {
            notes.extend(xen.look(takes_readings)?);
        }
        notes.extend(self.vms.look()?);
        Ok(notes)
    }

    fn numbers(&self) -> Numbers {
        let kernel = self.kernel.numbers();
        let mut numbers = Numbers {
            elapsed: self.started.elapsed(),
            events: kernel.events,
            lost: kernel.lost,
            not_kept: 0,
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
        let (totals, mut failure) = self.kernel.stop();
        // Last: the hypervisor's trace is around all others.
        let mut xen = self.xen.as_mut().map(XenRecording::stop).unwrap_or_default();
        failure = failure.or(xen.failure.take().map(Into::into));
        let notes = self.guests.take_notes();
        let store = self.guests.failure();
        let guests = self.guests.stop();
        // Also one that came while they ended.
        let late = store.lock().unwrap_or_else(PoisonError::into_inner).take();
        let failure = failure.or(late);
        let xen = (self.xen, xen);
        Stopped { totals, notes, guests, xen, traced, traced_cpu_ns, failure, recorded }
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
