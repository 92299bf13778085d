//! Who writes: one thread, fed by a queue that does not wait for it.

use super::fold::Fold;
use super::frame::{Maker, Note, Span};
use super::index::{Index, State};
use super::segment::Segment;
use super::series::{Appender, SERIES, Tier, existing};
use crate::rendered::Rendered;
use crate::rendered::began_unix_ns;
use std::fs::{self, File, TryLockError};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, TrySendError, sync_channel};
use std::time::{Duration, Instant};
use transect_live::Snapshot;

/// Windows that may wait for a slow disk.
const QUEUED: usize = 16;
/// How often what was written is to be on the disk for good.
const SYNC_EVERY: Duration = Duration::from_secs(60);
/// Of the limit, what one file may have at most.
const FILES_OF_LIMIT: u64 = 16;

/// What is kept, where, and how long.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The directory.
    pub dir: PathBuf,
    /// Length of a window, ns.
    pub window_ns: u64,
    /// Bytes on disk, at most.
    pub bytes_limit: u64,
    /// How long windows are kept as they were, ns.
    pub windows_ns: u64,
    /// How long steps of ten seconds are kept, ns.
    pub ten_seconds_ns: u64,
    /// How long anything is kept, ns.
    pub keep_ns: u64,
    /// How long windows are collected before they are written.
    pub flush: Duration,
    /// Number of this run of the daemon.
    pub run: u64,
}

impl Plan {
    /// The series, the finest first. Those that would merge nothing are left out, and the last is kept
    /// for as long as anything is.
    fn tiers(&self) -> Vec<Tier> {
        let keep = |ns: u64| ns.min(self.keep_ns);
        let kept = [self.windows_ns, self.ten_seconds_ns, self.keep_ns];
        let tiers = SERIES.iter().zip(kept).map(|((name, step_ns, file_ns), kept)| Tier {
            name,
            step_ns: step_ns.unwrap_or(self.window_ns),
            keep_ns: keep(kept),
            file_ns: *file_ns,
        });
        let mut tiers: Vec<Tier> = tiers.collect();
        tiers.retain(|tier| tier.name == "w" || tier.step_ns > self.window_ns);
        if let Some(last) = tiers.last_mut() {
            last.keep_ns = self.keep_ns;
        }
        tiers
    }
}

/// A history that is open.
pub struct Opened {
    /// What is there.
    pub index: Arc<Index>,
    /// Where windows go in.
    pub queue: Queue,
    /// To be run by a thread.
    pub writer: Writer,
    /// What was found that the log should tell.
    pub told: Vec<String>,
}

/// Where windows go in.
#[derive(Clone)]
pub struct Queue {
    sender: SyncSender<Arc<Rendered>>,
    index: Arc<Index>,
}

impl Queue {
    /// Gives a window to the writer. One that finds the queue full is lost, and counted.
    pub fn push(&self, window: &Arc<Rendered>) {
        if let Err(TrySendError::Full(_)) = self.sender.try_send(Arc::clone(window)) {
            self.index.note(|numbers| numbers.lost += 1);
        }
    }
}

/// The writing end, for a thread of its own.
pub struct Writer {
    plan: Plan,
    index: Arc<Index>,
    windows: Receiver<Arc<Rendered>>,
    maker: Maker,
    tiers: Vec<Tier>,
    appenders: Vec<Appender>,
    folds: Vec<Fold>,
    /// Windows since the last frame, and their lines.
    pending: Vec<Arc<Snapshot>>,
    lines: Vec<u8>,
    /// Steps since the last frame, with their series.
    steps: Vec<(usize, Step)>,
    /// Held as long as this is: nobody else writes here.
    _lock: File,
}

/// Why there is no history.
fn of(path: &Path) -> impl Fn(io::Error) -> String {
    move |error| format!("{}: {error}", path.display())
}

