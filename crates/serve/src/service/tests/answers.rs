//! What is answered is what is described, and what was there.

use super::{Running, wait_for};
use crate::service::openapi::description;
use crate::service::routes::ROUTES;
use arrow::array::{Array, AsArray};
use arrow::datatypes::{Int64Type, UInt64Type};
use arrow::ipc::reader::StreamReader;
use serde_json::Value;
use transect_http::Method;
use transect_live::TABLES;

#[test]
fn the_newest_window_has_the_tables_that_are_wanted() {
    let running = Running::start(|_| {});
    let all = running.get("/api/v1/now").json();
    for table in TABLES {
        assert!(all[table].is_array() != (table == "health"), "{table}");
    }
    assert_eq!(all["windows"].as_array().unwrap().len(), 3 * 2 + 4);
    assert_eq!(all["window_details"][0]["lengths"], serde_json::json!([[1024, 3], [262_144, 1]]));
    let some = running.get("/api/v1/now?tables=cpu_windows%2Cmachines").json();
    assert!(some["machines"].is_array() && some["windows"].is_null());
    assert_eq!(some["run"], all["run"]);
}

#[test]
fn who_waits_gets_the_next_window() {
    let running = Running::start(|_| {});
    let mut ts = running.get("/api/v1/now?tables=health").json()["ts"].as_i64().unwrap();
    for _ in 0..10 {
        let next = running.get(&format!("/api/v1/now?tables=health&after={ts}")).json();
        let newer = next["ts"].as_i64().unwrap();
        assert!(newer > ts);
        ts = newer;
    }
    assert_eq!(running.get("/api/v1/now?after=soon").status, 400);
}

#[test]
fn arrow_has_the_rows_of_json() {
    let running = Running::start(|_| {});
    let accept = [("Accept", "application/vnd.apache.arrow.stream")];
    let answer = running.ask("GET", "/api/v1/now?tables=windows", &accept, "");
    assert_eq!(answer.header("content-type"), Some("application/vnd.apache.arrow.stream"));
    let batches: Vec<_> =
        StreamReader::try_new(&answer.body[..], None).unwrap().map(Result::unwrap).collect();
    let batch = &batches[0];
    assert_eq!((batches.len(), batch.num_rows()), (1, 10));
    let column = |name: &str| batch.column_by_name(name).unwrap();
    let executions = column("executions").as_primitive::<UInt64Type>();
    assert!(executions.iter().all(|count| count == Some(10)));
    assert_eq!(column("vcpu").null_count(), 7);
    let ended = column("ended_unix_ns").as_primitive::<UInt64Type>().value(0);
    let ts = column("window_ts").as_primitive::<Int64Type>().value(0);
    assert_eq!(
        ended,
        transect_history::synthetic::START_UNIX_NS + u64::try_from(ts).unwrap() + 1_000_000_000
    );
    for bad in ["/api/v1/now", "/api/v1/now?tables=windows,missing"] {
        assert_eq!(running.ask("GET", bad, &accept, "").status, 406, "{bad}");
    }
    // Of the past: rows of all steps.
    let answer =
        running.ask("GET", "/api/v1/history?from=-5s&step=1s&tables=cpu_windows", &accept, "");
    let rows: usize = StreamReader::try_new(&answer.body[..], None)
        .unwrap()
        .map(|batch| batch.unwrap().num_rows())
        .sum();
    assert!((2..=14).contains(&rows) && rows.is_multiple_of(2), "{rows}");
}

#[test]
fn the_past_comes_from_disk_and_memory_in_one_piece() {
    let running = Running::start(|_| {});
    // 20 ms a window: on disk after 5, the rest is in memory.
    wait_for("windows on disk", || {
        running.get("/api/v1/status").json()["history"]["windows_written"].as_u64() > Some(20)
    });
    let history = running.get("/api/v1/history?from=-40s&step=1s&tables=windows").json();
    let windows = history["windows"].as_array().unwrap();
    assert!(windows.len() > 20, "{}", windows.len());
    let ends: Vec<u64> = windows.iter().map(|w| w["ended_unix_ns"].as_u64().unwrap()).collect();
    assert!(ends.windows(2).all(|two| two[1] - two[0] == 1_000_000_000), "{ends:?}");
    let merged = running.get("/api/v1/history?from=-40s&step=10s&tables=windows").json();
    assert_eq!(merged["step_ns"], 10_000_000_000_u64);
    let sum = |steps: &Value, column: &str| -> i64 {
        let steps = steps["windows"].as_array().unwrap().iter();
        steps.filter_map(|s| s["windows"][0][column].as_i64()).sum()
    };
    // The daemon went on meanwhile.
    assert!(sum(&merged, "executions") >= sum(&history, "executions") - 100);
    for (query, hint) in [
        ("from=-24h&step=1s", "use step=1m"),
        ("from=tomorrow", "-15m"),
        ("tables=pods", "machines, windows"),
        ("form=-15m", "from, until, step, tables, machine"),
        ("from=-1m&from=-2m", "once"),
        ("from=%ff", "once"),
    ] {
        let answer = running.get(&format!("/api/v1/history?{query}"));
        assert_eq!(answer.status, 400, "{query}");
        let said = answer.json();
        assert!(
            said["error"].is_string() && said["hint"].as_str().unwrap().contains(hint),
            "{said}"
        );
    }
}

