//! Xen's records, as xentrace sends them, to windows: no process, no clock but the records' own.

use crate::{
    LiveError,
    missing::{Metric, Missing},
    snapshot::Snapshot,
    stream::{STEP_NS, Scene, Stream},
};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use transect_bpf::exit_isa;
use transect_clock::{ClockGraph, ClockOptions, Converter, Evidence};
use transect_engine::{
    LostCause, LostEvents, StreamItem, StreamKey, ToTrace, Topology,
    topology::{MachineInfo, VcpuInfo},
    xen::CLOCK,
    xen_chunks::XenChunks,
};
use transect_model::{
    ids::{CpuId, MachineId, VcpuId},
    time::Timestamp,
};
use transect_xen::Facts;
use transect_xentrace::{IDLE_DOMAIN, XenVersion};

/// The hypervisor.
const XEN: MachineId = MachineId(0);

/// Xen's windows. Their time is Xen's: ns of its TSC.
pub struct XenWindows {
    facts: Facts,
    version: XenVersion,
    chunks: XenChunks,
    clocks: ClockGraph,
    converters: BTreeMap<CpuId, Converter>,
    stream: Stream,
    /// The newest record's time.
    newest: Option<i64>,
    /// Of each pCPU.
    reached: BTreeMap<CpuId, i64>,
    has_begun: bool,
    /// Bytes that are no records, and holes without a count.
    torn: u64,
}

impl XenWindows {
    /// Windows of `window_ns` of the Xen that these facts are about.
    ///
    /// # Errors
    /// The TSC's rate is not known.
    pub fn new(facts: Facts, window_ns: u64) -> Result<Self, LiveError> {
        let version =
            u8::try_from(facts.version.minor).map_or(XenVersion::Unknown, XenVersion::Minor);
        let reference = Evidence::Reference { machine: XEN, clock: CLOCK.to_owned() };
        let tsc_hz = Some(facts.cpu_hz.hz).filter(|hz| *hz > 0);
        let options = ClockOptions { tsc_hz, ..ClockOptions::default() };
        let nowhere =
            |why: String| LiveError::Nothing { missing: crate::missing::everything(&why), why };
        if tsc_hz.is_none() {
            return Err(nowhere("Xen does not report its TSC frequency ('xl info')".to_owned()));
        }
        let clocks = ClockGraph::from_evidence(&[reference], options)
            .map_err(|error| nowhere(error.to_string()))?;
        let stream = Stream::new(topology(&facts), i64::try_from(window_ns).unwrap_or(i64::MAX));
        Ok(XenWindows {
            version,
            chunks: XenChunks::new(version, exit_isa()),
            clocks,
            converters: BTreeMap::new(),
            stream,
            newest: None,
            reached: BTreeMap::new(),
            has_begun: false,
            torn: 0,
            facts,
        })
    }

    /// Takes bytes of xentrace's stream, cut anywhere. Stamps beyond `now` cannot be.
    ///
    /// # Errors
    /// None that end the view: what is no trace is counted, and what follows is read on.
    pub fn bytes(&mut self, bytes: &[u8], now: i64) -> Result<(), LiveError> {
        let mut new: Vec<(CpuId, Vec<StreamItem>)> = Vec::new();
        if self.chunks.read(bytes, &mut |cpu, items| new.push((cpu, items))).is_err() {
            self.torn += bytes.len() as u64;
            self.chunks.restarted();
            self.hole(LostCause::CorruptPage);
        }
        self.push(new, now);
        let stamps: Vec<_> = self.chunks.last_stamps().collect();
        for (cpu, tsc) in stamps {
            if let Some(t) = self.time(cpu, tsc).filter(|t| *t <= now) {
                self.reached.insert(cpu, t);
                self.newest = self.newest.max(Some(t));
            }
        }
        if let Some(newest) = self.newest.filter(|_| self.stream.edge().is_none()) {
            self.stream.begin(newest);
        }
        Ok(())
    }

