//! `/api/recording` and `/api/progress`: what is open, what is missing of it, how far it is.

use super::{Answered, columns_of, exact, failed, table_rows};
use crate::row::{Row, id, int, text};
use crate::state::{Building, State};
use arrow::array::AsArray;
use arrow::datatypes::Int64Type;
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::Duration;
use transect_http::{Answer, Response};
use transect_timeline::{Condition, Lookup, Wanted};

/// Losses and problems that are listed; the tables have all.
const LISTED: usize = 1000;
/// Pieces of the wall clock that are listed. More of them a slewed clock has only in days.
const WALL_LISTED: usize = 10_000;
/// How often a client that waits is told that the server is alive.
const SIGN_OF_LIFE: Duration = Duration::from_secs(10);

pub(crate) fn answer(state: &State) -> Answered {
    let building = state.building();
    let mut about = json!({
        "name": state.recording.name(),
        "unit": state.opened().map_or("ns", |opened| opened.unit),
        "from": "0",
        "to": "0",
        "origin": "0",
        "window": null,
        "wall": [],
        "filter": state.opened().and_then(|opened| opened.filter.clone()),
        "machines": [],
        "lost": [],
        "problems": building.error.iter().map(|error| problem(error)).collect::<Vec<_>>(),
        "tracks": 0,
        "keys": 0,
        "building": building,
    });
    if let Some(opened) = state.opened() {
        extend(&mut about["problems"], opened.notes.iter().map(|note| problem(note)));
    }
    if let Some(view) = state.view() {
        about["origin"] = json!(view.origin().to_string());
        about["from"] = json!(view.origin().to_string());
        about["to"] = json!(view.to().to_string());
        about["tracks"] = json!(view.tracks().len());
        about["keys"] = json!(view.keys().len());
        about["level_max"] = json!(view.level_max());
        let hidden = view.left_out().map(|(table, rows)| {
            problem(&format!("{rows} rows of {table} are not shown: too many of them overlap"))
        });
        extend(&mut about["problems"], hidden);
    }
    if let Some(lookup) = state.lookup() {
        add_tables(&lookup, &mut about)?;
    }
    Ok(Response::json(&about))
}

fn problem(message: &str) -> Value {
    json!({ "source": "", "message": message, "data_loss": false })
}

fn extend(to: &mut Value, with: impl Iterator<Item = Value>) {
    if let Some(list) = to.as_array_mut() {
        list.extend(with);
    }
}

fn add_tables(lookup: &Lookup, about: &mut Value) -> Result<(), Response> {
    let mut machines = table_rows(lookup, "machines", &Wanted::default())?;
    machines.sort_by_key(|row| id(row, "machine_id"));
    about["machines"] = machines.iter().take(LISTED).map(machine).collect();
    let problems = log_rows(lookup)?;
    extend(&mut about["problems"], problems.into_iter().map(Value::Object));
    let window = window(lookup)?;
    if let Some((from, to)) = window {
        about["window"] = json!({ "from": from.to_string(), "to": to.to_string() });
    }
    about["wall"] = wall_rows(lookup)?.iter().map(wall).collect();
    about["lost"] = lost_rows(lookup, window)?.iter().map(hole).collect();
    Ok(())
}

/// The first losses, and those that reach the window's end: the page opens on the range between
/// the losses at the window's start and those at its end.
fn lost_rows(lookup: &Lookup, window: Option<(i64, i64)>) -> Result<Vec<Row>, Response> {
    let first = Wanted { limit: LISTED, ..Wanted::default() };
    let mut rows = table_rows(lookup, "lost", &first)?;
    if let Some((_, to)) = window.filter(|_| rows.len() == LISTED) {
        let only = Condition::EndsAfter(to.saturating_sub(1));
        let last = Wanted { only, limit: LISTED, ..Wanted::default() };
        let mut more = table_rows(lookup, "lost", &last)?;
        more.retain(|row| !rows.contains(row));
        rows.extend(more);
    }
    Ok(rows)
}

