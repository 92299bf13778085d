//! Arrows between tracks: from rows' actors to tracks, and back to conditions on rows.

use super::table_rows;
use crate::row::{id, tid};
use serde_json::{Value, json};
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use transect_http::Response;
use transect_model::cause::CauseKind;
use transect_timeline::{Condition, Kind, Lookup, Shown, View, Wanted};

/// Intervals of a lane read at once.
const STRETCH: usize = 1024;
/// vCPUs whose threads are told apart from others.
const MAX_VCPUS: usize = 100_000;

/// One arrow.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Flow {
    pub(crate) from: (u32, i64),
    pub(crate) to: (u32, i64),
    /// The cause's kind; or preempt or block.
    pub(crate) kind: &'static str,
    /// What joins the ends, where the table of causes tells it.
    pub(crate) evidence: Option<&'static str>,
    /// What it is about, in words.
    pub(crate) what: Option<String>,
}

impl Flow {
    pub(crate) fn json(&self) -> Value {
        let end = |(track, ts): (u32, i64)| json!({ "track": track, "ts": ts.to_string() });
        let (kind, evidence, what) = (self.kind, self.evidence, &self.what);
        let (from, to) = (end(self.from), end(self.to));
        json!({ "from": from, "to": to, "kind": kind, "evidence": evidence, "what": what })
    }

    /// An arrow of another table than that of causes; none from a track to itself.
    pub(super) fn plain(kind: &'static str, from: (u32, i64), to: (u32, i64)) -> Option<Self> {
        (from.0 != to.0).then_some(Flow { from, to, kind, evidence: None, what: None })
    }
}

/// From actors to their tracks.
pub(crate) struct Places<'v> {
    pub(super) view: &'v View,
    threads: HashMap<(u32, i32), u32>,
    vcpus: HashMap<(u32, u32), u32>,
    /// Lanes of each device.
    devices: HashMap<(u32, &'v str), Vec<u32>>,
    /// Lanes of the interrupts of each CPU.
    interrupts: HashMap<(u32, u32), Vec<u32>>,
    /// Host threads that run vCPUs: machine and number.
    of_vcpus: HashMap<i32, (u32, u32)>,
    /// What was read last of each lane: most questions are about moments that follow one another.
    read: RefCell<HashMap<u32, Stretch>>,
}

/// A part of a lane.
#[derive(Debug, Default)]
struct Stretch {
    from: i64,
    until: i64,
    /// Start and end of each interval.
    intervals: Vec<(i64, i64)>,
}

impl Stretch {
    fn read(view: &View, lane: u32, from: i64) -> Option<Self> {
        let found = view.intervals(lane, from, i64::MAX, STRETCH).ok()?;
        // Whether that is all that comes, is not known.
        let until = found.last().map_or(from, |last| last.ts).max(from.saturating_add(1));
        let ends = |shown: &Shown| (shown.ts, shown.ts.saturating_add(shown.dur.max(1)));
        Some(Stretch { from, until, intervals: found.iter().map(ends).collect() })
    }

