//! The requests that a VMM makes to its host's devices, and which of a guest's they are for.
//!
//! A disk of a VM is a device of the host, or a file whose pieces lie one after another on one: the
//! distance of the host's sector from the guest's is the same for all requests within a piece. It is learned by
//! vote: of every request of the VMM that could be for a guest's, each distance gets a vote. Until one
//! stands out, of several that could be it the first is taken, by order alone.
//!
//! A device that is made of others (a logical volume) hands requests on to them: of a thread's requests, one to another
//! device within the time of the first is not what the guest's is for, unless the votes are for it.
//!
//! A request that the page cache answers, or takes to be written later, has none.

use serde::{Deserialize, Serialize};
use std::{
    cmp::Reverse,
    collections::{BTreeMap, VecDeque},
};
use transect_model::{
    cause::Evidence,
    event::{BlockOp, BlockRequest},
    ids::Tid,
};

/// Requests of a VMM that may be for one of a guest's that is still under way: the last so many.
const MAX_RECENT: usize = 4096;
/// Distances with votes, at most.
const MAX_OFFSETS: usize = 1 << 12;
/// A distance is known when it has so many votes …
const SURE_VOTES: u64 = 3;
/// … and so many times as many as any other that fits.
const SURE_RATIO: u64 = 2;

/// A request to a device of the host that is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Part {
    pub(crate) submit: i64,
    pub(crate) issue: Option<i64>,
    pub(crate) complete: i64,
    pub(crate) device: u32,
    /// Who made it.
    pub(crate) tid: Tid,
    /// When that thread had got its CPU, if it serves a domain's disk.
    pub(crate) served_since: Option<i64>,
}

#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
struct Recent {
    part: Part,
    op: BlockOp,
    sector: u64,
    sectors: u32,
    /// It was found to be for one of the guest's.
    is_taken: bool,
}

/// Devices of guest and host, and how much later on the host's a sector of the guest's is.
type Offset = (u32, u32, i128);

/// What a guest's request asks for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Asked {
    pub(crate) request: BlockRequest,
    /// It was issued then, and perhaps picked up later.
    pub(crate) issued: i64,
    pub(crate) picked_up: Option<i64>,
    pub(crate) until: i64,
}

/// The requests of one VM's VMM.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Parts {
    recent: VecDeque<Recent>,
    offsets: BTreeMap<Offset, u64>,
}

impl Parts {
    /// A request of the VMM is done.
    pub(crate) fn done(&mut self, request: BlockRequest, part: Part) {
        let BlockRequest { op, sector, sectors, .. } = request;
        if self.recent.len() >= MAX_RECENT {
            self.recent.pop_front();
        }
        self.recent.push_back(Recent { part, op, sector, sectors, is_taken: false });
    }

