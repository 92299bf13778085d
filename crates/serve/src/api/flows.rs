//! `/api/flows`: who woke, preempted and asked whom, as arrows between tracks.

use super::handover::{Handover, handovers};
use super::{Answered, Time, body, failed, lookup, table_rows, view};
use crate::row::{Row, id, int, text, tid};
use crate::state::State;
use arrow::array::{ArrayRef, Int64Array, RecordBatch, StringArray, UInt32Array};
use arrow::error::ArrowError;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;
use transect_http::Response;
use transect_timeline::{Condition, Kind, Lookup, TimelineError, View, Wanted, stream};

/// Arrows at most.
const MAX_FLOWS: usize = 20_000;
/// vCPUs whose threads are told apart from others.
const MAX_VCPUS: usize = 100_000;

#[derive(serde::Deserialize)]
struct Wish {
    from: Time,
    to: Time,
    /// None or empty: all.
    tracks: Option<Vec<u32>>,
    limit: Option<usize>,
}

/// One arrow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Flow {
    pub(crate) from: (u32, i64),
    pub(crate) to: (u32, i64),
    pub(crate) kind: &'static str,
}

impl Flow {
    pub(crate) fn json(&self) -> Value {
        let end = |(track, ts): (u32, i64)| json!({ "track": track, "ts": ts.to_string() });
        json!({ "from": end(self.from), "to": end(self.to), "kind": self.kind })
    }
}

/// From actors to their tracks.
pub(crate) struct Places<'v> {
    view: &'v View,
    threads: HashMap<(u32, i32), u32>,
    vcpus: HashMap<(u32, u32), u32>,
    /// Lanes of each device.
    devices: HashMap<(u32, &'v str), Vec<u32>>,
    /// Lanes of the interrupts of each CPU.
    interrupts: HashMap<(u32, u32), Vec<u32>>,
    /// Host threads that run vCPUs: machine and number.
    of_vcpus: HashMap<i32, (u32, u32)>,
}

impl<'v> Places<'v> {
    pub(crate) fn new(view: &'v View, lookup: &Lookup) -> Result<Self, Response> {
        let mut places = Places {
            view,
            threads: HashMap::new(),
            vcpus: HashMap::new(),
            devices: HashMap::new(),
            interrupts: HashMap::new(),
            of_vcpus: HashMap::new(),
        };
        for track in view.tracks() {
            let actor = &track.actor;
            match (actor.kind, actor.tid, actor.vcpu) {
                (Kind::Thread, Some(tid), _) if track.lane == 0 => {
                    places.threads.insert((actor.machine, tid), track.track);
                }
                (Kind::Vcpu, _, Some(vcpu)) if track.lane == 0 => {
                    places.vcpus.insert((actor.machine, vcpu), track.track);
                }
                (Kind::Irq, ..) => {
                    if let Some(cpu) = actor.cpu {
                        let lanes = places.interrupts.entry((actor.machine, cpu)).or_default();
                        lanes.push(track.track);
                    }
                }
                (Kind::Block, ..) => {
                    let device = (actor.machine, actor.what.as_str());
                    places.devices.entry(device).or_default().push(track.track);
                }
                _ => {}
            }
        }
        let known = Wanted {
            columns: vec!["machine_id", "vcpu", "vmm_tid"],
            only: Condition::Known("vmm_tid"),
            limit: MAX_VCPUS,
            ..Wanted::default()
        };
        for row in table_rows(lookup, "vcpus", &known)? {
            if let (Some(machine), Some(vcpu), Some(tid)) =
                (id(&row, "machine_id"), id(&row, "vcpu"), tid(&row, "vmm_tid"))
            {
                places.of_vcpus.insert(tid, (machine, vcpu));
            }
        }
        Ok(places)
    }

    /// The track of a thread: of one that runs a vCPU, the vCPU's.
    pub(crate) fn thread(&self, machine: u32, tid: i32) -> Option<u32> {
        let is_host =
            self.view.machines().iter().any(|m| m.machine_id == machine && m.parent_id.is_none());
        let of_vcpu = self.of_vcpus.get(&tid).filter(|_| is_host);
        let track = of_vcpu.and_then(|vcpu| self.vcpus.get(vcpu));
        track.or_else(|| self.threads.get(&(machine, tid))).copied()
    }

