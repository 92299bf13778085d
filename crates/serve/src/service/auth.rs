//! Who may do what: tokens, cookies, hosts and origins.
//!
//! Any program on the machine can reach the port, any web page can send requests to it, and a name in
//! the DNS may be made to point at it. So on 127.0.0.1 a request has to name this machine as its
//! host; everywhere it must not come from another site's page; and what it may do is told by a
//! token, in a header or in a cookie that was given for one.

use super::config::{Config, OpenAccess};
use ring::{hmac, rand};
use std::fs;
use std::io;
use std::net::SocketAddr;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use transect_http::{Method, Request, Response};

/// The shortest token.
const MIN_TOKEN: usize = 16;
/// How long a cookie is good.
const COOKIE_FOR: Duration = Duration::from_secs(12 * 3600);

/// Rights of a request; each scope includes those before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Scope {
    /// Data that is the same on every host.
    Nobody,
    /// Windows, history and metrics: sums for each VM, container and thread.
    Windows,
    /// Raw traces, too: snapshots, their timelines, SQL.
    Read,
    /// Taking and deleting snapshots, too.
    Control,
}

impl Scope {
    pub(crate) fn words(self) -> &'static [&'static str] {
        match self {
            Scope::Nobody => &[],
            Scope::Windows => &["windows"],
            Scope::Read => &["windows", "read"],
            Scope::Control => &["windows", "read", "control"],
        }
    }

    fn letter(self) -> &'static str {
        match self {
            Scope::Nobody => "n",
            Scope::Windows => "w",
            Scope::Read => "r",
            Scope::Control => "c",
        }
    }
}

/// The rights of one request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Access {
    pub(crate) scope: Scope,
    /// By a token or its cookie; otherwise the rights are those of every client.
    pub(crate) has_token: bool,
}

/// The credentials that a request shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shown<'r> {
    Nothing,
    Token(&'r str),
    Cookie(&'r str),
}

/// How a daemon is protected.
pub(crate) struct Auth {
    key: hmac::Key,
    /// Each token's mark under the key of this run: comparing them tells nothing about the token.
    tokens: Vec<(hmac::Tag, Scope)>,
    /// What everybody may.
    everybody: Scope,
    /// The token that was made because none is configured.
    made: Option<String>,
    cookie: String,
    is_secure: bool,
    /// Hosts that requests may be for; none: any.
    hosts: Option<Vec<String>>,
}

/// What of the configuration it needs.
pub(crate) struct Wishes<'c> {
    pub(crate) address: SocketAddr,
    pub(crate) has_tls: bool,
    pub(crate) insecure: bool,
    pub(crate) open_access: OpenAccess,
    pub(crate) read_tokens: Option<&'c Path>,
    pub(crate) control_tokens: Option<&'c Path>,
    pub(crate) host_names: &'c [String],
    /// Where a token is left that was made because none is configured.
    pub(crate) data: &'c Path,
}

impl<'c> Wishes<'c> {
    pub(crate) fn new(config: &'c Config, address: SocketAddr, has_tls: bool) -> Self {
        Wishes {
            address,
            has_tls,
            insecure: config.insecure,
            open_access: config.open_access,
            read_tokens: config.read_tokens.as_deref(),
            control_tokens: config.control_tokens.as_deref(),
            host_names: &config.host_names,
            data: &config.data,
        }
    }
}

impl Auth {
    /// Reads tokens, or makes one; then where that is.
    ///
    /// # Errors
    /// One line: which file, which line, and what is wrong with it.
    pub(crate) fn new(wishes: &Wishes<'_>) -> Result<(Self, Option<PathBuf>), String> {
        Auth::behind(None, wishes)
    }

    /// Reads them again. A token that was made stays, and cookies hold if no token has changed.
    ///
    /// # Errors
    /// As of [`Self::new`].
    pub(crate) fn again(&self, wishes: &Wishes<'_>) -> Result<Self, String> {
        Auth::behind(Some(self), wishes).map(|(auth, _)| auth)
    }

