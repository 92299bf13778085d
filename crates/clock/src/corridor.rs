//! The straight lines that pass through every gate: the geometry under [`crate::exchange`].
//!
//! An exchange is a vertical gate in the plane of guest time (x) and host time (y): the true line
//! crosses x = guest between y = host_send and y = host_recv. The lines through all gates form a
//! corridor. It is bounded from below by the *upper* convex hull of the gates' lower ends, from
//! above by the *lower* convex hull of their upper ends, and at its sides by the steepest and the
//! flattest line that still fit.
//!
//! All arithmetic is exact (128-bit integers over differences below 2⁶²); results are rounded
//! outwards, so the corridor is never drawn too narrow.

use std::cmp::Ordering;

/// A gate: guest time, and the host times between which the line crosses it. Below 2⁶² each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Gate {
    pub(crate) x: i128,
    pub(crate) low: i128,
    pub(crate) high: i128,
}

/// A slope as an exact fraction with a positive denominator; both parts below 2⁶³.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Slope {
    pub(crate) num: i128,
    pub(crate) den: i128,
}

impl Slope {
    pub(crate) const FLAT: Slope = Slope { num: 0, den: 1 };
    pub(crate) const UNIT: Slope = Slope { num: 1, den: 1 };

    /// `num / den`, cut to 44 significant bits so that products stay exact. For limits only.
    pub(crate) fn rough(num: u128, den: u128) -> Slope {
        let excess = (128 - num.max(den).leading_zeros()).saturating_sub(44);
        let cut = |part: u128| i128::try_from((part >> excess).max(1)).unwrap_or(i128::MAX);
        Slope { num: cut(num), den: cut(den) }
    }

    pub(crate) fn order(self, other: Slope) -> Ordering {
        (self.num * other.den).cmp(&(other.num * self.den))
    }

    fn at_most(self, other: Slope) -> bool {
        self.order(other) != Ordering::Greater
    }

    #[expect(clippy::cast_precision_loss, reason = "for printing and plausibility only")]
    pub(crate) fn as_f64(self) -> f64 {
        self.num as f64 / self.den as f64
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Point {
    x: i128,
    y: i128,
}

impl Point {
    fn slope_to(self, right: Point) -> Slope {
        Slope { num: right.y - self.y, den: right.x - self.x }
    }
}

/// The lower convex hull of points sorted by x: left to right, slopes strictly increasing.
fn lower_hull(points: impl Iterator<Item = Point>) -> Vec<Point> {
    let mut hull: Vec<Point> = Vec::new();
    for p in points {
        if let Some(last) = hull.last()
            && last.x == p.x
        {
            if last.y <= p.y {
                continue;
            }
            hull.pop();
        }
        while let [.., a, b] = hull[..] {
            if a.slope_to(b).order(b.slope_to(p)) == Ordering::Less {
                break;
            }
            hull.pop();
        }
        hull.push(p);
    }
    hull
}

/// A line's height above (or below) the hull at x, for slope `b`: `min_j y_j + b (x - x_j)`, as
/// numerator over `b.den`.
fn lowest_tangent(hull: &[Point], b: Slope, x: i128) -> i128 {
    let height = |p: &Point| p.y * b.den + b.num * (x - p.x);
    hull.iter().map(height).min().unwrap_or(0)
}

/// All lines through a set of gates.
#[derive(Clone, Debug)]
pub(crate) struct Corridor {
    base: Point,
    /// Lower hull of the gates' upper ends.
    roof: Vec<Point>,
    /// Upper hull of the gates' lower ends, mirrored (y negated) so that both are lower hulls.
    floor: Vec<Point>,
    /// The flattest line that fits.
    pub(crate) flattest: Slope,
    /// The steepest line that fits.
    pub(crate) steepest: Slope,
}

/// Why there is no corridor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NoCorridor {
    /// No single line passes through all gates.
    Contradiction,
    /// All gates at one x and no limits given: any slope fits.
    AnySlope,
}

impl Corridor {
    /// The lines through all `gates` (sorted by x, at least one) whose slope lies within `limits`.
    pub(crate) fn new(gates: &[Gate], limits: Option<(Slope, Slope)>) -> Result<Self, NoCorridor> {
        let (Some(first), Some(last)) = (gates.first(), gates.last()) else {
            return Err(NoCorridor::AnySlope);
        };
        let base = Point { x: first.x, y: first.low };
        let roof = lower_hull(gates.iter().map(|g| Point { x: g.x - base.x, y: g.high - base.y }));
        let floor = lower_hull(gates.iter().map(|g| Point { x: g.x - base.x, y: base.y - g.low }));
        let (flat, steep) = match limits {
            Some(limits) => limits,
            None if last.x == first.x => return Err(NoCorridor::AnySlope),
            // Clocks run forwards, and from the first gate's floor to the last one's roof at most.
            None => {
                let rise = Slope { num: (last.high - first.low).max(0), den: last.x - first.x };
                (Slope::FLAT, rise)
            }
        };
        let mut corridor = Corridor { base, roof, floor, flattest: flat, steepest: steep };
        corridor.tighten().ok_or(NoCorridor::Contradiction)?;
        Ok(corridor)
    }

