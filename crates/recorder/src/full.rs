//! The full collector: tracefs ring buffers, any tracepoint, spliced to disk page by page.

use super::{
    compact_file::COMPACT_CLOCK,
    evidence::{Rate, rate_evidence},
    facts::{absent_note, uname_text},
    kernel::{HostKernel, KernelNumbers, KernelTotals},
    spool_sink::SpoolSink,
    trigger::Trigger,
};
use anyhow::Context as _;
use std::{
    collections::BTreeMap,
    fs,
    sync::Arc,
    time::{Duration, Instant},
};
use transect_bpf::live::monotonic_ns;
use transect_model::ids::{CpuId, MachineId};
use transect_store::{
    RecordingWriter, SourceSpool, StoreError,
    manifest::{SourceEntry, SourceFormat, TscToNs},
};
use transect_tracefs::{
    ClockChoice, Collector, CpuStats, Instance, OWN_PREFIX, Selection, Totals, Tracefs, X86_TSC,
    cpus,
    meta::{self, Cmdlines, MetaFile},
    tsc::{TscRate, TscSample},
};

/// A measured rate needs this much time between its samples to be worth writing down.
const RATE_SPAN: Duration = Duration::from_millis(20);
/// New CPUs are looked for this often; their events wait in their buffers.
const HOTPLUG_EVERY: Duration = Duration::from_millis(500);

/// Everything that is set up before tracing is switched on.
pub(super) struct FullKernel {
    tracefs: Tracefs,
    instance: Instance,
    selection: Selection,
    clock: ClockChoice,
    notes: Vec<String>,
    meta: Vec<MetaFile>,
    cmdlines: Cmdlines,
    rate: Rate,
    spool: Option<SourceSpool>,
    /// Which machine of the recording this is.
    host: MachineId,
    collector: Option<Collector>,
    looked_for_cpus: Instant,
    /// Counters at the last stop or dump.
    totals: Totals,
    /// Kernel counters up to the last snapshot: a snapshot's own are the difference.
    before: BTreeMap<CpuId, CpuStats>,
    /// A reader could not go on: events that were counted may not be in the spools.
    has_failed: bool,
    /// Flight recorder: when tracing was switched on and off last, raw.
    switched_on: Option<u64>,
    froze: Option<u64>,
}

/// What [`FullKernel::prepare`] needs to know.
pub(super) struct FullPlan<'a> {
    pub(super) tracefs: Tracefs,
    pub(super) selection: Selection,
    pub(super) clock: ClockChoice,
    pub(super) buffer_kb: u64,
    pub(super) kallsyms: bool,
    pub(super) trigger: Option<&'a Trigger>,
}

impl FullKernel {
    /// Makes the instance and sets it up; nothing is recorded yet.
    pub(super) fn prepare(plan: FullPlan<'_>) -> anyhow::Result<Self> {
        let FullPlan { tracefs, selection, clock, .. } = plan;
        let instance = Instance::create(&tracefs, OWN_PREFIX)?;
        let started = Instant::now();
        let rate = Rate::begin(&clock.name);
        instance.set_clock(&clock.name)?;
        instance.set_buffer_kb_per_cpu(plan.buffer_kb)?;
        selection.enable(&instance)?;
        let mut meta = meta::at_start(&tracefs, &selection)?;
        if plan.kallsyms {
            meta.extend(meta::kallsyms());
        }
        let mut cmdlines = Cmdlines::default();
        cmdlines.gather(&tracefs);
        if matches!(rate, Rate::From(_)) {
            std::thread::sleep(RATE_SPAN.saturating_sub(started.elapsed()));
        }
        if let Some(trigger) = plan.trigger {
            trigger.arm(&instance)?;
        }
        Ok(FullKernel {
            notes: notes(&tracefs, &selection, &clock),
            tracefs,
            instance,
            selection,
            clock,
            meta,
            cmdlines,
            rate,
            spool: None,
            host: MachineId(0),
            collector: None,
            looked_for_cpus: started,
            totals: Totals::default(),
            before: BTreeMap::new(),
            has_failed: false,
            switched_on: None,
            froze: None,
        })
    }

