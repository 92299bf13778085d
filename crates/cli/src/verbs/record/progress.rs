//! The line a person sees while recording, and the one that stays.

use crate::terminal::{self, hint, note};
use std::time::{Duration, Instant};
use transect_model::people::{human_bytes, human_count};
use transect_recorder::{Numbers, Observer, Snapshot, Status};

/// How often the line is renewed.
const EVERY: Duration = Duration::from_millis(500);

/// Writes the progress line; silent where no terminal is.
pub(super) struct Progress {
    terminal: bool,
    shown: bool,
    last: Option<Instant>,
}

impl Progress {
    pub(super) fn new(quiet: bool) -> Self {
        Progress { terminal: !quiet && terminal::shows_progress(), shown: false, last: None }
    }

    /// Shows a text instead of numbers.
    fn say(&mut self, text: &str) {
        if self.terminal {
            self.write(text);
        }
    }

    fn write(&mut self, text: &str) {
        self.shown = true;
        terminal::progress(text);
    }

    /// Takes the line away, for others to print.
    pub(super) fn clear(&mut self) {
        if std::mem::take(&mut self.shown) {
            terminal::clear_progress();
        }
    }
}

impl Observer for Progress {
    fn is_due(&self) -> bool {
        self.terminal && self.last.is_none_or(|last| last.elapsed() >= EVERY)
    }

    fn status(&mut self, status: Status) {
        match status {
            Status::WaitingForGuests => self.say("waiting for guests …"),
            Status::Recording(numbers) => {
                self.last = Some(Instant::now());
                self.write(&line(numbers));
            }
            Status::Holding { snapshots } => {
                self.say(&format!("flight recorder: {snapshots} snapshots (^C to end)"));
            }
            Status::Snapshot => self.clear(),
            Status::Finishing => self.say("finishing …"),
        }
    }

    fn note(&mut self, note: &str) {
        self.clear();
        note!("{note}");
    }

    fn snapshot(&mut self, snapshot: Snapshot<'_>) {
        let Snapshot { why, dir, numbers, coverage } = snapshot;
        note!("snapshot ({why}): {}", snapshot_summary(numbers));
        hint(&dir.display().to_string());
        if let Some(coverage) = coverage {
            note!("{coverage}");
        }
    }
}

fn line(numbers: Numbers) -> String {
    let Numbers { elapsed, events, lost, bytes, cpu_ns, .. } = numbers;
    format!(
        "recording {:.1} s: {} events, {} lost, {}, own CPU use {:.1} % of one CPU (^C to end)",
        elapsed.as_secs_f64(),
        human_count(events),
        human_count(lost),
        human_bytes(bytes),
        percent(cpu_ns, elapsed)
    )
}

/// The line that stays when a recording is complete.
pub(super) fn summary(numbers: Numbers) -> String {
    let not_kept = match numbers.not_kept {
        0 => String::new(),
        count => format!(", {} not kept", human_count(count)),
    };
    format!(
        "recorded {} events in {:.2} s ({}, {} lost{not_kept}); own CPU use {:.2} % of one CPU",
        human_count(numbers.events),
        numbers.elapsed.as_secs_f64(),
        human_bytes(numbers.bytes),
        human_count(numbers.lost),
        percent(numbers.cpu_ns, numbers.elapsed)
    )
}

/// The same for a snapshot, whose overwritten events are no loss; events that found no room are.
fn snapshot_summary(numbers: Numbers) -> String {
    let lost = match numbers.lost {
        0 => String::new(),
        lost => format!(", {} lost", human_count(lost)),
    };
    format!(
        "wrote {} events ({}{lost}); own CPU use {:.2} % of one CPU since the last snapshot",
        human_count(numbers.events),
        human_bytes(numbers.bytes),
        percent(numbers.cpu_ns, numbers.elapsed)
    )
}

#[expect(clippy::cast_precision_loss, reason = "digits for people")]
fn percent(ns: u64, of: Duration) -> f64 {
    ns as f64 / of.as_nanos().max(1) as f64 * 100.0
}
