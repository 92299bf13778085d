//! Time and number of each key of a track, for tracks that have keys.

use super::ask::Ask;
use crate::api::failed;
use crate::api::tiles::refused;
use crate::row::{rows_of, text};
use serde_json::{Value, json};
use std::collections::{BTreeMap, HashMap};
use transect_http::Response;
use transect_timeline::{Actor, Condition, Key, KeySum, Kind, Lookup, Track, Wanted};

/// One key's part of the range.
pub(super) struct StateSum {
    key: u32,
    state: String,
    pub(super) label: String,
    pub(super) ns: i64,
    pub(super) count: u64,
    /// Of losses: how many events, as far as they were counted.
    events: Option<u64>,
}

impl StateSum {
    fn new(number: u32, key: &Key, sum: KeySum) -> Self {
        let (state, label) = (key.state.clone(), key.label.clone());
        StateSum { key: number, state, label, ns: sum.ns, count: sum.count, events: None }
    }

    pub(super) fn json(&self) -> Value {
        let mut json = json!({
            "key": self.key,
            "state": self.state,
            "label": self.label,
            "ns": self.ns,
            "count": self.count,
        });
        if let Some(events) = self.events {
            json["events"] = json!(events);
        }
        json
    }
}

impl Ask<'_> {
    /// Adds up the intervals of all lanes of a track's actor.
    pub(super) fn states(&self, track: &Track) -> Result<Vec<StateSum>, Response> {
        let mut sums: BTreeMap<u32, KeySum> = BTreeMap::new();
        let is_wanted = || self.asker.is_wanted();
        for lane in self.lanes.0.get(&track.actor).into_iter().flatten() {
            let added = self.view.add_key_sums(*lane, self.range, &is_wanted, &mut sums);
            added.map_err(|error| refused(self.state, &error))?;
        }
        let events = match track.actor.kind {
            Kind::Lost => self.lost_events(&track.actor)?,
            _ => HashMap::new(),
        };
        let mut states = Vec::new();
        for (number, sum) in sums {
            let Some(key) = self.view.keys().get(number as usize) else { continue };
            let mut state = StateSum::new(number, key, sum);
            state.events = events.get(key.reason.as_deref().unwrap_or_default()).copied();
            states.push(state);
        }
        Ok(states)
    }

    /// Of each cause, how many events were lost in an actor's holes, as far as they were counted.
    fn lost_events(&self, actor: &Actor) -> Result<HashMap<String, u64>, Response> {
        let (from, to) = self.range;
        let cpu = match actor.cpu {
            Some(cpu) => Condition::number("cpu", cpu),
            None => Condition::Null("cpu"),
        };
        let is_instant_within = Condition::All(vec![
            Condition::Between("ts", from..i64::MAX),
            Condition::number("dur", 0),
        ]);
        let wanted = Wanted {
            columns: vec!["cause", "count"],
            ts: Some(i64::MIN..to),
            only: Condition::All(vec![
                Condition::number("machine_id", actor.machine),
                cpu,
                Condition::Known("count"),
                Condition::Any(vec![Condition::EndsAfter(from), is_instant_within]),
            ]),
            ..Wanted::default()
        };
        let mut events: HashMap<String, u64> = HashMap::new();
        let lookup = Lookup::new(&self.asker.tables);
        for batch in lookup.open("lost", &wanted).map_err(|error| failed(&error))? {
            for row in rows_of(&[batch.map_err(|error| failed(&error))?])? {
                let count = row.get("count").and_then(Value::as_u64).unwrap_or(0);
                let cause = text(&row, "cause").to_owned();
                let sum = events.entry(cause).or_default();
                *sum = sum.saturating_add(count);
            }
        }
        Ok(events)
    }
}
