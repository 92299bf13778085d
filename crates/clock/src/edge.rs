//! The edges of the clock graph: one clock to another by one method, from a machine to its parent
//! or between two clocks of one machine.

use crate::{
    affine::GuestTsc,
    clock_kind::ClockKind,
    curve::Curve,
    evidence::Evidence,
    exchange::{Bracket, Estimate, RateModel, estimate},
    hop::{Hop, Map, Piece},
    node::Node,
    ran::{self, Stretch},
    readings::{Fit, Fitted, Reading, fit},
    time_shift::{Sample, TimeShift},
};
use std::{collections::BTreeMap, fmt};
use transect_model::ids::{CpuId, MachineId};

/// How two clocks were related, best first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Method {
    /// The hypervisor's own offset and scaling: exact.
    TscOffset,
    /// A machine's kernel clock and its own TSC, read by one program: bound by the width of the
    /// readings. Never alone on a route: it leads to a TSC that another edge relates.
    TscReading,
    /// The TIMESHIFT option of an imported guest file.
    TimeShift,
    /// Brackets over the guest channel: estimated, with a bound that holds.
    Exchange,
    /// When the hypervisor had the machine's vCPUs running, and which of its kernel's stamps fall into it: estimated.
    Causality,
}

impl Method {
    /// The word in the `clock_edges` table.
    pub fn as_str(self) -> &'static str {
        match self {
            Method::TscOffset => "tsc_offset",
            Method::TscReading => "tsc_reading",
            Method::TimeShift => "timeshift",
            Method::Exchange => "exchange",
            Method::Causality => "causality",
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

/// One way from one clock to another.
#[derive(Clone, Debug)]
pub(crate) struct Edge {
    pub(crate) from: Node,
    pub(crate) to: Node,
    pub(crate) method: Method,
    /// Exchanges or readings it rests on; 0 for exact edges.
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

    /// The map at the start, for printing.
    pub(crate) fn start(&self) -> Option<&Map> {
        self.any()?.pieces().next().map(|p| &p.map)
    }

    /// Ticks per tick of the clock it leads to, at the start, for printing and comparing.
    pub(crate) fn rate(&self) -> f64 {
        self.start().map(Map::rate).filter(|r| r.is_finite()).unwrap_or(0.0)
    }

    /// What a bound becomes on its way along this edge and by it, in ticks of the clock it leads to.
    pub(crate) fn grown(&self, bound: u64) -> Option<u64> {
        let hop = self.any()?;
        let grown = hop.pieces().map(|p| p.map.grown(bound));
        let most = grown.reduce(|a, b| Some(a?.max(b?)))??;
        most.checked_add(self.worst_bound())
    }

    /// Do all CPUs of the machine show the same counter?
    fn is_one_clock(&self) -> bool {
        self.hop(None).is_some()
    }
}

/// What was read of one machine's two clocks.
#[derive(Default)]
pub(crate) struct Read {
    /// Readings, one list for each boot.
    boots: Vec<Vec<Reading>>,
}

impl Read {
    pub(crate) fn reading(&mut self, boot: usize, reading: Reading) {
        self.boots.resize_with(self.boots.len().max(boot + 1), Vec::new);
        if let Some(run) = self.boots.get_mut(boot) {
            run.push(reading);
        }
    }

    /// The way from the machine's clock to its TSC and the way back; what had to be said; and how
    /// much the clock's rate changed, ppm.
    pub(crate) fn edges(&self, source: Node, notes: &mut Vec<String>) -> Option<(Edge, Edge, u32)> {
        let fits: Vec<Fit> = self.boots.iter().map(|run| fit(run)).collect();
        let machine = source.machine;
        for (fit, run) in fits.iter().zip(&self.boots).filter(|(_, run)| !run.is_empty()) {
            notes.extend(reading_remarks(machine, fit, run.len()));
        }
        let spread = fits.iter().map(|fit| fit.spread_ppm).max()?;
        let pieces = || fits.iter().flat_map(|fit| &fit.pieces);
        let samples = u64::try_from(pieces().map(|p| p.readings).sum::<usize>()).ok()?;
        let tsc = Node::tsc(machine);
        let edge = |from, to, hop| {
            let hops = Hops::Machine(hop);
            Edge { from, to, method: Method::TscReading, samples, hops }
        };
        let there = boots_hop(&fits, |p| (p.tsc_from_ns.clone(), p.ns_span))?;
        let back = boots_hop(&fits, |p| (p.ns_from_tsc.clone(), p.tsc_span))?;
        Some((edge(source, tsc, there), edge(tsc, source, back), spread))
    }
}

/// The pieces of all boots. Within a boot each holds from the last reading of the one before to
/// the first of the next, by its own stamps; between boots both clocks start over and only a
/// stream's order tells.
fn boots_hop(fits: &[Fit], part: impl Fn(&Fitted) -> (Curve, (u64, u64))) -> Option<Hop> {
    let mut pieces = Vec::new();
    let mut boots = Vec::new();
    for fit in fits {
        boots.push(pieces.len());
        let (curves, spans): (Vec<_>, Vec<_>) = fit.pieces.iter().map(&part).unzip();
        let maps = curves.into_iter().map(|curve| Map::Curve(Box::new(curve)));
        pieces.extend(maps.zip(windows(&spans)).map(|(map, window)| Piece::of_stamps(map, window)));
    }
    Some(Hop::new(pieces)?.with_boots(boots))
}

/// What was seen of one machine's clock against one parent's.
#[derive(Default)]
pub(crate) struct Seen {
    offsets: BTreeMap<u32, Vec<(u64, GuestTsc)>>,
    shifts: BTreeMap<u32, TimeShift>,
    /// Stretches in which each vCPU ran.
    ran: BTreeMap<u32, Vec<Stretch>>,
    /// Readings of the counter that the hypervisor recorded, by vCPU.
    reads: BTreeMap<u32, Vec<ran::Read>>,
    /// Brackets, one list for each boot.
    brackets: Vec<Vec<Bracket>>,
    /// The parent's TSC when each boot after the first was noticed.
    restarts: Vec<u64>,
}

impl Seen {
    pub(crate) fn offset(&mut self, vcpu: u32, at_host: u64, tsc: GuestTsc) {
        self.offsets.entry(vcpu).or_default().push((at_host, tsc));
    }

    pub(crate) fn shift(&mut self, cpu: u32, sample: Sample, interpolated: bool) {
        self.shifts.entry(cpu).or_default().push(sample, interpolated);
    }

    pub(crate) fn ran(&mut self, cpu: u32, stretch: Stretch) {
        self.ran.entry(cpu).or_default().push(stretch);
    }

    pub(crate) fn read(&mut self, cpu: u32, read: ran::Read) {
        self.reads.entry(cpu).or_default().push(read);
    }

    pub(crate) fn bracket(&mut self, boot: usize, bracket: Bracket) {
        self.brackets.resize_with(self.brackets.len().max(boot + 1), Vec::new);
        if let Some(run) = self.brackets.get_mut(boot) {
            run.push(bracket);
        }
    }

    /// The machine was booted again.
    pub(crate) fn restart(&mut self, at_host: u64) {
        self.restarts.push(at_host);
    }

    /// The scaling that offsets were read with, if any was: what rate exchanges may expect.
    fn known_rate(&self) -> Option<GuestTsc> {
        self.offsets
            .values()
            .flatten()
            .map(|(_, tsc)| *tsc)
            .find(|tsc| tsc.plain_offset().is_none())
    }

    /// Exact edge from TSC offsets. `None` without any; `Err` if the vCPUs' offsets differ and the
    /// machine's streams are not stamped with them, but with one clock made of one of them.
    pub(crate) fn tsc_edge(&self, source: Node, parent: MachineId) -> Option<Result<Edge, String>> {
        let hops: BTreeMap<u32, Hop> = self
            .offsets
            .iter()
            .filter_map(|(vcpu, seen)| Some((*vcpu, tsc_hop(seen, &self.restarts)?)))
            .collect();
        let hops = (!hops.is_empty()).then_some(Hops::PerCpu(hops))?;
        let (from, to) = (Node::tsc(source.machine), Node::tsc(parent));
        let edge = Edge { from, to, method: Method::TscOffset, samples: 0, hops };
        Some(if source.is_tsc() || edge.is_one_clock() {
            Ok(edge)
        } else {
            Err(format!(
                "machine {}: its vCPUs have different TSC offsets, so the TSC that was read with its \
                 kernel clock is unknown: the offsets are ignored",
                source.machine
            ))
        })
    }

    /// Edge from a TIMESHIFT option.
    pub(crate) fn shift_edge(&self, from: Node, to: Node) -> Option<Edge> {
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
        Some(Edge { from, to, method: Method::TimeShift, samples, hops })
    }

    /// Estimated edge from when the machine's vCPUs ran, and what had to be said about it.
    pub(crate) fn ran_edge(
        &self,
        from: Node,
        to: Node,
        rate: (u64, u64),
        notes: &mut Vec<String>,
    ) -> Option<Edge> {
        let mut hops = BTreeMap::new();
        let mut samples = 0;
        for (cpu, stretches) in &self.ran {
            let reads = self.reads.get(cpu).map_or(&[][..], Vec::as_slice);
            let Some(fit) = ran::fit(stretches, reads, rate) else { continue };
            samples += fit.stretches;
            notes.extend(ran_remarks(from.machine, *cpu, &fit));
            hops.insert(*cpu, Hop::single(Map::Curve(Box::new(fit.curve))));
        }
        let hops = (!hops.is_empty()).then_some(Hops::PerCpu(hops))?;
        let samples = u64::try_from(samples).unwrap_or(u64::MAX);
        Some(Edge { from, to, method: Method::Causality, samples, hops })
    }

    /// Estimated edge from exchanges, and what had to be said about them.
    pub(crate) fn exchange_edge(
        &self,
        from: Node,
        to: Node,
        model: RateModel,
        notes: &mut Vec<String>,
    ) -> Option<Edge> {
        let mut boots = Vec::new();
        let mut fitted = Vec::new();
        for run in &self.brackets {
            boots.push(fitted.len());
            if !run.is_empty() {
                let estimate = estimate(run, &model);
                notes.extend(remarks(from.machine, &estimate));
                fitted.extend(estimate.pieces);
            }
        }
        let samples: usize = fitted.iter().map(|p| p.brackets).sum();
        let spans: Vec<(u64, u64)> = fitted.iter().map(|p| p.host_span).collect();
        let pieces = fitted
            .into_iter()
            .zip(windows(&spans))
            .map(|(p, window)| Piece::new(Map::Curve(Box::new(p.curve)), window))
            .collect();
        let hops = Hops::Machine(Hop::new(pieces)?.with_boots(boots));
        let samples = u64::try_from(samples).unwrap_or(u64::MAX);
        Some(Edge { from, to, method: Method::Exchange, samples, hops })
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
/// A boot begins with the last run that can hold when it was noticed: by then its offset is set.
fn tsc_hop(seen: &[(u64, GuestTsc)], restarts: &[u64]) -> Option<Hop> {
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
    let windows = windows(&spans);
    let run_at = |at: &u64| windows.partition_point(|(from, _)| from <= at).saturating_sub(1);
    let boots = std::iter::once(0).chain(restarts.iter().map(run_at)).collect();
    let piece = |((tsc, _), window)| Piece::new(Map::Tsc(tsc), window);
    Some(
        Hop::new(runs.into_iter().zip(windows.iter().copied()).map(piece).collect())?
            .with_boots(boots),
    )
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
            "machine {machine}: {} clock exchanges are impossible (received before sent, or timestamps \
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
            "machine {machine}: {} groups of clock exchanges do not determine the clock's rate and were \
             ignored (its unit differs from the host's, so two exchanges some time apart are needed)",
            e.without_rate
        ));
    }
    for pair in e.pieces.windows(2) {
        let [a, b] = pair else { continue };
        notes.push(format!(
            "machine {machine}: its clock stepped between {} and {} of the host's clock: \
             aligned in segments",
            a.host_span.1, b.host_span.0
        ));
    }
    if e.pieces.iter().any(|p| p.outside_limit) {
        notes.push(format!(
            "machine {machine}: the rate of its clock differs from the host's by more than the \
             drift limit: the rate was taken from the exchanges"
        ));
    }
    notes
}

/// What a reader should know about a clock that was fitted to when a vCPU ran.
fn ran_remarks(machine: MachineId, cpu: u32, fit: &ran::Fit) -> Vec<String> {
    let mut notes = Vec::new();
    if fit.contradicting > 0 {
        notes.push(format!(
            "machine {machine}: {} running intervals of its vCPU {cpu} contradict its kernel's \
             timestamps in the others and were ignored",
            fit.contradicting
        ));
    }
    let seen = match fit.read {
        0 => String::new(),
        read => format!(", {read} of them with recorded clock readings"),
    };
    notes.push(format!(
        "machine {machine}: the clock of CPU {cpu} was aligned to the hypervisor's by {} running intervals of its vCPU{seen}; \
         the bound allows for jumps of {} ticks (an emulated clock jumps when its vCPU migrates, or when it is steered)",
        fit.stretches, fit.jump_ticks
    ));
    notes
}

/// What a reader should know about readings that did not go smoothly.
fn reading_remarks(machine: MachineId, fit: &Fit, readings: usize) -> Vec<String> {
    let mut notes = Vec::new();
    if fit.impossible > 0 {
        notes.push(format!(
            "machine {machine}: {} readings of its clock and TSC are impossible (the TSC ran \
             backwards, or timestamps beyond 2^62) and were ignored",
            fit.impossible
        ));
    }
    if fit.pieces.is_empty() {
        notes.push(format!(
            "machine {machine}: its {readings} readings of its clock and TSC do not determine \
             the clock's rate (at least two, some milliseconds apart, are needed): ignored"
        ));
    }
    for pair in fit.pieces.windows(2) {
        let [a, b] = pair else { continue };
        notes.push(format!(
            "machine {machine}: its clock stepped against its TSC between {} and {} ns (it was set, \
             or the machine slept): aligned in segments",
            a.ns_span.1, b.ns_span.0
        ));
    }
    notes
}

/// Machine, parent and raw stamps of a record that relates two clocks.
pub(crate) fn related(record: &Evidence) -> Option<(MachineId, MachineId)> {
    match record {
        Evidence::TscOffset { machine, parent, .. }
        | Evidence::Exchange { machine, parent, .. }
        | Evidence::VcpuRan { machine, parent, .. }
        | Evidence::ClockRead { machine, parent, .. }
        | Evidence::TimeShift { machine, parent, .. } => Some((*machine, *parent)),
        _ => None,
    }
}