    fn behind(
        before: Option<&Auth>,
        wishes: &Wishes<'_>,
    ) -> Result<(Self, Option<PathBuf>), String> {
        let random = rand::SystemRandom::new();
        let mut tokens = Vec::new();
        for (path, scope) in
            [(wishes.read_tokens, Scope::Read), (wishes.control_tokens, Scope::Control)]
        {
            for token in path.map_or(Ok(Vec::new()), read_tokens)? {
                tokens.push((token, scope));
            }
        }
        let (mut made, mut made_path) = (None, None);
        if !tokens.iter().any(|(_, scope)| *scope == Scope::Control) {
            let token = match before.and_then(|before| before.made.clone()) {
                Some(token) => token,
                None => {
                    let (token, path) = make_token(&random, wishes.data)?;
                    made_path = Some(path);
                    token
                }
            };
            tokens.push((token.clone(), Scope::Control));
            made = Some(token);
        }
        let key = match before.filter(|before| before.has_just(&tokens)) {
            // Cookies are signed with it.
            Some(before) => before.key.clone(),
            None => hmac::Key::generate(hmac::HMAC_SHA256, &random)
                .map_err(|_| "cannot get random numbers from the system".to_owned())?,
        };
        let tokens =
            tokens.iter().map(|(token, scope)| (hmac::sign(&key, token.as_bytes()), *scope));
        let tokens = tokens.collect();
        let is_local = wishes.address.ip().is_loopback();
        let is_open = match (is_local, wishes.read_tokens) {
            (true, _) => true,
            // Without tokens to read with, and told that something else protects it.
            (false, None) => wishes.insecure && wishes.control_tokens.is_none(),
            (false, Some(_)) => false,
        };
        let everybody = match wishes.open_access {
            OpenAccess::All if is_open => Scope::Read,
            OpenAccess::Windows if is_open => Scope::Windows,
            _ => Scope::Nobody,
        };
        let port = wishes.address.port();
        let hosts = is_local.then(|| {
            let names = ["localhost", "127.0.0.1", "[::1]"].map(str::to_owned);
            let own = names.into_iter().chain(wishes.host_names.iter().cloned());
            own.flat_map(|name| [format!("{name}:{port}"), name]).collect()
        });
        let auth = Auth {
            key,
            tokens,
            made,
            everybody,
            // Cookies do not know ports.
            cookie: format!("transect-serve-{port}"),
            is_secure: wishes.has_tls,
            hosts,
        };
        Ok((auth, made_path))
    }

    /// Are these its tokens, and no others?
    fn has_just(&self, tokens: &[(String, Scope)]) -> bool {
        let is_known = |(token, scope): &(String, Scope)| {
            let is_it = |(tag, known): &(hmac::Tag, Scope)| {
                known == scope && hmac::verify(&self.key, token.as_bytes(), tag.as_ref()).is_ok()
            };
            self.tokens.iter().any(is_it)
        };
        tokens.len() == self.tokens.len() && tokens.iter().all(is_known)
    }

    /// What whoever started the daemon should know about how it is protected.
    pub(crate) fn warning(&self, address: SocketAddr, has_tls: bool) -> Option<String> {
        if address.ip().is_loopback() {
            return None;
        }
        let open = match self.everybody {
            Scope::Nobody => None,
            Scope::Windows => Some("windows, history and metrics"),
            Scope::Read | Scope::Control => Some("everything, raw traces included"),
        };
        if let Some(open) = open {
            return Some(format!(
                "every client that can reach {address} can read {open}: no token is required"
            ));
        }
        (!has_tls).then(|| format!("tokens sent to {address} are not encrypted: TLS is off"))
    }