    fn push(&mut self, items: Vec<(CpuId, Vec<StreamItem>)>, now: i64) {
        for (cpu, items) in items {
            if self.converter(cpu).is_none() {
                continue;
            }
            if let Some(clock) = self.converters.get(&cpu) {
                self.stream.push(StreamKey { machine: XEN, cpu }, items, clock, now);
            }
        }
    }

    fn converter(&mut self, cpu: CpuId) -> Option<&Converter> {
        if !self.converters.contains_key(&cpu) {
            let converter = self.clocks.converter(XEN, cpu).ok()?;
            self.converters.insert(cpu, converter);
        }
        self.converters.get(&cpu)
    }

    fn time(&mut self, cpu: CpuId, tsc: u64) -> Option<i64> {
        let converter = self.converter(cpu)?;
        ToTrace::to_trace(converter, Timestamp::new(tsc)).map(Timestamp::get)
    }

    /// Records of all pCPUs are missing from here on until the next ones.
    pub fn hole(&mut self, cause: LostCause) {
        let lost = LostEvents { count: None, cause };
        for cpu in self.converters.keys() {
            let key = StreamKey { machine: XEN, cpu: *cpu };
            let clock = &self.converters[cpu];
            self.stream.push(key, [StreamItem::Lost(lost)], clock, i64::MAX);
        }
    }

    /// Another xentrace sends from here on: half a window of the one before is forgotten.
    pub fn restarted(&mut self) {
        self.chunks.restarted();
    }

    /// The time of the newest record.
    pub fn newest(&self) -> Option<i64> {
        self.newest
    }

    /// When the window being made ends; none before the first record.
    pub fn edge(&self) -> Option<i64> {
        self.stream.edge()
    }

    /// Have all pCPUs sent records from behind the window's end, so that nothing of it is still to come?
    pub fn is_complete(&self) -> bool {
        let pcpus = usize::try_from(self.facts.cpu_count).unwrap_or(usize::MAX);
        self.stream.edge().is_some_and(|edge| {
            self.reached.len() >= pcpus && self.reached.values().all(|t| *t >= edge)
        })
    }

    /// Goes on to the time `t`, of which everything is there.
    ///
    /// # Errors
    /// As [`Self::window`].
    pub fn advance(&mut self, t: i64) -> Result<(), LiveError> {
        if !std::mem::replace(&mut self.has_begun, true) {
            let mut held = Vec::new();
            self.chunks.begin(&mut |cpu, items| held.push((cpu, items)));
            self.push(held, i64::MAX);
        }
        self.stream.advance(t)
    }

    /// The windows so far were not wanted: the next one begins at or behind `t`. How many were left out.
    ///
    /// # Errors
    /// As [`Self::window`].
    pub fn skip_to(&mut self, t: i64) -> Result<u64, LiveError> {
        self.stream.skip_to(t)
    }

    /// Domains have come, gone or got their names.
    pub fn learn(&mut self, facts: Facts) {
        self.facts = facts;
    }

    /// What is known from Xen's tools.
    pub fn facts(&self) -> &Facts {
        &self.facts
    }

    /// Ends the window: its rows, of `there` (the domains there are; none: not known) and those that did
    /// anything.
    ///
    /// # Errors
    /// The engine refuses the stream, which no stream makes it do.
    pub fn window(&mut self, there: Option<&BTreeSet<u32>>) -> Result<Snapshot, LiveError> {
        let edge = self.stream.edge().unwrap_or(0);
        self.advance(edge)?;
        for machine in self.stream.feed.machines() {
            let known = machine.domid.and_then(|id| self.facts.domains.get(&id));
            let name = known.map(|domain| domain.name.as_str()).filter(|name| !name.is_empty());
            if let Some(name) =
                name.filter(|name| machine.domid != Some(0) && machine.name != **name)
            {
                self.stream.feed.name_machine(machine.machine_id, name);
            }
        }
        let scene = Scene { vm_of_device: &HashMap::new(), domains: there };
        let mut snapshot = self.stream.window(&scene)?;
        if self.stream.is_crowded() {
            self.stream.begin_anew(topology(&self.facts));
        }
        snapshot.missing = self.missing(&snapshot);
        snapshot.health.missed_events = self.stream.lost_events();
        snapshot.health.no_room = self.stream.no_room();
        Ok(snapshot)
    }

