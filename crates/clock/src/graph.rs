//! The clock graph: clocks are nodes, what relates them are edges, trace time is the root.
//!
//! See the crate documentation for concepts and a worked example.

use crate::{
    building::{Building, Clocks},
    clock_kind::{ClockKind, clock_kind},
    converter::{Converter, ToTrace},
    edge::Edge,
    error::ClockError,
    evidence::Evidence,
    leg,
    node::Node,
    options::ClockOptions,
    rate::{Rate, rate_error_ns, reference_rate},
    route::Routes,
    wall::{self, WallRate, WallReading},
};
use std::collections::BTreeSet;
use transect_model::{
    ids::{CpuId, MachineId},
    table::{ClockEdge, WallClock},
    time::{ErrorBoundNs, Span},
};

/// What one unit of trace time is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// Nanoseconds.
    Nanoseconds,
    /// Ticks of the reference clock, whose rate nobody told. Bounds are in ticks then, too.
    Ticks,
}

/// All clocks of a recording, and the best way from each to trace time.
#[derive(Debug)]
pub struct ClockGraph {
    to_trace: ToTrace,
    rate: Option<Rate>,
    unit: Unit,
    clocks: Clocks,
    /// Those whose clock anything relates to another.
    machines: BTreeSet<MachineId>,
    routes: Routes,
    span_ticks: u64,
    notes: Vec<String>,
    wall: Vec<WallReading>,
}

impl ClockGraph {
    /// Builds the graph. Errors: no reference, or numbers that no clock can have (a rate of 0).
    /// Machines without evidence are no error here: [`ClockGraph::converter`] says so for each.
    pub fn from_evidence(
        evidence: &[Evidence],
        options: ClockOptions,
    ) -> Result<ClockGraph, ClockError> {
        let (reference, reference_clock) = evidence
            .iter()
            .find_map(|e| match e {
                Evidence::Reference { machine, clock } => Some((*machine, clock.clone())),
                _ => None,
            })
            .ok_or(ClockError::NoReference)?;
        let rate = reference_rate(evidence, reference, &reference_clock, options)?;
        let (to_trace, unit) = match (clock_kind(&reference_clock), rate) {
            (ClockKind::Nanoseconds, _) => (ToTrace::Same, Unit::Nanoseconds),
            (_, Some(rate)) => (ToTrace::Rate(rate.ticks), Unit::Nanoseconds),
            (_, None) => (ToTrace::Same, Unit::Ticks),
        };
        let clocks = Clocks::new(reference, reference_clock, evidence);
        let mut building = Building::new(&clocks, rate, options);
        building.add_readings(evidence);
        for ((machine, parent), seen) in building.collect(evidence)? {
            building.add_edges(machine, parent, &seen);
        }
        let Building { edges, notes, .. } = building;
        let root = clocks.source(reference);
        let machines = edges.iter().map(|edge| edge.from.machine).collect();
        Ok(ClockGraph {
            to_trace,
            rate,
            unit,
            routes: Routes::new(edges, root),
            span_ticks: span_ticks(evidence),
            notes,
            machines,
            wall: wall_readings(evidence, reference, to_trace, unit),
            clocks,
        })
    }

    /// The rows of `wall_clock` for a window of trace time; none if the wall clock was not read, or
    /// if trace time is in ticks of unknown length.
    pub fn wall_clock(&self, window: Span) -> Vec<WallClock> {
        wall::rows(&self.wall, WallRate::of_clock(&self.clocks.reference_clock), window)
    }

    /// The converter for the stream of one CPU of one machine.
    /// Errors: nothing relates the machine to the reference; this vCPU's offset is unknown.
    pub fn converter(&self, machine: MachineId, cpu: CpuId) -> Result<Converter, ClockError> {
        self.converter_of_boot(machine, cpu, 0)
    }

    /// The same for a stream that was begun after the machine was booted again so many times
    /// (`ClockRestart` records before it). The stamps of two boots may be the same numbers; within
    /// a stream their order tells them apart, at a stream's start only this does.
    pub fn converter_of_boot(
        &self,
        machine: MachineId,
        cpu: CpuId,
        boot: usize,
    ) -> Result<Converter, ClockError> {
        let hops = self.routes.hops(self.clocks.source(machine), cpu)?;
        Ok(Converter::new(hops, self.to_trace, boot))
    }

    /// After how many further boots a source of a machine was begun, by its number among the
    /// machine's sources (0 for the first): what [`ClockGraph::converter_of_boot`] wants.
    pub fn boot_of_source(&self, machine: MachineId, number: usize) -> usize {
        self.clocks.boot_of_source(machine, number)
    }

    /// The machine whose clock trace time is made of.
    pub fn reference(&self) -> MachineId {
        self.clocks.reference
    }

    /// The name of the clock that stamps a machine's streams.
    pub fn clock(&self, machine: MachineId) -> &str {
        self.clocks.name(machine)
    }

