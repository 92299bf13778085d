//! `/api/v1/status`: what runs here.

use super::Answered;
use crate::service::auth::Scope;
use crate::service::route::Call;
use crate::service::shared::Service;
use serde_json::{Value, json};
use transect_http::Response;
use transect_live::TABLES;

pub(crate) fn answer(service: &Service, call: &Call<'_>) -> Answered {
    let newest = service.hub.newest();
    // As the windows have them.
    let of = |table: &str| {
        let place = TABLES.iter().position(|known| *known == table)?;
        serde_json::from_slice::<Value>(&newest.as_ref()?.json(place)).ok()
    };
    let snapshots = service.snapshots.numbers();
    // Errors name files, and lines of the configuration.
    let shows_paths = call.scope >= Scope::Read;
    let status = json!({
        "version": env!("CARGO_PKG_VERSION"),
        "host": service.host_name,
        "run": service.hub.run,
        "window_ns": service.hub.window_ns,
        "newest": newest.as_ref().map(|taken| json!({
            "ts": taken.snapshot().ts,
            "ended_unix_ns": taken.snapshot().ended_unix_ns,
        })),
        "ended": service.hub.ended(),
        "history": history(service, shows_paths),
        "missing": of("missing").unwrap_or_else(|| json!([])),
        "health": of("health").unwrap_or_else(|| json!({})),
        "configuration": shows_paths.then(|| service.settings().json()),
        "scopes": call.scope.words(),
        "snapshots": {
            "state": if service.snapshots.cannot.is_some() { "off" } else { "ready" },
            "why": service.snapshots.cannot.as_ref().filter(|_| shows_paths),
            "reach_back_to_unix_ns": service.snapshots.held_since_unix_ns(),
            "kept": snapshots.kept,
            "bytes": snapshots.bytes,
        },
    });
    Ok(Response::json(&status).into())
}

fn history(service: &Service, shows_paths: bool) -> Value {
    let numbers = service.index.as_ref().map(|index| index.numbers()).unwrap_or_default();
    let in_memory = service.hub.oldest_unix_ns();
    let newest = service.hub.newest().map(|taken| taken.snapshot().ended_unix_ns);
    // What has not been written yet is answered from memory.
    let oldest = [numbers.oldest_unix_ns, in_memory].into_iter().flatten().min();
    let newest = [numbers.newest_unix_ns, newest].into_iter().flatten().max();
    json!({
        "state": numbers.state.word(),
        "why": numbers.state.why().filter(|_| shows_paths),
        "oldest_unix_ns": oldest,
        "newest_unix_ns": newest,
        "bytes": numbers.bytes,
        "bytes_limit": numbers.bytes_limit,
        "files": numbers.files,
        "windows_written": numbers.written,
        "windows_lost": numbers.lost,
        "windows_gone": numbers.gone,
    })
}
