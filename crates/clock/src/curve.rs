//! An estimated map of guest time to host time: a chain of straight pieces, each with its bound.
//!
//! The estimate runs through the middle of what is possible, so the bound is half its width. Between
//! two knots both change linearly; before the first and after the last knot the rate is only known
//! to lie between two slopes, so the bound grows with the distance.

/// Fraction bits of slopes. A slope must stay below 2¹⁴, offsets from a knot below 2⁶².
const FRAC_BITS: u32 = 48;
/// Larger rates belong to no pair of clocks.
pub(crate) const MAX_SLOPE: f64 = 16_384.0;

/// What is possible at one moment of guest time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Knot {
    pub(crate) guest: u64,
    /// Host time is at least this.
    pub(crate) low: i128,
    /// And at most this.
    pub(crate) high: i128,
}

/// Beyond the last knot (or before the first): the flattest and the steepest rate possible.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ray {
    pub(crate) flattest: f64,
    pub(crate) steepest: f64,
}

#[derive(Clone, Copy, Debug)]
struct Segment {
    guest: u64,
    host: i64,
    slope: i128,
    half: i128,
    half_slope: i128,
}

impl Segment {
    #[inline]
    fn host_at(&self, guest: u64) -> i128 {
        let distance = i128::from(guest) - i128::from(self.guest);
        i128::from(self.host) + ((distance * self.slope) >> FRAC_BITS)
    }

    fn half_at(&self, guest: u64) -> u64 {
        let distance = (i128::from(guest) - i128::from(self.guest)).abs();
        // Two ticks for the roundings of centre and half, and what the slope's last digit costs.
        let rounding = 2 + (distance >> FRAC_BITS);
        let half = self.half + ((distance * self.half_slope) >> FRAC_BITS) + rounding;
        u64::try_from(half.max(0)).unwrap_or(u64::MAX)
    }
}

/// A straight piece between two knots of a [`Curve`].
#[derive(Clone, Copy, Debug)]
pub(crate) struct CurveSpan {
    pub(crate) guest: (u64, u64),
    pub(crate) host: (i64, i64),
    pub(crate) bound: u64,
}

/// The map. Host time never runs backwards along it.
#[derive(Clone, Debug)]
pub(crate) struct Curve {
    before: Segment,
    segments: Vec<Segment>,
    /// Segments at the begin that do not count in the largest bound.
    early: usize,
}

impl Curve {
    /// Through `knots` (ascending, at least one), `rays` beyond their ends, and `slack` ticks added
    /// to every bound. `None` if the numbers are none that clocks can have.
    pub(crate) fn new(knots: &[Knot], left: Ray, right: Ray, slack: u64) -> Option<Curve> {
        Curve::with_slacks(knots, left, right, |_| slack)
    }

    /// The same with a slack of its own for each gap between two knots, by the number of the knot
    /// it begins at. The rays have that of the gap beside them.
    pub(crate) fn with_slacks(
        knots: &[Knot],
        left: Ray,
        right: Ray,
        slack: impl Fn(usize) -> u64,
    ) -> Option<Curve> {
        let middle = |k: &Knot, gap: usize| {
            let host = (k.low + k.high).div_euclid(2);
            let half = (k.high - host).max(host - k.low) + i128::from(slack(gap));
            i64::try_from(host).ok().map(|host| (host, half))
        };
        let mut segments = Vec::with_capacity(knots.len());
        for (gap, pair) in knots.windows(2).enumerate() {
            let [a, b] = pair else { continue };
            let ((host, half), (host_b, half_b)) = (middle(a, gap)?, middle(b, gap)?);
            let distance = i128::from(b.guest.checked_sub(a.guest)?);
            if distance == 0 {
                return None;
            }
            let slope = fixed(i128::from(host_b) - i128::from(host), distance)?.max(0);
            let half_slope = fixed(half_b - half, distance)?;
            segments.push(Segment { guest: a.guest, host, slope, half, half_slope });
        }
        let ray = |k: &Knot, ray: Ray, gap: usize| {
            let (host, half) = middle(k, gap)?;
            let slope = fixed_f64((ray.flattest + ray.steepest) / 2.0)?;
            let half_slope = fixed_f64((ray.steepest - ray.flattest) / 2.0)? + 2;
            Some(Segment { guest: k.guest, host, slope, half, half_slope })
        };
        let before = ray(knots.first()?, left, 0)?;
        segments.push(ray(knots.last()?, right, knots.len().saturating_sub(2))?);
        Some(Curve { before, segments, early: 0 })
    }

