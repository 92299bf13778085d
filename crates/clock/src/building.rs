//! From raw evidence to the edges of the graph.

use crate::{
    affine::GuestTsc,
    clock_kind::{ClockKind, clock_kind},
    edge::{Edge, Read, Seen, related},
    error::ClockError,
    evidence::Evidence,
    exchange::Bracket,
    hop::{Hop, Place},
    node::Node,
    options::ClockOptions,
    ran::{self, Stretch},
    rate::Rate,
    readings::Reading,
    time_shift::Sample,
};
use std::collections::BTreeMap;
use transect_model::ids::MachineId;

/// Which clock stamps whose streams.
#[derive(Debug)]
pub(crate) struct Clocks {
    pub(crate) reference: MachineId,
    pub(crate) reference_clock: String,
    sources: BTreeMap<MachineId, String>,
    /// How often each machine had been booted again when each of its sources was begun.
    boots: BTreeMap<MachineId, Vec<usize>>,
}

impl Clocks {
    pub(crate) fn new(
        reference: MachineId,
        reference_clock: String,
        evidence: &[Evidence],
    ) -> Self {
        let mut clocks =
            Clocks { reference, reference_clock, sources: BTreeMap::new(), boots: BTreeMap::new() };
        let mut boots = Boots::default();
        for record in evidence {
            boots.note(record);
            if let Evidence::SourceClock { machine, clock } = record {
                clocks.sources.insert(*machine, clock.clone());
                clocks.boots.entry(*machine).or_default().push(boots.of(*machine));
            }
        }
        clocks
    }

    pub(crate) fn boot_of_source(&self, machine: MachineId, number: usize) -> usize {
        let boots = self.boots.get(&machine).map_or(&[][..], Vec::as_slice);
        boots.get(number).or(boots.last()).copied().unwrap_or(0)
    }

    pub(crate) fn name(&self, machine: MachineId) -> &str {
        match self.sources.get(&machine) {
            Some(clock) if machine != self.reference => clock,
            _ => &self.reference_clock,
        }
    }

    pub(crate) fn kind(&self, machine: MachineId) -> ClockKind {
        clock_kind(self.name(machine))
    }

    /// The clock that stamps a machine's streams.
    pub(crate) fn source(&self, machine: MachineId) -> Node {
        Node::source(machine, self.name(machine))
    }
}

/// The edges so far.
pub(crate) struct Building<'a> {
    clocks: &'a Clocks,
    rate: Option<Rate>,
    options: ClockOptions,
    pub(crate) edges: Vec<Edge>,
    /// The way from each machine's kernel clock to its TSC, for stamps of evidence.
    tsc_of: BTreeMap<MachineId, Hop>,
    /// How much each machine's kernel clock is known to have changed its rate, ppm.
    spread_ppm: BTreeMap<MachineId, u32>,
    pub(crate) notes: Vec<String>,
}

impl<'a> Building<'a> {
    pub(crate) fn new(clocks: &'a Clocks, rate: Option<Rate>, options: ClockOptions) -> Self {
        Building {
            clocks,
            rate,
            options,
            edges: Vec::new(),
            tsc_of: BTreeMap::new(),
            spread_ppm: BTreeMap::new(),
            notes: Vec::new(),
        }
    }

    /// The ways between the two clocks of one machine. First of all: the stamps of other evidence
    /// may need them.
    pub(crate) fn add_readings(&mut self, evidence: &[Evidence]) {
        let mut read: BTreeMap<MachineId, Read> = BTreeMap::new();
        let mut boots = Boots::default();
        for record in evidence {
            boots.note(record);
            if let Evidence::TscReading { machine, clock, tsc_before, ns, tsc_after } = record
                && clock == self.clocks.name(*machine)
                && self.clocks.kind(*machine) == ClockKind::Nanoseconds
            {
                let reading = Reading { before: *tsc_before, ns: *ns, after: *tsc_after };
                read.entry(*machine).or_default().reading(boots.of(*machine), reading);
            }
        }
        for (machine, read) in read {
            let source = self.clocks.source(machine);
            let Some((there, back, spread)) = read.edges(source, &mut self.notes) else { continue };
            if let Some(hop) = there.hop(None) {
                self.tsc_of.insert(machine, hop.clone());
            }
            self.spread_ppm.insert(machine, spread);
            if self.options.use_tsc_offset {
                self.edges.extend([there, back]);
            }
        }
    }

