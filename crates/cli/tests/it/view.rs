//! `transect view` as its page uses it: real recordings over HTTP, what is drawn against SQL, and
//! who is refused.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "tests report by failing"
)]

use crate::view_support;
use crate::view_support::{Served, column, compact, made_up, nested, pair, testdata};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::thread;
use std::time::Duration;

/// One track's name of SQL's table, and the condition on its rows.
fn condition(track: &Value) -> (String, String) {
    let detail = track["detail"].as_str().unwrap();
    let (table, actor) = detail.split_once(" of ").unwrap();
    let words: Vec<&str> = actor.split(' ').collect();
    let equal = words.chunks(2).map(|pair| format!("{} = {}", pair[0], pair[1]));
    (table.to_owned(), equal.collect::<Vec<_>>().join(" AND "))
}

/// Every state's time in a bucket by SQL, by class as drawn.
fn by_sql(served: &Served, track: &Value, from: i64, to: i64) -> BTreeMap<String, i64> {
    let (table, of_actor) = condition(track);
    let sql = format!(
        "SELECT state, reason, sum(least(ts + dur, {to}) - greatest(ts, {from})) AS ns \
         FROM {table} WHERE {of_actor} AND ts < {to} AND ts + dur > {from} GROUP BY state, reason"
    );
    let rows = served.sql(&sql);
    let text = |row: &Value, name: &str| row[name].as_str().unwrap_or("").to_owned();
    rows.iter()
        .map(|row| {
            let key = format!("{}/{}", text(row, "state"), text(row, "reason"));
            (key, row["ns"].as_i64().unwrap())
        })
        .collect()
}

/// The same from tiles: exact ones clipped, of sums every bucket within.
fn by_tiles(
    served: &Served,
    keys: &[Value],
    track: u64,
    (level, index): (u8, i64),
    origin: i64,
) -> Drawn {
    let span = 512_i64 << level;
    let (from, to) = (origin + index * span, origin + (index + 1) * span);
    let (exact, sums) = served.tiles(level, index, 1, &[track]);
    let mut drawn = Drawn { is_exact: sums.is_empty(), ns: BTreeMap::new() };
    let name = |key: &Value| {
        let key = &keys[usize::try_from(key.as_u64().unwrap()).unwrap()];
        format!("{}/{}", key["state"].as_str().unwrap(), key["reason"].as_str().unwrap_or(""))
    };
    for row in &exact {
        let (ts, dur) = (row["ts"].as_i64().unwrap(), row["dur"].as_i64().unwrap());
        let within = (ts + dur).min(to) - ts.max(from);
        assert!(within > 0, "an interval outside of its tile");
        *drawn.ns.entry(name(&row["key"])).or_default() += within;
    }
    for row in &sums {
        let share = row["share"].as_i64().unwrap();
        *drawn.ns.entry(name(&row["key"])).or_default() += (share << level) / 65535;
    }
    drawn
}

struct Drawn {
    is_exact: bool,
    ns: BTreeMap<String, i64>,
}

/// What is drawn is true: the states of every vCPU at ten zoom levels, as intervals and as sums.
#[test]
fn tiles_are_what_sql_says_at_ten_levels() {
    let dir = tempfile::tempdir().unwrap();
    let (pair, made_up) = (pair(dir.path()), made_up(dir.path(), 200_000));
    let [exact, sums] = [pair, made_up].map(|recording| compare(dir.path(), &recording));
    assert!(exact.exact > 200, "{exact:?}");
    assert!(sums.sums > 200 && sums.exact > 200, "{sums:?}");
}

/// How many states of tiles were compared.
#[derive(Debug, Default)]
struct Compared {
    exact: usize,
    sums: usize,
}

