//! A guest's disk that is a volume of its host, beside what fio measures in the guest.

use super::{
    answer::{Answer, expect_share, ratio},
    on_nested_host,
    requests::{STAGES, check_stages, counts, rank, requests, share_between, time_of, together},
};
use crate::guests::nested::Bed;
use anyhow::{Context, Result, ensure};
use serde_json::Value;
use std::path::Path;
use transect_e2e::{number, table_rows};

/// Orders to the guest: each begins a run of fio.
const BEGIN: u32 = 5000;
/// The volume that holds every request back for so long.
const DELAY_MS: i64 = 100;
const SECTORS: u32 = 1 << 17;
/// Runs of fio: what makes the requests, how many are under way at once, and how many there are.
const RUNS: [(&str, usize, i64); 2] = [("psync", 1, 80), ("libaio", 4, 240)];
/// Percentiles that are printed, and up to which those of a slow device are compared: above are single requests, or the
/// asynchronous ones that fio reaps late.
const PERCENTILES: [usize; 4] = [50, 90, 95, 99];
const COMPARED: usize = 95;
const COMPARED_REAPED: usize = 50;
/// fio counts times in steps of up to 1.6 %.
const WITHIN: f64 = 0.02;
/// The system call before and after its request takes some of fio's time. Of asynchronous requests fio measures up to where it
/// reaps them, and most of those wake no thread: they end with their completion then.
const REQUEST_WITHIN: f64 = 0.05;
/// `pwrite64` of x86-64.
const PWRITE: i64 = 18;

#[test]
fn requests_to_a_volume_are_told_as_fio_measures_them() {
    on_nested_host(|bed| {
        let tables = [
            ("slow", format!("0 {SECTORS} delay /dev/nullb0 0 {DELAY_MS}")),
            ("quick", format!("0 {SECTORS} linear /dev/nullb0 2048")),
        ];
        for (name, table) in tables {
            bed.sh(&format!("DM_DISABLE_UDEV=1 dmsetup create {name} --table '{table}'"))?;
            runs(bed, name)?;
        }
        Ok(())
    });
}

/// The command of a run; a workload has no spaces.
fn fio((engine, depth, n): (&str, usize, i64), order: u32) -> String {
    let options = format!(
        "--name={engine}_--ioengine={engine}_--iodepth={depth}_--size={}k_--filename=/dev/vda_--rw=randwrite_--bs=4k_\
         --direct=1_--thread_--output-format=json",
        n * 4
    );
    format!("sh:after_port={order}:run=/usr/bin/fio_{options}")
}

fn runs(bed: &Bed, name: &str) -> Result<()> {
    let loads = (BEGIN..).zip(RUNS).map(|(order, run)| fio(run, order));
    let plan = bed.host.guest(name).vcpus(2).memory_mib(768).program("/usr/bin/fio");
    let plan = plan.disk_at(format!("/dev/mapper/{name}"));
    let plan = plan.workload(&loads.collect::<Vec<_>>().join("+"));
    let guest = plan.agent(transect_e2e::agent()?, &["--vsock"]).boot()?;
    for (order, (engine, depth, n)) in (BEGIN..).zip(RUNS) {
        let of_this = usize::try_from(order - BEGIN)? + 1;
        let device = device_of(bed, name)?;
        let before = counted_ns(bed, &device)?;
        let recorded = bed.record_with(&format!("{name}-{engine}"), &[&guest], &[], 4, || {
            guest.order(order)?;
            guest.wait_for("workload ended").times(of_this).within(240).map(drop)
        })?;
        let held_ns = counted_ns(bed, &device)? - before;
        let said = said(&guest.marks()?, engine)?;
        let rows = requests(&recorded.dir, name, "write")?;
        // Writes that lie side by side can become one request.
        let bytes = rows.iter().map(|row| number(row, "bytes")).sum::<Result<i64>>()?;
        ensure!(bytes == n * 4096, "{bytes} bytes in {} requests for {n} writes", rows.len());
        rows.iter().try_for_each(|row| check_stages(row, &STAGES, together))?;
        // What is beneath the volume has requests, too: it is not what the guest's are joined with.
        let known: Vec<&Value> = rows.iter().filter(|row| row["host_device"].is_string()).collect();
        ensure!(known.len() * 100 >= rows.len() * 99, "{} of {n} have the host's", known.len());
        ensure!(known.iter().all(|row| row["host_device"] == device), "not all by {device}");
        println!(
            "{name}, {engine}, depth {depth}: joined by {:?}; missing {:?}",
            counts(&rows, "evidence"),
            counts(&rows, "missing")
        );
        // Of a quick device, what fio does around the request is a large part.
        let compared = match (name, depth) {
            ("slow", 1) => COMPARED,
            ("slow", _) => COMPARED_REAPED,
            _ => 0,
        };
        let calls = calls_of(&recorded.dir, &rows)?;
        compare(&said, [&lengths_of(&calls)?, &lengths_of(&rows)?], compared)?;
        if name == "slow" && depth == 1 {
            let all = rows.iter().map(|row| number(row, "dur")).sum::<Result<i64>>()?;
            let truth = ratio(held_ns, all);
            let share = share_between(&rows, "host_issue_ts", "host_complete_ts")?;
            let range = time_of(&rows)?;
            let answer =
                Answer::of(&recorded.dir, Some(&range), &["--vm", name, "--request", "1"])?;
            expect_share("a volume that holds requests back for 100 ms", truth, &answer, share)?;
            let found = answer.found("slow_device", name)?["sentence"].to_string();
            ensure!(found.contains(&format!("The host's device {device}")), "{found}");
        }
    }
    guest.kill()
}