#[test]
fn snapshots_are_taken_listed_packed_and_opened() {
    let running = Running::start(|_| {});
    let taken = running.post("/api/v1/snapshots", "{\"seconds\": 3, \"reason\": \"a\\nb\"}");
    assert_eq!(taken.status, 201);
    let taken = taken.json();
    assert_eq!(
        (&taken["seconds"], &taken["reason"], &taken["events"]),
        (&3.into(), &"a b".into(), &7.into())
    );
    let id = taken["id"].as_str().unwrap();
    let list = running.read("/api/v1/snapshots").json();
    assert_eq!(list["snapshots"][0]["id"], id);
    let window = ["from_unix_ns", "until_unix_ns"].map(|name| list["snapshots"][0][name].as_i64());
    assert_eq!(window, [Some(5), Some(9)]);
    let tar = running.read(taken["tar"].as_str().unwrap());
    let mut archive = tar::Archive::new(&tar.body[..]);
    let entry = archive.entries().unwrap().next().unwrap().unwrap();
    assert_eq!(entry.path().unwrap().to_str(), Some(&*format!("{id}.transect/host.compact")));
    assert!(tar.header("content-disposition").unwrap().contains(&format!("{id}.transect.tar")));
    // The timeline's page asks its server about this recording.
    let redirect = running.read(&format!("/view/{id}"));
    assert_eq!(
        (redirect.status, redirect.header("location")),
        (302, Some(&*format!("/view/{id}/")))
    );
    wait_for("the view", || {
        let about = running.read(&format!("/view/{id}/api/recording")).json();
        about["name"] == "a snapshot" && about["building"]["error"] == "this recording is made up"
    });
    // A browser's connections are one client's, by a cookie that it gets with the page, once.
    let page = format!("/view/{id}/");
    let cookie = running.read(&page).header("set-cookie").unwrap().to_owned();
    let (name, rest) = cookie.split_once("; ").unwrap();
    assert!(name.starts_with("transect-client=") && name.len() == 16 + 32, "{cookie}");
    assert!(
        rest.contains("HttpOnly")
            && rest.contains("SameSite=Strict")
            && rest.contains("Path=/view/"),
        "{cookie}"
    );
    let bearer = format!("Bearer {}", running.control());
    let with_cookie =
        |cookie| running.ask("GET", &page, &[("Cookie", cookie), ("Authorization", &bearer)], "");
    assert_eq!(with_cookie(name).header("set-cookie"), None);
    let made_up = with_cookie("transect-client=x");
    assert!(made_up.header("set-cookie").is_some());
    assert_eq!(running.read("/view/nothing/").status, 404);
    assert_eq!(running.read("/api/v1/snapshots/nothing.tar").status, 404);
    for bad in
        ["{\"seconds\": 0}", "{\"secs\": 1}", "[]", "{\"seconds\": 601}", "{\"seconds\": \"1\"}"]
    {
        assert_eq!(running.post("/api/v1/snapshots", bad).status, 400, "{bad}");
    }
}

#[test]
fn a_snapshot_is_deleted_by_who_may() {
    let running = Running::start(|_| {});
    let take = || running.post("/api/v1/snapshots", "").json()["id"].as_str().unwrap().to_owned();
    let (goes, stays) = (take(), take());
    let path = format!("/api/v1/snapshots/{goes}");
    let dir = running.data.path().join(format!("snapshots/{goes}.transect"));
    running.read(&format!("/view/{goes}/api/recording"));
    assert_eq!(running.ask("DELETE", &path, &[], "").status, 401);
    assert!(dir.is_dir());
    assert_eq!(running.delete(&path).status, 204);
    assert!(!dir.exists() && !dir.with_extension("json").exists());
    for path in [&format!("{path}.tar"), &format!("/view/{goes}/")] {
        assert_eq!(running.read(path).status, 404, "{path}");
    }
    assert_eq!(running.delete(&path).status, 404);
    let list = running.read("/api/v1/snapshots").json();
    let ids: Vec<_> = list["snapshots"].as_array().unwrap().iter().map(|s| &s["id"]).collect();
    assert_eq!(ids, [&Value::from(stays)]);
    for bad in ["/api/v1/snapshots/", "/api/v1/snapshots/..", "/api/v1/snapshots/%2e%2e"] {
        assert!([404, 405].contains(&running.delete(bad).status), "{bad}");
    }
    assert!(running.data.path().join("history").is_dir());
}

