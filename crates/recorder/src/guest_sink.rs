//! Where one guest's session puts what it receives: spools, clock evidence, gaps.

use super::{
    compact_file::{COMPACT_CLOCK, CompactEntry, CompactFile},
    ending::{DISK_FULL, NOT_WRITTEN},
    evidence::reading_evidence,
    host::HostRecording,
    vms::Vms,
    xen::XenDomains,
};
use std::{
    collections::{HashMap, HashSet},
    io,
    sync::{Arc, Mutex, PoisonError},
};
use transect_clock::evidence::Evidence;
use transect_compact::{FileHeader, LogId, LogTotals, Names, Slice, StackNotes, Totals};
use transect_guest::{
    describe,
    exchange::Bracket,
    proto::{CompactRun, CpuStats, MachineFacts, Words, is_settings},
    serve::MetaFile,
    session::{Beginning, Gap, GuestSink, SinkError},
    settings::{GuestSettings, Task},
    stamp::{StampClock, TscReading},
    transport::GuestSpec,
};
use transect_model::{
    event::Comm,
    exit::Isa,
    ids::{CpuId, MachineId, MachineKind, Tid},
    setting::{CgroupSettings, MAX_CGROUPS},
    untrusted::Untrusted,
};
use transect_store::{
    Manifest, RecordingWriter, SourceSpool, StoreError,
    manifest::{
        self, CgroupEntry, IrqLineEntry, LostCount, MachineEntry, NotKept, SourceEntry,
        SourceFormat, ThreadEntry,
    },
    stem_from_name,
};

/// Threads of one guest that the manifest names, over all of its boots.
const MAX_THREADS: usize = 1 << 16;
/// Bytes of the control groups' paths that the manifest repeats with one guest's threads.
const MAX_THREAD_PATHS_BYTES: usize = 8 << 20;

/// The sink of one session.
pub(super) struct GuestSpool {
    writer: Arc<RecordingWriter>,
    vms: Arc<Vms>,
    /// The machine of the recorder.
    host: MachineId,
    /// Under Xen, guests are domains.
    domains: Option<Arc<XenDomains>>,
    spec: GuestSpec,
    host_clock: StampClock,
    notes: Arc<Mutex<Vec<String>>>,
    /// Where a full disk is reported.
    failure: Arc<Mutex<Option<anyhow::Error>>>,
    /// Since the guest spoke first.
    machine: Option<MachineId>,
    place: Option<Place>,
    /// Sources begun: every boot of the guest is one, and every link to a compact guest.
    sources: u32,
}

/// Where a source's events go.
enum Place {
    /// Pages of the full collector.
    Spool(SourceSpool),
    /// Slices of the compact one's logs.
    Compact(CompactFile),
}

impl GuestSpool {
    pub(super) fn new(
        recording: &HostRecording,
        spec: GuestSpec,
        host_clock: StampClock,
        notes: Arc<Mutex<Vec<String>>>,
    ) -> Self {
        GuestSpool {
            writer: recording.writer.clone(),
            vms: recording.vms.clone(),
            host: recording.host,
            domains: recording.domains.clone(),
            spec,
            host_clock,
            notes,
            failure: Arc::default(),
            machine: None,
            place: None,
            sources: 0,
        }
    }

    /// The same, with a place for failures that end the recording.
    pub(super) fn reporting_to(self, failure: Arc<Mutex<Option<anyhow::Error>>>) -> Self {
        GuestSpool { failure, ..self }
    }

    /// Notes that events of the guest could not be stored: the session ends with the first such error, and behind the
    /// last event kept of each CPU nothing is known.
    fn stored<T>(&self, result: Result<T, SinkError>) -> Result<T, SinkError> {
        let Err(error) = &result else { return result };
        let storage = error.downcast_ref::<StoreError>();
        let is_full = matches!(storage, Some(StoreError::NoSpace { .. }));
        let cause = if is_full { DISK_FULL } else { NOT_WRITTEN };
        if let Some(machine_id) = self.machine {
            let index = usize::try_from(machine_id.0).ok();
            // The change stays in memory if there is no room for the manifest either.
            let _ = self.writer.update(|manifest| {
                let entry = index.and_then(|index| manifest.machines.get(index));
                let cpus = 0..entry.and_then(|entry| entry.cpu_count).unwrap_or(0);
                let cause = || cause.to_owned();
                let entries = cpus.map(|cpu| NotKept {
                    machine_id,
                    cpu: CpuId(cpu),
                    count: None,
                    cause: cause(),
                });
                manifest.not_kept.extend(entries);
            });
        }
        // What a guest can cause by what it sends ends its own recording only.
        if matches!(storage, Some(StoreError::NoSpace { .. } | StoreError::Io { .. })) {
            let name = self.label();
            let failure = anyhow::Error::new(as_io_of(error, is_full));
            let failure = failure.context(format!("guest {name}: cannot store its events"));
            self.failure.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(failure);
        }
        result
    }

