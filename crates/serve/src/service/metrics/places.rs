//! A bounded number of names, each with its counters; all others are one.

use std::collections::{BTreeMap, HashSet};

/// The name of what is summed.
pub(super) const OTHER: &str = "other";
/// After so long a name that is not seen any more makes room.
const FORGET_NS: u64 = 600_000_000_000;

struct Place<T> {
    sums: T,
    seen_unix_ns: u64,
}

/// Stands between the values of a name: below every other character, so that joined names are in the order of
/// their values.
const BETWEEN: char = '\0';

/// Counters by names (labels' values).
pub(super) struct Places<T> {
    limit: usize,
    /// By values, joined: a name is looked up for every row of every window.
    known: BTreeMap<String, Place<T>>,
    other: Option<T>,
    /// Those that are in `other` in the current window.
    summed: (HashSet<String>, u64),
    /// How many values a name has.
    width: usize,
    /// The name that is looked up.
    key: String,
}

impl<T: Clone + Default> Places<T> {
    pub(super) fn new(limit: usize) -> Self {
        let (known, summed) = (BTreeMap::new(), (HashSet::new(), 0));
        Places { limit, known, other: None, summed, width: 1, key: String::new() }
    }

    fn join(&mut self, names: &[&str]) {
        self.width = names.len();
        self.key.clear();
        for (number, name) in names.iter().enumerate() {
            if number > 0 {
                self.key.push(BETWEEN);
            }
            match name.contains(BETWEEN) {
                true => self.key.extend(name.chars().filter(|c| *c != BETWEEN)),
                false => self.key.push_str(name),
            }
        }
    }

    /// The counters of a name, seen now.
    pub(super) fn of(&mut self, names: &[&str], now_unix_ns: u64) -> &mut T {
        self.join(names);
        if self.summed.1 != now_unix_ns {
            self.summed = (HashSet::new(), now_unix_ns);
        }
        if !self.known.contains_key(&self.key) {
            if self.known.len() >= self.limit {
                // Counting who is summed is bounded, too.
                if self.summed.0.len() < 100_000 && !self.summed.0.contains(&self.key) {
                    self.summed.0.insert(self.key.clone());
                }
                return self.other.get_or_insert_with(T::default);
            }
            let fresh = Place { sums: T::default(), seen_unix_ns: now_unix_ns };
            self.known.insert(self.key.clone(), fresh);
        }
        match self.known.get_mut(&self.key) {
            Some(place) => {
                place.seen_unix_ns = now_unix_ns;
                &mut place.sums
            }
            // It was put there.
            None => self.other.get_or_insert_with(T::default),
        }
    }

    pub(super) fn forget(&mut self, now_unix_ns: u64) {
        let is_seen =
            |place: &Place<T>| now_unix_ns.saturating_sub(place.seen_unix_ns) <= FORGET_NS;
        self.known.retain(|_, place| is_seen(place));
        if self.summed.1 != now_unix_ns {
            self.summed = (HashSet::new(), now_unix_ns);
        }
    }

    /// How many are summed.
    pub(super) fn summed(&self) -> usize {
        self.summed.0.len()
    }

    /// Each name's values with its counters; those of `other` last.
    pub(super) fn each(&self) -> impl Iterator<Item = (Vec<&str>, &T)> {
        let known = self.known.iter();
        let known = known.map(|(key, place)| (key.split(BETWEEN).collect(), &place.sums));
        known.chain(self.other.iter().map(move |sums| (vec![OTHER; self.width], sums)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_several_values_are_told_apart_and_in_order() {
        let mut places: Places<u64> = Places::new(9);
        for names in [["b", ""], ["a", "b"], ["ab", ""], ["a\0", "b"], ["a", "a"]] {
            *places.of(&names, 1) += 1;
        }
        let all: Vec<_> = places.each().map(|(names, n)| (names.join("|"), *n)).collect();
        let own = |name: &str, n| (name.to_owned(), n);
        // What no name of the kernel's has is left out of one.
        assert_eq!(all, [own("a|a", 1), own("a|b", 2), own("ab|", 1), own("b|", 1)]);
    }

    #[test]
    fn places_are_kept_and_others_summed_until_one_is_free() {
        let mut places: Places<u64> = Places::new(2);
        for (now, name) in [(1, "a"), (1, "b"), (1, "c"), (1, "d"), (2, "c"), (2, "a"), (2, "b")] {
            *places.of(&[name], now) += 1;
        }
        let all = |places: &Places<u64>| {
            places.each().map(|(names, n)| (names[0].to_owned(), *n)).collect::<Vec<_>>()
        };
        let own = |name: &str, n| (name.to_owned(), n);
        assert_eq!(all(&places), [own("a", 2), own("b", 2), own("other", 3)]);
        assert_eq!(places.summed(), 1);
        // b is gone for long: c gets its place, and begins there.
        let later = 3 + FORGET_NS;
        *places.of(&["a"], later) += 1;
        places.forget(later);
        *places.of(&["c"], later) += 1;
        assert_eq!(all(&places), [own("a", 3), own("c", 1), own("other", 3)]);
        assert_eq!(places.summed(), 0);
    }
}