fn compare(cache: &Path, recording: &str) -> Compared {
    let served = Served::start(cache, &[recording]);
    served.ready();
    let about = served.json("/api/recording");
    let origin: i64 = about["origin"].as_str().unwrap().parse().unwrap();
    let top = u8::try_from(about["level_max"].as_u64().unwrap()).unwrap() - 9;
    let (keys, tracks) = (served.keys(), served.tracks());
    let mut compared = Compared::default();
    for track in tracks.iter().filter(|track| track["kind"] == "vcpu").take(2) {
        let number = track["track"].as_u64().unwrap();
        for level in (0..10).map(|step| top - step) {
            // The whole recording in few tiles, or a few of the many.
            let tiles = 1_i64 << (top - level);
            for index in BTreeSet::from([0, tiles / 3, tiles / 2]) {
                let drawn = by_tiles(&served, &keys, number, (level, index), origin);
                let span = 512_i64 << level;
                let from = origin + index * span;
                let known = by_sql(&served, track, from, from + span);
                let place = format!("{recording} track {number} level {level} tile {index}");
                check(&drawn, &known, level, &place);
                let count = if drawn.is_exact { &mut compared.exact } else { &mut compared.sums };
                *count += known.len();
            }
        }
    }
    compared
}

fn check(drawn: &Drawn, known: &BTreeMap<String, i64>, level: u8, place: &str) {
    // A share is rounded to 1/65535, and gives way to 15 that would vanish; in each of 512 buckets.
    let error = if drawn.is_exact { 0 } else { 512 * (1 + 17 * (1 + (1_i64 << level) / 65535)) };
    let has_others = drawn.ns.contains_key("others/");
    let total = |ns: &BTreeMap<String, i64>| ns.values().sum::<i64>();
    let off = (total(&drawn.ns) - total(known)).abs();
    assert!(off <= 16 * error, "{place}: all together are off by {off}");
    assert!(has_others || drawn.ns.keys().eq(known.keys()), "{place}: {:?}", drawn.ns);
    for (state, ns) in drawn.ns.iter().filter(|(state, _)| *state != "others/") {
        let off = ns - known.get(state).unwrap_or_else(|| panic!("{place}: {state} is not there"));
        // What is among others is missing from its own state, never added to another.
        assert!(off <= error && (has_others || off >= -error), "{place}: {state} is off by {off}");
    }
}

#[test]
fn statistics_are_sqls() {
    let dir = tempfile::tempdir().unwrap();
    let served = Served::start(dir.path(), &[&pair(dir.path())]);
    served.ready();
    let about = served.json("/api/recording");
    let window = &about["window"];
    let number = |value: &Value| value.as_str().unwrap().parse::<i64>().unwrap();
    let (from, to) = (number(&window["from"]), number(&window["to"]));
    let (from, to) = (from + (to - from) / 4, to - (to - from) / 3);
    let tracks = served.tracks();
    let vcpu = tracks.iter().find(|track| track["kind"] == "vcpu").unwrap();
    let wish = json!({ "from": from.to_string(), "to": to.to_string(), "tracks": [vcpu["track"]] });
    let stats: Value = serde_json::from_slice(&served.post("/api/stats", &wish)).unwrap();
    let states = stats["tracks"][0]["states"].as_array().unwrap();
    let total: i64 = states.iter().map(|state| state["ns"].as_i64().unwrap()).sum();
    assert_eq!(total, to - from, "the states of a vCPU tile the range");
    assert!(states.iter().all(|state| state["key"].is_u64()), "{states:?}");
    let vm = &stats["vms"][0];
    let parts = ["gotten_ns", "waited_ns", "blocked_ns", "offline_ns", "unknown_ns"];
    let total: i64 = parts.iter().map(|part| vm[part].as_i64().unwrap()).sum();
    let vcpus = tracks.iter().filter(|track| track["kind"] == "vcpu").count();
    assert_eq!(total, (to - from) * i64::try_from(vcpus).unwrap());
    let sql = format!("SELECT count(*) AS n FROM exits WHERE ts >= {from} AND ts < {to}");
    let exits = stats["exits"].as_array().unwrap();
    let counted: i64 = exits.iter().map(|exit| exit["count"].as_i64().unwrap()).sum();
    assert_eq!(counted, served.sql(&sql)[0]["n"].as_i64().unwrap());
}