    /// Puts what the guest says about itself into the manifest.
    fn introduce(&mut self, facts: &MachineFacts, clock: &str) -> Result<MachineId, SinkError> {
        let name = self.spec.name.clone();
        let domain = match (&self.domains, self.machine) {
            (Some(domains), None) => domains.machine_of(&self.spec, facts)?,
            _ => None,
        };
        let known = self.machine.or(domain);
        let known = known.or_else(|| self.vms.machine_of(&self.spec, facts));
        // A guest can claim the UUID of another VM: the first one to come has it.
        let known = known.filter(|id| self.machine == Some(*id) || self.vms.claim(*id));
        let (uname, cpus) = (uname_text(facts), facts.cpu_count);
        let id = self.writer.update(|manifest| {
            let id = known.unwrap_or_else(|| {
                let name = name.clone();
                let name =
                    name.unwrap_or_else(|| free_name(manifest, facts.nodename.raw_for_storage()));
                manifest.add_machine(entry(name, self.host))
            });
            let index = usize::try_from(id.0).ok();
            if let Some(entry) = index.and_then(|index| manifest.machines.get_mut(index)) {
                // What the user calls it is what the user wants to read.
                entry.name = name.unwrap_or_else(|| entry.name.clone());
                entry.uname = Some(uname);
                entry.cpu_count = Some(cpus);
                entry.clock = Some(clock.to_owned());
            }
            id
        })?;
        self.vms.claim(id);
        self.machine = Some(id);
        Ok(id)
    }

    fn machine(&self) -> Result<MachineId, SinkError> {
        self.machine.ok_or_else(|| {
            "protocol error: pages received before the description of the guest".into()
        })
    }

    fn spool(&self) -> Result<&SourceSpool, SinkError> {
        match &self.place {
            Some(Place::Spool(spool)) => Ok(spool),
            _ => Err("protocol error: pages received before their source".into()),
        }
    }

    fn begin_source(&mut self, beginning: &Beginning<'_>) -> Result<(), SinkError> {
        let Beginning { facts, started, .. } = beginning;
        let machine = self.introduce(facts, started.clock.raw_for_storage())?;
        self.learn_settings(machine, beginning.meta)?;
        if self.sources > 0 && !beginning.same_boot {
            let at_host = self.host_clock.now().unwrap_or(0);
            self.writer.evidence(&Evidence::ClockRestart { machine, at_host })?;
        }
        self.sources += 1;
        let clock = started.clock.raw_for_storage().to_owned();
        self.writer.evidence(&Evidence::SourceClock { machine, clock })?;
        if !started.why_full.is_empty() {
            self.note(&format!("full collector in this guest: {}", started.why_full.terminal()));
        }
        let trace_id = u64::from(machine.0) << 32 ^ u64::from(self.sources);
        self.place = Some(match &started.compact {
            Some(run) => Place::Compact(self.begin_compact(beginning, run, machine, trace_id)?),
            None => Place::Spool(self.begin_full(beginning, machine, trace_id)?),
        });
        Ok(())
    }

    fn begin_full(
        &self,
        beginning: &Beginning<'_>,
        machine: MachineId,
        trace_id: u64,
    ) -> Result<SourceSpool, SinkError> {
        let Beginning { facts, started, .. } = beginning;
        let arch = facts.arch.raw_for_storage();
        let manifest = self.writer.manifest();
        Ok(self.writer.add_source(SourceEntry {
            machine_id: machine,
            file: self.file_name(&manifest, machine, "dat"),
            format: SourceFormat::TraceDat,
            spooled: true,
            clock: started.clock.raw_for_storage().to_owned(),
            tsc_to_ns: {
                let mut sources = manifest.sources.iter();
                let host = sources.find(|source| source.machine_id == self.host);
                host.and_then(|host| host.tsc_to_ns)
            },
            sub_buffer_bytes: started.page_bytes,
            cpu_count: facts.cpu_count,
            long_bytes: if arch.contains("64") || arch == "s390x" { 8 } else { 4 },
            big_endian: matches!(arch, "s390x" | "ppc64" | "ppc"),
            trace_id: manifest.created_unix_ns ^ trace_id,
            uname: uname_text(facts),
        })?)
    }

