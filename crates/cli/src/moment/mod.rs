//! Moments on the command line: `+1.25s` from the start, trace time, and wall-clock time.
//!
//! A moment is parsed before the recording is opened; [`Moment::resolve`] finds it in one. Both ends
//! of a range mean the same in every verb, and all ranges are half-open.

mod number;
pub(crate) mod wall;

use anyhow::{Context as _, ensure};
use transect_model::time::Span;
use transect_model::wall::WallMap;
use transect_recording::TimeUnit;
pub(crate) use transect_report::trace_text;
use wall::WallMoment;

/// A moment as it was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Moment {
    /// A number of trace time, in the recording's own unit.
    Plain(i64),
    /// Trace time with a unit of time, ns.
    TraceNs(i64),
    /// After the start of the recording's window, in its own unit.
    PlainFromStart(i64),
    /// After the start of the recording's window, ns.
    NsFromStart(i64),
    /// Time of the host's wall clock.
    Wall(WallMoment),
}

/// What a recording must provide to find moments in it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Timebase<'a> {
    pub(crate) unit: TimeUnit,
    pub(crate) window: Span,
    pub(crate) wall: &'a WallMap,
}

impl Moment {
    /// Must the recording's wall clock be read to find it?
    pub(crate) fn is_wall(self) -> bool {
        matches!(self, Moment::Wall(_))
    }

    /// The moment as a `ts` value of the tables.
    ///
    /// # Errors
    /// Time units in a recording in ticks of unknown length; a wall-clock time that the recording does
    /// not contain, or contains twice.
    pub(crate) fn resolve(self, base: Timebase<'_>) -> anyhow::Result<i64> {
        let is_in_time = !matches!(self, Moment::Plain(_) | Moment::PlainFromStart(_));
        ensure!(
            base.unit == TimeUnit::Ns || !is_in_time,
            "the recording's time is in ticks of unknown length: give bare numbers, or the \
             frequency with --tsc-hz"
        );
        match self {
            Moment::Plain(ts) | Moment::TraceNs(ts) => Ok(ts),
            Moment::PlainFromStart(after) | Moment::NsFromStart(after) => {
                let ts = base.window.start.get().checked_add(after);
                ts.context("a time after the start is too large for a 64-bit time in ns")
            }
            Moment::Wall(wall) => wall.resolve(base.wall),
        }
    }
}

/// Parses a moment. A bare number is a `ts` value of the tables: nanoseconds, or ticks.
pub(crate) fn parse(text: &str) -> Result<Moment, String> {
    let text = text.trim();
    if wall::is_wall_clock(text) {
        return Ok(Moment::Wall(WallMoment::parse(text)?));
    }
    let (from_start, text) = match text.strip_prefix('+') {
        Some(rest) => (true, rest),
        None => (false, text),
    };
    let number = number::parse(text)?;
    Ok(match (from_start, number.is_in_seconds) {
        (false, false) => Moment::Plain(number.value),
        (false, true) => Moment::TraceNs(number.value),
        (true, _) if number.value < 0 => return Err("'+' and '-' exclude each other".to_owned()),
        (true, false) => Moment::PlainFromStart(number.value),
        (true, true) => Moment::NsFromStart(number.value),
    })
}

/// The range of a recording's time that a verb is limited to.
#[derive(clap::Args, Clone, Copy, Debug, Default)]
pub(crate) struct RangeArgs {
    /// Start of the range: +1.25s from the recording's start, trace time (1.25s, or a ts value of the
    /// tables), or wall-clock time (2026-11-25T02:41:38.5Z, '2026-11-25 02:41:38' or 02:41:38 in local
    /// time) [default: the beginning]
    #[arg(long, value_name = "MOMENT", value_parser = parse, allow_hyphen_values = true)]
    pub(crate) from: Option<Moment>,
    /// End of the range, exclusive, in the same forms [default: the end]
    #[arg(long, value_name = "MOMENT", value_parser = parse, allow_hyphen_values = true)]
    pub(crate) until: Option<Moment>,
}

impl RangeArgs {
    /// Is the verb limited to a range?
    pub(crate) fn is_given(&self) -> bool {
        self.from.is_some() || self.until.is_some()
    }

    /// Is an end of it in wall-clock time?
    pub(crate) fn is_wall(&self) -> bool {
        self.from.into_iter().chain(self.until).any(Moment::is_wall)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use transect_model::time::Timestamp;

    fn at(text: &str, unit: TimeUnit) -> anyhow::Result<i64> {
        let window = Span { start: Timestamp::new(5_000), end: Timestamp::new(9_000) };
        let wall = WallMap::default();
        parse(text).unwrap().resolve(Timebase { unit, window, wall: &wall })
    }

    #[test]
    fn moments_count_from_zero_or_from_the_start() {
        assert_eq!(at("1.25s", TimeUnit::Ns).unwrap(), 1_250_000_000);
        assert_eq!(at("-3us", TimeUnit::Ns).unwrap(), -3_000);
        assert_eq!(at("+3us", TimeUnit::Ns).unwrap(), 8_000);
        assert_eq!(at("+17", TimeUnit::Ns).unwrap(), 5_017);
        assert!(parse("+-3us").is_err());
        assert!(parse("++3us").is_err());
    }

    #[test]
    fn ticks_have_no_seconds() {
        assert!(at("1s", TimeUnit::Ticks).is_err());
        assert!(at("+1s", TimeUnit::Ticks).is_err());
        assert!(at("2026-11-25T02:41:38Z", TimeUnit::Ticks).is_err());
        assert_eq!(at("17", TimeUnit::Ticks).unwrap(), 17);
        assert_eq!(at("+17", TimeUnit::Ticks).unwrap(), 5_017);
    }

    #[test]
    fn printed_trace_times_are_read_back() {
        for ts in [0, 1, -1, 1_250_000_000, -3_000, 9_223_372_036_854_775_807, 60_000_000_000] {
            assert_eq!(at(&trace_text(ts, TimeUnit::Ns), TimeUnit::Ns).unwrap(), ts);
        }
        assert_eq!(trace_text(60_000_000_000, TimeUnit::Ns), "60s");
    }
}
