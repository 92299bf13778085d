//! The clock graph: clocks are nodes, what relates them are edges, trace time is the root.
//!
//! See the crate documentation for concepts and a worked example.

use crate::{
    affine::{GuestTsc, TickRate},
    clock_kind::{ClockKind, clock_kind},
    converter::{Converter, ToTrace},
    edge::{Edge, Seen, related},
    error::ClockError,
    evidence::{Evidence, RateSource},
    exchange::Bracket,
    hop::Hop,
    time_shift::Sample,
};
use std::collections::BTreeMap;
use transect_model::{
    ids::{CpuId, MachineId},
    table::ClockEdge,
    time::ErrorBoundNs,
};

/// What the user may decide about clocks.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ClockOptions {
    /// Use the exact TSC offsets where there are any. Without them the estimate from exchanges is
    /// used, so that it can be compared with the exact edge.
    pub use_tsc_offset: bool,
    /// The reference TSC's frequency, for files that do not tell it (`--tsc-hz`). Wins over the
    /// recording's own rate.
    pub tsc_hz: Option<u64>,
    /// Clocks of one kind drift apart by at most this unless exchanges prove otherwise.
    pub drift_limit_ppm: u32,
}

impl Default for ClockOptions {
    fn default() -> Self {
        ClockOptions {
            use_tsc_offset: true,
            tsc_hz: None,
            drift_limit_ppm: crate::exchange::DRIFT_LIMIT_PPM,
        }
    }
}

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
    reference: MachineId,
    reference_clock: String,
    to_trace: ToTrace,
    rate: Option<Rate>,
    unit: Unit,
    clocks: BTreeMap<MachineId, String>,
    edges: Vec<Edge>,
    /// Edges out of each machine to its parent, the chosen one first.
    routes: BTreeMap<MachineId, Vec<usize>>,
    span_ticks: u64,
    notes: Vec<String>,
}

