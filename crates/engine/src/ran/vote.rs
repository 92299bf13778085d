//! Where another clock began: candidates for its offset, by vote.
//!
//! After a silence a kernel's first event comes a moment after its vCPU was switched in. So of all
//! pairs of such an event and such a switch, those that belong together agree on the offset to a
//! fraction of a millisecond, and all other pairs scatter. Only the beginning of Xen's trace votes:
//! later the clocks may have drifted apart.

use super::running::Interval;

/// A silence, ticks of Xen's TSC: about a millisecond of any TSC.
const SILENCE: u64 = 1 << 21;
/// Votes that differ by less agree, ticks of Xen's TSC: a fifth of a millisecond or less.
const BIN_BITS: u32 = 19;
/// Switches that vote, at most.
const MAX_SWITCHES: usize = 1024;
/// Events that vote at a time.
const BURSTS: usize = 1 << 12;
/// Candidates given.
const CANDIDATES: usize = 16;

/// Offsets (Xen's TSC minus the clock's stamp in Xen's ticks) by how many pairs agree on them, the
/// best first; each is the begin of a bin. `stamps` are in Xen's ticks already, from the clock's
/// own zero.
pub(super) fn candidates(intervals: &[Interval], stamps: &[i128]) -> Vec<i128> {
    let mut switches = Vec::new();
    let mut left = None;
    for interval in intervals {
        if left.is_some_and(|left: u64| interval.from.saturating_sub(left) > SILENCE) {
            switches.push(interval.from);
        }
        left = Some(interval.to);
        if switches.len() == MAX_SWITCHES {
            break;
        }
    }
    let mut bursts: Vec<i128> = Vec::new();
    for pair in stamps.windows(2) {
        if let [before, at] = pair
            && at - before > i128::from(SILENCE)
        {
            bursts.push(*at);
        }
    }
    // Events of another time have nothing to say to these switches; so many are counted at a time
    // that memory is bound.
    let mut best: Vec<(usize, i64)> = Vec::new();
    let mut votes: Vec<i64> = Vec::with_capacity(switches.len() * bursts.len().min(BURSTS));
    for bursts in bursts.chunks(BURSTS) {
        votes.clear();
        for switch in &switches {
            let bins = bursts.iter().map(|burst| (i128::from(*switch) - burst) >> BIN_BITS);
            votes.extend(bins.filter_map(|bin| i64::try_from(bin).ok()));
        }
        votes.sort_unstable();
        best.extend(counted(&votes));
        best = distinct(best);
    }
    best.into_iter().map(|(_, bin)| i128::from(bin) << BIN_BITS).collect()
}

/// Each bin with how many votes it has; a bin's neighbour above counts with it.
fn counted(votes: &[i64]) -> Vec<(usize, i64)> {
    let bins: Vec<(i64, usize)> =
        votes.chunk_by(|a, b| a == b).filter_map(|bin| Some((*bin.first()?, bin.len()))).collect();
    let with_next = bins.iter().enumerate().map(|(at, (bin, count))| {
        let next = bins.get(at + 1).filter(|(next, _)| *next == bin + 1).map_or(0, |next| next.1);
        (count + next, *bin)
    });
    with_next.collect()
}

/// The bins with the most votes, without neighbours of better ones.
fn distinct(mut bins: Vec<(usize, i64)>) -> Vec<(usize, i64)> {
    bins.sort_unstable_by(|a, b| b.cmp(a));
    let mut best: Vec<(usize, i64)> = Vec::new();
    for (count, bin) in bins {
        if best.iter().all(|(_, other)| (other - bin).abs() > 1) {
            best.push((count, bin));
        }
        if best.len() == CANDIDATES {
            break;
        }
    }
    best
}

/// How wide a bin is.
pub(super) const BIN: i128 = 1 << BIN_BITS;
