//! How a kernel's clock is related to Xen's TSC if it is not that: an emulated TSC, one with an
//! offset, a kernel clock.
//!
//! A vote ([`super::vote`]) says where the clock began, to a fraction of a millisecond; which
//! candidate is right, the share of events that lie inside says. From there the offset is *tracked*
//! from one running interval to the next, so that it may drift as far as it likes, and each event
//! is given to the interval that it lies in or next to. Intervals with less between them than the
//! offset's uncertainty are taken as one: that loses sharpness, but never gives an event to the
//! wrong one.

use super::{
    Running, Share, Stamps, VcpuRuns,
    inside::share,
    reads::reads,
    running::Interval,
    vote::{self, BIN},
};
use transect_clock::{
    Evidence,
    ran::{Fit, Read, Stretch, fit},
};
use transect_model::ids::{CpuId, MachineId};

/// What the tracked offset may be off by, ticks of Xen's TSC: a fifth of a millisecond or less.
const MARGIN: i128 = 1 << 19;
/// Steps within a bin that are tried.
const STEPS: i128 = 16;
/// Events looked at, of each CPU, to judge a candidate: those of the first seconds, in which a
/// clock has not drifted far, but so many at least and at most.
const JUDGED_TICKS: i128 = 1 << 33;
const MIN_JUDGED: usize = 1 << 9;
const MAX_JUDGED: usize = 1 << 14;
/// Better than chance by so much is the right candidate (1 would be perfect): a clock that jumps
/// misses some. A second candidate that is nearly as good makes both doubtful; what a domain does
/// periodically fits to half and more when it is shifted by a period.
const SKILL: f64 = 0.85;
const AHEAD_OF_SECOND: f64 = 0.1;
/// Stretches that evidence is written of, for each CPU at most.
const MAX_STRETCHES: usize = 1 << 20;

/// A kernel's clock, related to Xen's TSC.
#[derive(Clone, Debug)]
pub struct Placed {
    /// What to tell the clock graph.
    pub evidence: Vec<Evidence>,
    /// The offset of the first stretch: Xen's TSC minus the kernel's stamp in Xen's ticks.
    pub offset_ticks: i128,
    /// The events inside, as the estimate places them.
    pub share: Share,
    /// How far the estimate may be off at any event, ticks of Xen's TSC.
    pub bound_ticks: u64,
    /// Half of all events have a smaller bound than this.
    pub median_bound_ticks: u64,
    /// Intervals with events of the kernel that it rests on.
    pub stretches: usize,
    /// Those of them in which Xen recorded the readings of the clock.
    pub read: usize,
    /// How far the clock may jump, ticks of Xen's TSC.
    pub jump_ticks: u64,
}

/// Why it could not be found out.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum PlaceError {
    /// None of the domain's vCPUs comes and goes.
    #[error(
        "domain {dom}'s vCPUs are not switched in and out often enough to place its kernel's events"
    )]
    Silent {
        /// The domain.
        dom: u16,
    },
    /// No offset puts the events into running intervals.
    #[error(
        "no offset puts the kernel's events into the running intervals of domain {dom} (the best one fits {inside} of \
         {tested}): check that the file is of that domain and of the same time as Xen's trace"
    )]
    NoFit {
        /// The domain.
        dom: u16,
        /// Events inside, with the best offset.
        inside: u64,
        /// Of so many.
        tested: u64,
    },
    /// Several do.
    #[error(
        "several offsets, {apart_ticks} ticks apart, put the kernel's events into the running intervals of domain {dom}"
    )]
    Ambiguous {
        /// The domain.
        dom: u16,
        /// How far apart.
        apart_ticks: i128,
    },
}

/// A clock's ticks in Xen's, from the clock's zero.
#[derive(Clone, Copy, Debug)]
struct Scale(u64, u64);

impl Scale {
    fn at(self, stamp: u64) -> i128 {
        if self.0 == self.1 {
            return i128::from(stamp);
        }
        i128::from(stamp) * i128::from(self.0) / i128::from(self.1.max(1))
    }
}

