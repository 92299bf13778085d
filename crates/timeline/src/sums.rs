//! Buckets and what is in them: the exact arithmetic behind every tile of sums.
//!
//! A bucket has an amount per key: ns of intervals, the number of instants, or what a number was
//! like. Amounts are whole numbers and are added, so a coarse bucket holds exactly what its two
//! halves do, and shares are rounded once, when a tile is written.

use crate::chunk::Interval;
use crate::key::OTHERS;
use crate::varint::unzigzag;

/// Buckets of a tile.
pub const TILE_BUCKETS: usize = 512;
/// Keys that a bucket of a tile gives at most, [`OTHERS`] among them.
pub const TILE_KEYS: usize = 16;
/// A whole bucket.
pub const WHOLE: u16 = u16::MAX;
/// Keys that a bucket is added up with at most: beyond, the shortest become [`OTHERS`]. It bounds
/// memory where tens of thousands of threads share a CPU within one bucket.
const MAX_KEYS: usize = 1024;

/// What can be added up.
pub(crate) trait Amount: Copy {
    fn add(&mut self, other: Self);
    /// How much it is, to tell the largest.
    fn size(&self) -> i64;
}

impl Amount for i64 {
    #[inline]
    fn add(&mut self, other: Self) {
        *self += other;
    }

    fn size(&self) -> i64 {
        *self
    }
}

/// What a number was like while it was known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Values {
    pub(crate) min: i64,
    pub(crate) max: i64,
    /// Value times ns.
    pub(crate) area: i128,
    pub(crate) known_ns: i64,
}

impl Amount for Values {
    fn add(&mut self, other: Self) {
        self.min = self.min.min(other.min);
        self.max = self.max.max(other.max);
        self.area += other.area;
        self.known_ns += other.known_ns;
    }

    fn size(&self) -> i64 {
        self.known_ns
    }
}

impl Values {
    /// Of a value that holds for a while.
    pub(crate) fn of(interval: &Interval, ns: i64) -> (u32, Self) {
        let value = unzigzag(interval.code);
        let area = i128::from(value) * i128::from(ns);
        (0, Values { min: value, max: value, area, known_ns: ns })
    }
}

/// A key's time in an interval.
#[inline]
pub(crate) fn time_of(interval: &Interval, ns: i64) -> (u32, i64) {
    (key_of(interval), ns)
}

/// A key's instants.
#[inline]
pub(crate) fn count_of(interval: &Interval, _: i64) -> (u32, i64) {
    (key_of(interval), 1)
}

#[inline]
pub(crate) fn key_of(interval: &Interval) -> u32 {
    u32::try_from(interval.code).unwrap_or(OTHERS)
}

/// Buckets one behind the other, each with its keys in order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Sums<A> {
    /// Where each bucket ends in `entries`.
    ends: Vec<usize>,
    entries: Vec<(u32, A)>,
    /// From where on entries are of the bucket that is open, and in no order.
    open: usize,
}

impl<A: Amount> Sums<A> {
    pub(crate) fn new() -> Self {
        Sums { ends: Vec::new(), entries: Vec::new(), open: 0 }
    }

    /// Each bucket's amounts, by key.
    pub(crate) fn buckets(&self) -> impl Iterator<Item = &[(u32, A)]> {
        let starts = std::iter::once(0).chain(self.ends.iter().copied());
        starts.zip(&self.ends).map(|(from, to)| &self.entries[from..*to])
    }

    fn push(&mut self, key: u32, amount: A) {
        if let Some((last, sum)) = self.entries[self.open..].last_mut()
            && *last == key
        {
            sum.add(amount);
            return;
        }
        self.entries.push((key, amount));
        // Billions of instants may be in one bucket.
        if self.entries.len() - self.open > 8 * MAX_KEYS {
            self.fold();
        }
    }

    /// Brings the open bucket's keys in order, each once.
    fn fold(&mut self) {
        let open = &mut self.entries[self.open..];
        if open.len() < 2 {
            return;
        }
        open.sort_unstable_by_key(|(key, _)| *key);
        let mut to = self.open;
        for at in self.open + 1..self.entries.len() {
            let (key, amount) = self.entries[at];
            if self.entries[to].0 == key {
                self.entries[to].1.add(amount);
            } else {
                to += 1;
                self.entries[to] = (key, amount);
            }
        }
        self.entries.truncate(to + 1);
        if self.entries.len() - self.open > MAX_KEYS {
            self.drop_shortest();
        }
    }

    #[cold]
    fn drop_shortest(&mut self) {
        let mut open = self.entries.split_off(self.open);
        open.sort_unstable_by_key(|(key, amount)| (std::cmp::Reverse(amount.size()), *key));
        for (_, amount) in open.drain(MAX_KEYS - 1..).collect::<Vec<_>>() {
            match open.iter_mut().find(|(key, _)| *key == OTHERS) {
                Some((_, sum)) => sum.add(amount),
                None => open.push((OTHERS, amount)),
            }
        }
        open.sort_unstable_by_key(|(key, _)| *key);
        self.entries.append(&mut open);
    }

    fn close(&mut self) {
        self.fold();
        self.open = self.entries.len();
        self.ends.push(self.open);
    }

