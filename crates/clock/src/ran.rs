//! A machine's clock from its hypervisor's word on when its vCPUs ran.
//!
//! **What is known.** While a vCPU runs, and only then, its kernel stamps events. So of each
//! stretch in which the hypervisor had it running, the kernel's first stamp was not taken before
//! the stretch began, and its last one not after it ended. Both together bound the offset of the
//! two clocks in that stretch from both sides: the fuller a stretch is of events, the closer.
//!
//! **Where the hypervisor emulates the counter** it may also record each time it does so (Xen:
//! `pv_emulate_privop`). A stamp that was read by such an emulation was taken between two of these
//! records: a *read* bounds the offset of its stretch to a few microseconds.
//!
//! **What relates stretches.** A clock that the hypervisor makes up is not steady: Xen makes an
//! emulated TSC of its *system time*, which each pCPU counts on its own from the TSC, steered anew
//! every second against a platform timer (`local_time_calibration`, xen/arch/x86/time.c). So from
//! one stretch to the next the offset drifts by up to [`WANDER_PPM`], and jumps where the vCPU has
//! moved to another pCPU or a second has ended. How far it jumps nobody tells: taken is the
//! smallest that the stretches can be explained with (of steps of a factor of two), and at least
//! what could not show itself, the width that reads leave to half of the stretches; and the bound
//! is drawn with *twice* it, since the largest need not have been met. Without reads stretches are
//! too loose to show jumps: then it is at least `UNSEEN_JUMP`. (A hardware offset is the same in
//! all stretches. It is not told apart from a made-up one: that it seems steady is no proof.)
//!
//! **What is claimed.** In every stretch the offset is inside its own bounds and within drift and
//! jump of its neighbours' (both directions). The estimate is the middle of what is left, the bound
//! half its width. It cannot be told from it whether the causality check holds: where it can be
//! made at all, it does so by construction.

use crate::curve::{Curve, Knot, MAX_SLOPE, Ray};

/// A stretch in which a vCPU ran, and its kernel's stamps in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stretch {
    /// The parent's stamp at its begin.
    pub from: u64,
    /// The kernel's first stamp in it.
    pub first: u64,
    /// The kernel's last stamp in it.
    pub last: u64,
    /// The parent's stamp at its end.
    pub to: u64,
}

/// A stamp that the hypervisor recorded the reading of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Read {
    /// The parent's stamp before the clock was read.
    pub after: u64,
    /// What the machine's clock showed.
    pub stamp: u64,
    /// The parent's stamp after it was read.
    pub before: u64,
}

/// How much a made-up clock's rate may be off the nominal one, or change, in parts per million.
/// Xen's system time was seen to run at up to 142 ppm beside the TSC under an emulator whose
/// platform timer is read late.
pub const WANDER_PPM: u32 = 250;
/// Jumps tried at most, ticks of the parent (half a millisecond or more).
const MAX_JUMP: i128 = 1 << 21;
const FIRST_JUMP: i128 = 1 << 8;
/// A jump that goes unseen without reads: a tenth of a millisecond of a 2.6 GHz counter; 83 µs were
/// seen (with reads) under an emulator.
const UNSEEN_JUMP: i128 = 1 << 17;
/// Stamps at or above this are no clock's.
const MAX_STAMP: u64 = 1 << 62;

/// What the offset may be in one stretch, and where it counts.
#[derive(Clone, Copy, Debug)]
struct Room {
    first: u64,
    last: u64,
    low: i128,
    high: i128,
}

/// What came of it.
#[derive(Clone, Debug)]
pub struct Fit {
    pub(crate) curve: Curve,
    /// Stretches it rests on.
    pub stretches: usize,
    /// Stretches that contradict the others, or themselves, and were left out.
    pub contradicting: usize,
    /// Stretches with reads in them.
    pub read: usize,
    /// The jumps allowed, ticks of the parent.
    pub jump_ticks: u64,
}

impl Fit {
    /// The parent's time at a stamp. `None` before the parent's zero.
    pub fn host_from_guest(&self, guest: u64) -> Option<u64> {
        u64::try_from(self.curve.host_at(guest)).ok()
    }

    /// How far that may be off, in ticks of the parent.
    pub fn bound_ticks(&self, guest: u64) -> u64 {
        self.curve.bound_at(guest)
    }
}

/// The straight line that offsets are counted from: `host0 + (guest - guest0) * num / den`.
#[derive(Clone, Copy, Debug)]
struct Line {
    host0: i128,
    guest0: i128,
    num: i128,
    den: i128,
}

impl Line {
    fn at(&self, guest: u64) -> i128 {
        self.host0 + ((i128::from(guest) - self.guest0) * self.num).div_euclid(self.den)
    }

    fn rate(&self) -> (i128, i128) {
        (self.num, self.den)
    }
}

