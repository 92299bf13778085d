//! The host's side of a recording that does not depend on the collector: the directory, the
//! machines, the threads, and what it all cost.

use super::{
    ending::cause_of,
    facts::uname_text,
    kernel::{HostKernel, KernelTotals},
    settings::HostSettings,
    vms::Vms,
    wall::WallWatch,
    window::SnapshotWindow,
    xen::{XenDomains, XenPlan, XenRecording},
};
use std::{
    collections::{BTreeMap, BTreeSet},
    path::Path,
    sync::Arc,
    time::{Duration, SystemTime, UNIX_EPOCH},
};
use transect_access::{Group, Readers};
use transect_clock::evidence::Evidence;
use transect_model::ids::{CpuId, MachineId, MachineKind, Tid};
use transect_store::{
    Finished, Manifest, RecordingWriter, StoreError,
    manifest::{Cost, FilterEntry, LostCount, MachineEntry, NotKept, SnapshotEntry, ThreadEntry},
};
use transect_tracefs::{
    CpuTime, Namespaces, ProcessKey, cpus,
    threads::{self, ThreadFacts},
};
use transect_xen::CpuNs;

/// A host is the first machine, unless there is a hypervisor below it.
const FIRST: MachineId = MachineId(0);

/// This host, prepared: recorded once, or, by a flight recorder, once per snapshot.
pub(super) struct Host {
    pub(super) kernel: Box<dyn HostKernel>,
    command_line: Vec<String>,
    threads: BTreeMap<i32, ThreadFacts>,
    /// Those of them that lived when they were gathered last.
    alive: BTreeSet<i32>,
    settings: HostSettings,
    /// Which threads its kernel records, for the manifest.
    filter: Option<FilterEntry>,
    /// The hypervisor below, if it is to be recorded: once.
    xen: Option<XenPlan>,
    /// Reads the wall clock, from before the first event on.
    wall: WallWatch,
    /// The users that can read what is recorded.
    readers: Readers,
}

impl Host {
    /// Nothing is recorded yet.
    pub(super) fn new(
        kernel: Box<dyn HostKernel>,
        command_line: Vec<String>,
        xen: Option<XenPlan>,
    ) -> Self {
        let (threads, alive) = (BTreeMap::new(), BTreeSet::new());
        let wall = WallWatch::start(kernel.clock());
        let (filter, readers) = (None, Readers::Owner);
        let settings = HostSettings::new();
        let mut host =
            Host { kernel, command_line, threads, alive, settings, filter, xen, wall, readers };
        host.gather_threads();
        host
    }

    /// Adds the group that can read the recording.
    pub(super) fn with_group(mut self, group: Option<Group>) -> Self {
        self.readers = group.map_or(Readers::Owner, Readers::Group);
        self
    }

    /// Adds what the manifest says about the filter that the kernel applies.
    pub(super) fn with_filter(mut self, filter: Option<FilterEntry>) -> Self {
        self.filter = filter;
        self
    }

    /// Adds the threads alive now: for names of threads that events do not name. Inside a pid namespace there may be
    /// none (the manifest then has a note): its ids are not those of the events.
    pub(super) fn gather_threads(&mut self) {
        let now = threads::all();
        // A flight recorder runs for months: threads that were gone before the last time are of no snapshot.
        self.threads.retain(|tid, _| self.alive.contains(tid));
        self.alive = now.iter().map(|facts| facts.tid).collect();
        if let Some(filter) = &mut self.filter {
            note_moved(filter, self.kernel.moved());
        }
        self.settings.add(&now);
        self.threads.extend(now.into_iter().map(|facts| (facts.tid, facts)));
        let threads = &self.threads;
        self.settings.retain_threads(|tid| threads.contains_key(&tid));
    }

    /// When a thread was created, at the latest, if it is alive.
    fn born(&self, facts: &ThreadFacts) -> Option<u64> {
        let age = self.alive.contains(&facts.tid).then(|| threads::age(facts))??;
        self.kernel.stamp_before(self.kernel.stamp_now()?, age)
    }

    /// Makes the recording's directory with everything known at the start.
    pub(super) fn begin(&mut self, dir: &Path) -> anyhow::Result<HostRecording> {
        let (manifest, host) = self.manifest();
        let writer = Arc::new(RecordingWriter::create_for(dir, manifest, self.readers)?);
        let clock = self.kernel.clock().to_owned();
        // First: a recording without it cannot be read.
        writer.evidence(&Evidence::Reference { machine: host, clock: clock.clone() })?;
        self.kernel.begin(&writer, host)?;
        let begin = |plan: XenPlan| plan.begin(&writer, FIRST, host, &clock);
        let xen = self.xen.take().map(begin).transpose()?;
        let vms = Arc::new(Vms::start(writer.clone(), host, &clock, xen.is_none())?);
        let domains = xen.as_ref().map(XenRecording::domains);
        Ok(HostRecording { writer, vms, host, domains, xen })
    }

