//! Stacks at the stages of packets from a domain through dom0, in the kernels of both.
//!
//! The host and its domain come from Debian packages; skipped only where no Xen host can be booted at all.

#![allow(
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "what was measured belongs in the log of a test run; a failed expectation is the report"
)]

use anyhow::{Context, Result, ensure};
use serde_json::Value;
use std::{
    collections::{BTreeMap, HashMap},
    path::Path,
};
use transect_e2e::{agent, number, table_rows, transect};
use transect_testbed::{
    XenHost,
    xen::{self, TscMode},
};

#[test]
fn packets_of_a_domain_have_their_stages_and_stacks() {
    if let Some(why) = xen::missing() {
        println!("skipped: {why}");
        return;
    }
    let here = tempfile::tempdir().unwrap();
    let recording = here.path().join("r.transect");
    record(&recording).unwrap();
    stages(&recording).unwrap();
}

/// The domain sends to an address behind a device of dom0 that takes all.
fn record(to: &Path) -> Result<()> {
    let host = XenHost::boot()?;
    host.put(transect()?, "transect")?;
    host.run(
        "ip link add outside type dummy; ip link set outside up; ip route add 10.0.0.99/32 dev outside; \
         cd /proc/sys/net/ipv4; echo 1 >ip_forward; echo 1 >conf/xenbr0/proxy_arp; \
         echo 0 >neigh/xenbr0/proxy_delay",
    )
    .within(240)?
    .ok()?;
    let client = host.domu("client").pv().tsc_mode(TscMode::Native).network();
    let client = client.workload("ask:to=10.0.0.99:port=7777:seconds=100000:wait_ms=20");
    let client = client.agent(agent()?, &["--tcp", "0.0.0.0"]).boot()?;
    let address = client.address().context("no card")?;
    let record = format!(
        "./transect record --stacks --profile explain -o r.transect --duration 4s --guest name=client,tcp:{address}"
    );
    println!("{}", host.run(&record).within(900)?.ok()?.stderr);
    host.get("r.transect", to)
}

/// Every packet of the domain, and what has to be in the stack of a stage.
fn stages(recording: &Path) -> Result<()> {
    let tables = table_rows(recording)?;
    let of = |table: &'static str| tables.iter().filter(move |row| row["table"] == table);
    let id = |name: &str| {
        let machine = of("machines").find(|row| row["name"] == name);
        number(machine.with_context(|| format!("no machine {name}"))?, "machine_id")
    };
    let [dom0, client] = [id("dom0")?, id("client")?];
    let mut sent: BTreeMap<i64, Vec<&Value>> = BTreeMap::new();
    for row in of("packets").filter(|row| row["machine_id"] == client && row["send_ts"].is_i64()) {
        sent.entry(number(row, "flow")?).or_default().push(row);
    }
    let packets = sent.into_values().max_by_key(Vec::len).context("no packet")?;
    let mut missing: BTreeMap<&str, usize> = BTreeMap::new();
    for row in &packets {
        *missing.entry(row["missing"].as_str().unwrap_or_default()).or_default() += 1;
    }
    println!("{} packets; missing: {missing:?}", packets.len());
    ensure!(packets.len() > 50, "{} packets", packets.len());

    let mut frames: BTreeMap<(i64, i64), &str> = BTreeMap::new();
    for row in of("stacks") {
        let key = (number(row, "stack_id")?, number(row, "depth")?);
        frames.insert(key, row["symbol"].as_str().context("a symbol")?);
    }
    let mut samples: HashMap<(i64, i64), String> = HashMap::new();
    for row in of("stack_samples") {
        let (Some(ts), Some(stack)) = (row["stage_ts"].as_i64(), row["kernel_stack_id"].as_i64())
        else {
            continue;
        };
        let path: Vec<&str> =
            frames.range((stack, 0)..(stack + 1, 0)).map(|(_, symbol)| *symbol).collect();
        samples.insert((number(row, "machine_id")?, ts), path.join(" "));
    }
    for (cut, machine, function) in [
        ("send_ts", client, "udp_sendmsg"),
        ("kick_ts", client, ""),
        ("host_receive_ts", dom0, "xenvif_poll"),
        ("host_send_ts", dom0, "br_handle_frame"),
    ] {
        let known: Vec<i64> = packets.iter().filter_map(|row| row[cut].as_i64()).collect();
        let right = known
            .iter()
            .filter(|ts| samples.get(&(machine, **ts)).is_some_and(|path| path.contains(function)));
        let right = right.count();
        println!("{cut}: known of {}, {right} with '{function}' in their stack", known.len());
        ensure!(known.len() * 10 >= packets.len() * 9, "{cut}: {} known", known.len());
        // A hypercall has no stack.
        ensure!(function.is_empty() || right * 100 >= known.len() * 95, "{cut}: {right} right");
    }
    Ok(())
}
