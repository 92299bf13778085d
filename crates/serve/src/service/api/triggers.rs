//! `/api/v1/triggers`: what is configured, and what came of it.

use super::Answered;
use crate::service::config::values::duration_text;
use crate::service::route::Call;
use crate::service::shared::Service;
use crate::service::triggers::Watch;
use serde_json::{Value, json};
use transect_http::Response;

pub(crate) fn answer(service: &Service, _: &Call<'_>) -> Answered {
    let list: Vec<Value> = service.watches().iter().map(shown).collect();
    Ok(Response::json(&json!({ "triggers": list })).into())
}

fn shown(watch: &Watch) -> Value {
    let trigger = &watch.trigger;
    json!({
        "name": trigger.name,
        "of": trigger.of.word(),
        "match": trigger.matches,
        "when": trigger.when.text(),
        "for": duration_text(trigger.lasting),
        "cooldown": duration_text(trigger.cooldown),
        "seconds": trigger.seconds,
        "holding": watch.holding,
        "fired": watch.fired,
        "fired_unix_ns": watch.fired_unix_ns,
        "last": watch.last,
        "cannot": watch.cannot,
    })
}
