//! Guest time to host time from questions and answers over a channel.
//!
//! **What one exchange says.** The host stamps, asks, the guest stamps and answers, the host stamps
//! again. The guest's stamp was taken between the two host stamps, wherever the delay was: host
//! time of the guest's stamp lies in `[host_send, host_recv]`, its *bracket*. Nothing is averaged
//! and no symmetry of the channel is assumed, so no asymmetry can deceive it.
//!
//! **What many say.** Two steady clocks are related by a straight line, and the line passes through
//! every bracket. The lines that do form a corridor (convex hulls: `corridor.rs`); the estimate is its
//! middle, the bound half its width at the moment asked for. Wide brackets do not matter: the
//! tightest ones near the moment decide, those far away fix the rate. Outside the sampled span the
//! corridor opens by what is uncertain of the rate.
//!
//! ```text
//!  host                                     ┬ recv   A bracket is a gate; every true line
//!   │                 ┬            ┬        │        passes through all gates. The widest
//!   │     ┬           │   ┬        ┴        ┴        gate here constrains nothing, the two
//!   │     ┴           ┴   ┴                   send   tight ones nearly everything.
//!   └─────────────────────────────────── guest
//! ```
//!
//! **When no line fits.** Then the clock stepped (reboot, live migration, a write to the TSC), or
//! a record is false. A single exchange that contradicts both what came before and what comes
//! after is dropped and counted; else a new piece begins. A piece is never stretched to cover
//! a contradiction.
//!
//! **Clocks that are steered.** `mono`, `boot`, `local` and their like follow NTP or are corrected
//! by the kernel: their rate wanders. If it stays within `w` of an (unknown) constant, then a
//! bracket at distance `d` from the moment asked for is as good as one wider by `w·d` at both
//! ends for a straight line; so for every moment the corridor is drawn anew with brackets widened
//! by their distance.

use crate::{
    corridor::{Corridor, Gate, NoCorridor, Slope},
    curve::{Curve, Knot, MAX_SLOPE, Ray, keep_order},
};

/// One question and answer, raw stamps of both clocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bracket {
    /// The host's clock just before asking.
    pub host_send: u64,
    /// The guest's clock when it answered.
    pub guest: u64,
    /// The host's clock just after the answer.
    pub host_recv: u64,
}

/// Stamps at or above this are no clock's: 53 years of a 2.7 GHz TSC.
const MAX_STAMP: u64 = 1 << 62;

impl Bracket {
    fn is_possible(&self) -> bool {
        self.host_send <= self.host_recv && self.host_recv < MAX_STAMP && self.guest < MAX_STAMP
    }

    fn gate(&self, widen: u128) -> Gate {
        let widen = i128::try_from(widen).unwrap_or(i128::MAX).min(1 << 61);
        Gate {
            x: i128::from(self.guest),
            low: i128::from(self.host_send) - widen,
            high: i128::from(self.host_recv) + widen,
        }
    }
}

/// What is known of the two clocks' rates beforehand.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RateModel {
    /// Host ticks per guest tick expected, as numerator and denominator; `None` if unknown.
    pub nominal: Option<(u128, u128)>,
    /// How far from it the rate may be, parts per million. Dropped (and said so in
    /// [`Piece::outside_limit`]) once brackets prove another rate.
    pub drift_limit_ppm: u32,
    /// How much the rate may change within a piece, parts per million; 0 between two counters.
    pub wander_ppm: u32,
    /// If brackets prove the rate to be within this of exactly 1, it is exactly 1.
    pub same_counter_within_ppm: Option<u32>,
}

impl RateModel {
    /// Two clocks that both count the TSC.
    ///
    /// KVM scales a guest's TSC only if the wanted frequency is more than `tsc_tolerance_ppm` =
    /// 250 away from the host's (`kvm_set_tsc_khz`, `arch/x86/kvm/x86.c`, Linux 6.18): a rate
    /// closer to 1 than that is 1. QEMU's TCG adds a constant and never scales.
    pub fn same_tsc() -> Self {
        RateModel {
            nominal: Some((1, 1)),
            drift_limit_ppm: DRIFT_LIMIT_PPM,
            wander_ppm: 0,
            same_counter_within_ppm: Some(250),
        }
    }

