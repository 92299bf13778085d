//! The flight recorder: the kernel overwrites the oldest events, and nothing is written until
//! someone asks, a trigger fires or the command fails.
//!
//! A snapshot stops the buffers, writes what they hold as a recording of its own
//! (`NAME.1.transect`, `NAME.2.transect`, …) and starts them again; what happens meanwhile is not
//! recorded. A trigger is the kernel's own `traceoff`: the buffers stop at the event itself, and
//! the recorder notices within 20 ms.

use super::{
    driver::{Driver, Wake},
    ending::Ending,
    host::{Host, HostResult},
    kernel::{HostKernel, KernelTotals},
    numbers::{Numbers, Outcome},
    observer::{Observer, Snapshot, Status},
    trigger::Trigger,
    window::SnapshotWindow,
};
use anyhow::{Context, bail};
use std::{
    fs,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};
use transect_model::people::one_line;
use transect_store::manifest::SnapshotEntry;
use transect_tracefs::{CpuTime, cpus};

/// What a flight recorder waits for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FlightPlan {
    /// Freeze the buffers at this event.
    pub trigger: Option<Trigger>,
    /// End after so many snapshots.
    pub snapshots: Option<u32>,
    /// Which stretch a snapshot is about, unless the request says otherwise.
    pub window: SnapshotWindow,
}

/// Runs until something ends it; `base` is what snapshots are named after.
pub(super) fn run(
    host: Host,
    base: &Path,
    plan: &FlightPlan,
    driver: &mut dyn Driver,
    observer: &mut dyn Observer,
) -> anyhow::Result<Outcome> {
    let mut recorder = FlightRecorder::new(host, base);
    recorder.check(plan.window)?;
    recorder.arm()?;
    driver.begun()?;
    let mut failure = None;
    let mut ended_by = None;
    while ended_by.is_none() {
        let why = match driver.next() {
            Wake::End(reason) => {
                ended_by = Some(reason);
                if !driver.command_failed() {
                    break;
                }
                Some(("command failed", None, None))
            }
            Wake::Snapshot(window, reply) => Some(("requested", window, reply)),
            Wake::Look if plan.trigger.is_some() && recorder.host.kernel.is_triggered()? => {
                Some(("trigger", None, None))
            }
            Wake::Look => None,
        };
        if let Some((why, window, reply)) = why {
            observer.status(Status::Snapshot);
            let window = window.unwrap_or(plan.window);
            let reply = match (recorder.check(window), reply) {
                (Err(error), Some(reply)) => {
                    // The request is refused; the recorder goes on.
                    reply(&Err(one_line(error.as_ref())));
                    continue;
                }
                (_, reply) => reply,
            };
            let taken = recorder.snapshot(why, window, observer);
            if let Some(reply) = reply {
                reply(&taken.as_ref().map(Clone::clone).map_err(|error| one_line(error.as_ref())));
            }
            if let Err(error) = taken {
                failure = Some(error);
                ended_by = Some("failure".to_owned());
            } else if plan.snapshots.is_some_and(|limit| recorder.taken >= limit) {
                ended_by.get_or_insert_with(|| "snapshot limit reached".to_owned());
            }
            recorder.arm()?;
        }
        if observer.is_due() {
            observer.status(Status::Holding { snapshots: recorder.taken });
        }
    }
    recorder.host.kernel.freeze()?;
    let said = driver.tracing_ended().into_iter().collect();
    Ok(Outcome {
        dir: recorder.last.unwrap_or_else(|| base.to_owned()),
        numbers: recorder.numbers,
        ended_by: ended_by.unwrap_or_default(),
        said,
        problems: recorder.problems,
        failure,
    })
}

struct FlightRecorder {
    host: Host,
    base: PathBuf,
    armed: Instant,
    cpu_before: CpuTime,
    taken: u32,
    number: u32,
    last: Option<PathBuf>,
    numbers: Numbers,
    problems: Vec<String>,
}

impl FlightRecorder {
    fn new(host: Host, base: &Path) -> Self {
        FlightRecorder {
            host,
            base: base.to_owned(),
            armed: Instant::now(),
            cpu_before: CpuTime::of_this_process(),
            taken: 0,
            number: 0,
            last: None,
            numbers: Numbers::default(),
            problems: Vec::new(),
        }
    }

    /// Can a snapshot have this window?
    fn check(&self, window: SnapshotWindow) -> anyhow::Result<()> {
        if window != SnapshotWindow::Covered && self.host.kernel.stamp_now().is_none() {
            bail!(
                "--last needs a clock that user space can read, not {}: record with --clock mono",
                self.host.kernel.clock()
            );
        }
        Ok(())
    }

