//! The compact collector: BPF programs into mapped logs, whose slices become blocks of one file.

use super::{
    compact_file::{COMPACT_CLOCK, CompactEntry, CompactFile},
    ending::as_io,
    evidence::reading_evidence,
    facts::{absent_note, uname_text},
    kernel::{HostKernel, KernelNumbers, KernelTotals},
    newest::Newest,
};
use anyhow::Context as _;
use std::{
    collections::BTreeMap,
    fs, io,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::{Duration, Instant},
};
use transect_bpf::{BpfError, Consumer, LogSink, Pause, Plan, Stats, exit_isa};
use transect_compact::{FileHeader, LogId, LogTotals, Names, Slice, Totals};
use transect_guest::stamp::{StampClock, TscReading};
use transect_model::{
    event::Comm,
    ids::{CpuId, MachineId, Tid},
    stack::Stacks,
};
use transect_store::{RecordingWriter, StoreError, manifest::Gap};
use transect_tracefs::{cpus, threads};

/// The host's kernel, recorded by BPF programs.
pub(super) struct CompactKernel {
    /// Gone once stopped.
    bpf: Option<transect_bpf::Compact>,
    consumer: Option<Consumer<FileSink>>,
    plan: Plan,
    notes: Vec<String>,
    file: Option<CompactFile>,
    writer: Option<Arc<RecordingWriter>>,
    /// Which machine of the recording this is.
    host: MachineId,
    counts: Arc<Counts>,
    clock_read: Option<Instant>,
    /// Counters of losses up to the last snapshot.
    lost_before: BTreeMap<CpuId, u64>,
    stats: Stats,
    /// How much of the past a snapshot has; none: all that there is.
    last: Option<Duration>,
    /// Events that were in the logs and could not be written.
    not_kept: BTreeMap<CpuId, u64>,
    /// Flight recorder: when its programs had been attached, and when it stopped for the last dump, ns.
    attached_ns: Option<u64>,
    froze_ns: Option<u64>,
    /// Threads that changed their control group, once recording has ended.
    moved: Option<Vec<u32>>,
    /// How far back the last dump reaches on the CPUs that overwrote their oldest events, ns.
    reach: Vec<(CpuId, u64)>,
    /// The stacks that events name, once recording has ended.
    stacks: Stacks,
    /// How often a stack was not kept.
    stacks_lost: u64,
}

impl CompactKernel {
    /// Loads the programs; nothing is recorded yet.
    pub(super) fn prepare(plan: Plan) -> anyhow::Result<Self> {
        let bpf = transect_bpf::Compact::load(&plan)?;
        let mut notes: Vec<String> = absent_note(bpf.absent()).into_iter().collect();
        if !plan.filters.tids.is_empty()
            || !plan.filters.tgids.is_empty()
            || plan.filters.cgroup.is_some()
        {
            notes.push(
                "filtered by thread: events of other threads are missing, even while a recorded thread waited for them"
                    .to_owned(),
            );
        }
        Ok(CompactKernel {
            bpf: Some(bpf),
            consumer: None,
            plan,
            notes,
            file: None,
            writer: None,
            host: MachineId(0),
            counts: Arc::default(),
            clock_read: None,
            lost_before: BTreeMap::new(),
            stats: Stats::default(),
            last: None,
            not_kept: BTreeMap::new(),
            attached_ns: None,
            froze_ns: None,
            moved: None,
            reach: Vec::new(),
            stacks: Stacks::new(),
            stacks_lost: 0,
        })
    }

    fn bpf(&mut self) -> anyhow::Result<&mut transect_bpf::Compact> {
        self.bpf.as_mut().context("recording has ended")
    }

    fn file(&self) -> anyhow::Result<&CompactFile> {
        self.file.as_ref().context("recording has not started")
    }

    fn entry(&self, created_unix_ns: u64) -> anyhow::Result<CompactEntry> {
        let last = cpus::possible()?.into_iter().max().unwrap_or(CpuId(0));
        Ok(CompactEntry {
            machine: self.host,
            file: "host.compact".to_owned(),
            cpu_count: last.0 + 1,
            trace_id: created_unix_ns ^ (u64::from(std::process::id()) << 48),
            uname: uname_text(),
        })
    }