/// Finds how a domain's kernel's clock is related to Xen's TSC. `rate` is Xen's ticks in one of the
/// clock, as numerator and denominator below 2^32; `machine` and `xen` are for the evidence.
///
/// # Errors
/// The events fit nowhere, or in several places.
pub fn place(
    running: &Running,
    dom: u16,
    stamps: &Stamps,
    rate: (u64, u64),
    (machine, xen): (MachineId, MachineId),
) -> Result<Placed, PlaceError> {
    let scale = Scale(rate.0, rate.1);
    let offset = offset(running, dom, stamps, scale)?;
    let mut evidence = Vec::new();
    let mut fits: Vec<(CpuId, Fit)> = Vec::new();
    for (cpu, of_cpu) in stamps.cpus() {
        let Some(runs) = running.vcpu(dom, cpu) else { continue };
        let (stretches, reads) = stretches(runs, of_cpu, scale, offset);
        evidence.extend(stretches.iter().map(|s| {
            let Stretch { from, first, last, to } = *s;
            Evidence::VcpuRan { machine, parent: xen, cpu, from, first, last, to }
        }));
        evidence.extend(reads.iter().map(|read| {
            let Read { after, stamp, before } = *read;
            Evidence::ClockRead { machine, parent: xen, cpu, after, stamp, before }
        }));
        fits.extend(fit(&stretches, &reads, rate).map(|fit| (cpu, fit)));
    }
    let mut placed = Placed {
        evidence,
        offset_ticks: offset,
        share: Share::default(),
        bound_ticks: 0,
        median_bound_ticks: 0,
        stretches: fits.iter().map(|(_, fit)| fit.stretches).sum(),
        read: fits.iter().map(|(_, fit)| fit.read).sum(),
        jump_ticks: fits.iter().map(|(_, fit)| fit.jump_ticks).max().unwrap_or(0),
    };
    let mut bounds = Vec::new();
    for (cpu, of_cpu) in stamps.cpus() {
        let fit = fits.iter().find(|(of, _)| *of == cpu).map(|(_, fit)| fit);
        let (Some(runs), Some(fit)) = (running.vcpu(dom, cpu), fit) else { continue };
        let at = |stamp: &u64| fit.host_from_guest(*stamp).map_or(-1, i128::from);
        placed.share.add(runs.share(of_cpu.iter().map(at)));
        let known = runs.intervals().first().zip(runs.intervals().last());
        let within = |stamp: &&u64| {
            known.is_some_and(|(a, b)| (a.from.into()..=b.to.into()).contains(&at(stamp)))
        };
        bounds.extend(of_cpu.iter().filter(within).map(|stamp| fit.bound_ticks(*stamp)));
    }
    bounds.sort_unstable();
    placed.bound_ticks = bounds.last().copied().unwrap_or(0);
    placed.median_bound_ticks = bounds.get(bounds.len() / 2).copied().unwrap_or(0);
    Ok(placed)
}

/// The offset at the beginning of Xen's trace, to a fraction of a millisecond.
fn offset(running: &Running, dom: u16, stamps: &Stamps, scale: Scale) -> Result<i128, PlaceError> {
    let mut found: Vec<(f64, Share, i128)> = Vec::new();
    for (cpu, of_cpu) in stamps.cpus() {
        let Some(runs) = running.vcpu(dom, cpu) else { continue };
        let in_xen_ticks: Vec<i128> = of_cpu.iter().map(|stamp| scale.at(*stamp)).collect();
        for candidate in vote::candidates(runs.intervals(), &in_xen_ticks) {
            // Its two bins, and the one above: a pair's offset is too low by how long after the switch its event came.
            found.extend(
                (0..3 * STEPS)
                    .map(|step| candidate + step * BIN / STEPS)
                    .map(|offset| (judged(running, dom, stamps, scale, offset), offset))
                    .map(|(share, offset)| (share.skill(), share, offset))
                    .max_by(|a, b| a.0.total_cmp(&b.0)),
            );
        }
    }
    found.sort_by(|a, b| b.0.total_cmp(&a.0));
    let Some((skill, share, offset)) = found.first().copied() else {
        return Err(PlaceError::Silent { dom });
    };
    if skill < SKILL || share.tested < 32 {
        return Err(PlaceError::NoFit { dom, inside: share.inside, tested: share.tested });
    }
    let other = |at: &&(f64, Share, i128)| (at.2 - offset).abs() > 4 * BIN;
    if let Some((_, _, second)) =
        found.iter().filter(other).find(|at| at.0 > skill - AHEAD_OF_SECOND)
    {
        return Err(PlaceError::Ambiguous { dom, apart_ticks: (second - offset).abs() });
    }
    Ok(offset)
}

