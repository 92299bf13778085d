//! Block requests of a guest by stage, beside what the workload, the device and the scheduler count.

use super::{
    MEASURED, OTHER,
    answer::{Answer, expect_share, ratio},
    on_nested_host,
    threads::{first_workload, numbers_of},
    waits_for,
};
use crate::guests::nested::{Bed, machine_id};
use anyhow::{Context, Result, ensure};
use serde_json::Value;
use std::{
    collections::BTreeMap,
    ops::Range,
    path::Path,
    thread,
    time::{Duration, Instant},
};
use transect_e2e::{number, report, table_rows};
use transect_testbed::Guest;

/// Orders to a guest: each begins a workload.
const BEGIN: u32 = 5000;
/// How many requests are under way at once, and how many there are.
const LOADS: [(i64, i64); 3] = [(1, 200), (4, 400), (32, 960)];
/// Length of a write of the workload `disk`.
const WRITE_BYTES: i64 = 4096;
/// The device of the host that answers after this time.
const SLOW_NS: i64 = 50_000_000;
const SLOW_REQUESTS: i64 = 80;
/// Columns of the stages, in order.
pub(super) const STAGES: [&str; 12] = [
    "issue_ts",
    "kick_ts",
    "pickup_ts",
    "host_submit_ts",
    "host_issue_ts",
    "host_complete_ts",
    "signal_ts",
    "inject_ts",
    "guest_irq_ts",
    "complete_ts",
    "wake_ts",
    "run_ts",
];

#[test]
fn block_requests_are_told_by_stage() {
    on_nested_host(|bed| {
        slow_device(bed)?;
        cached_twice(bed)?;
        slow_vmm(bed)?;
        late_interrupts(bed)
    });
}

#[test]
fn many_block_requests_at_once_are_told_by_stage() {
    on_nested_host(depths);
}

fn guest_with_disk(bed: &Bed, name: &str, device: &str, workload: &str) -> Result<Guest> {
    let plan = bed.host.guest(name).vcpus(2).disk_at(device).workload(workload);
    plan.agent(transect_e2e::agent()?, &["--vsock"]).boot()
}

/// The guest's requests of this kind that were completed.
pub(super) fn requests(dir: &Path, vm: &str, op: &str) -> Result<Vec<Value>> {
    let vm = machine_id(&report(dir)?, vm)?;
    let mut rows = table_rows(dir)?;
    rows.retain(|row| {
        row["table"] == "io_requests"
            && row["machine_id"] == vm
            && row["op"] == op
            && row["dur"].is_i64()
    });
    Ok(rows)
}

/// Is each stage known, or named as missing by itself or as `whole` calls it; and are those that are known in order, and all of
/// the row's length?
pub(super) fn check_stages(
    row: &Value,
    stages: &[&str],
    whole: impl Fn(&str) -> &'static str,
) -> Result<()> {
    let missing = row["missing"].as_str().context("missing")?;
    let named: Vec<&str> = missing.split(',').collect();
    let mut last = number(row, "ts")?;
    for column in stages {
        let stage = column.trim_end_matches("_ts");
        match row[*column].as_i64() {
            Some(ts) => {
                ensure!(ts >= last, "{column} is not in order: {row}");
                last = ts;
            }
            None => {
                ensure!(named.contains(&stage) || named.contains(&whole(stage)), "{column}: {row}");
            }
        }
    }
    ensure!(last == number(row, "ts")? + number(row, "dur")?, "stages are not all of it: {row}");
    Ok(())
}

/// The word for a request's stages that are missing together.
pub(super) fn together(stage: &str) -> &'static str {
    if stage.starts_with("host_") { "host" } else { "wake" }
}

/// How many rows have each value.
pub(super) fn counts(rows: &[Value], column: &str) -> BTreeMap<String, usize> {
    let mut counts = BTreeMap::new();
    for row in rows {
        *counts.entry(row[column].as_str().unwrap_or("none").to_owned()).or_default() += 1;
    }
    counts
}