    /// What cannot be had under Xen.
    pub fn missing(&self, snapshot: &Snapshot) -> Vec<Missing> {
        let mut missing = missing();
        let mask = self.facts.event_mask;
        let mut lacks = |bits: u32, metric: Metric, why: &str| {
            if mask & bits != bits {
                missing.push(Missing::everywhere(metric, why));
            }
        };
        lacks(0x0028_0000, Metric::Exits, "Xen's exit and hypercall records are disabled");
        for id in self.stream.paravirtual() {
            if !snapshot.machines.iter().any(|machine| machine.machine_id == *id) {
                continue;
            }
            let why = "Xen records a PV guest's entries into Xen, but not the returns to the guest";
            // The last two are columns of its exits, which are counted all the same.
            let words = [Metric::GuestTime.as_str(), Metric::ExitDurations.as_str()];
            missing.extend(words.into_iter().chain(["total_ns", "handling_ns"]).map(|word| {
                Missing { metric: word.to_owned(), machine_id: Some(*id), why: why.to_owned() }
            }));
        }
        if self.torn > 0 {
            missing.push(Missing {
                metric: "records".to_owned(),
                machine_id: None,
                why: format!("{} bytes from xentrace were not valid records", self.torn),
            });
        }
        missing
    }

    /// The Xen whose records these are.
    pub fn version(&self) -> XenVersion {
        self.version
    }

    /// How long a step is that keeps few records waiting, ns.
    pub const STEP_NS: i64 = STEP_NS;
}

/// What cannot be had, whatever the domains.
pub(super) fn missing() -> Vec<Missing> {
    let of_xen = "Xen's scheduling trace does not contain it";
    let of_dom0 = "recorded by dom0's kernel only; use transect top --source bpf";
    let mut missing: Vec<Missing> =
        [Metric::BlockIo, Metric::NetIo, Metric::NetDurations, Metric::Throttling]
            .into_iter()
            .chain([Metric::Pressure, Metric::GroupPressure])
            .map(|metric| Missing::everywhere(metric, of_dom0))
            .collect();
    missing.push(Missing::everywhere(Metric::Injections, of_xen));
    missing.push(Missing {
        metric: "dom0_threads".to_owned(),
        machine_id: None,
        why: "Xen schedules vCPUs; only dom0's kernel has its threads (transect top --source bpf)"
            .to_owned(),
    });
    missing
}

/// Xen and the domains there are.
fn topology(facts: &Facts) -> Topology {
    let mut xen = MachineInfo::hypervisor(XEN, "xen");
    xen.clock = Some(CLOCK.to_owned());
    let mut topology = Topology { machines: vec![xen], ..Topology::default() };
    let is_one = |id: &u32| *id < u32::from(IDLE_DOMAIN);
    for (number, (domid, domain)) in
        (1..).zip(facts.domains.iter().filter(|(domid, _)| is_one(domid)))
    {
        let id = MachineId(number);
        let name = match domid {
            0 => "dom0".to_owned(),
            _ if domain.name.is_empty() => format!("dom{domid}"),
            _ => domain.name.clone(),
        };
        let info = MachineInfo { domid: Some(*domid), ..MachineInfo::guest(id, XEN, name) };
        topology.machines.push(info);
        topology.vcpus.extend((0..domain.vcpus).map(|vcpu| VcpuInfo {
            machine: id,
            vcpu: VcpuId(vcpu),
            vmm_tid: None,
            guest_cpu: CpuId(vcpu),
        }));
    }
    topology
}