    /// The one that was made for a guest's request.
    pub(crate) fn find(&mut self, asked: &Asked) -> Option<(Part, Evidence)> {
        // They were done in that order.
        let begins = self.recent.partition_point(|recent| recent.part.complete < asked.issued);
        let mut fit: Vec<usize> =
            (begins..self.recent.len()).filter(|at| asked.is_alike(&self.recent[*at])).collect();
        // The back end had it then at the earliest, if that is so for any.
        let late = |at: &usize| {
            asked.picked_up.is_none_or(|picked| self.recent[*at].part.submit >= picked)
        };
        if fit.iter().any(late) {
            fit.retain(late);
        }
        if fit.is_empty() {
            return self.find_pieces(asked, begins);
        }
        let of = |at: usize| asked.offset(&self.recent[at]);
        let votes = |at: usize| self.offsets.get(&of(at)).copied().unwrap_or(0);
        let device = |at: &usize| self.recent[*at].part.device;
        let are_several = fit.iter().any(|at| device(at) != device(&fit[0]));
        let is_handed_on = |at: &usize| {
            let is_outer = |outer: &usize| {
                self.recent[*at].is_within(&self.recent[*outer]) && votes(*at) <= votes(*outer)
            };
            are_several && fit.iter().any(is_outer)
        };
        let fit: Vec<usize> = fit.iter().copied().filter(|at| !is_handed_on(at)).collect();
        let rank = |at: &usize| (votes(*at), !self.recent[*at].is_taken, Reverse(*at));
        let best = fit.iter().copied().max_by_key(rank)?;
        let others = fit.iter().copied().filter(|at| of(*at) != of(best));
        let second = others.map(votes).max().unwrap_or(0);
        let is_sure = votes(best) >= SURE_VOTES && votes(best) >= SURE_RATIO * second;
        let first = fit.iter().copied().find(|at| !self.recent[*at].is_taken);
        let (at, evidence) = match (is_sure, fit.len(), first) {
            (true, ..) => (best, Evidence::Id),
            (false, 1, Some(only)) => (only, Evidence::Context),
            (false, _, Some(first)) => (first, Evidence::Order),
            // They are all for others.
            (false, _, None) => return self.find_pieces(asked, begins),
        };
        let offsets: Vec<Offset> = fit.iter().map(|at| of(*at)).collect();
        // A flush has no sectors.
        for offset in offsets.into_iter().filter(|_| asked.request.sectors > 0) {
            self.vote(offset);
        }
        let taken = self.recent.get_mut(at)?;
        taken.is_taken = true;
        Some((taken.part, evidence))
    }

    /// It was split on its way, or made one with others: what lies on its sectors, where a distance that
    /// is known says that they are.
    fn find_pieces(&self, asked: &Asked, begins: usize) -> Option<(Part, Evidence)> {
        let device = asked.request.device;
        let range = (device, 0, i128::MIN)..=(device, u32::MAX, i128::MAX);
        let known = self.offsets.range(range).filter(|(_, votes)| **votes >= SURE_VOTES);
        let (_, on, offset) = *known.max_by_key(|(_, votes)| **votes)?.0;
        let from = i128::from(asked.request.sector) + offset;
        let until = from + i128::from(asked.request.sectors);
        let pieces = self.recent.iter().skip(begins).filter(|recent| {
            let (begin, sectors) = (i128::from(recent.sector), i128::from(recent.sectors));
            asked.is_time_of(recent)
                && recent.part.device == on
                && begin < until
                && begin + sectors > from
        });
        let whole = pieces.map(|recent| recent.part).reduce(|all, part| Part {
            submit: all.submit.min(part.submit),
            issue: all.issue.zip(part.issue).map(|(a, b)| a.min(b)),
            complete: all.complete.max(part.complete),
            ..all
        })?;
        Some((whole, Evidence::Context))
    }

    fn vote(&mut self, offset: Offset) {
        if self.offsets.len() >= MAX_OFFSETS && !self.offsets.contains_key(&offset) {
            self.offsets.retain(|_, votes| {
                *votes /= 2;
                *votes > 0
            });
        }
        *self.offsets.entry(offset).or_default() += 1;
    }

    /// Events are missing. What was learned stays.
    pub(crate) fn lose(&mut self) {
        self.recent.clear();
    }
}

impl Recent {
    /// Was it made to another device by a thread that had made `outer`, and done before that?
    fn is_within(&self, outer: &Recent) -> bool {
        let (part, of) = (self.part, outer.part);
        part.tid == of.tid
            && part.device != of.device
            && of.submit < part.submit
            && part.complete <= of.complete
    }
}

impl Asked {
    fn is_time_of(&self, recent: &Recent) -> bool {
        let Recent { part, op, .. } = recent;
        *op == self.request.op && part.submit >= self.issued && part.complete <= self.until
    }

    fn is_alike(&self, recent: &Recent) -> bool {
        self.is_time_of(recent) && recent.sectors == self.request.sectors
    }

    fn offset(&self, recent: &Recent) -> Offset {
        let distance = i128::from(recent.sector) - i128::from(self.request.sector);
        (self.request.device, recent.part.device, distance)
    }
}
