//! The host's side of a recording that does not depend on the collector: the directory, the
//! machines, the threads, and what it all cost.

use super::{
    kernel::{HostKernel, KernelTotals},
    vms::Vms,
};
use std::{
    collections::BTreeMap,
    path::Path,
    sync::Arc,
    time::{Duration, SystemTime, UNIX_EPOCH},
};
use transect_clock::evidence::Evidence;
use transect_model::ids::{MachineId, MachineKind, Tid};
use transect_store::{
    Finished, Manifest, RecordingWriter,
    manifest::{Cost, LostCount, MachineEntry, ThreadEntry},
};
use transect_tracefs::{
    CpuTime, cpus,
    threads::{self, ThreadFacts},
};

/// The host is always the first machine.
pub(super) const HOST: MachineId = MachineId(0);

/// This host, prepared: recorded once, or, by a flight recorder, once per snapshot.
pub(super) struct Host {
    pub(super) kernel: Box<dyn HostKernel>,
    command_line: Vec<String>,
    threads: BTreeMap<i32, ThreadFacts>,
}

impl Host {
    /// Nothing is recorded yet.
    pub(super) fn new(kernel: Box<dyn HostKernel>, command_line: Vec<String>) -> Self {
        let mut host = Host { kernel, command_line, threads: BTreeMap::new() };
        host.gather_threads();
        host
    }

    /// Notes who lives now: for names of threads that events do not name.
    pub(super) fn gather_threads(&mut self) {
        self.threads.extend(threads::all().into_iter().map(|facts| (facts.tid, facts)));
    }

    /// Makes the recording's directory with everything known at the start.
    pub(super) fn begin(&mut self, dir: &Path) -> anyhow::Result<HostRecording> {
        let writer = Arc::new(RecordingWriter::create(dir, self.manifest())?);
        let clock = self.kernel.clock().to_owned();
        self.kernel.begin(&writer)?;
        writer.evidence(&Evidence::Reference { machine: HOST, clock: clock.clone() })?;
        let vms = Arc::new(Vms::start(writer.clone(), &clock)?);
        Ok(HostRecording { writer, vms })
    }

    fn manifest(&self) -> Manifest {
        let mut manifest = Manifest::new(unix_now_ns(), self.command_line.clone());
        manifest.notes.extend_from_slice(self.kernel.notes());
        manifest.events = self.kernel.events();
        // A killed recorder leaves these; at the end they are brought up to date.
        manifest.threads = self.threads.values().map(thread_entry).collect();
        let uname = rustix::system::uname();
        manifest.add_machine(MachineEntry {
            id: HOST,
            parent: None,
            kind: MachineKind::Host,
            name: uname.nodename().to_string_lossy().into_owned(),
            vmm_pid: None,
            cgroup: None,
            domid: None,
            uname: Some(uname_text()),
            cpu_count: cpus::online().ok().and_then(|cpus| u32::try_from(cpus.len()).ok()),
            clock: Some(self.kernel.clock().to_owned()),
            vcpus: Vec::new(),
        });
        manifest
    }

    /// Takes what is known only at the end, assembles the files and closes the recording.
    pub(super) fn finish(
        &mut self,
        recording: HostRecording,
        result: HostResult,
    ) -> anyhow::Result<Finished> {
        let HostRecording { writer, vms } = recording;
        writer.make_room();
        self.gather_threads();
        let mut problems = Vec::new();
        problems.extend(vms.look_now().err());
        problems.extend(self.kernel.end_source(&writer));
        let change = |manifest: &mut Manifest| {
            manifest.ended_by = Some(result.ended_by);
            manifest.lost.extend(lost_counts(&result.totals));
            manifest.threads.retain(|thread| thread.machine_id != HOST);
            manifest.threads.extend(self.threads.values().map(thread_entry));
            manifest.cost = Some(Cost {
                wall_ns: nanos(result.traced),
                traced_cpu_ns: result.traced_cpu_ns,
                events: result.totals.events + result.guest_events,
                lost: manifest.lost.iter().map(|lost| lost.count).sum(),
                ..own_cost()
            });
        };
        problems.extend(writer.update(change).err());
        let mut finished = writer.finish()?;
        finished.problems.splice(0..0, problems);
        Ok(finished)
    }
}

/// A recording that is under way.
pub(super) struct HostRecording {
    pub(super) writer: Arc<RecordingWriter>,
    pub(super) vms: Arc<Vms>,
}

/// What came of recording.
pub(super) struct HostResult {
    pub(super) ended_by: String,
    pub(super) totals: KernelTotals,
    /// For how long tracing was on.
    pub(super) traced: Duration,
    /// Transect's own CPU time while it was, ns.
    pub(super) traced_cpu_ns: u64,
    /// Events of all guests.
    pub(super) guest_events: u64,
}

fn lost_counts(totals: &KernelTotals) -> impl Iterator<Item = LostCount> + '_ {
    totals.lost.iter().map(|(cpu, count)| LostCount { machine_id: HOST, cpu: *cpu, count: *count })
}

fn thread_entry(facts: &ThreadFacts) -> ThreadEntry {
    ThreadEntry {
        machine_id: HOST,
        tid: Tid(facts.tid),
        pid: Tid(facts.pid),
        comm: facts.comm.clone(),
        cgroup: facts.cgroup.clone(),
    }
}

/// What this process has cost until now: all of its threads, none of its children.
fn own_cost() -> Cost {
    let cpu = CpuTime::of_this_process();
    Cost { cpu_user_ns: cpu.user_ns, cpu_sys_ns: cpu.sys_ns, ..Cost::default() }
}

pub(super) fn uname_text() -> String {
    let uname = rustix::system::uname();
    let parts = [uname.sysname(), uname.nodename(), uname.release(), uname.machine()];
    parts.map(|part| part.to_string_lossy().into_owned()).join(" ")
}

pub(super) fn unix_now_ns() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    nanos(since)
}

/// Whole nanoseconds; 584 years fit.
pub(super) fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}