    /// Two clocks in nanoseconds that kernels keep.
    pub fn kernel_clocks() -> Self {
        RateModel {
            nominal: Some((1, 1)),
            drift_limit_ppm: DRIFT_LIMIT_PPM,
            wander_ppm: WANDER_PPM,
            same_counter_within_ppm: None,
        }
    }

    fn limits(&self) -> Option<(Slope, Slope)> {
        let (num, den) = self.nominal?;
        let ppm = u128::from(self.drift_limit_ppm.min(999_999));
        let at = |millionths| {
            Some(Slope::rough(num.checked_mul(millionths)?, den.checked_mul(1_000_000)?))
        };
        Some((at(1_000_000 - ppm)?, at(1_000_000 + ppm)?))
    }
}

/// Two clocks of one kind drift apart by no more than this unless brackets prove otherwise:
/// the kernel lets NTP steer a clock by 500 ppm at most (`MAXFREQ`, `include/linux/timex.h`).
pub const DRIFT_LIMIT_PPM: u32 = 1_000;
/// A kernel clock's rate changes by no more than this within a recording, unless it is stepped.
pub const WANDER_PPM: u32 = 50;

/// A stretch in which one map holds.
#[derive(Clone, Debug)]
pub struct Piece {
    pub(crate) curve: Curve,
    /// Brackets it rests on.
    pub brackets: usize,
    /// The first bracket's and the last bracket's host stamps (send and receive).
    pub host_span: (u64, u64),
    /// The rate lies outside the drift limit: proven, so the limit was dropped.
    pub outside_limit: bool,
    /// The rate was found to be exactly 1 ([`RateModel::same_counter_within_ppm`]).
    pub same_counter: bool,
}

impl Piece {
    /// Host time of a guest stamp: the middle of what is possible. `None` before the host's zero.
    pub fn host_from_guest(&self, guest: u64) -> Option<u64> {
        u64::try_from(self.curve.host_at(guest)).ok()
    }

    /// How far [`Piece::host_from_guest`] may be off, in ticks of the host's clock.
    pub fn bound_ticks(&self, guest: u64) -> u64 {
        self.curve.bound_at(guest)
    }

    /// The largest bound between the first and the last bracket, in ticks of the host's clock.
    pub fn worst_bound_ticks(&self) -> u64 {
        self.curve.worst_bound()
    }
}

/// What came of all exchanges with one guest between two restarts.
#[derive(Clone, Debug, Default)]
pub struct Estimate {
    /// Pieces by host time; more than one if the clock stepped.
    pub pieces: Vec<Piece>,
    /// Brackets that contradict their neighbours before and after.
    pub contradicting: usize,
    /// Brackets that no clock can show (received before sent, stamps beyond 2⁶²).
    pub impossible: usize,
    /// Pieces dropped because their brackets do not tell a rate (one moment only and no nominal
    /// rate).
    pub without_rate: usize,
}

/// Fits pieces to brackets, in the order the brackets were taken.
///
/// Within the drift limit first. Only if dropping the limit explains the same brackets with a
/// third of the pieces is the rate really another one: a step right at the start must not pass for
/// an absurd rate.
pub fn estimate(brackets: &[Bracket], model: &RateModel) -> Estimate {
    let within = estimate_by(brackets, model);
    if within.pieces.len() < 3 || model.nominal.is_none() {
        return within;
    }
    let mut beyond = estimate_by(brackets, &RateModel { nominal: None, ..*model });
    if beyond.without_rate > 0 || 3 * beyond.pieces.len() > within.pieces.len() {
        return within;
    }
    for piece in &mut beyond.pieces {
        piece.outside_limit = true;
    }
    beyond
}

fn estimate_by(brackets: &[Bracket], model: &RateModel) -> Estimate {
    let mut possible: Vec<Bracket> =
        brackets.iter().copied().filter(Bracket::is_possible).collect();
    possible.sort_by_key(|b| b.host_send);
    let mut out = Estimate { impossible: brackets.len() - possible.len(), ..Estimate::default() };
    let mut rest = possible.as_slice();
    while !rest.is_empty() {
        let (piece, taken) = first_piece(rest, model, &mut out.contradicting);
        rest = rest.get(taken.max(1)..).unwrap_or(&[]);
        match fit(piece, model) {
            Some(piece) => out.pieces.push(piece),
            None => out.without_rate += 1,
        }
    }
    out
}

