//! Xen in a recording, from what is asked of it before to what is known at the end.

use super::super::evidence::reading_evidence;
use super::{
    domains::{Places, XenDomains, same_tsc},
    settings::XenSettings,
    sink::{Counts, TscClock, XenSink},
};
use anyhow::Context as _;
use std::{
    fs,
    sync::{Arc, atomic::Ordering::Relaxed},
    time::Instant,
};
use transect_clock::evidence::Evidence;
use transect_guest::stamp::{StampClock, TscReading};
use transect_model::ids::{CpuId, MachineId, MachineKind};
use transect_store::{
    AppendFile, RecordingWriter, StoreError,
    manifest::{LostCount, MachineEntry, SourceEntry, SourceFormat},
};
use transect_tracefs::X86_TSC;
use transect_xen::{
    Collector, CpuNs, DEFAULT_BUFFER_BYTES, Dom0, EventMask, Facts, TracePlan, XenError,
    end_leftovers, other_xentrace,
};
use transect_xentrace::XenVersion;

/// The file of Xen's records.
const FILE: &str = "xen.bin";

/// Xen, asked and ready to be recorded.
pub(in super::super) struct XenPlan {
    dom0: Dom0,
    facts: Facts,
    trace: TracePlan,
    notes: Vec<String>,
}

impl XenPlan {
    /// Asks Xen about itself, and makes sure that its buffers are free to be taken.
    pub(super) fn prepare(dom0: Dom0, settings: &XenSettings) -> anyhow::Result<Self> {
        let mut notes = Vec::new();
        for left in end_leftovers() {
            notes.push(format!(
                "ended xentrace (pid {}), left by a killed recorder (pid {}){}",
                left.pid,
                left.recorder,
                if left.in_order { "" } else { ", with SIGKILL" }
            ));
        }
        if let Some(pid) = other_xentrace() {
            anyhow::bail!(
                "another xentrace is running (pid {pid}), and only one process can read Xen's trace buffers: end it, or skip Xen with --xen off"
            );
        }
        let mask = settings.events.unwrap_or_default();
        let mut facts = Facts::gather(&dom0.tools, &dom0.version, mask, &mut notes)
            .context("Xen's toolstack does not respond; to record only this kernel: --xen off")?;
        let buffer_bytes_per_cpu = match settings.buffer_kb {
            Some(kb) => {
                usize::try_from(kb)?.checked_mul(1024).context("--xen-buffer: size too large")?
            }
            None => DEFAULT_BUFFER_BYTES,
        };
        facts.buffer_bytes_per_cpu = u64::try_from(buffer_bytes_per_cpu)?;
        if facts.domains.keys().any(|id| *id != 0) {
            facts.learn_tsc(&dom0.tools, &mut notes);
        }
        let xentrace = dom0.tools.find("xentrace")?;
        let trace = TracePlan { xentrace, mask, buffer_bytes_per_cpu };
        Ok(XenPlan { dom0, facts, trace, notes })
    }

    /// What the user should know.
    pub(in super::super) fn notes(&self) -> &[String] {
        &self.notes
    }

    /// What is switched on, for the list of events.
    pub(in super::super) fn events(&self) -> Vec<String> {
        EventMask(self.facts.event_mask).names().iter().map(|name| format!("xen:{name}")).collect()
    }

    /// The hypervisor as a machine.
    pub(in super::super) fn machine(&self) -> MachineEntry {
        machine(Some(&self.facts))
    }

    /// Adds its source to a new recording, and how its clock relates to dom0's, which is called `host_clock`.
    pub(in super::super) fn begin(
        self,
        writer: &Arc<RecordingWriter>,
        xen: MachineId,
        host: MachineId,
        host_clock: &str,
    ) -> anyhow::Result<XenRecording> {
        let places = Places { xen, host };
        let file = writer.add_xentrace(self.source(xen, writer.manifest().created_unix_ns))?;
        let counts = Arc::<Counts>::default();
        relate(writer, places, host_clock, &counts)?;
        let tools = self.dom0.tools;
        let domains = XenDomains::start(writer.clone(), places, host_clock, tools, self.facts)?;
        Ok(XenRecording {
            writer: writer.clone(),
            machine: xen,
            host,
            clock: StampClock::from_name(host_clock),
            file,
            plan: self.trace,
            domains: Arc::new(domains),
            counts,
            collector: None,
            clock_read: None,
            given_up: None,
        })
    }