    /// The start of the interval at a moment.
    fn at(&self, ts: i64) -> Option<i64> {
        let next = self.intervals.partition_point(|(start, _)| *start <= ts);
        let (start, end) = self.intervals.get(next.checked_sub(1)?)?;
        (*end > ts).then_some(*start)
    }
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
            read: RefCell::default(),
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
        let is_open = |lane: &&u32| self.begun(**lane, ts).is_some();
        lanes.iter().rev().find(is_open).or_else(|| lanes.first()).copied()
    }

    /// The lane of a device in which a request begins.
    pub(super) fn request(&self, machine: u32, device: &str, ts: i64) -> Option<u32> {
        let lanes = self.devices.get(&(machine, device))?;
        lanes.iter().find(|lane| self.begun(**lane, ts) == Some(ts)).copied()
    }

    /// When the interval at a moment of a lane began.
    fn begun(&self, lane: u32, ts: i64) -> Option<i64> {
        let mut read = self.read.borrow_mut();
        let known = read.entry(lane).or_default();
        if !(known.from..known.until).contains(&ts) {
            *known = Stretch::read(self.view, lane, ts)?;
        }
        known.at(ts)
    }
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
    pub(super) fn tracks(&self) -> &[u32] {
        match self {
            Ends::Any => &[],
            Ends::Both(tracks) => tracks,
            Ends::Either(track) => std::slice::from_ref(track),
        }
    }

    /// The condition on a row, of those that each end be one of the tracks.
    pub(super) fn of(&self, from: Condition, to: Condition) -> Condition {
        match self {
            Ends::Any => Condition::always(),
            Ends::Both(_) => Condition::All(vec![from, to]),
            Ends::Either(_) => Condition::Any(vec![from, to]),
        }
    }

    pub(super) fn has(&self, flow: &Flow) -> bool {
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
pub(super) struct Actors {
    threads: BTreeSet<(u32, i32)>,
    vcpus: BTreeSet<(u32, u32)>,
    /// CPUs by their interrupts.
    cpus: BTreeSet<(u32, u32)>,
}

impl Actors {
    pub(super) fn new(places: &Places<'_>, tracks: &[u32]) -> Self {
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

    pub(super) fn thread(&self, column: &'static str) -> Condition {
        any(self.tids(), "machine_id", column)
    }

    fn tids(&self) -> impl Iterator<Item = (u32, i64)> {
        self.threads.iter().map(|(machine, tid)| (*machine, i64::from(*tid)))
    }

    /// That a cause is of one of them. A kick is of the guest's CPU.
    pub(super) fn causes(&self) -> Condition {
        let on_cpu = any(numbers(&self.cpus), "machine_id", "cpu");
        let on_vcpu = any(numbers(&self.vcpus), "machine_id", "cpu");
        let kick = Condition::Is("kind", CauseKind::Kick.as_str().to_owned());
        Condition::Any(vec![
            self.thread("tid"),
            Condition::All(vec![Condition::Null("tid"), on_cpu]),
            Condition::All(vec![kick, on_vcpu]),
        ])
    }

    /// That a cause's effect is.
    pub(super) fn effects(&self) -> Condition {
        let on_cpu = any(numbers(&self.cpus), "to_machine_id", "to_cpu");
        let by_interrupt = vec![Condition::Null("to_tid"), Condition::Null("to_vcpu"), on_cpu];
        Condition::Any(vec![
            any(self.tids(), "to_machine_id", "to_tid"),
            any(numbers(&self.vcpus), "to_machine_id", "to_vcpu"),
            Condition::All(by_interrupt),
        ])
    }

    /// That one of the threads woke, or an interrupt on one of the CPUs.
    pub(super) fn waker(&self) -> Condition {
        let on_cpu = any(numbers(&self.cpus), "machine_id", "waker_cpu");
        let by_interrupt = Condition::All(vec![Condition::Null("waker_tid"), on_cpu]);
        Condition::Any(vec![self.thread("waker_tid"), by_interrupt])
    }

    pub(super) fn vcpu(&self) -> Condition {
        any(numbers(&self.vcpus), "machine_id", "vcpu")
    }

    /// Where no thread is named, who has a CPU is named by the machine.
    pub(super) fn by_vm(&self) -> Condition {
        let vms = self.vcpus.iter().map(|(vm, _)| i64::from(*vm));
        Condition::In("by_machine_id", vms.collect())
    }

    /// Who has a CPU is named by the host's thread alone.
    pub(super) fn by(&self) -> Condition {
        let tids = self.threads.iter().map(|(_, tid)| i64::from(*tid));
        Condition::In("by_tid", tids.collect())
    }
}

fn numbers(of: &BTreeSet<(u32, u32)>) -> impl Iterator<Item = (u32, i64)> {
    of.iter().map(|(machine, number)| (*machine, i64::from(*number)))
}

/// That the column has one of these numbers, each of its machine, which another column names.
pub(super) fn any(
    of: impl Iterator<Item = (u32, i64)>,
    of_machine: &'static str,
    column: &'static str,
) -> Condition {
    let mut by_machine: BTreeMap<u32, BTreeSet<i64>> = BTreeMap::new();
    for (machine, number) in of {
        by_machine.entry(machine).or_default().insert(number);
    }
    let parts = by_machine.into_iter().map(|(machine, numbers)| {
        let machine = Condition::number(of_machine, machine);
        Condition::All(vec![machine, Condition::In(column, numbers)])
    });
    Condition::Any(parts.collect())
}
