//! The edges of the clock graph: one machine's clock to its parent's, by one method.

use crate::{
    affine::GuestTsc,
    clock_kind::ClockKind,
    evidence::Evidence,
    exchange::{Bracket, Estimate, RateModel, estimate},
    hop::{Hop, Map, Piece},
    time_shift::{Sample, TimeShift},
};
use std::{collections::BTreeMap, fmt};
use transect_model::ids::{CpuId, MachineId};

/// How two clocks were related, best first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Method {
    /// The hypervisor's own offset and scaling: exact.
    TscOffset,
    /// The TIMESHIFT option of an imported guest file.
    TimeShift,
    /// Brackets over the guest channel: estimated, with a bound that holds.
    Exchange,
}

impl Method {
    /// The word in the `clock_edges` table.
    pub fn as_str(self) -> &'static str {
        match self {
            Method::TscOffset => "tsc_offset",
            Method::TimeShift => "timeshift",
            Method::Exchange => "exchange",
        }
    }
}

impl fmt::Display for Method {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

#[derive(Clone, Debug)]
enum Hops {
    /// One clock for the whole machine.
    Machine(Hop),
    /// Each vCPU's counter has its own offset.
    PerCpu(BTreeMap<u32, Hop>),
}

/// One way from a machine's clock to its parent's.
#[derive(Clone, Debug)]
pub(crate) struct Edge {
    pub(crate) machine: MachineId,
    pub(crate) parent: MachineId,
    pub(crate) method: Method,
    /// Exchanges it rests on; 0 for exact edges.
    pub(crate) samples: u64,
    hops: Hops,
}

impl Edge {
    /// The map for a CPU of the machine; for any CPU with `None`. A CPU without an offset of its
    /// own borrows the others' if they all agree.
    pub(crate) fn hop(&self, cpu: Option<CpuId>) -> Option<&Hop> {
        match &self.hops {
            Hops::Machine(hop) => Some(hop),
            Hops::PerCpu(hops) => {
                let own = cpu.and_then(|cpu| hops.get(&cpu.0));
                own.or_else(|| {
                    let mut all = hops.values();
                    let first = all.next()?;
                    let same = |hop: &Hop| match (first.only(), hop.only()) {
                        (Some(Map::Tsc(a)), Some(Map::Tsc(b))) => a == b,
                        _ => false,
                    };
                    (hops.len() == 1 || all.all(same)).then_some(first)
                })
            }
        }
    }

    fn any(&self) -> Option<&Hop> {
        match &self.hops {
            Hops::Machine(hop) => Some(hop),
            Hops::PerCpu(hops) => hops.values().next(),
        }
    }

    /// The largest bound over all CPUs within the sampled span, in ticks of the parent.
    pub(crate) fn worst_bound(&self) -> u64 {
        match &self.hops {
            Hops::Machine(hop) => hop.worst_bound(),
            Hops::PerCpu(hops) => hops.values().map(Hop::worst_bound).max().unwrap_or(0),
        }
    }

    fn start(&self) -> Option<&Map> {
        self.any()?.pieces().next().map(|p| &p.map)
    }

    /// Machine ticks per parent tick at the start, for printing.
    pub(crate) fn rate(&self) -> f64 {
        self.start().map(Map::rate).filter(|r| r.is_finite()).unwrap_or(0.0)
    }

    /// Parent minus machine at the start, for printing.
    pub(crate) fn offset(&self) -> i128 {
        self.start().map_or(0, Map::offset)
    }
}

/// What was seen of one machine's clock against one parent's.
#[derive(Default)]
pub(crate) struct Seen {
    offsets: BTreeMap<u32, Vec<(u64, GuestTsc)>>,
    shifts: BTreeMap<u32, TimeShift>,
    /// Brackets, cut at restarts.
    brackets: Vec<Vec<Bracket>>,
}

impl Seen {
    pub(crate) fn offset(&mut self, vcpu: u32, at_host: u64, tsc: GuestTsc) {
        self.offsets.entry(vcpu).or_default().push((at_host, tsc));
    }

    pub(crate) fn shift(&mut self, cpu: u32, sample: Sample, interpolated: bool) {
        self.shifts.entry(cpu).or_default().push(sample, interpolated);
    }

    pub(crate) fn bracket(&mut self, bracket: Bracket) {
        match self.brackets.last_mut() {
            Some(run) => run.push(bracket),
            None => self.brackets.push(vec![bracket]),
        }
    }

    pub(crate) fn restart(&mut self) {
        self.brackets.push(Vec::new());
    }

    /// The scaling that offsets were read with, if any was: what rate exchanges may expect.
    fn known_rate(&self) -> Option<GuestTsc> {
        self.offsets
            .values()
            .flatten()
            .map(|(_, tsc)| *tsc)
            .find(|tsc| tsc.plain_offset().is_none())
    }

    /// Exact edge from TSC offsets.
    pub(crate) fn tsc_edge(&self, machine: MachineId, parent: MachineId) -> Option<Edge> {
        let hops: BTreeMap<u32, Hop> =
            self.offsets.iter().filter_map(|(vcpu, seen)| Some((*vcpu, tsc_hop(seen)?))).collect();
        let hops = (!hops.is_empty()).then_some(Hops::PerCpu(hops))?;
        Some(Edge { machine, parent, method: Method::TscOffset, samples: 0, hops })
    }

    /// Edge from a TIMESHIFT option.
    pub(crate) fn shift_edge(&self, machine: MachineId, parent: MachineId) -> Option<Edge> {
        let mut samples = 0;
        let hops: BTreeMap<u32, Hop> = self
            .shifts
            .iter()
            .map(|(cpu, shift)| {
                samples += shift.len();
                (*cpu, Hop::single(Map::Shift(shift.clone())))
            })
            .collect();
        let hops = (!hops.is_empty()).then_some(Hops::PerCpu(hops))?;
        let samples = u64::try_from(samples).unwrap_or(u64::MAX);
        Some(Edge { machine, parent, method: Method::TimeShift, samples, hops })
    }

