//! Every route of the daemon in one table: who may ask, what may be asked, who answers.
//!
//! The dispatcher and the OpenAPI description are both made of it: what is described is what is there.

use super::api::{health, history, login, metrics, now, snapshots, status, triggers};
use super::auth::Scope;
use super::descriptions::is_id;
use super::openapi;
use super::route::{ARROW, Call, JSON, Param, Route};
use super::shared::Service;
use transect_http::{Answer, Method, Response};

const TABLES: Param = Param {
    name: "tables",
    doc: "Tables to return, separated by commas. Default: all tables. An Arrow response needs exactly one.",
    example: "windows,window_details",
};

const MACHINE: Param = Param {
    name: "machine",
    doc: "Return only rows of machines with this name; * and ? are wildcards. The host has a name, too.",
    example: "vm1",
};
const CGROUP: Param = Param {
    name: "cgroup",
    doc: "Return only rows of control groups and containers with this cgroup path; * and ? are wildcards.",
    example: "*",
};
const VCPU: Param =
    Param { name: "vcpu", doc: "Return only rows of vCPUs with this number.", example: "0" };

pub(crate) const ROUTES: &[Route] = &[
    Route {
        method: Method::Get,
        path: "/api/v1/status",
        scope: Scope::Windows,
        doc: "Status of the daemon: version, host, history, missing metrics with reasons, and the scopes of the request. Without the scope read, errors that name files are null.",
        params: &[],
        body: None,
        answers: &[(200, "The status.", JSON)],
        handler: status::answer,
    },
    Route {
        method: Method::Get,
        path: "/api/v1/now",
        scope: Scope::Windows,
        doc: "Returns the newest window.",
        params: &[
            TABLES,
            MACHINE,
            CGROUP,
            VCPU,
            Param {
                name: "after",
                doc: "Waits up to 30 s for a window with a ts greater than this.",
                example: "5000000000",
            },
        ],
        body: None,
        answers: &[
            (200, "The window.", JSON),
            (200, "One table of the window.", ARROW),
            (204, "No newer window within 30 s.", ""),
        ],
        handler: now::answer,
    },
    Route {
        method: Method::Get,
        path: "/api/v1/history",
        scope: Scope::Windows,
        doc: "Returns past windows, merged into steps. Damaged windows are left out and stated: in gone, in the schema metadata transect.gone_windows and transect.gone of Arrow, and in the header Transect-Windows-Gone.",
        params: &[
            Param {
                name: "from",
                doc: "Start: ns since 1970, or relative to now. Default: 15 minutes ago.",
                example: "-15m",
            },
            Param {
                name: "until",
                doc: "End: ns since 1970, or relative to now. Default: now.",
                example: "-5m",
            },
            Param {
                name: "step",
                doc: "Length of a step, a multiple of the window length; at most 2,000 steps. Default: a length that fits the range.",
                example: "10s",
            },
            TABLES,
            MACHINE,
            CGROUP,
            VCPU,
        ],
        body: None,
        answers: &[(200, "The steps.", JSON), (200, "The rows of one table for all steps.", ARROW)],
        handler: history::answer,
    },
    Route {
        method: Method::Get,
        path: "/api/v1/snapshots",
        scope: Scope::Read,
        doc: "Lists the kept snapshots, oldest first.",
        params: &[],
        body: None,
        answers: &[(200, "The list.", JSON)],
        handler: snapshots::list,
    },
    Route {
        method: Method::Post,
        path: "/api/v1/snapshots",
        scope: Scope::Control,
        doc: "Takes a snapshot: a recording of the last seconds (1 to 600, default 10), with a reason (at most 200 characters). The body and both members are optional.",
        params: &[],
        body: Some("{\"seconds\": 10, \"reason\": \"a slow answer at noon\"}"),
        answers: &[
            (201, "The new snapshot.", JSON),
            (409, "The flight recorder is off, or it failed.", JSON),
        ],
        handler: snapshots::take,
    },
    Route {
        method: Method::Get,
        path: "/api/v1/snapshots/{id}.tar",
        scope: Scope::Read,
        doc: "Returns a snapshot as a tar archive. tar xf unpacks it to a recording directory.",
        params: &[],
        body: None,
        answers: &[(200, "The recording.", "application/x-tar"), (404, "No such snapshot.", JSON)],
        handler: snapshots::tar,
    },
    Route {
        method: Method::Delete,
        path: "/api/v1/snapshots/{id}",
        scope: Scope::Control,
        doc: "Deletes a snapshot. A download in progress may be cut short.",
        params: &[],
        body: None,
        answers: &[(204, "The snapshot is deleted.", ""), (404, "No such snapshot.", JSON)],
        handler: snapshots::delete,
    },
    Route {
        method: Method::Get,
        path: "/api/v1/triggers",
        scope: Scope::Read,
        doc: "Lists the configured triggers: for how many actors each condition holds now, and when it fired last.",
        params: &[],
        body: None,
        answers: &[(200, "The triggers.", JSON)],
        handler: triggers::answer,
    },
    Route {
        method: Method::Get,
        path: "/metrics",
        scope: Scope::Windows,
        doc: "Returns the metrics for Prometheus.",
        params: &[],
        body: None,
        answers: &[
            (200, "OpenMetrics 1.0, if the client accepts it.", "application/openmetrics-text"),
            (200, "The older Prometheus text format, otherwise.", "text/plain"),
        ],
        handler: metrics::answer,
    },
    Route {
        method: Method::Get,
        path: "/healthz",
        scope: Scope::Nobody,
        doc: "Liveness: answers 200 while the daemon runs.",
        params: &[],
        body: None,
        answers: &[(200, "The daemon runs.", JSON)],
        handler: health::lives,
    },
    Route {
        method: Method::Get,
        path: "/readyz",
        scope: Scope::Nobody,
        doc: "Readiness: answers 503 while there is no window, or while the newest is older than three windows.",
        params: &[],
        body: None,
        answers: &[(200, "The daemon has a current window.", JSON)],
        handler: health::is_ready,
    },
    Route {
        method: Method::Post,
        path: "/login",
        scope: Scope::Nobody,
        doc: "Exchanges a token for a cookie, for browsers.",
        params: &[],
        body: Some("{\"token\": \"…\"}"),
        answers: &[(204, "The cookie is set.", ""), (401, "Unknown token.", JSON)],
        handler: login::answer,
    },
    Route {
        method: Method::Get,
        path: "/openapi.json",
        scope: Scope::Nobody,
        doc: "Returns this description.",
        params: &[],
        body: None,
        answers: &[(200, "OpenAPI 3.", JSON)],
        handler: describe,
    },
];

/// The description of all routes.
fn describe(_: &Service, _: &Call<'_>) -> Result<Answer, Response> {
    Ok(Response::json(&openapi::description(ROUTES)).into())
}

/// The route of a request, and what stands for `{id}`; or whether there is one with another method.
pub(crate) fn find(method: Method, path: &str) -> Result<(&'static Route, &str), bool> {
    let mut other_method = false;
    for route in ROUTES {
        if let Some(id) = fits(route.path, path) {
            if route.method == method {
                return Ok((route, id));
            }
            other_method = true;
        }
    }
    Err(other_method)
}

fn fits<'p>(pattern: &str, path: &'p str) -> Option<&'p str> {
    let Some((before, behind)) = pattern.split_once("{id}") else {
        return (pattern == path).then_some("");
    };
    let id = path.strip_prefix(before)?.strip_suffix(behind)?;
    is_id(id).then_some(id)
}