    fn begin_compact(
        &self,
        beginning: &Beginning<'_>,
        run: &CompactRun,
        machine: MachineId,
        trace_id: u64,
    ) -> Result<CompactFile, SinkError> {
        let facts = beginning.facts;
        if beginning.started.clock != COMPACT_CLOCK {
            let clock = beginning.started.clock.terminal();
            return Err(
                format!("compact records use the clock {clock}, not {COMPACT_CLOCK}").into()
            );
        }
        let manifest = self.writer.manifest();
        let mut header =
            FileHeader::new(facts.cpu_count, isa(run.isa.raw_for_storage()), uname_text(facts));
        header.events.clone_from(&run.events);
        let entry = CompactEntry {
            machine,
            file: self.file_name(&manifest, machine, "compact"),
            cpu_count: facts.cpu_count,
            trace_id: manifest.created_unix_ns ^ trace_id,
            uname: uname_text(facts),
        };
        let described = describe::Names::from_meta(beginning.meta);
        self.learn_threads(machine, &described)?;
        Ok(CompactFile::begin(&self.writer, entry, &header, &names(&described))?)
    }

    /// Puts a guest's threads into the manifest, where those of full guests come from their files.
    fn learn_threads(
        &self,
        machine_id: MachineId,
        names: &describe::Names,
    ) -> Result<(), SinkError> {
        let entry = |thread: &describe::Thread| {
            thread_entry(machine_id, Tid(thread.tid), Tid(thread.pid), thread.name.clone())
        };
        if names.left_out > 0 {
            self.push_note(format!(
                "guest {}: the names of {} threads and devices are not kept, because the guest has too many",
                self.label(),
                names.left_out
            ));
        }
        Ok(self.writer.update(|manifest| {
            add_threads(manifest, machine_id, names.threads.iter().map(entry));
        })?)
    }

    /// Puts what a guest's scheduler and interrupts are set to into the manifest. What is there stays: it was seen first.
    fn learn_settings(&self, machine_id: MachineId, meta: &[MetaFile]) -> Result<(), SinkError> {
        let settings = GuestSettings::from_meta(meta);
        if settings == GuestSettings::default() {
            return Ok(());
        }
        Ok(self.writer.update(|manifest| add_settings(manifest, machine_id, &settings))?)
    }

    /// `guest-web1.dat`, and `guest-web1.2.dat` for its second boot.
    fn file_name(&self, manifest: &Manifest, machine: MachineId, suffix: &str) -> String {
        let index = usize::try_from(machine.0).ok();
        let entry = index.and_then(|index| manifest.machines.get(index));
        let stem = stem_from_name("guest-", entry.map_or("", |entry| &entry.name));
        let taken = |file: &String| manifest.sources.iter().any(|source| source.file == *file);
        let first = format!("{stem}.{suffix}");
        // From the number of its own sources on: each name before is taken.
        let more = (self.sources.max(2)..).map(|number| format!("{stem}.{number}.{suffix}"));
        let first = Some(first).filter(|_| self.sources < 2);
        first.into_iter().chain(more).find(|file| !taken(file)).unwrap_or_default()
    }

    /// The guest's name in messages.
    fn label(&self) -> String {
        self.spec.name.clone().unwrap_or_else(|| self.spec.endpoint.to_string())
    }

    fn push_note(&self, text: String) {
        self.notes.lock().unwrap_or_else(PoisonError::into_inner).push(text);
    }
}

impl GuestSink for GuestSpool {
    fn begin(&mut self, beginning: &Beginning<'_>) -> Result<(), SinkError> {
        if !beginning.continues || self.place.is_none() {
            self.begin_source(beginning)?;
        } else {
            self.learn_settings(self.machine()?, beginning.meta)?;
        }
        match &self.place {
            Some(Place::Spool(spool)) => keep_meta(spool, beginning.meta),
            _ => Ok(()),
        }
    }

