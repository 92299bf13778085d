//! `/api/tracks`, `/api/keys`, `/api/tiles`: what is drawn.

use super::{Answered, body, failed, view};
use crate::state::State;
use std::sync::Arc;
use transect_http::Response;
use transect_timeline::{TilesRequest, TimelineError, stream};

/// Before there are tables there are no tracks, which is no error: more come.
fn empty() -> Response {
    Response::arrow(Vec::new()).with("X-Tiles-Missing", "building")
}

pub(crate) fn tracks(state: &State) -> Answered {
    let Ok(view) = view(state) else { return nothing(state) };
    let batch = view.tracks_batch().and_then(|batch| stream(&batch));
    batch.map(Response::arrow).map_err(|error| failed(&error))
}

pub(crate) fn keys(state: &State) -> Answered {
    let Ok(view) = view(state) else { return nothing(state) };
    let batch = view.keys_batch().and_then(|batch| stream(&batch));
    batch.map(Response::arrow).map_err(|error| failed(&error))
}

/// No tracks yet, or never.
fn nothing(state: &State) -> Answered {
    match state.building().error {
        Some(error) => Err(Response::error(503, &error)),
        None => Ok(empty()),
    }
}

/// Tiles, in an answer of `max_rows` rows at most.
pub(crate) fn tiles(state: &Arc<State>, bytes: &[u8], max_rows: usize) -> Answered {
    let mut request: TilesRequest = body(bytes)?;
    let is_ready = state.is_ready();
    let Ok(view) = view(state) else { return nothing(state) };
    if !is_ready {
        // Tracks that are known from before tiles were made again, and will be there again.
        request.tracks.retain(|track| view.track(*track).is_some());
    }
    match view.tiles(&request, max_rows) {
        Ok(frames) if is_ready => Ok(Response::new("application/octet-stream", frames)),
        Ok(frames) => {
            Ok(Response::new("application/octet-stream", frames)
                .with("X-Tiles-Missing", "building"))
        }
        Err(error) => Err(refused(state, &error)),
    }
}

/// Why there is no answer from the tiles. Those that were cut or damaged behind our back are made
/// again: what they were made from is still there.
pub(super) fn refused(state: &Arc<State>, error: &TimelineError) -> Response {
    if !error.is_damage() {
        return failed(error);
    }
    state.build(true, ());
    let message = format!("{error}: the tiles are being rebuilt");
    Response::error(503, &message).with("X-Tiles-Missing", "building")
}
