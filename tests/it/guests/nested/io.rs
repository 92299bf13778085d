//! What guests do with disks and the network, and what groups are held back by, on a real host.
//!
//! A guest's disk is a block device of its host, past the page cache: each of its requests is one of the host's. Its
//! network card is a tap device, whose kernel counts packets itself. So both have a truth beside what is counted here.

use super::{Bed, top_screen};
use anyhow::{Context, Result, ensure};
use serde_json::Value;
use transect_e2e::{number, on_shared_host};

const BLOCK_BYTES: i64 = 4096;
const WRITES: i64 = 200;
const READS: i64 = 120;
const PINGS: i64 = 20;
/// What is set before there is a card: else a kernel asks anew, some 15 to 45 s after the last answer, whether its
/// neighbour is still there, and that may be after the last window.
const NEIGHBOURS_STAY: &str = "net.ipv4.neigh.default.base_reachable_time_ms=3600000";
/// What `netif_receive_skb` does not see of a packet any more, and the device counts.
const ETHERNET_HEAD_BYTES: i64 = 14;

/// Numbers of a file of /sys, by their places.
fn numbers(text: &str) -> Result<Vec<i64>> {
    text.split_whitespace().map(|word| word.parse().with_context(|| format!("{word:?}"))).collect()
}

/// Counts and bytes of a machine's rows of `io_windows`, over all windows.
fn sum(live: &[Value], machine: i64, kind: &str, name: Option<&str>) -> Result<(i64, i64)> {
    let of = |row: &&Value| {
        row["table"] == "io_windows"
            && row["machine_id"] == machine
            && row["kind"] == kind
            && name.is_none_or(|name| row["name"] == name)
    };
    live.iter().filter(of).try_fold((0, 0), |(count, bytes), row| {
        Ok((count + number(row, "count")?, bytes + number(row, "bytes")?))
    })
}

/// Says whose requests and packets there were at all.
fn told(live: &[Value]) {
    let mut all = std::collections::BTreeMap::<String, i64>::new();
    for row in live.iter().filter(|row| row["table"] == "io_windows") {
        let whose = ["machine_id", "kind", "name"].map(|column| row[column].to_string()).join(" ");
        *all.entry(whose).or_default() += row["count"].as_i64().unwrap_or(0);
    }
    println!("{all:#?}");
}

/// What `/metrics` of a daemon says of one series.
fn metric(text: &str, series: &str) -> Result<f64> {
    let line = text.lines().find_map(|line| line.strip_prefix(series));
    let value = line.with_context(|| format!("no {series} in\n{text}"))?;
    value.trim().parse().with_context(|| format!("{series}{value}"))
}

#[test]
fn a_guest_s_disk_and_network_are_counted_as_its_own() {
    on_shared_host(|host| {
        let bed = Bed::take(host).unwrap();
        if !bed.host.is_nested() {
            println!("skipped: only a nested host has a block device to spare");
            return;
        }
        watch_a_guest_with_a_disk_and_a_tap(&bed).unwrap();
    });
}

/// Requests and bytes that a block device has done: Documentation/block/stat.rst.
fn block_stat(bed: &Bed) -> Result<[(i64, i64); 2]> {
    let stat = bed.host.run("cat /sys/block/nullb0/stat").within(60)?.ok()?.stdout;
    let [reads, _, read_sectors, _, writes, _, write_sectors, ..] = numbers(&stat)?[..] else {
        anyhow::bail!("{stat}");
    };
    Ok([(reads, read_sectors * 512), (writes, write_sectors * 512)])
}