    fn pages(&mut self, cpu: u32, pages: &[u8]) -> Result<(), SinkError> {
        let kept = self.spool().and_then(|spool| Ok(spool.append(CpuId(cpu), pages)?));
        self.stored(kept)
    }

    fn words(&mut self, slice: &Words<'_>) -> Result<u64, SinkError> {
        let Some(Place::Compact(file)) = &self.place else {
            return Err("protocol error: compact records received before their source".into());
        };
        let kept = file.slice(&Slice {
            log: LogId { cpu: CpuId(slice.cpu), side: slice.side },
            position: slice.position,
            sync_ns: slice.sync_ns,
            lost: slice.lost,
            words: slice.words,
        });
        self.stored(kept.map(|(events, _)| events).map_err(SinkError::from))
    }

    fn reading(&mut self, reading: &TscReading) -> Result<(), SinkError> {
        let kept = self.writer.evidence(&reading_evidence(self.machine()?, reading));
        self.stored(kept.map_err(SinkError::from))
    }

    fn bracket(&mut self, bracket: &Bracket) -> Result<(), SinkError> {
        let kept = self.writer.evidence(&Evidence::Exchange {
            machine: self.machine()?,
            parent: self.host,
            host_send: bracket.host_send,
            guest: bracket.guest,
            host_recv: bracket.host_recv,
        });
        self.stored(kept.map_err(SinkError::from))
    }

    fn gap(&mut self, gap: &Gap) -> Result<(), SinkError> {
        Ok(self.writer.gap(manifest::Gap {
            machine_id: self.machine()?,
            from: Some(gap.from),
            to: gap.to,
            cause: gap.cause.as_str().to_owned(),
        })?)
    }

    fn end(&mut self, meta: &[MetaFile], cpus: &[CpuStats]) -> Result<(), SinkError> {
        if self.place.is_some() {
            self.learn_settings(self.machine()?, meta)?;
        }
        match &self.place {
            Some(Place::Spool(spool)) => keep_meta(spool, meta)?,
            Some(Place::Compact(file)) => {
                let described = describe::Names::from_meta(meta);
                self.learn_threads(self.machine()?, &described)?;
                // Without totals the guest was lost: the file is left without an end, which says so.
                if let Some(logs) = describe::logs_from_meta(meta) {
                    let mut stacks = StackNotes::default();
                    describe::stacks_from_meta(meta).for_each(|note| stacks.read(&note));
                    let stacks = stacks.into_stacks();
                    file.end(&names(&described), &stacks, &totals(&logs))?;
                }
            }
            None => {}
        }
        let machine_id = self.machine()?;
        let lost = |cpu: &CpuStats| LostCount {
            machine_id,
            cpu: CpuId(cpu.cpu),
            count: cpu.overrun.saturating_add(cpu.dropped),
        };
        let lost = cpus.iter().map(lost).filter(|lost| lost.count > 0);
        Ok(self.writer.update(|manifest| {
            // One entry per CPU, over all connections: a guest cannot make the list longer by connecting again.
            let own = manifest.lost.iter().enumerate().filter(|(_, l)| l.machine_id == machine_id);
            let known: HashMap<CpuId, usize> = own.map(|(at, lost)| (lost.cpu, at)).collect();
            for lost in lost {
                match known.get(&lost.cpu).and_then(|at| manifest.lost.get_mut(*at)) {
                    Some(entry) => entry.count = entry.count.saturating_add(lost.count),
                    None => manifest.lost.push(lost),
                }
            }
        })?)
    }

    fn note(&mut self, text: &str) {
        self.push_note(text.to_owned());
    }
}

/// Stores the descriptive files of a trace.
fn keep_meta(spool: &SourceSpool, meta: &[MetaFile]) -> Result<(), SinkError> {
    for (name, bytes) in meta.iter().filter(|(name, _)| !is_settings(name)) {
        spool.meta(name, bytes)?;
    }
    Ok(())
}

