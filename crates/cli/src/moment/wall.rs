//! Moments in wall-clock time: RFC 3339 with a zone, or a date and time, or a time of day, in the
//! local time zone.

use super::trace_text;
use anyhow::{bail, ensure};
use chrono::{
    DateTime, Days, Local, LocalResult, NaiveDate, NaiveDateTime, NaiveTime, TimeZone as _,
};
use transect_model::wall::WallMap;
use transect_recording::TimeUnit;
use transect_report::{Digits, Zone, rfc3339};

/// A wall-clock time as it was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WallMoment {
    /// With a zone: ns since 1970 (UTC).
    Utc(i64),
    /// A date and time of the local time zone.
    Local(NaiveDateTime),
    /// A time of day of the local time zone.
    TimeOfDay(NaiveTime),
}

/// Has the text the form of a wall-clock time? Every one has a colon or a date.
pub(super) fn is_wall_clock(text: &str) -> bool {
    let is_date = |text: &str| {
        let bytes = text.as_bytes();
        bytes.len() >= 10 && bytes[4] == b'-' && bytes[7] == b'-' && bytes[0].is_ascii_digit()
    };
    text.contains(':') || is_date(text)
}

impl WallMoment {
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        let wrong = || {
            format!(
                "'{text}' is not a wall-clock time such as 2026-11-25T02:41:38.5Z, \
                 2026-11-25T03:41:38+01:00, '2026-11-25 03:41:38' or 03:41:38"
            )
        };
        // chrono rounds what is more precise than it can store.
        let decimals = text
            .split_once('.')
            .map_or(0, |(_, rest)| rest.bytes().take_while(u8::is_ascii_digit).count());
        if decimals > 9 {
            return Err("more precise than a nanosecond".to_owned());
        }
        let text = text.replacen(' ', "T", 1);
        if let Ok(time) = DateTime::parse_from_rfc3339(&text) {
            let unix_ns = time.timestamp_nanos_opt();
            return unix_ns.map(WallMoment::Utc).ok_or_else(wrong);
        }
        // As the report prints it.
        if let Ok(time) = DateTime::parse_from_str(&text, "%Y-%m-%dT%H:%M:%S%.f %z") {
            return time.timestamp_nanos_opt().map(WallMoment::Utc).ok_or_else(wrong);
        }
        for format in ["%Y-%m-%dT%H:%M:%S%.f", "%Y-%m-%dT%H:%M"] {
            if let Ok(time) = NaiveDateTime::parse_from_str(&text, format) {
                return Ok(WallMoment::Local(time));
            }
        }
        for format in ["%H:%M:%S%.f", "%H:%M"] {
            if let Ok(time) = NaiveTime::parse_from_str(&text, format) {
                return Ok(WallMoment::TimeOfDay(time));
            }
        }
        Err(wrong())
    }

    /// The moment of trace time at which the host's wall clock showed this.
    pub(super) fn resolve(self, wall: &WallMap) -> anyhow::Result<i64> {
        ensure!(
            !wall.is_empty(),
            "the recording has no wall-clock time: give trace time, or +T from its start"
        );
        let candidates = self.candidates(wall)?;
        let mut moments: Vec<(i64, i64)> = Vec::new();
        for unix_ns in &candidates {
            moments.extend(wall.moments_of(*unix_ns).into_iter().map(|ts| (ts, *unix_ns)));
        }
        match moments.as_slice() {
            [(ts, _)] => Ok(*ts),
            [] => bail!("{}", not_covered(wall, self, &candidates)),
            several => {
                let each = several.iter().map(|(ts, unix_ns)| {
                    format!("{} ({})", trace_text(*ts, TimeUnit::Ns), rfc3339(*unix_ns))
                });
                bail!(
                    "the time {} exists {} times in the recording: give one of its trace times, {}",
                    self.text(),
                    several.len(),
                    each.collect::<Vec<_>>().join(", ")
                )
            }
        }
    }

    /// Every time in UTC that it can mean.
    fn candidates(self, wall: &WallMap) -> anyhow::Result<Vec<i64>> {
        let local = |time: NaiveDateTime| {
            let unix_ns = |time: DateTime<Local>| time.timestamp_nanos_opt();
            match Local.from_local_datetime(&time) {
                LocalResult::Single(time) => unix_ns(time).into_iter().collect(),
                LocalResult::Ambiguous(first, second) => {
                    [first, second].into_iter().filter_map(unix_ns).collect()
                }
                LocalResult::None => Vec::new(),
            }
        };
        match self {
            WallMoment::Utc(unix_ns) => Ok(vec![unix_ns]),
            WallMoment::Local(time) => {
                let found: Vec<i64> = local(time);
                ensure!(
                    !found.is_empty(),
                    "the local time {} does not exist: the time zone skips it",
                    self.text()
                );
                Ok(found)
            }
            WallMoment::TimeOfDay(time) => {
                Ok(days(wall).into_iter().flat_map(|day| local(day.and_time(time))).collect())
            }
        }
    }

    fn text(self) -> String {
        match self {
            WallMoment::Utc(unix_ns) => rfc3339(unix_ns),
            WallMoment::Local(time) => time.to_string(),
            WallMoment::TimeOfDay(time) => time.to_string(),
        }
    }
}