impl Plan {
    /// Locks the directory, learns what is in it, and completes the merged series.
    ///
    /// # Errors
    /// One line: it cannot be written to, or another daemon does.
    pub fn open(self) -> Result<Opened, String> {
        let dir = self.dir.as_path();
        transect_access::own_dir(dir).map_err(|error| error.to_string())?;
        let lock = lock(dir)?;
        let mut told = Vec::new();
        let tiers = self.tiers();
        // Runs are named by the ms since 1970 in which they begin.
        let now_unix_ns = self.run.saturating_mul(1_000_000);
        let series =
            tiers.iter().map(|tier| Ok((*tier, existing(dir, tier, now_unix_ns, &mut told)?)));
        let mut series = series.collect::<io::Result<Vec<_>>>().map_err(of(dir))?;
        let parts = series.iter_mut().map(|(tier, segments)| (tier.step_ns, segments));
        super::cross::compare(&mut parts.collect::<Vec<_>>());
        let segments = series.iter().flat_map(|(_, segments)| segments);
        told.extend(segments.filter_map(Segment::report));
        let index = Arc::new(Index::new(series, self.bytes_limit));
        let (sender, windows) = sync_channel(QUEUED);
        let queue = Queue { sender, index: Arc::clone(&index) };
        let mut writer = Writer {
            index: Arc::clone(&index),
            windows,
            maker: Maker::new().map_err(of(dir))?,
            appenders: (tiers.iter().enumerate())
                .map(|(at, tier)| Appender::new(dir, *tier, index.run_end_of(at)))
                .collect(),
            folds: tiers.iter().skip(1).map(|tier| Fold::new(tier.step_ns)).collect(),
            tiers,
            pending: Vec::new(),
            lines: Vec::new(),
            steps: Vec::new(),
            plan: self,
            _lock: lock,
        };
        writer.complete(&mut told);
        Ok(Opened { index, queue, writer, told })
    }
}

pub(crate) fn lock(dir: &Path) -> Result<File, String> {
    let path = dir.join("lock");
    let file = transect_access::open_write(&path).map_err(of(&path))?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => Err(format!(
            "{}: another daemon writes its history here: stop it, or use another data directory",
            dir.display()
        )),
        Err(TryLockError::Error(error)) => Err(of(&path)(error)),
    }
}

impl Writer {
    /// Writes what comes, until nobody can send any more. `tell` has the log's lines.
    pub fn run(mut self, tell: &dyn Fn(&str)) {
        let (mut flushed, mut synced) = (Instant::now(), Instant::now());
        loop {
            let left = self.plan.flush.saturating_sub(flushed.elapsed());
            let is_over = match self.windows.recv_timeout(left) {
                Ok(window) => {
                    self.take(&window);
                    false
                }
                Err(RecvTimeoutError::Timeout) => false,
                Err(RecvTimeoutError::Disconnected) => true,
            };
            if is_over || flushed.elapsed() >= self.plan.flush || self.has_enough() {
                self.flush(tell);
                flushed = Instant::now();
            }
            if is_over {
                self.close(tell);
                return;
            }
            if synced.elapsed() >= SYNC_EVERY {
                self.appenders.iter().for_each(|appender| drop(appender.sync()));
                synced = Instant::now();
            }
        }
    }

    /// Has a frame's time gone by, by the windows' own clock?
    fn has_enough(&self) -> bool {
        let spans = self.pending.iter().map(|window| window.dur);
        u128::try_from(spans.sum::<i64>()).is_ok_and(|ns| ns >= self.plan.flush.as_nanos())
    }

    fn take(&mut self, window: &Rendered) {
        window.push_lines(&mut self.lines);
        self.pending.push(Arc::clone(window.snapshot()));
        let began = began_unix_ns(window.snapshot());
        self.merge(window.snapshot(), self.plan.run, began, 0);
    }

    /// Gives a window, which began at `began`, to the merged series from `level` on; each gives its steps to the next.
    fn merge(&mut self, window: &Snapshot, run: u64, began: u64, level: usize) {
        let Some(fold) = self.folds.get_mut(level) else { return };
        if let Some((window, run)) = fold.push_begun(window, run, began) {
            let began_unix_ns = fold.given_began_unix_ns();
            self.keep_step(Step { window, run, began_unix_ns }, level);
        }
    }

    fn keep_step(&mut self, step: Step, level: usize) {
        self.merge(&step.window, step.run, step.began_unix_ns, level + 1);
        self.steps.push((level + 1, step));
    }

    fn write_steps(&mut self, tell: &dyn Fn(&str)) {
        for (series, step) in std::mem::take(&mut self.steps) {
            self.write_one(series, &step, tell);
        }
    }