/// Adds the threads of a guest that the manifest does not have, up to the bound.
fn add_threads(
    manifest: &mut Manifest,
    machine_id: MachineId,
    threads: impl Iterator<Item = ThreadEntry>,
) {
    let of_guest = manifest.threads.iter().filter(|known| known.machine_id == machine_id);
    let mut known: HashSet<Tid> = of_guest.map(|known| known.tid).collect();
    let room = MAX_THREADS.saturating_sub(known.len());
    manifest.threads.extend(threads.filter(|thread| known.insert(thread.tid)).take(room));
}

/// Adds what a guest's scheduler and interrupts are set to.
fn add_settings(manifest: &mut Manifest, machine_id: MachineId, settings: &GuestSettings) {
    if manifest.irq_lines.iter().all(|line| line.machine_id != machine_id) {
        manifest.irq_lines.extend(settings.irq_lines.iter().map(|(irq, name)| {
            let name = name.raw_for_storage().to_owned();
            IrqLineEntry { machine_id, irq: *irq, name }
        }));
    }
    add_cgroups(manifest, machine_id, settings.cgroups.iter().flatten());
    // A guest sends a group's path once, and its number with each thread.
    let of_guest = manifest.threads.iter().filter(|known| known.machine_id == machine_id);
    let known = of_guest.filter_map(|known| known.cgroup.as_ref()).map(String::len).sum();
    let mut room = MAX_THREAD_PATHS_BYTES.saturating_sub(known);
    let mut path_of = |task: &Task| {
        let (path, _) = settings.cgroups.get(task.cgroup?)?.as_ref()?;
        let path = path.raw_for_storage();
        room = room.checked_sub(path.len())?;
        Some(path.to_owned())
    };
    let thread = |task: &Task| {
        let name = task.name.raw_for_storage().to_owned();
        let entry = thread_entry(machine_id, Tid(task.tid), Tid(task.pid), name);
        ThreadEntry { cgroup: path_of(task), ..entry }.with_settings(&task.settings)
    };
    add_threads(manifest, machine_id, settings.tasks.iter().map(thread));
}

/// Adds the control groups of a guest that the manifest does not have, up to the bound.
fn add_cgroups<'g>(
    manifest: &mut Manifest,
    machine_id: MachineId,
    groups: impl Iterator<Item = &'g (Untrusted<String>, CgroupSettings)>,
) {
    let of_guest = manifest.cgroups.iter().filter(|known| known.machine_id == machine_id);
    let mut known: HashSet<String> = of_guest.map(|known| known.cgroup.clone()).collect();
    let room = MAX_CGROUPS.saturating_sub(known.len());
    let entry = |(path, settings): &(Untrusted<String>, CgroupSettings)| CgroupEntry {
        machine_id,
        cgroup: path.raw_for_storage().to_owned(),
        settings: settings.clone(),
    };
    let new = groups.map(entry).filter(|group| known.insert(group.cgroup.clone()));
    manifest.cgroups.extend(new.take(room));
}

/// A thread of which nothing else is known.
fn thread_entry(machine_id: MachineId, tid: Tid, pid: Tid, comm: String) -> ThreadEntry {
    ThreadEntry {
        machine_id,
        tid,
        pid,
        comm,
        cgroup: None,
        born: None,
        allowed_cpus: None,
        policy: None,
        nice: None,
        rt_priority: None,
    }
}

/// The error again, for the recorder: the session keeps the first.
fn as_io_of(error: &SinkError, is_full: bool) -> io::Error {
    let kind = if is_full { io::ErrorKind::StorageFull } else { io::ErrorKind::Other };
    io::Error::new(kind, error.to_string())
}

fn names(described: &describe::Names) -> Names {
    let mut names = Names::default();
    for thread in &described.threads {
        names.thread(Tid(thread.tid), Comm::new(thread.name.as_bytes()));
    }
    for (index, name) in &described.devices {
        if let Ok(index) = u16::try_from(*index) {
            names.device(index, Comm::new(name.as_bytes()));
        }
    }
    names
}

fn totals(logs: &[describe::LogTotals]) -> Totals {
    let log = |log: &describe::LogTotals| LogTotals {
        cpu: log.cpu,
        side: log.side,
        bytes: log.bytes,
        lost: log.lost,
        lost_first_ns: log.lost_first_ns,
        lost_last_ns: log.lost_last_ns,
        saturated: log.saturated,
        ..LogTotals::default()
    };
    Totals { logs: logs.iter().map(log).collect(), ..Totals::default() }
}

