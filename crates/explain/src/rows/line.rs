//! Rows of one actor in order of time.

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
pub(crate) struct Line<T>(Vec<T>);

impl<T> Default for Line<T> {
    fn default() -> Self {
        Line(Vec::new())
    }
}

impl<T: Lasts> Line<T> {
    pub(super) fn push(&mut self, row: T) {
        self.0.push(row);
    }

    /// Has to be called once all are there.
    pub(super) fn sort(&mut self) {
        sort(&mut self.0, |row| row.ts());
    }

    /// What is known of the time right before `t`.
    pub(crate) fn before(&self, t: i64) -> Before<T> {
        let at = self.0.partition_point(|row| row.ts() < t);
        match at.checked_sub(1).map(|at| self.0[at]) {
            Some(row) if row.end() >= t => Before::Row(row),
            Some(row) => Before::Gap(row.end()),
            None => Before::Gap(i64::MIN),
        }
    }

    /// Those that begin up to `t`, the latest first.
    pub(super) fn begun(&self, t: i64) -> impl Iterator<Item = T> {
        let end = self.0.partition_point(|row| row.ts() <= t);
        self.0[..end].iter().rev().copied()
    }

    pub(super) fn all(&self) -> impl Iterator<Item = T> {
        self.0.iter().copied()
    }

    pub(super) fn last(&self) -> Option<T> {
        self.0.last().copied()
    }

    /// From the first start to the last end.
    pub(super) fn span(&self) -> Option<(i64, i64)> {
        Some((self.0.first()?.ts(), self.0.last()?.end()))
    }

    /// The rows that lie in the time from `from` to `to`, or partly.
    pub(super) fn within(&self, from: i64, to: i64) -> impl Iterator<Item = T> {
        let first = self.0.partition_point(|row| row.end() <= from);
        self.0[first..].iter().take_while(move |row| row.ts() < to).copied()
    }

    /// How much of the time from `from` to `to` the rows take.
    pub(super) fn covered(&self, from: i64, to: i64) -> i64 {
        self.within(from, to).map(|row| (row.end().min(to) - row.ts().max(from)).max(0)).sum()
    }
}

/// Something that has an effect at a moment.
pub(super) trait Happens: Copy {
    /// When the effect is.
    fn at(&self) -> i64;
}

/// What happens to one actor, by the moment.
#[derive(Debug)]
pub(super) struct Moments<T>(Vec<T>);

impl<T> Default for Moments<T> {
    fn default() -> Self {
        Moments(Vec::new())
    }
}

impl<T: Happens> Moments<T> {
    pub(super) fn push(&mut self, row: T) {
        self.0.push(row);
    }

    /// Has to be called once all are there.
    pub(super) fn sort(&mut self) {
        sort(&mut self.0, |row| row.at());
    }

    pub(super) fn all(&self) -> impl Iterator<Item = T> {
        self.0.iter().copied()
    }

    pub(super) fn at(&self, t: i64) -> impl Iterator<Item = T> {
        self.from(t).take_while(move |row| row.at() == t)
    }

    /// Those from `t` on.
    pub(super) fn from(&self, t: i64) -> impl Iterator<Item = T> {
        let first = self.0.partition_point(|row| row.at() < t);
        self.0[first..].iter().copied()
    }

    /// Those from `from` to `to`, the latest first.
    pub(super) fn latest(&self, from: i64, to: i64) -> impl Iterator<Item = T> {
        let first = self.0.partition_point(|row| row.at() < from);
        let end = self.0.partition_point(|row| row.at() <= to).max(first);
        self.0[first..end].iter().rev().copied()
    }

    /// The last one after `from`, up to `to`.
    pub(super) fn last_in(&self, from: i64, to: i64) -> Option<T> {
        let end = self.0.partition_point(|row| row.at() <= to);
        self.0[..end].last().filter(|row| row.at() > from).copied()
    }
}

/// Rows most often come in order.
fn sort<T>(rows: &mut Vec<T>, key: impl Fn(&T) -> i64) {
    if !rows.is_sorted_by_key(&key) {
        rows.sort_by_key(&key);
    }
    rows.shrink_to_fit();
}