/// The nearest rank, of so many hundredths.
pub(super) fn rank(sorted: &[i64], percent: usize) -> i64 {
    sorted[(sorted.len() * percent).div_ceil(100).max(1) - 1]
}

fn depths(bed: &Bed) -> Result<()> {
    let load = |(at, (depth, n)): (u32, &(i64, i64))| {
        format!("disk:after_port={}:n={n}:depth={depth}", BEGIN + at)
    };
    let loads: Vec<String> = (0..).zip(&LOADS).map(load).collect();
    let guest = guest_with_disk(bed, "store", "/dev/nullb0", &loads.join("+"))?;
    for (at, (depth, n)) in (0..).zip(LOADS) {
        let name = format!("depth{depth}");
        let mut line = String::new();
        let recorded = bed.record_with(&name, &[&guest], &[], 4, || {
            guest.order(BEGIN + at)?;
            line = guest.wait_for(&format!("disk n={n} ")).within(240)?;
            Ok(())
        })?;
        let rows = requests(&recorded.dir, "store", "write")?;
        // Writes that lie side by side can become one request.
        let bytes = rows.iter().map(|row| number(row, "bytes")).sum::<Result<i64>>()?;
        ensure!(
            bytes == n * WRITE_BYTES,
            "{bytes} bytes in {} requests for {n} writes",
            rows.len()
        );
        rows.iter().try_for_each(|row| check_stages(row, &STAGES, together))?;
        let whole = rows.iter().filter(|row| row["missing"] == "").count();
        let lengths = rows.iter().map(|row| number(row, "dur"));
        let mut lengths: Vec<i64> = lengths.collect::<Result<_>>()?;
        lengths.sort_unstable();
        let own = numbers_of(&line);
        println!(
            "depth {depth}: {whole} of {} with all stages; joined by {:?}; missing {:?}; p50 {} (workload {}), p99 {} \
             (workload {})",
            rows.len(),
            counts(&rows, "evidence"),
            counts(&rows, "missing"),
            rank(&lengths, 50),
            own("p50_ns")?,
            rank(&lengths, 99),
            own("p99_ns")?,
        );
        // The workload's clock runs from its system call to the return of that.
        #[expect(clippy::cast_precision_loss, reason = "nanoseconds of some seconds")]
        let ours = rank(&lengths, 50) as f64;
        ensure!(ours <= own("p50_ns")?, "requests take longer than the calls that make them");
        let known = rows.iter().filter(|row| row["host_submit_ts"].is_i64()).count();
        ensure!(
            known * 100 >= rows.len() * 99,
            "{known} of {} have the host's request",
            rows.len()
        );
    }
    guest.kill()
}

/// The share of the requests' time between two stages.
pub(super) fn share_between(rows: &[Value], from: &str, to: &str) -> Result<f64> {
    let (mut part, mut all) = (0, 0);
    for row in rows {
        all += number(row, "dur")?;
        part += row[to].as_i64().zip(row[from].as_i64()).map_or(0, |(to, from)| to - from);
    }
    Ok(ratio(part, all))
}

/// From the first request's begin to the end of the last.
pub(super) fn time_of(rows: &[Value]) -> Result<Range<i64>> {
    let begins = rows.iter().map(|row| number(row, "ts")).collect::<Result<Vec<i64>>>()?;
    let ends = rows.iter().map(|row| Ok(number(row, "ts")? + number(row, "dur")?));
    let ends = ends.collect::<Result<Vec<i64>>>()?;
    let (from, until) = (begins.iter().min(), ends.iter().max());
    Ok(*from.context("no request")?..*until.context("no request")?)
}

