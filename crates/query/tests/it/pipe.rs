//! The engine as a process of its own: what it answers, what ends it, and what does not.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "tests report by failing"
)]

use crate::common;
use std::io::{Read as _, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};
use transect_ask::protocol::{self, Form, Hello, Kind, Part, Query, Refusal, Request};
use transect_ask::{AskError, Client, Engine, Limits, MAX_CHILDREN, Options, Patience, Pool};
use transect_query::arrow::array::{AsArray, RecordBatch};
use transect_query::arrow::datatypes::Int64Type;
use transect_query::{Database, Stop};

const ENGINE: &str = env!("CARGO_BIN_EXE_transect-sql");
/// It compares more pairs of rows than anybody waits for.
const ENDLESS: &str = "SELECT count(*) AS n FROM range(3000000) AS a, range(3000000) AS b \
                       WHERE a.value * 7 > b.value * 11 + 3";

fn options() -> Options {
    Options { memory_bytes: 64 << 20, threads: 2, ..Options::default() }
}

fn engine(tables: &Path) -> Engine {
    Engine::start(Path::new(ENGINE), tables, &options()).unwrap()
}

fn pool() -> Pool {
    Pool::of(|| Ok(PathBuf::from(ENGINE)), options())
}

fn query(sql: &str) -> Query {
    Query { sql: sql.to_owned(), ..Query::default() }
}

fn ask(engine: &mut Engine, sql: &str) -> Result<Vec<RecordBatch>, AskError> {
    engine.ask(&query(sql), &Patience::default()).map(|answer| answer.batches().unwrap())
}

fn refusal(error: AskError) -> Refusal {
    match error {
        AskError::Refused(refusal) => refusal,
        other => panic!("{other}"),
    }
}

fn number(batches: &[RecordBatch]) -> i64 {
    batches[0].column(0).as_primitive::<Int64Type>().value(0)
}

#[test]
fn a_child_answers_what_the_library_does() {
    let (dir, database) = common::open();
    let mut engine = engine(dir.path());
    for sql in [
        "SELECT * FROM exits ORDER BY ts",
        "SELECT * FROM antagonists",
        "SELECT * FROM ev_sched_switch",
        "SELECT reason, quantiles(dur, [0.5, 0.9]) AS q FROM exits GROUP BY reason ORDER BY reason",
        "SELECT * FROM exits WHERE ts < 0",
        "SHOW TABLES",
    ] {
        let mut rows = database.run(database.parse(sql).unwrap().remove(0)).unwrap();
        let mut expected = Vec::new();
        while let Some(batch) = rows.next(&Stop::never()).unwrap() {
            expected.push(batch);
        }
        let query = query(sql);
        let answer = engine.ask(&query, &Patience::default()).unwrap();
        let batches = answer.batches().unwrap();
        let count: usize = expected.iter().map(RecordBatch::num_rows).sum();
        assert_eq!(answer.end.rows, count as u64, "{sql}");
        assert!(!answer.end.truncated, "{sql}");
        let text = |batches: &[RecordBatch]| {
            let options = transect_query::arrow::util::display::FormatOptions::default();
            let mut lines = Vec::new();
            for batch in batches {
                for row in 0..batch.num_rows() {
                    let cells = batch.columns().iter().map(|column| {
                        let cells = transect_query::arrow::util::display::ArrayFormatter::try_new(
                            column, &options,
                        );
                        cells.unwrap().value(row).to_string()
                    });
                    lines.push(cells.collect::<Vec<_>>());
                }
            }
            lines.sort();
            lines
        };
        assert_eq!(text(&batches), text(&expected), "{sql}");
    }
}

