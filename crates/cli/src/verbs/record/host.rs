//! The host's own kernel as a source: prepared once, then recorded once (or, by a flight
//! recorder, once per snapshot).

use super::{spool_sink::SpoolSink, vms::Vms};
use std::{
    collections::BTreeMap,
    fs,
    path::Path,
    sync::Arc,
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};
use transect_clock::evidence::{Evidence, RateSource};
use transect_model::ids::{CpuId, MachineId, MachineKind, Tid};
use transect_store::{
    Finished, Manifest, RecordingWriter, SourceSpool,
    manifest::{Cost, LostCount, MachineEntry, SourceEntry, ThreadEntry, TscToNs},
};
use transect_tracefs::{
    ClockChoice, CpuStats, CpuTime, Instance, Selection, Totals, Tracefs, X86_TSC, cpus,
    meta::{self, Cmdlines, MetaFile},
    threads::{self, ThreadFacts},
    tsc::{HowRated, TscRate, TscSample, rate_from_perf},
};

/// Prefix of our tracing instances' names.
pub(super) const INSTANCE_PREFIX: &str = "transect";
/// The host is always the first machine.
pub(super) const HOST: MachineId = MachineId(0);
/// A measured rate needs this much time between its samples to be worth writing down.
const RATE_SPAN: Duration = Duration::from_millis(20);

/// Everything that is set up before tracing is switched on.
pub(super) struct HostProbe {
    pub(super) tracefs: Tracefs,
    pub(super) instance: Instance,
    pub(super) selection: Selection,
    pub(super) clock: ClockChoice,
    pub(super) notes: Vec<String>,
    command_line: Vec<String>,
    meta: Vec<MetaFile>,
    cmdlines: Cmdlines,
    threads: BTreeMap<i32, ThreadFacts>,
    rate: Rate,
}

/// How ticks become nanoseconds, and the sample a better answer is measured from.
enum Rate {
    /// The clock counts nanoseconds.
    NotNeeded,
    /// The kernel's own factors.
    Known(TscRate),
    /// Measured, from this sample on.
    From(TscSample),
}

impl Rate {
    fn begin(clock: &str) -> Self {
        if clock != X86_TSC {
            return Rate::NotNeeded;
        }
        rate_from_perf().map_or_else(|| Rate::From(TscSample::take()), Rate::Known)
    }

    fn now(&self) -> Option<TscRate> {
        match self {
            Rate::NotNeeded => None,
            Rate::Known(rate) => Some(*rate),
            Rate::From(first) => first.rate_until(&TscSample::take()),
        }
    }
}

/// What [`HostProbe::prepare`] needs to know.
pub(super) struct HostPlan {
    pub(super) tracefs: Tracefs,
    pub(super) selection: Selection,
    pub(super) clock: ClockChoice,
    pub(super) buffer_kb: u64,
    pub(super) kallsyms: bool,
    pub(super) command_line: Vec<String>,
}

impl HostProbe {
    /// Makes the instance and sets it up; nothing is recorded yet.
    pub(super) fn prepare(plan: HostPlan) -> anyhow::Result<Self> {
        let HostPlan { tracefs, selection, clock, .. } = plan;
        let instance = Instance::create(&tracefs, INSTANCE_PREFIX)?;
        let started = Instant::now();
        let rate = Rate::begin(&clock.name);
        instance.set_clock(&clock.name)?;
        instance.set_buffer_kb_per_cpu(plan.buffer_kb)?;
        selection.enable(&instance)?;
        let mut meta = meta::at_start(&tracefs, &selection)?;
        if plan.kallsyms {
            meta.extend(meta::kallsyms());
        }
        let mut probe = HostProbe {
            notes: notes(&tracefs, &selection, &clock),
            tracefs,
            instance,
            selection,
            clock,
            command_line: plan.command_line,
            meta,
            cmdlines: Cmdlines::default(),
            threads: BTreeMap::new(),
            rate,
        };
        probe.gather_threads();
        if matches!(probe.rate, Rate::From(_)) {
            std::thread::sleep(RATE_SPAN.saturating_sub(started.elapsed()));
        }
        Ok(probe)
    }

