#![allow(clippy::unwrap_used, reason = "tests report by failing")]

use super::*;
use std::time::Duration;

#[test]
fn what_is_printed_is_what_is_read() {
    let defaults = Config::default();
    assert_eq!(Config::parse(&defaults.print()).unwrap(), defaults);
    let trigger =
        "[[trigger]]\nname = \"starved\"\nof = \"vcpu\"\nwhen = \"waited_ns > 20%\"\nfor = \"3s\"";
    let mut other = Config::parse(trigger).unwrap();
    other.read_tokens = Some("/a \"b\"\\c".into());
    other.history_keep = Duration::from_secs(90_000);
    other.listen = "[::1]:80".parse().unwrap();
    other.host_names = vec!["proxy.example".to_owned()];
    (other.questions_per_minute, other.children_per_client) = (2, 4);
    other.open_access = OpenAccess::All;
    assert_eq!(other.triggers.len(), 1);
    assert_eq!(Config::parse(&other.print()).unwrap(), other);
    assert_eq!(Config::parse("").unwrap(), defaults);
}

#[test]
fn every_mistake_is_named_with_line_and_field() {
    let wrong = [
        ("listen = \"somewhere\"", "line 1: listen: \"somewhere\"; it must be an address"),
        ("\n\nwindow = 1", "line 3: window: 1; it must be a duration"),
        ("window = \"2m\"", "line 1: window"),
        (
            "wnidow = \"1s\"",
            "line 1: wnidow: unknown setting above the first section; the settings there are listen,",
        ),
        (
            "[acess]\nread = \"local\"",
            "line 1: unknown section [acess]; the sections are access, tls, limits",
        ),
        (
            "[access]\nread = \"local\"",
            "line 2: access.read: \"local\"; it must be \"windows\", \"all\" or \"token\"",
        ),
        ("[history]\nlimit = \"1KiB\"", "line 2: history.limit"),
        ("[history]\nlimit = 5", "line 2: history.limit: 5; it must be a size"),
        ("[limits]\nconnections = -1", "line 2: limits.connections: -1"),
        ("[limits]\nquestions_per_minute = 0", "line 2: limits.questions_per_minute: 0"),
        ("[limits]\nchildren_per_client = 0", "line 2: limits.children_per_client: 0"),
        (
            "[limits]\nchildren_per_client = 5",
            "line 2: limits.children_per_client: 5; it must be a whole number from 1 to 4",
        ),
        ("[limits]\nconnections = 99999999999999999999", "line 2: limits.connections"),
        ("[tls]\nkey = \"a\"", "tls: set both certificate and key"),
        ("listen = \"0.0.0.0:1\"", "listen: 0.0.0.0:1 is not a loopback address: set [tls]"),
        ("listen = \"0.0.0.0:1\"\n[tls]\ncertificate = \"a\"\nkey = \"b\"", "access.read_tokens"),
        ("[history]\nkeep = \"1h\"", "history: windows_for and ten_seconds_for"),
        ("a = ", "line 1: "),
        (
            "[[trigger]]\nname = \"a\"\nof = \"vcpu\"\nwhen = \"wait > 1\"",
            "line 4: trigger: when: ",
        ),
        ("[[trigger]]\nname = \"a\"\nof = \"pod\"\nwhen = \"exits > 1\"", "line 3: trigger: of: "),
        ("[[trigger]]\nname = \"a\"\nof = \"vm\"", "line 1: trigger: when: "),
        ("[[trigger]]\nname = 5", "line 2: trigger: name: 5; it must be in quotes"),
        ("trigger = 5", "line 1: trigger"),
        ("history = 5", "line 1: history: unknown setting"),
        ("host_names = [\"a b\"]", "line 1: host_names"),
    ];
    for (text, wanted) in wrong {
        let said = Config::parse(text).unwrap_err();
        assert!(said.contains(wanted) && !said.contains('\n'), "{text:?}: {said}");
    }
}

#[test]
fn another_address_is_served_with_tokens_and_tls_or_when_insecure_is_said() {
    let address = "listen = \"0.0.0.0:1\"\n";
    let tls = "[tls]\ncertificate = \"a\"\nkey = \"b\"\n";
    for good in ["[access]\ninsecure = true\n", &format!("[access]\nread_tokens = \"t\"\n{tls}")] {
        Config::parse(&format!("{address}{good}")).unwrap();
    }
}
