//! Another configuration while it runs.

use super::super::OpenAccess;
use super::{Config, Running, wait_for};
use serde_json::{Value, json};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

const FIRST: &str = "0123456789abcdef-first";
const SECOND: &str = "0123456789abcdef-second";

fn set_mode(path: &Path, mode: u32) {
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
}

fn tokens(running: &Running, text: &str) -> std::path::PathBuf {
    let path = running.data.path().join("tokens");
    std::fs::write(&path, text).unwrap();
    set_mode(&path, 0o600);
    path
}

fn reload(running: &Running, change: impl FnOnce(&mut Config)) -> Result<Vec<String>, String> {
    let mut config = Running::config(running.data.path());
    change(&mut config);
    running.daemon.as_ref().unwrap().reload(&config)
}

fn with(running: &Running, token: &str) -> u16 {
    let bearer = format!("Bearer {token}");
    running.ask("GET", "/api/v1/status", &[("Authorization", &bearer)], "").status
}

fn said(running: &Running) -> Value {
    running.read("/api/v1/status").json()["configuration"].clone()
}

#[test]
fn tokens_are_read_again_and_cookies_hold_while_they_are_the_same() {
    let running = Running::start(|_| {});
    let made = running.control();
    let login = |token: &str| {
        let answer = running.ask("POST", "/login", &[], &format!("{{\"token\": \"{token}\"}}"));
        assert_eq!(answer.status, 204);
        answer.header("set-cookie").unwrap().split(';').next().unwrap().to_owned()
    };
    let may_control = |cookie: &str| {
        running.ask("GET", "/api/v1/status", &[("Cookie", cookie)], "").json()["scopes"]
            == json!(["windows", "read", "control"])
    };
    let cookie = login(&made);
    assert_eq!(reload(&running, |_| {}), Ok(Vec::new()));
    assert!(may_control(&cookie) && with(&running, &made) == 200 && running.control() == made);
    let path = tokens(&running, FIRST);
    assert_eq!(reload(&running, |config| config.control_tokens = Some(path.clone())), Ok(vec![]));
    assert_eq!((with(&running, FIRST), with(&running, &made)), (200, 401));
    assert!(!may_control(&cookie), "whose token is not known any more");
    let cookie = login(FIRST);
    // Only what is in the file has changed.
    tokens(&running, &format!("{FIRST}\n{SECOND}"));
    assert_eq!(with(&running, SECOND), 401);
    assert_eq!(reload(&running, |config| config.control_tokens = Some(path.clone())), Ok(vec![]));
    assert_eq!((with(&running, FIRST), with(&running, SECOND)), (200, 200));
    assert!(!may_control(&cookie));
}

#[test]
fn token_file_that_got_readable_for_others_keeps_the_old_tokens() {
    let running = Running::start(|_| {});
    let path = tokens(&running, FIRST);
    let again = || reload(&running, |config| config.control_tokens = Some(path.clone()));
    assert_eq!(again(), Ok(vec![]));
    tokens(&running, SECOND);
    set_mode(&path, 0o644);
    assert!(again().unwrap_err().contains("mode 0644 lets other users read it"));
    assert_eq!((with(&running, FIRST), with(&running, SECOND)), (200, 401));
    let headers = [("Authorization", format!("Bearer {FIRST}"))];
    let headers = headers.each_ref().map(|(name, value)| (*name, value.as_str()));
    let status = running.ask("GET", "/api/v1/status", &headers, "").json();
    assert!(status["configuration"]["error"].as_str().unwrap().contains("mode 0644"));
    std::fs::remove_file(&path).unwrap();
    assert!(again().unwrap_err().contains("No such file"));
    assert_eq!((with(&running, FIRST), with(&running, SECOND)), (200, 401));
    tokens(&running, SECOND);
    assert_eq!(again(), Ok(vec![]));
    assert_eq!((with(&running, FIRST), with(&running, SECOND)), (401, 200));
}