fn watch_a_guest_with_a_disk_and_a_tap(bed: &Bed) -> Result<()> {
    let wget = "busybox wget -qO- http://127.0.0.1:9755";
    let watching = bed
        .host
        .run(&format!(
            "sysctl -q -w net.ipv6.conf.all.disable_ipv6=1 {NEIGHBOURS_STAY} || exit; \
             {0} serve --listen 127.0.0.1:9755 --data $PWD/store-data 2>serve.err & serve=$!; \
             {0} top --log store.jsonl & top=$!; \
             until [ -e store.end ]; do sleep 1; done; {wget}/metrics >metrics.txt; \
             kill -INT $top $serve; wait $top; wait $serve",
            bed.transect
        ))
        .spawn()?;
    let run =
        |command: &str| Ok::<_, anyhow::Error>(bed.host.run(command).within(240)?.ok()?.stdout);
    run(&format!("until [ -s store.jsonl ] && {wget}/readyz; do sleep 1; done"))?;
    let before = block_stat(bed)?;
    // With IPv6 its kernel asks for routers, whenever it likes.
    let quiet = format!("ipv6.disable=1 sysctl.{NEIGHBOURS_STAY}");
    let guest = bed
        .host
        .guest("store")
        .disk_at("/dev/nullb0")
        .tap("tap7", "10.77.0.2")
        .kernel_arguments(&quiet)
        .workload(&format!("disk:after_ms=20000:n={WRITES}:read={READS}"))
        .boot()?;
    run(&format!(
        "busybox ip addr add 10.77.0.1/24 dev tap7; busybox ip link set tap7 up; \
         busybox ping -c {PINGS} -s 700 10.77.0.2"
    ))?;
    guest.wait_for("disk n=").within(240)?;
    let marks = guest.marks()?;
    ensure!(marks.contains(&format!("disk n={WRITES} done={WRITES} read={READS}")), "{marks}");
    let after = block_stat(bed)?;
    let tap = run(
        "sleep 3; cd /sys/class/net/tap7/statistics; cat tx_packets tx_bytes rx_packets rx_bytes",
    )?;
    let [tx_packets, tx_bytes, rx_packets, rx_bytes] = numbers(&tap)?[..] else {
        anyhow::bail!("{tap}");
    };
    run("touch store.end")?;
    watching.finish_within(240)?.expect_success();
    guest.kill()?;
    let log = bed.fetch("store.jsonl")?;
    let live = transect_e2e::lines(&std::fs::read_to_string(&log)?)?;
    let store = live.iter().find(|row| row["table"] == "machines" && row["name"] == "store");
    let store = number(store.context("the VM is not known")?, "machine_id")?;

    // Block requests: just what the device has done, of which nobody else has asked anything; and what the guest says
    // it wrote. Its kernel reads a little by itself.
    let grown = |at: usize| (after[at].0 - before[at].0, after[at].1 - before[at].1);
    let (reads, writes) = (sum(&live, store, "read", None)?, sum(&live, store, "write", None)?);
    println!("{writes:?} written, {reads:?} read; the device: {:?}", [grown(0), grown(1)]);
    told(&live);
    ensure!(writes == (WRITES, WRITES * BLOCK_BYTES), "{writes:?}");
    ensure!(
        [reads, writes] == [grown(0), grown(1)],
        "{reads:?} {writes:?} of {before:?} {after:?}"
    );
    ensure!(reads.0 >= READS && reads.1 >= READS * BLOCK_BYTES, "{reads:?}");
    let mut of_writes =
        live.iter().filter(|row| row["table"] == "io_windows" && row["kind"] == "write");
    ensure!(of_writes.all(|row| row["p99_ns"].as_i64() > Some(0)), "no durations");

    // Packets: just what the device has counted.
    let xmit = sum(&live, store, "xmit", Some("tap7"))?;
    let receive = sum(&live, store, "receive", Some("tap7"))?;
    println!("{xmit:?} sent to it, {receive:?} received from it");
    ensure!(xmit == (tx_packets, tx_bytes), "{xmit:?} of {tap}");
    let seen_bytes = rx_bytes - rx_packets * ETHERNET_HEAD_BYTES;
    ensure!(receive == (rx_packets, seen_bytes), "{receive:?} of {tap}");
    ensure!(
        xmit.0 >= PINGS && receive.0 >= PINGS && receive.1 > PINGS * 700,
        "too little was sent"
    );

    // The daemon beside it: the same numbers by the VM's name.
    let metrics = std::fs::read_to_string(bed.fetch("metrics.txt")?)?;
    let of = |name: &str, labels: &str| {
        metric(&metrics, &format!("{name}{{machine=\"store\",{labels}}}"))
    };
    #[expect(clippy::cast_precision_loss, reason = "some thousands")]
    for (name, labels, wanted) in [
        ("transect_block_duration_seconds_count", "direction=\"write\"", writes.0),
        ("transect_block_duration_seconds_count", "direction=\"read\"", reads.0),
        ("transect_block_bytes_total", "direction=\"write\"", writes.1),
        ("transect_net_packets_total", "device=\"tap7\",direction=\"xmit\"", xmit.0),
        ("transect_net_bytes_total", "device=\"tap7\",direction=\"receive\"", receive.1),
    ] {
        let said = of(name, labels)?;
        ensure!(said == wanted as f64, "{name} {labels}: {said}, not {wanted}");
    }

    // And the screen, one level down.
    let down = ["/", "s", "t", "o", "r", "e", "Enter", "Enter", "g"];
    let shown = top_screen::shown_back(&log, &down, "disk write")?;
    println!("{}", shown.unwrap_or_default());
    Ok(())
}

