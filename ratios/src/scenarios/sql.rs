//! SQL beside DuckDB on the same Parquet files: both warm, each in a process of its own, asked in turn.
//!
//! The first round of every query warms both up and checks that they answer the same.

use crate::{
    bed::{Bed, output},
    process::Beside,
    recordings,
    report::{Goal, Row, Rows},
    roles::Answer,
    stats::Paired,
};
use anyhow::{Context, Result, ensure};
use std::{fs, path::Path, time::Instant};

pub(super) const ROWS: &[&str] = &[
    "sql/window",
    "sql/exits-p99",
    "sql/tiles",
    "sql/asof",
    "sql/cold-start",
    "sql/make-tables",
    VERIFIED,
];

/// The cost of checksums.
const VERIFIED: &str = "sql/verified";

/// Events of the recording.
const EVENTS: u64 = 100_000_000;
const ROUNDS: usize = 5;

/// A question, in either's words.
struct Question {
    row: &'static str,
    ours: String,
    duckdb: String,
    goal: Goal,
    note: &'static str,
}

pub(super) fn run(bed: &Bed, rows: &mut Rows) -> Result<()> {
    if rows.wants("sql/make-tables") {
        rows.push(make_tables(bed)?);
    }
    if rows.wants(VERIFIED) {
        rows.push(verified(bed)?);
    }
    if !rows.wants_any(&ROWS[..5]) {
        return Ok(());
    }
    let dir = recordings::synthetic(bed, bed.sized(EVENTS), 4)?;
    let tables = tables(bed, &dir)?;
    let mut ours = Beside::start(&bed.role(&["sql", &tables]))?;
    let mut duckdb = start_duckdb(bed, &tables)?;
    let span = span(&mut ours)?;
    for question in questions(span) {
        let name = format!("sql/{}", question.row);
        if rows.wants(&name) {
            let paired = question.ask(bed, &mut ours, &mut duckdb);
            let row = match paired {
                Ok(paired) => Row::compared(&name, "ms", &paired).note(question.note),
                Err(err) => Row::skipped(&name, format!("{err:#}")),
            };
            rows.push(row.goal(question.goal));
        }
    }
    if rows.wants("sql/cold-start") {
        rows.push(cold_start(bed, &dir, &tables)?);
    }
    Ok(())
}

/// The recording's tables, made if they are not there.
fn tables(bed: &Bed, dir: &Path) -> Result<String> {
    let words =
        [bed.transect.display().to_string(), "tables".to_owned(), dir.display().to_string()];
    Ok(output(&words)?.trim().to_owned())
}

fn start_duckdb(bed: &Bed, tables: &str) -> Result<Beside> {
    let script = bed.file("ask_duckdb.py", include_str!("ask_duckdb.py"))?;
    let threads = std::thread::available_parallelism()?.to_string();
    let words = [bed.python.display().to_string(), script, tables.to_owned(), threads];
    Beside::start(&words).context("DuckDB (python package of tests/requirements.txt)")
}

/// First and last stamp of the vCPUs' states.
fn span(ours: &mut Beside) -> Result<(i64, i64)> {
    let sql = "SELECT min(ts) AS a, max(ts + dur) AS b FROM vcpu_states";
    let answer: Answer = ours.ask(&sql)?;
    #[expect(clippy::cast_possible_truncation, reason = "stamps of a recording that was made up")]
    let stamp = |at: usize| answer.sums.get(at).copied().flatten().map(|value| value as i64);
    stamp(0).zip(stamp(1)).context("no states in the tables")
}

const NOT_SLOWER: Goal = Goal::RatioAtMost(1.5);

