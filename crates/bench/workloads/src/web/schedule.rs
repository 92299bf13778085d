//! When what is asked for, of whom: fixed by the seed before the first answer comes. No I/O.
//!
//! Arrivals are a Poisson process: many visitors who do not know of each other, and who do not wait because the server
//! is slow. A generator that sends the next request when the last one is answered (closed loop) asks less of a slow
//! server, and leaves out of its figures just the requests that would have waited: coordinated omission.

use super::files::{File, Mix};
use crate::net::random::Random;

/// One request that is to be sent.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Request {
    /// When, ns after the start. Latency counts from here, whenever it is really sent.
    pub(crate) due_ns: u64,
    /// Index of the server.
    pub(crate) server: usize,
    /// What it asks for.
    pub(crate) file: File,
    /// Does it count, or does it warm up?
    pub(crate) is_counted: bool,
}

/// What a schedule is made of.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Offer {
    /// Requests a second, all servers together.
    pub(crate) rate: f64,
    /// Servers; each gets an equal share, by chance.
    pub(crate) servers: usize,
    /// Directories of the file set.
    pub(crate) directories: u32,
    /// What comes before this does not count, ns.
    pub(crate) warm_ns: u64,
    /// Length after that, ns.
    pub(crate) counted_ns: u64,
    /// Seed.
    pub(crate) seed: u64,
}

/// The arrivals, in order of time.
#[derive(Debug)]
pub(crate) struct Schedule {
    offer: Offer,
    mix: Mix,
    times: Random,
    choices: Random,
    next_ns: f64,
}

impl Schedule {
    /// Begins one.
    #[must_use]
    pub(crate) fn new(offer: Offer) -> Self {
        let mut schedule = Self {
            mix: Mix::new(offer.directories),
            times: Random::new(offer.seed, 1),
            choices: Random::new(offer.seed, 2),
            next_ns: 0.0,
            offer,
        };
        schedule.step();
        schedule
    }

    /// When the next one is due, ns after the start; `None` when there is none.
    #[must_use]
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a sum of times that are not negative; runs are shorter than 2^53 ns"
    )]
    pub(crate) fn due_ns(&self) -> Option<u64> {
        let due = self.next_ns as u64;
        (due < self.offer.warm_ns + self.offer.counted_ns).then_some(due)
    }

    fn step(&mut self) {
        self.next_ns += self.times.exponential(1e9 / self.offer.rate);
    }
}

impl Iterator for Schedule {
    type Item = Request;

    fn next(&mut self) -> Option<Request> {
        let due_ns = self.due_ns()?;
        self.step();
        Some(Request {
            due_ns,
            server: self.choices.below(self.offer.servers),
            file: self.mix.pick(&mut self.choices),
            is_counted: due_ns >= self.offer.warm_ns,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OFFER: Offer = Offer {
        rate: 1000.0,
        servers: 4,
        directories: 2,
        warm_ns: 1_000_000_000,
        counted_ns: 50_000_000_000,
        seed: 11,
    };

    #[test]
    fn the_rate_is_held_and_every_server_gets_its_share() {
        let all: Vec<Request> = Schedule::new(OFFER).collect();
        let counted = all.iter().filter(|r| r.is_counted).count() as f64;
        assert!((counted / 50_000.0 - 1.0).abs() < 0.02, "{counted}");
        assert!(all.is_sorted_by_key(|r| r.due_ns));
        for server in 0..4 {
            let share = all.iter().filter(|r| r.server == server).count() as f64 / all.len() as f64;
            assert!((share - 0.25).abs() < 0.01, "{share}");
        }
    }

    #[test]
    fn arrivals_are_poisson() {
        // Counts in windows: the variance is the mean. For a clock's tick it would be 0.
        let mut windows = [0u32; 5000];
        for request in Schedule::new(OFFER).filter(|r| r.is_counted) {
            windows[((request.due_ns - OFFER.warm_ns) / 10_000_000) as usize] += 1;
        }
        let mean = f64::from(windows.iter().sum::<u32>()) / 5000.0;
        let variance = windows.iter().map(|&n| (f64::from(n) - mean).powi(2)).sum::<f64>() / 5000.0;
        assert!((variance / mean - 1.0).abs() < 0.1, "variance {variance}, mean {mean}");
    }

    #[test]
    fn the_seed_decides() {
        let times = |seed| -> Vec<u64> {
            Schedule::new(Offer { seed, ..OFFER }).take(100).map(|r| r.due_ns).collect()
        };
        assert_eq!(times(1), times(1));
        assert_ne!(times(1), times(2));
    }
}