/// A bound of CPU time of control groups of version 2, as the kernel holds a group back by it.
#[test]
fn a_bound_and_what_it_holds_back_are_told() {
    on_shared_host(|host| {
        let bed = Bed::take(host).unwrap();
        if !bed.host.is_nested() {
            println!("skipped: control groups are made on a nested host only");
            return;
        }
        let out = bed
            .host
            .run(&format!(
                "cd /sys/fs/cgroup; echo +cpu >cgroup.subtree_control; mkdir bound; \
                 echo '20000 100000' >bound/cpu.max; cd - >/dev/null; \
                 sh -c 'echo $$ >/sys/fs/cgroup/bound/cgroup.procs; exec sh -c \"while :; do :; done\"' & hog=$!; \
                 {0} top --log bound.jsonl & top=$!; \
                 until [ $(grep -c '\"table\":\"snapshot\"' bound.jsonl) -ge 6 ]; do sleep 0.3; done; \
                 kill -INT $top; wait $top; code=$?; kill -KILL $hog; cat /sys/fs/cgroup/bound/cpu.stat; \
                 sleep 0.5; rmdir /sys/fs/cgroup/bound; exit $code",
                bed.transect
            ))
            .within(240)
            .unwrap();
        out.expect_success();
        let log = bed.fetch("bound.jsonl").unwrap();
        expect_held_back(&log, &out.stdout).unwrap();
        // Most of what it waited it was held back: the screen has both beside each other.
        let keys = ["/", "b", "o", "u", "n", "d", "Enter"];
        let shown = top_screen::shown(&log, &keys, |screen| {
            let row = screen.lines().find(|line| line.starts_with("bound ")).unwrap_or_default();
            screen.contains("HELD%") && row.contains("group")
        });
        println!("{}", shown.unwrap().unwrap_or_default());
    });
}

fn expect_held_back(log: &std::path::Path, cpu_stat: &str) -> Result<()> {
    let live = transect_e2e::lines(&std::fs::read_to_string(log)?)?;
    let rows: Vec<&Value> = live
        .iter()
        .filter(|row| row["table"] == "pressure_windows" && row["cgroup"] == "/bound")
        .collect();
    ensure!(rows.len() >= 4, "{} rows", rows.len());
    let mut total = [0; 3];
    for row in &rows {
        ensure!(row["quota_ns"] == 20_000_000 && row["period_ns"] == 100_000_000, "{row}");
        for (sum, column) in total.iter_mut().zip(["periods", "periods_throttled", "throttled_ns"])
        {
            *sum += row[column].as_i64().unwrap_or(0);
        }
    }
    let [periods, throttled, held_ns] = total;
    println!("{periods} periods, throttled in {throttled}, held back for {held_ns} ns\n{cpu_stat}");
    ensure!(periods >= 20 && throttled >= periods / 2 && throttled <= periods, "{total:?}");
    ensure!(held_ns > 0, "{total:?}");
    // Not more than the kernel itself says up to the end.
    let kernel = |name: &str| {
        let line = cpu_stat.lines().find_map(|line| line.strip_prefix(name));
        line.and_then(|value| value.trim().parse::<i64>().ok())
            .with_context(|| format!("no {name}"))
    };
    ensure!(periods <= kernel("nr_periods ")?, "{total:?}");
    ensure!(throttled <= kernel("nr_throttled ")?, "{total:?}");
    ensure!(held_ns <= kernel("throttled_usec ")? * 1000, "{total:?}");
    // Which is what its threads waited for: nobody else was in their way all that time.
    let windows = live.iter().filter(|row| row["table"] == "windows" && row["cgroup"] == "/bound");
    let waited: i64 = windows.filter_map(|row| row["waited_ns"].as_i64()).sum();
    ensure!(waited >= held_ns / 2, "waited {waited} ns, held back for {held_ns} ns");
    Ok(())
}
