//! The statistics that `transect view` gives of a range, of every kind of track there is, against
//! what the page draws of it, and against the rows of the tables, added up by SQL.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "tests report by failing"
)]

use crate::view_support::state_sums::{Held, Subject, Sums, name_of_key, sums_by_sql};
use crate::view_support::{Served, compact, made_up, pair, testdata};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fs;

fn int(value: &Value) -> i64 {
    let text = || value.as_str().and_then(|text| text.parse().ok());
    value.as_i64().or_else(text).unwrap_or_else(|| panic!("{value} is no number"))
}

/// An actor's lanes, and whose rows are its.
struct Lanes {
    kind: String,
    detail: String,
    subject: Subject,
    tracks: Vec<u64>,
}

fn actors(tracks: &[Value]) -> Vec<Lanes> {
    let mut actors: BTreeMap<(String, i64, String), Lanes> = BTreeMap::new();
    for track in tracks.iter().filter(|track| track["intervals"] != 0) {
        let text = |name: &str| track[name].as_str().unwrap().to_owned();
        let (kind, machine, detail) = (text("kind"), int(&track["machine_id"]), text("detail"));
        let number = ["tid", "vcpu", "cpu"].into_iter().find_map(|name| track[name].as_i64());
        let value = match (number, kind.as_str()) {
            (Some(number), _) => number.to_string(),
            (None, "domain" | "lost") => String::new(),
            (None, _) => text("name"),
        };
        let lanes = actors.entry((kind.clone(), machine, detail.clone())).or_insert_with(|| {
            let subject = (machine, value);
            Lanes { kind, detail, subject, tracks: Vec::new() }
        });
        lanes.tracks.push(track["track"].as_u64().unwrap());
    }
    actors.into_values().collect()
}

/// A recording that is served, and a range of it.
struct Place {
    name: String,
    served: Served,
    level: u8,
    range: (i64, i64),
}

impl Place {
    fn open(cache: &std::path::Path, recording: &str) -> Self {
        let served = Served::start(cache, &[recording]);
        served.ready();
        let about = served.json("/api/recording");
        let (from, to) = (int(&about["from"]), int(&about["to"]));
        let level = u8::try_from(int(&about["level_max"])).unwrap() - 9;
        Place { name: recording.to_owned(), served, level, range: (from, to) }
    }

    /// The same, of a range that begins and ends within intervals.
    fn within(self) -> Self {
        let (from, to) = self.range;
        let third = (to - from) / 3;
        Place { range: (from + third, to - third / 2), ..self }
    }

    /// All intervals of some tracks that reach into the range, cut to it; none if there are too
    /// many for the page to get them as they are.
    fn drawn(&self, lanes: &[u64]) -> Option<Vec<(Value, i64)>> {
        let (from, to) = self.range;
        let (exact, sums) = self.served.tiles(self.level, 0, 1, lanes);
        let within = |row: Value| {
            let (ts, end) = (int(&row["ts"]), int(&row["ts"]) + int(&row["dur"]));
            let reaches = ts < to && (end > from || (end == ts && ts >= from));
            reaches.then(|| (row, end.min(to) - ts.max(from)))
        };
        sums.is_empty().then(|| exact.into_iter().filter_map(within).collect())
    }

    fn stats(&self, tracks: &[u64]) -> Vec<Value> {
        let (from, to) = self.range;
        let wish = json!({ "from": from.to_string(), "to": to.to_string(), "tracks": tracks });
        let body = self.served.post("/api/stats", &wish);
        let answer: Value = serde_json::from_slice(&body).unwrap();
        answer["tracks"].as_array().unwrap().clone()
    }
}

fn by_stats(stats: &Value) -> Sums {
    let mut sums = Sums::new();
    for state in stats["states"].as_array().unwrap() {
        let sum = sums.entry(state["key"].to_string()).or_default();
        sum.0 += int(&state["ns"]);
        sum.1 += int(&state["count"]);
    }
    sums
}

fn by_tiles(drawn: &[(Value, i64)]) -> Sums {
    let mut sums = Sums::new();
    for (row, ns) in drawn {
        let sum = sums.entry(row["key"].to_string()).or_default();
        sum.0 += ns;
        sum.1 += 1;
    }
    sums
}