    /// Narrows the slopes from both sides to those of lines that exist. `None`: none does.
    fn tighten(&mut self) -> Option<()> {
        while let Some(at_most) = self.violated(self.steepest) {
            match at_most {
                Violated::TooSteep(slope) => self.steepest = slope,
                _ => return None,
            }
            if !self.flattest.at_most(self.steepest) {
                return None;
            }
        }
        while let Some(at_least) = self.violated(self.flattest) {
            match at_least {
                Violated::TooFlat(slope) => self.flattest = slope,
                _ => return None,
            }
            if !self.flattest.at_most(self.steepest) {
                return None;
            }
        }
        Some(())
    }

    /// Is there a line of slope `b`? If not: the pair of gates that forbids it most, as the slope
    /// that this pair allows. Each answer is a strictly closer slope out of finitely many pairs, so
    /// asking again with it ends (it is Newton's method on a piecewise linear function).
    fn violated(&self, b: Slope) -> Option<Violated> {
        let room = |hull: &[Point], sign: i128| {
            hull.iter()
                .map(|p| (p.y * b.den - sign * b.num * p.x, *p))
                .min_by_key(|(room, _)| *room)
        };
        // Mirrored floor: -low_i + b x_i must be at least -a.
        let (above, roof) = room(&self.roof, 1)?;
        let (below, floor) = room(&self.floor, -1)?;
        if above + below >= 0 {
            return None;
        }
        let rise = roof.y + floor.y;
        Some(match roof.x.cmp(&floor.x) {
            Ordering::Greater => Violated::TooSteep(Slope { num: rise, den: roof.x - floor.x }),
            Ordering::Less => Violated::TooFlat(Slope { num: -rise, den: floor.x - roof.x }),
            Ordering::Equal => Violated::Always,
        })
    }

    /// The highest point at `x` of any line through all gates, rounded up.
    pub(crate) fn highest_at(&self, x: i128) -> i128 {
        let b = self.slope_that_reaches(&self.roof, x - self.base.x, false);
        let height = lowest_tangent(&self.roof, b, x - self.base.x);
        self.base.y + ceil_div(height, b.den)
    }

    /// The lowest point at `x` of any line through all gates, rounded down.
    pub(crate) fn lowest_at(&self, x: i128) -> i128 {
        let b = self.slope_that_reaches(&self.floor, x - self.base.x, true);
        let height = lowest_tangent(&self.floor, b, x - self.base.x);
        self.base.y - ceil_div(height, b.den)
    }

    /// The slope of a line that touches a hull and comes as far as any at `x`: the hull's own
    /// edge there, or the nearest slope that fits.
    fn slope_that_reaches(&self, hull: &[Point], x: i128, mirrored: bool) -> Slope {
        let (least, most) = if mirrored {
            (self.steepest.negated(), self.flattest.negated())
        } else {
            (self.flattest, self.steepest)
        };
        let right = hull.partition_point(|p| p.x < x);
        match (right.checked_sub(1).and_then(|left| hull.get(left)), hull.get(right)) {
            (None, _) => least,
            (_, None) => most,
            (Some(a), Some(b)) => {
                let edge = a.slope_to(*b);
                if !least.at_most(edge) {
                    least
                } else if !edge.at_most(most) {
                    most
                } else {
                    edge
                }
            }
        }
    }

    /// Where the corridor's edges bend: between neighbours, and beyond the ends, both
    /// [`Self::highest_at`] and [`Self::lowest_at`] are straight. At least one, ascending.
    pub(crate) fn bends(&self) -> Vec<i128> {
        let mut bends: Vec<i128> =
            touched(&self.roof, self.flattest, self.steepest).map(|p| p.x).collect();
        bends.extend(
            touched(&self.floor, self.steepest.negated(), self.flattest.negated()).map(|p| p.x),
        );
        bends.sort_unstable();
        bends.dedup();
        bends.into_iter().map(|x| x + self.base.x).collect()
    }
}

/// The hull's points that a line of some slope in `least..=most` can touch.
fn touched(hull: &[Point], least: Slope, most: Slope) -> impl Iterator<Item = Point> + '_ {
    hull.iter().enumerate().filter_map(move |(at, p)| {
        let before = at.checked_sub(1).and_then(|i| hull.get(i)).map(|a| a.slope_to(*p));
        let after = hull.get(at + 1).map(|b| p.slope_to(*b));
        let fits = before.is_none_or(|edge| edge.at_most(most))
            && after.is_none_or(|edge| least.at_most(edge));
        fits.then_some(*p)
    })
}