#[test]
fn mistakes_have_a_place_and_end_nothing() {
    let dir = common::fixture();
    let mut engine = engine(dir.path());
    let bad = refusal(ask(&mut engine, "SELECT *\nFROM exit").unwrap_err());
    assert_eq!((bad.kind, bad.line, bad.column), (Kind::Sql, Some(2), Some(6)), "{bad:?}");
    assert!(
        bad.message.starts_with("line 2, column 6: ") && bad.message.contains("exits"),
        "{bad:?}"
    );
    let bad = refusal(ask(&mut engine, "SELECT 1; SELECT 2").unwrap_err());
    assert_eq!((bad.kind, bad.line), (Kind::Sql, None), "{bad:?}");
    let bad = refusal(ask(&mut engine, "SELECT 1 FROM WHERE").unwrap_err());
    assert_eq!((bad.kind, bad.line), (Kind::Sql, Some(1)), "{bad:?}");
    assert_eq!(number(&ask(&mut engine, "SELECT 7").unwrap()), 7);
}

#[test]
fn values_stand_for_their_places_and_are_no_sql() {
    let dir = common::fixture();
    let mut engine = engine(dir.path());
    let mut of = |sql: &str, parameters: serde_json::Value| {
        let parameters = parameters.as_array().unwrap().clone();
        let query = Query { parameters, ..query(sql) };
        engine.ask(&query, &Patience::default()).map(|answer| answer.batches().unwrap())
    };
    let hostile = "' OR 1 = 1 --";
    let found = of("SELECT count(*) FROM machines WHERE name = $1", serde_json::json!([hostile]));
    assert_eq!(number(&found.unwrap()), 0);
    assert_eq!(number(&of("SELECT $1 + $2", serde_json::json!([40, 2])).unwrap()), 42);
    let missing = refusal(of("SELECT $1 + $2", serde_json::json!([40])).unwrap_err());
    assert_eq!(missing.kind, Kind::Sql, "{missing:?}");
    let bad = refusal(of("SELECT $1", serde_json::json!([[1]])).unwrap_err());
    assert_eq!(bad.kind, Kind::Sql, "{bad:?}");
}

#[test]
fn an_answer_is_cut_at_its_limits_and_says_so() {
    let dir = common::fixture();
    let mut engine = engine(dir.path());
    let mut of = |sql: &str, limits: Limits| {
        engine.ask(&Query { limits, ..query(sql) }, &Patience::default())
    };
    let all = Limits::default();
    let answer = of("SELECT * FROM range(100000)", Limits { rows: 10, ..all }).unwrap();
    let rows: usize = answer.batches().unwrap().iter().map(RecordBatch::num_rows).sum();
    assert_eq!((rows, answer.end.rows, answer.end.truncated), (10, 10, true));
    let answer = of("SELECT * FROM range(10)", Limits { rows: 10, ..all }).unwrap();
    assert_eq!((answer.end.rows, answer.end.truncated), (10, false));
    let answer = of("SELECT * FROM range(1000000)", Limits { bytes: 1 << 20, ..all }).unwrap();
    assert!(
        answer.end.truncated && answer.end.rows > 0 && answer.end.rows < 200_000,
        "{:?}",
        answer.end
    );
    let error = of("SELECT repeat('x', 3000000)", Limits { bytes: 1 << 20, ..all }).unwrap_err();
    assert!(refusal(error).message.contains("more than the limit of an answer"));
    let answer = of("SELECT * FROM range(3)", Limits { rows: 0, ..all }).unwrap();
    assert_eq!((answer.end.rows, answer.end.truncated), (0, true));
}

#[test]
fn a_query_ends_when_its_time_is_over() {
    let dir = common::fixture();
    let pool = pool();
    let client = Client::named("user 1", "a");
    let limits = Limits { ms: 300, ..Limits::default() };
    let slow = Query { limits, ..query(ENDLESS) };
    let error = pool.ask(&client, dir.path(), &slow, &Patience::default()).unwrap_err();
    assert!(matches!(error, AskError::TooLong(_)), "{error}");
    let answer = pool.ask(&client, dir.path(), &query("SELECT 7"), &Patience::default()).unwrap();
    assert_eq!(number(&answer.batches().unwrap()), 7);
}