    /// Writes the windows since the last frame, then the steps that are over: none is on disk without its windows. Lets
    /// go of what is too old.
    fn flush(&mut self, tell: &dyn Fn(&str)) {
        let pending = std::mem::take(&mut self.pending);
        let Some(newest) = pending.last().map(|window| window.ended_unix_ns) else { return };
        let lines = std::mem::take(&mut self.lines);
        let span = Span::of(pending.iter().map(AsRef::as_ref));
        let made = self.maker.pack(&lines, &span, self.plan.run);
        self.write(0, made, pending.len() as u64, tell);
        self.lines = lines;
        self.lines.clear();
        self.write_steps(tell);
        self.expire(newest, tell);
    }

    /// Writes a step of a merged series, which is made of windows that were counted already.
    fn write_one(&mut self, series: usize, step: &Step, tell: &dyn Fn(&str)) {
        let made = self.maker.make(&step.window, step.began_unix_ns, step.run);
        self.write(series, made, 0, tell);
    }

    /// Writes a frame of `count` windows. What cannot be written is lost and counted; the next is tried again.
    fn write(
        &mut self,
        series: usize,
        made: io::Result<(Note, Vec<u8>)>,
        count: u64,
        tell: &dyn Fn(&str),
    ) {
        let max_bytes = (self.plan.bytes_limit / FILES_OF_LIMIT).max(1 << 16);
        let Some(appender) = self.appenders.get_mut(series) else { return };
        let written = made.and_then(|(note, bytes)| appender.append(&note, &bytes, max_bytes));
        match written {
            Ok(place) => {
                self.index.add(series, &place);
                let now = State::Ok;
                self.become_state(now, tell, |numbers| numbers.written += count);
            }
            Err(error) => {
                let why = format!("{}: {error}", self.plan.dir.display());
                let is_full = matches!(
                    error.kind(),
                    io::ErrorKind::StorageFull
                        | io::ErrorKind::QuotaExceeded
                        | io::ErrorKind::FileTooLarge
                );
                let now = if is_full { State::Full(why) } else { State::Failed(why) };
                self.become_state(now, tell, |numbers| {
                    numbers.lost += count;
                    numbers.failures += 1;
                });
            }
        }
    }

    fn become_state(
        &self,
        now: State,
        tell: &dyn Fn(&str),
        count: impl FnOnce(&mut super::index::Numbers),
    ) {
        let mut line = None;
        self.index.note(|numbers| {
            count(numbers);
            if numbers.state.word() != now.word() {
                line = Some(match &now {
                    State::Full(why) => format!(
                        "history stopped: {why}: free disk space, or set a smaller limit; windows that \
                         are not written are counted"
                    ),
                    State::Failed(why) => format!("history stopped: {why}"),
                    State::Ok | State::Off => {
                        format!("history resumed; {} windows were not written so far", numbers.lost)
                    }
                });
            }
            numbers.state = now;
        });
        if let Some(line) = line {
            tell(&line);
        }
    }

    fn expire(&self, now: u64, tell: &dyn Fn(&str)) {
        let is_open = |path: &Path| self.appenders.iter().any(|appender| appender.is_open(path));
        while let Some(segment) = self.index.expire(now, is_open) {
            if let Err(error) = fs::remove_file(&segment.path)
                && error.kind() != io::ErrorKind::NotFound
            {
                tell(&format!("cannot delete {}: {error}", segment.path.display()));
            }
        }
    }