    /// Closes buckets until there are so many.
    pub(crate) fn close_until(&mut self, buckets: usize) {
        while self.ends.len() < buckets {
            self.close();
        }
    }

    /// Puts other buckets behind these.
    pub(crate) fn append(&mut self, other: Self) {
        let shift = self.entries.len();
        self.entries.extend(other.entries);
        self.ends.extend(other.ends.into_iter().map(|end| end + shift));
        self.open = self.entries.len();
    }

    /// Buckets twice as long.
    pub(crate) fn halved(&self) -> Self {
        let mut out = Sums::new();
        out.entries.reserve(self.entries.len());
        let mut buckets = self.buckets();
        while let Some(first) = buckets.next() {
            merge(first, buckets.next().unwrap_or_default(), &mut out.entries);
            if out.entries.len() - out.open > MAX_KEYS {
                out.drop_shortest();
            }
            out.open = out.entries.len();
            out.ends.push(out.open);
        }
        out
    }
}

fn merge<A: Amount>(mut a: &[(u32, A)], mut b: &[(u32, A)], to: &mut Vec<(u32, A)>) {
    while let (Some((first, rest)), Some((second, others))) = (a.split_first(), b.split_first()) {
        let mut next = *first;
        match first.0.cmp(&second.0) {
            std::cmp::Ordering::Less => a = rest,
            std::cmp::Ordering::Greater => (next, b) = (*second, others),
            std::cmp::Ordering::Equal => {
                next.1.add(second.1);
                (a, b) = (rest, others);
            }
        }
        to.push(next);
    }
    to.extend_from_slice(a);
    to.extend_from_slice(b);
}

/// Adds intervals up in buckets of 2^`level` ns from `start` on.
pub(crate) struct Summing<A> {
    start: i64,
    level: u8,
    buckets: usize,
    amount: fn(&Interval, i64) -> (u32, A),
    sums: Sums<A>,
}

impl<A: Amount> Summing<A> {
    pub(crate) fn new(
        start: i64,
        level: u8,
        buckets: usize,
        amount: fn(&Interval, i64) -> (u32, A),
    ) -> Self {
        Summing { start, level, buckets, amount, sums: Sums::new() }
    }

    /// Takes an interval; they come in order. What is outside of the buckets does not count.
    pub(crate) fn take(&mut self, interval: &Interval) {
        let len = 1_i64 << self.level;
        let end = self.start + (len << self.buckets.trailing_zeros());
        let (mut from, to) = (interval.ts.max(self.start), interval.end().min(end));
        if from >= end || to < self.start || (to == self.start && interval.dur > 0) {
            return;
        }
        loop {
            let number = (from - self.start) >> self.level;
            // Within the buckets: not negative, and no more than their number.
            #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "above")]
            self.sums.close_until(number as usize);
            let bucket_end = self.start + ((number + 1) << self.level);
            let until = to.min(bucket_end);
            let (key, amount) = (self.amount)(interval, until - from);
            self.sums.push(key, amount);
            if until >= to {
                return;
            }
            from = until;
        }
    }

    pub(crate) fn finish(mut self) -> Sums<A> {
        self.sums.close_until(self.buckets);
        self.sums
    }
}

/// A bucket's keys as a tile gives them: the longest first come, the rest are [`OTHERS`], in order
/// of their keys. `whole` is what fills the bucket.
pub(crate) fn shares(bucket: &[(u32, i64)], whole: i64) -> Vec<(u32, u16)> {
    let mut kept: Vec<(u32, i64)> = bucket.iter().copied().filter(|(_, sum)| *sum > 0).collect();
    if kept.len() > TILE_KEYS || kept.iter().any(|(key, _)| *key == OTHERS) {
        keep_longest(&mut kept);
    }
    let mut shares: Vec<(u32, u16)> =
        kept.into_iter().map(|(key, sum)| (key, share(sum, whole))).collect();
    // Shares are rounded down, except those that would vanish: the largest makes room for them.
    let total: u32 = shares.iter().map(|(_, share)| u32::from(*share)).sum();
    let over = total.saturating_sub(u32::from(WHOLE));
    if let Some((_, largest)) = shares.iter_mut().max_by_key(|(_, share)| *share) {
        *largest -= u16::try_from(over).unwrap_or(0).min(*largest);
    }
    shares
}

fn keep_longest(kept: &mut Vec<(u32, i64)>) {
    let mut others: i64 = 0;
    kept.retain(|(key, sum)| {
        others += if *key == OTHERS { *sum } else { 0 };
        *key != OTHERS
    });
    kept.sort_unstable_by_key(|(key, sum)| (std::cmp::Reverse(*sum), *key));
    let rest = kept.drain(kept.len().min(TILE_KEYS - 1)..);
    others += rest.map(|(_, sum)| sum).sum::<i64>();
    kept.push((OTHERS, others));
    kept.sort_unstable_by_key(|(key, _)| *key);
}

fn share(sum: i64, whole: i64) -> u16 {
    let share = i128::from(sum) * i128::from(WHOLE) / i128::from(whole.max(1));
    u16::try_from(share.max(1)).unwrap_or(WHOLE)
}
