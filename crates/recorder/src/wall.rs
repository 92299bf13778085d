//! Readings of the wall clock while recording: to the recording's evidence at once, or, for a
//! flight recorder, into memory until a snapshot is taken.
//!
//! A thread reads ten times a second, and at once when the kernel reports that the clock was set
//! ([`WallAlarm`]), so that the time between the readings on both sides of a step is short. Not all
//! readings are kept: a trace clock that runs at the wall clock's rate needs one a second and those
//! around a step (`transect_clock`'s `wall.rs`).

use std::{
    collections::VecDeque,
    sync::{Arc, Mutex, MutexGuard, PoisonError, mpsc},
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};
use transect_clock::{ClockGraph, ClockOptions, Evidence};
use transect_guest::{
    stamp::StampClock,
    wall::{WallAlarm, WallReading},
};
use transect_model::{
    ids::MachineId,
    time::{Span, Timestamp},
    wall::WallMap,
};
use transect_store::{RecordingWriter, StoreError};

/// Readings in memory. More are thinned, the older half first: at one a second that is after four
/// hours, and costs 32 bytes each.
const MAX_KEPT: usize = 1 << 14;

/// The thread that reads, until it is dropped.
pub(super) struct WallWatch {
    shared: Arc<Shared>,
    /// Dropped first: that ends the thread.
    stop: Option<mpsc::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

struct Shared {
    /// None: user space cannot read the trace clock, and wall-clock time stays unknown.
    clock: Option<StampClock>,
    kept: Mutex<Kept>,
}

#[derive(Default)]
struct Kept {
    /// The last two readings, kept or not: the earlier one may be the last before a step.
    recent: [Option<WallReading>; 2],
    /// When a reading was kept last.
    kept_at: Option<Instant>,
    readings: VecDeque<KeptReading>,
    /// Where readings go instead.
    writer: Option<(Arc<RecordingWriter>, MachineId)>,
    failure: Option<StoreError>,
}

#[derive(Clone, Copy)]
struct KeptReading {
    reading: WallReading,
    /// One of the two around a step: never thinned.
    is_at_step: bool,
}

impl WallWatch {
    /// Starts to read the wall clock beside the trace clock of this name.
    pub(super) fn start(clock: &str) -> Self {
        let clock = StampClock::from_name(clock).filter(|clock| clock.is_readable());
        let shared = Arc::new(Shared { clock, kept: Mutex::default() });
        shared.read(false);
        let (stop, stopped) = mpsc::channel();
        let thread = clock.and_then(|_| {
            let shared = Arc::clone(&shared);
            let name = "transect-wall".to_owned();
            thread::Builder::new().name(name).spawn(move || shared.run(&stopped)).ok()
        });
        WallWatch { shared, stop: Some(stop), thread }
    }

    /// From now on, readings are written to a recording.
    pub(super) fn write_to(&self, writer: &Arc<RecordingWriter>, host: MachineId) {
        let mut kept = self.shared.lock();
        kept.readings.clear();
        kept.writer = Some((Arc::clone(writer), host));
        kept.kept_at = None;
        drop(kept);
        self.shared.read(false);
    }

