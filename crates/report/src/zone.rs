//! Wall-clock time as text, with its offset to UTC.

use chrono::{DateTime, FixedOffset, Local, Offset as _, TimeZone as _, Utc};

/// The time zone of a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Zone {
    /// That of `TZ`, else of `/etc/localtime`.
    Local,
    /// UTC, for texts that must not depend on the machine.
    Utc,
}

/// Decimals of a second.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Digits {
    /// None.
    Seconds,
    /// Three.
    Millis,
}

impl Digits {
    fn format(self) -> &'static str {
        match self {
            Digits::Seconds => "%H:%M:%S",
            Digits::Millis => "%H:%M:%S%.3f",
        }
    }
}

impl Zone {
    fn at(self, unix_ns: i64) -> DateTime<FixedOffset> {
        let utc = Utc.timestamp_nanos(unix_ns);
        match self {
            Zone::Local => {
                let local = utc.with_timezone(&Local);
                local.with_timezone(&local.offset().fix())
            }
            Zone::Utc => utc.fixed_offset(),
        }
    }

    /// `2026-11-25 03:41:38.123 +0100`
    pub fn text(self, unix_ns: i64, digits: Digits) -> String {
        self.at(unix_ns).format(&format!("%Y-%m-%d {} %z", digits.format())).to_string()
    }

    /// `2026-11-25 03:41:38.123 to 03:41:43.123 +0100`, with what differs of date and offset.
    pub fn range_text(self, (from_ns, until_ns): (i64, i64), digits: Digits) -> String {
        let (from, until) = (self.at(from_ns), self.at(until_ns));
        let time = digits.format();
        let is_one_offset = from.offset() == until.offset();
        let first = if is_one_offset { "" } else { " %z" };
        let date = if from.date_naive() == until.date_naive() { "" } else { "%Y-%m-%d " };
        format!(
            "{} to {}",
            from.format(&format!("%Y-%m-%d {time}{first}")),
            until.format(&format!("{date}{time} %z"))
        )
    }
}

/// `2026-11-25T02:41:38.5Z`: text that the command line reads back to the nanosecond.
pub fn rfc3339(unix_ns: i64) -> String {
    let text = Utc.timestamp_nanos(unix_ns).format("%Y-%m-%dT%H:%M:%S%.9f").to_string();
    format!("{}Z", text.trim_end_matches('0').trim_end_matches('.'))
}

/// `2026-11-25 02:41:38.123` of UTC, for a column that is named so.
pub fn utc_text(unix_ns: i64) -> String {
    Utc.timestamp_nanos(unix_ns).format("%Y-%m-%d %H:%M:%S%.3f").to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn utc_texts_are_exact() {
        assert_eq!(rfc3339(1_795_574_498_500_000_000), "2026-11-25T02:41:38.5Z");
        assert_eq!(rfc3339(0), "1970-01-01T00:00:00Z");
        assert_eq!(rfc3339(1_795_574_498_000_000_001), "2026-11-25T02:41:38.000000001Z");
    }

    #[test]
    fn texts_have_their_zone() {
        let text = |unix_ns| Zone::Utc.text(unix_ns, Digits::Seconds);
        assert_eq!(text(0), "1970-01-01 00:00:00 +0000");
        assert_eq!(text(951_827_696_000_000_000), "2000-02-29 12:34:56 +0000");
        assert_eq!(text(1_795_238_056_000_000_001), "2026-11-21 05:14:16 +0000");
        assert_eq!(text(-1), "1969-12-31 23:59:59 +0000");
        let unix_ns = 1_795_574_498_123_000_000;
        let range = |dur| Zone::Utc.range_text((unix_ns, unix_ns + dur), Digits::Millis);
        assert_eq!(range(5_000_000_000), "2026-11-25 02:41:38.123 to 02:41:43.123 +0000");
        assert_eq!(
            range(86_400_000_000_000),
            "2026-11-25 02:41:38.123 to 2026-11-26 02:41:38.123 +0000"
        );
    }
}