    /// Notes who lives now: for names of threads that events do not name.
    fn gather_threads(&mut self) {
        self.cmdlines.gather(&self.tracefs);
        self.threads.extend(threads::all().into_iter().map(|facts| (facts.tid, facts)));
    }

    /// Makes the recording's directory with everything known at the start.
    pub(super) fn begin(&self, dir: &Path) -> anyhow::Result<HostRecording> {
        let manifest = self.manifest();
        let source = self.source_entry(manifest.created_unix_ns)?;
        let writer = Arc::new(RecordingWriter::create(dir, manifest)?);
        let spool = writer.add_source(source)?;
        for file in &self.meta {
            spool.meta(&file.name, &file.bytes)?;
        }
        // Thread names of the start: a killed recorder has no others.
        let names = self.cmdlines.to_meta();
        spool.meta(&names.name, &names.bytes)?;
        writer.evidence(&Evidence::Reference { machine: HOST, clock: self.clock.name.clone() })?;
        if let Some(rate) = self.rate.now() {
            writer.evidence(&rate_evidence(&rate))?;
        }
        let vms = Arc::new(Vms::start(writer.clone(), &self.clock.name)?);
        Ok(HostRecording { writer, spool, vms })
    }

    fn manifest(&self) -> Manifest {
        let mut manifest = Manifest::new(unix_now_ns(), self.command_line.clone());
        manifest.notes.clone_from(&self.notes);
        manifest.events = self.selection.events.iter().map(described).collect();
        let uname = rustix::system::uname();
        manifest.add_machine(MachineEntry {
            id: HOST,
            parent: None,
            kind: MachineKind::Host,
            name: uname.nodename().to_string_lossy().into_owned(),
            vmm_pid: None,
            cgroup: None,
            uname: Some(uname_text()),
            cpu_count: cpus::online().ok().and_then(|cpus| u32::try_from(cpus.len()).ok()),
            clock: Some(self.clock.name.clone()),
            vcpus: Vec::new(),
        });
        manifest
    }

    fn source_entry(&self, created_unix_ns: u64) -> anyhow::Result<SourceEntry> {
        let last = cpus::possible()?.into_iter().max().unwrap_or(CpuId(0));
        Ok(SourceEntry {
            machine_id: HOST,
            file: "host.dat".to_owned(),
            spooled: true,
            clock: self.clock.name.clone(),
            tsc_to_ns: self.rate.now().as_ref().map(tsc_to_ns),
            sub_buffer_bytes: self.instance.sub_buffer_bytes(),
            cpu_count: last.0 + 1,
            long_bytes: u8::try_from(size_of::<std::ffi::c_long>())?,
            big_endian: cfg!(target_endian = "big"),
            // Two recordings of one machine cannot begin in the same nanosecond with one pid.
            trace_id: created_unix_ns ^ (u64::from(std::process::id()) << 48),
            uname: uname_text(),
        })
    }