#[test]
fn what_takes_all_memory_ends_a_child_and_not_who_asks() {
    let dir = common::fixture();
    let pool = pool();
    let client = Client::named("user 1", "a");
    let huge = query("SELECT repeat('x', 2000000000)");
    let error = pool.ask(&client, dir.path(), &huge, &Patience::default()).unwrap_err();
    assert!(matches!(error, AskError::Ended(_)), "{error}");
    let begin = "the query engine ended: memory allocation of 2000000000 bytes failed (signal: 6";
    assert!(error.to_string().starts_with(begin), "{error}");
    assert_eq!(error.to_string().lines().count(), 1, "{error}");
    assert_eq!(pool.children(), 0);
    let answer = pool.ask(&client, dir.path(), &query("SELECT 7"), &Patience::default()).unwrap();
    assert_eq!(number(&answer.batches().unwrap()), 7);
}

#[test]
fn what_nobody_wants_is_stopped_and_the_child_goes_on() {
    let dir = common::fixture();
    let mut engine = engine(dir.path());
    let wanted = AtomicBool::new(true);
    thread::scope(|scope| {
        scope.spawn(|| {
            thread::sleep(Duration::from_millis(300));
            wanted.store(false, Ordering::Relaxed);
        });
        let patience = Patience { wanted: &|| wanted.load(Ordering::Relaxed) };
        let error = engine.ask(&query(ENDLESS), &patience).unwrap_err();
        assert!(matches!(error, AskError::Stopped), "{error}");
    });
    if engine.is_usable() {
        assert_eq!(number(&ask(&mut engine, "SELECT 7").unwrap()), 7);
    }
}

#[test]
fn cancellation_within_a_frame_ends_the_child() {
    let dir = tempfile::tempdir().unwrap();
    let torn = dir.path().join("torn");
    // An Arrow frame of 100 bytes of which 10 come; they look like frames themselves.
    write_script(&torn, r"printf '\144\0\0\0A\0\0\0\0E\0\0\0\0E'; exec sleep 60");
    let mut engine = Engine::start(&torn, dir.path(), &options()).unwrap();
    let error = engine.ask(&query("SELECT 1"), &Patience { wanted: &|| false }).unwrap_err();
    assert!(matches!(error, AskError::Stopped), "{error}");
    assert!(!engine.is_usable());
}

/// A child that was taken over cannot make its client reserve memory.
#[test]
fn lengths_beyond_the_limits_are_not_believed() {
    let dir = tempfile::tempdir().unwrap();
    // Arrow of 4 GiB less a byte, an end of 1 MiB, a refusal of 1 MiB.
    for (name, head) in [("a", r"\377\377\377\377A"), ("e", r"\0\0\020\0E"), ("x", r"\0\0\020\0X")]
    {
        let liar = dir.path().join(name);
        write_script(&liar, &format!("printf '{head}'\nexec sleep 60"));
        let limits = Limits { bytes: 1 << 20, ..Limits::default() };
        for wanted in [true, false] {
            let mut engine = Engine::start(&liar, dir.path(), &options()).unwrap();
            let query = Query { limits, ..query("SELECT 1") };
            let error = engine.ask(&query, &Patience { wanted: &|| wanted }).unwrap_err();
            assert!(!engine.is_usable(), "{name}: {error}");
        }
    }
}

/// A program in place of the engine: a greeting, then `body` of a shell script.
fn write_script(path: &Path, body: &str) {
    write_script_with(path, &Hello::ours(), body);
}

fn write_script_with(path: &Path, hello: &Hello, body: &str) {
    let hello = serde_json::to_string(hello).unwrap();
    let length = hello.len();
    let script = format!("#!/bin/sh\nprintf '\\{length:03o}\\0\\0\\0H%s' '{hello}'\n{body}\n");
    std::fs::write(path, script).unwrap();
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755)).unwrap();
}

