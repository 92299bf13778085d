//! A brake on guesses: after some wrong tokens, each further one has its client's tokens refused unseen for a time that
//! doubles.
//!
//! While the brake is on, no token of the client is looked at, the right one neither: an answer would be worth a guess.
//! Cookies that were given before go on.

use super::auth::{self, Auth, Scope, Shown};
use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use transect_http::{Peer, Response};

/// Wrong tokens of a client that cost nothing.
const FREE: u32 = 8;
/// The first time for which tokens are refused.
const FIRST: Duration = Duration::from_secs(1);
/// The longest.
const LONGEST: Duration = Duration::from_secs(60);
/// One wrong token is forgiven for each such time without the brake.
const FORGIVEN: Duration = Duration::from_secs(10);
/// Clients with a record of their own; others have one together until there is room.
const MAX_PEERS: usize = 4096;

/// Records of the clients that have shown wrong tokens.
#[derive(Default)]
pub(crate) struct Brake(Mutex<Records>);

#[derive(Default)]
struct Records {
    own: HashMap<Peer, Record>,
    /// The record of all clients that have none of their own.
    common: Record,
}

/// One client's wrong tokens.
#[derive(Clone, Copy, Debug, Default)]
struct Record {
    wrong: u32,
    /// The time since which the brake is off, or until which it is on.
    off: Option<Instant>,
}

impl Record {
    fn left(&self, now: Instant) -> Duration {
        self.off.map_or(Duration::ZERO, |off| off.saturating_duration_since(now))
    }

    /// Forgives what time has passed for.
    fn forgive(&mut self, now: Instant) {
        let Some(off) = self.off else { return };
        let quiet = now.saturating_duration_since(off);
        let forgiven = u32::try_from(quiet.as_secs() / FORGIVEN.as_secs()).unwrap_or(u32::MAX);
        if forgiven > 0 {
            self.wrong = self.wrong.saturating_sub(forgiven);
            self.off = Some(off + FORGIVEN * forgiven);
        }
    }

    fn add_wrong(&mut self, now: Instant) {
        self.wrong = self.wrong.saturating_add(1);
        let doublings = self.wrong.checked_sub(FREE + 1);
        let time = doublings.map_or(Duration::ZERO, |doublings| {
            FIRST.checked_mul(1_u32.checked_shl(doublings).unwrap_or(u32::MAX)).unwrap_or(LONGEST)
        });
        // Beyond the longest time a count has no effect but that it takes longer to be forgiven.
        self.wrong = self.wrong.min(FREE + 1 + (LONGEST.as_secs() / FIRST.as_secs()).ilog2() + 1);
        self.off = Some(now + time.min(LONGEST));
    }
}

/// The result of an attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Attempt<T> {
    Right(T),
    Wrong,
    /// Not looked at; another attempt is worthwhile after so many seconds, 1 at least.
    Refused(u64),
}

impl Brake {
    /// Looks at a token of this client, unless the brake is on.
    pub(crate) fn attempt<T>(&self, peer: &Peer, look: impl FnOnce() -> Option<T>) -> Attempt<T> {
        self.attempt_at(peer, Instant::now(), look)
    }

    fn attempt_at<T>(
        &self,
        peer: &Peer,
        now: Instant,
        look: impl FnOnce() -> Option<T>,
    ) -> Attempt<T> {
        // One look at a time: attempts at once would all come before the first of them counts.
        let mut records = self.lock();
        let left = records.find(peer).left(now);
        if !left.is_zero() {
            let seconds = u64::try_from(left.as_millis().div_ceil(1000)).unwrap_or(u64::MAX);
            return Attempt::Refused(seconds.max(1));
        }
        match look() {
            Some(right) => Attempt::Right(right),
            None => {
                records.find_or_add(peer, now).add_wrong(now);
                Attempt::Wrong
            }
        }
    }

    /// The scope of a token.
    ///
    /// # Errors
    /// The token is wrong, or the brake is on.
    pub(crate) fn scope_of_token(
        &self,
        peer: &Peer,
        auth: &Auth,
        token: &str,
    ) -> Result<Scope, Response> {
        match self.attempt(peer, || auth.of_token(token)) {
            Attempt::Right(scope) => Ok(scope),
            Attempt::Wrong => Err(auth::unknown()),
            Attempt::Refused(seconds) => Err(refusal(peer, seconds)),
        }
    }

    /// The scope that shown credentials give; None: they give none. A cookie without a valid signature counts as a wrong
    /// token.
    ///
    /// # Errors
    /// A token is wrong, or the brake is on.
    pub(crate) fn scope_of(
        &self,
        peer: &Peer,
        auth: &Auth,
        shown: Shown<'_>,
    ) -> Result<Option<Scope>, Response> {
        match shown {
            Shown::Nothing => Ok(None),
            Shown::Token(token) => self.scope_of_token(peer, auth, token).map(Some),
            Shown::Cookie(value) => match auth.of_cookie(value) {
                Ok(scope) => Ok(scope),
                // Nothing is learned from it: a signature has 256 bits.
                Err(auth::NotSigned) => match self.attempt(peer, || None::<()>) {
                    Attempt::Refused(seconds) => Err(refusal(peer, seconds)),
                    Attempt::Right(()) | Attempt::Wrong => Ok(None),
                },
            },
        }
    }