    /// Steps of the merged series that a run which was killed did not write any more, from its windows. A step that
    /// windows are missing from is not written: a note without a frame states that it is gone.
    fn complete(&mut self, told: &mut Vec<String>) {
        for level in 0..self.folds.len() {
            let (from, step_ns) = (self.index.end_of(level + 1), self.tiers[level + 1].step_ns);
            let Some(finer) = self.index.parts(from, u64::MAX).into_iter().nth(level) else {
                continue;
            };
            let mut fold = Fold::new(step_ns);
            let mut missing = Missing { step_ns, from, stretches: Vec::new() };
            let run = finer.places.last().map_or(0, |place| place.note.run);
            for gone in &finer.gone {
                missing.add(gone.from_unix_ns, gone.until_unix_ns, run);
            }
            for place in &finer.places {
                let windows = match place.read() {
                    Ok(windows) => windows,
                    Err(error) => {
                        let note = &place.note;
                        missing.add(note.from_unix_ns, note.to_unix_ns, note.run);
                        self.index.is_lost(place, &error);
                        told.push(format!("{}: {error}", place.path.display()));
                        continue;
                    }
                };
                for window in windows.iter().filter(|w| super::fold::middle_unix_ns(w) >= from) {
                    // A frame of a merged series has one step.
                    let began =
                        if level > 0 { place.note.from_unix_ns } else { began_unix_ns(window) };
                    if let Some((window, run)) = fold.push_begun(window, place.note.run, began) {
                        let began_unix_ns = fold.given_began_unix_ns();
                        let step = Step { window, run, began_unix_ns };
                        self.write_completed(level + 1, &step, &mut missing, told);
                    }
                }
            }
            if let Some((window, run)) = fold.finish() {
                let began_unix_ns = fold.given_began_unix_ns();
                let step = Step { window, run, began_unix_ns };
                self.write_completed(level + 1, &step, &mut missing, told);
            }
            self.write_missing(level + 1, missing.before(u64::MAX), told);
        }
    }

    fn write_completed(
        &mut self,
        series: usize,
        step: &Step,
        missing: &mut Missing,
        told: &mut Vec<String>,
    ) {
        let middle = super::fold::middle_unix_ns(&step.window);
        if missing.has(middle) {
            return;
        }
        self.write_missing(series, missing.before(middle), told);
        let tell = std::cell::RefCell::new(Vec::new());
        self.write_one(series, step, &|line: &str| tell.borrow_mut().push(line.to_owned()));
        told.extend(tell.into_inner());
    }

    fn write_missing(&mut self, series: usize, notes: Vec<Note>, told: &mut Vec<String>) {
        let tell = std::cell::RefCell::new(Vec::new());
        for note in notes {
            let bytes = note.write();
            let line = |line: &str| tell.borrow_mut().push(line.to_owned());
            self.write(series, Ok((note, bytes)), 0, &line);
        }
        told.extend(tell.into_inner());
    }

    /// Writes the steps that have begun: nothing comes any more.
    fn close(&mut self, tell: &dyn Fn(&str)) {
        for level in 0..self.folds.len() {
            let Some(fold) = self.folds.get_mut(level) else { continue };
            if let Some((window, run)) = fold.finish() {
                let began_unix_ns = fold.given_began_unix_ns();
                self.keep_step(Step { window, run, began_unix_ns }, level);
            }
        }
        self.write_steps(tell);
        for appender in &self.appenders {
            if let Err(error) = appender.sync() {
                tell(&format!("{}: {error}", self.plan.dir.display()));
            }
        }
    }
}

/// A step of a merged series.
struct Step {
    window: Snapshot,
    run: u64,
    /// Of its first window.
    began_unix_ns: u64,
}

/// Steps that cannot be completed, as stretches of whole steps in order of time.
struct Missing {
    step_ns: u64,
    /// Everything before is there.
    from: u64,
    stretches: Vec<(u64, u64, u64)>,
}

impl Missing {
    fn add(&mut self, from: u64, until: u64, run: u64) {
        let begin = (from - from % self.step_ns).max(self.from);
        let end = until.checked_next_multiple_of(self.step_ns).unwrap_or(until);
        if end <= begin {
            return;
        }
        self.stretches.push((begin, end, run));
        self.stretches.sort_unstable();
        self.stretches.dedup_by(|next, last| {
            let touches = next.0 <= last.1;
            if touches {
                last.1 = last.1.max(next.1);
            }
            touches
        });
    }

    fn has(&self, moment: u64) -> bool {
        self.stretches.iter().any(|(begin, end, _)| (*begin..*end).contains(&moment))
    }

    /// Takes out the notes of those before a moment.
    fn before(&mut self, moment: u64) -> Vec<Note> {
        let count = self.stretches.iter().take_while(|(begin, ..)| *begin < moment).count();
        let taken = self.stretches.drain(..count);
        let note = |(begin, end, run): (u64, u64, u64)| {
            let steps = u32::try_from((end - begin).div_ceil(self.step_ns)).unwrap_or(u32::MAX);
            Note::without_frame(begin, end, run, steps)
        };
        taken.map(note).collect()
    }
}