/// Exchanges looked at after a contradiction to see whether it is the odd one out.
const LOOK_AHEAD: usize = 3;
/// After this many odd ones the evidence is bad anyhow: stop being clever, cut pieces instead
/// (and stay linear in time).
const MAX_DROPPED: usize = 64;

/// The longest run of brackets from the start that one line fits, less odd ones; and how many
/// brackets were consumed.
fn first_piece(
    brackets: &[Bracket],
    model: &RateModel,
    dropped: &mut usize,
) -> (Vec<Bracket>, usize) {
    let mut piece: Vec<Bracket> = Vec::new();
    let mut taken = 0;
    loop {
        let rest = brackets.get(taken..).unwrap_or(&[]);
        let fitting = longest_fit(&piece, rest, model);
        piece.extend(rest.iter().take(fitting));
        taken += fitting;
        let after = rest.get(fitting + 1..).unwrap_or(&[]);
        let ahead = after.get(..after.len().min(LOOK_AHEAD)).unwrap_or(&[]);
        let is_odd_one = !ahead.is_empty() && *dropped < MAX_DROPPED && fits(&piece, ahead, model);
        if !is_odd_one {
            return (piece, taken);
        }
        *dropped += 1;
        taken += 1;
    }
}

/// How many of `rest` fit on a line together with `piece`: galloping, then halving, because
/// whatever fits also fits with fewer.
fn longest_fit(piece: &[Bracket], rest: &[Bracket], model: &RateModel) -> usize {
    let fits_up_to = |n: usize| fits(piece, rest.get(..n).unwrap_or(rest), model);
    let (mut good, mut step) = (0, 1);
    while good < rest.len() && fits_up_to((good + step).min(rest.len())) {
        good = (good + step).min(rest.len());
        step *= 2;
    }
    let mut bad = (good + step).min(rest.len() + 1);
    while bad - good > 1 {
        let middle = good + (bad - good) / 2;
        if fits_up_to(middle) { good = middle } else { bad = middle }
    }
    good
}

fn fits(piece: &[Bracket], more: &[Bracket], model: &RateModel) -> bool {
    let mut all: Vec<Bracket> = piece.iter().chain(more).copied().collect();
    all.sort_by_key(|b| b.guest);
    let Some(middle) = all.get(all.len() / 2).map(|b| b.guest) else { return true };
    let corridor = corridor_at(&all, middle, model);
    !matches!(corridor, Err(NoCorridor::Contradiction))
}

/// The corridor through brackets (sorted by guest time) as seen from the moment `at`.
fn corridor_at(brackets: &[Bracket], at: u64, model: &RateModel) -> Result<Corridor, NoCorridor> {
    let gates: Vec<Gate> =
        brackets.iter().map(|b| b.gate(widening(brackets, b, at, model))).collect();
    Corridor::new(&gates, model.limits())
}

/// How much wider than its stamps a bracket is, seen from the moment `at`, host ticks: stamps are
/// rounded down to whole ticks of two counters that do not tick together (one tick of each), and
/// the rate may have wandered since.
fn widening(brackets: &[Bracket], bracket: &Bracket, at: u64, model: &RateModel) -> u128 {
    let rate = match (model.nominal, brackets.first(), brackets.last()) {
        (Some((num, den)), ..) => num.div_ceil(den.max(1)),
        (None, Some(a), Some(b)) if b.guest > a.guest => {
            let host = b.host_recv.saturating_sub(a.host_send);
            u128::from(host).div_ceil(u128::from(b.guest - a.guest))
        }
        _ => 1,
    };
    let wander = u128::from(bracket.guest.abs_diff(at)) * u128::from(model.wander_ppm);
    let wandered = rate.checked_mul(wander.div_ceil(1_000_000));
    wandered.and_then(|w| w.checked_add(rate)).unwrap_or(u128::MAX)
}

fn fit(mut brackets: Vec<Bracket>, model: &RateModel) -> Option<Piece> {
    let host_span = (brackets.first()?.host_send, brackets.last()?.host_recv);
    brackets.sort_by_key(|b| b.guest);
    let (curve, same_counter) = if model.wander_ppm == 0 {
        steady(&brackets, model)?
    } else {
        (wandering(&brackets, model)?, false)
    };
    let brackets = brackets.len();
    Some(Piece { curve, brackets, host_span, outside_limit: false, same_counter })
}