    /// What was seen of each machine against each parent.
    /// Errors: numbers that no clock can have.
    pub(crate) fn collect(
        &self,
        evidence: &[Evidence],
    ) -> Result<BTreeMap<(MachineId, MachineId), Seen>, ClockError> {
        let mut pairs: BTreeMap<(MachineId, MachineId), Seen> = BTreeMap::new();
        let mut boots = Boots::default();
        for record in evidence {
            boots.note(record);
            let Some((machine, parent)) = related(record) else { continue };
            let seen = pairs.entry((machine, parent)).or_default();
            let boot = boots.of(machine);
            match record {
                Evidence::TscOffset { vcpu, offset, ratio, frac_bits, at_host, .. } => {
                    let tsc = GuestTsc::new(*offset, *ratio, *frac_bits)?;
                    seen.offset(vcpu.0, self.tsc_at(parent, *at_host), tsc);
                }
                Evidence::Exchange { host_send, guest, host_recv, .. } => {
                    let (host_send, guest, host_recv) = (*host_send, *guest, *host_recv);
                    seen.bracket(boot, Bracket { host_send, guest, host_recv });
                }
                Evidence::VcpuRan { cpu, from, first, last, to, .. } => {
                    let (from, first, last, to) = (*from, *first, *last, *to);
                    seen.ran(cpu.0, Stretch { from, first, last, to });
                }
                Evidence::ClockRead { cpu, after, stamp, before, .. } => {
                    let (after, stamp, before) = (*after, *stamp, *before);
                    seen.read(cpu.0, ran::Read { after, stamp, before });
                }
                Evidence::TimeShift {
                    cpu,
                    at_guest,
                    offset,
                    scaling,
                    fraction,
                    interpolated,
                    ..
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
        for record in evidence {
            if let Evidence::ClockRestart { machine, at_host } = record {
                let of_machine = pairs.iter_mut().filter(|((m, _), _)| m == machine);
                for ((_, parent), seen) in of_machine {
                    seen.restart(self.tsc_at(*parent, *at_host));
                }
            }
        }
        Ok(pairs)
    }

    /// The machine's TSC when its clock showed `stamp`, as well as that is known; the stamp itself
    /// if it is one of the TSC (or nothing relates the two, and nothing will need it).
    fn tsc_at(&self, machine: MachineId, stamp: u64) -> u64 {
        let tsc = self.tsc_of.get(&machine);
        tsc.and_then(|hop| hop.map_at(Place::default(), stamp).host_at(stamp)).unwrap_or(stamp)
    }

    /// The ways from a machine to its parent.
    pub(crate) fn add_edges(&mut self, machine: MachineId, parent: MachineId, seen: &Seen) {
        let (from, to) = (self.clocks.source(machine), self.clocks.source(parent));
        let kinds = (self.clocks.kind(machine), self.clocks.kind(parent));
        let has_tsc = |m: MachineId, kind| kind == ClockKind::Tsc || self.tsc_of.contains_key(&m);
        if self.options.use_tsc_offset && has_tsc(machine, kinds.0) && has_tsc(parent, kinds.1) {
            match seen.tsc_edge(from, parent) {
                Some(Ok(edge)) => self.edges.push(edge),
                Some(Err(note)) => self.notes.push(note),
                None => {}
            }
        }
        self.edges.extend(seen.shift_edge(from, to));
        let per_ns = self.rate.filter(|_| parent == self.clocks.reference).map(|rate| {
            let (mult, shift) = rate.ticks.parts();
            (1u128 << shift, u128::from(mult))
        });
        if kinds.1 == ClockKind::Tsc {
            let rate = match (kinds.0, per_ns) {
                (ClockKind::Tsc, _) => Some((1, 1)),
                (ClockKind::Nanoseconds, Some(per_ns)) => small(per_ns),
                _ => None,
            };
            let edge = rate.and_then(|rate| seen.ran_edge(from, to, rate, &mut self.notes));
            self.edges.extend(edge);
        }
        match seen.rate_model(kinds.0, kinds.1, per_ns) {
            Some(mut model) => {
                model.drift_limit_ppm = self.options.drift_limit_ppm;
                if model.wander_ppm > 0 {
                    // Rates that readings saw changing are no longer taken to be as good as steady.
                    let spread = |m| self.spread_ppm.get(&m).copied().unwrap_or(0);
                    model.wander_ppm = model.wander_ppm.max(spread(machine) + spread(parent));
                }
                let edge = seen.exchange_edge(from, to, model, &mut self.notes);
                self.edges.extend(edge);
            }
            None => self.notes.push(format!(
                "machine {machine}: its clock '{}' cannot be aligned with '{}' by exchanges: at \
                 least one of them does not measure time",
                self.clocks.name(machine),
                self.clocks.name(parent)
            )),
        }
    }
}

/// A rate in numbers below 2^32.
fn small((num, den): (u128, u128)) -> Option<(u64, u64)> {
    let bits = 128 - num.max(den).leading_zeros();
    let shift = bits.saturating_sub(32);
    Some((u64::try_from(num >> shift).ok()?, u64::try_from(den >> shift).ok()?))
}

/// How often each machine was booted again, so far.
#[derive(Default)]
struct Boots(BTreeMap<MachineId, usize>);

impl Boots {
    fn note(&mut self, record: &Evidence) {
        if let Evidence::ClockRestart { machine, .. } = record {
            *self.0.entry(*machine).or_default() += 1;
        }
    }

    fn of(&self, machine: MachineId) -> usize {
        self.0.get(&machine).copied().unwrap_or(0)
    }
}