#[test]
fn child_that_sends_without_end_is_ended() {
    let dir = tempfile::tempdir().unwrap();
    let empty = dir.path().join("empty");
    write_script(&empty, r"while :; do printf '\0\0\0\0A'; done");
    let mut engine = Engine::start(&empty, dir.path(), &options()).unwrap();
    let error = engine.ask(&query("SELECT 1"), &Patience::default()).unwrap_err();
    assert!(matches!(error, AskError::Confused(_)), "{error}");
    let small = dir.path().join("small");
    write_script(&small, r"while :; do printf '\1\0\0\0Ax'; done");
    let mut engine = Engine::start(&small, dir.path(), &options()).unwrap();
    let error = engine.ask(&query("SELECT 1"), &Patience { wanted: &|| false }).unwrap_err();
    assert!(matches!(error, AskError::Stopped) && !engine.is_usable(), "{error}");
    let mut engine = Engine::start(&small, dir.path(), &options()).unwrap();
    let limits = Limits { ms: 100, ..Limits::default() };
    let timed = Query { limits, ..query("SELECT 1") };
    let error = engine.ask(&timed, &Patience::default()).unwrap_err();
    assert!(matches!(error, AskError::TooLong(_)) && !engine.is_usable(), "{error}");
}

#[test]
fn rows_as_json_are_lines() {
    let dir = common::fixture();
    let mut engine = engine(dir.path());
    let sql = "SELECT 1 AS a, NULL AS b, 'x' AS c, 0.5 AS d, CAST('NaN' AS DOUBLE) AS e \
               UNION ALL SELECT -9223372036854775808, NULL, '\n', 2, 1 ORDER BY a DESC";
    let query = Query { form: Form::Json, ..query(sql) };
    let answer = engine.ask(&query, &Patience::default()).unwrap();
    let text = String::from_utf8(answer.bytes).unwrap();
    let rows: Vec<serde_json::Value> =
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let wanted = serde_json::json!([
        { "a": 1, "b": null, "c": "x", "d": 0.5, "e": null },
        { "a": i64::MIN, "b": null, "c": "\n", "d": 2.0, "e": 1.0 },
    ]);
    assert_eq!(serde_json::Value::from(rows), wanted);
    assert_eq!(answer.end.rows, 2);
}

