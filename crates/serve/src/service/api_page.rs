//! `docs/reference/http-api.md`, made from the table of routes and the columns of the rows. `UPDATE_GOLDEN=1` writes it anew.

use super::columns::columns;
use super::route::Route;
use super::routes::ROUTES;
use std::fmt::Write as _;
use transect_live::TABLES;

const HEAD: &str = "# HTTP API of `transect serve`\n\n\
    Every route of the daemon and every column of its rows. The daemon serves this description as OpenAPI 3.0, too, under \
    `/openapi.json`. [Running the daemon](serve.md#the-api) explains the parameters and lists the members of `/api/v1/status`, \
    snapshots and triggers; [timeline files and tables](timeline-format.md) describes the requests of a snapshot's timeline, \
    below `/view/{id}/`. Generated from the table of routes.\n\n\
    - Times and durations are ns. A name that ends in `unix_ns` counts from 1970, all others from the start of the host's trace \
    clock.\n\
    - A column that is not available on this host is null; the table `missing` gives the reason.\n\
    - An error is `{\"error\": \"…\", \"hint\": \"…\"}`. Besides the statuses listed here, every route can answer 400 (invalid \
    request), 401 (no or unknown token), 403 (the token lacks the scope, or a foreign `Host` or origin), 404 (no such path), 405 \
    (other method), 408 (the request took too long), 411 and 413 (body without a length, or too long), 429 (a limit of this client \
    reached, with `Retry-After`), 431 (head too long) and 503 (limit of all clients reached, with `Retry-After`).\n\
    - A route with the scope `windows`, `read` or `control` needs [access](serve.md#access-control) with this scope or a wider one.\n\
    - HEAD is answered on every route of GET, without the body.\n";

fn cell(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ").replace('|', "\\|")
}

fn section(page: &mut String, route: &Route) {
    let method = route.method.name();
    let scope = match route.scope.words() {
        [] => "No token needed.".to_owned(),
        [.., widest] => format!("Scope: `{widest}`."),
    };
    let _ = write!(page, "\n### {method} {}\n\n{} {scope}\n", route.path, route.doc);
    if !route.params.is_empty() {
        page.push_str("\n| parameter | example | meaning |\n|---|---|---|\n");
        for param in route.params {
            let _ =
                writeln!(page, "| `{}` | `{}` | {} |", param.name, param.example, cell(param.doc));
        }
    }
    if let Some(body) = route.body {
        let _ = write!(page, "\nBody:\n\n```json\n{body}\n```\n");
    }
    page.push_str("\n| status | content | answer |\n|---|---|---|\n");
    for (status, doc, kind) in route.answers {
        let kind = if kind.is_empty() { "" } else { &format!("`{kind}`") };
        let _ = writeln!(page, "| {status} | {kind} | {} |", cell(doc));
    }
}

fn page() -> String {
    let mut page = String::from(HEAD);
    page.push_str("\n## Routes\n");
    for route in ROUTES {
        section(&mut page, route);
    }
    page.push_str(
        "\n## Rows of a window\n\nA window is an object: `ts`, `dur`, `ended_unix_ns` (its end), `missed_windows` (lost before \
         it), `run` (identifies this run of the daemon), and one array of rows per table below (`health`: one object).\n",
    );
    for (place, table) in TABLES.iter().enumerate() {
        let _ = write!(page, "\n### {table}\n\n| column | type | meaning |\n|---|---|---|\n");
        for column in columns(place) {
            let (ty, doc) = (column.ty.sql_name(), cell(column.doc));
            let _ = writeln!(page, "| `{}` | {ty} | {doc} |", column.name);
        }
    }
    page
}

/// Compares a page with the text that the code makes; `UPDATE_GOLDEN=1` writes it anew.
pub(super) fn compare(name: &str, found: &str) {
    let path = format!("{}/../../docs/reference/{name}", env!("CARGO_MANIFEST_DIR"));
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        std::fs::write(&path, found).unwrap();
    }
    let expected = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(found == expected, "{path} is out of date: run the test with UPDATE_GOLDEN=1");
}

#[test]
fn page_of_routes_equals_the_table() {
    compare("http-api.md", &page());
}