    /// Has readings of the wall clock written as they are taken. A snapshot gets those of its time at
    /// its end.
    pub(super) fn write_wall_readings(&self, recording: &HostRecording) {
        self.wall.write_to(&recording.writer, recording.host);
    }

    /// The wall clock at both ends of a snapshot's window, ns since 1970 (UTC); none where unknown.
    pub(super) fn unix_window(&self, entry: &SnapshotEntry) -> (Option<i64>, Option<i64>) {
        let Some(window) = entry.from.zip(entry.to) else { return (None, None) };
        let [from, until] = self.wall.unix_ns(self.kernel.clock(), window.into());
        (from, until)
    }

    /// The manifest as it is at the start, and which of its machines is the host.
    fn manifest(&self) -> (Manifest, MachineId) {
        let mut manifest = Manifest::new(unix_now_ns(), self.command_line.clone());
        manifest.notes.extend_from_slice(self.kernel.notes());
        manifest.notes.extend(Namespaces::current().note().map(str::to_owned));
        manifest.events = self.kernel.events();
        manifest.filter.clone_from(&self.filter);
        manifest.online = cpus::online().unwrap_or_default();
        manifest.recorder_start_ticks = ProcessKey::current().map(|own| own.start_ticks);
        let below = self.xen.as_ref().map(|xen| {
            manifest.notes.extend_from_slice(xen.notes());
            manifest.events.extend(xen.events());
            manifest.add_machine(xen.machine())
        });
        let uname = rustix::system::uname();
        let name = uname.nodename().to_string_lossy().into_owned();
        let host = manifest.add_machine(MachineEntry {
            id: FIRST,
            parent: below,
            // Under Xen, the kernel that manages the others is a guest as they are.
            kind: if below.is_some() { MachineKind::Guest } else { MachineKind::Host },
            name: if below.is_some() { "dom0".to_owned() } else { name },
            vmm_pid: None,
            cgroup: None,
            domid: below.map(|_| 0),
            uname: Some(uname_text()),
            cpu_count: cpus::online().ok().and_then(|cpus| u32::try_from(cpus.len()).ok()),
            clock: Some(self.kernel.clock().to_owned()),
            vcpus: Vec::new(),
        });
        // A killed recorder leaves these; at the end they are brought up to date.
        self.describe_threads(&mut manifest, host);
        manifest.notes.extend(self.settings.note());
        (manifest, host)
    }

    fn thread_entries(&self, host: MachineId) -> Vec<ThreadEntry> {
        let entry = |facts| {
            let entry = thread_entry(host, facts);
            match self.settings.of_thread(facts) {
                Some(settings) => entry.with_settings(settings),
                None => entry,
            }
        };
        self.threads.values().map(entry).collect()
    }

    /// Replaces what a manifest has about the host's threads and about what its scheduler and interrupts are set to.
    fn describe_threads(&self, manifest: &mut Manifest, host: MachineId) {
        manifest.threads.retain(|thread| thread.machine_id != host);
        manifest.threads.extend(self.thread_entries(host));
        self.describe_settings(manifest, host);
    }

    fn describe_settings(&self, manifest: &mut Manifest, host: MachineId) {
        manifest.irq_lines.retain(|line| line.machine_id != host);
        manifest.irq_lines.extend(self.settings.irq_line_entries(host));
        manifest.cgroups.retain(|group| group.machine_id != host);
        manifest.cgroups.extend(self.settings.cgroup_entries(host));
    }

    /// Completes what the manifest of a snapshot says about it and about the threads at its start.
    pub(super) fn describe_snapshot(
        &mut self,
        recording: &HostRecording,
        reason: &str,
        window: SnapshotWindow,
    ) -> Result<SnapshotEntry, StoreError> {
        self.settings.renew();
        self.gather_threads();
        let to = self.kernel.froze_at();
        let holds_from = self.kernel.holds_from();
        let asked = match window {
            SnapshotWindow::Last(last) => Some(last),
            SnapshotWindow::Covered | SnapshotWindow::All => None,
        };
        let from = match window {
            SnapshotWindow::Covered => None,
            SnapshotWindow::All => holds_from,
            // Before it was started, there was nothing to hold.
            SnapshotWindow::Last(last) => {
                let end = to.or_else(|| self.kernel.stamp_now());
                end.and_then(|end| self.kernel.stamp_before(end, last)).max(holds_from)
            }
        };
        let entry = SnapshotEntry {
            reason: reason.to_owned(),
            from: from.filter(|from| to.is_none_or(|to| *from < to)),
            to,
            asked_ns: asked.map(nanos),
        };
        let mut threads = self.thread_entries(recording.host);
        for (entry, facts) in threads.iter_mut().zip(self.threads.values()) {
            entry.born = self.born(facts);
        }
        recording.writer.update(|manifest| {
            manifest.snapshot = Some(entry.clone());
            manifest.threads.retain(|thread| thread.machine_id != recording.host);
            manifest.threads.extend(threads);
            self.describe_settings(manifest, recording.host);
        })?;
        Ok(entry)
    }

