//! A guest that waits for another one's answers.

use super::{
    MEASURED, OTHER,
    answer::{WITHIN, expect_share},
    on_nested_host,
    threads::numbers_of,
};
use crate::guests::nested::{Bed, machine_id};
use anyhow::{Context, Result, ensure};
use transect_e2e::report;
use transect_testbed::Guest;

/// What the server works for an answer: under emulation, the way of a packet takes tens of milliseconds.
const WORK_US: u32 = 100_000;
/// Orders to the client: ask the server that answers at once, and the one that works.
const ASK_QUICK: u32 = 5001;
const ASK_SLOW: u32 = 5002;

/// Two guests with a card each, in one network through the host.
struct Pair {
    client: Guest,
    server: Guest,
}

fn pair(bed: &Bed) -> Result<Pair> {
    let guest = |name: &str, number: u32, workload: &str| {
        let (tap, address) = (format!("tap-{name}"), format!("10.78.0.{number}"));
        let plan = bed.host.guest(name).tap(&tap, &address).workload(workload);
        let plan = plan.kernel_arguments("ipv6.disable=1");
        let guest = plan.agent(transect_e2e::agent()?, &["--vsock"]).boot()?;
        // Neither card is in a bridge: the host answers for the other guest and forwards.
        bed.sh(&format!(
            "busybox ip link set {tap} up; busybox ip route add {address}/32 dev {tap}; \
             echo 1 >/proc/sys/net/ipv4/conf/{tap}/proxy_arp; \
             echo 0 >/proc/sys/net/ipv4/neigh/{tap}/proxy_delay; \
             echo 1 >/proc/sys/net/ipv4/conf/{tap}/forwarding"
        ))?;
        Ok::<_, anyhow::Error>(guest)
    };
    let serve = format!("serve:port=7777+serve:port=7778:work_us={WORK_US}");
    let server = guest("server", 2, &serve)?;
    let ask = |order: u32, port: u32| {
        format!("ask:after_port={order}:to=10.78.0.2:port={port}:seconds=25:wait_ms=5000")
    };
    let client = guest("client", 3, &format!("{}+{}", ask(ASK_QUICK, 7777), ask(ASK_SLOW, 7778)))?;
    client.pin(&OTHER.to_string())?;
    bed.pin_vcpu(&server, 0)?;
    Ok(Pair { client, server })
}

#[test]
fn a_client_waits_for_what_its_server_waits_for() {
    on_nested_host(|bed| {
        let pair = pair(bed)?;
        server_computes(bed, &pair)?;
        server_waits(bed, &pair)
    });
}

/// The number of the thread that runs a workload.
fn thread_of(guest: &Guest, workload: &str) -> Result<String> {
    let marks = guest.marks()?;
    let line = marks.lines().find(|line| line.contains(workload)).context("no such workload")?;
    let (_, rest) = line.split_once("pid=").context("no pid")?;
    Ok(rest.split(' ').next().unwrap_or_default().to_owned())
}

/// The server's vCPU is beside a process with a larger weight: it lacks a CPU for most of each answer.
fn server_waits(bed: &Bed, pair: &Pair) -> Result<()> {
    let of_server = bed.schedstat(&pair.server, 0)?;
    let (guests, files) = ([&pair.client, &pair.server], [of_server.clone()]);
    let mut hog = None;
    let recorded = bed.record_with("beside-hog", &guests, &files, 8, || {
        pair.client.order(ASK_QUICK)?;
        hog = Some(bed.busy(MEASURED, "nice -n -5", "hog")?);
        Ok(())
    })?;
    drop(hog);
    let [_, waited] = recorded.ran_and_waited(&of_server)?;
    let server = machine_id(&report(&recorded.dir)?, "server")?;
    let asker = thread_of(&pair.client, &format!("ask:after_port={ASK_QUICK}:"))?;
    let answer = recorded.explain(&["--vm", "client", "--thread", &asker])?;
    let said = answer.share(|piece| {
        piece["depth"].as_i64() > Some(0)
            && piece["state"] == "vcpu_wait"
            && piece["machine_id"] == server
    })?;
    // The vCPU also waits when nothing is asked, for the agent in its guest: what the kernel counts is an upper bound.
    let [said_percent, most] = [said, waited].map(|share| share * 100.0);
    let first = answer.first_sentence()?;
    println!(
        "| server's vCPU beside a busy process | <= {most:.1} % | {first} | {said_percent:.1} % |"
    );
    ensure!(said <= waited + WITHIN && said > WITHIN, "{said_percent:.1} % of at most {most:.1} %");
    answer.expect_first_sentence(&["in server", "for a CPU", "behind hog ("])
}

/// The server works for each answer, by its own clock.
fn server_computes(bed: &Bed, pair: &Pair) -> Result<()> {
    let of_server = bed.schedstat(&pair.server, 0)?;
    let (guests, files) = ([&pair.client, &pair.server], [of_server]);
    let recorded =
        bed.record_with("computes", &guests, &files, 8, || pair.client.order(ASK_SLOW))?;
    // Until the client has asked for long enough, each report is of a second in which it asked.
    pair.client.wait_for("asked n=").within(120)?;
    let (marks, mut worked, mut all) = (pair.server.marks()?, 0.0, 0.0);
    let reports: Vec<&str> = marks.lines().filter(|line| line.contains("served n=")).collect();
    for line in reports.iter().skip(1).rev().skip(1) {
        let numbers = numbers_of(line);
        worked += numbers("worked_us")?;
        all += numbers("us")?;
    }
    let server = machine_id(&report(&recorded.dir)?, "server")?;
    let serves = thread_of(&pair.server, "serve:port=7778")?.parse::<i64>()?;
    let asker = thread_of(&pair.client, &format!("ask:after_port={ASK_SLOW}:"))?;
    let answer = recorded.explain(&["--vm", "client", "--thread", &asker])?;
    let said = answer.share(|piece| {
        piece["machine_id"] == server && piece["tid"] == serves && piece["state"] != "timer"
    })?;
    expect_share("innocent: a server that computes", worked / all, &answer, said)?;
    answer.expect_first_sentence(&["for workload (", "in server", "which ran"])
}
