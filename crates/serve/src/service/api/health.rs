//! `/healthz` and `/readyz`.

use super::Answered;
use crate::service::route::Call;
use crate::service::shared::Service;
use serde_json::json;
use std::time::Duration;
use transect_http::Response;

pub(crate) fn lives(_: &Service, _: &Call<'_>) -> Answered {
    Ok(Response::json(&json!({ "status": "lives" })).into())
}

pub(crate) fn is_ready(service: &Service, _: &Call<'_>) -> Answered {
    let not = |what: &str| Response::refusal(503, what, "retry later").with("Retry-After", "1");
    if let Some(why) = service.hub.ended() {
        return Err(not(&format!("windows have stopped: {why}")));
    }
    let newest = service.hub.newest().ok_or_else(|| not("no window yet"))?;
    let patience = Duration::from_nanos(service.hub.window_ns.saturating_mul(3));
    if newest.age() > patience.max(Duration::from_secs(3)) {
        return Err(not("the newest window is stale"));
    }
    Ok(Response::json(&json!({ "status": "ready" })).into())
}