    fn source(&self, machine_id: MachineId, created_unix_ns: u64) -> SourceEntry {
        SourceEntry {
            machine_id,
            file: FILE.to_owned(),
            format: SourceFormat::Xentrace,
            spooled: false,
            clock: X86_TSC.to_owned(),
            tsc_to_ns: None,
            sub_buffer_bytes: 0,
            cpu_count: self.facts.cpu_count,
            long_bytes: 8,
            big_endian: false,
            trace_id: created_unix_ns ^ (u64::from(std::process::id()) << 48),
            uname: uname(&self.facts),
        }
    }
}

/// How Xen's TSC relates to dom0's clock: a PV dom0 reads the very same counter (`tsc_set_info`,
/// xen/arch/x86/time.c of 4.17: it is never emulated).
fn relate(
    writer: &RecordingWriter,
    places: Places,
    host_clock: &str,
    counts: &Counts,
) -> Result<(), StoreError> {
    let clock = X86_TSC.to_owned();
    writer.evidence(&Evidence::SourceClock { machine: places.xen, clock })?;
    let Some(at_host) = StampClock::from_name(host_clock).and_then(StampClock::now) else {
        counts.note(format!(
            "cannot relate dom0's clock {host_clock} to Xen's TSC: use --clock x86-tsc or mono, or --xen only"
        ));
        return Ok(());
    };
    // Since Linux 4.13; before, a dom0 in a hardware container could not be.
    let kind = fs::read_to_string("/sys/hypervisor/guest_type").unwrap_or_default();
    if !["", "PV"].contains(&kind.trim()) {
        counts.note(format!(
            "this dom0 is not a PV domain ({}): if Xen offsets its TSC, its events are shifted by that offset",
            kind.trim()
        ));
    }
    writer.evidence(&same_tsc(places.xen, places.host, at_host))
}

fn uname(facts: &Facts) -> String {
    format!("Xen {} {}", facts.version, std::env::consts::ARCH)
}

/// The hypervisor as a machine.
pub(super) fn machine(facts: Option<&Facts>) -> MachineEntry {
    MachineEntry {
        id: MachineId(0),
        parent: None,
        kind: MachineKind::Hypervisor,
        name: "xen".to_owned(),
        domid: None,
        vmm_pid: None,
        cgroup: None,
        uname: facts.map(uname),
        cpu_count: facts.map(|facts| facts.cpu_count),
        clock: Some(X86_TSC.to_owned()),
        vcpus: Vec::new(),
    }
}

/// Xen, being recorded.
pub(in super::super) struct XenRecording {
    writer: Arc<RecordingWriter>,
    machine: MachineId,
    host: MachineId,
    /// dom0's.
    clock: Option<StampClock>,
    file: AppendFile,
    plan: TracePlan,
    domains: Arc<XenDomains>,
    counts: Arc<Counts>,
    collector: Option<Collector>,
    clock_read: Option<Instant>,
    /// What the collector had cost when it gave up.
    given_up: Option<CpuNs>,
}

/// What came of it.
#[derive(Debug, Default)]
pub(in super::super) struct XenTotals {
    pub(in super::super) events: u64,
    pub(in super::super) lost: u64,
    pub(in super::super) cpu: CpuNs,
    /// What did not go well; the recording can be read.
    pub(in super::super) problems: Vec<String>,
    /// Did the disk fill up?
    pub(in super::super) failure: Option<XenError>,
}

impl XenRecording {
    /// The domains, for those who name guests.
    pub(in super::super) fn domains(&self) -> Arc<XenDomains> {
        self.domains.clone()
    }

