//! Who gets in, and how far.

use super::super::OpenAccess;
use super::super::auth::Scope;
use super::super::routes::ROUTES;
use super::{Config, Daemon, Fake, Made, NoRecording, Parts, Running};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

const READ: &str = "0123456789abcdef-read";
const CONTROL: &str = "0123456789abcdef-control";

fn file(dir: &Path, name: &str, text: &str) -> std::path::PathBuf {
    let path = dir.join(name);
    std::fs::write(&path, text).unwrap();
    set_mode(&path, 0o600);
    path
}

/// Why a daemon with this configuration does not start; empty: it does.
fn refusal(change: impl FnOnce(&mut Config)) -> String {
    let dir = tempfile::tempdir().unwrap();
    let mut config = Config {
        listen: "127.0.0.1:0".parse().unwrap(),
        data: dir.path().to_owned(),
        history: false,
        ..Config::default()
    };
    change(&mut config);
    let parts = Parts {
        source: Box::new(Made::new(1, 0)),
        recorder: Ok(Box::new(Fake)),
        open: Box::new(|_| Box::new(NoRecording)),
        tell: std::sync::Arc::new(|_| {}),
        host_name: String::new(),
        give_back: || {},
    };
    match Daemon::start(&config, parts) {
        Ok(daemon) => {
            daemon.stop();
            String::new()
        }
        Err(error) => error.to_string(),
    }
}

fn set_mode(path: &Path, mode: u32) {
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
}

fn bearer(token: &str) -> Vec<(&'static str, String)> {
    vec![("Authorization", format!("Bearer {token}"))]
}

