//! A sink that keeps what a guest sends as a recorder would: compact blocks in a file, and the
//! clock evidence.

use std::{
    sync::{Arc, Mutex},
    thread,
    time::{Duration, Instant},
};
use transect_clock::{ClockGraph, ClockOptions, Evidence};
use transect_compact::{
    BlockWriter, Compact, FileHeader, Item, LogId, LogTotals, Names, Slice, SliceSink, Totals,
    count_events,
};
use transect_guest::{
    describe,
    exchange::Bracket,
    proto::{CpuStats, Started, Words},
    serve::MetaFile,
    session::{Beginning, Gap, GuestSink, SinkError},
    settings::GuestSettings,
    stamp::TscReading,
};
use transect_model::{
    event::{Comm, CoreEvent},
    exit::Isa,
    ids::{CpuId, MachineId, Tid},
};

pub(crate) const HOST: MachineId = MachineId(0);
pub(crate) const GUEST: MachineId = MachineId(1);

/// One link's worth: a compact file.
pub(crate) struct Source {
    pub(crate) started: Started,
    pub(crate) continues: bool,
    pub(crate) same_boot: bool,
    pub(crate) cpu_count: u32,
    pub(crate) threads: Vec<describe::Thread>,
    pub(crate) settings: GuestSettings,
    pub(crate) file: Option<BlockWriter<Vec<u8>>>,
    /// The finished file; as a killed recorder leaves it, if the guest was lost.
    pub(crate) bytes: Vec<u8>,
    pub(crate) logs: Option<Vec<describe::LogTotals>>,
}

#[derive(Default)]
pub(crate) struct Kept {
    pub(crate) sources: Vec<Source>,
    pub(crate) page_bytes: usize,
    pub(crate) word_bytes: usize,
    pub(crate) brackets: Vec<Bracket>,
    pub(crate) readings: Vec<TscReading>,
    pub(crate) gaps: Vec<Gap>,
    pub(crate) notes: Vec<String>,
}

#[derive(Clone, Default)]
pub(crate) struct Keeper {
    kept: Arc<Mutex<Kept>>,
    dies_at_bytes: Option<usize>,
}

impl Keeper {
    pub(crate) fn that_dies_at_bytes(limit: usize) -> Self {
        Keeper { dies_at_bytes: Some(limit), ..Keeper::default() }
    }

    pub(crate) fn look<R>(&self, look: impl FnOnce(&Kept) -> R) -> R {
        look(&self.kept.lock().unwrap())
    }

    pub(crate) fn until(&self, what: &str, condition: impl Fn(&Kept) -> bool) {
        let deadline = Instant::now() + Duration::from_secs(40);
        while !self.look(&condition) {
            let notes = self.look(|kept| kept.notes.clone());
            assert!(Instant::now() < deadline, "never: {what}; notes: {notes:?}");
            thread::sleep(Duration::from_millis(5));
        }
    }
}

fn names_of(threads: &[describe::Thread]) -> Names {
    let mut names = Names::default();
    for thread in threads {
        names.thread(Tid(thread.tid), Comm::new(thread.name.as_bytes()));
    }
    names
}

impl GuestSink for Keeper {
    fn begin(&mut self, beginning: &Beginning<'_>) -> Result<(), SinkError> {
        let mut kept = self.kept.lock().unwrap();
        let threads = describe::Names::from_meta(beginning.meta).threads;
        let settings = GuestSettings::from_meta(beginning.meta);
        let file = match &beginning.started.compact {
            Some(_) => {
                let header = FileHeader::new(beginning.facts.cpu_count, Isa::Vmx, "");
                let mut file = BlockWriter::new(Vec::new(), &header)?;
                file.names(&names_of(&threads))?;
                Some(file)
            }
            None => None,
        };
        kept.sources.push(Source {
            started: beginning.started.clone(),
            continues: beginning.continues,
            same_boot: beginning.same_boot,
            cpu_count: beginning.facts.cpu_count,
            threads,
            settings,
            file,
            bytes: Vec::new(),
            logs: None,
        });
        Ok(())
    }

