//! One route, and a request to it.
//!
//! A handler can read the parameters that its route declares and no others: what is described is what is there.

use super::auth::Scope;
use super::shared::Service;
use transect_http::{Answer, Caller, Method, Request, Response};

/// A value of a query.
#[derive(Debug)]
pub(crate) struct Param {
    pub(crate) name: &'static str,
    pub(crate) doc: &'static str,
    pub(crate) example: &'static str,
}

/// One kind of request.
pub(crate) struct Route {
    pub(crate) method: Method,
    /// `{id}` stands for a snapshot's name.
    pub(crate) path: &'static str,
    pub(crate) scope: Scope,
    pub(crate) doc: &'static str,
    pub(crate) params: &'static [Param],
    /// An example of the body, if it has one.
    pub(crate) body: Option<&'static str>,
    /// What it may answer, besides 400, 401, 403, 429 and 503.
    pub(crate) answers: &'static [(u16, &'static str, &'static str)],
    pub(crate) handler: fn(&Service, &Call<'_>) -> Result<Answer, Response>,
}

/// A request on its way to a handler.
pub(crate) struct Call<'r> {
    pub(crate) request: &'r Request,
    pub(crate) route: &'r Route,
    pub(crate) caller: &'r Caller,
    pub(crate) scope: Scope,
    /// What stands for `{id}`.
    pub(crate) id: &'r str,
}

impl Call<'_> {
    /// A parameter of the route. None if it was not given, or is not declared.
    pub(crate) fn param(&self, name: &str) -> Option<String> {
        debug_assert!(
            self.route.params.iter().any(|param| param.name == name),
            "{} does not declare {name}",
            self.route.path
        );
        self.request.param(name)
    }

    /// Does the client want Arrow?
    pub(crate) fn wants_arrow(&self) -> bool {
        let accept = self.request.header("accept").unwrap_or_default();
        accept.contains(ARROW)
    }
}

pub(crate) const ARROW: &str = "application/vnd.apache.arrow.stream";
pub(crate) const JSON: &str = "application/json";

/// Refuses what the route does not know: a parameter that is misspelt would silently do nothing.
pub(crate) fn check_params(route: &Route, request: &Request) -> Result<(), Response> {
    let known = |name: &str| route.params.iter().any(|param| param.name == name);
    let mut seen = Vec::new();
    for name in request.param_names() {
        let names: Vec<_> = route.params.iter().map(|param| param.name).collect();
        let hint = if names.is_empty() {
            "this route has no parameters".to_owned()
        } else {
            names.join(", ")
        };
        if !known(name) {
            let what = format!("{} has no parameter {name:?}", route.path);
            return Err(Response::refusal(400, &what, &hint));
        }
        if seen.contains(&name) || request.param(name).is_none() {
            let what = format!("parameter {name} is repeated or not valid UTF-8");
            return Err(Response::refusal(400, &what, "give it once, as name=value"));
        }
        seen.push(name);
    }
    Ok(())
}
