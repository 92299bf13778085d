//! Wall-clock time as text: in the local time zone (`TZ`, else /etc/localtime), with its offset to UTC.

use chrono::{DateTime, Local, TimeZone as _, Utc};

fn utc(unix_ns: i64) -> DateTime<Utc> {
    Utc.timestamp_nanos(unix_ns)
}

/// `2026-11-25 03:41:38.123 +0100`
pub(crate) fn local_text(unix_ns: i64) -> String {
    utc(unix_ns).with_timezone(&Local).format("%Y-%m-%d %H:%M:%S%.3f %z").to_string()
}

/// `2026-11-25T02:41:38.123456789Z`: text that [`super::parse`] reads back to the nanosecond.
pub(crate) fn rfc3339(unix_ns: i64) -> String {
    let text = utc(unix_ns).format("%Y-%m-%dT%H:%M:%S%.9f").to_string();
    format!("{}Z", text.trim_end_matches('0').trim_end_matches('.'))
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
}
