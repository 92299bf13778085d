//! Where one guest's session puts what it receives: spools, clock evidence, gaps.

use super::{
    host::{HOST, HostRecording},
    vms::Vms,
};
use std::sync::{Arc, Mutex, PoisonError};
use transect_clock::evidence::Evidence;
use transect_guest::{
    exchange::Bracket,
    proto::{CpuStats, MachineFacts},
    serve::MetaFile,
    session::{Beginning, Gap, GuestSink, SinkError},
    stamp::StampClock,
    transport::GuestSpec,
};
use transect_model::ids::{CpuId, MachineId, MachineKind};
use transect_store::{
    Manifest, RecordingWriter, SourceSpool,
    manifest::{self, LostCount, MachineEntry, SourceEntry, SourceFormat},
    stem_from_name,
};

/// The sink of one session.
pub(super) struct GuestSpool {
    writer: Arc<RecordingWriter>,
    vms: Arc<Vms>,
    spec: GuestSpec,
    host_clock: StampClock,
    notes: Arc<Mutex<Vec<String>>>,
    /// Since the guest spoke first.
    machine: Option<MachineId>,
    spool: Option<SourceSpool>,
    /// Sources begun: every boot of the guest is one.
    boots: u32,
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
            spec,
            host_clock,
            notes,
            machine: None,
            spool: None,
            boots: 0,
        }
    }

    /// Puts what the guest says about itself into the manifest.
    fn introduce(&mut self, facts: &MachineFacts, clock: &str) -> Result<MachineId, SinkError> {
        let name = self.spec.name.clone();
        let known = self.machine.or_else(|| self.vms.machine_of(&self.spec, facts));
        let (uname, cpus) = (uname_text(facts), facts.cpu_count);
        let id = self.writer.update(|manifest| {
            let id = known.unwrap_or_else(|| {
                let name = name.clone();
                let name = name.unwrap_or_else(|| free_name(manifest, &facts.nodename));
                manifest.add_machine(entry(name))
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
        self.machine = Some(id);
        Ok(id)
    }

    fn machine(&self) -> Result<MachineId, SinkError> {
        self.machine.ok_or_else(|| "pages before the guest introduced itself".into())
    }

    fn spool(&self) -> Result<&SourceSpool, SinkError> {
        self.spool.as_ref().ok_or_else(|| "pages before their source was begun".into())
    }

    fn begin_source(&mut self, beginning: &Beginning<'_>) -> Result<(), SinkError> {
        let Beginning { facts, started, .. } = beginning;
        let machine = self.introduce(facts, &started.clock)?;
        if self.boots > 0 {
            let at_host = self.host_clock.now().unwrap_or(0);
            self.writer.evidence(&Evidence::ClockRestart { machine, at_host })?;
        }
        self.boots += 1;
        let clock = started.clock.clone();
        self.writer.evidence(&Evidence::SourceClock { machine, clock })?;
        let manifest = self.writer.manifest();
        let spool = self.writer.add_source(SourceEntry {
            machine_id: machine,
            file: self.file_name(&manifest, machine),
            format: SourceFormat::TraceDat,
            spooled: true,
            clock: started.clock.clone(),
            tsc_to_ns: manifest.sources.first().and_then(|host| host.tsc_to_ns),
            sub_buffer_bytes: started.page_bytes,
            cpu_count: facts.cpu_count,
            long_bytes: if facts.arch.contains("64") || facts.arch == "s390x" { 8 } else { 4 },
            big_endian: matches!(facts.arch.as_str(), "s390x" | "ppc64" | "ppc"),
            trace_id: manifest.created_unix_ns ^ u64::from(machine.0) << 32 ^ u64::from(self.boots),
            uname: uname_text(facts),
        })?;
        self.spool = Some(spool);
        Ok(())
    }

    /// `guest-web1.dat`, and `guest-web1.2.dat` for its second boot.
    fn file_name(&self, manifest: &Manifest, machine: MachineId) -> String {
        let index = usize::try_from(machine.0).ok();
        let entry = index.and_then(|index| manifest.machines.get(index));
        let stem = stem_from_name("guest-", entry.map_or("", |entry| &entry.name));
        let taken = |file: &String| manifest.sources.iter().any(|source| source.file == *file);
        let first = format!("{stem}.dat");
        let more = (2u32..).map(|number| format!("{stem}.{number}.dat"));
        std::iter::once(first).chain(more).find(|file| !taken(file)).unwrap_or_default()
    }
}

impl GuestSink for GuestSpool {
    fn begin(&mut self, beginning: &Beginning<'_>) -> Result<(), SinkError> {
        if !beginning.continues || self.spool.is_none() {
            self.begin_source(beginning)?;
        }
        for (name, bytes) in beginning.meta {
            self.spool()?.meta(name, bytes)?;
        }
        Ok(())
    }

    fn pages(&mut self, cpu: u32, pages: &[u8]) -> Result<(), SinkError> {
        Ok(self.spool()?.append(CpuId(cpu), pages)?)
    }

    fn bracket(&mut self, bracket: &Bracket) -> Result<(), SinkError> {
        Ok(self.writer.evidence(&Evidence::Exchange {
            machine: self.machine()?,
            parent: HOST,
            host_send: bracket.host_send,
            guest: bracket.guest,
            host_recv: bracket.host_recv,
        })?)
    }

    fn gap(&mut self, gap: &Gap) -> Result<(), SinkError> {
        Ok(self.writer.gap(manifest::Gap {
            machine_id: self.machine()?,
            from: Some(gap.from),
            to: Some(gap.to),
            cause: gap.cause.as_str().to_owned(),
        })?)
    }

    fn end(&mut self, meta: &[MetaFile], cpus: &[CpuStats]) -> Result<(), SinkError> {
        for (name, bytes) in meta {
            self.spool()?.meta(name, bytes)?;
        }
        let machine_id = self.machine()?;
        let lost = |cpu: &CpuStats| LostCount {
            machine_id,
            cpu: CpuId(cpu.cpu),
            count: cpu.overrun.wrapping_add(cpu.dropped),
        };
        let lost: Vec<_> = cpus.iter().map(lost).filter(|lost| lost.count > 0).collect();
        Ok(self.writer.update(|manifest| manifest.lost.extend(lost))?)
    }

    fn note(&mut self, text: &str) {
        self.notes.lock().unwrap_or_else(PoisonError::into_inner).push(text.to_owned());
    }
}

fn entry(name: String) -> MachineEntry {
    MachineEntry {
        id: MachineId(0),
        parent: Some(HOST),
        kind: MachineKind::Guest,
        name,
        vmm_pid: None,
        cgroup: None,
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
    format!("Linux {} {} {}", facts.nodename, facts.release, facts.arch)
}
