//! Searches for the highest rate at which the criterion holds. No I/O.
//!
//! SPECweb99 looked for the number of simultaneous connections that all conform. Visitors of an open loop do not hold
//! connections, so here the load is their rate: doubled (or halved) until the criterion turns, then halved in between.
//! It takes the criterion for monotonic: a rate above one that failed is not tried.

/// A search that is on its way.
#[derive(Clone, Debug)]
pub(crate) struct Search {
    start: f64,
    limit: f64,
    resolution: f64,
    held: Option<f64>,
    failed: Option<f64>,
}

/// A search that starts at a rate gives up at this part of it.
const LOWEST: f64 = 1.0 / 1024.0;

impl Search {
    /// Begins at a rate, goes no higher than `limit`, and ends when what held and what failed differ by less than
    /// `resolution` of the former.
    #[must_use]
    pub(crate) fn new(start: f64, limit: f64, resolution: f64) -> Self {
        Self { start: start.min(limit), limit, resolution, held: None, failed: None }
    }

    /// The rate to try now; `None` when the search is over.
    #[must_use]
    pub(crate) fn next(&self) -> Option<f64> {
        match (self.held, self.failed) {
            (None, None) => Some(self.start),
            (Some(held), None) if held >= self.limit => None,
            (Some(held), None) => Some((held * 2.0).min(self.limit)),
            (None, Some(failed)) => Some(failed / 2.0).filter(|&rate| rate >= self.start * LOWEST),
            (Some(held), Some(failed)) => {
                (failed - held > held * self.resolution).then_some((held + failed) / 2.0)
            }
        }
    }

    /// Says whether the criterion held at a rate.
    pub(crate) fn tell(&mut self, rate: f64, has_held: bool) {
        *(if has_held { &mut self.held } else { &mut self.failed }) = Some(rate);
    }

    /// The highest rate that held.
    #[must_use]
    pub(crate) fn held(&self) -> Option<f64> {
        self.held
    }

    /// The lowest rate that failed.
    #[must_use]
    pub(crate) fn failed(&self) -> Option<f64> {
        self.failed
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn find(start: f64, limit: f64, capacity: f64) -> (Search, u32) {
        let mut search = Search::new(start, limit, 0.05);
        let mut steps = 0;
        while let Some(rate) = search.next() {
            search.tell(rate, rate <= capacity);
            steps += 1;
            assert!(steps < 40);
        }
        (search, steps)
    }

    proptest! {
        #[test]
        fn it_finds_the_capacity(start in 1.0..1000.0f64, times in 0.01..500.0f64) {
            let capacity = start * times;
            let (search, _) = find(start, 1e9, capacity);
            let (held, failed) = (search.held().unwrap(), search.failed().unwrap());
            prop_assert!(held <= capacity && capacity < failed);
            prop_assert!(failed / held <= 1.0501);
        }

        #[test]
        fn it_ends_at_its_limit(start in 1.0..1000.0f64, times in 0.5..100.0f64) {
            let limit = start * times;
            let (search, _) = find(start, limit, f64::INFINITY);
            prop_assert_eq!(search.held(), Some(limit));
            prop_assert_eq!(search.failed(), None);
        }
    }

    #[test]
    fn a_server_that_can_do_nothing_ends_it_too() {
        let (search, steps) = find(100.0, 1e6, 0.0);
        assert_eq!(search.held(), None);
        assert!(steps <= 11, "{steps}");
    }
}