/// One corridor for all: its edges are straight between their bends, so the curve is exact.
fn steady(brackets: &[Bracket], model: &RateModel) -> Option<(Curve, bool)> {
    let at = brackets.first()?.guest;
    let mut corridor = corridor_at(brackets, at, model).ok()?;
    let mut same_counter = false;
    if let Some(ppm) = model.same_counter_within_ppm {
        let off = f64::from(ppm) / 1e6;
        let near = |slope: Slope| (slope.as_f64() - 1.0).abs() < off;
        if near(corridor.flattest) && near(corridor.steepest) {
            // One counter ticks once: its stamps need no widening.
            let gates: Vec<Gate> = brackets.iter().map(|b| b.gate(0)).collect();
            if let Ok(unit) = Corridor::new(&gates, Some((Slope::UNIT, Slope::UNIT))) {
                corridor = unit;
                same_counter = true;
            }
        }
    }
    let knots: Option<Vec<Knot>> =
        corridor.bends().into_iter().map(|x| knot(&corridor, u64::try_from(x).ok()?)).collect();
    let ray = ray(&corridor);
    Some((Curve::new(&knots?, ray, ray, 0)?, same_counter))
}

fn knot(corridor: &Corridor, guest: u64) -> Option<Knot> {
    let x = i128::from(guest);
    let (low, high) = (corridor.lowest_at(x), corridor.highest_at(x));
    (low <= high).then_some(Knot { guest, low, high })
}

fn ray(corridor: &Corridor) -> Ray {
    Ray {
        flattest: corridor.flattest.as_f64().min(MAX_SLOPE),
        steepest: corridor.steepest.as_f64().min(MAX_SLOPE),
    }
}

/// Knots of a wandering curve, at most, and brackets looked at for each: far ones are widened so
/// much that they say nothing.
const MAX_KNOTS: u64 = 65_536;
const NEAR_BRACKETS: usize = 64;

/// A corridor for every knot. Between two knots `d` apart a rate that wanders by `w` leaves the
/// chord by at most `w·d/2`, which is added to the bound.
fn wandering(brackets: &[Bracket], model: &RateModel) -> Option<Curve> {
    let (first, last) = (brackets.first()?.guest, brackets.last()?.guest);
    let count = u64::try_from(2 * brackets.len()).ok()?.clamp(1, MAX_KNOTS);
    let step = ((last - first) / count).max(1);
    let mut moments: Vec<u64> =
        (0..count).map_while(|i| first.checked_add(step.checked_mul(i)?)).collect();
    moments.retain(|m| *m < last);
    moments.push(last);
    let mut knots = Vec::with_capacity(moments.len());
    let mut rays = Vec::with_capacity(moments.len());
    for at in moments {
        let corridor = local_corridor(brackets, at, model)?;
        knots.push(knot(&corridor, at)?);
        rays.push(ray(&corridor));
    }
    keep_order(&mut knots);
    let longest = knots.windows(2).map(|w| w[1].guest - w[0].guest).max().unwrap_or(0);
    let sag = bow(longest, rays.first()?.steepest, model);
    let widen = |ray: &Ray| {
        let w = ray.steepest * f64::from(model.wander_ppm) / 1e6;
        Ray { flattest: (ray.flattest - w).max(0.0), steepest: ray.steepest + w }
    };
    Curve::new(&knots, widen(rays.first()?), widen(rays.last()?), sag)
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "below 2^62 * 2^14")]
#[expect(clippy::cast_precision_loss, reason = "rounded up by one")]
fn bow(distance: u64, slope: f64, model: &RateModel) -> u64 {
    (distance as f64 * slope * f64::from(model.wander_ppm) / 2e6) as u64 + 1
}

/// The corridor of the brackets near `at`; with fewer of them if the rate wanders more than the
/// model allows. One bracket always fits.
fn local_corridor(brackets: &[Bracket], at: u64, model: &RateModel) -> Option<Corridor> {
    let here = brackets.partition_point(|b| b.guest < at);
    let mut reach = NEAR_BRACKETS;
    loop {
        let near =
            brackets.get(here.saturating_sub(reach)..(here + reach.max(1)).min(brackets.len()))?;
        match corridor_at(near, at, model) {
            Ok(corridor) => return Some(corridor),
            Err(_) if reach > 0 => reach /= 2,
            Err(_) => return None,
        }
    }
}