fn slow_device(bed: &Bed) -> Result<()> {
    // Some kernels name it after its folder, others count.
    bed.sh(&format!(
        "mount -t configfs none /sys/kernel/config 2>/dev/null; cd /sys/kernel/config/nullb && \
         mkdir nullb1 && cd nullb1 && echo 64 >size && echo 2 >irqmode && \
         echo {SLOW_NS} >completion_nsec && echo 1 >power && [ -b /dev/nullb1 ] || \
         {{ ls /sys/block >&2; dmesg | tail >&2; false; }}"
    ))?;
    let workload = format!("disk:after_port={BEGIN}:n={SLOW_REQUESTS}");
    let guest = guest_with_disk(bed, "slow", "/dev/nullb1", &workload)?;
    let recorded = bed.record_with("slow-device", &[&guest], &[], 4, || {
        guest.order(BEGIN)?;
        guest.wait_for("disk n=").within(240).map(drop)
    })?;
    guest.kill()?;
    let rows = requests(&recorded.dir, "slow", "write")?;
    ensure!(i64::try_from(rows.len())? == SLOW_REQUESTS, "{} requests", rows.len());
    let all = rows.iter().map(|row| number(row, "dur")).sum::<Result<i64>>()?;
    let truth = ratio(SLOW_REQUESTS * SLOW_NS, all);
    let said = share_between(&rows, "host_issue_ts", "host_complete_ts")?;
    let range = time_of(&rows)?;
    let answer = Answer::of(&recorded.dir, Some(&range), &["--vm", "slow", "--request", "1"])?;
    expect_share("a device that answers after 50 ms", truth, &answer, said)?;
    let found = answer.found("slow_device", "slow")?["sentence"].to_string();
    ensure!(found.contains("The host's device"), "{found}");
    Ok(())
}

/// The same blocks are read twice through the host's page cache: the second time no device is needed.
fn cached_twice(bed: &Bed) -> Result<()> {
    bed.sh("echo 0 >/sys/block/nullb1/queue/read_ahead_kb; echo 3 >/proc/sys/vm/drop_caches")?;
    let read = |order: u32| format!("disk:after_port={order}:n=0:read={SLOW_REQUESTS}");
    let plan = bed.host.guest("cached").vcpus(2).disk_cached_at("/dev/nullb1");
    let plan = plan.workload(&format!("{}+{}", read(BEGIN), read(BEGIN + 1)));
    let guest = plan.agent(transect_e2e::agent()?, &["--vsock"]).boot()?;
    for (order, name) in [(BEGIN, "cold"), (BEGIN + 1, "warm")] {
        let before = device_reads(bed)?;
        let recorded = bed.record_with(name, &[&guest], &[], 4, || {
            // Another disk of the host shows that its requests are recorded.
            bed.sh("dd if=/dev/nullb0 of=/dev/null bs=4096 count=1 iflag=direct 2>/dev/null")?;
            guest.order(order)?;
            let done = format!("read={SLOW_REQUESTS} ");
            let of_this = guest.marks()?.matches(&done).count() + 1;
            let deadline = Instant::now() + Duration::from_secs(240);
            while guest.marks()?.matches(&done).count() < of_this {
                ensure!(Instant::now() < deadline, "{name}: the workload did not end");
                thread::sleep(Duration::from_millis(300));
            }
            Ok(())
        })?;
        let by_device = device_reads(bed)? - before;
        let rows = requests(&recorded.dir, "cached", "read")?;
        ensure!(i64::try_from(rows.len())? == SLOW_REQUESTS, "{} requests", rows.len());
        let known = rows.iter().filter(|row| row["host_submit_ts"].is_i64()).count();
        println!(
            "{name}: {by_device} reads of the device, {known} of {SLOW_REQUESTS} requests have one"
        );
        ensure!(i64::try_from(known)?.abs_diff(by_device) <= 2, "{known} for {by_device}");
        let answer = Answer::of(&recorded.dir, None, &["--vm", "cached", "--request", "1"])?;
        if order == BEGIN {
            let all = rows.iter().map(|row| number(row, "dur")).sum::<Result<i64>>()?;
            let truth = ratio(by_device * SLOW_NS, all);
            let said = share_between(&rows, "host_issue_ts", "host_complete_ts")?;
            expect_share(
                "`cache=writeback`, blocks that the host has not read",
                truth,
                &answer,
                said,
            )?;
            ensure!(answer.finding("double_cache", "cached")?.is_none(), "nothing is cached yet");
        } else {
            ensure!(by_device == 0, "{by_device} reads of the device");
            let found = answer.found("double_cache", "cached")?;
            ensure!(found["count"] == SLOW_REQUESTS, "{found}");
        }
    }
    guest.kill()
}

