//! Xen, seen from its dom0: xentrace's stream through the engine.
//!
//! The hypervisor is machine 0, its domains are the others. A window is made when every pCPU has sent
//! records from behind its end, or when that has had time enough to come: `xentrace` looks into Xen's
//! buffers ten times a second, and so does the collector into its pipe twice as often.

mod windows;

pub use windows::XenWindows;

use crate::{
    LiveError, Source,
    missing::{Missing, everything},
    snapshot::Snapshot,
};
use std::{
    collections::{BTreeSet, VecDeque},
    io,
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};
use transect_bpf::live::{LivePlan, monotonic_ns};
use transect_engine::LostCause;
use transect_tracefs::CpuTime;
use transect_xen::{
    Collector, DEFAULT_BUFFER_BYTES, Dom0, Ending, EventMask, Facts, Place, TracePlan, TraceSink,
    XenStore, detect, end_leftovers, other_xentrace,
};

/// Records of a window may come so long after its end: two looks of `xentrace` and two of the collector,
/// on a machine that is busy. Only a pCPU that records nothing at all makes anybody wait for so long.
const PATIENCE_NS: i64 = 1_000_000_000;
/// Stamps so far ahead of what was expected cannot be.
const AHEAD_NS: i64 = 5_000_000_000;
/// What waits to be read at most. A reader that is so late loses records, and is told.
const MOST_BYTES: usize = 64 << 20;
/// How long records were under way is measured anew so often: clocks drift.
const LEAD_FOR: Duration = Duration::from_secs(10);
/// Nobody looks longer for the first record.
const FIRST_PATIENCE: Duration = Duration::from_secs(20);
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// What the collector's thread hands over.
enum Piece {
    Bytes(Vec<u8>),
    Ended(Ending),
    /// There was no room for more.
    Dropped,
}

#[derive(Default)]
struct Queue {
    pieces: VecDeque<Piece>,
    bytes: usize,
}

#[derive(Default)]
struct Shared {
    queue: Mutex<Queue>,
    come: Condvar,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What has come; waits a while for something.
    fn take(&self, patience: Duration) -> VecDeque<Piece> {
        let queue = self.lock();
        let waited = self.come.wait_timeout_while(queue, patience, |queue| queue.pieces.is_empty());
        let (mut queue, _) = waited.unwrap_or_else(PoisonError::into_inner);
        queue.bytes = 0;
        std::mem::take(&mut queue.pieces)
    }
}

struct Sink(Arc<Shared>);

impl TraceSink for Sink {
    fn windows(&mut self, windows: &[u8]) -> io::Result<()> {
        let mut queue = self.0.lock();
        if queue.bytes + windows.len() <= MOST_BYTES {
            queue.bytes += windows.len();
            queue.pieces.push_back(Piece::Bytes(windows.to_vec()));
        } else if !matches!(queue.pieces.back(), Some(Piece::Dropped)) {
            queue.pieces.push_back(Piece::Dropped);
        }
        drop(queue);
        self.0.come.notify_one();
        Ok(())
    }

    fn ended(&mut self, ending: &Ending) {
        self.0.lock().pieces.push_back(Piece::Ended(ending.clone()));
        self.0.come.notify_one();
    }
}

/// How far this machine's clock is ahead of Xen's records: at least.
#[derive(Debug, Default)]
struct Lead {
    since: Option<Instant>,
    now: Option<i64>,
    before: Option<i64>,
}

impl Lead {
    fn saw(&mut self, lead: i64) {
        if self.since.is_none_or(|since| since.elapsed() > LEAD_FOR) {
            self.since = Some(Instant::now());
            self.before = self.now.take().or(self.before);
        }
        self.now = Some(self.now.map_or(lead, |now| now.min(lead)));
    }

    /// The time of Xen's records when this machine's clock shows `ns`.
    fn time_at(&self, ns: i64) -> Option<i64> {
        [self.now, self.before].into_iter().flatten().min().map(|lead| ns - lead)
    }
}

/// Xen and its domains.
pub struct XenSource {
    windows: XenWindows,
    window_ns: u64,
    shared: Arc<Shared>,
    collector: Option<Collector>,
    store: Option<XenStore>,
    there: Option<BTreeSet<u32>>,
    lead: Lead,
    cpu_ns: u64,
    /// What went on in this window that people should know.
    told: Vec<Missing>,
}

