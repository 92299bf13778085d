//! Makes a recording's files of tiles.
//!
//! **Data flow.** folders of tables → [`Plan`] → units, each by one thread: rows in order of time
//! → intervals in chunks → tiles of sums → its file. Units are independent and each file depends
//! on its rows alone, so any number of threads makes the same bytes.
//!
//! The folder appears when it is whole ([`transect_access::NewFolder`]). Units can be looked at as soon as they are made.

use crate::collect::Collector;
use crate::error::TimelineError;
use crate::index::{Codes, TileEntry, TrackEntry, UnitIndex};
use crate::inside;
use crate::plan::{Plan, UnitPlan};
use crate::pyramid::{Form, Intervals, Pyramid, top_level};
use crate::rows;
use crate::stamp::{Stamp, UnitStamp, VIEW};
use crate::sums::{Values, count_of, time_of};
use crate::tables;
use crate::tile::{encode_shares, encode_values};
use crate::unit::{Blobs, Unit, UnitWriter};
use crate::view::View;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread;
use transect_access::{NewFolder, lock_folder};

/// How far it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// Rows of tables that are done.
    pub done: u64,
    /// All of them.
    pub total: u64,
}

/// How tiles are made.
pub struct Build<'a> {
    /// The recording's folder of tables.
    pub tables: &'a Path,
    /// Where `view/` is to be.
    pub parent: &'a Path,
    /// Units made at once.
    pub threads: usize,
    /// Told about every few thousand rows.
    pub progress: &'a (dyn Fn(Progress) + Sync),
    /// Given what can be looked at already, each time it becomes more.
    pub partial: &'a (dyn Fn(View) + Sync),
    /// Set to give up.
    pub stop: &'a AtomicBool,
}

impl Build<'_> {
    /// The tiles in `parent/view`: those that are there if they were made from these tables and
    /// are whole, else new ones.
    ///
    /// # Errors
    /// A table cannot be read or the folder cannot be written. Then nothing is left behind.
    pub fn ensure(&self) -> Result<View, TimelineError> {
        if let Ok(view) = View::open(self.parent, self.tables) {
            return Ok(view);
        }
        let _lock = lock_folder(self.parent)?;
        // Another process may have made them while this one waited.
        if let Ok(view) = View::open(self.parent, self.tables) {
            return Ok(view);
        }
        self.make()
    }

    /// Makes them, whatever is there.
    ///
    /// # Errors
    /// As [`Build::ensure`].
    pub fn again(&self) -> Result<View, TimelineError> {
        let _lock = lock_folder(self.parent)?;
        self.make()
    }

    /// Decodes the columns that tiles are made of and does nothing with them: what making tiles
    /// is measured against. Rows read.
    ///
    /// # Errors
    /// A table cannot be read.
    pub fn read_only(&self) -> Result<u64, TimelineError> {
        let plan = Plan::new(self.tables)?;
        let (next, rows) = (AtomicUsize::new(0), AtomicU64::new(0));
        let work = || -> Result<(), TimelineError> {
            while let Some(unit) = plan.units.get(next.fetch_add(1, Ordering::Relaxed)) {
                let Some(reader) = tables::reader(&unit.table, &[], plan.in_ticks) else {
                    continue;
                };
                rows::each(&unit.files, reader.columns(), false, |_, range| {
                    rows.fetch_add(range.len() as u64, Ordering::Relaxed);
                    Ok(())
                })?;
            }
            Ok(())
        };
        thread::scope(|scope| {
            let others: Vec<_> = (1..self.threads.max(1)).map(|_| scope.spawn(work)).collect();
            let died = |_| Err(TimelineError::Stopped);
            let done = others.into_iter().map(|other| other.join().unwrap_or_else(died));
            done.chain([work()]).collect::<Result<(), _>>()
        })?;
        Ok(rows.into_inner())
    }

    fn make(&self) -> Result<View, TimelineError> {
        let plan = Plan::new(self.tables)?;
        let new = NewFolder::begin(self.parent, VIEW)?;
        let stamps = self.units(&plan, new.path())?;
        Stamp::new(self.tables, &plan, stamps)?.write(new.path())?;
        new.publish()?;
        View::open(self.parent, self.tables)
    }

    fn units(&self, plan: &Plan, dir: &Path) -> Result<Vec<UnitStamp>, TimelineError> {
        let work = Work {
            plan,
            dir,
            build: self,
            next: AtomicUsize::new(0),
            rows: AtomicU64::new(0),
            failed: AtomicBool::new(false),
            done: Mutex::new((0..plan.units.len()).map(|_| None).collect()),
            one_more: Condvar::new(),
        };
        (self.progress)(Progress { done: 0, total: plan.rows() });
        thread::scope(|scope| {
            for _ in 1..self.threads.clamp(1, 16) {
                scope.spawn(|| work.run());
            }
            work.run();
        });
        let done = work.done.into_inner().unwrap_or_else(PoisonError::into_inner);
        stamps(done)
    }
}