    /// Takes what is known only at the end, assembles the files and closes the recording.
    pub(super) fn finish(
        &mut self,
        recording: HostRecording,
        result: HostResult,
        gives_up: &dyn Fn() -> bool,
    ) -> anyhow::Result<Finished> {
        let HostRecording { writer, vms, host, xen, .. } = recording;
        writer.check_place()?;
        writer.make_room();
        let snapshot = writer.manifest().snapshot.clone();
        let is_snapshot = snapshot.is_some();
        if !is_snapshot {
            self.gather_threads();
        }
        let mut problems = Vec::new();
        let from = snapshot.and_then(|snapshot| snapshot.from);
        problems.extend(self.wall.complete(&writer, host, from).err());
        problems.extend(vms.look_now().err());
        problems.extend(self.kernel.end_source(&writer));
        let change = |manifest: &mut Manifest| {
            let cause = cause_of(&result.ended_by);
            manifest.not_kept.extend(not_kept(host, &result.totals, cause));
            manifest.ended_by = Some(result.ended_by);
            manifest.recorded = result.recorded;
            manifest.lost.extend(lost_counts(host, &result.totals));
            manifest.filter.clone_from(&self.filter);
            if !is_snapshot {
                self.describe_threads(manifest, host);
            }
            let own = CpuTime::of_this_process();
            manifest.cost = Some(Cost {
                wall_ns: nanos(result.traced),
                cpu_user_ns: own.user_ns + result.helpers_cpu.user_ns,
                cpu_sys_ns: own.sys_ns + result.helpers_cpu.sys_ns,
                traced_cpu_ns: result.traced_cpu_ns,
                events: result.totals.events + result.other_events,
                lost: manifest.lost.iter().map(|lost| lost.count).sum(),
                bytes: 0,
            });
        };
        problems.extend(writer.update(change).err());
        if let Some(xen) = xen {
            let notes = xen.end();
            problems.extend(writer.update(|manifest| manifest.notes.extend(notes)).err());
        }
        let mut finished = writer.finish_unless(gives_up)?;
        finished.problems.splice(0..0, problems);
        Ok(finished)
    }
}

/// A recording that is under way.
pub(super) struct HostRecording {
    pub(super) writer: Arc<RecordingWriter>,
    pub(super) vms: Arc<Vms>,
    /// The machine whose kernel this is.
    pub(super) host: MachineId,
    /// The domains beside it, under Xen.
    pub(super) domains: Option<Arc<XenDomains>>,
    /// The hypervisor below it.
    pub(super) xen: Option<XenRecording>,
}

/// What came of recording.
pub(super) struct HostResult {
    pub(super) ended_by: String,
    pub(super) totals: KernelTotals,
    /// For how long tracing was on.
    pub(super) traced: Duration,
    /// Transect's own CPU time while it was, ns, and that of its helpers.
    pub(super) traced_cpu_ns: u64,
    /// Events of all guests and of the hypervisor.
    pub(super) other_events: u64,
    /// CPU time of the processes that were started to record.
    pub(super) helpers_cpu: CpuNs,
    /// From when to when the host's kernel was recorded, raw on its clock; none for snapshots.
    pub(super) recorded: Option<(u64, u64)>,
}

fn lost_counts(
    machine_id: MachineId,
    totals: &KernelTotals,
) -> impl Iterator<Item = LostCount> + '_ {
    let count =
        move |(cpu, count): &(CpuId, u64)| LostCount { machine_id, cpu: *cpu, count: *count };
    totals.lost.iter().map(count)
}

fn not_kept<'a>(
    machine_id: MachineId,
    totals: &'a KernelTotals,
    cause: &'a str,
) -> impl Iterator<Item = NotKept> + 'a {
    let entry = move |(cpu, count): &(CpuId, Option<u64>)| NotKept {
        machine_id,
        cpu: *cpu,
        count: *count,
        cause: cause.to_owned(),
    };
    totals.not_kept.iter().map(entry)
}

fn thread_entry(machine_id: MachineId, facts: &ThreadFacts) -> ThreadEntry {
    ThreadEntry {
        machine_id,
        tid: Tid(facts.tid),
        pid: Tid(facts.pid),
        comm: facts.comm.clone(),
        cgroup: facts.cgroup.clone(),
        born: None,
        allowed_cpus: None,
        policy: None,
        nice: None,
        rt_priority: None,
    }
}

/// Adds the threads that were moved to another control group, which matters to a filter by group.
fn note_moved(filter: &mut FilterEntry, moved: Option<Vec<Tid>>) {
    if filter.cgroup.is_none() {
        return;
    }
    match moved {
        Some(moved) => filter.moved = moved,
        None => filter.uncertain = true,
    }
}

fn unix_now_ns() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    nanos(since)
}

/// Whole nanoseconds; 584 years fit.
fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}
