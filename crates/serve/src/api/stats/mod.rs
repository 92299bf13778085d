//! `/api/stats`: what a range holds: of states by the tiles' intervals, of numbers, VMs and exits by
//! SQL over the tables.

mod ask;
mod numbers;
mod states;

use super::{Answered, Time, body, view};
use crate::sql::Asker;
use crate::state::State;
use ask::{Ask, Lanes};
use numbers::Numbers;
use serde_json::{Value, json};
use states::StateSum;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use transect_http::Response;
use transect_timeline::{Actor, Kind};

/// Tracks that may be asked for at once.
const MAX_TRACKS: usize = 1000;

#[derive(serde::Deserialize)]
struct Wish {
    from: Time,
    to: Time,
    tracks: Option<Vec<u32>>,
}

pub(crate) fn answer(state: &Arc<State>, bytes: &[u8], asker: &Asker<'_>) -> Answered {
    let wish: Wish = body(bytes)?;
    let (from, to) = (wish.from.0, wish.to.0);
    let tracks = wish.tracks.unwrap_or_default();
    if from >= to {
        return Err(Response::error(400, "the range is empty"));
    }
    if tracks.len() > MAX_TRACKS {
        let message = format!("{} tracks requested: the limit is {MAX_TRACKS}", tracks.len());
        return Err(Response::error(400, &message));
    }
    let view = view(state)?;
    let lanes = Lanes::new(&view);
    let missing = asker.missing();
    let has_sql = missing.is_none();
    let ask = Ask { state, view: &view, lanes, asker, has_sql, range: (from, to) };
    let mut answer = json!({
        "from": from.to_string(),
        "to": to.to_string(),
        "tracks": ask.tracks(&tracks)?,
        "vms": ask.vms()?,
        "exits": ask.exits()?,
    });
    if let Some(missing) = missing {
        answer["missing"] = json!(missing);
    }
    Ok(Response::json(&answer))
}

/// What a track holds of the range.
#[derive(Default)]
struct OfTrack {
    states: Vec<StateSum>,
    numbers: Option<Numbers>,
}

impl Ask<'_> {
    /// Lanes of one actor have one answer, which the first of those that were asked for gets.
    fn tracks(&self, numbers: &[u32]) -> Result<Vec<Value>, Response> {
        let mut answered: HashSet<&Actor> = HashSet::new();
        let mut found: HashMap<u32, OfTrack> = HashMap::new();
        for number in numbers {
            let unknown = || Response::error(400, &format!("unknown track {number}"));
            let track = self.view.track(*number).ok_or_else(unknown)?;
            let of_track = found.entry(*number).or_default();
            if track.actor.kind == Kind::Counter {
                of_track.numbers = self.numbers(track)?;
            } else if answered.insert(&track.actor) {
                of_track.states = self.states(track)?;
            }
        }
        let of_track = |number: &u32| found.remove(number).unwrap_or_default().json(*number);
        Ok(numbers.iter().map(of_track).collect())
    }

    /// What each VM got, in the words of the domain metrics.
    fn vms(&self) -> Result<Vec<Value>, Response> {
        let (ns, within) = self.clipped("dur");
        let sum = |name: &str, states: &str| {
            format!("coalesce(sum(CASE WHEN state IN ({states}) THEN {ns} END), 0) AS {name}")
        };
        let gotten = "'guest', 'exit', 'user', 'halt_poll', 'running', 'hypercall', 'trap'";
        let sums = [
            sum("gotten_ns", gotten),
            sum("waited_ns", "'preempted', 'waking'"),
            sum("blocked_ns", "'halted', 'blocked'"),
            sum("offline_ns", "'offline'"),
            sum("unknown_ns", "'unknown'"),
            sum("guest_ns", "'guest'"),
        ];
        let (from, to) = self.range;
        let sql = format!(
            "SELECT s.*, m.name, coalesce(e.executions, 0) AS executions FROM \
             (SELECT machine_id, {} FROM vcpu_states WHERE {within} GROUP BY machine_id) AS s \
             JOIN machines AS m ON m.machine_id = s.machine_id LEFT JOIN \
             (SELECT vcpu_machine_id, count(*) AS executions FROM cpu_slices \
              WHERE vcpu IS NOT NULL AND ts >= {from} AND ts < {to} GROUP BY vcpu_machine_id) AS e \
             ON e.vcpu_machine_id = s.machine_id ORDER BY s.machine_id",
            sums.join(", ")
        );
        Ok(self.rows(&sql)?.into_iter().map(Value::Object).collect())
    }

    /// Exits that began in the range, by VM and reason.
    fn exits(&self) -> Result<Vec<Value>, Response> {
        let (from, to) = self.range;
        let sql = format!(
            "SELECT machine_id, reason, count, total_ns, q[1] AS p50_ns, q[2] AS p90_ns, \
             q[3] AS p99_ns, max_ns FROM (SELECT machine_id, reason, count(*) AS count, \
             sum(dur) AS total_ns, quantiles(dur, [0.5, 0.9, 0.99]) AS q, max(dur) AS max_ns \
             FROM exits WHERE ts >= {from} AND ts < {to} GROUP BY machine_id, reason) \
             ORDER BY total_ns DESC NULLS LAST, machine_id, reason"
        );
        Ok(self.rows(&sql)?.into_iter().map(Value::Object).collect())
    }
}

impl OfTrack {
    fn json(mut self, track: u32) -> Value {
        self.states.sort_by(|a, b| (b.ns, b.count, &a.label).cmp(&(a.ns, a.count, &b.label)));
        let states: Vec<Value> = self.states.iter().map(StateSum::json).collect();
        let mut json = json!({ "track": track, "states": states });
        if let Some(numbers) = self.numbers {
            json["numbers"] = numbers.json();
        }
        json
    }
}
