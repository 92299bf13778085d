//! Trace time to wall-clock time and back, by the rows of `wall_clock`.
//!
//! A moment that no row covers has no known wall-clock time. A wall-clock time can have several
//! moments of trace time (the clock was set back: the hour exists twice) or none (it was set
//! forward, or the time lies outside of the recording).

use crate::table::WallClock;

impl WallClock {
    /// End of the row, ns of trace time.
    pub fn end(&self) -> i64 {
        self.ts.saturating_add(self.dur)
    }

    /// Wall-clock time at the end of the row, ns since 1970 (UTC).
    pub fn unix_end(&self) -> i64 {
        self.unix_ns.saturating_add(self.unix_dur)
    }

    /// Wall-clock time at a moment of the row, both ends included; none outside of it.
    pub fn unix_at(&self, ts: i64) -> Option<i64> {
        if ts < self.ts || ts > self.end() {
            return None;
        }
        let passed = i128::from(ts) - i128::from(self.ts);
        let unix = match self.dur {
            0 => 0,
            dur => (passed * i128::from(self.unix_dur)).div_euclid(i128::from(dur)),
        };
        i64::try_from(i128::from(self.unix_ns) + unix).ok()
    }

    /// The first moment of the row at which the wall clock shows at least `unix_ns`; none if the row
    /// does not contain that time.
    pub fn ts_of(&self, unix_ns: i64) -> Option<i64> {
        if unix_ns < self.unix_ns || unix_ns > self.unix_end() {
            return None;
        }
        let passed = i128::from(unix_ns) - i128::from(self.unix_ns);
        let dur = match self.unix_dur {
            0 => 0,
            unix_dur => {
                let product = passed * i128::from(self.dur);
                -(-product).div_euclid(i128::from(unix_dur))
            }
        };
        i64::try_from(i128::from(self.ts) + dur).ok()
    }
}

/// All rows of `wall_clock` of one recording, in order of time.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct WallMap {
    rows: Vec<WallClock>,
}

impl WallMap {
    /// A map of these rows, in any order.
    pub fn new(mut rows: Vec<WallClock>) -> Self {
        rows.sort_by_key(|row| row.ts);
        WallMap { rows }
    }

    /// The rows, by time.
    pub fn rows(&self) -> &[WallClock] {
        &self.rows
    }

    /// Is the wall clock unknown throughout?
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// The row that covers a moment of trace time.
    pub fn row_at(&self, ts: i64) -> Option<&WallClock> {
        let after = self.rows.partition_point(|row| row.ts <= ts);
        let row = self.rows.get(after.checked_sub(1)?)?;
        (ts <= row.end()).then_some(row)
    }

    /// Wall-clock time at a moment of trace time, ns since 1970 (UTC); none where it is unknown.
    pub fn unix_at(&self, ts: i64) -> Option<i64> {
        self.row_at(ts)?.unix_at(ts)
    }

    /// Every moment of trace time at which the wall clock showed `unix_ns`, ascending.
    pub fn moments_of(&self, unix_ns: i64) -> Vec<i64> {
        let mut moments: Vec<i64> = self.rows.iter().filter_map(|row| row.ts_of(unix_ns)).collect();
        // Where two rows meet, both contain the moment; rounding can make it two.
        moments.dedup_by(|later, earlier| later.abs_diff(*earlier) <= 1);
        moments
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(ts: i64, dur: i64, unix_ns: i64, unix_dur: i64) -> WallClock {
        WallClock { ts, dur, unix_ns, unix_dur, error_ns: 50, step_ns: None }
    }

    #[test]
    fn slewed_rows_convert_both_ways() {
        let map = WallMap::new(vec![row(1_000, 2_000_000, 9_000, 2_000_999)]);
        for ts in [1_000, 1_001, 777_777, 2_001_000] {
            let unix = map.unix_at(ts).unwrap();
            assert_eq!(map.moments_of(unix), [ts]);
        }
        assert_eq!(map.unix_at(2_001_000), Some(2_009_999));
        assert_eq!((map.unix_at(999), map.unix_at(2_001_001)), (None, None));
        assert_eq!(map.moments_of(8_999), Vec::<i64>::new());
    }

    #[test]
    fn a_time_that_exists_twice_has_two_moments() {
        // Set back by 500 at about 1,050: the bracket has no time.
        let map = WallMap::new(vec![row(1_100, 900, 600, 900), row(0, 1_000, 0, 1_000)]);
        assert_eq!(map.moments_of(700), [700, 1_200]);
        assert_eq!(map.moments_of(1_200), [1_700]);
        assert_eq!(map.unix_at(1_050), None);
        assert_eq!(map.moments_of(1_600), Vec::<i64>::new());
    }

    #[test]
    fn rows_that_meet_are_one_moment() {
        let map = WallMap::new(vec![row(0, 1_000, 0, 1_000), row(1_000, 1_000, 1_000, 1_001)]);
        assert_eq!(map.moments_of(1_000), [1_000]);
        assert_eq!(map.unix_at(1_000), Some(1_000));
    }
}
