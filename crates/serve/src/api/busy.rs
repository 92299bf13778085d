//! `/api/busy`: which threads do anything in a range.

use super::{Answered, Time, body, view};
use crate::state::State;
use serde_json::json;
use std::sync::Arc;
use transect_http::Response;
use transect_timeline::{Kind, TimelineError};

/// Threads that are looked at; a recording with more says nothing of the others.
const MAX_THREADS: usize = 50_000;

#[derive(serde::Deserialize)]
struct Wish {
    from: Time,
    to: Time,
}

pub(crate) fn answer(state: &Arc<State>, bytes: &[u8]) -> Answered {
    let wish: Wish = body(bytes)?;
    let view = view(state)?;
    let threads = view.tracks().iter().filter(|track| track.actor.kind == Kind::Thread);
    let busy = threads.take(MAX_THREADS).map(|track| {
        let ns = view.busy_ns(track.track, wish.from.0, wish.to.0)?;
        Ok(json!({ "track": track.track, "busy_ns": ns }))
    });
    let busy =
        busy.filter(|busy| busy.as_ref().is_ok_and(|busy| busy["busy_ns"] != 0) || busy.is_err());
    let busy: Result<Vec<_>, TimelineError> = busy.collect();
    let busy = busy.map_err(|error| super::tiles::refused(state, &error))?;
    Ok(Response::json(&json!({ "tracks": busy })))
}