#[derive(Clone, Copy, Debug)]
struct Rate {
    ticks: TickRate,
    offset_ns: i64,
    error_ppm: f64,
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
        let mut graph = ClockGraph {
            reference,
            reference_clock,
            to_trace,
            rate,
            unit,
            clocks: source_clocks(evidence),
            edges: Vec::new(),
            routes: BTreeMap::new(),
            span_ticks: span_ticks(evidence),
            notes: Vec::new(),
        };
        for ((machine, parent), seen) in collect(evidence)? {
            graph.add_edges(machine, parent, &seen, options);
        }
        graph.find_routes();
        Ok(graph)
    }

    fn add_edges(&mut self, machine: MachineId, parent: MachineId, seen: &Seen, o: ClockOptions) {
        let kinds = (clock_kind(self.clock(machine)), clock_kind(self.clock(parent)));
        if o.use_tsc_offset && kinds == (ClockKind::Tsc, ClockKind::Tsc) {
            self.edges.extend(seen.tsc_edge(machine, parent));
        }
        self.edges.extend(seen.shift_edge(machine, parent));
        let per_ns = self.rate.filter(|_| parent == self.reference).map(|rate| {
            let (mult, shift) = rate.ticks.parts();
            (1u128 << shift, u128::from(mult))
        });
        match seen.rate_model(kinds.0, kinds.1, per_ns) {
            Some(mut model) => {
                model.drift_limit_ppm = o.drift_limit_ppm;
                let edge = seen.exchange_edge(machine, parent, model, &mut self.notes);
                self.edges.extend(edge);
            }
            None => self.notes.push(format!(
                "machine {machine}: its clock '{}' cannot be aligned with '{}' by exchanges: they \
                 do not both keep time",
                self.clock(machine),
                self.clock(parent)
            )),
        }
    }

    /// The smallest sum of bounds wins; between equals the better method, then fewer steps.
    fn find_routes(&mut self) {
        let mut cost: BTreeMap<MachineId, (f64, u32, f64)> = BTreeMap::new();
        cost.insert(self.reference, (0.0, 0, 1.0));
        // As many rounds as there are edges settle every path; each round only improves.
        for _ in 0..=self.edges.len() {
            for edge in self.edges.iter().filter(|e| e.machine != self.reference) {
                let Some((parent_cost, steps, scale)) = cost.get(&edge.parent).copied() else {
                    continue;
                };
                let new = (parent_cost + bound_as_f64(edge) * scale, steps + 1);
                let old = cost.get(&edge.machine).map(|(c, s, _)| (*c, *s));
                if old.is_none_or(|old| new < old) {
                    cost.insert(edge.machine, (new.0, new.1, scale / edge.rate().max(1e-6)));
                }
            }
        }
        for (at, edge) in self.edges.iter().enumerate() {
            if edge.machine != self.reference && cost.contains_key(&edge.parent) {
                self.routes.entry(edge.machine).or_default().push(at);
            }
        }
        let edges = &self.edges;
        for route in self.routes.values_mut() {
            let key = |at: &usize| {
                let edge = edges.get(*at)?;
                let (parent_cost, steps, scale) = cost.get(&edge.parent)?;
                Some((parent_cost + bound_as_f64(edge) * scale, *steps, edge.method))
            };
            route.sort_by(|a, b| key(a).partial_cmp(&key(b)).unwrap_or(std::cmp::Ordering::Equal));
        }
    }

    /// The converter for the stream of one CPU of one machine.
    /// Errors: nothing relates the machine to the reference; this vCPU's offset is unknown.
    pub fn converter(&self, machine: MachineId, cpu: CpuId) -> Result<Converter, ClockError> {
        let mut hops = Vec::new();
        let (mut at, mut at_cpu) = (machine, Some(cpu));
        while at != self.reference {
            let (hop, parent) = self.step(at, at_cpu).map_err(|e| match e {
                ClockError::NoPath { .. } => ClockError::NoPath { machine },
                other => other,
            })?;
            hops.push(hop.clone());
            if hops.len() > self.edges.len() {
                return Err(ClockError::NoPath { machine });
            }
            (at, at_cpu) = (parent, None);
        }
        Ok(Converter::new(hops, self.to_trace))
    }

    /// The best edge out of a machine that knows this CPU.
    fn step(
        &self,
        machine: MachineId,
        cpu: Option<CpuId>,
    ) -> Result<(&Hop, MachineId), ClockError> {
        let route = self.routes.get(&machine).ok_or(ClockError::NoPath { machine })?;
        let best = self.chosen(machine).ok_or(ClockError::NoPath { machine })?;
        route
            .iter()
            .filter_map(|at| self.edges.get(*at))
            // Another parent might lead in a circle; the best edge's parent does not.
            .filter(|edge| edge.parent == best.parent)
            .find_map(|edge| Some((edge.hop(cpu)?, edge.parent)))
            .ok_or(ClockError::NoOffset { machine, cpu: cpu.unwrap_or_default() })
    }

    fn chosen(&self, machine: MachineId) -> Option<&Edge> {
        self.edges.get(*self.routes.get(&machine)?.first()?)
    }

    /// The machine whose clock trace time is made of.
    pub fn reference(&self) -> MachineId {
        self.reference
    }

    /// The name of the clock that stamps a machine's streams.
    pub fn clock(&self, machine: MachineId) -> &str {
        match self.clocks.get(&machine) {
            Some(clock) if machine != self.reference => clock,
            _ => &self.reference_clock,
        }
    }

    /// What one unit of trace time is.
    pub fn unit(&self) -> Unit {
        self.unit
    }

    /// How far a machine's stamps may be off within the span its clock was observed: the bounds
    /// of all edges on its way, in the unit of trace time. Errors: no path.
    pub fn error_bound(&self, machine: MachineId) -> Result<ErrorBoundNs, ClockError> {
        let (mut at, mut bound) = (machine, 0u64);
        let mut steps = 0;
        while at != self.reference {
            let edge = self.chosen(at).ok_or(ClockError::NoPath { machine })?;
            // Ticks of machines on the way are near enough to those of the reference.
            bound = bound
                .checked_add(edge.worst_bound())
                .ok_or(ClockError::OutOfRange { stamp: u64::MAX })?;
            at = edge.parent;
            steps += 1;
            if steps > self.edges.len() {
                return Err(ClockError::NoPath { machine });
            }
        }
        Ok(ErrorBoundNs(self.to_trace.bound(bound)))
    }

    /// The rows of `clock_edges`: the edges in use.
    pub fn edges(&self) -> Vec<ClockEdge> {
        let used = self.routes.keys().filter_map(|m| self.chosen(*m)).map(|e| self.row(e));
        self.rate_row().into_iter().chain(used).collect()
    }

    /// The edges that a better one made unnecessary, in the form of `clock_edges`: what the
    /// estimate would be where the exact offset is used, for instance.
    pub fn unused_edges(&self) -> Vec<ClockEdge> {
        self.routes
            .values()
            .flat_map(|route| route.iter().skip(1))
            .filter_map(|at| self.edges.get(*at))
            .map(|edge| self.row(edge))
            .collect()
    }

    fn row(&self, edge: &Edge) -> ClockEdge {
        ClockEdge {
            machine_id: edge.machine,
            from_clock: self.clock(edge.machine).to_owned(),
            to_clock: self.clock(edge.parent).to_owned(),
            method: edge.method.as_str().to_owned(),
            offset: i64::try_from(edge.offset()).unwrap_or_default(),
            rate: edge.rate(),
            error_bound_ns: self.to_trace.bound(edge.worst_bound()),
            samples: edge.samples,
        }
    }

    fn rate_row(&self) -> Option<ClockEdge> {
        let rate = self.rate.filter(|_| self.to_trace != ToTrace::Same)?;
        Some(ClockEdge {
            machine_id: self.reference,
            from_clock: self.reference_clock.clone(),
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

#[expect(clippy::cast_precision_loss, reason = "for comparing edges only")]
fn bound_as_f64(edge: &Edge) -> f64 {
    edge.worst_bound() as f64
}

/// What a rate that is off by some ppm amounts to over the observed span (at least a second).
#[expect(clippy::cast_precision_loss, reason = "a rough figure by nature")]
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "clamped before")]
fn rate_error_ns(rate: Rate, span_ticks: u64) -> u64 {
    let span_ns = rate.ticks.ns_bound_from_ticks(span_ticks).max(1_000_000_000);
    (span_ns as f64 * rate.error_ppm.max(0.0) / 1e6).ceil().min(1e18) as u64
}

fn reference_rate(
    evidence: &[Evidence],
    reference: MachineId,
    clock: &str,
    options: ClockOptions,
) -> Result<Option<Rate>, ClockError> {
    if clock_kind(clock) == ClockKind::Nanoseconds {
        return Ok(None);
    }
    if let Some(hz) = options.tsc_hz {
        let ticks = TickRate::from_hz(hz)?;
        return Ok(Some(Rate { ticks, offset_ns: 0, error_ppm: 0.0 }));
    }
    let told = evidence.iter().filter_map(|e| match e {
        Evidence::TscRate { machine, mult, shift, offset_ns, how, error_ppm }
            if *machine == reference =>
        {
            // The kernel's own numbers define its nanoseconds: they cannot be off.
            let error_ppm = if *how == RateSource::Measured { *error_ppm } else { 0.0 };
            Some((*mult, *shift, *offset_ns, error_ppm))
        }
        _ => None,
    });
    // Measured again over a longer span is measured better.
    let told = told.reduce(|a, b| if b.3 < a.3 { b } else { a });
    let Some((mult, shift, offset_ns, error_ppm)) = told else { return Ok(None) };
    let ticks = TickRate::new(mult, shift, offset_ns)?;
    Ok(Some(Rate { ticks, offset_ns, error_ppm }))
}

fn source_clocks(evidence: &[Evidence]) -> BTreeMap<MachineId, String> {
    let mut clocks = BTreeMap::new();
    for record in evidence {
        if let Evidence::SourceClock { machine, clock } = record {
            clocks.insert(*machine, clock.clone());
        }
    }
    clocks
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

fn collect(evidence: &[Evidence]) -> Result<BTreeMap<(MachineId, MachineId), Seen>, ClockError> {
    let mut pairs: BTreeMap<(MachineId, MachineId), Seen> = BTreeMap::new();
    for record in evidence {
        if let Evidence::ClockRestart { machine, .. } = record {
            let of_machine = pairs.iter_mut().filter(|((m, _), _)| m == machine);
            of_machine.for_each(|(_, seen)| seen.restart());
        }
        let Some(pair) = related(record) else { continue };
        let seen = pairs.entry(pair).or_default();
        match record {
            Evidence::TscOffset { vcpu, offset, ratio, frac_bits, at_host, .. } => {
                seen.offset(vcpu.0, *at_host, GuestTsc::new(*offset, *ratio, *frac_bits)?);
            }
            Evidence::Exchange { host_send, guest, host_recv, .. } => seen.bracket(Bracket {
                host_send: *host_send,
                guest: *guest,
                host_recv: *host_recv,
            }),
            Evidence::TimeShift {
                cpu, at_guest, offset, scaling, fraction, interpolated, ..
            } => {
                let sample = Sample {
                    at_guest: *at_guest,
                    offset: *offset,
                    scaling: *scaling,
                    fraction: *fraction,
                };
                seen.shift(cpu.0, sample, *interpolated);
            }
            _ => {}
        }
    }
    Ok(pairs)
}