/// Every kind of recording there is opens, and has tracks.
#[test]
fn every_recording_opens() {
    let dir = tempfile::tempdir().unwrap();
    let recorded = fs::read(testdata("compact/recorded.compact")).unwrap();
    let recordings = [
        (
            pair(dir.path()),
            &[
                "cpu",
                "cpu_guest",
                "vcpu",
                "exits",
                "thread",
                "irq",
                "syscall",
                "block",
                "counter",
                "ticks",
            ][..],
        ),
        (testdata("tracedat/hypercalls.dat"), &["cpu", "ticks"]),
        (testdata("tracedat/lost-slow.dat"), &["cpu", "thread", "lost"]),
        (compact(dir.path(), "whole.transect", &recorded), &["cpu", "thread"]),
        (testdata("xentrace/live/cap.bin"), &["cpu", "vcpu", "domain"]),
        (testdata("xentrace/pv.bin"), &["cpu", "vcpu"]),
    ];
    for (recording, kinds) in recordings {
        let served = Served::start(dir.path(), &[&recording]);
        served.ready();
        let tracks = served.tracks();
        for kind in kinds {
            assert!(tracks.iter().any(|t| t["kind"] == *kind), "{recording}: no track of {kind}");
        }
        for track in tracks.iter().filter(|track| track["intervals"] != 0) {
            let parent = track["parent"].as_u64();
            assert!(tracks.iter().any(|t| t["track"].as_u64() == parent), "{track} has no parent");
        }
        let about = served.json("/api/recording");
        assert!(!about["machines"].as_array().unwrap().is_empty());
        let top = u8::try_from(about["level_max"].as_u64().unwrap()).unwrap();
        let numbers: Vec<u64> = tracks.iter().map(|t| t["track"].as_u64().unwrap()).collect();
        let (exact, sums) = served.tiles(top, 0, 1, &numbers);
        assert!(exact.len() + sums.len() > 0, "{recording} shows nothing");
    }
}

#[test]
fn facts_and_arrows_of_an_interval() {
    let dir = tempfile::tempdir().unwrap();
    let served = Served::start(dir.path(), &[&pair(dir.path())]);
    served.ready();
    let row = &served.sql(
        "SELECT ts, vcpu, by_tid FROM vcpu_states WHERE state = 'preempted' AND by_tid > 0 \
         ORDER BY ts LIMIT 1",
    )[0];
    let tracks = served.tracks();
    let track = tracks.iter().find(|t| t["kind"] == "vcpu" && t["vcpu"] == row["vcpu"]).unwrap();
    let address = format!("/api/at?track={}&ts={}", track["track"], row["ts"]);
    let facts = served.json(&address);
    assert_eq!(facts["ts"].as_str().unwrap(), row["ts"].to_string());
    assert_eq!(facts["rows"][0]["table"], "vcpu_states");
    assert_eq!(facts["rows"][0]["values"]["by_tid"], row["by_tid"]);
    assert!(facts["preemptor"]["track"].is_u64(), "{facts}");
    assert_eq!(facts["arrows"][0]["kind"], "preempt");
    assert!(facts["previous"]["ts"].is_string() && facts["next"]["ts"].is_string());
    let about = served.json("/api/recording");
    let range = json!({ "from": about["from"], "to": about["to"], "limit": 20000 });
    let kinds = column(&served.post("/api/flows", &range), "kind");
    let all = kinds.len();
    let chosen = json!({ "from": about["from"], "to": about["to"], "limit": 20000,
        "tracks": [facts["preemptor"]["track"], track["track"]] });
    let between = column(&served.post("/api/flows", &chosen), "kind");
    assert!(!between.is_empty() && between.len() < all / 2, "{} of {all}", between.len());
    assert!(between.iter().any(|kind| kind == "preempt"), "{between:?}");
    for kind in ["wakeup", "preempt", "block"] {
        assert!(kinds.iter().any(|known| known == kind), "no arrow of kind {kind}");
    }
    // From one such wait to the next, as SQL has them.
    let keys = served.keys();
    let waits = keys.iter().filter(|key| key["class"] == "preempted").map(|key| key["key"].clone());
    let wish = json!({ "from": (row["ts"].as_i64().unwrap() + 1).to_string(),
        "tracks": [track["track"]], "keys": waits.collect::<Value>() });
    let next: Value = serde_json::from_slice(&served.post("/api/next", &wish)).unwrap();
    let known = &served.sql(&format!(
        "SELECT min(ts) AS ts FROM vcpu_states WHERE state = 'preempted' AND machine_id = {} \
         AND vcpu = {} AND ts > {}",
        track["machine_id"], track["vcpu"], row["ts"]
    ))[0];
    assert_eq!(next["found"]["ts"].as_str().unwrap(), known["ts"].to_string());
    let found: Value =
        serde_json::from_slice(&served.post("/api/search", &json!({ "text": "HLT" }))).unwrap();
    assert!(!found["keys"].as_array().unwrap().is_empty());
    let (status, body) = served.ask(
        "POST",
        "/api/sql",
        Some(&json!({ "sql": "SELECT * FROM exit" })),
        &served.token(),
    );
    let error: Value = serde_json::from_slice(&body).unwrap();
    assert!(status == 400 && error["error"].as_str().unwrap().contains("exits"), "{error}");
    let perfetto = served.post(
        "/api/export",
        &json!({ "from": about["from"], "to": about["to"], "format": "perfetto" }),
    );
    assert!(perfetto.len() > 10_000);
}

