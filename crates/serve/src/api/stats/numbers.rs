//! Smallest, mean and largest of the numbers of a range.

use super::ask::Ask;
use crate::row::int;
use serde_json::{Value, json};
use transect_http::Response;
use transect_timeline::{Actor, Track};

/// What a number was like while it was known.
pub(super) struct Numbers {
    min: f64,
    mean: f64,
    max: f64,
    /// How long of the range it was known.
    ns: i64,
}

impl Numbers {
    pub(super) fn json(&self) -> Value {
        json!({ "min": self.min, "mean": self.mean, "max": self.max, "ns": self.ns })
    }
}

/// What the windows' tracks show of a row, by the tracks' names.
fn measure(name: &str) -> Option<&'static str> {
    match name {
        "gotten %" => Some("100 * CAST(gotten_ns AS DOUBLE) / dur"),
        "waited %" => Some("100 * CAST(waited_ns AS DOUBLE) / dur"),
        "exits/s" => Some("1e9 * exits / dur"),
        "I/O/s" => Some("1e9 * io_count / dur"),
        _ => None,
    }
}

/// The condition that a row is of the actor, its number's name aside.
fn subject(actor: &Actor) -> String {
    let one = |column: &str, number: Option<u32>| match number {
        Some(number) => format!("{column} = {number}"),
        None => format!("{column} IS NULL"),
    };
    let (cpu, vcpu) = (one("cpu", actor.cpu), one("vcpu", actor.vcpu));
    format!("machine_id = {} AND {cpu} AND {vcpu}", actor.machine)
}

impl Ask<'_> {
    /// By a question of its own for each track: what a number is, its name says.
    pub(super) fn numbers(&self, track: &Track) -> Result<Option<Numbers>, Response> {
        let (from, to) = self.range;
        let values = match measure(&track.actor.what).filter(|_| track.table == "windows") {
            Some(value) => format!(
                "SELECT ts, ts + dur AS until, {value} AS value FROM windows \
                 WHERE {} AND dur > 0 AND coalesce(cgroup, '') = ''",
                subject(&track.actor)
            ),
            None => self.held(track),
        };
        let sql = format!(
            "SELECT min(value) AS min, max(value) AS max, sum(ns) AS ns, \
             sum(value * ns) / sum(ns) AS mean FROM (SELECT CAST(value AS DOUBLE) AS value, \
             least(until, {to}) - greatest(ts, {from}) AS ns FROM ({values}) \
             WHERE ts < {to} AND until > greatest(ts, {from}) AND value IS NOT NULL)"
        );
        let found = self.rows(&sql)?;
        Ok(found.first().and_then(|row| {
            let number = |name: &str| row.get(name).and_then(Value::as_f64);
            let (min, mean, max) = (number("min")?, number("mean")?, number("max")?);
            Some(Numbers { min, mean, max, ns: int(row, "ns")? })
        }))
    }

    /// A counter's values, each until the next; the last holds until the recording's end.
    fn held(&self, track: &Track) -> String {
        let end = self.view.to();
        format!(
            "SELECT ts, coalesce(lead(ts) OVER (ORDER BY ts), {end}) AS until, value \
             FROM counters WHERE {} AND CASE WHEN coalesce(device, '') = '' THEN name ELSE concat(name, ' ', device) END \
             = {}",
            subject(&track.actor),
            literal(&track.actor.what)
        )
    }
}

/// Text as an SQL literal.
fn literal(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}