    /// The credentials of a request, or the refusal of one from another site, for another host, or with credentials of
    /// another kind.
    pub(crate) fn shown<'r>(&self, request: &'r Request) -> Result<Shown<'r>, Response> {
        self.check_place(request)?;
        let bearer =
            request.header("authorization").and_then(|value| value.strip_prefix("Bearer "));
        if let Some(token) = bearer {
            return Ok(Shown::Token(token.trim()));
        }
        if request.has_header("authorization") {
            let hint = "send Authorization: Bearer TOKEN, once";
            return Err(Response::refusal(401, "unsupported Authorization header", hint));
        }
        Ok(request.cookie(&self.cookie).map_or(Shown::Nothing, Shown::Cookie))
    }

    /// The rights that a request has by a scope that its token or cookie gives, if any.
    pub(crate) fn access(&self, given: Option<Scope>) -> Access {
        let scope = given.unwrap_or(self.everybody).max(self.everybody);
        Access { scope, has_token: given.is_some() }
    }

    fn check_place(&self, request: &Request) -> Result<(), Response> {
        let host = request.header("host").unwrap_or_default();
        if let Some(hosts) = &self.hosts
            && !hosts.iter().any(|known| known.eq_ignore_ascii_case(host))
        {
            let hint = "use 127.0.0.1 or localhost, or add the name to host_names";
            return Err(Response::refusal(403, "the Host header does not name this daemon", hint));
        }
        let other = || {
            let hint = "open the daemon's own address";
            Err(Response::refusal(403, "the request comes from another site", hint))
        };
        let scheme = if self.is_secure { "https" } else { "http" };
        // Behind a proxy that does TLS the page's address is https.
        let own = [format!("{scheme}://{host}"), format!("https://{host}")];
        let origin = request.header("origin").unwrap_or_default();
        if request.has_header("origin") && !own.iter().any(|own| own == origin) {
            return other();
        }
        match request.header("sec-fetch-site") {
            None if request.has_header("sec-fetch-site") => other(),
            None | Some("same-origin" | "none") => Ok(()),
            // A link from somewhere else may be followed; nothing else may come from there.
            Some(_) => {
                let is_page = request.header("sec-fetch-mode") == Some("navigate");
                if is_page && request.method == Method::Get { Ok(()) } else { other() }
            }
        }
    }

    /// What a token may do.
    pub(crate) fn of_token(&self, token: &str) -> Option<Scope> {
        // Every one is looked at: how long it takes does not tell which fits.
        let fits = |(tag, scope): &(hmac::Tag, Scope)| {
            hmac::verify(&self.key, token.as_bytes(), tag.as_ref()).is_ok().then_some(*scope)
        };
        self.tokens.iter().map(fits).fold(None, Option::max)
    }

    /// What a cookie may do; None: its time is over.
    ///
    /// # Errors
    /// It has no signature of this run.
    pub(crate) fn of_cookie(&self, value: &str) -> Result<Option<Scope>, NotSigned> {
        let (signed, mark) = value.rsplit_once('.').ok_or(NotSigned)?;
        let mark = from_hex(mark).ok_or(NotSigned)?;
        hmac::verify(&self.key, signed.as_bytes(), &mark).map_err(|_| NotSigned)?;
        let scope_until = || {
            let (letter, until) = signed.split_once('.')?;
            let until: u64 = until.parse().ok()?;
            let scopes = [Scope::Windows, Scope::Read, Scope::Control];
            let scope = scopes.into_iter().find(|scope| scope.letter() == letter)?;
            (now_s() < until).then_some(scope)
        };
        Ok(scope_until())
    }

    /// True if a request has a cookie of this daemon that gives nothing.
    pub(crate) fn has_stale_cookie(&self, request: &Request) -> bool {
        let cookie = request.cookie(&self.cookie).filter(|value| !value.is_empty());
        cookie.is_some_and(|value| !matches!(self.of_cookie(value), Ok(Some(_))))
    }

    /// Has a browser forget its cookie.
    pub(crate) fn clear_cookie(&self) -> String {
        format!("{}=; Max-Age=0; HttpOnly; SameSite=Strict; Path=/", self.cookie)
    }

    /// A cookie for who has shown a token.
    pub(crate) fn set_cookie(&self, scope: Scope) -> String {
        let signed = format!("{}.{}", scope.letter(), now_s() + COOKIE_FOR.as_secs());
        let mark = hmac::sign(&self.key, signed.as_bytes());
        let secure = if self.is_secure { "; Secure" } else { "" };
        format!(
            "{}={signed}.{}; Max-Age={}; HttpOnly; SameSite=Strict; Path=/{secure}",
            self.cookie,
            hex(mark.as_ref()),
            COOKIE_FOR.as_secs()
        )
    }

    /// The cookie by which a browser's connections are known as one client's: until it is closed.
    pub(crate) fn client_cookie(&self, cookie: &str, name: &str) -> String {
        let secure = if self.is_secure { "; Secure" } else { "" };
        format!("{cookie}={name}; HttpOnly; SameSite=Strict; Path=/view/{secure}")
    }
}

/// A cookie without a valid signature.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NotSigned;

/// The answer to a token that is not known.
pub(crate) fn unknown() -> Response {
    Response::refusal(401, "unknown token", "tokens are read when the daemon starts, and on SIGHUP")
}

fn now_s() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn from_hex(text: &str) -> Option<Vec<u8>> {
    let digits: Vec<u32> = text.chars().map(|c| c.to_digit(16)).collect::<Option<_>>()?;
    let pairs = digits.chunks(2).map(|pair| match pair {
        [high, low] => u8::try_from(high * 16 + low).ok(),
        _ => None,
    });
    pairs.collect()
}

fn read_tokens(path: &Path) -> Result<Vec<String>, String> {
    let bytes = transect_access::read_secret(path).map_err(|error| error.to_string())?;
    let text =
        String::from_utf8(bytes).map_err(|_| format!("{}: is not valid UTF-8", path.display()))?;
    let mut tokens = Vec::new();
    for (number, line) in text.lines().enumerate() {
        let token = line.split('#').next().unwrap_or_default().trim();
        if token.is_empty() {
            continue;
        }
        if token.len() < MIN_TOKEN || !token.chars().all(|c| c.is_ascii_graphic() && c != ';') {
            return Err(format!(
                "{}, line {}: a token needs at least {MIN_TOKEN} characters and no spaces (openssl rand -hex 32 \
                 makes one)",
                path.display(),
                number + 1
            ));
        }
        tokens.push(token.to_owned());
    }
    if tokens.is_empty() {
        return Err(format!("{}: contains no token", path.display()));
    }
    Ok(tokens)
}

/// A new token in a file that only its owner can read.
fn make_token(random: &rand::SystemRandom, data: &Path) -> Result<(String, PathBuf), String> {
    let bytes = rand::generate::<[u8; 32]>(random);
    let bytes = bytes.map_err(|_| "cannot get random numbers from the system".to_owned())?;
    let token = hex(&bytes.expose());
    let path = data.join("control.token");
    transect_access::own_dir(data).map_err(|error| error.to_string())?;
    let write = || {
        // A file that is there may be open to others: a new one is not.
        match fs::remove_file(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let mut file = fs::File::options().write(true).create_new(true).mode(0o600).open(&path)?;
        io::Write::write_all(&mut file, format!("{token}\n").as_bytes())
    };
    write().map_err(|error: io::Error| format!("{}: {error}", path.display()))?;
    Ok((token, path))
}