/// Arrows are the causes that SQL has, of each kind and evidence; those of few are not crowded out.
#[test]
fn arrows_are_of_the_causes_kinds() {
    let dir = tempfile::tempdir().unwrap();
    let served = Served::start(dir.path(), &[&nested(dir.path())]);
    served.ready();
    let about = served.json("/api/recording");
    let range = json!({ "from": about["from"], "to": about["to"], "limit": 20000 });
    let stream = served.post("/api/flows", &range);
    let [kinds, evidence] = ["kind", "evidence"].map(|name| column(&stream, name));
    let mut drawn: BTreeMap<(String, String), u64> = BTreeMap::new();
    for both in kinds.into_iter().zip(evidence) {
        *drawn.entry(both).or_default() += 1;
    }
    // What a vCPU's thread does to itself has no arrow, and softirqs have none.
    let known = served.sql(
        "SELECT kind, evidence, count(*) AS n FROM causes WHERE kind IN ('fork', 'completion', \
         'injection', 'line') OR (kind = 'kick' AND to_tid IS NOT NULL \
         AND to_tid NOT IN (SELECT vmm_tid FROM vcpus)) GROUP BY kind, evidence",
    );
    assert_eq!(known.len(), 7, "{known:?}");
    for row in known {
        let [kind, evidence] = ["kind", "evidence"].map(|name| row[name].as_str().unwrap());
        let count = drawn.get(&(kind.to_owned(), evidence.to_owned()));
        assert_eq!(count.copied(), row["n"].as_u64(), "{kind} {evidence}: {drawn:?}");
    }
    let kinds = |drawn: &BTreeMap<(String, String), u64>| -> BTreeSet<String> {
        drawn.keys().map(|(kind, _)| kind.clone()).collect()
    };
    let all = kinds(&drawn);
    assert!(!all.contains("softirq") && all.contains("preempt") && all.contains("ipi"), "{all:?}");
    let few = json!({ "from": about["from"], "to": about["to"], "limit": 300 });
    let few = column(&served.post("/api/flows", &few), "kind");
    assert_eq!(few.len(), 300);
    assert_eq!(few.iter().cloned().collect::<BTreeSet<_>>(), all);
    assert_eq!(few.iter().filter(|kind| *kind == "fork").count(), 26, "fewer than their share");

    // A handler names the injection before it, and the thread that it woke names the handler.
    let done = &served.sql(
        "SELECT i.ts AS handler, c.ts AS done, c.ts + c.dur AS woken, c.to_tid AS tid, c.cpu, \
         c.machine_id, l.name FROM causes c JOIN irqs i ON i.machine_id = c.machine_id \
         AND i.cpu = c.cpu AND i.vector = c.vector AND i.source = 'line' AND i.ts <= c.ts \
         AND i.ts + i.dur >= c.ts JOIN irq_lines l ON l.machine_id = c.machine_id \
         AND l.irq = c.vector WHERE c.kind = 'completion' ORDER BY c.ts LIMIT 1 OFFSET 20",
    )[0];
    let tracks = served.tracks();
    let of = |kind: &str, column: &str, value: &Value| {
        let is = |t: &&Value| {
            let same = t["machine_id"] == done["machine_id"] && t[column] == *value;
            t["kind"] == kind && same
        };
        tracks.iter().find(is).unwrap()["track"].clone()
    };
    let (irq, thread) = (of("irq", "cpu", &done["cpu"]), of("thread", "tid", &done["tid"]));
    let facts = served.json(&format!("/api/at?track={irq}&ts={}", done["handler"]));
    let arrow = |kind: &str| {
        let arrows = facts["arrows"].as_array().unwrap();
        arrows.iter().find(|arrow| arrow["kind"] == kind).unwrap_or_else(|| panic!("{facts}"))
    };
    let name = done["name"].as_str().unwrap();
    assert_eq!(arrow("line")["to"], json!({ "track": irq, "ts": done["handler"].to_string() }));
    assert!(arrow("line")["what"].as_str().unwrap().contains(name), "{facts}");
    assert_eq!(arrow("completion")["to"]["track"], thread);
    let facts = served.json(&format!("/api/at?track={thread}&ts={}", done["woken"]));
    let waker = &facts["waker"];
    let label = waker["label"].as_str().unwrap();
    let cpu = &done["cpu"];
    assert!(label.starts_with(&format!("request done on CPU {cpu} (irq 2")), "{label}");
    let said = json!([waker["kind"], waker["evidence"], waker["interrupt"], waker["track"]]);
    assert_eq!(said, json!(["completion", "context", true, irq]));
}

