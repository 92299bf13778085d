//! `/login`: a cookie for a token.

use super::Answered;
use crate::http::Response;
use crate::service::Service;
use crate::service::auth;
use crate::service::routes::Call;

#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct Login {
    token: String,
}

pub(crate) fn answer(service: &Service, call: &Call<'_>) -> Answered {
    let login: Login = serde_json::from_slice(&call.request.body)
        .map_err(|error| Response::refusal(400, &error.to_string(), "send {\"token\": \"…\"}"))?;
    let scope = service.auth().of_token(login.token.trim()).ok_or_else(auth::unknown)?;
    Ok(Response::empty(204).with("Set-Cookie", service.auth().set_cookie(scope)).into())
}
