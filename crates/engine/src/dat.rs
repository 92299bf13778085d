//! trace.dat files as streams: the adapter from the codec to the engine.
//!
//! [`pair`] looks at the files of one recording (a host's and its guests', as trace-cmd or transect
//! wrote them) and says who is who; [`DatSource`] then gives the streams of one file.

use crate::{
    align::{Input, ToTrace},
    infer,
    stream::{EventStream, LostCause, LostEvents, StreamItem, StreamKey},
    topology::{MachineInfo, ThreadInfo, Topology, VcpuInfo},
};
use rustc_hash::FxHashSet;
use std::ops::ControlFlow;
use transect_clock::{ClockError, ClockGraph, Converter, Evidence, evidence::RateSource};
use transect_ftrace::{CoreDecoder, EventTable};
use transect_model::{
    event::CoreEvent,
    ids::{CpuId, MachineId, Tid, VcpuId},
    setting::ThreadSettings,
    table::ImportLog,
    time::{Source, Timestamp, Trace},
};
use transect_tracedat::{Guest, Item, Problem, Stream, TraceDat};

/// vCPUs looked for in one file; more than any host runs.
const MAX_VCPUS: usize = 65_536;
/// Problems of one stream listed one by one at most.
const MAX_PROBLEMS: usize = 100;

impl ToTrace for Converter {
    fn to_trace(&self, ts: Timestamp<Source>) -> Option<Timestamp<Trace>> {
        self.trace_only(ts).ok()
    }

    #[inline]
    fn follow(&mut self, ts: Timestamp<Source>) -> Option<Timestamp<Trace>> {
        Converter::follow(self, ts).ok()
    }
}

/// One file of a recording and the machine that wrote its events.
#[derive(Debug)]
pub struct DatSource<'t, 'd> {
    trace: &'t TraceDat<'d>,
    machine: MachineId,
    /// For messages.
    name: String,
    /// How often the machine was booted again before.
    boot: usize,
    core: CoreDecoder,
}

impl<'t, 'd> DatSource<'t, 'd> {
    /// Prepares a file; `name` is what messages call it.
    pub fn new(trace: &'t TraceDat<'d>, machine: MachineId, name: impl Into<String>) -> Self {
        let core = CoreDecoder::new(trace.events());
        DatSource { trace, machine, name: name.into(), boot: 0, core }
    }

    /// The same source, begun after the machine was booted again so many times
    /// ([`ClockGraph::boot_of_source`]).
    #[must_use]
    pub fn of_boot(self, boot: usize) -> Self {
        DatSource { boot, ..self }
    }

    /// The streams of every CPU of every buffer (instances' too) whose clock is the machine's.
    /// Errors: the clock graph cannot place one of the CPUs.
    pub fn inputs(
        &self,
        clocks: &ClockGraph,
    ) -> Result<Vec<Input<DatStream<'_, 'd>, Converter>>, ClockError> {
        let clock = clocks.clock(self.machine);
        let mut inputs = Vec::new();
        for buffer in self.trace.buffers().iter().filter(|b| same_clock(&b.clock, clock)) {
            for cpu in buffer.cpus() {
                let Some(stream) = self.trace.stream(buffer, cpu) else { continue };
                let key = StreamKey { machine: self.machine, cpu: CpuId(cpu) };
                let clock = clocks.converter_of_boot(self.machine, key.cpu, self.boot)?;
                inputs.push(Input { key, stream: self.stream(stream), clock });
            }
        }
        Ok(inputs)
    }

    fn stream(&self, stream: Stream<'d>) -> DatStream<'_, 'd> {
        DatStream {
            stream,
            events: self.trace.events(),
            core: &self.core,
            name: &self.name,
            problems: Vec::new(),
            problems_more: 0,
        }
    }