#[test]
fn rows_of_one_machine_group_or_vcpu() {
    let running = Running::start(|_| {});
    let of = |query: &str| running.get(&format!("/api/v1/now?{query}")).json();
    let all = of("");
    let id = all["machines"].as_array().unwrap().iter().find(|m| m["name"] == "vm1").unwrap();
    let id = &id["machine_id"];
    let one = of("machine=vm1");
    // What the numbers mean is always there.
    assert_eq!(
        one["machines"].as_array().unwrap().len(),
        all["machines"].as_array().unwrap().len()
    );
    let windows = one["windows"].as_array().unwrap();
    assert_eq!(windows.len(), 2, "the VM and its vCPU");
    assert!(windows.iter().all(|row| row["machine_id"] == *id));
    assert!(one["window_details"][0]["lengths"].is_array());
    assert_eq!(
        one["thread_windows"].as_array().unwrap().len(),
        1,
        "its vCPU's thread, which the host has"
    );
    assert_eq!(one["cpu_windows"].as_array().unwrap().len(), 0);
    let vcpus = of("machine=vm*&vcpu=0&tables=windows");
    assert_eq!(vcpus["windows"].as_array().unwrap().len(), 3);
    assert!(vcpus["windows"].as_array().unwrap().iter().all(|row| row["vcpu"] == 0));
    let group = of("cgroup=/machine.slice/group1*&tables=windows,container_windows");
    assert_eq!(group["windows"].as_array().unwrap().len(), 1);
    assert_eq!(group["container_windows"].as_array().unwrap().len(), 1);
    assert_eq!(of("machine=nobody")["windows"], serde_json::json!([]));
    // The past, of which the sums are the same rows.
    let past = |query: &str| {
        let from = transect_history::synthetic::START_UNIX_NS;
        let until = from + 3_600_000_000_000;
        running.get(&format!("/api/v1/history?from={from}&until={until}&step=1h&{query}"))
    };
    let steps = past("tables=windows&machine=vm1").json();
    let rows = steps["windows"][0]["windows"].as_array().unwrap().clone();
    assert!(rows.len() == 2 && rows.iter().all(|row| row["machine_id"] == *id), "{rows:?}");
    let accept = [("Accept", "application/vnd.apache.arrow.stream")];
    let path = "/api/v1/now?tables=windows&machine=vm1&vcpu=0";
    let answer = running.ask("GET", path, &accept, "");
    let rows: usize = StreamReader::try_new(&answer.body[..], None)
        .unwrap()
        .map(|batch| batch.unwrap().num_rows())
        .sum();
    assert_eq!(rows, 1);
    for (query, hint) in [
        ("vcpu=one", "vcpu=0"),
        ("vcpu=-1", "vcpu=0"),
        ("vcpu=0&tables=windows,io_windows", "omit the table"),
        ("cgroup=/&tables=antagonists", "omit the table"),
        ("vm=vm1", "machine"),
    ] {
        let answer = running.get(&format!("/api/v1/now?{query}"));
        assert_eq!(answer.status, 400, "{query}");
        assert!(answer.json()["hint"].as_str().unwrap().contains(hint), "{query}");
    }
}

#[test]
fn the_status_says_how_far_a_snapshot_would_reach_back() {
    let running = Running::start(|_| {});
    let status = || running.get("/api/v1/status").json();
    wait_for("the recorder was asked", || status()["snapshots"]["reach_back_to_unix_ns"].is_u64());
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
    let since = status()["snapshots"]["reach_back_to_unix_ns"].as_u64().unwrap();
    let ago = now.as_secs() - since / 1_000_000_000;
    assert!((39..=44).contains(&ago), "{ago} s");
}

#[test]
fn a_trigger_takes_a_snapshot_by_itself() {
    let text = "[[trigger]]\nname = \"starved\"\nmatch = \"vm1\"\nwhen = \"waited_ns > 20%\"\nfor = \"3s\"\ncooldown = \"1h\"";
    let running =
        Running::start(|config| config.triggers = super::Config::parse(text).unwrap().triggers);
    wait_for("a snapshot", || {
        running.read("/api/v1/snapshots").json()["snapshots"].as_array().unwrap().len() == 1
    });
    let snap = running.read("/api/v1/snapshots").json()["snapshots"][0].clone();
    assert_eq!(snap["trigger"], "starved");
    assert!(snap["reason"].as_str().unwrap().contains("vm1 vCPU 0: waited_ns is 30.0%"), "{snap}");
    let trigger = running.read("/api/v1/triggers").json()["triggers"][0].clone();
    assert_eq!((&trigger["fired"], &trigger["cannot"]), (&1.into(), &Value::Null));
    assert!(trigger["fired_unix_ns"].is_u64());
    let metrics = String::from_utf8(running.get("/metrics").body).unwrap();
    assert!(metrics.contains("transect_snapshots_total{by=\"trigger\"} 1"), "{metrics}");
    assert!(running.log.lock().unwrap().iter().any(|line| line.contains("starved")));
}

