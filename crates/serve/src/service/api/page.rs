//! What a browser opens: the dashboard, and the timelines of snapshots.

use crate::app::{self, Admission, Ask};
use crate::guard;
use crate::page;
use crate::service::auth::{Access, Scope};
use crate::service::descriptions::is_id;
use crate::service::fairness::Turn;
use crate::service::shared::Service;
use std::sync::Arc;
use std::time::Duration;
use transect_ask::Client;
use transect_http::{Answer, Caller, Exhausted, Method, Peer, Request, Response, Share};

/// The dashboard among the page's files.
const DASHBOARD: &str = "/dashboard.html";
/// Rows of an answer with tiles at most: 8 MiB.
const TILE_ROWS: usize = 200_000;
/// An answer of so many bytes is not charged.
const SMALL_BYTES: usize = 16 << 10;
/// Time that a lookup waits for a place.
const LOOKUP_PATIENCE: Duration = Duration::from_millis(500);

/// Anything that is no route of the API.
pub(crate) fn answer(
    service: &Service,
    request: &Request,
    access: Access,
    caller: &Caller,
) -> Result<Answer, Response> {
    if let Some(rest) = request.path.strip_prefix("/view/") {
        return view(service, request, rest, access, caller);
    }
    if request.method != Method::Get {
        return Err(Response::refusal(405, "pages are read-only", "use GET"));
    }
    if request.path == "/" {
        if let Some(token) = request.param("token") {
            let auth = service.auth();
            let scope = service.brake.scope_of_token(&caller.peer, &auth, &token)?;
            let there = Response::empty(302).with("Location", "/");
            return Ok(there.with("Set-Cookie", auth.set_cookie(scope)).into());
        }
        return Ok(dashboard().into());
    }
    // The files are part of the program and the same for everybody.
    if page::has(&request.path) {
        return Ok(page::answer(&request.path).into());
    }
    Err(Response::refusal(404, "no such page", "GET /openapi.json describes the API"))
}

fn dashboard() -> Response {
    if page::has(DASHBOARD) {
        return page::answer(DASHBOARD);
    }
    let text = "transect serve: this program was built without the dashboard (run make build).\n\
                The API is described at /openapi.json, metrics are at /metrics.\n";
    Response::new("text/plain; charset=utf-8", text.as_bytes())
}

/// `ID/…`: the timeline's page and what it asks, of one snapshot.
fn view(
    service: &Service,
    request: &Request,
    rest: &str,
    access: Access,
    caller: &Caller,
) -> Result<Answer, Response> {
    let (id, path) = match rest.split_once('/') {
        Some((id, path)) => (id, Some(format!("/{path}"))),
        None => (rest, None),
    };
    if access.scope < Scope::Read {
        return match login_path(request, id, path.as_deref()) {
            Some(login) => Ok(Response::empty(302).with("Location", login).into()),
            None => Err(service.refuse_scope(Scope::Read, access)),
        };
    }
    let Some(recording) = service.snapshots.path(id) else {
        let hint = "GET /api/v1/snapshots lists them";
        return Err(Response::refusal(404, "no such snapshot", hint));
    };
    let Some(path) = path else {
        return Ok(Response::empty(302).with("Location", format!("/view/{id}/")).into());
    };
    let name = request.cookie(CLIENT).filter(|name| is_name(name));
    let is_page = path == "/";
    let request = request.below(path);
    // Before the timeline is opened: an unknown path must not open it.
    let Some(ask) = Ask::find(&request)? else {
        let page = app::answer_page(&request);
        return Ok(match guard::token() {
            Ok(new) if is_page && name.is_none() => {
                page.with("Set-Cookie", service.auth().client_cookie(CLIENT, &new)).into()
            }
            _ => page.into(),
        });
    };
    let peer = caller.peer;
    let mut of_client = OfClient { service, caller, name, opening: None };
    let view = match service.views.find(id, peer) {
        Some(view) => view,
        None => {
            // Reading tables and tiles again and again is work, too.
            let turn = Arc::new(of_client.admit()?);
            of_client.opening = Some(Arc::clone(&turn));
            service.views.open(id, &recording, peer, turn)
        }
    };
    match view.answer(ask, &request, &caller.stream, of_client) {
        Answer::Whole(answer) => charge_answer(service, peer, answer).map(Answer::Whole),
        answer => Ok(answer),
    }
}

