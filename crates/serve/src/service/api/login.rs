//! `/login`: a cookie for a token.

use super::Answered;
use crate::service::route::Call;
use crate::service::shared::Service;
use transect_http::Response;

#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct Login {
    token: String,
}

pub(crate) fn answer(service: &Service, call: &Call<'_>) -> Answered {
    let login: Login = serde_json::from_slice(&call.request.body)
        .map_err(|error| Response::refusal(400, &error.to_string(), "send {\"token\": \"…\"}"))?;
    let auth = service.auth();
    let scope = service.brake.scope_of_token(&call.caller.peer, &auth, login.token.trim())?;
    Ok(Response::empty(204).with("Set-Cookie", auth.set_cookie(scope)).into())
}
