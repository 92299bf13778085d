//! Where moments lie in a sorted list, found without a search through all of it.

use std::ops::Range;

/// Shorter lists are searched as they are.
const SHORTEST: usize = 64;
/// So far away from the last answer the next one is looked for, before all are searched.
const STEPS: usize = 6;
/// Moments in each stretch of time, if they come evenly.
const PER_STRETCH: usize = 8;

/// The place of the first moment of each stretch of time; all stretches have one length.
#[derive(Debug, Default)]
pub(crate) struct Places {
    first: i64,
    /// A stretch lasts two to the power of this.
    power: u32,
    /// One more than there are stretches: the last is the number of moments. None in a short list.
    starts: Vec<u32>,
    len: usize,
}

impl Places {
    /// Of items in the order of their moments.
    pub(crate) fn new<T>(items: &[T], moment: impl Fn(&T) -> i64) -> Self {
        let len = items.len();
        let is_indexed = len >= SHORTEST && u32::try_from(len).is_ok();
        let ends = items.first().zip(items.last()).filter(|_| is_indexed);
        let Some((first, last)) = ends.map(|(first, last)| (moment(first), moment(last))) else {
            return Places { len, ..Places::default() };
        };
        let span = last.abs_diff(first);
        let most = u64::try_from(len / PER_STRETCH).unwrap_or(u64::MAX);
        let power = (0..u64::BITS).find(|power| span >> power < most).unwrap_or(u64::BITS - 1);
        let mut places = Places { first, power, starts: Vec::new(), len };
        let mut starts = Vec::with_capacity(places.stretch(last) + 2);
        for (place, item) in (0..).zip(items) {
            // Those that are empty begin where the next one does.
            starts.resize(places.stretch(moment(item)) + 1, place);
        }
        starts.push(u32::try_from(len).unwrap_or(u32::MAX));
        places.starts = starts;
        places
    }

    /// The stretch of a moment that is not before the first.
    fn stretch(&self, t: i64) -> usize {
        usize::try_from(t.abs_diff(self.first) >> self.power).unwrap_or(usize::MAX)
    }

    /// Where the number of moments before `t` lies, and that of those up to `t`.
    pub(crate) fn around(&self, t: i64) -> Range<usize> {
        if self.starts.is_empty() {
            return 0..self.len;
        }
        if t < self.first {
            return 0..0;
        }
        let at = self.stretch(t);
        match self.starts.get(at).zip(self.starts.get(at + 1)) {
            Some((from, to)) => *from as usize..*to as usize,
            None => self.len..self.len,
        }
    }
}

/// How many items at the begin are such, if those before `range` are and those behind it are not.
pub(crate) fn count<T>(items: &[T], range: Range<usize>, is_such: impl Fn(&T) -> bool) -> usize {
    range.start + items[range].partition_point(is_such)
}

/// How many items at the begin are such, as the others are not, if that is about as many as `near`.
pub(crate) fn count_near<T>(
    items: &[T],
    near: usize,
    is_such: impl Fn(&T) -> bool,
) -> Option<usize> {
    let mut count = near.min(items.len());
    for _ in 0..STEPS {
        match (items[..count].last(), items.get(count)) {
            (Some(last), _) if !is_such(last) => count -= 1,
            (_, Some(next)) if is_such(next) => count += 1,
            _ => return Some(count),
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::{Places, count};
    use proptest::prelude::{any, prop, proptest};

    fn check(moments: &[i64], t: i64) {
        let places = Places::new(moments, |at| *at);
        let before = moments.partition_point(|at| *at < t);
        let up_to = moments.partition_point(|at| *at <= t);
        assert_eq!(count(moments, places.around(t), |at| *at < t), before, "{t} in {moments:?}");
        assert_eq!(count(moments, places.around(t), |at| *at <= t), up_to, "{t} in {moments:?}");
    }

    #[test]
    fn ends_of_time_have_places() {
        let mut moments = vec![i64::MIN; 50];
        moments.extend([i64::MAX; 50]);
        for t in [i64::MIN, -1, 0, 1, i64::MAX] {
            check(&moments, t);
            check(&moments[..50], t);
            check(&[0; 100], t);
        }
    }

    proptest! {
        #[test]
        fn places_are_those_of_a_search(
            mut moments in prop::collection::vec(0_i64..5_000, 0..300),
            far in prop::collection::vec(any::<i64>(), 0..3),
            others in prop::collection::vec(any::<i64>(), 0..3),
        ) {
            moments.extend(far);
            moments.sort_unstable();
            let near = moments.iter().flat_map(|at| [at.saturating_sub(1), *at, at.saturating_add(1)]);
            let asked: Vec<i64> = near.chain(others).collect();
            asked.iter().for_each(|t| check(&moments, *t));
        }
    }
}
