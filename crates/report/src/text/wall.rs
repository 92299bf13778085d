//! When the recording was made by the host's wall clock, and what happened to that clock meanwhile.

use super::{Page, count, duration};
use crate::facts::TimeUnit;
use crate::{trace_text, zone::Digits};
use transect_model::table::WallClock;

/// Changes of the clock that are printed one by one.
const MOST: usize = 5;
/// A slew below this is what NTP does all the time, ppm.
const SLEW_PPM: i64 = 100;

impl Page<'_> {
    /// The wall-clock window for the title: seconds, where both of its ends are known.
    pub(crate) fn wall_title(&self) -> Option<String> {
        let line = self.report.recording();
        let window = line.start_unix_ns.zip(line.end_unix_ns)?;
        Some(self.style.zone.range_text(window, Digits::Seconds))
    }

    /// One line about the wall-clock window, then one for each change of the clock.
    pub(crate) fn wall_lines(&self, is_import: bool) -> Vec<String> {
        let rows = self.report.wall.rows();
        let (Some(first), Some(last)) = (rows.first(), rows.last()) else {
            return vec![if is_import { "not in the file" } else { "not recorded" }.to_owned()];
        };
        let range = (first.unix_ns, last.unix_end());
        let error_ns = rows.iter().map(|row| row.error_ns).max().unwrap_or(0);
        let range = self.style.zone.range_text(range, Digits::Millis);
        let mut lines = vec![format!("{range} (±{})", duration(error_ns, TimeUnit::Ns))];
        let window = self.report.facts.window;
        let unknown =
            [("start", first.ts - window.start.get()), ("end", window.end.get() - last.end())];
        for (which, dur) in unknown.into_iter().filter(|(_, dur)| *dur > 0) {
            let dur = duration(dur, TimeUnit::Ns);
            lines.push(format!("unknown for {dur} at the {which} of the window: not read"));
        }
        let changes = self.changes(rows);
        let rest = changes.len().saturating_sub(MOST);
        lines.extend(changes.into_iter().take(MOST));
        if rest > 0 {
            let rest = count(rest as u64);
            lines.push(format!("{rest} more changes: see the table wall_clock"));
        }
        lines
    }

    /// Steps and slews, in order of time.
    fn changes(&self, rows: &[WallClock]) -> Vec<String> {
        let mut lines = Vec::new();
        let mut slew = None;
        for (at, row) in rows.iter().enumerate() {
            let before = at.checked_sub(1).and_then(|at| rows.get(at));
            if let (Some(before), Some(step_ns)) = (before, row.step_ns.filter(|step| *step != 0)) {
                lines.push(self.step_line(before, row, step_ns));
            }
            let ppm = slew_ppm(row);
            if ppm.abs() > SLEW_PPM && slew != Some(ppm) {
                let sign = if ppm < 0 { '−' } else { '+' };
                lines.push(format!(
                    "slewed by {sign}{} ppm from {} of trace time on, for {}",
                    ppm.abs(),
                    trace_text(row.ts, TimeUnit::Ns),
                    duration(row.dur, TimeUnit::Ns)
                ));
            }
            slew = Some(ppm);
        }
        lines
    }

    /// "set by −1 h at 2026-11-25 02:41:40.123 +0000 (trace time 12.5s, unknown for 100 ms)"
    fn step_line(&self, before: &WallClock, after: &WallClock, step_ns: i64) -> String {
        let sign = if step_ns < 0 { '−' } else { '+' };
        let step_abs_ns = i64::try_from(step_ns.unsigned_abs()).unwrap_or(i64::MAX);
        format!(
            "set by {sign}{} at {} (trace time {}; unknown for {})",
            step_text(step_abs_ns),
            self.style.zone.text(before.unix_end(), Digits::Millis),
            trace_text(before.end(), TimeUnit::Ns),
            duration(after.ts - before.end(), TimeUnit::Ns)
        )
    }
}

/// Whole hours and minutes as such: a clock is usually set by these.
fn step_text(ns: i64) -> String {
    const SECOND: i64 = 1_000_000_000;
    // A step is known to a few hundred ns only.
    let seconds = (ns + SECOND / 2_000) / SECOND;
    let is_whole = (ns - seconds * SECOND).abs() < SECOND / 1_000;
    match seconds {
        seconds if is_whole && seconds >= 3_600 && seconds % 3_600 == 0 => {
            format!("{} h", count((seconds / 3_600).unsigned_abs()))
        }
        seconds if is_whole && seconds >= 60 && seconds % 60 == 0 => {
            format!("{} min", seconds / 60)
        }
        seconds if is_whole && seconds > 0 => format!("{} s", count(seconds.unsigned_abs())),
        _ => duration(ns, TimeUnit::Ns),
    }
}

/// How much faster than trace time the wall clock ran, ppm; 0 where the row is too short to tell.
fn slew_ppm(row: &WallClock) -> i64 {
    let off = i128::from(row.unix_dur) - i128::from(row.dur);
    if row.dur <= 0 || off.abs() <= 2 * i128::from(row.error_ns) {
        return 0;
    }
    i64::try_from(off * 1_000_000 / i128::from(row.dur)).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whole_steps_are_whole() {
        for (ns, text) in [
            (3_600_000_000_000, "1 h"),
            (3_599_999_999_993, "1 h"),
            (120_000_000_001, "2 min"),
            (1_000_000_100, "1 s"),
            (90_000_000_000, "90 s"),
            (1_500_000_000, "1.50 s"),
            (250_000, "250 us"),
        ] {
            assert_eq!(step_text(ns).replace('µ', "u"), text);
        }
    }
}
