//! `/api/v1/snapshots`: recordings of the last seconds.

use super::{Answered, internal};
use crate::service::descriptions::Snap;
use crate::service::route::Call;
use crate::service::shared::Service;
use crate::service::snapshots::{NoSnap, Wish, pack};
use serde_json::{Value, json};
use std::io::Write;
use transect_http::{Answer, Made, Response};

/// What may be asked for.
const SECONDS: std::ops::RangeInclusive<u64> = 1..=600;
const MAX_REASON: usize = 200;

#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct Asked {
    #[serde(default = "ten")]
    seconds: u64,
    #[serde(default)]
    reason: String,
}

fn ten() -> u64 {
    10
}

fn shown(snap: &Snap) -> Value {
    let mut shown = json!(snap);
    shown["tar"] = json!(format!("/api/v1/snapshots/{}.tar", snap.id));
    shown["view"] = json!(format!("/view/{}/", snap.id));
    shown
}

pub(crate) fn list(service: &Service, _: &Call<'_>) -> Answered {
    let list: Vec<Value> = service.snapshots.list().iter().map(shown).collect();
    Ok(Response::json(&json!({ "snapshots": list })).into())
}

pub(crate) fn take(service: &Service, call: &Call<'_>) -> Answered {
    let body = if call.request.body.is_empty() { b"{}" } else { &call.request.body[..] };
    let hint = "send {\"seconds\": 10, \"reason\": \"…\"}: 1 to 600 seconds, a reason of at most 200 characters";
    // Not a list of the values, which serde would take, too.
    let asked: Asked = serde_json::from_slice::<serde_json::Map<_, _>>(body)
        .and_then(|object| serde_json::from_value(Value::Object(object)))
        .map_err(|error| Response::refusal(400, &error.to_string(), hint))?;
    if !SECONDS.contains(&asked.seconds) || asked.reason.chars().count() > MAX_REASON {
        return Err(Response::refusal(
            400,
            "seconds is out of range, or the reason is too long",
            hint,
        ));
    }
    let reason = if asked.reason.is_empty() { "requested".to_owned() } else { asked.reason };
    let reason = reason.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    let wish = Wish { seconds: asked.seconds, reason, trigger: None };
    match service.snapshots.take(wish) {
        Ok(snap) => Ok(Response::json(&shown(&snap)).status(201).into()),
        Err(NoSnap::Busy) => {
            let busy = Response::refusal(503, "other snapshots are being taken", "retry later");
            Err(busy.with("Retry-After", "2"))
        }
        Err(NoSnap::Failed(why)) => Err(Response::refusal(
            409,
            &why,
            "GET /api/v1/status reports the state of the flight recorder",
        )),
    }
}

pub(crate) fn tar(service: &Service, call: &Call<'_>) -> Answered {
    let (Some(path), id) = (service.snapshots.path(call.id), call.id.to_owned()) else {
        return Err(unknown());
    };
    let name = format!("attachment; filename=\"{id}.transect.tar\"");
    let head = Response::new("application/x-tar", Vec::new()).with("Content-Disposition", name);
    let body = Box::new(move |to: &mut dyn Write| pack(&path, &id, to));
    Ok(Answer::Stream(Made { head, body, making: None }))
}

pub(crate) fn delete(service: &Service, call: &Call<'_>) -> Answered {
    if !service.snapshots.delete(call.id).map_err(|why| internal(&why))? {
        return Err(unknown());
    }
    service.views.forget(call.id);
    Ok(Response::empty(204).into())
}

fn unknown() -> Response {
    let hint = "GET /api/v1/snapshots lists them";
    Response::refusal(404, "no such snapshot", hint)
}