/// The numbers of the volume, as `io_requests` has them.
fn device_of(bed: &Bed, name: &str) -> Result<String> {
    Ok(bed.sh(&format!("dmsetup info -c --noheadings -o major,minor {name}"))?.trim().to_owned())
}

/// How long writes to the volume took until now, as its kernel counts it (Documentation/block/stat.rst).
fn counted_ns(bed: &Bed, device: &str) -> Result<i64> {
    let stat = bed.sh(&format!("cat /sys/dev/block/{device}/stat"))?;
    let ms: i64 = stat.split_whitespace().nth(7).context("no time in stat")?.parse()?;
    Ok(ms * 1_000_000)
}

/// What the run of fio with this engine said.
fn said(marks: &str, engine: &str) -> Result<Value> {
    for (at, _) in marks.match_indices("{\n  \"fio version\"") {
        let text = &marks[at..];
        let end = text.find("\n}").context("fio's output is cut")? + 2;
        let said: Value = serde_json::from_str(&text[..end]).context("fio's output")?;
        if said["jobs"][0]["jobname"] == engine {
            return Ok(said["jobs"][0].clone());
        }
    }
    anyhow::bail!("fio said nothing:\n{marks}")
}

/// The system calls that made the requests; none if they are made by others than writes.
fn calls_of(dir: &Path, rows: &[Value]) -> Result<Vec<Value>> {
    let mut calls = table_rows(dir)?;
    let by = |key: &str| rows.first().map(|row| row[key].clone()).context("no request");
    let (machine, tid) = (by("machine_id")?, by("tid")?);
    calls.retain(|row| {
        row["table"] == "syscalls"
            && row["machine_id"] == machine
            && row["tid"] == tid
            && row["nr"] == PWRITE
            && row["dur"].is_i64()
    });
    let made = |call: &Value| -> Result<bool> {
        let ts = number(call, "ts")?;
        let within = ts..=ts + number(call, "dur")?;
        Ok(rows.iter().any(|row| row["ts"].as_i64().is_some_and(|ts| within.contains(&ts))))
    };
    let mut kept = Vec::new();
    for call in calls {
        if made(&call)? {
            kept.push(call);
        }
    }
    Ok(kept)
}

/// In order.
fn lengths_of(rows: &[Value]) -> Result<Vec<i64>> {
    let mut lengths = rows.iter().map(|row| number(row, "dur")).collect::<Result<Vec<_>>>()?;
    lengths.sort_unstable();
    Ok(lengths)
}

/// Percentiles of fio beside those of the system calls, if it waits in them, and of the requests: these begin later, with
/// the submission, and end when the thread that waited runs.
#[expect(clippy::cast_precision_loss, reason = "nanoseconds of some seconds")]
fn compare(said: &Value, [calls, requests]: [&[i64]; 2], compared: usize) -> Result<()> {
    for percent in PERCENTILES {
        let fios = &said["write"]["clat_ns"]["percentile"][format!("{percent}.000000")];
        let fios = fios.as_f64().context("no percentile")?;
        let mut line = format!("| p{percent} | {:.3} ms |", fios / 1e6);
        for (lengths, within) in [(calls, WITHIN), (requests, REQUEST_WITHIN)] {
            if lengths.is_empty() {
                line += " – |";
                continue;
            }
            let ours = rank(lengths, percent) as f64;
            let off = (fios - ours) / fios;
            line += &format!(" {:.3} ms ({:+.1} %) |", ours / 1e6, off * 100.0);
            let is_close = off.abs() <= within;
            ensure!(is_close || percent > compared, "p{percent}: {fios} by fio, {ours} by us");
        }
        println!("{line}");
    }
    Ok(())
}