    fn arm(&mut self) -> anyhow::Result<()> {
        self.armed = Instant::now();
        self.cpu_before = CpuTime::of_this_process();
        self.host.kernel.switch_on()
    }

    /// Writes what the buffers hold; returns the new recording. Tracing is off afterwards.
    fn snapshot(
        &mut self,
        why: &str,
        window: SnapshotWindow,
        observer: &mut dyn Observer,
    ) -> anyhow::Result<PathBuf> {
        self.host.kernel.freeze()?;
        let traced = self.armed.elapsed();
        let cpu_ns = CpuTime::of_this_process().total_ns() - self.cpu_before.total_ns();
        let dir = self.free_name();
        let recording = self.host.begin(&dir).context("cannot start the snapshot")?;
        let (totals, failure) = match self.host.kernel.dump() {
            Ok(totals) => (totals, None),
            Err(error) => (KernelTotals::of_failure(&cpus::online()?), Some(error)),
        };
        let entry = self.host.describe_snapshot(&recording, why, window)?;
        let coverage = coverage(&entry, self.host.kernel.as_ref());
        let (events, lost) = (totals.events, totals.lost_events());
        let ended_by = match &failure {
            None => format!("snapshot: {why}"),
            Some(failure) => Ending::reason_of(failure),
        };
        let result = HostResult {
            ended_by,
            totals,
            traced,
            traced_cpu_ns: cpu_ns,
            other_events: 0,
            helpers_cpu: transect_xen::CpuNs::default(),
            recorded: None,
        };
        let finished = self.host.finish(recording, result, &|| false)?;
        self.problems.extend(finished.problems.iter().map(ToString::to_string));
        if let Some(failure) = failure {
            return Err(failure.context(format!(
                "{0}: incomplete snapshot; the part that was written can be read: transect report {0}",
                dir.display()
            )));
        }
        self.taken += 1;
        self.numbers.elapsed += traced;
        self.numbers.events += events;
        self.numbers.lost += lost;
        self.numbers.bytes += finished.bytes;
        self.numbers.cpu_ns += cpu_ns;
        let (elapsed, bytes) = (traced, finished.bytes);
        let numbers = Numbers { elapsed, events, lost, not_kept: 0, bytes, cpu_ns };
        observer.snapshot(Snapshot { why, dir: &dir, numbers, coverage: coverage.as_deref() });
        self.last = Some(dir.clone());
        Ok(dir)
    }

    /// `NAME.1.transect`, or the next number that is free.
    fn free_name(&mut self) -> PathBuf {
        loop {
            self.number += 1;
            let dir = numbered(&self.base, self.number);
            if fs::read_dir(&dir).map_or(true, |mut entries| entries.next().is_none()) {
                return dir;
            }
        }
    }
}

/// "window: 1.20 s, which the buffers of all CPUs cover (CPU 1 reaches back least far)"
fn coverage(entry: &SnapshotEntry, kernel: &dyn HostKernel) -> Option<String> {
    let to = entry.to?;
    let seconds = |from: u64| {
        let ns = kernel.ns_between(from, to);
        format!("{:.3} s", Duration::from_nanos(ns).as_secs_f64())
    };
    let Some(reach) = kernel.reach() else {
        // The events tell how far back it reaches.
        return entry.from.map(|from| format!("window: {}", seconds(from)));
    };
    let shortest = reach.iter().max_by_key(|(_, from)| *from);
    let window = entry.from.map(seconds);
    Some(match (window, shortest) {
        (None, None) => return None,
        (None, Some((cpu, from))) => format!(
            "window: {}, which the buffers of all CPUs cover (CPU {} reaches back least far; --last takes a longer window)",
            seconds(*from),
            cpu.0
        ),
        (Some(window), None) => format!("window: {window}, covered by the buffers of all CPUs"),
        (Some(window), Some((cpu, from))) => format!(
            "window: {window}; the buffers of all CPUs cover {} (CPU {} reaches back least far), states before that are unknown",
            seconds(*from),
            cpu.0
        ),
    })
}

/// `slow.transect` and 3 make `slow.3.transect`.
pub fn numbered(base: &Path, number: u32) -> PathBuf {
    let name = base.file_name().unwrap_or_default().to_string_lossy();
    let stem = name.strip_suffix(".transect").unwrap_or(&name);
    base.with_file_name(format!("{stem}.{number}.transect"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn snapshots_are_numbered_before_the_suffix() {
        assert_eq!(numbered(Path::new("/a/slow.transect"), 2), Path::new("/a/slow.2.transect"));
        assert_eq!(numbered(Path::new("slow"), 1), Path::new("slow.1.transect"));
    }
}