fn check_numbers(stats: &Value, drawn: &[(Value, i64)], detail: &str) {
    let known: Vec<(f64, i64)> = drawn
        .iter()
        .filter(|(_, ns)| *ns > 0)
        .map(|(row, ns)| (row["value"].as_f64().unwrap(), *ns))
        .collect();
    let numbers = &stats["numbers"];
    if known.is_empty() {
        assert!(numbers.is_null(), "{detail}: {numbers}");
        return;
    }
    // The tiles keep hundredths of a per cent, and whole events a second, rounded down.
    let off = if detail.contains('%') { 0.01 } else { f64::from(detail.contains("/s")) };
    let near = |name: &str, value: f64| {
        let said = numbers[name].as_f64().unwrap();
        assert!(
            said - value <= off + 1e-6 && value - said <= 1e-6,
            "{detail} {name}: {said} {value}"
        );
    };
    let ns: i64 = known.iter().map(|(_, ns)| ns).sum();
    assert_eq!(int(&numbers["ns"]), ns, "{detail}");
    #[expect(clippy::cast_precision_loss, reason = "compared with a tolerance")]
    let mean = known.iter().map(|(value, own)| value * *own as f64).sum::<f64>() / ns as f64;
    near("mean", mean);
    near("min", known.iter().map(|(value, _)| *value).fold(f64::INFINITY, f64::min));
    near("max", known.iter().map(|(value, _)| *value).fold(f64::NEG_INFINITY, f64::max));
}

/// The sums of a track's statistics by what the keys are known by in the tables.
fn by_names(stats: &Value, names: &HashMap<String, String>) -> Held {
    let mut held = Held::default();
    for state in stats["states"].as_array().unwrap() {
        let sum = held.sums.entry(names[&state["key"].to_string()].clone()).or_default();
        sum.0 += int(&state["ns"]);
        sum.1 += int(&state["count"]);
        held.events += state["events"].as_i64().unwrap_or(0);
    }
    held
}

/// Compares all tracks of a recording; of how many of each kind there was anything to compare.
fn compare(place: &Place) -> BTreeMap<String, usize> {
    let mut compared: BTreeMap<String, usize> = BTreeMap::new();
    let actors = actors(&place.served.tracks());
    let firsts: Vec<u64> = actors.iter().map(|lanes| lanes.tracks[0]).collect();
    let stats: Vec<Value> = firsts.chunks(500).flat_map(|some| place.stats(some)).collect();
    let keys = place.served.keys();
    let names = keys.iter().map(|key| (key["key"].to_string(), name_of_key(key))).collect();
    let mut by_sql: BTreeMap<&str, Option<HashMap<Subject, Held>>> = BTreeMap::new();
    for (lanes, stats) in actors.iter().zip(&stats) {
        let kind = lanes.kind.as_str();
        let detail = format!("{}: {kind} {}", place.name, lanes.detail);
        let drawn = place.drawn(&lanes.tracks);
        if kind == "counter" {
            drawn.iter().for_each(|drawn| check_numbers(stats, drawn, &detail));
        } else {
            drawn.iter().for_each(|drawn| assert_eq!(by_stats(stats), by_tiles(drawn), "{detail}"));
            let of_kind = by_sql.entry(kind);
            let of_kind = of_kind.or_insert_with(|| sums_by_sql(&place.served, kind, place.range));
            let held = of_kind.as_mut().and_then(|kind| kind.remove(&lanes.subject));
            assert_eq!(by_names(stats, &names), held.unwrap_or_default(), "{detail}");
        }
        let is_empty = drawn.is_none_or(|drawn| drawn.is_empty());
        *compared.entry(kind.to_owned()).or_default() += usize::from(!is_empty);
    }
    for (kind, rest) in by_sql {
        let rest = rest.unwrap_or_default();
        assert!(rest.is_empty(), "{}: {kind} without a track: {rest:?}", place.name);
    }
    compared
}

#[test]
fn statistics_of_every_kind_are_what_is_drawn() {
    let dir = tempfile::tempdir().unwrap();
    let recorded = fs::read(testdata("compact/recorded.compact")).unwrap();
    let every = fs::read(testdata("compact/every-kind.compact")).unwrap();
    let recordings = [
        pair(dir.path()),
        made_up(dir.path(), 20_000),
        compact(dir.path(), "whole.transect", &recorded),
        compact(dir.path(), "every.transect", &every),
        testdata("tracedat/lost-slow.dat"),
        testdata("xentrace/live/cap.bin"),
    ];
    let mut kinds: BTreeMap<String, usize> = BTreeMap::new();
    let mut add = |compared: BTreeMap<String, usize>| {
        for (kind, count) in compared {
            *kinds.entry(kind).or_default() += count;
        }
    };
    for recording in recordings {
        let whole = Place::open(dir.path(), &recording);
        add(compare(&whole));
        add(compare(&whole.within()));
    }
    let seen: BTreeSet<&str> =
        kinds.iter().filter(|(_, count)| **count > 0).map(|(kind, _)| kind.as_str()).collect();
    let wanted = [
        "block",
        "counter",
        "cpu",
        "cpu_guest",
        "domain",
        "exits",
        "irq",
        "lost",
        "net",
        "syscall",
        "thread",
        "ticks",
        "vcpu",
        "work",
    ];
    for kind in wanted {
        assert!(seen.contains(kind), "no {kind} was compared: {kinds:?}");
    }
}