/// How many reads the device has done.
fn device_reads(bed: &Bed) -> Result<i64> {
    let stat = bed.sh("cat /sys/block/nullb1/stat")?;
    stat.split_whitespace().next().context("no reads in stat")?.parse().context("a number")
}

/// QEMU's threads but the vCPUs' beside a real-time thread.
fn slow_vmm(bed: &Bed) -> Result<()> {
    let guest =
        guest_with_disk(bed, "late", "/dev/nullb0", &format!("disk:after_port={BEGIN}:n=4000"))?;
    let pid = guest.pid()?;
    guest.pin(&OTHER.to_string())?;
    bed.sh(&format!("taskset -cp {MEASURED} {pid}"))?;
    let of_main = format!("/proc/{pid}/task/{pid}/schedstat");
    let spinner = bed.busy(MEASURED, "", "fifo duty=60 period_ms=100")?;
    let recorded =
        bed.record_with("slow-vmm", &[&guest], std::slice::from_ref(&of_main), 8, || {
            guest.order(BEGIN)
        })?;
    drop(spinner);
    let asker = first_workload(&guest)?;
    guest.kill()?;
    let rows = requests(&recorded.dir, "late", "write")?;
    ensure!(rows.len() > 50, "{} requests", rows.len());
    let [pickup, device] = [
        share_between(&rows, "kick_ts", "pickup_ts")?,
        share_between(&rows, "host_issue_ts", "host_complete_ts")?,
    ];
    println!("pickup {:.1} %, device {:.1} %", pickup * 100.0, device * 100.0);
    ensure!(pickup > device, "the device took longer than the back end to go on");
    let [_, truth] = recorded.ran_and_waited(&of_main)?;
    let answer = recorded.explain(&["--vm", "late", "--thread", &asker])?;
    let said = answer.share(|piece| piece["tid"] == pid && piece["state"] == "runnable")?;
    expect_share("QEMU's main thread beside a SCHED_FIFO thread", truth, &answer, said)?;
    let found = answer.found("slow_vmm", "late")?["sentence"].to_string();
    ensure!(found.contains("qemu-system") && found.contains("behind fifo"), "{found}");
    Ok(())
}

/// The guest's only vCPU, which takes the disk's interrupts, beside a real-time thread.
fn late_interrupts(bed: &Bed) -> Result<()> {
    let plan = bed.host.guest("tardy").disk_at("/dev/nullb0");
    let plan = plan.workload(&format!("disk:after_port={BEGIN}:n=4000"));
    let guest = plan.agent(transect_e2e::agent()?, &["--vsock"]).boot()?;
    bed.pin_vcpu(&guest, 0)?;
    let of_vcpu = bed.schedstat(&guest, 0)?;
    let spinner = bed.busy(MEASURED, "", "fifo duty=60 period_ms=100")?;
    let recorded =
        bed.record_with("late-interrupts", &[&guest], std::slice::from_ref(&of_vcpu), 8, || {
            guest.order(BEGIN)
        })?;
    drop(spinner);
    guest.kill()?;
    let rows = requests(&recorded.dir, "tardy", "write")?;
    ensure!(rows.len() > 50, "{} requests", rows.len());
    let delivery = share_between(&rows, "signal_ts", "guest_irq_ts")?;
    println!("signal..guest_irq {:.1} %", delivery * 100.0);
    let [_, truth] = recorded.ran_and_waited(&of_vcpu)?;
    let answer = recorded.explain(&["--vm", "tardy"])?;
    let said = answer.share(waits_for("class"))?;
    expect_share("a vCPU that takes interrupts beside a SCHED_FIFO thread", truth, &answer, said)?;
    let found = answer.found("delivery", "tardy")?["sentence"].to_string();
    ensure!(found.contains("behind fifo"), "{found}");
    Ok(())
}