    /// Estimated edge from exchanges, and what had to be said about them.
    pub(crate) fn exchange_edge(
        &self,
        machine: MachineId,
        parent: MachineId,
        model: RateModel,
        notes: &mut Vec<String>,
    ) -> Option<Edge> {
        let estimates: Vec<Estimate> = self
            .brackets
            .iter()
            .filter(|run| !run.is_empty())
            .map(|run| estimate(run, &model))
            .collect();
        for e in &estimates {
            notes.extend(remarks(machine, e));
        }
        let fitted: Vec<_> = estimates.into_iter().flat_map(|e| e.pieces).collect();
        let samples: usize = fitted.iter().map(|p| p.brackets).sum();
        let spans: Vec<(u64, u64)> = fitted.iter().map(|p| p.host_span).collect();
        let pieces = fitted
            .into_iter()
            .zip(windows(&spans))
            .map(|(p, window)| Piece::new(Map::Curve(Box::new(p.curve)), window))
            .collect();
        let hops = Hops::Machine(Hop::new(pieces)?);
        let samples = u64::try_from(samples).unwrap_or(u64::MAX);
        Some(Edge { machine, parent, method: Method::Exchange, samples, hops })
    }

    /// What exchanges may take for granted about the two clocks. `None`: they cannot be aligned.
    pub(crate) fn rate_model(
        &self,
        machine: ClockKind,
        parent: ClockKind,
        parent_ticks_per_ns: Option<(u128, u128)>,
    ) -> Option<RateModel> {
        match (machine, parent) {
            (ClockKind::Other, _) | (_, ClockKind::Other) => None,
            (ClockKind::Tsc, ClockKind::Tsc) => Some(match self.known_rate() {
                None => RateModel::same_tsc(),
                Some(tsc) => RateModel {
                    nominal: Some(tsc.host_per_guest()),
                    same_counter_within_ppm: None,
                    ..RateModel::same_tsc()
                },
            }),
            (ClockKind::Nanoseconds, ClockKind::Nanoseconds) => Some(RateModel::kernel_clocks()),
            (ClockKind::Nanoseconds, ClockKind::Tsc) => {
                Some(RateModel { nominal: parent_ticks_per_ns, ..RateModel::kernel_clocks() })
            }
            (ClockKind::Tsc, ClockKind::Nanoseconds) => {
                Some(RateModel { nominal: None, ..RateModel::kernel_clocks() })
            }
        }
    }
}

/// Runs of one offset; each holds from the last sight of the one before to the first of the next.
fn tsc_hop(seen: &[(u64, GuestTsc)]) -> Option<Hop> {
    let mut seen = seen.to_vec();
    seen.sort_by_key(|(at, _)| *at);
    let mut runs: Vec<(GuestTsc, (u64, u64))> = Vec::new();
    for (at, tsc) in seen {
        match runs.last_mut() {
            Some((same, span)) if *same == tsc => span.1 = at,
            _ => runs.push((tsc, (at, at))),
        }
    }
    let spans: Vec<(u64, u64)> = runs.iter().map(|(_, span)| *span).collect();
    let piece = |((tsc, _), window)| Piece::new(Map::Tsc(tsc), window);
    Hop::new(runs.into_iter().zip(windows(&spans)).map(piece).collect())
}

/// The host time in which each of several successive maps can hold, given when each was seen.
fn windows(spans: &[(u64, u64)]) -> Vec<(u64, u64)> {
    (0..spans.len())
        .map(|at| {
            let after = at.checked_sub(1).and_then(|b| spans.get(b)).map_or(0, |s| s.1);
            let before = spans.get(at + 1).map_or(u64::MAX, |s| s.0);
            (after, before.max(after))
        })
        .collect()
}

/// What a reader should know about an estimate that did not go smoothly.
fn remarks(machine: MachineId, e: &Estimate) -> Vec<String> {
    let mut notes = Vec::new();
    if e.impossible > 0 {
        notes.push(format!(
            "machine {machine}: {} clock exchanges are impossible (received before sent, or stamps \
             beyond 2^62) and were ignored",
            e.impossible
        ));
    }
    if e.contradicting > 0 {
        notes.push(format!(
            "machine {machine}: {} clock exchanges contradict those before and after them and were \
             ignored",
            e.contradicting
        ));
    }
    if e.without_rate > 0 {
        notes.push(format!(
            "machine {machine}: {} groups of clock exchanges do not tell the clock's rate and were \
             ignored (its unit differs from the host's, so two exchanges some time apart are needed)",
            e.without_rate
        ));
    }
    for pair in e.pieces.windows(2) {
        let [a, b] = pair else { continue };
        notes.push(format!(
            "machine {machine}: its clock stepped between {} and {} of the host's clock: \
             aligned in pieces",
            a.host_span.1, b.host_span.0
        ));
    }
    if e.pieces.iter().any(|p| p.outside_limit) {
        notes.push(format!(
            "machine {machine}: its clock runs at another rate than the host's (more than the \
             drift limit): the rate was taken from the exchanges"
        ));
    }
    notes
}

/// Machine, parent and raw stamps of a record that relates two clocks.
pub(crate) fn related(record: &Evidence) -> Option<(MachineId, MachineId)> {
    match record {
        Evidence::TscOffset { machine, parent, .. }
        | Evidence::Exchange { machine, parent, .. }
        | Evidence::TimeShift { machine, parent, .. } => Some((*machine, *parent)),
        _ => None,
    }
}