    fn header(&self, cpu_count: u32) -> FileHeader {
        let mut header = FileHeader::new(cpu_count, exit_isa(), uname_text());
        header.overwrite = self.plan.mode == transect_bpf::Mode::FlightRecorder;
        header.events = self.events();
        header
    }

    /// What the logs lost, CPU by CPU, since the last snapshot.
    fn lost(&self) -> Vec<(CpuId, u64)> {
        let mut lost: BTreeMap<CpuId, u64> = BTreeMap::new();
        for log in &self.stats.logs {
            *lost.entry(log.cpu).or_default() += log.lost;
        }
        // The kernel does not say on which CPU it skipped a program.
        let missed: u64 = self.stats.missed.iter().map(|(_, times)| times).sum();
        *lost.entry(CpuId(0)).or_default() += missed;
        let since = |(cpu, now): (CpuId, u64)| {
            (cpu, now - self.lost_before.get(&cpu).copied().unwrap_or(0).min(now))
        };
        lost.into_iter().map(since).filter(|(_, count)| *count > 0).collect()
    }

    fn totals(&self) -> KernelTotals {
        let not_kept = self.not_kept.iter().map(|(cpu, count)| (*cpu, Some(*count))).collect();
        KernelTotals { events: self.counts.events.load(Relaxed), lost: self.lost(), not_kept }
    }

    fn read_clock(&mut self) -> Result<(), StoreError> {
        self.clock_read = Some(Instant::now());
        let (Some(writer), Some(reading)) = (&self.writer, TscReading::take(StampClock::Mono))
        else {
            return Ok(());
        };
        writer.evidence(&reading_evidence(self.host, &reading))
    }
}

impl HostKernel for CompactKernel {
    fn clock(&self) -> &str {
        COMPACT_CLOCK
    }

    fn notes(&self) -> &[String] {
        &self.notes
    }

    fn events(&self) -> Vec<String> {
        let programs = self.bpf.iter().flat_map(transect_bpf::Compact::programs);
        let mut events: Vec<String> = programs.map(|program| program.event.to_owned()).collect();
        events.dedup();
        events
    }

    fn takes_readings(&self) -> bool {
        true
    }

    fn begin(&mut self, writer: &Arc<RecordingWriter>, host: MachineId) -> anyhow::Result<()> {
        self.host = host;
        let entry = self.entry(writer.manifest().created_unix_ns)?;
        let header = self.header(entry.cpu_count);
        let file = CompactFile::begin(writer, entry, &header, &names())?;
        self.counts = Arc::default();
        self.file = Some(file);
        self.writer = Some(writer.clone());
        Ok(self.read_clock()?)
    }

    fn held_since_ns(&self) -> Option<u64> {
        self.bpf.as_ref()?.held_since_ns()
    }

    fn start(&mut self) -> anyhow::Result<()> {
        let sink = FileSink { file: self.file()?.clone(), counts: self.counts.clone() };
        self.consumer = Some(self.bpf()?.consume(sink)?);
        Ok(())
    }

    fn switch_on(&mut self) -> anyhow::Result<()> {
        // A flight recorder's programs stay attached: a snapshot only pauses them.
        if self.stats == Stats::default() && self.lost_before.is_empty() {
            self.bpf()?.attach()?;
            self.attached_ns = Some(transect_bpf::live::monotonic_ns());
        }
        Ok(())
    }

    fn look(&mut self) -> anyhow::Result<()> {
        if self.clock_read.is_none_or(|last| last.elapsed() >= TscReading::EVERY) {
            self.read_clock()?;
        }
        if self.consumer.as_ref().is_some_and(Consumer::has_failed) {
            // What failed is told by the consumer when it is ended.
            return Err(self.end_consumer().unwrap_or_else(|| {
                anyhow::anyhow!("the thread that drains the logs has stopped")
            }));
        }
        Ok(())
    }

    fn numbers(&self) -> KernelNumbers {
        let lost = self.bpf.as_ref().map_or(0, |bpf| bpf.stats().lost());
        KernelNumbers {
            events: self.counts.events.load(Relaxed),
            lost,
            bytes: self.counts.bytes.load(Relaxed),
        }
    }

    fn stop(&mut self) -> (KernelTotals, Option<anyhow::Error>) {
        let failure = self.end_consumer();
        let clock = self.read_clock().err().map(Into::into);
        (self.totals(), failure.or(clock))
    }

