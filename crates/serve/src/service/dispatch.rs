//! From a request to its answer: the rights first, then the route.

use super::api::page;
use super::auth::Auth;
use super::route::{Call, check_params};
use super::routes;
use super::shared::Service;
use std::sync::atomic::Ordering::Relaxed;
use transect_ask::Client;
use transect_http::{Answer, Caller, Handler, Made, Request, Response};

impl Service {
    fn route(&self, request: &Request, caller: &Caller, auth: &Auth) -> Result<Answer, Response> {
        let shown = auth.shown(request)?;
        let access = auth.access(self.brake.scope_of(&caller.peer, auth, shown)?);
        let (route, id) = match routes::find(request.method, &request.path) {
            Ok(found) => found,
            Err(true) => {
                let hint = "GET /openapi.json describes the API";
                return Err(Response::refusal(405, "method not allowed for this path", hint));
            }
            Err(false) => return page::answer(self, request, access, caller),
        };
        if access.scope < route.scope {
            return Err(self.refuse_scope(route.scope, access));
        }
        check_params(route, request)?;
        (route.handler)(self, &Call { request, route, caller, scope: access.scope, id })
    }
}

impl Handler for Service {
    fn answer(&self, request: &Request, caller: &Caller) -> Answer {
        self.storm.add(self.counts.open.load(Relaxed));
        let auth = self.auth();
        let answer = self.route(request, caller, &auth).unwrap_or_else(Answer::Whole);
        // A browser does not show a cookie again that is not valid any more.
        let answer = match auth.has_stale_cookie(request) && !answer.sets_cookie() {
            true => answer.with("Set-Cookie", auth.clear_cookie()),
            false => answer,
        };
        let status = match &answer {
            Answer::Whole(head) | Answer::Stream(Made { head, .. }) => head.status,
            Answer::Events(_) => 200,
        };
        let class = usize::from(status / 100).saturating_sub(2);
        if let Some(count) = self.answers.get(class) {
            count.fetch_add(1, Relaxed);
        }
        if status == 429 {
            self.refused_questions.fetch_add(1, Relaxed);
        }
        answer
    }

    fn gone(&self, caller: &Caller) {
        self.views.end_client(&Client::connection(&caller.peer.to_string(), caller.address));
        self.storm.end_one();
    }
}
