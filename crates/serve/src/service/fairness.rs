//! Fair shares of the questions that cost: so many a minute and so many at once for each client.
//!
//! Questions a minute are a token bucket whose capacity is a minute's worth. Of a bucket only the time is kept at which it
//! is full again (the virtual scheduling form of GCRA, ITU-T I.371).

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use transect_http::{Peer, Response};

/// Questions of one client that are under way at once. A view runs four, so no client has all of them.
const AT_ONCE: usize = 3;
/// Clients that have a share of their own; others have one together until there is room.
const MAX_PEERS: usize = 4096;
/// Interval at which unused shares are dropped.
const SWEEP: Duration = Duration::from_secs(1);
const MINUTE: Duration = Duration::from_secs(60);

/// Shares of all clients.
#[derive(Clone)]
pub(crate) struct Fairness(Arc<Mutex<Shares>>);

struct Shares {
    per_minute: u32,
    own: HashMap<Peer, Share>,
    /// The share of all clients that have none of their own.
    common: Share,
    /// Time of the last sweep.
    swept: Option<Instant>,
}

/// One bucket.
#[derive(Clone, Copy, Debug, Default)]
struct Share {
    /// When the bucket is full again; None: since ever.
    full: Option<Instant>,
    under_way: usize,
}

impl Share {
    fn is_unused(&self, now: Instant) -> bool {
        self.under_way == 0 && self.full.is_none_or(|full| full <= now)
    }
}

/// A question under way, until its answer is sent; given back on drop.
#[derive(Debug)]
pub(crate) struct Turn {
    fairness: Fairness,
    /// None: it is of the common share.
    peer: Option<Peer>,
    /// By how much it has put off the time at which the bucket is full again.
    charged: Duration,
}

impl Turn {
    /// Ends a question that was refused after all: it does not count.
    pub(crate) fn give_back(self) {
        let mut shares = self.fairness.lock();
        if let Some(share) = shares.share_of(self.peer) {
            share.full = share.full.and_then(|full| full.checked_sub(self.charged));
        }
    }
}

/// A question that was not admitted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Refused {
    limit: Limit,
    /// Seconds until another attempt is worthwhile, 1 at least.
    retry_s: u64,
}

/// The limit that was reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Limit {
    PerMinute(u32),
    AtOnce(usize),
}

impl Refused {
    /// The answer to this client.
    pub(crate) fn into_response(self, peer: &Peer) -> Response {
        let wait_s = self.retry_s;
        let (what, hint) = match self.limit {
            Limit::PerMinute(count) => (
                format!("too many requests: the limit for {peer} is {count} per minute"),
                format!("retry in {wait_s} s (limits.questions_per_minute)"),
            ),
            Limit::AtOnce(count) => (
                format!("too many requests at once: the limit for {peer} is {count}"),
                "retry when one of them is answered".to_owned(),
            ),
        };
        Response::refusal(429, &what, &hint).with("Retry-After", wait_s.to_string())
    }
}

impl Fairness {
    /// Limits each client to so many questions a minute.
    pub(crate) fn new(per_minute: usize) -> Self {
        let (own, common) = (HashMap::new(), Share::default());
        let shares = Shares { per_minute: clamp_count(per_minute), own, common, swept: None };
        Fairness(Arc::new(Mutex::new(shares)))
    }

    /// Changes the limit. Questions that were asked still count.
    pub(crate) fn set_limit(&self, per_minute: usize) {
        self.lock().per_minute = clamp_count(per_minute);
    }

    /// Admits a question of this client.
    ///
    /// # Errors
    /// The client has reached one of its limits; a refused question does not count.
    pub(crate) fn admit(&self, peer: &Peer) -> Result<Turn, Refused> {
        self.admit_at(peer, Instant::now())
    }