/// Without the token, for another host, from another site, for another path: nothing.
#[test]
fn strangers_get_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let served = Served::start(dir.path(), &[&testdata("tracedat/v7-all.dat")]);
    served.ready();
    let host = served.host();
    let token = served.token();
    let bearer = token[0].clone();
    let status =
        |path: &str, headers: &[(String, String)]| served.ask("GET", path, None, headers).0;
    let header = |name: &str, value: &str| (name.to_owned(), value.to_owned());
    let own = |more: &[(String, String)]| [&[bearer.clone(), header("Host", &host)], more].concat();
    assert_eq!(status("/api/recording", &own(&[])), 200);
    let port = host.rsplit_once(':').unwrap().1;
    let local = [bearer.clone(), header("Host", &format!("localhost:{port}"))];
    assert_eq!(status("/api/recording", &local), 200);
    // No token, a wrong one, a beginning of the right one.
    assert_eq!(status("/api/recording", &[header("Host", &host)]), 401);
    let wrong = |value: &str| [header("Host", &host), header("Authorization", value)];
    assert_eq!(status("/api/recording", &wrong("Bearer 00000000000000000000000000000000")), 401);
    assert_eq!(status("/api/recording", &wrong(&bearer.1[..bearer.1.len() - 1])), 401);
    assert_eq!(status("/api/recording", &wrong("Bearer ")), 401);
    // The token in the address is for the page only, and comes back as a cookie of this site alone.
    let word = bearer.1.strip_prefix("Bearer ").unwrap();
    assert_eq!(status(&format!("/api/recording?token={word}"), &[header("Host", &host)]), 401);
    let cookie = served.cookie();
    assert!(cookie.contains("HttpOnly") && cookie.contains("SameSite=Strict"), "{cookie}");
    let cookie = header("Cookie", cookie.split(';').next().unwrap());
    assert_eq!(status("/api/recording", &[header("Host", &host), cookie.clone()]), 200);
    // A name that was made to point here, another site, a frame or a form of another site.
    for other in ["evil.example", "127.0.0.1", "127.0.0.1:1", "", "localhost.evil.example"] {
        assert_eq!(
            status("/api/recording", &[bearer.clone(), header("Host", other)]),
            403,
            "{other}"
        );
    }
    for origin in ["http://evil.example", "null", "https://127.0.0.1", "http://localhost:1"] {
        assert_eq!(status("/api/recording", &own(&[header("Origin", origin)])), 403, "{origin}");
    }
    assert_eq!(status("/api/recording", &own(&[header("Origin", &format!("http://{host}"))])), 200);
    for site in ["cross-site", "same-site"] {
        assert_eq!(status("/api/tracks", &own(&[header("Sec-Fetch-Site", site)])), 403);
    }
    // Nothing is read by path.
    for path in [
        "/../../../etc/passwd",
        "/assets/../../Cargo.toml",
        "/assets/%2e%2e/%2e%2e/etc/passwd",
        "//etc/passwd",
        "/api/../../etc/passwd",
    ] {
        let (status, body) = served.ask("GET", path, None, &own(&[]));
        assert_eq!(status, 404, "{path}: {}", String::from_utf8_lossy(&body));
    }
}