/// The map from trace time to the wall clock, by time.
fn wall_rows(lookup: &Lookup) -> Result<Vec<Row>, Response> {
    let wanted = Wanted { limit: WALL_LISTED, ..Wanted::default() };
    let mut rows = table_rows(lookup, "wall_clock", &wanted)?;
    rows.sort_by_key(|row| int(row, "ts"));
    Ok(rows)
}

/// Problems of the import: first those that lost data.
fn log_rows(lookup: &Lookup) -> Result<Vec<Row>, Response> {
    let mut rows = Vec::new();
    for has_lost_data in [true, false] {
        let wanted = Wanted {
            columns: columns_of("import_log"),
            only: Condition::number("data_loss", has_lost_data),
            limit: LISTED - rows.len(),
            ..Wanted::default()
        };
        rows.extend(table_rows(lookup, "import_log", &wanted)?);
    }
    Ok(rows)
}

/// From the first window's start to the last one's end.
fn window(lookup: &Lookup) -> Result<Option<(i64, i64)>, Response> {
    let wanted = Wanted { columns: vec!["ts", "dur"], ..Wanted::default() };
    let mut window: Option<(i64, i64)> = None;
    for batch in lookup.open("windows", &wanted).map_err(|error| failed(&error))? {
        let batch = batch.map_err(|error| failed(&error))?;
        let column = |at: usize| batch.column(at).as_primitive_opt::<Int64Type>();
        let (Some(ts), Some(dur)) = (column(0), column(1)) else { continue };
        for (ts, dur) in ts.values().iter().zip(dur.values()) {
            let end = ts.saturating_add(*dur);
            let (from, to) = window.unwrap_or((*ts, end));
            window = Some((from.min(*ts), to.max(end)));
        }
    }
    Ok(window)
}

fn machine(row: &Row) -> Value {
    json!({
        "machine_id": id(row, "machine_id"),
        "name": text(row, "name"),
        "kind": text(row, "kind"),
        "parent_id": id(row, "parent_id"),
        "domid": id(row, "domid"),
        "vmm_pid": int(row, "vmm_pid"),
        "clock": row.get("clock"),
        "error_ns": row.get("error_bound_ns").cloned().map(exact),
    })
}

/// Numbers that a browser's doubles cannot hold are texts.
fn wall(row: &Row) -> Value {
    let time = |name| int(row, name).map(|ns| ns.to_string());
    json!({
        "ts": time("ts"),
        "dur": time("dur"),
        "unix_ns": time("unix_ns"),
        "unix_dur": time("unix_dur"),
        "error_ns": time("error_ns"),
        "step_ns": time("step_ns"),
    })
}

fn hole(row: &Row) -> Value {
    let time = |name| int(row, name).map(|ns| ns.to_string());
    json!({
        "ts": time("ts"),
        "dur": time("dur"),
        "machine_id": id(row, "machine_id"),
        "cpu": id(row, "cpu"),
        "count": row.get("count").cloned().map(exact),
        "cause": text(row, "cause"),
    })
}

/// Events, one each time it is further; the last says `ready` or `failed`.
pub(crate) fn progress(state: Arc<State>) -> Answer {
    let mut seen: Option<(u64, Building)> = None;
    Answer::Events(Box::new(move || {
        let is_over = |b: &Building| matches!(b.state, "ready" | "failed");
        if seen.as_ref().is_some_and(|(_, building)| is_over(building)) {
            return None;
        }
        let (version, building) = match &seen {
            None => state.wait(u64::MAX, SIGN_OF_LIFE),
            Some((version, _)) => state.wait(*version, SIGN_OF_LIFE),
        };
        let is_new = seen.as_ref().is_none_or(|(known, _)| *known != version);
        let told = is_new.then(|| serde_json::to_string(&building).unwrap_or_default());
        seen = Some((version, building));
        Some(told)
    }))
}