/// Who numbers the exits of a guest's own guests.
fn isa(word: &str) -> Isa {
    match word {
        "svm" => Isa::Svm,
        "arm64" => Isa::Arm64,
        _ => Isa::Vmx,
    }
}

fn entry(name: String, host: MachineId) -> MachineEntry {
    MachineEntry {
        id: MachineId(0),
        parent: Some(host),
        kind: MachineKind::Guest,
        name,
        vmm_pid: None,
        cgroup: None,
        domid: None,
        uname: None,
        cpu_count: None,
        clock: None,
        vcpus: Vec::new(),
    }
}

/// The guest's own name, unless another machine has it: guests of one image share theirs.
fn free_name(manifest: &Manifest, wanted: &str) -> String {
    let wanted = if wanted.is_empty() { "guest" } else { wanted };
    let taken = |name: &String| manifest.machines.iter().any(|machine| machine.name == *name);
    let more = (2u32..).map(|number| format!("{wanted}-{number}"));
    std::iter::once(wanted.to_owned()).chain(more).find(|name| !taken(name)).unwrap_or_default()
}

fn uname_text(facts: &MachineFacts) -> String {
    let [name, release, arch] =
        [&facts.nodename, &facts.release, &facts.arch].map(Untrusted::raw_for_storage);
    format!("Linux {name} {release} {arch}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use transect_model::setting::ThreadSettings;

    const GUEST: MachineId = MachineId(1);

    fn thread(machine_id: MachineId, tid: i32, comm: &str) -> ThreadEntry {
        thread_entry(machine_id, Tid(tid), Tid(tid), comm.to_owned())
    }

    /// What is seen first stays, and no number of connections makes a guest's part larger than its bound.
    #[test]
    fn threads_and_groups_of_a_guest_are_added_up_to_their_bounds() {
        let mut manifest = Manifest::default();
        manifest.threads.push(thread(MachineId(0), 2, "host's"));
        let count = i32::try_from(MAX_THREADS).unwrap();
        add_threads(&mut manifest, GUEST, (1..4).map(|tid| thread(GUEST, tid, "first")));
        add_threads(&mut manifest, GUEST, (1..count + 9).map(|tid| thread(GUEST, tid, "later")));
        assert_eq!(manifest.threads.len(), 1 + MAX_THREADS);
        let named = |comm: &str| manifest.threads.iter().filter(|t| t.comm == comm).count();
        assert_eq!((named("host's"), named("first")), (1, 3));

        let group = |number: usize, cpu_weight| {
            let settings = CgroupSettings { cpu_weight, ..CgroupSettings::default() };
            (Untrusted::new(format!("/{number}")), settings)
        };
        add_cgroups(&mut manifest, GUEST, [group(0, Some(1))].iter());
        let more: Vec<_> = (0..MAX_CGROUPS + 9).map(|number| group(number, Some(2))).collect();
        add_cgroups(&mut manifest, GUEST, more.iter());
        assert_eq!(manifest.cgroups.len(), MAX_CGROUPS);
        assert_eq!(manifest.cgroups[0].settings.cpu_weight, Some(1));
        assert!(manifest.cgroups[1..].iter().all(|group| group.settings.cpu_weight == Some(2)));
    }

    /// A long path is sent once, and would be stored with each of many threads.
    #[test]
    fn paths_of_a_guests_threads_have_a_bound() {
        let path = format!("/{}", "x".repeat(4000));
        let mut settings = GuestSettings {
            cgroups: vec![Some((Untrusted::new(path), CgroupSettings::default()))],
            ..GuestSettings::default()
        };
        let task = |tid| Task {
            tid,
            pid: tid,
            name: Untrusted::new("x".to_owned()),
            settings: ThreadSettings::default(),
            cgroup: Some(0),
        };
        let mut manifest = Manifest::default();
        for from in [1, 10_001] {
            settings.tasks = (from..from + 10_000).map(task).collect();
            add_settings(&mut manifest, GUEST, &settings);
        }
        assert_eq!(manifest.threads.len(), 20_000);
        let bytes: usize =
            manifest.threads.iter().filter_map(|t| t.cgroup.as_ref()).map(String::len).sum();
        assert!(
            (MAX_THREAD_PATHS_BYTES - 4001..=MAX_THREAD_PATHS_BYTES).contains(&bytes),
            "{bytes}"
        );
    }
}
