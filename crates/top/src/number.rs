//! Numbers in few columns.

/// A share of a CPU in per cent: `0`, `0.0` (less than 0.05), `4.2`, `99.9`, `400.0`, `12345`.
pub(crate) fn share(value: f64) -> String {
    if value == 0.0 {
        "0".to_owned()
    } else if value.abs() < 9_999.95 {
        format!("{value:.1}")
    } else {
        format!("{value:.0}")
    }
}

/// A count or rate: `0`, `0.4`, `12`, `999`, `1.2k`, `34k`, `1.5M`.
pub(crate) fn rate(value: f64) -> String {
    let scales = [(1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")];
    if value != 0.0 && value.abs() < 9.95 && value.fract() != 0.0 {
        return format!("{value:.1}");
    }
    // What would be rounded to 1000 of a unit is one of the next.
    match scales.iter().find(|(scale, _)| value.abs() >= scale * 0.9995) {
        Some((scale, unit)) if value.abs() < scale * 9.95 => {
            format!("{:.1}{unit}", value / scale)
        }
        Some((scale, unit)) => format!("{:.0}{unit}", value / scale),
        None => format!("{value:.0}"),
    }
}

/// A length of time: `0`, `640ns`, `1.2us`, `34ms`, `1.5s`, `120s`.
pub(crate) fn time(ns: u64, micro: &str) -> String {
    let value = ns as f64;
    let scales = [(1e9, "s"), (1e6, "ms"), (1e3, micro)];
    match scales.iter().find(|(scale, _)| value >= scale * 0.9995) {
        Some((scale, unit)) if value < scale * 9.95 => format!("{:.1}{unit}", value / scale),
        Some((scale, unit)) => format!("{:.0}{unit}", value / scale),
        None if ns == 0 => "0".to_owned(),
        None => format!("{ns}ns"),
    }
}

/// How long windows are: `200ms`, `1s`, `10s`, `2m`.
pub(crate) fn window(ns: i64) -> String {
    let seconds = ns as f64 / 1e9;
    let exact = |unit: i64| ns % unit == 0;
    if ns >= 120_000_000_000 && exact(60_000_000_000) {
        format!("{:.0}m", seconds / 60.0)
    } else if exact(1_000_000_000) {
        format!("{seconds:.0}s")
    } else if ns > 10_000_000_000 {
        format!("{seconds:.1}s")
    } else {
        format!("{:.0}ms", seconds * 1e3)
    }
}

/// Time of day, UTC: `15:04:05`.
pub(crate) fn clock(unix_ns: u64) -> String {
    let seconds = unix_ns / 1_000_000_000 % 86_400;
    format!("{:02}:{:02}:{:02}", seconds / 3600, seconds / 60 % 60, seconds % 60)
}

/// How long ago: `6s`, `2m10s`, `1h05m`.
pub(crate) fn ago(ns: u64) -> String {
    // Windows end when they are read: some ms more or less.
    let seconds = (ns + 500_000_000) / 1_000_000_000;
    match seconds {
        0..60 if ns > 0 && ns < 950_000_000 => format!("{}ms", ns / 1_000_000),
        0..60 => format!("{seconds}s"),
        60..3600 => format!("{}m{:02}s", seconds / 60, seconds % 60),
        _ => format!("{}h{:02}m", seconds / 3600, seconds / 60 % 60),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_short_and_never_round_up_to_a_thousand() {
        let shares = [0.0, 0.01, 4.25, 99.96, 400.0, 123_456.0].map(share);
        assert_eq!(shares, ["0", "0.0", "4.2", "100.0", "400.0", "123456"]);
        let rates = [0.0, 0.44, 3.0, 12.4, 999.4, 999.9, 1234.0, 99_960.0, 1.5e6, 2e13].map(rate);
        assert_eq!(rates, ["0", "0.4", "3", "12", "999", "1.0k", "1.2k", "100k", "1.5M", "20T"]);
        let times = [0, 640, 999_600, 12_345, 34_000_000, 1_500_000_000, 120_000_000_000];
        let times = times.map(|ns| time(ns, "us"));
        assert_eq!(times, ["0", "640ns", "1.0ms", "12us", "34ms", "1.5s", "120s"]);
    }

    #[test]
    fn windows_and_hours() {
        let windows =
            [50_000_000, 1_000_000_000, 60_000_000_000, 600_000_000_000, 2_500_000_000].map(window);
        assert_eq!(windows, ["50ms", "1s", "60s", "10m", "2500ms"]);
        assert_eq!(clock(86_399_000_000_000), "23:59:59");
        assert_eq!(
            [0, 5_000_000, 130 * 1_000_000_000, 3_900_000_000_000].map(ago),
            ["0s", "5ms", "2m10s", "1h05m"]
        );
    }
}