/// What each unit's file is, or the error that stopped them all.
fn stamps(done: Vec<Option<Done>>) -> Result<Vec<UnitStamp>, TimelineError> {
    let mut stamps = Vec::with_capacity(done.len());
    let mut failed = None;
    for unit in done {
        match unit {
            Some(Ok((stamp, _))) => stamps.push(stamp),
            // Those that were stopped by another's error do not say what happened.
            Some(Err(error)) if !matches!(error, TimelineError::Stopped) => return Err(error),
            Some(Err(error)) => failed = Some(error),
            None => failed = failed.or(Some(TimelineError::Stopped)),
        }
    }
    failed.map_or(Ok(stamps), Err)
}

type Done = Result<(UnitStamp, Arc<Unit>), TimelineError>;

/// The units, taken in order by threads.
struct Work<'a> {
    plan: &'a Plan,
    dir: &'a Path,
    build: &'a Build<'a>,
    next: AtomicUsize,
    rows: AtomicU64,
    failed: AtomicBool,
    done: Mutex<Vec<Option<Done>>>,
    one_more: Condvar,
}

impl Work<'_> {
    fn run(&self) {
        loop {
            let at = self.next.fetch_add(1, Ordering::Relaxed);
            let Some(unit) = self.plan.units.get(at) else { return };
            let done = self.unit(unit);
            if done.is_err() {
                self.failed.store(true, Ordering::Relaxed);
            }
            let mut all = self.done.lock().unwrap_or_else(PoisonError::into_inner);
            all[at] = Some(done);
            self.one_more.notify_all();
            self.publish(&all);
        }
    }

    /// The units of the table that this one's needs. They come before it in the plan, so somebody
    /// works on them or has done so, and waiting cannot lock up.
    fn needed(&self, unit: &UnitPlan) -> Result<Vec<Arc<Unit>>, TimelineError> {
        let Some(table) = tables::needs(&unit.table) else { return Ok(Vec::new()) };
        let places = self.plan.units.iter().enumerate().filter(|(_, unit)| unit.table == table);
        let places: Vec<usize> = places.map(|(at, _)| at).collect();
        let all = self.done.lock().unwrap_or_else(PoisonError::into_inner);
        let is_missing = |all: &mut Vec<Option<Done>>| places.iter().any(|at| all[*at].is_none());
        let all = self.one_more.wait_while(all, is_missing);
        let all = all.unwrap_or_else(PoisonError::into_inner);
        let unit = |at: &usize| match &all[*at] {
            Some(Ok((_, unit))) => Ok(Arc::clone(unit)),
            _ => Err(TimelineError::Stopped),
        };
        places.iter().map(unit).collect()
    }

    /// Shows the units up to the first that is not done: later ones would change numbers of keys.
    fn publish(&self, done: &[Option<Done>]) {
        let ready: Vec<Arc<Unit>> = done
            .iter()
            .map_while(|unit| unit.as_ref()?.as_ref().ok())
            .map(|(_, unit)| Arc::clone(unit))
            .collect();
        if ready.len() == done.len() {
            // The whole is opened by its name.
            return;
        }
        let window = (self.plan.origin, self.plan.to);
        if let Ok(view) = View::of_units(&self.plan.folder, window, ready) {
            (self.build.partial)(view);
        }
    }

    fn check(&self) -> Result<(), TimelineError> {
        let stopped = [self.build.stop, &self.failed].iter().any(|f| f.load(Ordering::Relaxed));
        if stopped { Err(TimelineError::Stopped) } else { Ok(()) }
    }

    fn count(&self, rows: usize) {
        let rows = rows as u64;
        let done = self.rows.fetch_add(rows, Ordering::Relaxed) + rows;
        (self.build.progress)(Progress { done, total: self.plan.rows() });
    }

    fn unit(&self, unit: &UnitPlan) -> Done {
        let path = self.dir.join(&unit.name);
        let (mut writer, mut index) = self.intervals(unit, &path)?;
        let blobs = writer.reader()?;
        for at in 0..index.tracks.len() {
            self.check()?;
            let tiles = self.tiles(&index.tracks[at], &blobs, &mut writer)?;
            index.tracks[at].tiles = tiles;
        }
        let (bytes, crc) = writer.finish(&index)?;
        let stamp = UnitStamp { name: unit.name.clone(), bytes, crc };
        Ok((stamp, Arc::new(Unit { index, blobs })))
    }

    /// The first pass: rows to chunks.
    fn intervals(
        &self,
        unit: &UnitPlan,
        path: &Path,
    ) -> Result<(UnitWriter, UnitIndex), TimelineError> {
        let mut into = Collector::new(UnitWriter::create(path)?);
        let mut rows_read = 0;
        let needed = self.needed(unit)?;
        let in_ticks = self.plan.in_ticks;
        if unit.table == tables::INSIDE {
            inside::make(&needed, &mut into)?;
        } else if let Some(mut reader) = tables::reader(&unit.table, &needed, in_ticks) {
            let ahead = self.build.threads > 1;
            rows::each(&unit.files, reader.columns(), ahead, |batch, rows| {
                let count = rows.len();
                reader.take(batch, rows, &mut into)?;
                rows_read += count as u64;
                if count > 1000 {
                    self.check()?;
                }
                self.count(count);
                if into.has_failed() { Err(TimelineError::Stopped) } else { Ok(()) }
            })
            .or_else(|error| match error {
                // What failed is told when it is finished.
                TimelineError::Stopped if into.has_failed() => Ok(()),
                error => Err(error),
            })?;
            reader.end(self.plan.to, &mut into);
        }
        let left_out = into.left_out;
        let (writer, tracks, keys) = into.finish()?;
        let (words, keys) = keys.into_parts();
        let table = unit.table.clone();
        let index = UnitIndex { table, rows: rows_read, left_out, words, keys, tracks };
        Ok((writer, index))
    }

    /// The second pass: a track's chunks to tiles.
    fn tiles(
        &self,
        track: &TrackEntry,
        blobs: &Blobs,
        writer: &mut UnitWriter,
    ) -> Result<Vec<TileEntry>, TimelineError> {
        let top = top_level(self.plan.to - self.plan.origin);
        let (origin, tiles) = (self.plan.origin, Vec::new());
        let intervals = Intervals::new(track, blobs);
        match track.codes {
            Codes::Keys => {
                let encode = |sums: &_, ns, to: &mut _| encode_shares(sums, Some(ns), to);
                let form = Form { amount: time_of, encode };
                Pyramid { intervals, form, origin, writer, tiles }.make(top)
            }
            Codes::Instants => {
                let encode = |sums: &_, _, to: &mut _| encode_shares(sums, None, to);
                let form = Form { amount: count_of, encode };
                Pyramid { intervals, form, origin, writer, tiles }.make(top)
            }
            Codes::Values(_) => {
                let encode = |sums: &_, _, to: &mut _| encode_values(sums, to);
                let form = Form { amount: Values::of, encode };
                Pyramid { intervals, form, origin, writer, tiles }.make(top)
            }
        }
    }
}