    fn lock(&self) -> MutexGuard<'_, Records> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn refusal(peer: &Peer, seconds: u64) -> Response {
    let what = format!("too many wrong tokens of {peer}: tokens are refused for {seconds} s");
    let hint = "retry then; a browser that has logged in is not affected";
    Response::refusal(429, &what, hint).with("Retry-After", seconds.to_string())
}

impl Records {
    fn find(&self, peer: &Peer) -> &Record {
        match self.own.get(peer) {
            Some(own) => own,
            None if self.own.len() >= MAX_PEERS => &self.common,
            None => &Record { wrong: 0, off: None },
        }
    }

    /// The client's own record, or the common one, as of now.
    fn find_or_add(&mut self, peer: &Peer, now: Instant) -> &mut Record {
        if self.own.len() >= MAX_PEERS && !self.own.contains_key(peer) {
            self.own.retain(|_, record| {
                record.forgive(now);
                record.wrong > 0
            });
        }
        let record = match self.own.len() >= MAX_PEERS && !self.own.contains_key(peer) {
            true => &mut self.common,
            false => self.own.entry(*peer).or_default(),
        };
        record.forgive(now);
        record
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests report by failing")]
    use super::*;
    use std::net::{IpAddr, Ipv4Addr};

    const USER: Peer = Peer::User(1000);
    const OTHER: Peer = Peer::User(65534);

    fn guess(brake: &Brake, peer: &Peer, now: Instant) -> Attempt<()> {
        brake.attempt_at(peer, now, || None)
    }

    fn show_right(brake: &Brake, peer: &Peer, now: Instant) -> Attempt<()> {
        brake.attempt_at(peer, now, || Some(()))
    }

    fn add_s(start: Instant, s: u64) -> Instant {
        start + Duration::from_secs(s)
    }

    #[test]
    fn time_doubles_up_to_the_longest() {
        let (brake, start) = (Brake::default(), Instant::now());
        for _ in 0..FREE {
            assert_eq!(guess(&brake, &USER, start), Attempt::Wrong);
        }
        let mut now = start;
        for wait_s in [1, 2, 4, 8, 16, 32, 60, 60, 60, 60] {
            assert_eq!(guess(&brake, &USER, now), Attempt::Wrong);
            // The right one is not looked at either: that would be worth a guess.
            assert_eq!(show_right(&brake, &USER, now), Attempt::Refused(wait_s));
            assert_eq!(guess(&brake, &USER, add_s(now, wait_s - 1)), Attempt::Refused(1));
            now = add_s(now, wait_s);
        }
        assert_eq!(show_right(&brake, &USER, now), Attempt::Right(()));
    }

    /// Of 2,700 guesses a second for an hour few are looked at.
    #[test]
    fn guesses_of_an_hour_are_few() {
        let (brake, start) = (Brake::default(), Instant::now());
        let looked_at =
            |ms: &u64| guess(&brake, &USER, start + Duration::from_millis(*ms)) == Attempt::Wrong;
        let count = (0..3_600_000).step_by(5).filter(looked_at).count();
        assert!((60..=80).contains(&count), "{count}");
    }

    #[test]
    fn clients_have_brakes_of_their_own() {
        let (brake, start) = (Brake::default(), Instant::now());
        for _ in 0..=FREE {
            guess(&brake, &USER, start);
        }
        assert_eq!(guess(&brake, &USER, start), Attempt::Refused(1));
        assert_eq!(show_right(&brake, &OTHER, start), Attempt::Right(()));
    }

    #[test]
    fn wrong_tokens_are_forgiven_while_the_brake_is_off() {
        let (brake, start) = (Brake::default(), Instant::now());
        // A scraper with an old token.
        for n in 0..1000 {
            assert_eq!(guess(&brake, &USER, add_s(start, 15 * n)), Attempt::Wrong);
        }
        assert_eq!(show_right(&brake, &USER, add_s(start, 15_000)), Attempt::Right(()));
        for _ in 0..=FREE + 3 {
            guess(&brake, &OTHER, add_s(start, 1000));
        }
        for _ in 0..FREE {
            assert_eq!(guess(&brake, &OTHER, add_s(start, 2000)), Attempt::Wrong);
        }
    }

    #[test]
    fn clients_beyond_the_bound_have_one_brake() {
        let (brake, start) = (Brake::default(), Instant::now());
        let peer = |n: u32| Peer::Address(IpAddr::V4(Ipv4Addr::from_bits(0x0a00_0000 + n)));
        let bound = u32::try_from(MAX_PEERS).unwrap();
        for n in 0..bound + 2 * FREE {
            let _ = guess(&brake, &peer(n), start);
        }
        assert_eq!(brake.lock().own.len(), MAX_PEERS);
        assert!(matches!(guess(&brake, &peer(bound + 99), start), Attempt::Refused(_)));
        assert_eq!(guess(&brake, &peer(0), start), Attempt::Wrong);
        // Records of clients that are quiet make room.
        assert_eq!(guess(&brake, &peer(bound + 99), add_s(start, 600)), Attempt::Wrong);
        assert_eq!(brake.lock().own.len(), 1);
    }
}
