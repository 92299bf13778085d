//! `/api/next`: the next interval that has one of some keys.

use super::{Answered, Time, body, view};
use crate::state::State;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::sync::Arc;
use transect_http::Response;
use transect_timeline::{Budget, Shown};

/// Tracks that may be asked for at once.
const MAX_TRACKS: usize = 1000;
/// Chunks that are read at most: about 20 million intervals, in a second or so.
const MAX_CHUNKS: u64 = 20_000;

#[derive(serde::Deserialize)]
struct Wish {
    from: Time,
    tracks: Vec<u32>,
    keys: BTreeSet<u32>,
}

pub(crate) fn answer(state: &Arc<State>, bytes: &[u8]) -> Answered {
    let wish: Wish = body(bytes)?;
    let view = view(state)?;
    if wish.tracks.len() > MAX_TRACKS || wish.keys.is_empty() {
        let message = format!("request at least one key and at most {MAX_TRACKS} tracks");
        return Err(Response::error(400, &message));
    }
    let mut budget = Budget::chunks(MAX_CHUNKS);
    let mut first: Option<(u32, Shown)> = None;
    for track in wish.tracks {
        // Only what is before the best of the others is of interest.
        let until = first.map_or(i64::MAX, |(_, found)| found.ts);
        let found = view.next_of(track, (wish.from.0, until), &wish.keys, &mut budget);
        if let Some(found) = found.map_err(|error| super::tiles::refused(state, &error))? {
            first = Some((track, found));
        }
    }
    let found = first.map_or(Value::Null, |(track, found)| {
        json!({
            "track": track,
            "ts": found.ts.to_string(),
            "dur": found.dur.to_string(),
            "key": found.key,
        })
    });
    Ok(Response::json(&json!({ "found": found, "complete": !budget.is_spent() })))
}