/// A program that was stopped and goes on (SIGSTOP, a freezer, a debugger) is told so in place of what it waited for.
#[test]
fn a_program_that_was_stopped_still_answers_who_was_asking() {
    let dir = tempfile::tempdir().unwrap();
    let served = Served::start(dir.path(), &[&testdata("tracedat/v7-all.dat")]);
    served.ready();
    let head = format!(
        "GET /api/recording HTTP/1.0\r\nHost: {}\r\nAuthorization: {}\r\n\r\n",
        served.host(),
        served.token()[0].1
    );
    // One had said nothing yet, the other half of what it wants.
    let mut asking = [0, head.len() / 2].map(|said| {
        let mut stream = TcpStream::connect(served.host()).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(120))).unwrap();
        stream.write_all(&head.as_bytes()[..said]).unwrap();
        (stream, said)
    });
    thread::sleep(Duration::from_millis(300));
    served.stop_and_go_on();
    for (stream, said) in &mut asking {
        stream.write_all(&head.as_bytes()[*said..]).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        assert!(answer.starts_with("HTTP/1.1 200 "), "{said} bytes before: {answer:?}");
    }
}

#[test]
fn only_this_machine_is_listened_on() {
    let dir = tempfile::tempdir().unwrap();
    let output = view_support::transect(
        dir.path(),
        &["view", "--api-only", "--listen", "0.0.0.0:0", &testdata("tracedat/v7-all.dat")],
    );
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!output.status.success() && error.contains("127.0.0.1"), "{error}");
    let output = view_support::transect(dir.path(), &["view", "--api-only", "/nowhere"]);
    assert!(!output.status.success());
}

/// A recording whose file was cut in the middle opens with what it has, and says what is missing.
#[test]
fn half_a_recording_opens_and_says_so() {
    let dir = tempfile::tempdir().unwrap();
    let half = |name: &str| {
        let whole = fs::read(testdata(name)).unwrap();
        whole[..whole.len() / 2 + 1].to_vec()
    };
    let xen = dir.path().join("half.bin");
    fs::write(&xen, half("xentrace/live/cap.bin")).unwrap();
    let host = compact(dir.path(), "half.transect", &half("compact/recorded.compact"));
    for recording in [host.as_str(), xen.to_str().unwrap()] {
        let served = Served::start(dir.path(), &[recording]);
        served.ready();
        let about = served.json("/api/recording");
        let problems = about["problems"].as_array().unwrap();
        let says = problems.iter().any(|problem| problem["data_loss"] == true);
        assert!(says, "{recording}: {problems:?}");
        assert!(served.tracks().iter().any(|track| track["intervals"] != 0), "{recording}");
        let ended =
            problems.iter().any(|p| p["message"].as_str().unwrap().contains("did not shut down"));
        assert_eq!(ended, recording == host, "{problems:?}");
    }
}

/// What is no recording says so on the page and does not end the server.
#[test]
fn no_recording_is_told() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("noise.dat");
    fs::write(&file, [7; 5000]).unwrap();
    let served = Served::start(dir.path(), &[file.to_str().unwrap()]);
    let building = served.wait_until_over();
    assert_eq!(building["state"], "failed");
    assert!(building["error"].as_str().unwrap().contains("noise.dat"), "{building}");
    assert_eq!(served.ask("GET", "/api/tracks", None, &served.token()).0, 503);
}