    /// The host of a machine, whose threads its waits are blamed on.
    pub(crate) fn host(&self, machine: u32) -> u32 {
        let mut machine = machine;
        for _ in 0..8 {
            let known = self.view.machines().iter().find(|m| m.machine_id == machine);
            match known.and_then(|known| known.parent_id) {
                Some(parent) => machine = parent,
                None => break,
            }
        }
        machine
    }

    pub(crate) fn vcpu(&self, machine: u32, vcpu: u32) -> Option<u32> {
        self.vcpus.get(&(machine, vcpu)).copied()
    }

    /// The lane of the innermost interrupt on a CPU at a time; where none was recorded, that of its
    /// interrupts.
    pub(crate) fn interrupt(&self, machine: u32, cpu: u32, ts: i64) -> Option<u32> {
        let lanes = self.interrupts.get(&(machine, cpu))?;
        let is_open = |lane: &&u32| {
            let at = self.view.intervals(**lane, ts, ts.saturating_add(1), 1);
            at.is_ok_and(|found| found.first().is_some_and(|interval| interval.ts <= ts))
        };
        lanes.iter().rev().find(is_open).or_else(|| lanes.first()).copied()
    }

    /// The lane of a device in which a request begins.
    fn request(&self, machine: u32, device: &str, ts: i64) -> Option<u32> {
        let lanes = self.devices.get(&(machine, device))?;
        let begins = |lane: &&u32| {
            let at = self.view.intervals(**lane, ts, ts + 1, 1);
            at.is_ok_and(|found| found.first().is_some_and(|interval| interval.ts == ts))
        };
        lanes.iter().find(begins).copied()
    }
}

pub(crate) fn answer(state: &State, bytes: &[u8]) -> Answered {
    let wish: Wish = body(bytes)?;
    let (view, lookup) = (view(state)?, lookup(state)?);
    let places = Places::new(&view, &lookup)?;
    let limit = wish.limit.unwrap_or(1000).min(MAX_FLOWS);
    let tracks: Vec<u32> = wish.tracks.unwrap_or_default();
    let ends = if tracks.is_empty() { Ends::Any } else { Ends::Both(&tracks) };
    let mut flows = between(&places, &lookup, (wish.from.0, wish.to.0), ends, limit)?;
    flows.truncate(limit);
    let bytes = batch(&flows).map_err(TimelineError::from).and_then(|batch| stream(&batch));
    bytes.map(Response::arrow).map_err(|error| failed(&error))
}

/// Whose arrows.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Ends<'t> {
    /// All.
    Any,
    /// Those between two of these tracks.
    Both(&'t [u32]),
    /// Those from or to this track.
    Either(u32),
}

impl Ends<'_> {
    fn tracks(&self) -> &[u32] {
        match self {
            Ends::Any => &[],
            Ends::Both(tracks) => tracks,
            Ends::Either(track) => std::slice::from_ref(track),
        }
    }

    /// The condition on a row, of those that each end be one of the tracks.
    fn of(&self, from: Condition, to: Condition) -> Condition {
        match self {
            Ends::Any => Condition::always(),
            Ends::Both(_) => Condition::All(vec![from, to]),
            Ends::Either(_) => Condition::Any(vec![from, to]),
        }
    }

    fn has(&self, flow: &Flow) -> bool {
        let is_one = |track: u32| self.tracks().contains(&track);
        match self {
            Ends::Any => true,
            Ends::Both(_) => is_one(flow.from.0) && is_one(flow.to.0),
            Ends::Either(_) => is_one(flow.from.0) || is_one(flow.to.0),
        }
    }
}

/// Conditions that rows are of tracks: of their threads, vCPUs and interrupts.
#[derive(Default)]
struct Actors {
    threads: BTreeSet<(u32, i32)>,
    vcpus: BTreeSet<(u32, u32)>,
    /// CPUs by their interrupts.
    cpus: BTreeSet<(u32, u32)>,
}