/// Each route answers as described, each described path is a route, and nothing is answered with a
/// status that is not described.
#[test]
fn the_description_is_of_what_there_is() {
    let running = Running::start(|_| {});
    let described = running.get("/openapi.json").json();
    assert_eq!(described, description(ROUTES));
    let taken = running.post("/api/v1/snapshots", "").json();
    let paths = described["paths"].as_object().unwrap();
    let operations: usize = paths.values().map(|path| path.as_object().unwrap().len()).sum();
    assert_eq!(operations, ROUTES.len());
    for route in ROUTES {
        let method = match route.method {
            Method::Get => "get",
            Method::Post => "post",
            Method::Delete => "delete",
        };
        let operation = &paths[route.path][method];
        let named: Vec<&str> = operation["parameters"]
            .as_array()
            .unwrap()
            .iter()
            .filter(|param| param["in"] == "query")
            .map(|param| param["name"].as_str().unwrap())
            .collect();
        let declared: Vec<&str> = route.params.iter().map(|param| param.name).collect();
        assert_eq!(named, declared);
        let path = route.path.replace("{id}", taken["id"].as_str().unwrap());
        // Every parameter by its example; a handler that asked for another one would panic.
        let examples = route.params.iter().filter(|param| param.name != "after");
        let query: Vec<_> = examples.map(|p| format!("{}={}", p.name, p.example)).collect();
        let path = if query.is_empty() { path } else { format!("{path}?{}", query.join("&")) };
        let answer = match route.method {
            Method::Get => running.read(&path),
            Method::Post => {
                let body = route.body.unwrap_or_default().replace('…', &running.control());
                running.post(&path, &body)
            }
            // Behind it nothing is asked of this snapshot: the table has it last of those that have.
            Method::Delete => running.delete(&path),
        };
        let known = &operation["responses"][answer.status.to_string()];
        assert!(known.is_object() && answer.status < 300, "{path}: {}", answer.status);
        if answer.status == 200 {
            let kind = answer.header("content-type").unwrap().split(';').next().unwrap();
            assert!(known["content"][kind].is_object(), "{path}: {kind}");
        }
    }
    // Not everything is there.
    for (method, path, status) in [
        ("GET", "/api/v1/nothing", 404),
        ("POST", "/api/v1/now", 405),
        ("DELETE", "/api/v1/now", 405),
        ("GET", "/api/v1", 404),
        ("POST", "/x", 405),
    ] {
        assert_eq!(running.ask(method, path, &[], "").status, status, "{path}");
    }
    // All rows of an answer are as described.
    let window = running.get("/api/v1/now").json();
    for table in TABLES {
        let schema = &described["components"]["schemas"][table]["properties"];
        let rows = window[table].as_array().cloned().unwrap_or_else(|| vec![window[table].clone()]);
        for row in rows {
            for (column, value) in row.as_object().unwrap() {
                let fits = match schema[column]["type"].as_str() {
                    Some("integer") => value.is_i64() || value.is_u64(),
                    Some("string") => value.is_string(),
                    Some("number") => value.is_number(),
                    Some("boolean") => value.is_boolean(),
                    Some("array") => value.is_array(),
                    _ => false,
                };
                assert!(fits || value.is_null(), "{table}.{column}: {value}");
            }
        }
    }
}

#[test]
fn health_says_when_windows_stop() {
    let mut made = super::Made::new(1, 0);
    made.last = Some(3);
    made.pace = std::time::Duration::from_millis(300);
    let running = Running::of(made, |_| {});
    wait_for("the end", || running.get("/readyz").status == 503);
    assert_eq!(running.get("/healthz").status, 200);
    assert!(running.get("/readyz").json()["error"].as_str().unwrap().contains("that was all"));
    // What was seen is still shown, and nobody waits in vain.
    let ts = running.get("/api/v1/now?tables=health").json()["ts"].as_i64().unwrap();
    assert_eq!(running.get(&format!("/api/v1/now?after={ts}")).status, 204);
    assert!(running.daemon.as_ref().unwrap().ended().is_some());
}