/// Tiles that are damaged while they are served are made again.
#[test]
fn damaged_tiles_are_made_again() {
    let dir = tempfile::tempdir().unwrap();
    let recording = pair(dir.path());
    let served = Served::start(dir.path(), &[&recording]);
    served.ready();
    let tracks = served.tracks();
    let track = tracks.iter().find(|track| track["kind"] == "vcpu").unwrap();
    let number = track["track"].as_u64().unwrap();
    let (known, _) = served.tiles(30, 0, 1, &[number]);
    let view = Path::new(&recording).join("view");
    let name = |path: &Path| path.file_name().unwrap().to_str().unwrap().to_owned();
    let file = fs::read_dir(&view).unwrap().map(|entry| entry.unwrap().path());
    let file = file.into_iter().find(|path| name(path).contains("vcpu_states")).unwrap();
    let mut bytes = fs::read(&file).unwrap();
    bytes[100] ^= 0x55;
    // In place: the server has the file open.
    fs::write(&file, &bytes).unwrap();
    let wish = json!({ "level": 30, "first": 0, "count": 1, "tracks": [number] });
    let (status, _) = served.ask("POST", "/api/tiles", Some(&wish), &served.token());
    assert_eq!(status, 503);
    served.ready();
    let (again, _) = served.tiles(30, 0, 1, &[number]);
    assert_eq!(again, known);
}

/// Requests for tiles that would cost more than they show are errors of the client.
#[test]
fn repeated_tracks_and_levels_without_sums_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    let served = Served::start(dir.path(), &[&pair(dir.path())]);
    served.ready();
    let level_max = served.json("/api/recording")["level_max"].as_u64().unwrap();
    let tracks = served.tracks();
    let number = tracks.iter().find(|t| t["kind"] == "vcpu").unwrap()["track"].as_u64().unwrap();
    let ask = |level: u64, tracks: &[u64]| {
        let wish = json!({ "level": level, "first": 0, "count": 1, "tracks": tracks });
        served.ask("POST", "/api/tiles", Some(&wish), &served.token()).0
    };
    assert_eq!(ask(level_max, &[number]), 200);
    assert_eq!(ask(level_max + 1, &[number]), 400);
    assert_eq!(ask(level_max, &[number, number]), 400);
}

/// Under Xen, too, an arrow and the facts lead from a vCPU that waits to the one that has the CPU.
#[test]
fn under_xen_a_vcpu_preempts() {
    let dir = tempfile::tempdir().unwrap();
    let served = Served::start(dir.path(), &[&testdata("xentrace/live/cap.bin")]);
    served.ready();
    let waits = served.sql(
        "SELECT ts, dur, machine_id, vcpu, cpu, by_machine_id FROM vcpu_states \
         WHERE state = 'preempted' AND by_machine_id IS NOT NULL ORDER BY ts LIMIT 20",
    );
    assert!(waits.len() > 5, "{waits:?}");
    let tracks = served.tracks();
    let of = |machine: &Value, vcpu: &Value| {
        let is =
            |t: &&Value| t["kind"] == "vcpu" && t["machine_id"] == *machine && t["vcpu"] == *vcpu;
        tracks.iter().find(is).unwrap()["track"].clone()
    };
    for row in &waits {
        let (track, ts) = (of(&row["machine_id"], &row["vcpu"]), &row["ts"]);
        let facts = served.json(&format!("/api/at?track={track}&ts={ts}"));
        let end = ts.as_i64().unwrap() + row["dur"].as_i64().unwrap();
        let had = &served.sql(&format!(
            "SELECT vcpu_machine_id, vcpu FROM cpu_slices WHERE cpu = {} AND machine_id = 0 \
             AND vcpu_machine_id = {} AND ts < {end} AND ts + dur > {ts} ORDER BY ts LIMIT 1",
            row["cpu"], row["by_machine_id"]
        ))[0];
        let culprit = of(&had["vcpu_machine_id"], &had["vcpu"]);
        assert_eq!(facts["preemptor"]["track"], culprit, "{facts}");
        let range = json!({ "from": ts.to_string(), "to": (ts.as_i64().unwrap() + 1).to_string(),
            "tracks": [track, culprit] });
        assert_eq!(column(&served.post("/api/flows", &range), "kind"), ["preempt"]);
    }
}

