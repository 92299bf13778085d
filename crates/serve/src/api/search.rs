//! `/api/search`: tracks and keys with a text in their name.

use super::{Answered, body, view};
use crate::state::State;
use serde_json::{Value, json};
use transect_http::Response;

/// Found at most, of each.
const MAX_FOUND: usize = 200;

#[derive(serde::Deserialize)]
struct Search {
    text: String,
}

pub(crate) fn answer(state: &State, bytes: &[u8]) -> Answered {
    let text = body::<Search>(bytes)?.text.to_lowercase();
    let view = view(state)?;
    let has = |part: &str| part.to_lowercase().contains(&text);
    let tracks = view.tracks().iter().filter(|track| track.intervals > 0).filter_map(|track| {
        let why = match () {
            () if has(&track.name) => "name",
            () if has(track.actor.kind.as_str()) => "kind",
            () if has(&track.table) => "table",
            () => return None,
        };
        Some(json!({ "track": track.track, "why": why }))
    });
    let keys = view.keys().iter().enumerate().filter(|(_, key)| has(&key.label));
    let keys = keys.map(|(number, _)| json!({ "key": number }));
    Ok(Response::json(&json!({
        "tracks": tracks.take(MAX_FOUND).collect::<Vec<Value>>(),
        "keys": keys.take(MAX_FOUND).collect::<Vec<Value>>(),
    })))
}
