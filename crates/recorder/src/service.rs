//! The flight recorder of `transect serve`: the same programs and logs as `record --flight-recorder`, from which
//! any number of recordings are taken.

use super::{
    choose,
    compact::CompactKernel,
    ending::Ending,
    host::{Host, HostResult},
    kernel::KernelTotals,
    window::SnapshotWindow,
};
use anyhow::{Context as _, bail};
use std::{path::Path, time::Duration, time::Instant};
use transect_bpf::{Family, Mode, Plan, live::monotonic_ns};
use transect_tracefs::{CpuTime, cpus};

/// Programs that are attached, and what they hold.
pub struct FlightService {
    host: Host,
    /// Attached: nothing before is held.
    begun: Instant,
    /// The last snapshot.
    armed: Instant,
    cpu_before: CpuTime,
}

/// What a snapshot has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Taken {
    /// Events.
    pub events: u64,
    /// Events that were lost in it.
    pub lost: u64,
    /// The host's wall clock at both ends of its window, ns since 1970 (UTC); none where unknown.
    pub window_unix_ns: (Option<i64>, Option<i64>),
}

impl FlightService {
    /// Begins to keep events. `profile` is sched, vm, io or explain; `bytes` is what it holds of each CPU; `command_line` is for
    /// the manifests of its recordings.
    ///
    /// # Errors
    /// The profile is none of these, or the compact collector cannot run here.
    pub fn start(profile: &str, bytes: u64, command_line: Vec<String>) -> anyhow::Result<Self> {
        let mut plan = match profile {
            "sched" => Plan::of(&[Family::Sched]),
            "vm" => Plan::of(&[Family::Sched, Family::Kvm, Family::Irq]),
            "io" => Plan::of(choose::IO),
            "explain" => choose::explain(),
            other => bail!("unknown flight recorder profile {other}: use sched, vm, io or explain"),
        };
        if let Err(why) = transect_bpf::can_run() {
            bail!("the flight recorder needs the compact collector: {why}");
        }
        plan.mode = Mode::FlightRecorder;
        plan.log_bytes_per_cpu = choose::log_bytes(bytes.div_ceil(1024))?;
        let kernel = Box::new(CompactKernel::prepare(plan)?);
        let mut host = Host::new(kernel, command_line, None);
        host.kernel.switch_on()?;
        let cpu_before = CpuTime::of_this_process();
        let begun = Instant::now();
        Ok(FlightService { host, begun, armed: begun, cpu_before })
    }

    /// How much of the past it holds now.
    pub fn reaches_back(&self) -> Duration {
        let Some(since_ns) = self.host.kernel.held_since_ns() else { return self.begun.elapsed() };
        Duration::from_nanos(monotonic_ns().saturating_sub(since_ns))
    }

    /// Writes what it holds of the last seconds as a recording, a directory that is not there yet.
    ///
    /// # Errors
    /// The recording cannot be made, or it is not complete.
    pub fn snapshot(&mut self, dir: &Path, last: Duration, why: &str) -> anyhow::Result<Taken> {
        self.host.kernel.limit_dump(Some(last));
        let recording = self.host.begin(dir).context("cannot start the snapshot")?;
        let dumped = self.host.kernel.dump();
        let totals = match &dumped {
            Ok(totals) => totals.clone(),
            Err(_) => KernelTotals::of_failure(&cpus::online()?),
        };
        let entry = self.host.describe_snapshot(&recording, why, SnapshotWindow::Last(last))?;
        let cpu_ns = CpuTime::of_this_process().total_ns() - self.cpu_before.total_ns();
        let (events, lost) = (totals.events, totals.lost_events());
        let result = HostResult {
            ended_by: match &dumped {
                Ok(_) => format!("snapshot: {why}"),
                Err(failure) => Ending::reason_of(failure),
            },
            totals,
            traced: self.armed.elapsed().min(last),
            traced_cpu_ns: cpu_ns,
            other_events: 0,
            helpers_cpu: transect_xen::CpuNs::default(),
            recorded: None,
        };
        let _problems = self.host.finish(recording, result, &|| false)?;
        let window_unix_ns = self.host.unix_window(&entry);
        self.host.kernel.switch_on()?;
        self.armed = Instant::now();
        self.cpu_before = CpuTime::of_this_process();
        dumped.context("incomplete snapshot")?;
        Ok(Taken { events, lost, window_unix_ns })
    }
}