    /// What the file itself lacks, what its kernel's events lack, and which buffers cannot be
    /// aligned: for the import log.
    pub fn remarks(&self, clocks: &ClockGraph) -> Vec<ImportLog> {
        let mut remarks: Vec<ImportLog> =
            self.trace.problems().iter().map(|p| remark(&self.name, p)).collect();
        let mut say = |message: String| {
            remarks.push(ImportLog {
                source: self.name.clone(),
                offset: None,
                message,
                data_loss: true,
            });
        };
        for event in self.core.incomplete() {
            say(format!(
                "{event} lacks a field that its state machine needs; the event is ignored"
            ));
        }
        let clock = clocks.clock(self.machine);
        for buffer in self.trace.buffers().iter().filter(|b| !same_clock(&b.clock, clock)) {
            say(format!(
                "buffer '{}' has timestamps of clock '{}', expected '{clock}'; its events are skipped",
                buffer.name, buffer.clock
            ));
        }
        let dropped: u64 = self.trace.options().cpu_stats.iter().map(|s| s.dropped_events).sum();
        if dropped > 0 {
            say(format!(
                "the kernel dropped {dropped} events because the buffer was full and did not record \
                 when; states may be wrong: record again with larger buffers"
            ));
        }
        if self.trace.options().date.is_some() {
            remarks.push(ImportLog {
                source: self.name.clone(),
                offset: None,
                message:
                    "wall-clock time is unknown: the file's DATE option has no error bound and \
                          is not used"
                        .to_owned(),
                data_loss: false,
            });
        }
        remarks
    }
}

/// An instance without a clock of its own has the file's.
fn same_clock(buffer: &str, machine: &str) -> bool {
    buffer.is_empty() || buffer == machine
}

fn remark(source: &str, problem: &Problem) -> ImportLog {
    ImportLog {
        source: source.to_owned(),
        offset: Some(problem.at_bytes),
        message: format!("{}: {}", problem.place, problem.what),
        data_loss: true,
    }
}

/// One CPU of one buffer of a file.
#[derive(Debug)]
pub struct DatStream<'t, 'd> {
    stream: Stream<'d>,
    events: &'t EventTable,
    core: &'t CoreDecoder,
    name: &'t str,
    problems: Vec<ImportLog>,
    problems_more: u64,
}

impl DatStream<'_, '_> {
    fn note(&mut self, problem: &Problem) {
        if self.problems.len() < MAX_PROBLEMS {
            self.problems.push(remark(self.name, problem));
        } else {
            self.problems_more += 1;
        }
    }
}

impl EventStream for DatStream<'_, '_> {
    fn left(&self) -> u64 {
        self.stream.left() as u64
    }

    #[inline]
    fn next_item(&mut self) -> Option<StreamItem> {
        match self.stream.next()? {
            Item::Event { ts, payload } => Some(decode(self.events, self.core, ts, payload)),
            Item::Lost { count, .. } => {
                Some(StreamItem::Lost(LostEvents { count, cause: LostCause::BufferOverrun }))
            }
            Item::Problem(problem) => {
                self.note(&problem);
                Some(StreamItem::Lost(LostEvents { count: None, cause: LostCause::CorruptPage }))
            }
        }
    }

    fn next_batch(&mut self, items: &mut Vec<StreamItem>, limit: usize) {
        let end = items.len() + limit;
        while items.len() < end {
            let (events, core) = (self.events, self.core);
            let mut told = None;
            let goes_on = self.stream.each_on_page(|item| {
                match item {
                    Item::Event { ts, payload } => items.push(decode(events, core, ts, payload)),
                    Item::Lost { count, .. } => {
                        let cause = LostCause::BufferOverrun;
                        items.push(StreamItem::Lost(LostEvents { count, cause }));
                    }
                    Item::Problem(problem) => {
                        let cause = LostCause::CorruptPage;
                        items.push(StreamItem::Lost(LostEvents { count: None, cause }));
                        told = Some(problem);
                    }
                }
                if items.len() < end { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
            });
            if let Some(problem) = told {
                self.note(&problem);
            }
            if !goes_on {
                return;
            }
        }
    }

    fn problems(&self) -> Vec<ImportLog> {
        let mut problems = self.problems.clone();
        if self.problems_more > 0 {
            problems.push(ImportLog {
                source: self.name.to_owned(),
                offset: None,
                message: format!("{} more problems of the same stream", self.problems_more),
                data_loss: true,
            });
        }
        problems
    }
}

#[inline]
fn decode(
    events: &EventTable,
    core: &CoreDecoder,
    ts: Timestamp<Source>,
    payload: &[u8],
) -> StreamItem {
    let tid = events.tid_of(payload).unwrap_or(Tid::IDLE);
    match core.decode(payload) {
        Some(event) => StreamItem::Event { ts, tid, quiet: 0, event },
        None => StreamItem::Other { ts, tid, quiet: 0 },
    }
}

/// What the files of one recording say about each other.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Pairing {
    /// Machine 0 is the host, then its guests.
    pub topology: Topology,
    /// The machine of each file, in the order given.
    pub machine_of_file: Vec<MachineId>,
    /// What the files say about clocks.
    pub evidence: Vec<Evidence>,
    /// What was assumed, for the import log.
    pub notes: Vec<String>,
}