/// Is this a dom0 of Xen that can be watched? Else why not; none where there is no Xen.
pub(crate) fn place() -> Result<Dom0, Option<String>> {
    match detect() {
        Place::NotXen => Err(None),
        // Its kernel is watched as any other.
        Place::DomU(_) => Err(None),
        Place::Dom0(dom0) => match dom0.lacks.first() {
            Some(lack) => Err(Some(format!("{}; to fix it: {}", lack.what, lack.mend))),
            None => Ok(dom0),
        },
    }
}

fn nothing(why: String) -> LiveError {
    LiveError::Nothing { missing: everything(&why), why }
}

fn now_ns() -> i64 {
    i64::try_from(monotonic_ns()).unwrap_or(i64::MAX)
}

impl XenSource {
    /// Begins to watch Xen: starts `xentrace`, and returns when it sends records.
    ///
    /// # Errors
    /// This is no dom0, its tools are missing, or another `xentrace` runs: only one process can take
    /// Xen's records.
    pub fn start(plan: &LivePlan) -> Result<Self, LiveError> {
        plan.check()?;
        let window_ns = plan.window_ns;
        let dom0 = place().map_err(|why| {
            nothing(why.unwrap_or_else(|| "this machine is not a Xen dom0".to_owned()))
        })?;
        let _ended = end_leftovers();
        if let Some(pid) = other_xentrace() {
            return Err(nothing(format!(
                "another xentrace is running (pid {pid}), and only one process can read Xen's records: stop it, or \
                 observe dom0's kernel alone with --source bpf"
            )));
        }
        let mask = EventMask::default();
        let mut notes = Vec::new();
        let facts = Facts::gather(&dom0.tools, &dom0.version, mask, &mut notes)?;
        let xentrace = dom0.tools.find("xentrace")?;
        let plan = TracePlan { xentrace, mask, buffer_bytes_per_cpu: DEFAULT_BUFFER_BYTES };
        let shared = Arc::<Shared>::default();
        let windows = XenWindows::new(facts, window_ns)?;
        let store = XenStore::connect();
        let mut told: Vec<Missing> = notes.into_iter().map(remark).collect();
        if let Err(error) = &store {
            told.push(remark(format!("new domains have no names: {error}")));
        }
        let collector = Collector::start(plan, Box::new(Sink(shared.clone())))?;
        let mut source = XenSource {
            windows,
            window_ns,
            shared,
            collector: Some(collector),
            store: store.ok(),
            there: None,
            lead: Lead::default(),
            cpu_ns: 0,
            told,
        };
        source.look_at_domains(true);
        source.cpu_ns = source.own_cpu_ns();
        Ok(source)
    }

    fn own_cpu_ns(&self) -> u64 {
        let own = CpuTime::of_this_process();
        own.user_ns + own.sys_ns + self.collector.as_ref().map_or(0, Collector::cpu_ns)
    }

    /// Which domains there are. xenstored tells when that changes, so asking costs next to nothing.
    fn look_at_domains(&mut self, is_first: bool) {
        let Some(store) = &mut self.store else { return };
        let found = match store.has_news() {
            Ok(false) if !is_first => return,
            Ok(_) => store.domains(),
            Err(error) => Err(error),
        };
        match found {
            Ok(named) => {
                let mut facts = self.windows.facts().clone();
                facts.domains.retain(|id, _| *id == 0 || named.contains_key(id));
                for (id, named) in &named {
                    facts.learn_named(*id, named);
                }
                self.there = Some(named.keys().copied().chain([0]).collect());
                self.windows.learn(facts);
            }
            Err(error) => {
                self.told.push(remark(format!("new domains have no names: {error}")));
                (self.store, self.there) = (None, None);
            }
        }
    }

