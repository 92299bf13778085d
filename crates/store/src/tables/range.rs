//! A stretch of trace time, and what of a row lies in it.

/// `[from, until)` of trace time. The ends may be open: then nothing is cut there, and what lies
/// beyond the recording's own window (a guest's first events, say) belongs to it, too.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Range {
    /// First moment; `i64::MIN` if it is open.
    pub from: i64,
    /// First moment behind; `i64::MAX` if it is open.
    pub until: i64,
}

impl Range {
    /// All of time.
    pub const ALL: Range = Range { from: i64::MIN, until: i64::MAX };

    /// Is the moment in it?
    pub fn has(&self, ts: i64) -> bool {
        self.from <= ts && (ts < self.until || self.until == i64::MAX)
    }

    /// Does the interval reach into it? One without an end, or without length, is where it began.
    pub fn meets(&self, ts: i64, dur: Option<i64>) -> bool {
        match dur {
            Some(dur) if dur > 0 => {
                let end = ts.checked_add(dur).unwrap_or(i64::MAX);
                ts < self.until && self.from < end
            }
            _ => self.has(ts),
        }
    }

    /// Does the interval lie in it as a whole?
    pub fn covers(&self, ts: i64, dur: i64) -> bool {
        self.has(ts) && ts.checked_add(dur).unwrap_or(i64::MAX) <= self.until
    }

    /// The part of an interval that meets the range: start and length.
    pub fn part_of(&self, ts: i64, dur: i64) -> (i64, i64) {
        let end = ts.checked_add(dur).unwrap_or(i64::MAX);
        let (start, cut) = (ts.max(self.from), end.min(self.until));
        if start == ts && cut == end { (ts, dur) } else { (start, cut.wrapping_sub(start)) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ends_belong_to_what_comes_next() {
        let range = Range { from: 10, until: 20 };
        assert!(range.has(10) && !range.has(20) && !range.has(9));
        assert!(!range.meets(0, Some(10)) && range.meets(0, Some(11)) && !range.meets(20, Some(5)));
        assert!(range.meets(10, Some(0)) && range.meets(19, None) && !range.meets(5, None));
        assert_eq!(range.part_of(0, 100), (10, 10));
        assert_eq!(range.part_of(12, 3), (12, 3));
        assert!(range.covers(10, 10) && !range.covers(10, 11) && !range.covers(9, 2));
    }

    #[test]
    fn open_ends_cut_nothing() {
        let all = Range::ALL;
        assert!(all.has(i64::MAX) && all.has(i64::MIN) && all.meets(i64::MIN, Some(1)));
        assert_eq!(all.part_of(-5, i64::MAX), (-5, i64::MAX));
        assert_eq!(all.part_of(3, 4), (3, 4));
        // Broken stamps reach beyond the end of time and are left as they are.
        assert_eq!(all.part_of(i64::MAX, 7), (i64::MAX, 7));
    }
}
