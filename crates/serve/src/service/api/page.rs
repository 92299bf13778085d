//! What a browser opens: the dashboard, and the timelines of snapshots.

use crate::guard;
use crate::http::{Answer, Method, Request, Response};
use crate::page;
use crate::service::Service;
use crate::service::auth::{self, Scope};
use crate::service::fairness::Turn;
use std::io;
use std::net::TcpStream;
use transect_ask::Client;

/// The dashboard among the page's files.
const DASHBOARD: &str = "/dashboard.html";

/// Anything that is no route of the API.
pub(crate) fn answer(
    service: &Service,
    request: &Request,
    scope: Scope,
    client: &TcpStream,
) -> Result<Answer, Response> {
    if let Some(rest) = request.path.strip_prefix("/view/") {
        return view(service, request, rest, scope, client);
    }
    if request.method != Method::Get {
        return Err(Response::refusal(405, "pages are only read", "GET"));
    }
    if request.path == "/" {
        if let Some(token) = request.param("token") {
            let scope = service.auth().of_token(&token).ok_or_else(auth::unknown)?;
            let there = Response::empty(302).with("Location", "/");
            return Ok(there.with("Set-Cookie", service.auth().set_cookie(scope)).into());
        }
        return Ok(dashboard().into());
    }
    // The files are part of the program and the same for everybody.
    if page::has(&request.path) {
        return Ok(page::answer(&request.path).into());
    }
    Err(Response::refusal(404, "there is no such page", "GET /openapi.json describes the API"))
}

fn dashboard() -> Response {
    if page::has(DASHBOARD) {
        return page::answer(DASHBOARD);
    }
    let text = "transect serve: this program was built without the dashboard (make build).\n\
                The API is described at /openapi.json, metrics are at /metrics.\n";
    Response::new("text/plain; charset=utf-8", text.as_bytes())
}

/// `ID/…`: the timeline's page and what it asks, of one snapshot.
fn view(
    service: &Service,
    request: &Request,
    rest: &str,
    scope: Scope,
    client: &TcpStream,
) -> Result<Answer, Response> {
    let (id, path) = match rest.split_once('/') {
        Some((id, path)) => (id, Some(format!("/{path}"))),
        None => (rest, None),
    };
    if scope < Scope::Read {
        return Err(service.refuse_scope(Scope::Read));
    }
    let Some(recording) = service.snapshots.path(id) else {
        let hint = "GET /api/v1/snapshots lists them";
        return Err(Response::refusal(404, "there is no such snapshot", hint));
    };
    let Some(path) = path else {
        return Ok(Response::empty(302).with("Location", format!("/view/{id}/")).into());
    };
    let known = request.cookie(CLIENT).filter(|name| is_name(name));
    let admit = || admit_question(service, known, client);
    let is_page = path == "/";
    // Reading tables and tiles again and again is work, too.
    let (view, admitted) = match service.views.find(id) {
        Some(view) => (view, None),
        None => {
            let admitted = admit()?;
            (service.views.open(id, &recording), Some(admitted))
        }
    };
    let admit = || admitted.map_or_else(admit, Ok);
    let answer = view.answer(&request.below(path), client, admit);
    Ok(match (answer, guard::token()) {
        (Answer::Whole(page), Ok(name)) if is_page && known.is_none() => {
            page.with("Set-Cookie", service.auth().client_cookie(CLIENT, &name)).into()
        }
        (answer, _) => answer,
    })
}

/// Admits a question of this connection, and returns the client that it is asked for. `name` is of the cookie.
fn admit_question(
    service: &Service,
    name: Option<&str>,
    connection: &TcpStream,
) -> Result<(Client, Turn), Response> {
    // Nothing of it arrives.
    let failed = |_: io::Error| Response::error(400, "the client has closed the connection");
    let peer = service.peers.identify(connection).map_err(failed)?;
    let turn = service.fairness.admit(&peer).map_err(|refused| refused.into_response(&peer))?;
    let owner = peer.to_string();
    let client = match name {
        Some(name) => Client::named(&owner, name),
        None => Client::connection(&owner, connection.peer_addr().map_err(failed)?),
    };
    Ok((client, turn))
}

/// The cookie by which several connections are one browser's, so that the engine has one child for all of them. It names
/// a client of the connection's owner, so that another user's cookie leads to no child of that user. Without one, each
/// connection is a client.
const CLIENT: &str = "transect-client";

/// True for a name as this server makes them.
fn is_name(name: &str) -> bool {
    name.len() == 32 && name.bytes().all(|byte| byte.is_ascii_hexdigit())
}