    fn source_entry(&self, created_unix_ns: u64) -> anyhow::Result<SourceEntry> {
        let last = cpus::possible()?.into_iter().max().unwrap_or(CpuId(0));
        Ok(SourceEntry {
            machine_id: self.host,
            file: "host.dat".to_owned(),
            format: SourceFormat::TraceDat,
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

    /// Events that the kernel counted and the spools do not have, per CPU.
    fn not_kept(&self) -> Vec<(CpuId, Option<u64>)> {
        let Some(spool) = &self.spool else { return Vec::new() };
        let missing = |(cpu, stats): (&CpuId, &CpuStats)| {
            let count = spool.count_events(*cpu).ok();
            let count = count.map(|kept| (stats.read + stats.entries).saturating_sub(kept));
            (count != Some(0)).then_some((*cpu, count))
        };
        self.totals.cpus.iter().filter_map(missing).collect()
    }

    fn spool(&self) -> anyhow::Result<&SourceSpool> {
        self.spool.as_ref().context("recording has not started")
    }

    /// What was read and lost since the last snapshot. Overwriting is what a flight recorder
    /// does: it loses nothing by it.
    fn totals_since_last(&mut self) -> anyhow::Result<Totals> {
        let now = Totals::read(&self.instance, cpus::possible()?);
        let before = std::mem::replace(&mut self.before, now.cpus.clone());
        let since = |(cpu, now): (CpuId, CpuStats)| {
            let then = before.get(&cpu).copied().unwrap_or_default();
            let stats = CpuStats {
                overrun: 0,
                commit_overrun: now.commit_overrun - then.commit_overrun.min(now.commit_overrun),
                dropped: now.dropped - then.dropped.min(now.dropped),
                read: now.read - then.read.min(now.read),
                ..now
            };
            (cpu, stats)
        };
        let read = |(_, stats): &(CpuId, CpuStats)| stats.read > 0 || stats.lost() > 0;
        Ok(Totals { cpus: now.cpus.into_iter().map(since).filter(read).collect() })
    }
}

impl HostKernel for FullKernel {
    fn clock(&self) -> &str {
        &self.clock.name
    }

    fn notes(&self) -> &[String] {
        &self.notes
    }

    fn events(&self) -> Vec<String> {
        self.selection.events.iter().map(described).collect()
    }

    fn begin(&mut self, writer: &Arc<RecordingWriter>, host: MachineId) -> anyhow::Result<()> {
        self.host = host;
        let spool = writer.add_source(self.source_entry(writer.manifest().created_unix_ns)?)?;
        for file in &self.meta {
            spool.meta(&file.name, &file.bytes)?;
        }
        // Thread names of the start: a killed recorder has no others.
        let names = self.cmdlines.to_meta();
        spool.meta(&names.name, &names.bytes)?;
        if let Some(rate) = self.rate.now() {
            writer.evidence(&rate_evidence(self.host, &rate))?;
        }
        self.spool = Some(spool);
        Ok(())
    }

    fn start(&mut self) -> anyhow::Result<()> {
        let sink = Arc::new(SpoolSink(self.spool()?.clone()));
        self.collector = Some(Collector::start(&self.instance, sink)?);
        Ok(())
    }

    fn switch_on(&mut self) -> anyhow::Result<()> {
        self.instance.set_tracing(true)?;
        self.switched_on = self.stamp_now();
        Ok(())
    }

    fn look(&mut self) -> anyhow::Result<()> {
        let Some(collector) = &mut self.collector else { return Ok(()) };
        if let Some(failure) = collector.take_failure() {
            self.has_failed = true;
            return Err(failure.into());
        }
        if self.looked_for_cpus.elapsed() >= HOTPLUG_EVERY {
            self.looked_for_cpus = Instant::now();
            collector.follow_hotplug(&self.instance)?;
        }
        Ok(())
    }

    fn numbers(&self) -> KernelNumbers {
        let Some(collector) = &self.collector else { return KernelNumbers::default() };
        let totals = Totals::read(&self.instance, collector.cpus());
        KernelNumbers { events: totals.events(), lost: totals.lost(), bytes: collector.bytes() }
    }

    fn stop(&mut self) -> (KernelTotals, Option<anyhow::Error>) {
        let Some(collector) = self.collector.take() else { return Default::default() };
        let cpus: Vec<_> = collector.cpus().collect();
        let (totals, failure) = match collector.stop(&self.instance) {
            Ok(totals) => (totals, None),
            Err(error) => (Totals::read(&self.instance, cpus), Some(error.into())),
        };
        self.totals = totals;
        let mut totals = kernel_totals(&self.totals);
        if failure.is_some() || self.has_failed {
            totals.not_kept = self.not_kept();
            let missing = totals.not_kept.iter().filter_map(|(_, count)| *count).sum();
            totals.events = totals.events.saturating_sub(missing);
        }
        (totals, failure)
    }

    fn end_source(&mut self, writer: &RecordingWriter) -> Vec<StoreError> {
        self.cmdlines.gather(&self.tracefs);
        let Some(spool) = &self.spool else { return Vec::new() };
        let names = self.cmdlines.to_meta();
        let mut problems = Vec::new();
        problems.extend(spool.meta(&names.name, &names.bytes).err());
        for (cpu, text) in stats_texts(&self.instance, &self.totals) {
            problems.extend(spool.meta(&format!("per_cpu/cpu{cpu}/stats"), &text).err());
        }
        if let Some(rate) = self.rate.now() {
            problems.extend(writer.evidence(&rate_evidence(self.host, &rate)).err());
            let better = writer.update(|manifest| {
                let own = |source: &&mut SourceEntry| source.machine_id == self.host;
                if let Some(source) = manifest.sources.iter_mut().find(own) {
                    source.tsc_to_ns = Some(tsc_to_ns(&rate));
                }
            });
            problems.extend(better.err());
        }
        problems
    }

    fn freeze(&mut self) -> anyhow::Result<()> {
        // A trigger that has stopped the buffers by itself left no stamp but that of the last event.
        let is_tracing = self.instance.is_tracing()?;
        self.froze = self.stamp_now().filter(|_| is_tracing);
        Ok(self.instance.set_tracing(false)?)
    }

    fn stamp_now(&self) -> Option<u64> {
        match self.clock.name.as_str() {
            X86_TSC => Some(TscSample::take().tsc),
            COMPACT_CLOCK => Some(monotonic_ns()),
            _ => None,
        }
    }

    fn stamp_before(&self, stamp: u64, ago: Duration) -> Option<u64> {
        let ago_ns = u64::try_from(ago.as_nanos()).ok()?;
        if self.clock.name != X86_TSC {
            return Some(stamp.saturating_sub(ago_ns));
        }
        let rate = self.rate.now()?;
        let ticks = (u128::from(ago_ns) << rate.shift) / u128::from(rate.mult.max(1));
        Some(stamp.saturating_sub(u64::try_from(ticks).ok()?))
    }

    fn ns_between(&self, from: u64, to: u64) -> u64 {
        let units = to.saturating_sub(from);
        match self.rate.now().filter(|_| self.clock.name == X86_TSC) {
            Some(rate) => {
                let ns = (u128::from(units) * u128::from(rate.mult)) >> rate.shift;
                u64::try_from(ns).unwrap_or(u64::MAX)
            }
            None => units,
        }
    }

    fn holds_from(&self) -> Option<u64> {
        self.switched_on
    }

    fn froze_at(&self) -> Option<u64> {
        self.froze
    }

    fn is_triggered(&self) -> anyhow::Result<bool> {
        Ok(!self.instance.is_tracing()?)
    }

    fn dump(&mut self) -> anyhow::Result<KernelTotals> {
        let dumped = transect_tracefs::dump(&self.instance, &SpoolSink(self.spool()?.clone()));
        self.totals = self.totals_since_last()?;
        dumped?;
        Ok(kernel_totals(&self.totals))
    }
}

fn kernel_totals(totals: &Totals) -> KernelTotals {
    let lost = totals.cpus.iter().map(|(cpu, stats)| (*cpu, stats.lost()));
    let lost = lost.filter(|(_, count)| *count > 0).collect();
    KernelTotals { events: totals.events(), lost, not_kept: Vec::new() }
}

fn notes(tracefs: &Tracefs, selection: &Selection, clock: &ClockChoice) -> Vec<String> {
    let mut notes = Vec::new();
    if tracefs.mounted_now() {
        notes.push(format!("mounted tracefs at {}", tracefs.root().display()));
    }
    if let Some(reason) = &clock.reason {
        notes.push(format!(
            "trace clock {}: {reason}; guest clocks are estimated, not exact",
            clock.name
        ));
    }
    notes.extend(absent_note(&selection.absent));
    notes
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

/// Without an offset: trace-cmd takes it from the file and does not use it, and stamps are to be
/// those it prints.
fn tsc_to_ns(rate: &TscRate) -> TscToNs {
    TscToNs { mult: rate.mult, shift: rate.shift, offset_ns: 0 }
}