enum Violated {
    TooSteep(Slope),
    TooFlat(Slope),
    Always,
}

impl Slope {
    fn negated(self) -> Slope {
        Slope { num: -self.num, den: self.den }
    }
}

fn ceil_div(num: i128, den: i128) -> i128 {
    -(-num).div_euclid(den)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn gate(x: i128, low: i128, high: i128) -> Gate {
        Gate { x, low, high }
    }

    #[test]
    fn two_gates_leave_a_bow_tie() {
        let c = Corridor::new(&[gate(0, 0, 10), gate(100, 100, 110)], None).unwrap();
        assert_eq!((c.lowest_at(0), c.highest_at(0)), (0, 10));
        assert_eq!((c.lowest_at(50), c.highest_at(50)), (50, 60));
        assert_eq!((c.lowest_at(200), c.highest_at(200)), (190, 220));
        assert_eq!((c.lowest_at(-100), c.highest_at(-100)), (-110, -80));
        assert_eq!(c.bends(), [0, 100]);
    }

    #[test]
    fn a_gate_beside_every_line_is_a_contradiction() {
        let gates = [gate(0, 0, 10), gate(50, 80, 90), gate(100, 100, 110)];
        assert_eq!(Corridor::new(&gates, None).unwrap_err(), NoCorridor::Contradiction);
        let one = [gate(5, 0, 10), gate(5, 11, 20)];
        let limits = Some((Slope::UNIT, Slope::UNIT));
        assert_eq!(Corridor::new(&one, limits).unwrap_err(), NoCorridor::Contradiction);
    }

    #[test]
    fn one_gate_needs_limits() {
        assert_eq!(Corridor::new(&[gate(5, 0, 10)], None).unwrap_err(), NoCorridor::AnySlope);
        let c = Corridor::new(&[gate(5, 0, 10)], Some((Slope::UNIT, Slope::UNIT))).unwrap();
        assert_eq!((c.lowest_at(105), c.highest_at(105)), (100, 110));
    }

    /// Every line through all gates, by brute force over the lines through two gate ends.
    fn brute(gates: &[Gate], x: i128) -> Option<(f64, f64)> {
        let mut ends: Vec<(i128, i128)> = Vec::new();
        for g in gates {
            ends.push((g.x, g.low));
            ends.push((g.x, g.high));
        }
        let (mut lo, mut hi, mut any) = (f64::MAX, f64::MIN, false);
        for a in &ends {
            for b in ends.iter().filter(|b| b.0 > a.0) {
                let (rise, run) = (b.1 - a.1, b.0 - a.0);
                let at = |x: i128| a.1 * run + rise * (x - a.0);
                let fits = rise >= 0
                    && gates.iter().all(|g| g.low * run <= at(g.x) && at(g.x) <= g.high * run);
                if fits {
                    any = true;
                    let y = at(x) as f64 / run as f64;
                    lo = lo.min(y);
                    hi = hi.max(y);
                }
            }
        }
        any.then_some((lo, hi))
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2000))]
        #[test]
        fn the_corridor_is_that_of_brute_force(
            raw in prop::collection::vec((0i128..60, 0i128..60, 1i128..40), 2..9),
            x in -80i128..140,
        ) {
            // Steep enough that the flattest line is never the artificial limit 0.
            let mut gates: Vec<Gate> =
                raw.iter().map(|&(x, y, w)| gate(x, 10 * x + y, 10 * x + y + w)).collect();
            gates.sort_by_key(|g| g.x);
            prop_assume!(gates[0].x != gates[gates.len() - 1].x);
            match (Corridor::new(&gates, None), brute(&gates, x)) {
                (Ok(c), Some((lo, hi))) => {
                    // A line of slope below 0 may fit too few, far apart gates: brute skips it, so
                    // does the corridor (clocks run forwards); then the corridor may touch slope 0.
                    if c.flattest.num > 0 {
                        prop_assert!((c.highest_at(x) as f64 - hi.ceil()).abs() < 1e-6,
                            "{} {}", c.highest_at(x), hi);
                        prop_assert!((c.lowest_at(x) as f64 - lo.floor()).abs() < 1e-6);
                    }
                }
                (Err(NoCorridor::Contradiction), None) => {}
                (Ok(c), None) => prop_assert!(c.flattest.num == 0, "{c:?}"),
                (c, b) => prop_assert!(false, "{c:?} {b:?}"),
            }
        }
    }
}