    /// Takes what has come.
    fn read(&mut self, patience: Duration) -> Result<(), LiveError> {
        for piece in self.shared.take(patience) {
            match piece {
                Piece::Bytes(bytes) => self.bytes(&bytes)?,
                Piece::Ended(ending) => self.ended(&ending)?,
                Piece::Dropped => {
                    self.windows.restarted();
                    self.windows.hole(LostCause::BufferOverrun);
                    self.told.push(remark(format!(
                        "windows were read so late that more than {} MiB of records queued up: some records are lost",
                        MOST_BYTES >> 20
                    )));
                }
            }
        }
        Ok(())
    }

    fn bytes(&mut self, bytes: &[u8]) -> Result<(), LiveError> {
        let now = now_ns();
        let limit = self.lead.time_at(now).map_or(i64::MAX, |t| t.saturating_add(AHEAD_NS));
        self.windows.bytes(bytes, limit)?;
        if let Some(newest) = self.windows.newest() {
            self.lead.saw(now - newest);
        }
        Ok(())
    }

    fn ended(&mut self, ending: &Ending) -> Result<(), LiveError> {
        if ending.final_one {
            return Err(self.given_up(ending.to_string()));
        }
        self.windows.restarted();
        let what = if ending.how.tracing_goes_on() {
            "Xen's buffers kept the records meanwhile, unless the buffers overran"
        } else {
            self.windows.hole(LostCause::XentraceEnded);
            "Xen traced nothing meanwhile: that time is unknown"
        };
        self.told.push(remark(format!("{ending}; xentrace was restarted: {what}")));
        Ok(())
    }

    fn given_up(&mut self, why: String) -> LiveError {
        let finished = self.collector.take().map(Collector::stop).unwrap_or_default();
        match finished.failure {
            Some(error) => error.into(),
            None => nothing(why),
        }
    }

    /// Waits until the window's records are there.
    fn wait(&mut self) -> Result<(), LiveError> {
        let begun = Instant::now();
        loop {
            // What has come until here is read below; what comes while that goes on is not.
            let asked_ns = now_ns();
            self.read(LOOK_EVERY)?;
            if self.collector.as_ref().is_none_or(Collector::has_failed) {
                return Err(self.given_up("xentrace has ended".to_owned()));
            }
            let Some(edge) = self.windows.edge() else {
                if begun.elapsed() > FIRST_PATIENCE {
                    return Err(nothing("xentrace is running, but sends no records".to_owned()));
                }
                continue;
            };
            let now = self.lead.time_at(asked_ns).unwrap_or(edge);
            if self.windows.is_complete() || now >= edge.saturating_add(PATIENCE_NS) {
                return Ok(());
            }
            // Step by step, so that few records wait.
            let done = (now - PATIENCE_NS).min(edge);
            self.windows.advance(done - done.rem_euclid(XenWindows::STEP_NS))?;
        }
    }
}

/// Something that people should know, and that makes no column null.
fn remark(why: String) -> Missing {
    Missing { metric: "records".to_owned(), machine_id: None, why }
}

impl Source for XenSource {
    fn window_ns(&self) -> u64 {
        self.window_ns
    }

    fn next_edge_ns(&self) -> Option<u64> {
        let (edge, now) = (self.windows.edge()?, now_ns());
        let at = now + edge - self.lead.time_at(now)?;
        u64::try_from(at).ok()
    }

    fn missing(&self) -> Vec<Missing> {
        let mut missing = windows::missing();
        missing.extend(self.told.iter().cloned());
        missing
    }

    fn take(&mut self) -> Result<Snapshot, LiveError> {
        self.wait()?;
        self.look_at_domains(false);
        if let Some(collector) = &self.collector {
            self.told.extend(collector.take_notes().into_iter().map(remark));
        }
        let mut snapshot = self.windows.window(self.there.as_ref())?;
        snapshot.missing.append(&mut self.told);
        let ended = snapshot.ts + snapshot.dur;
        let late_ns = self.lead.time_at(now_ns()).map_or(0, |now| (now - ended).max(0));
        let unix = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let unix_ns = u64::try_from(unix.as_nanos()).unwrap_or(u64::MAX);
        snapshot.ended_unix_ns = unix_ns.saturating_sub(late_ns.unsigned_abs());
        let cpu_ns = self.own_cpu_ns();
        snapshot.health.own_cpu_ns = cpu_ns.saturating_sub(self.cpu_ns);
        self.cpu_ns = cpu_ns;
        Ok(snapshot)
    }
}
