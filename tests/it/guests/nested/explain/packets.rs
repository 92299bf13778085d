//! Packets between two guests by stage, beside what the asking workload counts.

use super::{
    MEASURED, OTHER,
    answer::{Answer, expect_share},
    network::{Pair, ask, pair, thread_of},
    on_nested_host,
    requests::{check_stages, counts, rank},
    threads::numbers_of,
};
use crate::guests::nested::{Bed, machine_id};
use anyhow::{Context, Result, ensure};
use serde_json::Value;
use std::collections::BTreeMap;
use transect_e2e::{number, report, table_rows};

/// Order to the client.
const ASK: u32 = 5000;
/// Columns of the stages, in order.
const STAGES: [&str; 12] = [
    "send_ts",
    "kick_ts",
    "pickup_ts",
    "host_receive_ts",
    "host_send_ts",
    "fetch_ts",
    "signal_ts",
    "inject_ts",
    "guest_irq_ts",
    "receive_ts",
    "wake_ts",
    "run_ts",
];

#[test]
fn packets_between_guests_are_told_by_stage() {
    on_nested_host(|bed| {
        for (vhost, name) in [(false, "qemu-system"), (true, "vhost-")] {
            let pair = pair(bed, [&ask(ASK, 8), "serve:port=7777"], vhost)?;
            questions(bed, &pair, name)?;
            pair.client.kill()?;
            pair.server.kill()?;
        }
        slow_worker(bed)
    });
}

/// The vhost worker of the server beside a real-time thread.
fn slow_worker(bed: &Bed) -> Result<()> {
    let pair = pair(bed, [&ask(ASK, 25), "serve:port=7777"], true)?;
    for guest in [&pair.client, &pair.server] {
        guest.pin(&OTHER.to_string())?;
    }
    let name = format!("vhost-{}", pair.server.pid()?);
    // There is one for each of its devices.
    let find = format!(
        "pgrep -x {name} | while read t; do taskset -cp {MEASURED} $t >/dev/null; echo $t; done"
    );
    let workers = bed.sh(&find)?;
    let files: Vec<String> =
        workers.split_whitespace().map(|tid| format!("/proc/{tid}/schedstat")).collect();
    ensure!(!files.is_empty(), "no {name}");
    let spinner = bed.busy(MEASURED, "", "fifo duty=60 period_ms=100")?;
    let guests = [&pair.client, &pair.server];
    let recorded = bed.record_with("slow-worker", &guests, &files, 8, || pair.client.order(ASK))?;
    drop(spinner);
    let asker = thread_of(&pair.client, &format!("ask:after_port={ASK}:"))?;
    // The one that carries its packets, and not its agent's stream.
    let server = machine_id(&report(&recorded.dir)?, "server")?;
    let tables = table_rows(&recorded.dir)?;
    let mut carried: BTreeMap<i64, usize> = BTreeMap::new();
    for row in
        tables.iter().filter(|row| row["table"] == "packets" && row["to_machine_id"] == server)
    {
        if let Some(tid) = row["to_backend_tid"].as_i64() {
            *carried.entry(tid).or_default() += 1;
        }
    }
    let (worker, _) =
        carried.into_iter().max_by_key(|(_, count)| *count).context("no worker carries packets")?;
    let [_, truth] = recorded.ran_and_waited(&format!("/proc/{worker}/schedstat"))?;
    let answer = recorded.explain(&["--vm", "client", "--thread", &asker])?;
    let said = answer.share(|piece| {
        piece["machine_id"] == 0 && piece["tid"] == worker && piece["state"] == "runnable"
    })?;
    expect_share("a server's vhost worker beside a SCHED_FIFO thread", truth, &answer, said)?;
    let longest = Answer::of(&recorded.dir, None, &["--vm", "server", "--packet", "1"])?;
    let packet = &longest.root()?["packet"];
    ensure!(packet["to_machine_id"] == server && packet["wake_tid"].is_i64(), "{packet}");
    let found = answer.found("slow_vmm", "server")?["sentence"].to_string();
    ensure!(found.contains(&name) && found.contains("behind fifo"), "{found}");
    pair.client.kill()?;
    pair.server.kill()
}

/// A thread that is not woken does not run.
fn together(stage: &str) -> &'static str {
    if stage == "run" { "wake" } else { "itself" }
}