    /// What one unit of trace time is.
    pub fn unit(&self) -> Unit {
        self.unit
    }

    /// How far a machine's stamps may be off within the span its clock was observed: the bounds
    /// of all edges on its way, in the unit of trace time. Errors: no path.
    pub fn error_bound(&self, machine: MachineId) -> Result<ErrorBoundNs, ClockError> {
        let way = self.routes.best(self.clocks.source(machine));
        let way = way.ok_or(ClockError::NoPath { machine })?;
        let bound = leg::bound(&way).ok_or(ClockError::OutOfRange { stamp: u64::MAX })?;
        Ok(ErrorBoundNs(self.to_trace.bound(bound)))
    }

    /// The rows of `clock_edges`: the ways in use, one for each machine, to its parent's clock.
    pub fn edges(&self) -> Vec<ClockEdge> {
        let used = self.machines().filter_map(|m| self.rows(m).next());
        self.rate_row().into_iter().chain(used).collect()
    }

    /// The ways that a better one made unnecessary, in the form of `clock_edges`: what the
    /// estimate would be where the exact offset is used, for instance.
    pub fn unused_edges(&self) -> Vec<ClockEdge> {
        self.machines().flat_map(|m| self.rows(m).skip(1)).collect()
    }

    fn machines(&self) -> impl Iterator<Item = MachineId> {
        self.machines.iter().copied().filter(|machine| *machine != self.clocks.reference)
    }

    /// The ways out of a machine, the best one first.
    fn rows(&self, machine: MachineId) -> impl Iterator<Item = ClockEdge> {
        let source = self.clocks.source(machine);
        self.routes.ways(source).filter_map(move |first| {
            // Up to another machine's clock: that which stamps its streams if that is on the way.
            let other = |node: Node| node.machine != machine;
            let mut way = self.routes.leg(first, other);
            let to = way.last()?.to;
            if to != self.clocks.source(to.machine)
                && let Some(next) = self.routes.ways(to).next()
                && next.to.machine == to.machine
            {
                way.push(next);
            }
            self.row(machine, &way)
        })
    }

    fn row(&self, machine: MachineId, way: &[&Edge]) -> Option<ClockEdge> {
        let to = way.last()?.to;
        let bound = leg::bound(way).unwrap_or(u64::MAX);
        let is_in_ns = !to.is_tsc();
        let (offset, rate) = leg::offset_and_rate(way);
        Some(ClockEdge {
            machine_id: machine,
            from_clock: self.clock(machine).to_owned(),
            to_clock: if to.is_tsc() { "x86-tsc" } else { self.clock(to.machine) }.to_owned(),
            method: leg::method(way)?.as_str().to_owned(),
            offset: i64::try_from(offset).unwrap_or_default(),
            rate,
            error_bound_ns: if is_in_ns { bound } else { self.to_trace.bound(bound) },
            samples: way.iter().map(|edge| edge.samples).sum(),
        })
    }

    fn rate_row(&self) -> Option<ClockEdge> {
        let rate = self.rate.filter(|_| self.to_trace != ToTrace::Same)?;
        Some(ClockEdge {
            machine_id: self.clocks.reference,
            from_clock: self.clocks.reference_clock.clone(),
            to_clock: "trace".to_owned(),
            method: "tsc_rate".to_owned(),
            offset: rate.offset_ns,
            rate: 1.0 / rate.ticks.ns_per_tick(),
            error_bound_ns: rate_error_ns(rate, self.span_ticks),
            samples: 0,
        })
    }

    /// What went wrong or was inferred, one sentence each, for the import log.
    pub fn notes(&self) -> &[String] {
        &self.notes
    }
}

/// The reference's readings of its wall clock, in trace time.
fn wall_readings(
    evidence: &[Evidence],
    reference: MachineId,
    to_trace: ToTrace,
    unit: Unit,
) -> Vec<WallReading> {
    if unit == Unit::Ticks {
        return Vec::new();
    }
    let reading = |e: &Evidence| match e {
        Evidence::WallReading { machine, before, unix_ns, after } if *machine == reference => {
            // A nanosecond has several ticks: the later stamp is rounded up.
            let rounding = i64::from(to_trace != ToTrace::Same);
            let (before, after) = (to_trace.trace(*before)?, to_trace.trace(*after)?);
            WallReading::new(before, *unix_ns, after.checked_add(rounding)?)
        }
        _ => None,
    };
    evidence.iter().filter_map(reading).collect()
}

/// The host time that evidence spans, ticks.
fn span_ticks(evidence: &[Evidence]) -> u64 {
    let stamps = || {
        evidence.iter().filter_map(|e| match e {
            Evidence::TscOffset { at_host, .. } => Some(*at_host),
            Evidence::Exchange { host_recv, .. } => Some(*host_recv),
            _ => None,
        })
    };
    match (stamps().min(), stamps().max()) {
        (Some(first), Some(last)) => last - first,
        _ => 0,
    }
}