    /// Starts xentrace. From here on Xen is traced.
    pub(in super::super) fn start(&mut self) -> anyhow::Result<()> {
        let facts = self.domains.facts();
        let sink = XenSink {
            file: self.file.clone(),
            writer: self.writer.clone(),
            machine: self.machine,
            version: u8::try_from(facts.version.minor)
                .map_or(XenVersion::Unknown, XenVersion::Minor),
            clock: TscClock {
                clock: self.clock.unwrap_or(StampClock::X86Tsc),
                tsc_hz: facts.cpu_hz.hz,
            },
            counts: self.counts.clone(),
            last_tsc: None,
            ended: None,
            survived: None,
        };
        let collector = Collector::start(self.plan.clone(), Box::new(sink));
        self.collector =
            Some(collector.context("cannot record Xen; to record only this kernel: --xen off")?);
        Ok(())
    }

    /// Called a few times a second. Returns what is new to tell.
    ///
    /// # Errors
    /// The disk is full (or the directory is gone): recording cannot go on.
    pub(in super::super) fn look(&mut self, takes_readings: bool) -> anyhow::Result<Vec<String>> {
        if takes_readings && self.clock_read.is_none_or(|last| last.elapsed() >= TscReading::EVERY)
        {
            self.clock_read = Some(Instant::now());
            if let Some(reading) = self.clock.and_then(TscReading::take) {
                self.writer.evidence(&reading_evidence(self.host, &reading))?;
            }
        }
        let mut told = self.domains.look()?;
        told.extend(self.counts.take_notes());
        told.extend(self.collector.iter().flat_map(Collector::take_notes));
        if self.collector.as_ref().is_some_and(Collector::has_failed)
            && let Some(finished) = self.collector.take().map(Collector::stop)
        {
            self.given_up = Some(finished.cpu);
            told.extend(finished.notes);
            match finished.failure {
                Some(error) if error.is_storage_full() => return Err(error.into()),
                other => told.extend(other.map(|error| error.to_string())),
            }
        }
        if !told.is_empty() {
            self.writer.update(|manifest| manifest.notes.extend(told.iter().cloned()))?;
        }
        Ok(told)
    }

    /// Records, losses and bytes so far.
    pub(in super::super) fn numbers(&self) -> (u64, u64, u64) {
        let lost = self.counts.lost().values().sum();
        (self.counts.records.load(Relaxed), lost, self.file.bytes())
    }

    /// CPU time of xentrace so far, ns.
    pub(in super::super) fn cpu_ns(&self) -> u64 {
        self.collector.as_ref().map_or(0, Collector::cpu_ns)
    }

    /// Ends xentrace, which switches Xen's tracing off, and writes the rest.
    pub(in super::super) fn stop(&mut self) -> XenTotals {
        let finished = self.collector.take().map(Collector::stop).unwrap_or_default();
        let lost = self.counts.lost();
        let mut problems = finished.notes;
        problems.extend(self.counts.take_notes());
        let (full, other): (Vec<_>, Vec<_>) =
            finished.failure.into_iter().partition(XenError::is_storage_full);
        problems.extend(other.iter().map(ToString::to_string));
        let counted = lost.iter().map(|(cpu, count)| self.lost(*cpu, *count));
        let lost_counts: Vec<_> = counted.collect();
        let told = self.writer.update(|manifest| {
            manifest.lost.extend(lost_counts);
            manifest.notes.extend(problems.iter().cloned());
        });
        problems.extend(told.err().map(|error| error.to_string()));
        XenTotals {
            events: self.counts.records.load(Relaxed),
            lost: lost.values().sum(),
            cpu: self.given_up.unwrap_or(finished.cpu),
            problems,
            failure: full.into_iter().next(),
        }
    }

    fn lost(&self, cpu: CpuId, count: u64) -> LostCount {
        LostCount { machine_id: self.machine, cpu, count }
    }

    /// What is known only at the end. Nothing is traced any more.
    pub(in super::super) fn end(&self) -> Vec<String> {
        self.domains.finish()
    }
}
