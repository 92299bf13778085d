//! Stacks at the stages of packets between two guests, in the guests' kernels and in the host's.

use super::{
    network::{Pair, ask, pair},
    on_nested_host,
};
use crate::guests::nested::{Bed, machine_id};
use anyhow::{Context, Result, ensure};
use serde_json::Value;
use std::collections::{BTreeMap, HashMap};
use transect_e2e::{number, report, table_rows};

/// Order to the client.
const ASK: u32 = 5000;

/// What has to be in the stack of a stage: its first event, the machine, and functions of which it has one.
struct Expected {
    cut: &'static str,
    machine: &'static str,
    functions: &'static [&'static str],
}

const fn expected(
    cut: &'static str,
    machine: &'static str,
    functions: &'static [&'static str],
) -> Expected {
    Expected { cut, machine, functions }
}

const SENDS: Expected = expected("send_ts", "client", &["udp_sendmsg"]);
const QEMU: [Expected; 5] = [
    SENDS,
    expected("kick_ts", "host", &["ioeventfd_write", "kvm_arch_vcpu_ioctl_run"]),
    expected("host_receive_ts", "host", &["tun_get_user"]),
    expected("host_send_ts", "host", &["tun_get_user"]),
    expected("signal_ts", "host", &["irqfd_wakeup", "kvm_vm_ioctl", "kvm_send_userspace_msi"]),
];
const VHOST: [Expected; 5] = [
    SENDS,
    expected("kick_ts", "host", &["ioeventfd_write"]),
    expected("host_receive_ts", "host", &["handle_tx"]),
    expected("host_send_ts", "host", &["handle_tx"]),
    expected("signal_ts", "host", &["irqfd_wakeup"]),
];

#[test]
fn stages_of_packets_have_their_stacks() {
    on_nested_host(|bed| {
        for (vhost, name, all) in [(false, "qemu", QEMU), (true, "vhost", VHOST)] {
            let pair = pair(bed, [&ask(ASK, 8), "serve:port=7777"], vhost)?;
            stacks(bed, &pair, name, &all)?;
            pair.client.kill()?;
            pair.server.kill()?;
        }
        Ok(())
    });
}

/// The client asks, the server answers at once.
fn stacks(bed: &Bed, pair: &Pair, name: &str, all: &[Expected]) -> Result<()> {
    let options = "--stacks --profile explain";
    let guests = [&pair.client, &pair.server];
    let recorded = bed.record_by(&format!("stacks-{name}"), options, &guests, &[], 4, || {
        pair.client.order(ASK)?;
        pair.client.wait_for("asked n=").within(120).map(drop)
    })?;
    let report = report(&recorded.dir)?;
    let [client, server] = [machine_id(&report, "client")?, machine_id(&report, "server")?];
    let tables = table_rows(&recorded.dir)?;
    let frames = frames(&tables)?;
    let packets = |row: &&Value| {
        row["table"] == "packets"
            && row["machine_id"] == client
            && row["to_machine_id"] == server
            && row["tid"].is_i64()
    };
    let packets: Vec<&Value> = tables.iter().filter(packets).collect();
    ensure!(packets.len() > 100, "{} packets", packets.len());
    let mut samples: HashMap<(i64, i64), Vec<&Value>> = HashMap::new();
    for row in tables.iter().filter(|row| row["table"] == "stack_samples") {
        if let Some(ts) = row["stage_ts"].as_i64() {
            samples.entry((number(row, "machine_id")?, ts)).or_default().push(row);
        }
    }
    for Expected { cut, machine, functions } in all {
        let machine = if *machine == "host" { 0 } else { client };
        let known = packets.iter().filter_map(|row| row[*cut].as_i64());
        let known: Vec<i64> = known.collect();
        let of = |ts: &i64| samples.get(&(machine, *ts)).into_iter().flatten().copied();
        let path = |sample: &Value| {
            sample["kernel_stack_id"].as_i64().and_then(|id| frames.get(&(machine, id))).cloned()
        };
        let mut paths: BTreeMap<String, usize> = BTreeMap::new();
        for ts in &known {
            let path = of(ts).find_map(path).unwrap_or_default();
            *paths.entry(path).or_default() += 1;
        }
        let is_right = |path: &str| functions.iter().any(|function| path.contains(function));
        let right: usize =
            paths.iter().filter(|(path, _)| is_right(path)).map(|(_, count)| count).sum();
        println!("{name} {cut}: {right} of {} have one of {functions:?}; stacks:", known.len());
        let mut most: Vec<_> = paths.iter().map(|(path, count)| (count, path)).collect();
        most.sort_unstable_by(|a, b| b.cmp(a));
        most.iter().take(3).for_each(|(count, path)| println!("  {count}: {path}"));
        ensure!(known.len() * 10 >= packets.len() * 8, "{cut}: {} known", known.len());
        ensure!(right * 100 >= known.len() * 95, "{cut}: {paths:?}");
    }
    Ok(())
}

/// The functions of every stack, the innermost first.
fn frames(tables: &[Value]) -> Result<HashMap<(i64, i64), String>> {
    let mut frames: BTreeMap<(i64, i64, i64), &str> = BTreeMap::new();
    for row in tables.iter().filter(|row| row["table"] == "stacks") {
        let of = (number(row, "machine_id")?, number(row, "stack_id")?, number(row, "depth")?);
        frames.insert(of, row["symbol"].as_str().context("a symbol")?);
    }
    let mut stacks: HashMap<(i64, i64), String> = HashMap::new();
    for ((machine, stack, _), symbol) in frames {
        let text = stacks.entry((machine, stack)).or_default();
        text.push_str(symbol);
        text.push(' ');
    }
    Ok(stacks)
}