/// The share with this offset, of the events of the beginning of Xen's trace.
fn judged(running: &Running, dom: u16, stamps: &Stamps, scale: Scale, offset: i128) -> Share {
    let mut all = Share::default();
    for (cpu, of_cpu) in stamps.cpus() {
        let Some(runs) = running.vcpu(dom, cpu) else { continue };
        let Some(first) = runs.intervals().first() else { continue };
        let first = i128::from(first.from);
        let begin = of_cpu.partition_point(|stamp| scale.at(*stamp) + offset < first);
        let of_cpu = of_cpu.get(begin..).unwrap_or_default();
        let soon = of_cpu.partition_point(|s| scale.at(*s) + offset < first + JUDGED_TICKS);
        let judged = of_cpu.iter().take(soon.clamp(MIN_JUDGED, MAX_JUDGED));
        all.add(runs.share(judged.map(|stamp| scale.at(*stamp) + offset)));
    }
    all
}

/// Each running interval with the first and the last event in it, and readings of the clock; the
/// offset being tracked.
fn stretches(
    runs: &VcpuRuns,
    stamps: &[u64],
    scale: Scale,
    offset: i128,
) -> (Vec<Stretch>, Vec<Read>) {
    let mut stretches: Vec<Stretch> = Vec::new();
    let mut read = Vec::new();
    let mut offset = offset;
    let mut rest = stamps;
    for interval in apart(runs.intervals()) {
        let (from, to) = (i128::from(interval.from), i128::from(interval.to));
        let before = rest.partition_point(|s| scale.at(*s) + offset < from - MARGIN);
        rest = rest.get(before..).unwrap_or_default();
        let inside = rest.partition_point(|s| scale.at(*s) + offset <= to + MARGIN);
        let (mine, after) = rest.split_at(inside);
        rest = after;
        let (Some(first), Some(last)) = (mine.first().copied(), mine.last().copied()) else {
            continue;
        };
        if stretches.len() < MAX_STRETCHES {
            stretches.push(Stretch { from: interval.from, first, last, to: interval.to });
        }
        // What this interval leaves possible is where the next one is looked for.
        let (low, high) = (from - scale.at(first), to - scale.at(last));
        if low <= high {
            offset = offset.clamp(low, high);
        }
        let emulations = runs.emulations(interval.from, interval.to);
        let found = reads(emulations, mine, |stamp| scale.at(stamp) + offset, MARGIN);
        read.extend(found.into_iter().flatten());
    }
    (stretches, read)
}

/// The intervals; those with less than twice the margin between them as one.
fn apart(intervals: &[Interval]) -> impl Iterator<Item = Interval> + '_ {
    intervals
        .chunk_by(|a, b| i128::from(b.from) - i128::from(a.to) < 2 * MARGIN)
        .filter_map(|near| Some(Interval { from: near.first()?.from, to: near.last()?.to }))
}

/// A share as the offset of one candidate gives it, for those who were told an offset and want to
/// know how it fits.
impl Running {
    /// The share of events inside if the kernel's clock is Xen's TSC minus an offset.
    pub fn share_at(&self, dom: u16, stamps: &Stamps, rate: (u64, u64), offset: i128) -> Share {
        share(self, dom, stamps, |stamp| Scale(rate.0, rate.1).at(stamp) + offset)
    }
}
