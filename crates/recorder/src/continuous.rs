//! Recording from start to end, everything to disk as it comes.

use super::{
    driver::{Driver, Hurry, Reply, Wake},
    ending::{self, Ending},
    guests::{GuestPlan, GuestTotals, Guests},
    host::{Host, HostResult},
    kernel::{HostKernel, KernelTotals},
    numbers::{Numbers, Outcome},
    observer::{Observer, Status},
    vms::Vms,
    xen::{XenRecording, XenTotals},
};
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

/// Problems that are printed.
const MAX_PROBLEMS: usize = 50;
/// Files are assembled for so long after the end became urgent.
const HURRIED_ASSEMBLY: Duration = Duration::from_secs(3);

/// Records until something ends it.
pub(super) fn run(
    mut host: Host,
    dir: &Path,
    guest_plan: &GuestPlan,
    driver: &mut dyn Driver,
    observer: &mut dyn Observer,
) -> anyhow::Result<Outcome> {
    let mut recording = host.begin(dir)?;
    host.write_wall_readings(&recording);
    host.kernel.start().inspect_err(|_| discard(dir))?;
    let clock = host.kernel.clock().to_owned();
    let guests = Guests::start(guest_plan, &recording, &clock, &|| driver.is_interrupted())
        .inspect_err(|_| discard(dir))?;
    // First: what a domain does is inside what the hypervisor does.
    let mut xen = recording.xen.take();
    if let Some(xen) = &mut xen {
        xen.start().inspect_err(|_| discard(dir))?;
    }
    host.kernel.switch_on().inspect_err(|_| discard(dir))?;
    guests.host_began(host.kernel.stamp_now());
    // Both at the same moment: switching on took time of its own.
    let (started, cpu_before) = (Instant::now(), CpuTime::of_this_process());
    // Threads made while everything was set up, which may be gone before the end.
    host.gather_threads();
    let vms = recording.vms.clone();
    let writer = recording.writer.clone();
    let kernel = host.kernel.as_mut();
    let mut run = Run { kernel, writer, vms, guests, xen, started, cpu_before };
    let hurry = driver.hurry();
    let ended = run.until_the_end(driver, observer);
    let mut ending = match ended {
        Ok(ending) => ending,
        Err(error) => {
            // Without the command, or a guest that the user named, there is nothing to record.
            let _ = run.stop(&hurry);
            drop(recording);
            discard(dir);
            return Err(error);
        }
    };
    // From here the time counts, if a signal has ended it.
    hurry.is_on();
    observer.status(Status::Finishing);
    let Stopped { totals, guests, xen, traced, traced_cpu_ns, failure, recorded } =
        run.stop(&hurry);
    if let Some(late) = failure.filter(|_| ending.failure.is_none()) {
        ending = Ending::failed(late);
    }
    let ended_command = driver.tracing_ended();
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
    let gives_up = || hurry.elapsed().is_some_and(|elapsed| elapsed > HURRIED_ASSEMBLY);
    let finished = match host.finish(recording, result, &gives_up) {
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
    shorten(&mut problems);
    let left = left_text(&finished.left_spooled);
    let manifest = writer.manifest();
    let failure = ending.failure.map(|failure| ending::explain(failure, &manifest, dir));
    let elapsed = traced;
    let (bytes, cpu_ns) = (finished.bytes, traced_cpu_ns);
    Ok(Outcome {
        dir: finished.dir,
        numbers: Numbers { elapsed, events, lost, not_kept, bytes, cpu_ns },
        ended_by: ending.reason,
        said: guests.notes.into_iter().chain(ended_command).chain(left).collect(),
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
    guests: GuestTotals,
    xen: (Option<XenRecording>, XenTotals),
    traced: Duration,
    traced_cpu_ns: u64,
    failure: Option<anyhow::Error>,
    /// From when to when the kernel was recorded, raw.
    recorded: Option<(u64, u64)>,
}

impl Run<'_> {
    /// Looks at everything that can fail, and reports what the user should know.
    fn report_notes(&mut self, observer: &mut dyn Observer) -> anyhow::Result<()> {
        for note in self.look()? {
            observer.note(&note);
        }
        Ok(())
    }

    /// Looks around until there is a reason to end; returns it. The command starts, and the duration counts, once no guest
    /// is starting any more.
    ///
    /// # Errors
    /// The command cannot be started, or a guest has no channel.
    fn until_the_end(
        &mut self,
        driver: &mut dyn Driver,
        observer: &mut dyn Observer,
    ) -> anyhow::Result<Ending> {
        let mut has_begun = false;
        loop {
            if !has_begun {
                if self.guests.are_starting()? {
                    observer.status(Status::WaitingForGuests);
                } else {
                    has_begun = true;
                    driver.begun()?;
                }
            }
            match driver.next() {
                Wake::End(reason) => return Ok(Ending::in_order(reason)),
                Wake::Snapshot(_, reply) => refuse_snapshot(reply),
                Wake::Look => {}
            }
            if let Err(failure) = self.report_notes(observer) {
                return Ok(Ending::failed(failure));
            }
            if has_begun && observer.is_due() {
                observer.status(Status::Recording(self.numbers()));
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
    fn stop(mut self, hurry: &Hurry) -> Stopped {
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
        let store = self.guests.failure();
        let guests = self.guests.stop(hurry);
        // Also one that came while they ended.
        let late = store.lock().unwrap_or_else(PoisonError::into_inner).take();
        let failure = failure.or(late);
        let xen = (self.xen, xen);
        Stopped { totals, guests, xen, traced, traced_cpu_ns, failure, recorded }
    }
}

/// Keeps the first problems: a guest that connects again and again leaves as many sources.
fn shorten(problems: &mut Vec<String>) {
    let rest = problems.len().saturating_sub(MAX_PROBLEMS);
    if rest > 0 {
        problems.truncate(MAX_PROBLEMS);
        problems.push(format!("and {rest} more problems of this kind"));
    }
}

/// The note about sources that are not trace.dat files yet.
fn left_text(files: &[String]) -> Option<String> {
    let (first, rest) = files.split_first()?;
    let more = if rest.is_empty() { String::new() } else { format!(" and {} more", rest.len()) };
    Some(format!(
        "{first}{more}: left in parts, because the end was urgent; every command of transect reads them"
    ))
}

fn refuse_snapshot(reply: Option<Reply>) {
    let why =
        "not a flight recorder: this recording is written continuously; end it with transect stop";
    if let Some(reply) = reply {
        reply(&Err(why.to_owned()));
    }
}

/// Nothing was recorded: the directory made for it goes again.
fn discard(dir: &Path) {
    let _ = std::fs::remove_dir_all(dir);
}
