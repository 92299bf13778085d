//! Which of Xen's records of emulations are those that a kernel's stamps were read by.
//!
//! A PV domain with an emulated TSC cannot read it without Xen's help, and Xen records each time it
//! helps (`pv_emulate_privop`, a moment after the reading). The kernel reads it for each event, and
//! for much else. So within one running interval there is an offset with which *every* event of the
//! kernel has such a record just behind it. If there is exactly one, and enough events, it is the
//! true one; and each stamp was read after the record before.

use std::collections::VecDeque;
use transect_clock::ran::Read;

/// From the reading to its record, ticks of Xen's TSC: a microsecond or two. An interrupt in
/// between may make it longer; then the event has no record behind it, and the interval tells
/// nothing.
const DELAY: i128 = 1 << 12;
/// Fewer events fit by chance.
const MIN_EVENTS: usize = 4;
/// Events and records of one interval that are looked at.
const MAX_LOOKED_AT: usize = 512;

/// The two sharpest reads of an interval: that which bounds the offset from below, and that from
/// above. `at` is Xen's time of a stamp, known to within `margin`. `emulations` and `stamps` are in
/// order.
pub(super) fn reads(
    emulations: &[u64],
    stamps: &[u64],
    at: impl Fn(u64) -> i128,
    margin: i128,
) -> Option<[Read; 2]> {
    if stamps.len() < MIN_EVENTS || stamps.len() > MAX_LOOKED_AT || emulations.len() > MAX_LOOKED_AT
    {
        return None;
    }
    let (least, most) = only_shift(emulations, stamps, &at, margin)?;
    // Of each event the records that can be that of its reading, and the record before.
    let pairs: Vec<(Read, i128)> = stamps
        .iter()
        .filter_map(|stamp| {
            let t = at(*stamp);
            let first = emulations.partition_point(|e| i128::from(*e) < t + least);
            let beyond = emulations.partition_point(|e| i128::from(*e) <= t + most + DELAY);
            let after = *emulations.get(first.checked_sub(1)?)?;
            let before = *emulations.get(beyond.checked_sub(1)?)?;
            (after < before).then_some((Read { after, stamp: *stamp, before }, t))
        })
        .collect();
    let from_below = pairs.iter().max_by_key(|(read, at)| i128::from(read.after) - at)?;
    let from_above = pairs.iter().min_by_key(|(read, at)| i128::from(read.before) - at)?;
    Some([from_below.0, from_above.0])
}

/// The least and the most that can be added to the stamps' times for each to be just before a
/// record; none if nothing can, or what can is further apart than two delays.
fn only_shift(
    emulations: &[u64],
    stamps: &[u64],
    at: &impl Fn(u64) -> i128,
    margin: i128,
) -> Option<(i128, i128)> {
    // Distance from each event to each record near it, and which event.
    let mut distances: Vec<(i128, usize)> = Vec::new();
    for (event, stamp) in stamps.iter().enumerate() {
        let t = at(*stamp);
        let near = emulations.partition_point(|e| i128::from(*e) < t - margin);
        let near = emulations.iter().skip(near).map(|e| i128::from(*e) - t);
        distances.extend(near.take_while(|d| *d <= margin).map(|d| (d, event)));
    }
    distances.sort_unstable();
    // A window as wide as a delay slides over them; how often each event is in it.
    let mut count = vec![0usize; stamps.len()];
    let (mut events, mut window) = (0, VecDeque::new());
    let mut found: Option<(i128, i128)> = None;
    for (distance, event) in distances {
        window.push_back((distance, event));
        events += usize::from(count[event] == 0);
        count[event] += 1;
        while let Some((first, of)) = window.front().copied().filter(|(d, _)| distance - d > DELAY)
        {
            window.pop_front();
            count[of] -= 1;
            events -= usize::from(count[of] == 0);
            debug_assert!(first <= distance);
        }
        if events == stamps.len() {
            let begin = window.front().map_or(distance, |(d, _)| *d);
            match found {
                Some((first, _)) if begin - first > 2 * DELAY => return None,
                Some((first, _)) => found = Some((first, begin)),
                None => found = Some((begin, begin)),
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Records of all readings; every third is an event's. `true_offset` is Xen's time minus the
    /// stamp.
    fn interval(true_offset: u64) -> (Vec<u64>, Vec<u64>) {
        let mut t = 1_000_000;
        let mut emulations = Vec::new();
        let mut stamps = Vec::new();
        for n in 0..30u64 {
            t += 9_000 + n * n * 37 % 5_000;
            emulations.push(t + 700 + n % 3 * 150);
            if n % 3 == 1 {
                stamps.push(t - true_offset);
            }
        }
        (emulations, stamps)
    }

    #[test]
    fn the_offset_is_found_and_bounded_from_both_sides() {
        let (emulations, stamps) = interval(500_000);
        for wrong_by in [-100_000i128, -3_000, 0, 3_000, 100_000] {
            let at = |stamp: u64| i128::from(stamp) + 500_000 + wrong_by;
            let [below, above] = reads(&emulations, &stamps, at, 1 << 19).unwrap();
            let (low, high) = (below.after - below.stamp, above.before - above.stamp);
            assert!(low <= 500_000 && 500_000 <= high, "{low} {high}");
            assert!(high - low < 10_000, "{low} {high}");
        }
    }

    #[test]
    fn what_fits_twice_or_never_tells_nothing() {
        let (emulations, stamps) = interval(0);
        let at = |stamp: u64| i128::from(stamp);
        assert!(reads(&emulations, &stamps[..3], at, 1 << 19).is_none(), "too few events");
        assert!(reads(&emulations[..10], &stamps, at, 1 << 19).is_none(), "records are missing");
        let regular: Vec<u64> = (0..40).map(|n| 1_000_000 + n * 10_000).collect();
        let some: Vec<u64> = regular.iter().skip(10).step_by(3).take(6).map(|t| t - 500).collect();
        assert!(reads(&regular, &some, at, 1 << 19).is_none(), "every 10,000 ticks it fits again");
    }
}