impl Actors {
    fn new(places: &Places<'_>, tracks: &[u32]) -> Self {
        let mut actors = Actors::default();
        for track in tracks.iter().filter_map(|track| places.view.track(*track)) {
            let actor = &track.actor;
            match (actor.kind, actor.tid, actor.vcpu) {
                (Kind::Thread, Some(tid), _) => {
                    actors.threads.insert((actor.machine, tid));
                }
                (Kind::Irq, ..) => {
                    actors.cpus.extend(actor.cpu.map(|cpu| (actor.machine, cpu)));
                }
                (Kind::Vcpu, _, Some(vcpu)) => {
                    let vcpu = (actor.machine, vcpu);
                    actors.vcpus.insert(vcpu);
                    let own = places.of_vcpus.iter().filter(|(_, known)| **known == vcpu);
                    let host = places.host(actor.machine);
                    actors.threads.extend(own.map(|(tid, _)| (host, *tid)));
                }
                _ => {}
            }
        }
        actors
    }

    fn thread(&self, column: &'static str) -> Condition {
        any(self.threads.iter().map(|(machine, tid)| (*machine, i64::from(*tid))), column)
    }

    /// That one of the threads woke, or an interrupt on one of the CPUs.
    fn waker(&self) -> Condition {
        let cpus = self.cpus.iter().map(|(machine, cpu)| (*machine, i64::from(*cpu)));
        let on_cpu = any(cpus, "waker_cpu");
        let by_interrupt = Condition::All(vec![Condition::Null("waker_tid"), on_cpu]);
        Condition::Any(vec![self.thread("waker_tid"), by_interrupt])
    }

    fn vcpu(&self) -> Condition {
        any(self.vcpus.iter().map(|(machine, vcpu)| (*machine, i64::from(*vcpu))), "vcpu")
    }

    /// Where no thread is named, who has a CPU is named by the machine.
    fn by_vm(&self) -> Condition {
        let vms = self.vcpus.iter().map(|(vm, _)| i64::from(*vm));
        Condition::In("by_machine_id", vms.collect())
    }

    /// Who has a CPU is named by the host's thread alone.
    fn by(&self) -> Condition {
        let tids = self.threads.iter().map(|(_, tid)| i64::from(*tid));
        Condition::In("by_tid", tids.collect())
    }
}

/// That the column has one of these numbers, each of its machine.
fn any(of: impl Iterator<Item = (u32, i64)>, column: &'static str) -> Condition {
    let mut by_machine: BTreeMap<u32, BTreeSet<i64>> = BTreeMap::new();
    for (machine, number) in of {
        by_machine.entry(machine).or_default().insert(number);
    }
    let parts = by_machine.into_iter().map(|(machine, numbers)| {
        let machine = Condition::number("machine_id", machine);
        Condition::All(vec![machine, Condition::In(column, numbers)])
    });
    Condition::Any(parts.collect())
}

