//! Quantities that are limited for each client and for all clients together.

use super::peer::Peer;
use std::collections::HashMap;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// A quantity of which clients take shares.
#[derive(Clone)]
pub struct Quota(Arc<Inner>);

struct Inner {
    per_client: usize,
    all: usize,
    used: Mutex<Used>,
    returned: Condvar,
}

#[derive(Default)]
struct Used {
    all: usize,
    /// Clients that have a share; never 0.
    by_client: HashMap<Peer, usize>,
}

/// The limit that was reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exhausted {
    /// The client has its part already.
    Client,
    /// All clients together have everything.
    All,
}

/// A share of a quota; returned on drop.
pub struct Share {
    quota: Quota,
    client: Peer,
    amount: usize,
}

impl Quota {
    /// Of so much for one client, and for all.
    pub fn new(per_client: usize, all: usize) -> Self {
        let (used, returned) = (Mutex::default(), Condvar::new());
        Quota(Arc::new(Inner { per_client, all, used, returned }))
    }

    /// Takes a share, and waits up to `patience` until others have returned enough.
    ///
    /// # Errors
    /// A limit is reached.
    pub fn take(
        &self,
        client: Peer,
        amount: usize,
        patience: Duration,
    ) -> Result<Share, Exhausted> {
        let begun = Instant::now();
        let mut used = self.lock();
        while let Err(exhausted) = self.check(&used, client, amount) {
            let left = patience.saturating_sub(begun.elapsed());
            if left.is_zero() {
                return Err(exhausted);
            }
            let waited = self.0.returned.wait_timeout(used, left);
            (used, _) = waited.unwrap_or_else(PoisonError::into_inner);
        }
        used.all += amount;
        *used.by_client.entry(client).or_default() += amount;
        drop(used);
        Ok(Share { quota: self.clone(), client, amount })
    }

    /// Waits while another client has a share, up to `patience`.
    pub fn let_others_go_first(&self, client: Peer, patience: Duration) {
        let others_have =
            |used: &mut Used| used.all > used.by_client.get(&client).copied().unwrap_or(0);
        let waited = self.0.returned.wait_timeout_while(self.lock(), patience, others_have);
        drop(waited);
    }

    /// What all clients together have.
    pub fn used(&self) -> usize {
        self.lock().all
    }

    fn check(&self, used: &Used, client: Peer, amount: usize) -> Result<(), Exhausted> {
        let own = used.by_client.get(&client).copied().unwrap_or(0);
        if own.saturating_add(amount) > self.0.per_client {
            return Err(Exhausted::Client);
        }
        if used.all.saturating_add(amount) > self.0.all {
            return Err(Exhausted::All);
        }
        Ok(())
    }

    fn lock(&self) -> MutexGuard<'_, Used> {
        self.0.used.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        let mut used = self.quota.lock();
        used.all = used.all.saturating_sub(self.amount);
        if let Some(own) = used.by_client.get_mut(&self.client) {
            *own = own.saturating_sub(self.amount);
            if *own == 0 {
                used.by_client.remove(&self.client);
            }
        }
        drop(used);
        self.quota.0.returned.notify_all();
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests report by failing")]
    use super::*;
    use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

    const USER: Peer = Peer::User(1000);
    const OTHER: Peer = Peer::User(65534);
    const THIRD: Peer = Peer::User(7);

    #[test]
    fn one_client_leaves_the_rest_to_others() {
        let quota = Quota::new(6, 10);
        let take = |client, amount| quota.take(client, amount, Duration::ZERO);
        let own = take(USER, 4).unwrap();
        assert_eq!(take(USER, 3).err(), Some(Exhausted::Client));
        let more = take(USER, 2).unwrap();
        let others = take(OTHER, 4).unwrap();
        assert_eq!(take(THIRD, 1).err(), Some(Exhausted::All));
        drop(own);
        assert!(take(THIRD, 4).is_ok());
        drop((more, others));
        assert!(quota.lock().by_client.is_empty());
        assert_eq!(quota.lock().all, 0);
    }

    #[test]
    fn returned_share_ends_the_wait() {
        let quota = Quota::new(1, 1);
        let share = quota.take(USER, 1, Duration::ZERO).unwrap();
        let other = quota.clone();
        let waiting =
            std::thread::spawn(move || other.take(OTHER, 1, Duration::from_secs(60)).is_ok());
        drop(share);
        assert!(waiting.join().unwrap());
    }

    #[test]
    fn others_are_waited_for_and_own_shares_are_not() {
        let quota = Quota::new(2, 4);
        let patience = Duration::from_secs(600);
        let own = quota.take(USER, 1, Duration::ZERO);
        // Would not return within the test's time.
        quota.let_others_go_first(USER, patience);
        let other = quota.take(OTHER, 1, Duration::ZERO).ok();
        let (waiter, passed) = (quota.clone(), Arc::new(AtomicBool::new(false)));
        let seen = Arc::clone(&passed);
        let waiting = std::thread::spawn(move || {
            waiter.let_others_go_first(USER, patience);
            seen.store(true, Relaxed);
        });
        std::thread::sleep(Duration::from_millis(20));
        assert!(!passed.load(Relaxed));
        drop(other);
        waiting.join().unwrap();
        drop(own);
    }
}