fn status(running: &Running, method: &str, path: &str, headers: &[(&'static str, String)]) -> u16 {
    let headers: Vec<_> = headers.iter().map(|(name, value)| (*name, value.as_str())).collect();
    running.ask(method, path, &headers, "").status
}

#[test]
fn on_this_machine_all_see_windows_and_a_token_gives_the_rest() {
    let running = Running::start(|_| {});
    let without = running.get("/api/v1/status").json();
    assert_eq!(without["scopes"], serde_json::json!(["windows"]));
    // Errors of files and of the configuration are not for everybody.
    assert!(without["configuration"].is_null() && without["snapshots"]["why"].is_null());
    let with = running.read("/api/v1/status").json();
    assert_eq!(with["scopes"], serde_json::json!(["windows", "read", "control"]));
    assert!(with["configuration"].is_object());
    assert_eq!(status(&running, "POST", "/api/v1/snapshots", &[]), 401);
    assert_eq!(status(&running, "POST", "/api/v1/snapshots", &bearer(&running.control())), 201);
    // A wrong token is refused, also where none is needed.
    assert_eq!(status(&running, "GET", "/api/v1/status", &bearer("0123456789abcdef")), 401);
    let basic = vec![("Authorization", "Basic YTpi".to_owned())];
    assert_eq!(status(&running, "GET", "/api/v1/status", &basic), 401);
    let mode = std::fs::metadata(running.data.path().join("control.token")).unwrap().permissions();
    assert_eq!(mode.mode() & 0o777, 0o600);
}

/// Every route and method without a token, and the requests of a snapshot's timeline.
#[test]
fn without_a_token_windows_and_metrics_are_read_and_nothing_else() {
    let running = Running::start(|_| {});
    let taken = running.post("/api/v1/snapshots", "").json();
    let id = taken["id"].as_str().unwrap();
    let (mut open, mut public) = (Vec::new(), Vec::new());
    for route in ROUTES {
        let (method, path) = (route.method.name(), route.path.replace("{id}", id));
        let answer = running.ask(method, &path, &[], route.body.unwrap_or_default());
        let (name, is_read) = (format!("{method} {}", route.path), answer.status == 200);
        match route.scope {
            Scope::Nobody if is_read => public.push(name),
            // The example of the body has no token.
            Scope::Nobody => assert_eq!((answer.status, &*name), (401, "POST /login")),
            Scope::Windows => {
                assert_eq!(answer.status, 200, "{name}");
                open.push(name);
            }
            Scope::Read | Scope::Control => assert_eq!(answer.status, 401, "{name}"),
        }
    }
    assert_eq!(public, ["GET /healthz", "GET /readyz", "GET /openapi.json"]);
    let windows = ["GET /api/v1/status", "GET /api/v1/now", "GET /api/v1/history", "GET /metrics"];
    assert_eq!(open, windows);
    for (method, name) in [
        ("GET", ""),
        ("GET", "/"),
        ("GET", "/assets/main.js"),
        ("GET", "/api/progress"),
        ("GET", "/api/recording"),
        ("GET", "/api/tracks"),
        ("GET", "/api/keys"),
        ("POST", "/api/tiles"),
        ("POST", "/api/search"),
        ("GET", "/api/at"),
        ("POST", "/api/busy"),
        ("POST", "/api/next"),
        ("POST", "/api/flows"),
        ("POST", "/api/stats"),
        ("POST", "/api/sql"),
        ("POST", "/api/export"),
        ("DELETE", "/api/sql"),
    ] {
        for id in [id, "nothing"] {
            let path = format!("/view/{id}{name}");
            let answer = running.ask(method, &path, &[], "{}");
            assert_eq!(answer.status, 401, "{method} {path}");
            assert!(answer.json()["error"].as_str().unwrap().contains("the scope read"));
        }
    }
    let kept = running.read("/api/v1/snapshots").json()["snapshots"].as_array().unwrap().len();
    assert_eq!(kept, 1, "none was taken or deleted");
}

#[test]
fn raw_traces_are_open_to_all_if_that_is_configured() {
    let running = Running::start(|config| config.open_access = OpenAccess::All);
    let taken = running.post("/api/v1/snapshots", "").json();
    for path in ["/api/v1/snapshots", "/api/v1/triggers", taken["tar"].as_str().unwrap()] {
        assert_eq!(running.get(path).status, 200, "{path}");
    }
    let view = format!("{}api/recording", taken["view"].as_str().unwrap());
    assert_eq!(running.get(&view).status, 200);
    assert_eq!(status(&running, "POST", "/api/v1/snapshots", &[]), 401);
}

/// A browser without a token is led to the dashboard, which asks for it and leads back. A program gets 401.
#[test]
fn browser_that_opens_a_timeline_is_asked_for_a_token() {
    let running = Running::start(|_| {});
    let taken = running.post("/api/v1/snapshots", "").json();
    let view = taken["view"].as_str().unwrap();
    let accept = [("Accept", "text/html,application/xhtml+xml")];
    let answer = running.ask("GET", view, &accept, "");
    if crate::page::has("/dashboard.html") {
        let next = format!("/?next={view}");
        assert_eq!((answer.status, answer.header("location")), (302, Some(&*next)));
    } else {
        assert_eq!(answer.status, 401);
    }
    for path in ["/view/a%22b/", "/view/..%2f/", &format!("{view}api/recording")] {
        assert_eq!(running.ask("GET", path, &accept, "").status, 401, "{path}");
    }
    assert_eq!(running.get(view).status, 401);
}

#[test]
fn tokens_have_scopes() {
    let dir = tempfile::tempdir().unwrap();
    let running = Running::start(|config| {
        config.open_access = OpenAccess::Token;
        config.read_tokens = Some(file(dir.path(), "r", &format!("# who\n{READ} # grafana\n")));
        config.control_tokens = Some(file(dir.path(), "c", CONTROL));
    });
    let no_token: &[(&str, String)] = &[];
    let expected = [
        ("GET", "/healthz", [200, 200, 200]),
        ("GET", "/readyz", [200, 200, 200]),
        ("GET", "/openapi.json", [200, 200, 200]),
        ("GET", "/api/v1/now", [401, 200, 200]),
        ("GET", "/api/v1/history", [401, 200, 200]),
        ("GET", "/api/v1/triggers", [401, 200, 200]),
        ("GET", "/metrics", [401, 200, 200]),
        ("GET", "/api/v1/snapshots", [401, 200, 200]),
        ("POST", "/api/v1/snapshots", [401, 403, 201]),
        ("GET", "/view/nothing/", [401, 404, 404]),
    ];
    for (method, path, wanted) in expected {
        let got = [no_token, &bearer(READ), &bearer(CONTROL)]
            .map(|headers| status(&running, method, path, headers));
        assert_eq!(got, wanted, "{method} {path}");
    }
    assert!(!running.data.path().join("control.token").exists(), "none is made");
    for near in [&READ[1..], &format!("{READ}x"), "", " ", &READ.to_uppercase()] {
        assert_eq!(status(&running, "GET", "/api/v1/now", &bearer(near)), 401, "{near:?}");
    }
    let twice = [bearer(READ), bearer(READ)].concat();
    assert_eq!(status(&running, "GET", "/api/v1/now", &twice), 401);
}

/// On another address than this machine's own: TLS and tokens, or what is said aloud.
#[test]
fn other_addresses_are_open_only_to_whom_it_is_said() {
    let any = || "0.0.0.0:0".parse().unwrap();
    let running = Running::start(|config| {
        config.listen = any();
        config.insecure = true;
    });
    let warned = |running: &Running, text: &str| {
        running.log.lock().unwrap().iter().any(|line| line.contains(text))
    };
    assert!(warned(&running, "can read windows, history and metrics: no token is required"));
    assert_eq!(status(&running, "GET", "/api/v1/now", &[]), 200);
    assert_eq!(status(&running, "GET", "/api/v1/snapshots", &[]), 401);
    assert_eq!(status(&running, "POST", "/api/v1/snapshots", &[]), 401);
    // Whatever name it is reached by.
    let host = vec![("Host", "watcher.example:9619".to_owned())];
    assert_eq!(status(&running, "GET", "/api/v1/now", &host), 200);
    let dir = tempfile::tempdir().unwrap();
    let running = Running::start(|config| {
        config.listen = any();
        config.insecure = true;
        config.read_tokens = Some(file(dir.path(), "r", READ));
    });
    assert!(warned(&running, "TLS is off"));
    assert_eq!(status(&running, "GET", "/api/v1/now", &[]), 401);
    assert_eq!(status(&running, "GET", "/metrics", &bearer(READ)), 200);
    assert_eq!(status(&running, "GET", "/healthz", &[]), 200);
}

#[test]
fn a_browser_gets_a_cookie_for_a_token() {
    let dir = tempfile::tempdir().unwrap();
    let running = Running::start(|config| {
        config.open_access = OpenAccess::Token;
        config.read_tokens = Some(file(dir.path(), "r", READ));
    });
    let login = running.ask("POST", "/login", &[], &format!("{{\"token\": \"{READ}\"}}"));
    assert_eq!(login.status, 204);
    let set = login.header("set-cookie").unwrap().to_owned();
    assert!(
        set.contains("HttpOnly") && set.contains("SameSite=Strict") && !set.contains(READ),
        "{set}"
    );
    let cookie = set.split(';').next().unwrap().to_owned();
    let with =
        |cookie: &str| status(&running, "GET", "/api/v1/now", &[("Cookie", cookie.to_owned())]);
    assert_eq!(with(&cookie), 200);
    assert_eq!(status(&running, "POST", "/api/v1/snapshots", &[("Cookie", cookie.clone())]), 403);
    // Nothing in it can be changed: not the scope, not the time, not the mark.
    let (name, value) = cookie.split_once('=').unwrap();
    let parts: Vec<&str> = value.split('.').collect();
    for changed in [
        format!("{name}=c.{}.{}", parts[1], parts[2]),
        format!("{name}=r.99999999999.{}", parts[2]),
        format!("{name}=r.{}.{}", parts[1], "0".repeat(64)),
        format!("{name}=r.{}.", parts[1]),
        format!("{name}="),
    ] {
        let answer = running.ask("GET", "/api/v1/now", &[("Cookie", &changed)], "");
        assert_eq!(answer.status, 401, "{changed}");
        // The browser forgets it.
        let has_value = !changed.ends_with('=');
        assert_eq!(answer.header("set-cookie").is_some_and(|c| c.contains("Max-Age=0")), has_value);
    }
    assert_eq!(
        running.ask("POST", "/login", &[], "{\"token\": \"0123456789abcdefx\"}").status,
        401
    );
    assert_eq!(running.ask("POST", "/login", &[], "token").status, 400);
    let page = running.get(&format!("/?token={READ}"));
    assert_eq!((page.status, page.header("location")), (302, Some("/")));
    assert_eq!(with(page.header("set-cookie").unwrap().split(';').next().unwrap()), 200);
    assert_eq!(running.get("/?token=wrong").status, 401);
}

#[test]
fn other_sites_and_other_names_get_nothing() {
    let running = Running::start(|config| config.host_names = vec!["proxy.example".to_owned()]);
    let port = running.address.port();
    let ask = |headers: &[(&str, &str)]| {
        running.ask("GET", "/api/v1/now?tables=health", headers, "").status
    };
    for host in ["localhost", "127.0.0.1", "[::1]", "proxy.example"] {
        assert_eq!(ask(&[("Host", &format!("{host}:{port}"))]), 200, "{host}");
    }
    for host in ["evil.example", "", "127.0.0.1.evil.example", "localhost:1"] {
        assert_eq!(ask(&[("Host", host)]), 403, "{host}");
    }
    let own = format!("http://{}", running.address);
    assert_eq!(ask(&[("Origin", &own)]), 200);
    for origin in ["http://evil.example", "null", "", &format!("{own}.evil.example")] {
        assert_eq!(ask(&[("Origin", origin)]), 403, "{origin}");
    }
    assert_eq!(ask(&[("Sec-Fetch-Site", "same-origin")]), 200);
    for site in ["cross-site", "same-site", ""] {
        assert_eq!(ask(&[("Sec-Fetch-Site", site)]), 403, "{site}");
    }
    // Nobody may be made to take a snapshot by a page they look at, token or not.
    let bearer = format!("Bearer {}", running.control());
    let headers = [("Authorization", bearer.as_str()), ("Origin", "http://evil.example")];
    assert_eq!(running.ask("POST", "/api/v1/snapshots", &headers, "").status, 403);
    let head = running.get("/").head.to_lowercase();
    for wanted in ["x-frame-options: deny", "content-security-policy:", "nosniff", "no-store"] {
        assert!(head.contains(wanted), "{wanted}: {head}");
    }
    assert!(!head.contains("access-control-allow"));
}

#[test]
fn token_files_that_make_no_sense_are_refused_with_the_line() {
    let dir = tempfile::tempdir().unwrap();
    let with =
        |text: &str| refusal(|config| config.read_tokens = Some(file(dir.path(), "tokens", text)));
    assert!(
        with("short").contains("tokens, line 1: a token needs at least 16"),
        "{}",
        with("short")
    );
    assert!(with("# none\n\n").contains("contains no token"));
    assert!(with("0123456789abcdef\n0123456789 abcdef").contains("line 2"));
}

#[test]
fn token_file_that_others_can_read_is_refused_with_its_mode() {
    let dir = tempfile::tempdir().unwrap();
    let path = file(dir.path(), "tokens", READ);
    for (mode, word) in [(0o644, "read"), (0o640, "read"), (0o620, "change"), (0o606, "change")] {
        set_mode(&path, mode);
        let shown = path.display();
        let expected =
            format!("{shown}: mode {mode:04o} lets other users {word} it: chmod 600 {shown}");
        let read = refusal(|config| config.read_tokens = Some(path.clone()));
        assert!(read.contains(&expected), "{mode:o}: {read}");
        let control = refusal(|config| config.control_tokens = Some(path.clone()));
        assert!(control.contains(&expected), "{mode:o}: {control}");
    }
    set_mode(&path, 0o600);
    assert_eq!(refusal(|config| config.read_tokens = Some(path.clone())), "");
    set_mode(&path, 0o400);
    assert_eq!(refusal(|config| config.control_tokens = Some(path.clone())), "");
}

#[test]
fn missing_token_file_is_an_error() {
    let missing = Path::new("/nonexistent/tokens");
    for refused in [
        refusal(|config| config.read_tokens = Some(missing.to_owned())),
        refusal(|config| config.control_tokens = Some(missing.to_owned())),
    ] {
        assert!(refused.contains("/nonexistent/tokens: No such file or directory"), "{refused}");
    }
}

#[test]
fn data_directory_that_others_can_change_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("data");
    std::fs::create_dir(&data).unwrap();
    // With these, the daemon makes no token in the directory.
    let tokens = file(dir.path(), "tokens", CONTROL);
    let refused = || {
        refusal(|config| {
            config.data.clone_from(&data);
            config.control_tokens = Some(tokens.clone());
        })
    };
    for mode in [0o777, 0o770, 0o702, 0o1777] {
        set_mode(&data, mode);
        let shown = data.display();
        let expected =
            format!("{shown}: mode {mode:04o} lets other users write to it: chmod 700 {shown}");
        assert!(refused().contains(&expected), "{mode:o}: {}", refused());
        assert_eq!(std::fs::read_dir(&data).unwrap().count(), 0, "nothing was written");
    }
    set_mode(&data, 0o700);
    assert_eq!(refused(), "");
    for below in ["snapshots", "history"] {
        let below = data.join(below);
        let _ = std::fs::remove_dir_all(&below);
        std::os::unix::fs::symlink(dir.path(), &below).unwrap();
        let refused = refusal(|config| {
            config.data.clone_from(&data);
            config.history = true;
        });
        let expected = format!("{}: is a symbolic link", below.display());
        assert!(refused.contains(&expected), "{refused}");
        std::fs::remove_file(&below).unwrap();
    }
    let link = dir.path().join("link");
    std::os::unix::fs::symlink(&data, &link).unwrap();
    for name in ["link", "link/"] {
        let refused = refusal(|config| config.data = dir.path().join(name));
        assert!(refused.contains("is a symbolic link"), "{refused}");
    }
}

#[test]
fn links_in_the_history_are_not_followed() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("data");
    let start = || {
        refusal(|config| {
            config.data.clone_from(&data);
            config.history = true;
        })
    };
    assert_eq!(start(), "");
    let target = dir.path().join("target");
    std::fs::write(&target, "kept").unwrap();
    for name in ["lock", "w-000000000001.jsonl.zst"] {
        let link = data.join("history").join(name);
        let _ = std::fs::remove_file(&link);
        std::os::unix::fs::symlink(&target, &link).unwrap();
        assert!(start().contains("is a symbolic link"), "{name}: {}", start());
        std::fs::remove_file(&link).unwrap();
    }
    assert_eq!(std::fs::read_to_string(&target).unwrap(), "kept");
    assert_eq!(start(), "");
}