    fn admit_at(&self, peer: &Peer, now: Instant) -> Result<Turn, Refused> {
        let mut shares = self.lock();
        shares.drop_unused(now);
        let interval = MINUTE / shares.per_minute;
        let per_minute = Limit::PerMinute(shares.per_minute);
        let (share, peer) = shares.find_share(*peer);
        if share.under_way >= AT_ONCE {
            return Err(Refused { limit: Limit::AtOnce(AT_ONCE), retry_s: 1 });
        }
        let full = share.full.map_or(now, |full| full.max(now)) + interval;
        let wait = full.saturating_duration_since(now).saturating_sub(MINUTE);
        if !wait.is_zero() {
            let retry_s = wait.as_millis().div_ceil(1000);
            let retry_s = u64::try_from(retry_s).unwrap_or(u64::MAX).max(1);
            return Err(Refused { limit: per_minute, retry_s });
        }
        share.full = Some(full);
        share.under_way += 1;
        drop(shares);
        Ok(Turn { fairness: self.clone(), peer, charged: interval })
    }

    fn lock(&self) -> MutexGuard<'_, Shares> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl std::fmt::Debug for Fairness {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("Fairness").finish_non_exhaustive()
    }
}

fn clamp_count(per_minute: usize) -> u32 {
    u32::try_from(per_minute).unwrap_or(u32::MAX).max(1)
}

impl Shares {
    /// Drops shares that are as new ones would be.
    fn drop_unused(&mut self, now: Instant) {
        if self.swept.is_none_or(|swept| now.saturating_duration_since(swept) >= SWEEP) {
            self.swept = Some(now);
            self.own.retain(|_, share| !share.is_unused(now));
        }
    }

    /// The client's own share, or the common one and None.
    fn find_share(&mut self, peer: Peer) -> (&mut Share, Option<Peer>) {
        if self.own.len() >= MAX_PEERS && !self.own.contains_key(&peer) {
            return (&mut self.common, None);
        }
        (self.own.entry(peer).or_default(), Some(peer))
    }

