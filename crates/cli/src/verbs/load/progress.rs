//! How far a recording has been read, on the terminal or for whoever else waits for it.

use crate::terminal::{self, note, say};
use std::cell::RefCell;
use std::time::{Duration, Instant};
use transect_recording::Watcher;

/// Told what is being made, how much of it is done, and of how much in all: 0 where that is not
/// known.
pub(crate) type Tell<'t> = &'t (dyn Fn(&'static str, u64, u64) + Sync);

/// Shows on the terminal what happens while tables are made.
pub(crate) struct Terminal<'t> {
    tell: Option<Tell<'t>>,
    progress: RefCell<Option<Progress<'t>>>,
}

impl<'t> Terminal<'t> {
    pub(crate) fn new(tell: Option<Tell<'t>>) -> Self {
        Terminal { tell, progress: RefCell::new(None) }
    }
}

impl Watcher for Terminal<'_> {
    fn note(&self, line: &str) {
        note!("{line}");
    }

    fn say(&self, line: &str) {
        say!("{line}");
    }

    fn begin(&self, doing: &'static str, what: &'static str) {
        *self.progress.borrow_mut() = Some(Progress::new(doing, what, self.tell));
    }

    fn at(&self, count: u64, done: (u64, u64)) {
        if let Some(progress) = &mut *self.progress.borrow_mut() {
            progress.show(count, done);
        }
    }

    fn end(&self) {
        if let Some(mut progress) = self.progress.borrow_mut().take() {
            progress.end();
        }
    }
}

/// A line on the terminal that tells how far it is, once it takes longer than a second; or whoever
/// else wants to know.
pub(crate) struct Progress<'t> {
    doing: &'static str,
    what: &'static str,
    tell: Option<Tell<'t>>,
    begun: Instant,
    shown: Option<Instant>,
    is_terminal: bool,
}

impl<'t> Progress<'t> {
    pub(crate) fn new(doing: &'static str, what: &'static str, tell: Option<Tell<'t>>) -> Self {
        let is_terminal = terminal::shows_progress();
        Progress { doing, what, tell, begun: Instant::now(), shown: None, is_terminal }
    }

    /// So many rows or events; `done` of how much in all, where that is known.
    pub(crate) fn show(&mut self, count: u64, (done, total): (u64, u64)) {
        // A total that was passed is none.
        let total = if done <= total { total } else { 0 };
        if let Some(tell) = self.tell {
            return tell(self.what, if total > 0 { done } else { count }, total);
        }
        let last = self.shown.map_or(self.begun + Duration::from_secs(1), |shown| {
            shown + Duration::from_millis(200)
        });
        if !self.is_terminal || Instant::now() < last {
            return;
        }
        self.shown = Some(Instant::now());
        #[expect(clippy::cast_precision_loss, reason = "for people")]
        let (millions, share) = (count as f64 / 1e6, 100.0 * done as f64 / total.max(1) as f64);
        let share = if total > 0 { format!("({share:.0} %) ") } else { String::new() };
        // A terminal that went away is no reason to stop.
        let (doing, what) = (self.doing, self.what);
        terminal::progress(&format!("{doing}: {millions:.1} M {what} {share}"));
    }

    pub(crate) fn end(&mut self) {
        if self.shown.take().is_some() {
            terminal::clear_progress();
        }
    }
}