/// Keeps an answer's share of the memory that answers may take, until it is sent or in the spool.
fn charge_answer(service: &Service, peer: Peer, answer: Response) -> Result<Response, Response> {
    let bytes = answer.owned_bytes();
    // Connections are limited: so are small answers.
    if bytes <= SMALL_BYTES {
        return Ok(answer);
    }
    match service.unsent_bytes.take(peer, bytes, Duration::ZERO) {
        Ok(share) => Ok(answer.keep_until_sent(share).spooled(service.spool(peer))),
        Err(exhausted) => {
            let hint = "read the pending answers, then retry";
            Err(refuse_for_now(exhausted, peer, "bytes of unread answers", hint))
        }
    }
}

/// The refusal of a request for which there is room again after a while.
pub(super) fn refuse_for_now(exhausted: Exhausted, peer: Peer, of: &str, hint: &str) -> Response {
    let (status, what) = match exhausted {
        Exhausted::Client => (429, format!("too many {of}: {peer} has reached its limit")),
        Exhausted::All => (503, format!("too many {of}: the limit of all clients is reached")),
    };
    Response::refusal(status, &what, hint).with("Retry-After", "1")
}

/// The dashboard's address that asks for a token and then leads to a timeline: for a browser that opens one, not for
/// programs. Without the dashboard there is none.
fn login_path(request: &Request, id: &str, path: Option<&str>) -> Option<String> {
    let accepts_pages = request.header("accept").unwrap_or_default().contains("text/html");
    let is_page = request.method == Method::Get && matches!(path, None | Some("/"));
    let can_ask = accepts_pages && is_page && is_id(id) && page::has(DASHBOARD);
    can_ask.then(|| format!("/?next=/view/{id}/"))
}

/// The limits of the client of one request.
struct OfClient<'a> {
    service: &'a Service,
    caller: &'a Caller,
    /// Of the cookie.
    name: Option<&'a str>,
    /// The turn by which the request has opened the timeline.
    opening: Option<Arc<Turn>>,
}

impl OfClient<'_> {
    fn admit(&self) -> Result<Turn, Response> {
        let peer = &self.caller.peer;
        self.service.fairness.admit(peer).map_err(|refused| refused.into_response(peer))
    }
}

/// The turn of a question.
enum Asked {
    Alone(Turn),
    /// It has also opened the timeline, which counts although the question is refused.
    #[expect(dead_code, reason = "only its end matters")]
    Opening(Arc<Turn>),
}

impl Admission for OfClient<'_> {
    type Turn = Asked;
    type Place = Share;
    const TILE_ROWS: usize = TILE_ROWS;

    fn admit_question(&mut self) -> Result<(Client, Asked), Response> {
        let turn = match self.opening.take() {
            Some(turn) => Asked::Opening(turn),
            None => Asked::Alone(self.admit()?),
        };
        let owner = self.caller.peer.to_string();
        let client = match self.name {
            Some(name) => Client::named(&owner, name),
            None => Client::connection(&owner, self.caller.address),
        };
        Ok((client, turn))
    }

    fn give_back(turn: Asked) {
        if let Asked::Alone(turn) = turn {
            turn.give_back();
        }
    }

    fn admit_lookup(&mut self) -> Result<Share, Response> {
        let peer = self.caller.peer;
        let place = self.service.lookups.take(peer, 1, LOOKUP_PATIENCE);
        let hint = "retry when one of them is answered";
        place.map_err(|full| refuse_for_now(full, peer, "requests at once", hint))
    }
}

/// The cookie by which several connections are one browser's, so that the engine has one child for all of them. It names
/// a client of the connection's owner, so that another user's cookie leads to no child of that user. Without one, each
/// connection is a client.
const CLIENT: &str = "transect-client";

/// True for a name as this server makes them.
fn is_name(name: &str) -> bool {
    name.len() == 32 && name.bytes().all(|byte| byte.is_ascii_hexdigit())
}
