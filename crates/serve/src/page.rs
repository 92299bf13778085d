//! The page's files, which are part of the program: nothing is read by path.

use transect_http::Response;

/// Path and bytes of each file of `web/dist`.
static FILES: &[(&str, &[u8])] = include!(concat!(env!("OUT_DIR"), "/page.rs"));

/// Was the program built with the page?
pub fn is_built() -> bool {
    file("/index.html").is_some()
}

/// The file of that path; the page itself for `/`.
pub(crate) fn answer(path: &str) -> Response {
    let path = if path == "/" { "/index.html" } else { path };
    match file(path) {
        Some(bytes) => Response::new(kind(path), bytes),
        None if path == "/index.html" => {
            Response::error(404, "built without the page: run make build")
        }
        None => Response::error(404, "no such page"),
    }
}

/// Is there a file of that path?
pub(crate) fn has(path: &str) -> bool {
    file(path).is_some()
}

fn file(path: &str) -> Option<&'static [u8]> {
    FILES.iter().find(|(known, _)| *known == path).map(|(_, bytes)| *bytes)
}

fn kind(path: &str) -> &'static str {
    match path.rsplit_once('.').map_or("", |(_, ending)| ending) {
        "html" => "text/html; charset=utf-8",
        "js" | "mjs" => "text/javascript; charset=utf-8",
        "css" => "text/css; charset=utf-8",
        "json" | "map" => "application/json",
        "svg" => "image/svg+xml",
        "png" => "image/png",
        "woff2" => "font/woff2",
        "wasm" => "application/wasm",
        _ => "application/octet-stream",
    }
}