/// Whoever waits for a recording's tables is told how much of it has been read, of how much.
#[test]
fn progress_has_a_share() {
    let dir = tempfile::tempdir().unwrap();
    let served = Served::start(dir.path(), &[&made_up(dir.path(), 600_000)]);
    let told = served.progress();
    let mut last = BTreeMap::new();
    for event in &told {
        let (stage, done, total) = (&event["stage"], &event["done"], &event["total"]);
        let (done, total) = (done.as_u64().unwrap(), total.as_u64().unwrap());
        assert!(total == 0 || done <= total, "{event}");
        let before: u64 = last.insert(stage.to_string(), done).unwrap_or(0);
        assert!(done >= before, "{event} after {before}");
    }
    let of = |stage: &str| told.iter().filter(|event| event["stage"] == stage).collect::<Vec<_>>();
    assert_eq!(told.last().unwrap()["state"], "ready", "{told:?}");
    // How often it is told depends on the machine; what is told says how much of how much.
    for stage in ["rows", "events", "tiles"] {
        assert!(of(stage).iter().all(|event| event["total"] != 0), "{stage}: {told:?}");
    }
    let stages = ["rows", "events", "tiles"].map(|stage| of(stage).len());
    assert!(stages.iter().sum::<usize>() > 0, "nothing was told: {told:?}");
}

#[test]
fn without_the_engine_the_page_has_all_but_sql() {
    let cache = tempfile::tempdir().unwrap();
    let (_dir, alone) = view_support::alone();
    let served = Served::by(&alone, cache.path(), &[&pair(cache.path())]);
    served.ready();
    let about = served.json("/api/recording");
    assert!(about["machines"].as_array().unwrap().len() > 1, "{about}");
    let track = served.tracks().into_iter().find(|track| track["kind"] == "vcpu").unwrap();
    let number = track["track"].as_u64().unwrap();
    let (exact, _) = served.tiles(30, 0, 1, &[number]);
    let ts = exact[0]["ts"].as_i64().unwrap();
    let at = served.json(&format!("/api/at?track={number}&ts={ts}"));
    assert!(!at["rows"].as_array().unwrap().is_empty(), "{at}");
    let range = json!({ "from": about["from"], "to": about["to"], "tracks": [number] });
    assert!(!served.post("/api/flows", &range).is_empty());
    let sql = json!({ "sql": "SELECT 1" });
    let (status, said) = served.ask("POST", "/api/sql", Some(&sql), &served.token());
    let said = String::from_utf8(said).unwrap();
    assert!(
        status == 501 && said.contains("transect-sql") && said.contains("make build"),
        "{said}"
    );
    let stats: Value = serde_json::from_slice(&served.post("/api/stats", &range)).unwrap();
    assert!(stats["missing"].as_str().unwrap().contains("transect-sql"), "{stats}");
    assert!(!stats["tracks"][0]["states"].as_array().unwrap().is_empty(), "{stats}");
}

#[test]
fn a_client_that_leaves_takes_its_query_with_it() {
    let cache = tempfile::tempdir().unwrap();
    let served = Served::start(cache.path(), &[&pair(cache.path())]);
    served.ready();
    assert_eq!(served.sql("SELECT 7 AS n")[0]["n"], 7);
    let before = served.engines();
    assert_eq!(before.len(), 1, "one child for the one who may ask");
    let endless = "SELECT count(*) FROM events a, events b, events c WHERE a.ts * 3 > b.ts + c.ts";
    let body = json!({ "sql": endless }).to_string();
    let mut stream = TcpStream::connect(served.host()).unwrap();
    let (name, token) = served.token().remove(0);
    let head = format!(
        "POST /api/sql HTTP/1.1\r\nHost: {}\r\n{name}: {token}\r\nContent-Length: {}\r\n\r\n{body}",
        served.host(),
        body.len()
    );
    stream.write_all(head.as_bytes()).unwrap();
    thread::sleep(Duration::from_millis(500));
    drop(stream);
    // Stopped, or ended and made again: the next question waits for no more than that.
    assert_eq!(served.sql("SELECT 8 AS n")[0]["n"], 8);
    assert_eq!(served.engines().len(), 1);
}