    /// Adds the last reading to the recording that readings are written to; for a snapshot, those in memory
    /// from a stamp on, and the last one before it.
    ///
    /// # Errors
    /// The evidence could not be written, now or earlier.
    pub(super) fn complete(
        &self,
        writer: &RecordingWriter,
        host: MachineId,
        from: Option<u64>,
    ) -> Result<(), StoreError> {
        self.shared.lock().kept_at = None;
        self.shared.read(false);
        let mut kept = self.shared.lock();
        if kept.writer.take().is_some() {
            return kept.failure.take().map_or(Ok(()), Err);
        }
        let from = from.unwrap_or(0);
        let first = kept.readings.partition_point(|kept| kept.reading.before <= from);
        let covering = kept.readings.range(first.saturating_sub(1)..);
        let readings: Vec<WallReading> = covering.map(|kept| kept.reading).collect();
        drop(kept);
        readings.iter().try_for_each(|reading| writer.evidence(&evidence(host, reading)))
    }
}

impl WallWatch {
    /// The wall clock at two stamps of the trace clock, by the readings in memory; none where they leave it
    /// unknown. For clocks in ns.
    pub(super) fn unix_ns(&self, clock: &str, stamps: [u64; 2]) -> [Option<i64>; 2] {
        let machine = MachineId(0);
        let reference = Evidence::Reference { machine, clock: clock.to_owned() };
        let kept = self.shared.lock();
        let readings = kept.readings.iter().map(|kept| evidence(machine, &kept.reading));
        let all: Vec<Evidence> = std::iter::once(reference).chain(readings).collect();
        drop(kept);
        let stamps = stamps.map(|stamp| i64::try_from(stamp).ok());
        let [Some(start), Some(end)] = stamps else { return [None; 2] };
        let Ok(graph) = ClockGraph::from_evidence(&all, ClockOptions::default()) else {
            return [None; 2];
        };
        let window = Span { start: Timestamp::new(start), end: Timestamp::new(end) };
        let map = WallMap::new(graph.wall_clock(window));
        [map.unix_at(start), map.unix_at(end)]
    }
}

impl Drop for WallWatch {
    fn drop(&mut self) {
        self.stop = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reads until nobody can stop it any more.
    fn run(&self, stopped: &mpsc::Receiver<()>) {
        let alarm = WallAlarm::new().ok();
        while stopped.try_recv() == Err(mpsc::TryRecvError::Empty) {
            let was_set = match &alarm {
                Some(alarm) => alarm.wait(WallReading::EVERY),
                None => {
                    thread::sleep(WallReading::EVERY);
                    false
                }
            };
            self.read(was_set);
        }
    }

    /// Takes a reading; `was_set` says that the clock was set since the one before.
    fn read(&self, was_set: bool) {
        let Some(clock) = self.clock else { return };
        // Locked first: readings are kept in the order in which they are taken.
        let mut kept = self.lock();
        if let Some(reading) = WallReading::take(clock) {
            let was_set =
                was_set || kept.recent[1].is_some_and(|last| has_jumped(clock, last, reading));
            kept.add(reading, was_set, keep_every(clock));
        }
    }
}

/// How far apart the readings that are kept may be.
fn keep_every(clock: StampClock) -> Duration {
    match clock {
        StampClock::Mono | StampClock::Boot => Duration::from_secs(1),
        // Slewed against the wall clock: the rate must be seen before and after each change.
        StampClock::X86Tsc | StampClock::MonoRaw => WallReading::EVERY,
    }
}

/// Was the wall clock set between two readings? Where no alarm can be armed, this is how a step is noticed.
/// Of slewed clocks every reading is kept, and the question is left to the analysis.
fn has_jumped(clock: StampClock, a: WallReading, b: WallReading) -> bool {
    if !matches!(clock, StampClock::Mono | StampClock::Boot) {
        return false;
    }
    let at_least = i128::from(b.before) - i128::from(a.after);
    let at_most = i128::from(b.after) - i128::from(a.before);
    let unix = i128::from(b.unix_ns) - i128::from(a.unix_ns);
    // Both show a nanosecond.
    unix + 1 < at_least || unix > at_most + 1
}

impl Kept {
    fn add(&mut self, reading: WallReading, was_set: bool, every: Duration) {
        let margin = WallReading::EVERY / 2;
        let is_due = self.kept_at.is_none_or(|kept| kept.elapsed() + margin >= every);
        if was_set {
            // The clock may have been set just before the last reading: keep both.
            for earlier in self.recent.into_iter().flatten() {
                self.keep(earlier, true);
            }
        }
        if was_set || is_due {
            self.keep(reading, was_set);
        }
        self.recent = [self.recent[1], Some(reading)];
    }

