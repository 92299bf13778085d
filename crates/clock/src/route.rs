//! The best way from each clock to the reference.
//!
//! The bounds of the edges on a way add up (each in the unit of the clock it leads to, brought to
//! the reference's); the way with the smallest sum is taken, between equals the one with fewer
//! steps, then the better method.

use crate::{edge::Edge, error::ClockError, hop::Hop, node::Node};
use std::{cmp::Ordering, collections::BTreeMap};
use transect_model::ids::CpuId;

/// What the best way from a clock costs.
#[derive(Clone, Copy, Debug)]
struct Cost {
    /// In the reference's ticks.
    bound: f64,
    steps: u32,
    /// The reference's ticks in one tick of the clock.
    scale: f64,
}

impl Cost {
    fn order(&self, other: &Cost) -> Ordering {
        self.bound.total_cmp(&other.bound).then(self.steps.cmp(&other.steps))
    }

    /// Of the way that takes `edge` first, this being what the rest costs.
    #[expect(clippy::cast_precision_loss, reason = "for comparing edges only")]
    fn through(&self, edge: &Edge) -> Cost {
        Cost {
            bound: self.bound + edge.worst_bound() as f64 * self.scale,
            steps: self.steps + 1,
            scale: self.scale / edge.rate().max(1e-6),
        }
    }
}

/// All edges, and which of them to take.
#[derive(Debug)]
pub(crate) struct Routes {
    root: Node,
    edges: Vec<Edge>,
    costs: BTreeMap<Node, Cost>,
    /// The edges out of each clock that lead to the root, the best one first.
    out: BTreeMap<Node, Vec<usize>>,
}

impl Routes {
    /// Finds the ways to `root`.
    pub(crate) fn new(edges: Vec<Edge>, root: Node) -> Routes {
        let costs = costs(&edges, root);
        let mut ways: BTreeMap<Node, Vec<(Cost, usize)>> = BTreeMap::new();
        for (at, edge) in edges.iter().enumerate().filter(|(_, edge)| edge.from != root) {
            if let Some(rest) = costs.get(&edge.to) {
                ways.entry(edge.from).or_default().push((rest.through(edge), at));
            }
        }
        let method = |at: &usize| edges.get(*at).map(|edge| edge.method);
        let best_first = |mut ways: Vec<(Cost, usize)>| {
            ways.sort_by(|(a, at), (b, bt)| a.order(b).then(method(at).cmp(&method(bt))));
            ways.into_iter().map(|(_, at)| at).collect()
        };
        let out = ways.into_iter().map(|(node, ways)| (node, best_first(ways))).collect();
        Routes { root, edges, costs, out }
    }

    /// The edges out of a clock that lead to the reference, the best one first.
    pub(crate) fn ways(&self, from: Node) -> impl Iterator<Item = &Edge> {
        let ways = self.out.get(&from).map_or(&[][..], Vec::as_slice);
        ways.iter().filter_map(|at| self.edges.get(*at))
    }

    /// The edges of the best way from a clock to the reference. `None`: there is no way.
    pub(crate) fn best(&self, from: Node) -> Option<Vec<&Edge>> {
        let mut way = Vec::new();
        let mut at = from;
        while at != self.root {
            let edge = self.ways(at).next()?;
            way.push(edge);
            at = edge.to;
        }
        Some(way)
    }

    /// An edge, and the best way on from it up to the clock that `ends` says.
    pub(crate) fn leg<'a>(&'a self, first: &'a Edge, ends: impl Fn(Node) -> bool) -> Vec<&'a Edge> {
        let mut leg = vec![first];
        let mut at = first.to;
        while at != self.root && !ends(at) {
            let Some(edge) = self.ways(at).next() else { break };
            leg.push(edge);
            at = edge.to;
        }
        leg
    }

    /// The hops for one CPU of the machine whose clock it starts from. At each clock the best edge
    /// that knows the CPU. Errors: there is no way, or none that knows it.
    pub(crate) fn hops(&self, from: Node, cpu: CpuId) -> Result<Vec<Hop>, ClockError> {
        let machine = from.machine;
        let mut hops = Vec::new();
        let mut at = from;
        while at != self.root {
            // Only a clock's own stamps are a CPU's; past the first step they are a machine's.
            let known = (at == from).then_some(cpu);
            let (hop, to) = self.step(at, known).map_err(|error| match error {
                ClockError::NoPath { .. } => ClockError::NoPath { machine },
                other => other,
            })?;
            hops.push(hop.clone());
            at = to;
        }
        Ok(hops)
    }

    fn step(&self, from: Node, cpu: Option<CpuId>) -> Result<(&Hop, Node), ClockError> {
        let own = self.costs.get(&from).ok_or(ClockError::NoPath { machine: from.machine })?;
        self.ways(from)
            // A clock that is nearer to the reference does not lead back here.
            .filter(|edge| self.costs.get(&edge.to).is_some_and(|to| to.order(own).is_lt()))
            .find_map(|edge| Some((edge.hop(cpu)?, edge.to)))
            .ok_or(ClockError::NoOffset { machine: from.machine, cpu: cpu.unwrap_or_default() })
    }
}

/// The cost of the best way from each clock that has one. Bellman and Ford: as many rounds as
/// there are edges settle every way; each round only improves.
fn costs(edges: &[Edge], root: Node) -> BTreeMap<Node, Cost> {
    let mut costs = BTreeMap::from([(root, Cost { bound: 0.0, steps: 0, scale: 1.0 })]);
    for _ in 0..=edges.len() {
        let mut is_settled = true;
        for edge in edges.iter().filter(|edge| edge.from != root) {
            let Some(new) = costs.get(&edge.to).map(|rest| rest.through(edge)) else { continue };
            if costs.get(&edge.from).is_none_or(|old| new.order(old).is_lt()) {
                costs.insert(edge.from, new);
                is_settled = false;
            }
        }
        if is_settled {
            break;
        }
    }
    costs
}