    fn pages(&mut self, _cpu: u32, pages: &[u8]) -> Result<(), SinkError> {
        self.kept.lock().unwrap().page_bytes += pages.len();
        Ok(())
    }

    fn words(&mut self, slice: &Words<'_>) -> Result<u64, SinkError> {
        let mut kept = self.kept.lock().unwrap();
        kept.word_bytes += slice.words.len();
        if self.dies_at_bytes.is_some_and(|limit| kept.word_bytes > limit) {
            return Err("died".into());
        }
        let source = kept.sources.last_mut().ok_or("words before their source")?;
        let file = source.file.as_mut().ok_or("words of a full recording")?;
        file.slice(Slice {
            log: LogId { cpu: CpuId(slice.cpu), side: slice.side },
            position: slice.position,
            sync_ns: slice.sync_ns,
            lost: slice.lost,
            words: slice.words,
        })?;
        Ok(count_events(slice.words))
    }

    fn reading(&mut self, reading: &TscReading) -> Result<(), SinkError> {
        self.kept.lock().unwrap().readings.push(*reading);
        Ok(())
    }

    fn bracket(&mut self, bracket: &Bracket) -> Result<(), SinkError> {
        self.kept.lock().unwrap().brackets.push(*bracket);
        Ok(())
    }

    fn gap(&mut self, gap: &Gap) -> Result<(), SinkError> {
        self.kept.lock().unwrap().gaps.push(*gap);
        Ok(())
    }

    fn end(&mut self, meta: &[MetaFile], _cpus: &[CpuStats]) -> Result<(), SinkError> {
        let mut kept = self.kept.lock().unwrap();
        let Some(source) = kept.sources.last_mut() else { return Ok(()) };
        let Some(mut file) = source.file.take() else { return Ok(()) };
        source.logs = describe::logs_from_meta(meta);
        source.bytes = match &source.logs {
            None => file.into_inner(),
            Some(logs) => {
                let more = describe::Names::from_meta(meta).threads;
                file.names(&names_of(&more))?;
                file.finish(&totals(logs))?
            }
        };
        Ok(())
    }

    fn note(&mut self, text: &str) {
        self.kept.lock().unwrap().notes.push(text.to_owned());
    }
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

/// Every event of a compact file, with the stamps as the guest wrote them. Problems are the test's.
pub(crate) fn events(file: &[u8]) -> Vec<(u64, Tid, CoreEvent)> {
    let compact = Compact::parse(file).unwrap();
    assert!(compact.problems().is_empty(), "{:?}", compact.problems());
    let mut events = Vec::new();
    for cpu in compact.cpus() {
        for item in compact.stream(cpu).unwrap() {
            match item {
                Item::Event { ts, tid, event } => events.push((ts.get(), tid, event)),
                other => panic!("cpu {cpu}: {other:?}"),
            }
        }
    }
    events
}

impl Kept {
    /// The clock evidence of the guest, as it goes into a recording.
    pub(crate) fn evidence(&self) -> Vec<Evidence> {
        let exchange = |b: &Bracket| Evidence::Exchange {
            machine: GUEST,
            parent: HOST,
            host_send: b.host_send,
            guest: b.guest,
            host_recv: b.host_recv,
        };
        let readings = self.readings.iter().map(|r| reading(GUEST, r));
        self.brackets.iter().map(exchange).chain(readings).collect()
    }
}

pub(crate) fn reading(machine: MachineId, r: &TscReading) -> Evidence {
    Evidence::TscReading {
        machine,
        clock: r.clock.name().to_owned(),
        tsc_before: r.tsc_before,
        ns: r.ns,
        tsc_after: r.tsc_after,
    }
}

/// Both machines in mono.
pub(crate) fn graph(evidence: Vec<Evidence>) -> ClockGraph {
    let mono = || "mono".to_owned();
    let mut all = vec![
        Evidence::Reference { machine: HOST, clock: mono() },
        Evidence::SourceClock { machine: GUEST, clock: mono() },
    ];
    all.extend(evidence);
    ClockGraph::from_evidence(&all, ClockOptions::default()).unwrap()
}