    fn keep(&mut self, reading: WallReading, is_at_step: bool) {
        self.kept_at = Some(Instant::now());
        if let Some((writer, host)) = &self.writer {
            if let Err(error) = writer.evidence(&evidence(*host, &reading)) {
                self.failure.get_or_insert(error);
            }
            return;
        }
        match self.readings.back_mut() {
            Some(last) if last.reading.before >= reading.before => last.is_at_step |= is_at_step,
            _ => self.readings.push_back(KeptReading { reading, is_at_step }),
        }
        if self.readings.len() > MAX_KEPT {
            self.thin();
        }
    }

    /// Drops every second reading of the older half; of steps alone, the oldest.
    fn thin(&mut self) {
        let half = self.readings.len() / 2;
        let mut number = 0;
        self.readings.retain(|kept| {
            number += 1;
            number > half || kept.is_at_step || number % 2 == 1
        });
        while self.readings.len() > MAX_KEPT {
            self.readings.pop_front();
        }
    }
}

fn evidence(machine: MachineId, reading: &WallReading) -> Evidence {
    let WallReading { before, unix_ns, after } = *reading;
    Evidence::WallReading { machine, before, unix_ns, after }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reading(n: u64) -> WallReading {
        WallReading { before: n * 1_000, unix_ns: 0, after: n * 1_000 + 50 }
    }

    #[test]
    fn memory_is_bounded_and_steps_stay() {
        let mut kept = Kept::default();
        for n in 0..200_000 {
            kept.add(reading(n), n == 7, Duration::ZERO);
        }
        assert!(kept.readings.len() <= MAX_KEPT);
        let at_step = kept.readings.iter().filter(|kept| kept.is_at_step);
        let numbers: Vec<u64> = at_step.map(|kept| kept.reading.before / 1_000).collect();
        // 5 was kept already when the step was noticed, as 6 was.
        assert_eq!(numbers, [6, 7]);
        let last = kept.readings.back().unwrap();
        assert_eq!(last.reading, reading(199_999));
        assert!(kept.readings.iter().is_sorted_by_key(|kept| kept.reading.before));
    }

    #[test]
    fn a_step_is_seen_from_the_readings_too() {
        let at = |before: u64, unix_ns| WallReading { before, unix_ns, after: before + 50 };
        let first = at(1_000, 70_000);
        for (second, is_step) in [
            (at(2_000, 71_000), false),
            (at(2_000, 71_051), false),
            (at(2_000, 70_949), false),
            (at(2_000, 71_060), true),
            (at(2_000, 70_900), true),
            (at(2_000, -1), true),
        ] {
            assert_eq!(has_jumped(StampClock::Mono, first, second), is_step, "{second:?}");
            assert!(!has_jumped(StampClock::X86Tsc, first, second));
        }
    }

    #[test]
    fn stamps_have_their_wall_clock_time() {
        let watch = WallWatch::start("mono");
        let Some(now) = WallReading::take(StampClock::Mono) else { return };
        std::thread::sleep(WallReading::EVERY);
        watch.shared.read(true);
        let [start, end] = watch.unix_ns("mono", [now.before, now.after + 1_000]);
        // The clock may be set while the test runs, by seconds at most.
        let is_near = |unix_ns: i64| (unix_ns - now.unix_ns).abs() < 60_000_000_000;
        assert!(start.is_none_or(is_near) && end.is_none_or(is_near));
        assert_eq!(watch.unix_ns("mono", [u64::MAX, u64::MAX]), [None, None]);
    }

    #[test]
    fn of_readings_that_are_not_due_those_around_a_step_are_kept() {
        let mut kept = Kept::default();
        for n in 0..50 {
            kept.add(reading(n), n == 20, Duration::from_secs(3_600));
        }
        let numbers: Vec<u64> = kept.readings.iter().map(|k| k.reading.before / 1_000).collect();
        assert_eq!(numbers, [0, 18, 19, 20]);
    }
}