    /// Takes what is known only at the end, assembles the files and closes the recording.
    pub(super) fn finish(
        &mut self,
        recording: HostRecording,
        result: HostResult,
    ) -> anyhow::Result<Finished> {
        let HostRecording { writer, spool, vms } = recording;
        writer.make_room();
        self.gather_threads();
        let names = self.cmdlines.to_meta();
        let mut problems = Vec::new();
        problems.extend(vms.look_now().err());
        problems.extend(spool.meta(&names.name, &names.bytes).err());
        for (cpu, text) in stats_texts(&self.instance, &result.totals) {
            problems.extend(spool.meta(&format!("per_cpu/cpu{cpu}/stats"), &text).err());
        }
        let rate = self.rate.now();
        if let Some(rate) = &rate {
            problems.extend(writer.evidence(&rate_evidence(rate)).err());
        }
        let change = |manifest: &mut Manifest| {
            manifest.ended_by = Some(result.ended_by);
            manifest.lost.extend(lost_counts(&result.totals));
            manifest.threads.extend(self.threads.values().map(thread_entry));
            if let (Some(rate), Some(source)) = (&rate, manifest.sources.first_mut()) {
                source.tsc_to_ns = Some(tsc_to_ns(rate));
            }
            manifest.cost = Some(Cost {
                wall_ns: nanos(result.traced),
                traced_cpu_ns: result.traced_cpu_ns,
                events: result.totals.events() + result.guest_events,
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
    spool: SourceSpool,
}

impl HostRecording {
    /// Where the collector puts its pages.
    pub(super) fn sink(&self) -> SpoolSink {
        SpoolSink(self.spool.clone())
    }
}

/// What came of recording.
pub(super) struct HostResult {
    pub(super) ended_by: String,
    pub(super) totals: Totals,
    /// For how long tracing was on.
    pub(super) traced: Duration,
    /// Transect's own CPU time while it was, ns.
    pub(super) traced_cpu_ns: u64,
    /// Events of all guests.
    pub(super) guest_events: u64,
}

fn notes(tracefs: &Tracefs, selection: &Selection, clock: &ClockChoice) -> Vec<String> {
    let mut notes = Vec::new();
    if tracefs.mounted_now() {
        notes.push(format!("mounted tracefs at {}", tracefs.root().display()));
    }
    if let Some(reason) = &clock.reason {
        notes.push(format!(
            "stamps are of the clock {}: {reason}; guests cannot be aligned exactly",
            clock.name
        ));
    }
    if !selection.absent.is_empty() {
        notes.push(absent_note(&selection.absent));
    }
    notes
}

fn absent_note(absent: &[String]) -> String {
    let (kvm, others): (Vec<_>, Vec<_>) = absent.iter().partition(|e| e.starts_with("kvm:"));
    let mut parts = Vec::new();
    // All of KVM is one fact, not a dozen.
    if kvm.len() > 6 {
        parts.push("kvm:* (no KVM here: modprobe kvm_intel or kvm_amd)".to_owned());
    } else {
        parts.extend(kvm.into_iter().cloned());
    }
    parts.extend(others.into_iter().cloned());
    format!("events this kernel does not have: {}", parts.join(", "))
}

fn described(event: &transect_tracefs::SelectedEvent) -> String {
    match &event.filter {
        Some(filter) => format!("{}:{} if {filter}", event.system, event.event),
        None => format!("{}:{}", event.system, event.event),
    }
}

fn stats_texts(instance: &Instance, totals: &Totals) -> Vec<(CpuId, Vec<u8>)> {
    let text = |cpu| fs::read(instance.path().join(format!("per_cpu/cpu{cpu}/stats"))).ok();
    totals.cpus.keys().filter_map(|cpu| Some((*cpu, text(*cpu)?))).collect()
}

fn lost_counts(totals: &Totals) -> Vec<LostCount> {
    let lost = |(cpu, stats): (&CpuId, &CpuStats)| LostCount {
        machine_id: HOST,
        cpu: *cpu,
        count: stats.lost(),
    };
    totals.cpus.iter().map(lost).filter(|lost| lost.count > 0).collect()
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

/// Without an offset: trace-cmd takes it from the file and does not use it, and stamps are to be
/// those it prints.
fn tsc_to_ns(rate: &TscRate) -> TscToNs {
    TscToNs { mult: rate.mult, shift: rate.shift, offset_ns: 0 }
}

fn rate_evidence(rate: &TscRate) -> Evidence {
    Evidence::TscRate {
        machine: HOST,
        mult: rate.mult,
        shift: rate.shift,
        offset_ns: 0,
        how: match rate.how {
            HowRated::PerfPage => RateSource::PerfMmap,
            HowRated::Measured => RateSource::Measured,
        },
        error_ppm: rate.error_ppm,
    }
}

/// What this process has cost until now: all of its threads, none of its children.
fn own_cost() -> Cost {
    let cpu = CpuTime::of_this_process();
    Cost { cpu_user_ns: cpu.user_ns, cpu_sys_ns: cpu.sys_ns, ..Cost::default() }
}

fn uname_text() -> String {
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