/// The client asks, the server answers at once.
fn questions(bed: &Bed, pair: &Pair, back_end: &str) -> Result<()> {
    let mut line = String::new();
    let name = format!("packets-{}", back_end.trim_end_matches('-'));
    let recorded = bed.record_with(&name, &[&pair.client, &pair.server], &[], 4, || {
        pair.client.order(ASK)?;
        line = pair.client.wait_for("asked n=").within(120)?;
        Ok(())
    })?;
    let own = numbers_of(&line);
    let (answered, lost) = (own("n")?, own("lost")?);
    let report = report(&recorded.dir)?;
    let [client, server] = [machine_id(&report, "client")?, machine_id(&report, "server")?];
    let tables = table_rows(&recorded.dir)?;
    let from_to = |from: i64, to: i64| -> Result<Vec<Value>> {
        let is_it = |row: &&Value| {
            row["table"] == "packets" && row["machine_id"] == from && row["to_machine_id"] == to
        };
        let rows: Vec<&Value> = tables.iter().filter(is_it).collect();
        let mut flows: BTreeMap<i64, usize> = BTreeMap::new();
        for row in &rows {
            *flows.entry(number(row, "flow")?).or_default() += 1;
        }
        let most = flows.into_iter().max_by_key(|(_, count)| *count).context("no packets")?.0;
        Ok(rows.into_iter().filter(|row| row["flow"] == most).cloned().collect())
    };
    let (asked, replied) = (from_to(client, server)?, from_to(server, client)?);
    #[expect(clippy::cast_precision_loss, reason = "some thousands")]
    for (what, rows) in [("questions", &asked), ("answers", &replied)] {
        rows.iter().try_for_each(|row| check_stages(row, &STAGES, together))?;
        let mut lengths =
            rows.iter().map(|row| number(row, "dur")).collect::<Result<Vec<i64>>>()?;
        lengths.sort_unstable();
        let whole = rows.iter().filter(|row| row["missing"] == "").count();
        println!(
            "{back_end} {what}: {} rows for {answered} answers and {lost} lost; {whole} with all stages; joined by {:?}; \
             missing {:?}; p50 {}, p99 {}",
            rows.len(),
            counts(rows, "evidence"),
            counts(rows, "missing"),
            rank(&lengths, 50),
            rank(&lengths, 99),
        );
        let count = rows.len() as f64;
        ensure!(count >= answered && count <= answered + lost, "{count} {what}: {line}");
        let through = |row: &&Value| {
            ["host_receive_ts", "host_send_ts", "receive_ts"].iter().all(|cut| row[*cut].is_i64())
        };
        let known = rows.iter().filter(through).count();
        ensure!(known * 100 >= rows.len() * 99, "{known} of {count} {what} have the host's part");
        for column in ["backend_tid", "to_backend_tid"] {
            check_back_end(&tables, rows, column, back_end)?;
        }
    }
    round_trips(&asked, &replied, own("us")? * 1000.0)
}

/// Are the threads of the host that carried the packets of this kind?
fn check_back_end(tables: &[Value], rows: &[Value], column: &str, name: &str) -> Result<()> {
    let mut tids: Vec<&Value> =
        rows.iter().map(|row| &row[column]).filter(|tid| tid.is_i64()).collect();
    ensure!(!tids.is_empty(), "no {column} at all");
    tids.dedup();
    for tid in tids {
        let is_it = |row: &&Value| {
            row["table"] == "threads" && row["machine_id"] == 0 && row["tid"] == *tid
        };
        let thread = tables.iter().find(is_it).context("no such thread")?;
        let found = thread["name"].as_str().unwrap_or_default();
        ensure!(found.starts_with(name), "{column} is {found}");
    }
    Ok(())
}

/// From each question until its answer ran in the client: less than the client's own clock says of all.
#[expect(clippy::cast_precision_loss, reason = "nanoseconds of some seconds")]
fn round_trips(asked: &[Value], replied: &[Value], own_ns: f64) -> Result<()> {
    let mut sends = asked.iter().map(|row| number(row, "send_ts")).collect::<Result<Vec<i64>>>()?;
    sends.sort_unstable();
    let ends: Vec<i64> = replied.iter().filter_map(|row| row["run_ts"].as_i64()).collect();
    let mut all = 0;
    for end in &ends {
        let before = sends.partition_point(|send| send < end);
        all += end - sends.get(before.wrapping_sub(1)).context("an answer before any question")?;
    }
    println!("{} round trips in {all} ns, {own_ns} ns by the client's clock", ends.len());
    ensure!(ends.len() * 10 >= replied.len() * 9, "hardly any answer woke the client");
    ensure!(all as f64 <= own_ns, "the packets take longer than the calls that send them");
    Ok(())
}