fn questions((from, to): (i64, i64)) -> Vec<Question> {
    let second = from + (to - from) / 2;
    let end = second + 1_000_000_000;
    let window = format!(
        "SELECT vcpu, state, sum(least(ts + dur, {end}) - greatest(ts, {second})) AS ns, count(*) AS n \
         FROM vcpu_states WHERE machine_id = 1 AND ts < {end} AND ts + dur > {second} GROUP BY vcpu, state"
    );
    let exits = |p99: &str| {
        format!(
            "SELECT reason, count(*) AS n, sum(dur) AS ns, {p99} AS p99 FROM exits GROUP BY reason"
        )
    };
    vec![
        Question {
            row: "window",
            ours: window.clone(),
            duckdb: window,
            goal: NOT_SLOWER,
            note: "one VM's states in one second of the recording",
        },
        Question {
            row: "exits-p99",
            ours: exits("quantile(dur, 0.99)"),
            duckdb: exits("quantile_disc(dur, 0.99)"),
            goal: NOT_SLOWER,
            note: "all exits by reason: count, time, exact 99th percentile",
        },
        Question {
            row: "tiles",
            ours: format!(
                "SELECT ts, machine_id, vcpu, state, covered_ns, count \
                 FROM tiles('vcpu_states', {from}, {to}, {TILES}, 'machine_id, vcpu, state')"
            ),
            duckdb: duckdb_tiles(from, to),
            goal: NOT_SLOWER,
            note: "every vCPU's states in 1000 stretches of the whole recording",
        },
        Question {
            row: "asof",
            ours: "SELECT count(*) AS n, count(right_ts) AS found, sum(ts - right_ts) AS ns \
                   FROM asof('irqs', 'cpu_slices', 'machine_id, cpu')"
                .to_owned(),
            duckdb: "SELECT count(*) AS n, count(c.ts) AS found, sum(i.ts - c.ts) AS ns \
                     FROM irqs i ASOF LEFT JOIN cpu_slices c \
                     ON i.machine_id = c.machine_id AND i.cpu = c.cpu AND i.ts >= c.ts"
                .to_owned(),
            goal: Goal::RatioBelow(1.0),
            note: "the thread that each interrupt interrupted",
        },
    ]
}

const TILES: i64 = 1000;

/// What `tiles` does, in SQL: only intervals that cross an edge are taken apart.
fn duckdb_tiles(from: i64, to: i64) -> String {
    let length = to - from;
    let width = length / TILES + i64::from(length % TILES > 0);
    format!(
        "WITH i AS (SELECT machine_id, vcpu, state, greatest(ts, {from}) AS s, least(ts + dur, {to}) AS e \
             FROM vcpu_states WHERE ts < {to} AND ts + dur >= {from}), \
         p AS (SELECT *, (s - {from}) // {width} AS a, \
             greatest((s - {from}) // {width}, (e - 1 - {from}) // {width}) AS b FROM i), \
         c AS (SELECT machine_id, vcpu, state, a AS tile, e - s AS ns FROM p WHERE a = b \
             UNION ALL SELECT machine_id, vcpu, state, tile, \
                 least(e, {from} + (tile + 1) * {width}) - greatest(s, {from} + tile * {width}) AS ns \
             FROM (SELECT *, unnest(range(a, b + 1)) AS tile FROM p WHERE a < b)) \
         SELECT {from} + tile * {width} AS ts, machine_id, vcpu, state, sum(ns) AS covered_ns, \
             count(*) AS count FROM c GROUP BY tile, machine_id, vcpu, state"
    )
}

impl Question {
    fn ask(&self, bed: &Bed, ours: &mut Beside, duckdb: &mut Beside) -> Result<Paired> {
        let first: (Answer, Answer) = (
            ours.ask(&self.ours).context("transect")?,
            duckdb.ask(&self.duckdb).context("DuckDB")?,
        );
        same(&first.0, &first.1)?;
        let mut paired = Paired::default();
        for _ in 0..bed.rounds.min(ROUNDS) {
            let mine: Answer = ours.ask(&self.ours)?;
            let theirs: Answer = duckdb.ask(&self.duckdb)?;
            paired.push(mine.seconds * 1e3, theirs.seconds * 1e3);
        }
        Ok(paired)
    }
}

/// Two answers are the same if they have as many rows and their columns the same sums. Ranks of
/// quantiles are rounded differently: a hundredth is left to them.
fn same(ours: &Answer, theirs: &Answer) -> Result<()> {
    let differ = || format!("the answers differ: {ours:?}, DuckDB {theirs:?}");
    ensure!(ours.rows == theirs.rows && ours.sums.len() == theirs.sums.len(), differ());
    for (mine, other) in ours.sums.iter().zip(&theirs.sums) {
        let (Some(mine), Some(other)) = (mine, other) else { continue };
        ensure!((mine - other).abs() <= 0.01 * other.abs(), differ());
    }
    Ok(())
}