/// Why files do not make one recording.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PairError {
    /// Nothing to look at.
    #[error("no trace.dat given")]
    NoFile,
    /// Two files that do not say that they belong together.
    #[error(
        "{first} and {second} do not belong to one recording: neither names the other as its \
         guest (trace-cmd record -A writes such pairs); import them one by one"
    )]
    Unrelated {
        /// The file taken as the host's.
        first: String,
        /// The one that does not fit.
        second: String,
    },
}

/// Finds out which file is the host's and which are its guests'.
///
/// A guest's file has a TIME_SHIFT option naming its host's TRACEID, a host's file lists its guests
/// in GUEST options with the threads that run their CPUs. A single file is a host's, even if it is
/// a guest's of some other recording: then its events stand alone.
pub fn pair(files: &[(&str, &TraceDat<'_>)]) -> Result<Pairing, PairError> {
    let host = host_of(files).ok_or(PairError::NoFile)?;
    let (host_name, host_dat) = files[host];
    let mut pairing = Pairing::default();
    let clock = host_dat.buffers().first().map(|b| b.clock.clone()).unwrap_or_default();
    pairing.topology.machines.push(MachineInfo {
        clock: Some(clock.clone()),
        ..MachineInfo::host(MachineId(0), node_name(host_dat).unwrap_or("host"))
    });
    pairing.host_evidence(host_dat, clock);
    for guest in &host_dat.options().guests {
        pairing.add_guest(guest);
    }
    if host_dat.options().guests.is_empty() {
        pairing.infer_guests(host_dat);
    }
    for (at, (name, dat)) in files.iter().enumerate() {
        let machine = if at == host {
            MachineId(0)
        } else {
            pairing.guest_file(host_dat, dat).ok_or_else(|| PairError::Unrelated {
                first: host_name.to_owned(),
                second: (*name).to_owned(),
            })?
        };
        pairing.threads(machine, dat);
        pairing.machine_of_file.push(machine);
    }
    Ok(pairing)
}

/// The vCPUs that `kvm_entry` names anywhere in the file, and their threads.
fn vcpu_threads(dat: &TraceDat<'_>) -> FxHashSet<(VcpuId, Tid)> {
    let mut found = FxHashSet::default();
    let Some(entry) = dat.events().find("kvm", "kvm_entry") else { return found };
    let core = CoreDecoder::new(dat.events());
    for buffer in dat.buffers() {
        for cpu in buffer.cpus() {
            let Some(mut stream) = dat.stream(buffer, cpu) else { continue };
            while let Some(item) = stream.next() {
                if let Item::Event { payload, .. } = item
                    && dat.events().id_of(payload) == Some(entry.id)
                    && let Some(tid) = dat.events().tid_of(payload)
                    && let Some(CoreEvent::KvmEntry { vcpu: Some(vcpu), .. }) =
                        core.decode_id(entry.id, payload)
                    && found.len() < MAX_VCPUS
                {
                    found.insert((vcpu, tid));
                }
            }
        }
    }
    found
}

fn host_of(files: &[(&str, &TraceDat<'_>)]) -> Option<usize> {
    let is_host = |dat: &TraceDat<'_>| dat.options().time_shift.is_none();
    let lists = files.iter().position(|(_, dat)| !dat.options().guests.is_empty());
    let plain = || files.iter().position(|(_, dat)| is_host(dat));
    lists.or_else(plain).or_else(|| (!files.is_empty()).then_some(0))
}

/// The second word of UNAME (`uname -a`); a kernel that was given no host name says `(none)`.
fn node_name<'a>(dat: &'a TraceDat<'_>) -> Option<&'a str> {
    let name = dat.options().uname.as_deref()?.split_whitespace().nth(1)?;
    (name != "(none)").then_some(name)
}

impl Pairing {
    fn host_evidence(&mut self, dat: &TraceDat<'_>, clock: String) {
        self.evidence.push(Evidence::Reference { machine: MachineId(0), clock });
        if let Some(rate) = dat.options().tsc2nsec {
            self.evidence.push(Evidence::TscRate {
                machine: MachineId(0),
                mult: rate.mult,
                shift: rate.shift,
                // Stamps are to be those that trace-cmd report prints.
                offset_ns: 0,
                how: RateSource::Tsc2nsec,
                error_ppm: 0.0,
            });
        }
    }

    fn add_guest(&mut self, guest: &Guest) -> MachineId {
        let machine = self.next_machine();
        let info = MachineInfo::guest(machine, MachineId(0), guest.name.clone());
        self.topology.machines.push(info);
        for (cpu, tid) in &guest.cpus {
            self.topology.vcpus.push(VcpuInfo {
                machine,
                vcpu: VcpuId(*cpu),
                vmm_tid: (*tid > 0).then_some(Tid(*tid)),
                guest_cpu: CpuId(*cpu),
            });
        }
        machine
    }

    /// A host's file that lists no guests may still show vCPUs: `kvm_entry` names them.
    fn infer_guests(&mut self, dat: &TraceDat<'_>) {
        let pairs = vcpu_threads(dat);
        let mut named = Vec::new();
        for (vm, vcpu, tid) in infer::group(pairs, MachineId(0), 1) {
            if vm == self.next_machine() {
                let info = MachineInfo::guest(vm, MachineId(0), format!("vm-{tid}"));
                self.topology.machines.push(info);
            }
            self.topology.vcpus.push(VcpuInfo {
                machine: vm,
                vcpu,
                vmm_tid: Some(tid),
                guest_cpu: CpuId(vcpu.0),
            });
            named.push(format!("thread {tid} is vCPU {vcpu} of VM {vm}"));
        }
        if !named.is_empty() {
            self.notes.push(format!(
                "the file does not list its vCPU threads; inferred from kvm_entry and thread \
                 numbers: {}",
                named.join(", ")
            ));
        }
    }

    fn next_machine(&self) -> MachineId {
        MachineId(u32::try_from(self.topology.machines.len()).unwrap_or(u32::MAX))
    }

    /// The machine of a guest's file; none if it is not one of this host's.
    fn guest_file(&mut self, host: &TraceDat<'_>, dat: &TraceDat<'_>) -> Option<MachineId> {
        let shift = dat.options().time_shift.as_ref()?;
        let id = dat.options().trace_id;
        let guests = &host.options().guests;
        let listed = guests.iter().position(|g| Some(g.trace_id) == id);
        let machine = match listed {
            Some(at) => MachineId(u32::try_from(at + 1).ok()?),
            None if Some(shift.peer_trace_id) == host.options().trace_id => {
                let name = node_name(dat).unwrap_or("guest").to_owned();
                self.notes.push(format!(
                    "guest {name} is not listed in its host's file: its vCPU threads are \
                     unknown"
                ));
                self.add_guest(&Guest { name, trace_id: id.unwrap_or(0), cpus: Vec::new() })
            }
            None => return None,
        };
        let clock = dat.buffers().first().map(|b| b.clock.clone()).unwrap_or_default();
        let info = self.topology.machines.get_mut(machine.0 as usize)?;
        info.clock = Some(clock.clone());
        self.evidence.push(Evidence::SourceClock { machine, clock });
        for (cpu, samples) in shift.cpus.iter().enumerate() {
            let cpu = CpuId(u32::try_from(cpu).ok()?);
            for sample in samples {
                self.evidence.push(Evidence::TimeShift {
                    machine,
                    parent: MachineId(0),
                    cpu,
                    at_guest: sample.time,
                    offset: sample.offset,
                    scaling: sample.scaling,
                    fraction: u32::try_from(sample.fraction).unwrap_or(u32::MAX),
                    interpolated: shift.flags & transect_tracedat::TimeShift::INTERPOLATE != 0,
                });
            }
        }
        Some(machine)
    }

    /// Names of threads from the file's saved command lines.
    fn threads(&mut self, machine: MachineId, dat: &TraceDat<'_>) {
        let threads = dat.comms().filter(|(tid, _)| !tid.is_idle());
        self.topology.threads.extend(threads.map(|(tid, comm)| ThreadInfo {
            machine,
            tid,
            pid: None,
            name: comm.to_str().into_owned(),
            cgroup: None,
            born: None,
            settings: ThreadSettings::default(),
        }));
    }
}