    /// The share of a turn.
    fn share_of(&mut self, peer: Option<Peer>) -> Option<&mut Share> {
        match peer {
            Some(peer) => self.own.get_mut(&peer),
            None => Some(&mut self.common),
        }
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        let mut shares = self.fairness.lock();
        if let Some(share) = shares.share_of(self.peer) {
            share.under_way = share.under_way.saturating_sub(1);
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests report by failing")]
    use super::*;
    use std::net::{IpAddr, Ipv4Addr};

    const USER: Peer = Peer::User(1000);
    const OTHER: Peer = Peer::User(65534);

    fn add_ms(start: Instant, ms: u64) -> Instant {
        start + Duration::from_millis(ms)
    }

    /// Asks and has the answer at once.
    fn ask(fairness: &Fairness, peer: &Peer, now: Instant) -> Result<(), Refused> {
        fairness.admit_at(peer, now).map(drop)
    }

    fn refused_for(retry_s: u64, per_minute: u32) -> Result<(), Refused> {
        Err(Refused { limit: Limit::PerMinute(per_minute), retry_s })
    }

    #[test]
    fn bucket_has_a_minutes_worth_and_refills_continuously() {
        let (fairness, start) = (Fairness::new(4), Instant::now());
        for _ in 0..4 {
            assert_eq!(ask(&fairness, &USER, start), Ok(()));
        }
        // One of four a minute comes back every 15 s.
        assert_eq!(ask(&fairness, &USER, start), refused_for(15, 4));
        assert_eq!(ask(&fairness, &USER, add_ms(start, 14_001)), refused_for(1, 4));
        assert_eq!(ask(&fairness, &USER, add_ms(start, 15_000)), Ok(()));
        assert_eq!(ask(&fairness, &USER, add_ms(start, 15_000)), refused_for(15, 4));
        // Refused questions cost nothing, and it holds no more than a minute's worth.
        let later = add_ms(start, 3_600_000);
        for _ in 0..4 {
            assert_eq!(ask(&fairness, &USER, later), Ok(()));
        }
        assert_eq!(ask(&fairness, &USER, later), refused_for(15, 4));
    }

    #[test]
    fn clients_do_not_share_their_buckets() {
        let (fairness, start) = (Fairness::new(1), Instant::now());
        assert_eq!(ask(&fairness, &USER, start), Ok(()));
        assert_eq!(ask(&fairness, &USER, start), refused_for(60, 1));
        assert_eq!(ask(&fairness, &OTHER, start), Ok(()));
    }

    #[test]
    fn questions_at_once_are_bounded_until_one_is_answered() {
        let (fairness, start) = (Fairness::new(300), Instant::now());
        let mut turns: Vec<_> =
            (0..AT_ONCE).map(|_| fairness.admit_at(&USER, start).unwrap()).collect();
        let refused = fairness.admit_at(&USER, start).unwrap_err();
        assert_eq!(refused, Refused { limit: Limit::AtOnce(AT_ONCE), retry_s: 1 });
        assert_eq!(ask(&fairness, &OTHER, start), Ok(()));
        // Those under way stay counted although their bucket is full again.
        assert!(fairness.admit_at(&USER, add_ms(start, 600_000)).is_err());
        turns.pop();
        assert_eq!(ask(&fairness, &USER, start), Ok(()));
    }

    #[test]
    fn question_given_back_does_not_count() {
        let (fairness, start) = (Fairness::new(2), Instant::now());
        for _ in 0..10 {
            fairness.admit_at(&USER, start).unwrap().give_back();
        }
        assert_eq!(ask(&fairness, &USER, start), Ok(()));
        assert_eq!(ask(&fairness, &USER, start), Ok(()));
        assert_eq!(ask(&fairness, &USER, start), refused_for(30, 2));
    }

    #[test]
    fn unused_shares_are_dropped() {
        let (fairness, start) = (Fairness::new(60), Instant::now());
        assert_eq!(ask(&fairness, &USER, start), Ok(()));
        let turn = fairness.admit_at(&OTHER, start).unwrap();
        assert_eq!(fairness.lock().own.len(), 2);
        fairness.lock().drop_unused(add_ms(start, 5000));
        assert_eq!(fairness.lock().own.keys().copied().collect::<Vec<_>>(), [OTHER]);
        drop(turn);
        fairness.lock().drop_unused(add_ms(start, 10_000));
        assert!(fairness.lock().own.is_empty());
    }

    #[test]
    fn clients_beyond_the_bound_have_one_share() {
        let (fairness, start) = (Fairness::new(2), Instant::now());
        let peer = |n: u32| Peer::Address(IpAddr::V4(Ipv4Addr::from_bits(0x0a00_0000 + n)));
        let bound = u32::try_from(MAX_PEERS).unwrap();
        for n in 0..bound {
            assert_eq!(ask(&fairness, &peer(n), start), Ok(()));
        }
        assert_eq!(ask(&fairness, &peer(bound), start), Ok(()));
        let turn = fairness.admit_at(&peer(bound + 1), start).unwrap();
        assert_eq!(fairness.lock().common.under_way, 1);
        assert_eq!(ask(&fairness, &peer(bound + 2), start), refused_for(30, 2));
        // A client that has a share of its own keeps it.
        assert_eq!(ask(&fairness, &peer(0), start), Ok(()));
        assert_eq!(fairness.lock().own.len(), MAX_PEERS);
        drop(turn);
        assert_eq!(fairness.lock().common.under_way, 0);
        assert_eq!(ask(&fairness, &peer(bound + 2), add_ms(start, 120_000)), Ok(()));
        assert_eq!(fairness.lock().own.len(), 1);
    }

    #[test]
    fn changed_limit_counts_what_was_asked() {
        let (fairness, start) = (Fairness::new(1), Instant::now());
        assert_eq!(ask(&fairness, &USER, start), Ok(()));
        fairness.set_limit(60);
        assert_eq!(ask(&fairness, &USER, start), refused_for(1, 60));
        assert_eq!(ask(&fairness, &USER, add_ms(start, 2000)), Ok(()));
        fairness.set_limit(0);
        assert_eq!(fairness.lock().per_minute, 1);
    }

    #[test]
    fn refusal_names_client_limit_and_time() {
        let refused = Refused { limit: Limit::PerMinute(300), retry_s: 4 };
        let response = refused.into_response(&OTHER);
        assert_eq!(response.status, 429);
        assert!(response.headers.contains(&("Retry-After", "4".to_owned())));
        let body: serde_json::Value = serde_json::from_slice(&response.body).unwrap();
        assert_eq!(body["error"], "too many requests: the limit for user 65534 is 300 per minute");
        assert_eq!(body["hint"], "retry in 4 s (limits.questions_per_minute)");
    }
}
