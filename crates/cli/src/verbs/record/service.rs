//! The flight recorder of `transect serve`: the same programs and logs as `record --flight-recorder`, from which
//! any number of recordings are taken.

use super::{
    choose,
    compact::CompactKernel,
    ending::Ending,
    host::{Host, HostResult},
    kernel::KernelTotals,
};
use crate::recorders::SnapshotWindow;
use anyhow::{Context as _, bail};
use std::{path::Path, time::Duration, time::Instant};
use transect_bpf::{Family, Mode, Plan};
use transect_serve::service::{Recorded, Recorder};
use transect_tracefs::{CpuTime, cpus};

/// Programs that are attached, and what they hold.
struct Flight {
    host: Host,
    /// Attached: nothing before is held.
    begun: Instant,
    /// The last snapshot.
    armed: Instant,
    cpu_before: CpuTime,
}

/// Begins to keep events. `profile` is sched, vm or io; `bytes` is what it holds of each CPU.
pub(crate) fn flight_service(profile: &str, bytes: u64) -> anyhow::Result<Box<dyn Recorder>> {
    let families: &[Family] = match profile {
        "sched" => &[Family::Sched],
        "vm" => &[Family::Sched, Family::Kvm, Family::Irq],
        "io" => {
            &[Family::Sched, Family::Kvm, Family::Irq, Family::Block, Family::Net, Family::Syscalls]
        }
        other => bail!("unknown flight recorder profile {other}: use sched, vm or io"),
    };
    if let Err(why) = transect_bpf::can_run() {
        bail!("the flight recorder needs the compact collector: {why}");
    }
    let mut plan = Plan::of(families);
    plan.mode = Mode::FlightRecorder;
    plan.log_bytes_per_cpu = choose::log_bytes(bytes.div_ceil(1024))?;
    let kernel = Box::new(CompactKernel::prepare(plan)?);
    let command_line = vec!["transect".to_owned(), "serve".to_owned()];
    let mut host = Host::new(kernel, command_line, None);
    host.kernel.switch_on()?;
    let cpu_before = CpuTime::of_this_process();
    let begun = Instant::now();
    Ok(Box::new(Flight { host, begun, armed: begun, cpu_before }))
}

impl Flight {
    fn take(&mut self, dir: &Path, last: Duration, why: &str) -> anyhow::Result<Recorded> {
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
        Ok(Recorded { events, lost, window_unix_ns })
    }
}

impl Recorder for Flight {
    fn reaches_back(&mut self) -> Duration {
        let Some(since_ns) = self.host.kernel.held_since_ns() else { return self.begun.elapsed() };
        Duration::from_nanos(transect_live::monotonic_ns().saturating_sub(since_ns))
    }

    fn snapshot(&mut self, dir: &Path, last: Duration, why: &str) -> Result<Recorded, String> {
        self.take(dir, last, why).map_err(|error| crate::one_line(&error))
    }
}
