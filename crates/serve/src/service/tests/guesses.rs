//! Wrong tokens are slowed down; those that have logged in are not.

use super::Running;

fn wrong(running: &Running, number: usize) -> (u16, Option<u64>) {
    let token = format!("Bearer 0123456789abcdef-{number}");
    // Three ways to show one.
    let answer = match number % 3 {
        0 => running.ask("GET", "/api/v1/now?tables=health", &[("Authorization", &token)], ""),
        1 => running.ask("POST", "/login", &[], &format!("{{\"token\": \"{token}\"}}")),
        _ => running.get(&format!("/?token={number}")),
    };
    (answer.status, answer.header("retry-after").and_then(|text| text.parse().ok()))
}

#[test]
fn wrong_tokens_of_a_client_are_slowed_down() {
    let running = Running::start(|_| {});
    let login = format!("{{\"token\": \"{}\"}}", running.control());
    let login = || running.ask("POST", "/login", &[], &login);
    let cookie = login().header("set-cookie").unwrap().split(';').next().unwrap().to_owned();
    let answers: Vec<_> = (0..300).map(|number| wrong(&running, number)).collect();
    let looked_at = answers.iter().filter(|answer| **answer == (401, None)).count();
    let refused =
        answers.iter().filter(|(status, wait)| *status == 429 && *wait >= Some(1)).count();
    assert_eq!(looked_at + refused, answers.len(), "{answers:?}");
    // A machine on which this takes a minute has looked at some more.
    assert!((9..=20).contains(&looked_at), "{looked_at}");
    let (status, wait_s) = answers[299];
    assert!(status == 429 && wait_s >= Some(1), "{status} {wait_s:?}");
    // No answer is worth a guess: the right token is not looked at either.
    let right = running.read("/api/v1/status");
    assert_eq!(right.status, 429);
    let uid = rustix::process::geteuid().as_raw();
    let said = right.json()["error"].as_str().unwrap().to_owned();
    assert!(said.contains(&format!("too many wrong tokens of user {uid}")), "{said}");
    assert_eq!(login().status, 429);
    // Requests without a token, and cookies that were given before, go on.
    assert_eq!(running.get("/api/v1/status").status, 200);
    let with = running.ask("GET", "/api/v1/snapshots", &[("Cookie", &cookie)], "");
    assert_eq!(with.status, 200);
    super::wait_for("the brake is off", || running.read("/api/v1/status").status == 200);
}

/// A browser with a cookie of an earlier run can log in: it shows the old one once.
#[test]
fn cookies_without_a_valid_signature_count_as_wrong_tokens() {
    let running = Running::start(|_| {});
    let name = format!("transect-serve-{}", running.address.port());
    let ask = |number: u32| {
        let cookie = format!("{name}=c.99999999999.{number:064x}");
        running.ask("GET", "/api/v1/now?tables=health", &[("Cookie", &cookie)], "")
    };
    let first = ask(1);
    assert!(first.status == 200 && first.header("set-cookie").unwrap().contains("Max-Age=0"));
    assert_eq!(running.read("/api/v1/status").status, 200);
    let refused = (2..100).map(ask).filter(|answer| answer.status == 429).count();
    assert!(refused > 80, "{refused}");
}