/// The local dates that the recording's wall clock showed.
fn days(wall: &WallMap) -> Vec<NaiveDate> {
    /// Of a recording that is longer (or whose clock was set by years), the rest needs a date.
    const MOST: usize = 400;
    let date = |unix_ns| chrono::Utc.timestamp_nanos(unix_ns).with_timezone(&Local).date_naive();
    let mut days = Vec::new();
    for row in wall.rows() {
        let (mut day, last) = (date(row.unix_ns), date(row.unix_end()));
        while day <= last && days.len() < MOST {
            days.push(day);
            match day.checked_add_days(Days::new(1)) {
                Some(next) => day = next,
                None => break,
            }
        }
    }
    days.sort_unstable();
    days.dedup();
    days
}

/// Why no moment has this time: the clock was set past it, or it is outside of the recording.
fn not_covered(wall: &WallMap, moment: WallMoment, candidates: &[i64]) -> String {
    let text = |unix_ns| Zone::Local.text(unix_ns, Digits::Millis);
    for pair in wall.rows().windows(2) {
        let [before, after] = pair else { continue };
        let skipped = before.unix_end()..=after.unix_ns;
        if candidates.iter().any(|unix_ns| skipped.contains(unix_ns)) {
            return format!(
                "the time {} is not in the recording: its wall clock was set from {} to {} at about {} of \
                 trace time",
                moment.text(),
                text(before.unix_end()),
                text(after.unix_ns),
                trace_text(before.end(), TimeUnit::Ns)
            );
        }
    }
    let first = wall.rows().iter().map(|row| row.unix_ns).min().unwrap_or(0);
    let last = wall.rows().iter().map(transect_model::table::WallClock::unix_end).max();
    format!(
        "the time {} is not in the recording, whose wall clock shows {} to {}",
        moment.text(),
        text(first),
        text(last.unwrap_or(0))
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use transect_model::table::WallClock;

    const S: i64 = 1_000_000_000;
    /// 2026-11-25 02:41:38 UTC.
    const UNIX: i64 = 1_795_574_498 * S;

    /// 10 s from trace time 100 s on; then the clock was set, and 10 s more.
    fn stepped(step: i64) -> WallMap {
        let row = |ts, unix_ns, step_ns| WallClock {
            ts,
            dur: 10 * S,
            unix_ns,
            unix_dur: 10 * S,
            error_ns: 50,
            step_ns,
        };
        WallMap::new(vec![
            row(100 * S, UNIX, None),
            row(110 * S + S / 10, UNIX + 10 * S + S / 10 + step, Some(step)),
        ])
    }

    fn at(text: &str, wall: &WallMap) -> Result<i64, String> {
        let moment = WallMoment::parse(text)?;
        moment.resolve(wall).map_err(|error| error.to_string())
    }

    #[test]
    fn zones_are_exact() {
        let wall = stepped(3_600 * S);
        let ts = Ok(101 * S + S / 2);
        assert_eq!(at("2026-11-25T02:41:39.5Z", &wall), ts);
        assert_eq!(at("2026-11-25 02:41:39.5Z", &wall), ts);
        assert_eq!(at("2026-11-25T03:41:39.500000000+01:00", &wall), ts);
        assert_eq!(at("2026-11-25 03:41:39.500 +0100", &wall), ts);
        assert_eq!(at("2026-11-24T21:41:39.5-05:00", &wall), ts);
    }

    #[test]
    fn other_texts_are_refused() {
        for text in [
            "12:",
            "2026-11-25",
            "25:00:00",
            "2026-13-25T02:41:38Z",
            "a:b",
            "1:2:3:4",
            "2026-11-25T02:41:38.0000000001Z",
            "2026-11-25T02:41:38+",
        ] {
            assert!(WallMoment::parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_time_that_exists_twice_names_both_moments() {
        let wall = stepped(-3 * S);
        // 02:41:46.5 is 8.5 s after the start, and again 1.4 s after the step.
        let error = at("2026-11-25T02:41:46.5Z", &wall).unwrap_err();
        assert!(error.contains("exists 2 times"), "{error}");
        assert!(error.contains("108.5s (2026") && error.contains("111.5s (2026"), "{error}");
        assert_eq!(at("2026-11-25T02:41:40Z", &wall), Ok(102 * S));
    }

    #[test]
    fn a_skipped_time_names_the_step() {
        let wall = stepped(3_600 * S);
        let error = at("2026-11-25T03:00:00Z", &wall).unwrap_err();
        assert!(error.contains("was set from"), "{error}");
        assert!(error.contains("at about 110s"), "{error}");
        let error = at("2026-11-25T02:41:37Z", &wall).unwrap_err();
        assert!(error.contains("whose wall clock shows"), "{error}");
    }

    #[test]
    fn without_readings_there_is_no_wall_clock() {
        let error = at("2026-11-25T02:41:38Z", &WallMap::default()).unwrap_err();
        assert!(error.contains("has no wall-clock time"), "{error}");
    }

    /// Whatever the zone of the machine that runs the tests: what it prints is read back.
    #[test]
    fn local_times_are_those_of_the_zone() {
        let wall = stepped(0);
        let local = |format: &str| {
            let time = chrono::Utc.timestamp_nanos(UNIX + 2 * S).with_timezone(&Local);
            time.format(format).to_string()
        };
        assert_eq!(at(&local("%Y-%m-%d %H:%M:%S"), &wall), Ok(102 * S));
        assert_eq!(at(&local("%Y-%m-%dT%H:%M:%S.000"), &wall), Ok(102 * S));
        assert_eq!(at(&local("%H:%M:%S"), &wall), Ok(102 * S));
        assert!(at(&local("%H:%M"), &wall).is_err());
    }
}