    /// The same curve, with the time before its second knot outside of what [`Self::worst_bound`] is about.
    pub(crate) fn with_early_start(self) -> Curve {
        Curve { early: 1, ..self }
    }

    #[inline]
    fn segment(&self, guest: u64) -> &Segment {
        let after = self.segments.partition_point(|s| s.guest <= guest);
        after.checked_sub(1).and_then(|at| self.segments.get(at)).unwrap_or(&self.before)
    }

    /// Host time at `guest`, ticks of the host's clock (may leave 64 bits far outside).
    #[inline]
    pub(crate) fn host_at(&self, guest: u64) -> i128 {
        self.segment(guest).host_at(guest)
    }

    /// How far [`Self::host_at`] may be off, ticks of the host's clock.
    pub(crate) fn bound_at(&self, guest: u64) -> u64 {
        self.segment(guest).half_at(guest)
    }

    /// The largest bound within the sampled span. Bounds are linear between knots, and may be
    /// different on both sides of one.
    pub(crate) fn worst_bound(&self) -> u64 {
        let segments = self.segments.get(self.early..).unwrap_or_default();
        let starts = segments.iter().map(|s| s.half_at(s.guest));
        let ends = segments.windows(2).filter_map(|w| Some(w.first()?.half_at(w.get(1)?.guest)));
        starts.chain(ends).max().unwrap_or(u64::MAX)
    }

    /// The pieces between the knots, ascending: guest and host time at both ends, and the largest
    /// bound between them.
    pub(crate) fn spans(&self) -> impl Iterator<Item = CurveSpan> + '_ {
        self.segments.windows(2).filter_map(|pair| {
            let [a, b] = pair else { return None };
            Some(CurveSpan {
                guest: (a.guest, b.guest),
                host: (a.host, b.host),
                bound: a.half_at(a.guest).max(a.half_at(b.guest)),
            })
        })
    }

    /// Where the rate changes: the knots, ascending.
    pub(crate) fn knots(&self) -> impl Iterator<Item = u64> + '_ {
        self.segments.iter().map(|s| s.guest)
    }

    /// Host ticks per guest tick over the sampled span (of the ray if it is a point).
    #[expect(clippy::cast_precision_loss, reason = "for printing only")]
    pub(crate) fn slope(&self) -> f64 {
        match (self.segments.first(), self.segments.last()) {
            (Some(a), Some(b)) if b.guest > a.guest => {
                (i128::from(b.host) - i128::from(a.host)) as f64 / (b.guest - a.guest) as f64
            }
            _ => self.before.slope as f64 / (1u64 << FRAC_BITS) as f64,
        }
    }

    /// What a bound on guest time becomes on its way, by the steepest piece, rounded up.
    pub(crate) fn grown(&self, bound: u64) -> Option<u64> {
        let slopes = self.segments.iter().chain([&self.before]).map(|s| s.slope);
        let grown = slopes.max()?.checked_mul(i128::from(bound))? >> FRAC_BITS;
        u64::try_from(grown).ok()?.checked_add(1)
    }

    /// The first sampled moment: guest and host time.
    pub(crate) fn start(&self) -> (u64, i64) {
        (self.before.guest, self.before.host)
    }
}

fn fixed(num: i128, den: i128) -> Option<i128> {
    let slope = num.checked_shl(FRAC_BITS).filter(|s| s >> FRAC_BITS == num)?.div_euclid(den);
    (slope.unsigned_abs() >> FRAC_BITS < 16_384).then_some(slope)
}

#[expect(clippy::cast_possible_truncation, reason = "checked against MAX_SLOPE first")]
#[expect(clippy::cast_precision_loss, reason = "a power of two")]
fn fixed_f64(slope: f64) -> Option<i128> {
    (slope.abs() < MAX_SLOPE).then_some((slope * (1u64 << FRAC_BITS) as f64) as i128)
}

/// Host time does not run backwards: what was possible earlier limits what is possible later.
pub(crate) fn keep_order(knots: &mut [Knot]) {
    let mut low = i128::MIN;
    for k in knots.iter_mut() {
        low = low.max(k.low);
        k.low = low;
        k.high = k.high.max(low);
    }
    let mut high = i128::MAX;
    for k in knots.iter_mut().rev() {
        high = high.min(k.high);
        k.high = high.max(k.low);
    }
}