/// Fits a clock to stretches, which come in any order. `rate` is the parent's ticks per tick of the
/// machine, as numerator and denominator below 2^32. Reads, in any order, count in the stretch they
/// lie in. `None` if there is nothing to fit, or the numbers are none that clocks have.
pub fn fit(stretches: &[Stretch], reads: &[Read], rate: (u64, u64)) -> Option<Fit> {
    let mut sorted: Vec<Stretch> = stretches.iter().copied().filter(is_possible).collect();
    sorted.sort_by_key(|s| (s.first, s.from));
    let begin = *sorted.first()?;
    let (num, den) = (i128::from(rate.0), i128::from(rate.1));
    if num == 0 || den == 0 || num >> 32 != 0 || den >> 32 != 0 {
        return None;
    }
    let line = Line { host0: begin.from.into(), guest0: begin.first.into(), num, den };
    let mut rooms: Vec<Room> = sorted.iter().map(|s| room(s, &line)).collect();
    rooms.retain(|room| room.low <= room.high);
    let widths = narrow_by_reads(&mut rooms, reads, &line);
    let read = widths.len();
    // What is smaller than a room does not show.
    let least = if read > 1 { FIRST_JUMP.max(widths[read / 2]) } else { UNSEEN_JUMP };
    let jumps = std::iter::successors(Some(least), |jump| Some(2 * jump));
    let mut jumps = jumps.take_while(|jump| *jump < MAX_JUMP);
    let found = jumps.find(|jump| is_feasible(&rooms, *jump, line.rate())).unwrap_or(MAX_JUMP);
    let jump = 2 * found;
    narrow(&mut rooms, jump, line.rate());
    Some(Fit {
        curve: curve(&rooms, &line)?,
        stretches: rooms.len(),
        contradicting: stretches.len() - rooms.len(),
        read,
        jump_ticks: u64::try_from(jump).ok()?,
    })
}

fn is_possible(s: &Stretch) -> bool {
    s.from <= s.to && s.first <= s.last && s.to < MAX_STAMP && s.last < MAX_STAMP
}

/// How far the offset can drift in a time of the machine's, ticks of the parent.
fn drift(guest_ticks: u64, (num, den): (i128, i128)) -> i128 {
    (i128::from(guest_ticks) * num).div_euclid(den) * i128::from(WANDER_PPM) / 1_000_000 + 1
}

/// What the offset may be in a stretch, rounding and drift within it included.
fn room(s: &Stretch, line: &Line) -> Room {
    let within = drift(s.last - s.first, line.rate());
    // One tick for the line's rounding, where there is any.
    let slack = within + i128::from(line.num != line.den);
    Room {
        first: s.first,
        last: s.last,
        low: i128::from(s.from) - line.at(s.first) - slack,
        high: i128::from(s.to) - line.at(s.last) + slack,
    }
}

/// Narrows rooms by the reads in them; those of a room that contradict it, or each other, are not
/// used. Gives how wide the rooms with reads are, in order.
fn narrow_by_reads(rooms: &mut [Room], reads: &[Read], line: &Line) -> Vec<i128> {
    let mut reads: Vec<Read> = reads.iter().copied().filter(|r| r.before < MAX_STAMP).collect();
    reads.sort_by_key(|read| read.stamp);
    let mut rest = reads.as_slice();
    let mut widths = Vec::new();
    for room in rooms {
        let begin = rest.partition_point(|read| read.stamp < room.first);
        let end = rest.partition_point(|read| read.stamp <= room.last);
        let mine = rest.get(begin..end).unwrap_or_default();
        rest = rest.get(end..).unwrap_or_default();
        let within = drift(room.last - room.first, line.rate()) + i128::from(line.num != line.den);
        let mut here = *room;
        for read in mine {
            let at = line.at(read.stamp);
            here.low = here.low.max(i128::from(read.after) - at - within);
            here.high = here.high.min(i128::from(read.before) - at + within);
        }
        if !mine.is_empty() && here.low <= here.high {
            *room = here;
            widths.push(here.high - here.low);
        }
    }
    widths.sort_unstable();
    widths
}

/// How far the offset can get between any two moments of two neighbouring stretches.
fn step(a: &Room, b: &Room, jump: i128, rate: (i128, i128)) -> i128 {
    jump + drift(b.last.saturating_sub(a.first), rate)
}

/// Can offsets be found for all stretches, each within a step of the one before?
fn is_feasible(rooms: &[Room], jump: i128, rate: (i128, i128)) -> bool {
    let mut reach: Option<Room> = None;
    for room in rooms {
        let mut here = *room;
        if let Some(before) = reach {
            let step = step(&before, room, jump, rate);
            here.low = here.low.max(before.low - step);
            here.high = here.high.min(before.high + step);
        }
        if here.low > here.high {
            return false;
        }
        reach = Some(here);
    }
    true
}

/// Leaves in each room what both neighbours' leave possible; drops rooms that contradict those
/// before.
fn narrow(rooms: &mut Vec<Room>, jump: i128, rate: (i128, i128)) {
    let mut before: Option<Room> = None;
    rooms.retain_mut(|room| {
        let mut here = *room;
        if let Some(before) = before {
            let step = step(&before, room, jump, rate);
            here.low = here.low.max(before.low - step);
            here.high = here.high.min(before.high + step);
        }
        let fits = here.low <= here.high;
        if fits {
            *room = here;
            before = Some(here);
        }
        fits
    });
    for at in (1..rooms.len()).rev() {
        let after = rooms[at];
        let room = &mut rooms[at - 1];
        let step = step(room, &after, jump, rate);
        // Something is left: what the one after kept was reached from here.
        room.low = room.low.max(after.low - step);
        room.high = room.high.min(after.high + step);
    }
}

#[expect(clippy::cast_precision_loss, reason = "numbers below 2^32")]
fn curve(rooms: &[Room], line: &Line) -> Option<Curve> {
    let mut knots: Vec<Knot> = Vec::with_capacity(2 * rooms.len());
    for room in rooms {
        for guest in [room.first, room.last] {
            if knots.last().is_none_or(|knot| knot.guest < guest) {
                let at = line.at(guest);
                knots.push(Knot { guest, low: at + room.low, high: at + room.high });
            }
        }
    }
    let slope = (line.num as f64 / line.den as f64).min(MAX_SLOPE);
    let off = slope * f64::from(WANDER_PPM) / 1e6;
    let ray = Ray { flattest: slope - off, steepest: slope + off };
    Curve::new(&knots, ray, ray, 0)
}