#[test]
fn what_is_not_valid_is_told_and_everything_stays() {
    let running = Running::start(|_| {});
    let path = tokens(&running, "short");
    let why = reload(&running, |config| {
        config.control_tokens = Some(path.clone());
        config.snapshots_keep = 1;
        config.open_access = OpenAccess::Token;
    });
    assert!(why.as_ref().unwrap_err().contains("tokens, line 1"), "{why:?}");
    assert!(said(&running)["error"].as_str().unwrap().contains("tokens, line 1"));
    assert_eq!(with(&running, &running.control()), 200);
    let take = || assert_eq!(running.post("/api/v1/snapshots", "").status, 201);
    take();
    take();
    let kept = || running.read("/api/v1/snapshots").json()["snapshots"].as_array().unwrap().len();
    assert_eq!(kept(), 2);
    let why = reload(&running, |config| config.tls_key = Some("k".into()));
    assert!(why.unwrap_err().contains("set both certificate and key"));
    assert_eq!(reload(&running, |config| config.snapshots_keep = 1), Ok(vec![]));
    assert_eq!(kept(), 1);
    assert_eq!(
        (&said(&running)["error"], &said(&running)["needs_restart"]),
        (&Value::Null, &json!([]))
    );
}

#[test]
fn what_needs_a_restart_is_named_until_it_is_as_it_was() {
    let running = Running::start(|_| {});
    let change = |config: &mut Config| {
        config.window = std::time::Duration::from_secs(2);
        config.history_limit_bytes = 64 << 20;
        config.tls_certificate = Some("c".into());
        config.tls_key = Some("k".into());
        config.host_names = vec!["proxy.example".to_owned()];
    };
    let later = ["window", "tls.certificate", "tls.key", "history.limit"];
    assert_eq!(reload(&running, change).unwrap(), later);
    assert_eq!(said(&running)["needs_restart"], json!(later));
    // The rest holds.
    let host = [("Host", "proxy.example")];
    assert_eq!(running.ask("GET", "/api/v1/status", &host, "").status, 200);
    assert_eq!(reload(&running, |_| {}), Ok(vec![]));
    assert_eq!(said(&running)["needs_restart"], json!([]));
    assert_eq!(running.ask("GET", "/api/v1/status", &host, "").status, 403);
}

#[test]
fn triggers_that_are_the_same_go_on() {
    let of = |text: &str| Config::parse(text).unwrap().triggers;
    let one = "[[trigger]]\nname = \"one\"\nmatch = \"vm1\"\nwhen = \"waited_ns > 20%\"\ncooldown = \"1h\"\n";
    let two = one.replace("one", "two").replace("vm1", "vm0");
    let running = Running::start(|config| config.triggers = of(one));
    let triggers = || running.read("/api/v1/triggers").json()["triggers"].clone();
    wait_for("it fires", || triggers()[0]["fired"] == 1);
    reload(&running, |config| config.triggers = of(&format!("{two}{one}"))).unwrap();
    let names = |list: &Value| -> Vec<String> {
        list.as_array().unwrap().iter().map(|t| t["name"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(names(&triggers()), ["two", "one"]);
    assert_eq!(triggers()[1]["fired"], 1, "what it fired for is known");
    reload(&running, |_| {}).unwrap();
    assert_eq!(triggers(), json!([]));
}

/// A new certificate is what connections from then on get; one that cannot be read changes nothing.
#[test]
fn certificates_are_read_again() {
    let testdata = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/succeed/tls");
    let copy = tempfile::tempdir().unwrap();
    let (certificate, key) = (copy.path().join("c.pem"), copy.path().join("k.pem"));
    std::fs::copy(testdata.join("certificate.pem"), &certificate).unwrap();
    std::fs::copy(testdata.join("key.pem"), &key).unwrap();
    set_mode(&key, 0o600);
    let running = Running::tls(&certificate, &key);
    let change = |config: &mut Config| {
        config.tls_certificate = Some(certificate.clone());
        config.tls_key = Some(key.clone());
    };
    assert_eq!(reload(&running, change), Ok(vec![]));
    std::fs::write(&certificate, "nothing").unwrap();
    assert!(reload(&running, change).unwrap_err().contains("c.pem"));
}
