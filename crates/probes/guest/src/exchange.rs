//! Clock exchange: when to ask an agent for a stamp, and what the answer encloses.
//!
//! A bracket is three stamps: the host's trace clock before asking, the guest's while answering,
//! the host's after the answer came. The guest's stamp was read somewhere in between, whatever the
//! delays were and whichever queue caused them; the clock crate makes offset, drift and a bound
//! from many brackets. Short round trips bound tighter, so bursts are made when the channel is
//! quiet: before recording starts and after it stopped.

use crate::{proto::Pong, stamp::StampClock};
use std::{
    collections::VecDeque,
    time::{Duration, Instant},
};

/// Between exchanges while recording: drift of a few ppm moves clocks by about 1 µs in it.
const EVERY: Duration = Duration::from_millis(200);
/// An exchange unanswered for so long no longer keeps the next one back.
const FORGET_AFTER: Duration = Duration::from_secs(2);
/// Pings remembered, to tell when a drained one was sent.
const REMEMBERED: usize = 256;

/// Host before, guest, host after: raw stamps of the two trace clocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bracket {
    /// The host's trace clock just before the Ping was written.
    pub host_send: u64,
    /// The guest's trace clock as the agent answered.
    pub guest: u64,
    /// The host's trace clock just after the Pong was read.
    pub host_recv: u64,
    /// The guest CPU the agent ran on.
    pub guest_cpu: u32,
}

impl Bracket {
    /// Round trip in the host clock's unit; `None` if the stamps run backwards, which makes the
    /// bracket worthless.
    pub fn round_trip(&self) -> Option<u64> {
        self.host_recv.checked_sub(self.host_send)
    }
}

/// Decides when to ping and pairs the answers.
#[derive(Debug)]
pub struct Exchanger {
    clock: StampClock,
    next_seq: u32,
    outstanding: Option<(u32, Instant)>,
    sent: VecDeque<(u32, u64)>,
    due_at: Instant,
    burst_left: u32,
}

impl Exchanger {
    /// An exchanger that asks for stamps of `clock`, first at once.
    pub fn new(clock: StampClock, now: Instant) -> Self {
        Exchanger {
            clock,
            next_seq: 1,
            outstanding: None,
            sent: VecDeque::new(),
            due_at: now,
            burst_left: 0,
        }
    }

    /// The guest clock that is asked for.
    pub fn clock(&self) -> StampClock {
        self.clock
    }

    /// Makes the next `count` exchanges back to back.
    pub fn burst(&mut self, count: u32, now: Instant) {
        self.burst_left = count;
        self.due_at = now;
    }

    /// Exchanges of a burst that are still to be made or answered.
    pub fn burst_left(&self) -> u32 {
        self.burst_left
    }

    /// How long until a Ping is due; zero if it is.
    pub fn due_in(&self, now: Instant) -> Duration {
        let blocked_until = self.outstanding.map(|(_, sent_at)| sent_at + FORGET_AFTER);
        let due = blocked_until.map_or(self.due_at, |until| until.max(self.due_at));
        due.saturating_duration_since(now)
    }

    /// The number for a Ping that is written now.
    pub fn send(&mut self, host_send: u64, now: Instant) -> u32 {
        let seq = self.next_seq;
        self.next_seq = seq.wrapping_add(1);
        self.outstanding = Some((seq, now));
        if self.sent.len() == REMEMBERED {
            self.sent.pop_front();
        }
        self.sent.push_back((seq, host_send));
        self.due_at = now + EVERY;
        seq
    }

    /// Pairs an answer. `None` for one that was never asked for.
    pub fn receive(&mut self, pong: Pong, host_recv: u64, now: Instant) -> Option<Bracket> {
        let host_send = self.sent_at(pong.seq)?;
        if self.outstanding.is_some_and(|(seq, _)| seq == pong.seq) {
            self.outstanding = None;
            if self.burst_left > 0 {
                self.burst_left -= 1;
                if self.burst_left > 0 {
                    self.due_at = now;
                }
            }
        }
        Some(Bracket { host_send, guest: pong.stamp, host_recv, guest_cpu: pong.cpu })
    }

    /// When (host's trace clock) the Ping of this number was sent, if it is remembered.
    pub fn sent_at(&self, seq: u32) -> Option<u64> {
        self.sent.iter().rev().find(|(sent, _)| *sent == seq).map(|(_, at)| *at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pong(seq: u32, stamp: u64) -> Pong {
        Pong { seq, cpu: 0, stamp }
    }

    #[test]
    fn answers_make_brackets_and_strangers_do_not() {
        let now = Instant::now();
        let mut exchanger = Exchanger::new(StampClock::Mono, now);
        assert_eq!(exchanger.due_in(now), Duration::ZERO);
        let seq = exchanger.send(100, now);
        assert!(exchanger.due_in(now) > EVERY, "one at a time");
        assert_eq!(exchanger.receive(pong(seq + 1, 5), 130, now), None);
        let bracket = exchanger.receive(pong(seq, 7), 130, now).unwrap();
        assert_eq!(bracket, Bracket { host_send: 100, guest: 7, host_recv: 130, guest_cpu: 0 });
        assert_eq!(bracket.round_trip(), Some(30));
        assert_eq!(exchanger.due_in(now), EVERY);
        assert_eq!(exchanger.due_in(now + EVERY), Duration::ZERO);
    }

    #[test]
    fn a_burst_is_back_to_back_and_survives_a_lost_answer() {
        let now = Instant::now();
        let mut exchanger = Exchanger::new(StampClock::Mono, now);
        exchanger.burst(3, now);
        for left in [2, 1, 0] {
            assert_eq!(exchanger.due_in(now), Duration::ZERO);
            let seq = exchanger.send(1, now);
            exchanger.receive(pong(seq, 1), 2, now).unwrap();
            assert_eq!(exchanger.burst_left(), left);
        }
        assert_eq!(exchanger.due_in(now), EVERY);
        let lost = exchanger.send(3, now);
        assert_eq!(exchanger.due_in(now + FORGET_AFTER), Duration::ZERO);
        let next = exchanger.send(4, now + FORGET_AFTER);
        assert_ne!(lost, next);
        assert_eq!(exchanger.sent_at(lost), Some(3));
    }
}
