//! Reading the wall clock beside the clock that stamps the trace, and noticing when it is set.

use crate::stamp::StampClock;
use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    fd::OwnedFd,
    io::{Errno, read},
    time::{
        ClockId, Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, clock_gettime,
        timerfd_create, timerfd_settime,
    },
};
use std::time::Duration;

/// The wall clock (CLOCK_REALTIME) showed `unix_ns` at some stamp in `before..=after`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WallReading {
    /// The trace clock just before, raw.
    pub before: u64,
    /// The wall clock, ns since 1970-01-01 00:00 UTC.
    pub unix_ns: i64,
    /// The trace clock just after, raw.
    pub after: u64,
}

impl WallReading {
    /// How often to read while recording.
    pub const EVERY: Duration = Duration::from_millis(100);
    /// Readings in a burst, of which the tightest counts.
    const BURST: u32 = 8;

    /// Reads the wall clock beside `clock`; `None` where one of the two cannot be read.
    pub fn take(clock: StampClock) -> Option<Self> {
        let read = |_| {
            let before = clock.now()?;
            let unix_ns = wall_ns()?;
            let after = clock.now()?;
            (before <= after).then_some(WallReading { before, unix_ns, after })
        };
        (0..Self::BURST).filter_map(read).min_by_key(|reading| reading.after - reading.before)
    }
}

fn wall_ns() -> Option<i64> {
    let time = clock_gettime(ClockId::Realtime);
    time.tv_sec.checked_mul(1_000_000_000)?.checked_add(time.tv_nsec)
}

/// Wakes when the wall clock is set (or the machine was suspended): a timer of that clock which the
/// kernel cancels then (`TFD_TIMER_CANCEL_ON_SET`, `fs/timerfd.c`).
#[derive(Debug)]
pub struct WallAlarm {
    timer: OwnedFd,
}

impl WallAlarm {
    /// Arms the timer, for a moment that never comes.
    ///
    /// # Errors
    /// The kernel's.
    pub fn new() -> Result<Self, Errno> {
        let flags = TimerfdFlags::CLOEXEC | TimerfdFlags::NONBLOCK;
        let timer = timerfd_create(TimerfdClockId::Realtime, flags)?;
        let never = Itimerspec {
            it_interval: Timespec { tv_sec: 0, tv_nsec: 0 },
            // The year 4147: the kernel's times in ns end in 2262, and are clamped there.
            it_value: Timespec { tv_sec: 1 << 36, tv_nsec: 0 },
        };
        let how = TimerfdTimerFlags::ABSTIME | TimerfdTimerFlags::CANCEL_ON_SET;
        timerfd_settime(&timer, how, &never)?;
        Ok(WallAlarm { timer })
    }

    /// Waits until the wall clock is set, at most so long. Was it set?
    pub fn wait(&self, at_most: Duration) -> bool {
        let timeout = Timespec::try_from(at_most).ok();
        let mut fds = [PollFd::new(&self.timer, PollFlags::IN)];
        if !poll(&mut fds, timeout.as_ref()).is_ok_and(|ready| ready > 0) {
            return false;
        }
        let mut expirations = [0; 8];
        matches!(read(&self.timer, &mut expirations), Err(Errno::CANCELED))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_wall_clock_is_read_between_two_stamps() {
        for clock in StampClock::ALL.into_iter().filter(|clock| clock.is_readable()) {
            let before = clock.now().unwrap();
            let readings: Vec<_> = (0..100).map(|_| WallReading::take(clock).unwrap()).collect();
            let after = clock.now().unwrap();
            for reading in readings {
                assert!(before <= reading.before && reading.before <= reading.after);
                assert!(reading.after <= after, "{clock:?}");
                // After 2020 and before 2100.
                assert!(
                    (1_577_836_800..4_102_444_800).contains(&(reading.unix_ns / 1_000_000_000))
                );
            }
        }
    }

    #[test]
    fn an_alarm_waits_while_the_clock_is_not_set() {
        let alarm = WallAlarm::new().unwrap();
        // Other programs may set the clock: no more than once.
        let times = (0..5).filter(|_| alarm.wait(Duration::from_millis(1))).count();
        assert!(times <= 1);
    }
}