    fn end_source(&mut self, writer: &RecordingWriter) -> Vec<StoreError> {
        let Some(file) = &self.file else { return Vec::new() };
        // Threads that came meanwhile and forked before anything was recorded of them.
        let totals = totals(&self.stats, &self.counts.of_logs(), &self.plan);
        if let Some(bpf) = &self.bpf {
            // A flight recorder, which goes on.
            (self.stacks, self.stacks_lost) = (bpf.stacks(), bpf.stacks_lost());
        }
        let ended = file.end(&names(), &self.stacks, &totals).err();
        let noted = lost_stacks_note(self.stacks_lost)
            .and_then(|note| writer.update(|manifest| manifest.notes.push(note)).err());
        ended.into_iter().chain(noted).collect()
    }

    fn freeze(&mut self) -> anyhow::Result<()> {
        Ok(())
    }

    fn is_triggered(&self) -> anyhow::Result<bool> {
        Ok(self.bpf.as_ref().is_some_and(|bpf| bpf.trigger().is_some()))
    }

    fn limit_dump(&mut self, last: Option<Duration>) {
        self.last = last;
    }

    fn stamp_now(&self) -> Option<u64> {
        Some(transect_bpf::live::monotonic_ns())
    }

    fn stamp_before(&self, stamp: u64, ago: Duration) -> Option<u64> {
        Some(stamp.saturating_sub(u64::try_from(ago.as_nanos()).ok()?))
    }

    fn holds_from(&self) -> Option<u64> {
        self.attached_ns
    }

    fn froze_at(&self) -> Option<u64> {
        self.froze_ns
    }

    fn reach(&self) -> Option<Vec<(CpuId, u64)>> {
        Some(self.reach.clone())
    }

    fn moved(&self) -> Option<Vec<Tid>> {
        let moved = match &self.bpf {
            Some(bpf) => bpf.moved(),
            None => self.moved.clone(),
        };
        let tid = |tid: u32| Tid(tid.cast_signed());
        moved.map(|moved| moved.into_iter().map(tid).collect())
    }

    fn dump(&mut self) -> anyhow::Result<KernelTotals> {
        let sink = FileSink { file: self.file()?.clone(), counts: self.counts.clone() };
        let last_ns = self.last.and_then(|last| u64::try_from(last.as_nanos()).ok());
        let from_ns =
            last_ns.map_or(0, |last| transect_bpf::live::monotonic_ns().saturating_sub(last));
        let mut sink = Newest::new(sink, from_ns);
        let bpf = self.bpf()?;
        let pauses = bpf.pauses().to_vec();
        let dumped = bpf.snapshot(&mut sink);
        let froze_ns = bpf.pauses().last().map(|pause| pause.from_ns);
        self.stats = bpf.stats();
        self.froze_ns = froze_ns;
        self.reach = sink.reach().iter().map(|(cpu, from_ns)| (*cpu, *from_ns)).collect();
        let begins_ns = sink.begins_ns();
        let totals = self.totals();
        for (cpu, count) in &totals.lost {
            *self.lost_before.entry(*cpu).or_default() += count;
        }
        // Also without losses: the programs are attached.
        self.lost_before.entry(CpuId(0)).or_default();
        self.read_clock()?;
        dumped?;
        self.tell_pauses(&pauses, begins_ns)?;
        Ok(totals)
    }
}

impl CompactKernel {
    /// Says what earlier snapshots kept out of this one, which begins then.
    fn tell_pauses(&self, pauses: &[Pause], begins_ns: Option<u64>) -> anyhow::Result<()> {
        let Some(begins_ns) = begins_ns else { return Ok(()) };
        let within = pauses.iter().filter(|pause| pause.to_ns > begins_ns);
        let gap = |pause: &Pause| Gap {
            machine_id: self.host,
            from: Some(pause.from_ns),
            to: Some(pause.to_ns),
            cause: "snapshot".to_owned(),
        };
        let gaps: Vec<Gap> = within.map(gap).collect();
        if !gaps.is_empty() {
            // Once for all: the manifest is written each time.
            let writer = self.writer.as_ref().context("recording has not started")?;
            writer.update(|manifest| manifest.gaps.extend(gaps))?;
        }
        Ok(())
    }