/// With the certificate of testdata, as a client that trusts it and nothing else.
#[test]
fn tls_is_served_to_those_who_speak_it() {
    use rustls::pki_types::pem::PemObject as _;
    use rustls::pki_types::{CertificateDer, ServerName};
    use std::io::{Read as _, Write as _};
    use std::sync::Arc;
    let tls = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/succeed/tls");
    let scratch = tempfile::tempdir().unwrap();
    let text = std::fs::read_to_string(tls.join("key.pem")).unwrap();
    let (certificate, key) = (tls.join("certificate.pem"), file(scratch.path(), "key.pem", &text));
    set_mode(&key, 0o644);
    let refused = refusal(|config| {
        (config.tls_certificate, config.tls_key) = (Some(certificate.clone()), Some(key.clone()));
    });
    assert!(refused.contains("key.pem: mode 0644 lets other users read it"), "{refused}");
    set_mode(&key, 0o600);
    let running = super::Running::tls(&certificate, &key);
    let mut roots = rustls::RootCertStore::empty();
    roots.add(CertificateDer::from_pem_file(&certificate).unwrap()).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    let name = ServerName::try_from("localhost").unwrap();
    let mut client = rustls::ClientConnection::new(Arc::new(config), name).unwrap();
    let mut stream = running.connect();
    let mut secure = rustls::Stream::new(&mut client, &mut stream);
    let request = format!(
        "GET /api/v1/history?from=-10s HTTP/1.1\r\nHost: {}\r\nConnection: close\r\n\r\n",
        running.address
    );
    secure.write_all(request.as_bytes()).unwrap();
    let mut bytes = Vec::new();
    // Ends in order: without close_notify this would be an error.
    secure.read_to_end(&mut bytes).unwrap();
    let answer = super::Answer::of(&bytes);
    assert_eq!(answer.status, 200);
    assert!(answer.json()["windows"].is_array());
    let login = "POST /login HTTP/1.1\r\n";
    // In the clear nothing is said.
    let mut plain = running.connect();
    plain.write_all(login.as_bytes()).unwrap();
    let mut said = Vec::new();
    let _ = plain.read_to_end(&mut said);
    assert!(!said.starts_with(b"HTTP"), "{said:?}");
}
