//! Rows of one actor in order of time.

use crate::places::{Places, count, count_near};

/// A row that lasts.
pub(crate) trait Lasts: Copy {
    fn ts(&self) -> i64;
    fn end(&self) -> i64;
}

/// What is known before a moment.
pub(crate) enum Before<T> {
    /// The row that ends then, or lasts.
    Row(T),
    /// Nothing since then.
    Gap(i64),
}

/// Rows of one actor, by their start.
#[derive(Debug)]
pub(crate) struct Line<T> {
    rows: Vec<T>,
    /// Of their starts.
    places: Places,
}

impl<T> Default for Line<T> {
    fn default() -> Self {
        Line { rows: Vec::new(), places: Places::default() }
    }
}

impl<T: Lasts> Line<T> {
    pub(super) fn push(&mut self, row: T) {
        self.rows.push(row);
    }

    /// Has to be called once all are there.
    pub(super) fn sort(&mut self) {
        self.places = sort(&mut self.rows, |row| row.ts());
    }

    /// How many begin before `t`.
    fn begun_before(&self, t: i64) -> usize {
        count(&self.rows, self.places.around(t), |row| row.ts() < t)
    }

    /// What is known of the time right before `t`.
    pub(crate) fn before(&self, t: i64) -> Before<T> {
        self.at(self.begun_before(t), t)
    }

    /// The same for who asks again and again: `near` is where the last answer was.
    pub(crate) fn before_near(&self, t: i64, near: &mut usize) -> Before<T> {
        let begun = count_near(&self.rows, *near, |row| row.ts() < t);
        *near = begun.unwrap_or_else(|| self.begun_before(t));
        self.at(*near, t)
    }

    /// What is known of the time right before `t`, before which so many begin.
    fn at(&self, begun: usize, t: i64) -> Before<T> {
        match begun.checked_sub(1).map(|at| self.rows[at]) {
            Some(row) if row.end() >= t => Before::Row(row),
            Some(row) => Before::Gap(row.end()),
            None => Before::Gap(i64::MIN),
        }
    }

    /// Those that begin up to `t`, the latest first.
    pub(super) fn begun(&self, t: i64) -> impl Iterator<Item = T> {
        let end = count(&self.rows, self.places.around(t), |row| row.ts() <= t);
        self.rows[..end].iter().rev().copied()
    }

    pub(super) fn all(&self) -> impl Iterator<Item = T> {
        self.rows.iter().copied()
    }

    pub(super) fn last(&self) -> Option<T> {
        self.rows.last().copied()
    }

    /// From the first start to the last end.
    pub(super) fn span(&self) -> Option<(i64, i64)> {
        Some((self.rows.first()?.ts(), self.rows.last()?.end()))
    }

    /// The rows that lie in the time from `from` to `to`, or partly.
    pub(super) fn within(&self, from: i64, to: i64) -> impl Iterator<Item = T> {
        let first = self.rows.partition_point(|row| row.end() <= from);
        self.rows[first..].iter().take_while(move |row| row.ts() < to).copied()
    }

    /// How much of the time from `from` to `to` the rows take.
    pub(super) fn covered(&self, from: i64, to: i64) -> i64 {
        self.within(from, to).map(|row| (row.end().min(to) - row.ts().max(from)).max(0)).sum()
    }
}

/// Something that has an effect at a moment.
pub(crate) trait Happens: Copy {
    /// When the effect is.
    fn at(&self) -> i64;
}

/// What happens to one actor, by the moment.
#[derive(Debug)]
pub(crate) struct Moments<T> {
    rows: Vec<T>,
    places: Places,
}

impl<T> Default for Moments<T> {
    fn default() -> Self {
        Moments { rows: Vec::new(), places: Places::default() }
    }
}

impl<T: Happens> Moments<T> {
    pub(super) fn push(&mut self, row: T) {
        self.rows.push(row);
    }

    /// Has to be called once all are there.
    pub(super) fn sort(&mut self) {
        self.places = sort(&mut self.rows, |row| row.at());
    }

    fn before(&self, t: i64) -> usize {
        count(&self.rows, self.places.around(t), |row| row.at() < t)
    }

    fn up_to(&self, t: i64) -> usize {
        count(&self.rows, self.places.around(t), |row| row.at() <= t)
    }

    pub(super) fn all(&self) -> impl Iterator<Item = T> {
        self.rows.iter().copied()
    }

    pub(super) fn at(&self, t: i64) -> impl Iterator<Item = T> {
        self.from(t).take_while(move |row| row.at() == t)
    }

    /// The same for who asks again and again: `near` is where the last answer was.
    pub(crate) fn at_near(&self, t: i64, near: &mut usize) -> impl Iterator<Item = T> {
        let before = count_near(&self.rows, *near, |row| row.at() < t);
        *near = before.unwrap_or_else(|| self.before(t));
        self.rows[*near..].iter().copied().take_while(move |row| row.at() == t)
    }

    /// Those from `t` on.
    pub(super) fn from(&self, t: i64) -> impl Iterator<Item = T> {
        let first = self.before(t);
        self.rows[first..].iter().copied()
    }

    /// Those from `from` to `to`, the latest first.
    pub(super) fn latest(&self, from: i64, to: i64) -> impl Iterator<Item = T> {
        let first = self.before(from);
        let end = self.up_to(to).max(first);
        self.rows[first..end].iter().rev().copied()
    }

    /// The last one after `from`, up to `to`.
    pub(super) fn last_in(&self, from: i64, to: i64) -> Option<T> {
        let end = self.up_to(to);
        self.rows[..end].last().filter(|row| row.at() > from).copied()
    }
}

/// Rows most often come in order. Where they lie then.
fn sort<T>(rows: &mut Vec<T>, key: impl Fn(&T) -> i64) -> Places {
    if !rows.is_sorted_by_key(&key) {
        rows.sort_by_key(&key);
    }
    rows.shrink_to_fit();
    Places::new(rows, key)
}

#[cfg(test)]
mod tests {
    use super::{Before, Lasts, Line};
    use proptest::prelude::{prop, prop_assert_eq, proptest};

    #[derive(Clone, Copy, Debug)]
    struct Row(i64, i64);

    impl Lasts for Row {
        fn ts(&self) -> i64 {
            self.0
        }
        fn end(&self) -> i64 {
            self.1
        }
    }

    fn text(before: &Before<Row>) -> String {
        match before {
            Before::Row(row) => format!("{row:?}"),
            Before::Gap(since) => format!("since {since}"),
        }
    }

    proptest! {
        #[test]
        fn rows_near_the_last_answer_are_those_of_a_search(
            rows in prop::collection::vec((0_i64..2_000, 0_i64..40), 0..300),
            asked in prop::collection::vec(0_i64..2_100, 1..50),
            mut near in 0_usize..400,
        ) {
            let mut line = Line::default();
            rows.iter().for_each(|(ts, dur)| line.push(Row(*ts, ts + dur)));
            line.sort();
            // Also one step after the other, back and on.
            let steps = asked.iter().flat_map(|t| [*t, t - 7, t - 60, t - 8, t + 1]);
            for t in steps {
                prop_assert_eq!(text(&line.before_near(t, &mut near)), text(&line.before(t)));
            }
        }
    }
}
