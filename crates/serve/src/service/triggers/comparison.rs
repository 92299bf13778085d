//! A comparison of one column of a row: `waited_ns > 20%`.

use crate::service::config::values::duration;
use transect_live::{ActorWindow, Snapshot, WindowDetail};
use transect_model::cell::{Cell, Record};
use transect_model::column::{Column, ColumnType};
use transect_model::table::Window;

/// What a column's numbers are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// Part of the row's time.
    Share,
    /// How long a single wait or slice took.
    Length,
    /// Events: compared per second.
    Rate,
    /// How many there are.
    Level,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Than {
    More,
    MoreOrEqual,
    Less,
    LessOrEqual,
}

/// A column, a comparison, a number.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Comparison {
    text: String,
    column: &'static str,
    kind: Kind,
    than: Than,
    /// A share of 1; ns; per second; or as it is.
    limit: f64,
}

impl Than {
    const SIGNS: [(&str, Than); 4] = [
        (">=", Than::MoreOrEqual),
        ("<=", Than::LessOrEqual),
        (">", Than::More),
        ("<", Than::Less),
    ];

    /// What stands before the sign, the sign, and what stands behind it.
    pub(super) fn split(text: &str) -> Option<(&str, Than, &str)> {
        Than::SIGNS.iter().find_map(|(sign, than)| {
            text.split_once(sign).map(|(name, limit)| (name.trim(), *than, limit.trim()))
        })
    }

    pub(super) fn holds(self, value: f64, limit: f64) -> bool {
        match self {
            Than::More => value > limit,
            Than::MoreOrEqual => value >= limit,
            Than::Less => value < limit,
            Than::LessOrEqual => value <= limit,
        }
    }
}

fn columns() -> impl Iterator<Item = &'static Column> {
    let keys = ["ts", "dur", "machine_id", "vcpu", "cpu", "cgroup"];
    let all = Window::TABLE.columns.iter().chain(WindowDetail::DOC);
    all.filter(move |c| {
        !keys.contains(&c.name) && matches!(c.ty, ColumnType::I64 | ColumnType::U64)
    })
}

fn kind(column: &str) -> Kind {
    match column {
        "threads" => Kind::Level,
        c if c.starts_with("wait_") || c.starts_with("allocated_") => Kind::Length,
        c if c.ends_with("_ns") => Kind::Share,
        _ => Kind::Rate,
    }
}

impl Comparison {
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        let Some((name, than, limit)) = Than::split(text) else {
            let what = "a comparison, as \"waited_ns > 20%\", or a finding, as \"starved\"";
            return Err(format!("{text:?}; it must be {what}"));
        };
        let Some(column) = columns().find(|column| column.name == name) else {
            let names: Vec<_> = columns().map(|column| column.name).collect();
            return Err(format!("unknown column {name:?}; the columns are {}", names.join(", ")));
        };
        let kind = kind(column.name);
        let wanted = match kind {
            Kind::Share => "a share of the time (20%) or a length per second (200ms)",
            Kind::Length => "a length (5ms)",
            Kind::Rate => "a number per second (5000)",
            Kind::Level => "a number (10)",
        };
        let limit = number(kind, limit)
            .ok_or_else(|| format!("{limit:?}; {name} must be compared with {wanted}"))?;
        Ok(Comparison { text: text.to_owned(), column: column.name, kind, than, limit })
    }

    pub(super) fn column(&self) -> &'static str {
        self.column
    }

    pub(crate) fn text(&self) -> &str {
        &self.text
    }

    /// Does it hold for a row? Then what the row has, in words. Never where the column cannot be had.
    pub(super) fn holds(&self, window: &Snapshot, row: &ActorWindow) -> Option<String> {
        if window.lacks(self.column, row.window.machine_id) || row.window.dur <= 0 {
            return None;
        }
        let mut found = None;
        let mut look = |name: &'static str, cell: Cell<'_>| {
            if name == self.column && found.is_none() {
                found = as_f64(&cell);
            }
        };
        row.window.each_cell(&mut look);
        row.detail.each_cell(&mut look);
        #[expect(clippy::cast_precision_loss, reason = "compared to some digits")]
        let dur_ns = row.window.dur as f64;
        let value = match self.kind {
            Kind::Share => found? / dur_ns,
            Kind::Rate => found? * 1e9 / dur_ns,
            Kind::Length | Kind::Level => found?,
        };
        let holds = self.than.holds(value, self.limit);
        let said = match self.kind {
            Kind::Share => format!("{:.1}% of the time", value * 100.0),
            Kind::Length => format!("{:.3} ms", value / 1e6),
            Kind::Rate => format!("{value:.0} per second"),
            Kind::Level => format!("{value}"),
        };
        holds.then(|| format!("{} is {said}", self.column))
    }
}

fn as_f64(cell: &Cell<'_>) -> Option<f64> {
    #[expect(clippy::cast_precision_loss, reason = "compared to some digits")]
    match cell {
        Cell::I64(v) => Some(*v as f64),
        Cell::U64(v) => Some(*v as f64),
        Cell::F64(v) => Some(*v),
        _ => None,
    }
}

fn number(kind: Kind, text: &str) -> Option<f64> {
    let plain = |text: &str| {
        let number: f64 = text.trim().parse().ok()?;
        (number.is_finite() && number >= 0.0).then_some(number)
    };
    match (kind, text.strip_suffix('%')) {
        (Kind::Share, Some(percent)) => plain(percent).map(|percent| percent / 100.0),
        (Kind::Share, None) => duration(text).map(|length| length.as_secs_f64()),
        #[expect(clippy::cast_precision_loss, reason = "compared to some digits")]
        (Kind::Length, None) => duration(text).map(|length| length.as_nanos() as f64),
        (Kind::Rate | Kind::Level, None) => plain(text),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests report by failing")]
    use super::*;
    use transect_history::synthetic::Made;

    #[test]
    fn columns_are_compared_with_what_their_numbers_are() {
        let window = Made::new(1, 0).next_window();
        let row = &window.actors[0];
        for holds in [
            "waited_ns >= 0.1%",
            "waited_ns >= 1ms",
            "waited_ns < 1%",
            "exits > 6.5",
            "exits <= 7",
            "wait_p99_ns > 300us",
            "wait_max_ns < 1ms",
            "threads >= 1",
            "gotten_ns>=10%",
            "poll_ns > 0%",
        ] {
            assert!(Comparison::parse(holds).unwrap().holds(&window, row).is_some(), "{holds}");
        }
        for not in ["waited_ns > 0.1%", "exits > 7", "wait_p99_ns > 1s", "threads > 1"] {
            assert!(Comparison::parse(not).unwrap().holds(&window, row).is_none(), "{not}");
        }
        for bad in [
            "",
            "waited_ns",
            "waited_ns > ",
            "waited_ns > 5",
            "waited_ns > -1%",
            "exits > 5%",
            "exits > 1s",
            "wait_p99_ns > 5%",
            "cgroup > 1",
            "ts > 1s",
            "nothing > 1",
            "exits > NaN",
            "exits > inf",
        ] {
            assert!(Comparison::parse(bad).is_err(), "{bad}");
        }
    }
}