/// The engine without a client around it.
fn bare(tables: &Path) -> Child {
    let mut command = Command::new(ENGINE);
    command.args(["--pipe", "--threads=2", "--memory=64M"]).arg(tables);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

/// Waits for its end; it is a failure if it does not come.
fn ended(child: &mut Child) -> std::process::ExitStatus {
    let until = Instant::now() + Duration::from_secs(60);
    loop {
        match child.try_wait().unwrap() {
            Some(status) => return status,
            None if Instant::now() > until => {
                let _ = child.kill();
                panic!("it goes on");
            }
            None => thread::sleep(Duration::from_millis(10)),
        }
    }
}

#[test]
fn a_child_ends_with_who_asked_in_the_middle_of_a_query() {
    let dir = common::fixture();
    let mut child = bare(dir.path());
    let mut from = child.stdout.take().unwrap();
    let (part, hello) = protocol::read(&mut from, 1 << 20).unwrap().unwrap();
    assert_eq!((part, protocol::parse(&hello)), (Part::Hello, Ok(Hello::ours())));
    let mut to = child.stdin.take().unwrap();
    let request = Request::Query { id: 1, query: query(ENDLESS) };
    protocol::write_json(&mut to, Part::Request, &request).unwrap();
    thread::sleep(Duration::from_millis(200));
    assert!(child.try_wait().unwrap().is_none(), "it still works");
    drop(to);
    assert!(ended(&mut child).success());
    assert_eq!(from.read(&mut [0]).unwrap(), 0, "nothing was answered");
}

#[test]
fn what_is_no_request_ends_a_child_with_one_line() {
    let dir = common::fixture();
    for bytes in [
        &b"\x04\0\0\0Q{}{}"[..],
        b"\xff\xff\xff\xffQ",
        b"\x02\0\0\0A{}",
        b"GET / HTTP/1.1\r\n\r\n",
        b"\x05\0",
    ] {
        let mut child = bare(dir.path());
        child.stdin.take().unwrap().write_all(bytes).unwrap();
        assert_eq!(ended(&mut child).code(), Some(1), "{bytes:?}");
        let mut said = String::new();
        child.stderr.take().unwrap().read_to_string(&mut said).unwrap();
        assert_eq!(said.lines().count(), 1, "{said}");
    }
}

#[test]
fn tables_that_are_not_there_and_another_version_are_told() {
    let dir = tempfile::tempdir().unwrap();
    let error = Engine::start(Path::new(ENGINE), &dir.path().join("none"), &options()).unwrap_err();
    let error = refusal(error);
    assert!(error.kind == Kind::Tables && error.message.contains("none"), "{error:?}");
    let other = dir.path().join("other");
    let hello = Hello { version: "9.9.9".to_owned(), protocol: 99, ..Hello::ours() };
    write_script_with(&other, &hello, "cat >/dev/null");
    let error = Engine::start(&other, dir.path(), &options()).unwrap_err();
    assert!(matches!(error, AskError::Version { .. }), "{error}");
    assert!(
        error.to_string().contains("9.9.9") && error.to_string().contains("install"),
        "{error}"
    );
    let error = Engine::start(&dir.path().join("absent"), dir.path(), &options()).unwrap_err();
    assert!(matches!(error, AskError::Start { .. }), "{error}");
    // Another program of that name says nothing that is a frame.
    let error = Engine::start(Path::new("/bin/true"), dir.path(), &options()).unwrap_err();
    assert!(matches!(error, AskError::Ended(_)), "{error}");
}

#[test]
fn nobody_sees_what_another_client_made() {
    let dir = common::fixture();
    let pool = pool();
    let of = |client: &str, sql: &str| {
        let answer =
            pool.ask(&Client::named(client, "page"), dir.path(), &query(sql), &Patience::default());
        answer.map(|answer| answer.batches().unwrap())
    };
    let machines = "SELECT count(*) FROM machines WHERE name = 'FORGED'";
    // Whether it may is another matter: nobody else is told.
    let _ = of("a", "CREATE OR REPLACE TABLE machines AS SELECT 0 AS machine_id, 'FORGED' AS name");
    assert_eq!(number(&of("b", machines).unwrap()), 0);
    assert_eq!(pool.children(), 2);
    pool.end_client(&Client::named("a", "page"));
    assert_eq!(pool.children(), 1);
    pool.end_recording(dir.path());
    assert_eq!(pool.children(), 0);
}

#[test]
fn there_are_so_many_children_and_an_idle_one_gives_way() {
    let dir = common::fixture();
    let pool = pool();
    let of = |client: &str, sql: &str, wanted: &dyn Fn() -> bool| {
        pool.ask(&Client::named(client, "page"), dir.path(), &query(sql), &Patience { wanted })
    };
    for client in ["a", "b", "c", "d", "e", "a", "f"] {
        of(client, "SELECT 1", &|| true).unwrap();
        assert!(pool.children() <= MAX_CHILDREN);
    }
    assert_eq!(pool.children(), MAX_CHILDREN);
    let (wanted, at_work) = (AtomicBool::new(true), AtomicUsize::new(0));
    thread::scope(|scope| {
        for client in ["p", "q", "r", "s"] {
            let (wanted, at_work, of) = (&wanted, &at_work, &of);
            scope.spawn(move || {
                let is_asked = AtomicBool::new(false);
                let patience = || {
                    // Asked while the question is under way, and not before.
                    if !is_asked.swap(true, Ordering::Relaxed) {
                        at_work.fetch_add(1, Ordering::Relaxed);
                    }
                    wanted.load(Ordering::Relaxed)
                };
                of(client, ENDLESS, &patience).unwrap_err()
            });
        }
        let until = Instant::now() + Duration::from_secs(60);
        while at_work.load(Ordering::Relaxed) < 4 && Instant::now() < until {
            thread::sleep(Duration::from_millis(20));
        }
        let error = of("t", "SELECT 1", &|| true).unwrap_err();
        assert!(matches!(error, AskError::Busy), "{error}");
        wanted.store(false, Ordering::Relaxed);
    });
    of("t", "SELECT 1", &|| true).unwrap();
}

/// Runs one query of a client of this owner.
fn ask_as(pool: &Pool, tables: &Path, client: (&str, &str), sql: &str) -> Result<(), AskError> {
    let client = Client::named(client.0, client.1);
    pool.ask(&client, tables, &query(sql), &Patience::default()).map(|_| ())
}

#[test]
fn owner_at_its_limit_displaces_only_its_own_children() {
    let dir = common::fixture();
    let pool = pool();
    pool.limit_owners(2);
    let ask = |owner: &str, name: &str| {
        ask_as(&pool, dir.path(), (owner, name), "SELECT 1").unwrap();
    };
    let owned = || ["user 1", "user 2", "user 3"].map(|owner| pool.children_of_owner(owner));
    ask("user 2", "a");
    for name in ["a", "b", "c", "d", "e", "f"] {
        ask("user 1", name);
    }
    assert_eq!(owned(), [2, 1, 0]);
    ask("user 3", "a");
    assert_eq!(owned(), [2, 1, 1]);
    // All places are taken: the owner that has most children gives one, though its own have been idle for less time.
    ask("user 3", "b");
    assert_eq!(owned(), [1, 1, 2]);
    ask("user 3", "c");
    assert_eq!(owned(), [1, 1, 2]);
    // The same name of another owner is another client, which does not use that child.
    ask("user 1", "a");
    assert_eq!(owned(), [2, 1, 1]);
}

#[test]
fn owner_whose_children_are_busy_is_refused_and_others_are_answered() {
    let dir = common::fixture();
    let pool = pool();
    pool.limit_owners(2);
    let (wanted, at_work) = (AtomicBool::new(true), AtomicUsize::new(0));
    thread::scope(|scope| {
        for name in ["a", "b"] {
            let (pool, dir, wanted, at_work) = (&pool, &dir, &wanted, &at_work);
            scope.spawn(move || {
                let is_asked = AtomicBool::new(false);
                let patience = || {
                    if !is_asked.swap(true, Ordering::Relaxed) {
                        at_work.fetch_add(1, Ordering::Relaxed);
                    }
                    wanted.load(Ordering::Relaxed)
                };
                let client = Client::named("user 1", name);
                let patience = Patience { wanted: &patience };
                pool.ask(&client, dir.path(), &query(ENDLESS), &patience).unwrap_err()
            });
        }
        let until = Instant::now() + Duration::from_secs(60);
        while at_work.load(Ordering::Relaxed) < 2 && Instant::now() < until {
            thread::sleep(Duration::from_millis(20));
        }
        let error = ask_as(&pool, dir.path(), ("user 1", "c"), "SELECT 1").unwrap_err();
        let others: Vec<_> = ["a", "b", "c"]
            .iter()
            .map(|name| ask_as(&pool, dir.path(), ("user 2", name), "SELECT 1"))
            .collect();
        // Before anything is asserted: a failure would wait for the threads for good.
        wanted.store(false, Ordering::Relaxed);
        assert!(matches!(error, AskError::TooMany(2)), "{error}");
        assert!(others.iter().all(Result::is_ok), "{others:?}");
    });
    ask_as(&pool, dir.path(), ("user 1", "c"), "SELECT 1").unwrap();
}

#[test]
fn a_client_asks_one_question_after_the_other_of_one_child() {
    let (dir, _database): (_, Database) = common::open();
    let pool = Arc::new(pool());
    let client = Client::connection("user 1", "127.0.0.1:1".parse().unwrap());
    thread::scope(|scope| {
        for number in 0..8_i64 {
            let (pool, client, dir) = (&pool, &client, &dir);
            scope.spawn(move || {
                let sql = format!("SELECT count(*) + {number} FROM range(1000)");
                let answer =
                    pool.ask(client, dir.path(), &query(&sql), &Patience::default()).unwrap();
                assert_eq!(self::number(&answer.batches().unwrap()), 1000 + number);
            });
        }
    });
    assert_eq!(pool.children(), 1);
}