/// A process from its start to the answer.
fn cold_start(bed: &Bed, dir: &Path, tables: &str) -> Result<Row> {
    let sql = "SELECT reason, count(*) AS n FROM exits GROUP BY reason";
    let ours = [&bed.transect.display().to_string(), "sql", &dir.display().to_string(), sql];
    let ours = ours.map(str::to_owned);
    let mut paired = Paired::default();
    for _ in 0..bed.rounds.min(ROUNDS) {
        let begun = Instant::now();
        output(&ours)?;
        let mine = begun.elapsed().as_secs_f64();
        let begun = Instant::now();
        let mut duckdb = start_duckdb(bed, tables)?;
        let _: Answer = duckdb.ask(&sql)?;
        paired.push(mine * 1e3, begun.elapsed().as_secs_f64() * 1e3);
    }
    let note = "from process start to an answer: transect sql : python and DuckDB";
    Ok(Row::compared("sql/cold-start", "ms", &paired).note(note))
}

/// All tables of a recording of ten million events, events included.
fn make_tables(bed: &Bed) -> Result<Row> {
    let events = bed.sized(EVENTS / 10);
    let dir = recordings::synthetic(bed, events, 4)?;
    let mut rates = Vec::new();
    for _ in 0..bed.rounds.min(2) {
        let made = dir.join("tables");
        if made.exists() {
            fs::remove_dir_all(&made)?;
        }
        let begun = Instant::now();
        tables(bed, &dir)?;
        #[expect(clippy::cast_precision_loss, reason = "a rate")]
        rates.push(events as f64 / begun.elapsed().as_secs_f64() / 1e6);
    }
    let note = format!("transect tables: every table and every event as Parquet, {events} events");
    Ok(Row::measured("sql/make-tables", "M ev/s", &rates).note(note))
}

/// Opening tables and asking them, with their checksums and without.
fn verified(bed: &Bed) -> Result<Row> {
    let events = bed.sized(EVENTS / 10);
    let dir = recordings::synthetic(bed, events, 4)?;
    let with = tables(bed, &dir)?;
    let copy = tempfile::tempdir_in(&dir)?;
    link_tables(Path::new(&with), copy.path())?;
    let without = copy.path().display().to_string();
    let mut paired = Paired::default();
    // The difference is small, so there are twice as many pairs; the first warms up.
    for round in 0..=2 * bed.rounds {
        let mut times = [0.0; 2];
        let mut order = [0, 1];
        order.rotate_left(round % 2);
        let mut answers = Vec::new();
        for at in order {
            let begun = Instant::now();
            answers.push(open_and_ask(bed, [&with, &without][at])?);
            times[at] = begun.elapsed().as_secs_f64() * 1e3;
        }
        ensure!(answers[0] == answers[1], "the answers differ: {answers:?}");
        if round > 0 {
            paired.push(times[0], times[1]);
        }
    }
    let note = format!(
        "opening the tables of {events} events and three questions: with checksums : without"
    );
    Ok(Row::compared(VERIFIED, "ms", &paired).note(note).goal(Goal::RatioAtMost(1.03)))
}

/// The same Parquet files under another folder, which has neither stamp nor list of checksums.
fn link_tables(from: &Path, to: &Path) -> Result<()> {
    for entry in fs::read_dir(from)? {
        let path = entry?.path();
        let name = path.file_name().context("a name")?;
        if path.is_dir() {
            fs::create_dir(to.join(name))?;
            link_tables(&path, &to.join(name))?;
        } else if path.extension().is_some_and(|extension| extension == "parquet") {
            fs::hard_link(&path, to.join(name))?;
        }
    }
    Ok(())
}

/// A sum, a count and a join; rows and sums of each answer.
fn open_and_ask(bed: &Bed, tables: &str) -> Result<Vec<(u64, Vec<Option<f64>>)>> {
    let mut engine = Beside::start(&bed.role(&["sql", tables]))?;
    let questions = [
        "SELECT machine_id, state, sum(dur) AS ns FROM thread_states GROUP BY 1, 2 ORDER BY 1, 2",
        "SELECT reason, count(*) AS n, sum(dur) AS ns FROM exits GROUP BY 1 ORDER BY 1",
        "SELECT count(*) AS n, sum(t.dur) AS ns FROM wakeups w JOIN threads h \
         ON h.machine_id = w.machine_id AND h.tid = w.tid \
         JOIN vcpu_states t ON t.machine_id = w.machine_id AND t.ts = w.ts",
    ];
    questions
        .iter()
        .map(|sql| engine.ask(sql).map(|answer: Answer| (answer.rows, answer.sums)))
        .collect()
}