/// Arrows that begin in `[from, to)`, in order of time: `limit` of each kind at most.
pub(crate) fn between(
    places: &Places<'_>,
    lookup: &Lookup,
    (from, to): (i64, i64),
    ends: Ends<'_>,
    limit: usize,
) -> Result<Vec<Flow>, Response> {
    let actors = Actors::new(places, ends.tracks());
    // A device's requests are of any thread: which lane each is in, only the tracks know.
    let has_device = ends.tracks().iter().any(|track| {
        places.view.track(*track).is_some_and(|track| track.actor.kind == Kind::Block)
    });
    let ask = |table: &str, columns: &[&'static str], only: Vec<Condition>| {
        let wanted = Wanted {
            columns: columns.to_vec(),
            ts: Some(from..to),
            only: Condition::All(only),
            limit,
        };
        table_rows(lookup, table, &wanted)
    };
    let wakeups = ask(
        "wakeups",
        &["ts", "dur", "machine_id", "tid", "waker_tid", "waker_cpu"],
        vec![
            // The idle thread wakes nobody: an interrupt did, which the recording does not tell.
            Condition::Any(vec![Condition::Not("waker_tid", 0), Condition::Null("waker_tid")]),
            ends.of(actors.waker(), actors.thread("tid")),
        ],
    )?;
    let preempted = ask(
        "vcpu_states",
        &["ts", "machine_id", "vcpu", "by_tid"],
        vec![
            Condition::Is("state", "preempted".to_owned()),
            Condition::Between("by_tid", 1..i64::MAX),
            ends.of(actors.by(), actors.vcpu()),
        ],
    )?;
    let of_domains = ends.of(actors.by_vm(), actors.vcpu());
    let by_vcpus = handovers(places.view, lookup, (from, to), of_domains, limit)?;
    let has_device = if has_device { Condition::always() } else { Condition::never() };
    let requests = ask(
        "block_io",
        &["ts", "machine_id", "tid", "device"],
        vec![Condition::Not("tid", 0), ends.of(actors.thread("tid"), has_device)],
    )?;
    let mut flows: Vec<Flow> = Vec::new();
    flows.extend(wakeups.iter().filter_map(|row| wakeup(places, row)));
    flows.extend(preempted.iter().filter_map(|row| preemption(places, row)));
    flows.extend(by_vcpus.iter().filter_map(|wait| handover(places, wait)));
    flows.extend(requests.iter().filter_map(|row| request(places, row)));
    flows.retain(|flow| ends.has(flow));
    flows.sort_by_key(|flow| (flow.from.1, flow.to, flow.from.0));
    Ok(flows)
}

/// From who woke, a thread or an interrupt, when it did, to who was woken, when it got a CPU.
fn wakeup(places: &Places<'_>, row: &Row) -> Option<Flow> {
    let (ts, machine) = (int(row, "ts")?, id(row, "machine_id")?);
    let (from, kind) = match tid(row, "waker_tid") {
        Some(waker) => (places.thread(machine, waker)?, "wakeup"),
        None => (places.interrupt(machine, id(row, "waker_cpu")?, ts)?, "interrupt"),
    };
    let to = places.thread(machine, tid(row, "tid")?)?;
    let until = ts.checked_add(int(row, "dur").unwrap_or(0))?;
    (from != to).then_some(Flow { from: (from, ts), to: (to, until), kind })
}

fn preemption(places: &Places<'_>, row: &Row) -> Option<Flow> {
    let (ts, machine) = (int(row, "ts")?, id(row, "machine_id")?);
    let from = places.thread(places.host(machine), tid(row, "by_tid")?)?;
    let to = places.vcpu(machine, id(row, "vcpu")?)?;
    (from != to).then_some(Flow { from: (from, ts), to: (to, ts), kind: "preempt" })
}

fn handover(places: &Places<'_>, wait: &Handover) -> Option<Flow> {
    let from = places.vcpu(wait.by_machine, wait.by_vcpu?)?;
    let to = places.vcpu(wait.machine, wait.vcpu)?;
    (from != to).then_some(Flow { from: (from, wait.ts), to: (to, wait.ts), kind: "preempt" })
}

fn request(places: &Places<'_>, row: &Row) -> Option<Flow> {
    let (ts, machine) = (int(row, "ts")?, id(row, "machine_id")?);
    let from = places.thread(machine, tid(row, "tid")?)?;
    let to = places.request(machine, text(row, "device"), ts)?;
    Some(Flow { from: (from, ts), to: (to, ts), kind: "block" })
}

fn batch(flows: &[Flow]) -> Result<RecordBatch, ArrowError> {
    let tracks = |get: fn(&Flow) -> u32| -> ArrayRef {
        Arc::new(UInt32Array::from_iter_values(flows.iter().map(get)))
    };
    let times = |get: fn(&Flow) -> i64| -> ArrayRef {
        Arc::new(Int64Array::from_iter_values(flows.iter().map(get)))
    };
    RecordBatch::try_from_iter([
        ("from_track", tracks(|flow| flow.from.0)),
        ("from_ts", times(|flow| flow.from.1)),
        ("to_track", tracks(|flow| flow.to.0)),
        ("to_ts", times(|flow| flow.to.1)),
        ("kind", Arc::new(StringArray::from_iter_values(flows.iter().map(|flow| flow.kind)))),
    ])
}