    /// Takes the rest and ends the programs; returns what failed.
    fn end_consumer(&mut self) -> Option<anyhow::Error> {
        let (bpf, consumer) = (self.bpf.take()?, self.consumer.take()?);
        let mut rest = CountingSink::default();
        let stopped = bpf.stop_with_rest(consumer, &mut rest);
        self.not_kept = rest.0;
        match stopped {
            Ok(finished) => {
                self.stats = finished.stats;
                self.moved = finished.moved;
                self.stacks = finished.stacks;
                self.stacks_lost = finished.stacks_lost;
                finished.failure.map(|failure| match failure {
                    // The file's own error says what and where.
                    BpfError::Sink(error) => error.into(),
                    other => other.into(),
                })
            }
            Err(error) => Some(error.into()),
        }
    }
}

#[derive(Debug, Default)]
struct Counts {
    events: AtomicU64,
    bytes: AtomicU64,
    /// Events of each log: CPU and number of the log.
    of_logs: Mutex<BTreeMap<(CpuId, u8), u64>>,
}

impl Counts {
    fn of_logs(&self) -> MutexGuard<'_, BTreeMap<(CpuId, u8), u64>> {
        self.of_logs.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Makes a block of every slice.
struct FileSink {
    file: CompactFile,
    counts: Arc<Counts>,
}

impl LogSink for FileSink {
    fn slice(
        &mut self,
        cpu: CpuId,
        side: u8,
        position: u64,
        sync_ns: u64,
        lost: u64,
        words: &[u8],
    ) -> io::Result<()> {
        let slice = Slice { log: LogId { cpu, side }, position, sync_ns, lost, words };
        let (events, bytes) = self.file.slice(&slice).map_err(as_io)?;
        self.counts.events.fetch_add(events, Relaxed);
        *self.counts.of_logs().entry((cpu, side)).or_default() += events;
        self.counts.bytes.fetch_add(bytes, Relaxed);
        Ok(())
    }
}

/// Counts the events of every CPU and keeps none.
#[derive(Default)]
struct CountingSink(BTreeMap<CpuId, u64>);

impl LogSink for CountingSink {
    fn slice(
        &mut self,
        cpu: CpuId,
        _side: u8,
        _position: u64,
        _sync_ns: u64,
        _lost: u64,
        words: &[u8],
    ) -> io::Result<()> {
        let events = transect_compact::count_events(words);
        if events > 0 {
            *self.0.entry(cpu).or_default() += events;
        }
        Ok(())
    }
}

fn totals(stats: &Stats, written: &BTreeMap<(CpuId, u8), u64>, plan: &Plan) -> Totals {
    let overwrites = plan.mode == transect_bpf::Mode::FlightRecorder;
    let in_file = |log: &transect_bpf::LogStats| written.get(&(log.cpu, log.side)).copied();
    let log = |log: &transect_bpf::LogStats| LogTotals {
        cpu: log.cpu.0,
        side: log.side,
        bytes: log.bytes,
        overwritten: match overwrites {
            true => log.events.saturating_sub(in_file(log).unwrap_or(0)),
            // What is not in the file then is missing at its end; the manifest has the count.
            false => 0,
        },
        lost: log.lost,
        lost_first_ns: log.lost_range_ns.map_or(0, |range| range.0),
        lost_last_ns: log.lost_range_ns.map_or(0, |range| range.1),
        saturated: log.saturated,
        more: BTreeMap::new(),
    };
    Totals { logs: stats.logs.iter().map(log).collect(), more: BTreeMap::new() }
}

fn lost_stacks_note(count: u64) -> Option<String> {
    (count > 0).then(|| {
        format!(
            "{count} times a stack was not kept, because another one has its place: these events have no stack"
        )
    })
}

/// Threads and network devices as they are now.
fn names() -> Names {
    let mut names = Names::default();
    for thread in threads::all() {
        names.thread(Tid(thread.tid), Comm::new(thread.comm.as_bytes()));
    }
    for (index, name) in devices() {
        names.device(index, Comm::new(name.as_bytes()));
    }
    names
}

fn devices() -> Vec<(u16, String)> {
    let Ok(entries) = fs::read_dir("/sys/class/net") else { return Vec::new() };
    let device = |entry: fs::DirEntry| {
        let index = fs::read_to_string(entry.path().join("ifindex")).ok()?;
        Some((index.trim().parse().ok()?, entry.file_name().to_string_lossy().into_owned()))
    };
    entries.flatten().filter_map(device).collect()
}
