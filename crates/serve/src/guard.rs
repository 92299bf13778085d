//! Who may ask: the page this server gave, in the browser it was opened in, and nobody else.
//!
//! Any program on the machine can reach the port, any web page can send requests to it, and a name
//! in the DNS may be made to point at it. So a request has to name this machine as its host, come
//! from this origin if it says where it comes from, and know the token, which is in the URL that
//! is printed and then in a cookie that the browser sends to this site alone.

use std::fs::File;
use std::io::{self, Read};
use std::net::SocketAddr;
use transect_http::{Method, Request, Response};

/// What a request is held against.
#[derive(Debug)]
pub(crate) struct Guard {
    token: String,
    cookie: String,
    hosts: [String; 2],
}

impl Guard {
    /// A guard with a new token of 128 random bits.
    pub(crate) fn new(address: SocketAddr) -> io::Result<Self> {
        let token = token()?;
        let port = address.port();
        let hosts = [address.to_string(), format!("localhost:{port}")];
        // Cookies do not know ports: two recordings that are open at once need two names.
        Ok(Guard { token, cookie: format!("transect-{port}"), hosts })
    }

    /// Where a person gets in.
    pub(crate) fn url(&self) -> String {
        format!("http://{}/?token={}", self.hosts[0], self.token)
    }

    /// Nothing, or the answer to whom may not ask.
    pub(crate) fn refuse(&self, request: &Request) -> Option<Response> {
        let host = request.header("host").unwrap_or_default();
        if !self.hosts.iter().any(|known| known == host) {
            return Some(Response::error(403, "the Host header does not name this server"));
        }
        if !self.is_own_origin(request, host) {
            return Some(Response::error(403, "the request comes from another site"));
        }
        if !self.knows_token(request) {
            let message = "no token: open the address that transect view printed";
            return Some(Response::error(401, message));
        }
        None
    }

    fn is_own_origin(&self, request: &Request, host: &str) -> bool {
        let own = format!("http://{host}");
        let origin_fits = !request.has_header("origin") || request.header("origin") == Some(&own);
        // Browsers say whether a site asks for itself; "none" is a person who typed the address.
        let site = request.header("sec-fetch-site");
        let is_page = request.method == Method::Get && request.path == "/";
        let site_fits = match site {
            None => !request.has_header("sec-fetch-site"),
            Some("same-origin" | "none") => true,
            // A link in a mail or a terminal in the browser: the token is in it.
            Some(_) => is_page && request.value("token").is_some(),
        };
        origin_fits && site_fits
    }

    fn knows_token(&self, request: &Request) -> bool {
        let bearer = request.header("authorization").and_then(|v| v.strip_prefix("Bearer "));
        let of_page = || request.value("token").filter(|_| request.path == "/");
        let given = bearer.or_else(|| request.cookie(&self.cookie)).into_iter().chain(of_page());
        given.into_iter().any(|token| same(token.as_bytes(), self.token.as_bytes()))
    }

    /// What lets the page's own requests in; other sites' do not carry it.
    pub(crate) fn set_cookie(&self) -> String {
        format!("{}={}; HttpOnly; SameSite=Strict; Path=/", self.cookie, self.token)
    }
}

/// 128 random bits as text.
pub(crate) fn token() -> io::Result<String> {
    let mut random = [0; 16];
    File::open("/dev/urandom")?.read_exact(&mut random)?;
    Ok(random.iter().map(|byte| format!("{byte:02x}")).collect())
}

/// Compares in a time that does not tell where the difference is.
fn same(given: &[u8], known: &[u8]) -> bool {
    let differs = given.iter().zip(known).fold(0, |all, (a, b)| all | (a ^ b));
    given.len() == known.len() && differs == 0
}
