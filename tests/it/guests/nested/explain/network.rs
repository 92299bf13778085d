//! A guest that waits for another one's answers.

use super::{
    MEASURED, OTHER, Recorded,
    answer::{Answer, expect_share},
    on_nested_host,
    threads::numbers_of,
};
use crate::guests::nested::{Bed, machine_id};
use anyhow::{Context, Result, ensure};
use transect_e2e::report;
use transect_testbed::Guest;

/// What the server works for an answer: under emulation, the way of a packet takes tens of milliseconds.
const WORK_US: u32 = 100_000;
/// Orders to the client: ask, and ask once more.
const ASK: u32 = 5001;
const ASK_AGAIN: u32 = 5002;

/// Two guests with a card each, in one network through the host.
pub(super) struct Pair {
    pub(super) client: Guest,
    pub(super) server: Guest,
}

/// The workloads of both; is their back end a vhost worker?
pub(super) fn pair(bed: &Bed, [client, server]: [&str; 2], vhost: bool) -> Result<Pair> {
    let guest = |name: &str, number: u32, workload: &str| {
        let (tap, address) = (format!("tap-{name}"), format!("10.78.0.{number}"));
        let plan = bed.host.guest(name).tap(&tap, &address).workload(workload);
        let plan = plan.kernel_arguments("ipv6.disable=1");
        let plan = if vhost { plan.vhost_net() } else { plan };
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
    let server = guest("server", 2, server)?;
    let client = guest("client", 3, client)?;
    Ok(Pair { client, server })
}

/// A workload that asks the server for so long, once it is ordered to.
pub(super) fn ask(order: u32, seconds: u32) -> String {
    format!("ask:after_port={order}:to=10.78.0.2:port=7777:seconds={seconds}:wait_ms=5000")
}

#[test]
fn a_client_waits_for_what_its_server_waits_for() {
    on_nested_host(|bed| {
        let asks = format!("{}+{}", ask(ASK, 25), ask(ASK_AGAIN, 25));
        let pair = pair(bed, [&asks, &format!("serve:port=7777:work_us={WORK_US}")], false)?;
        pair.client.pin(&OTHER.to_string())?;
        bed.pin_vcpu(&pair.server, 0)?;
        server_computes(bed, &pair)?;
        server_waits(bed, &pair)
    });
}

/// The number of the thread that runs a workload.
pub(super) fn thread_of(guest: &Guest, workload: &str) -> Result<String> {
    let marks = guest.marks()?;
    let line = marks.lines().find(|line| line.contains(workload)).context("no such workload")?;
    let (_, rest) = line.split_once("pid=").context("no pid")?;
    Ok(rest.split(' ').next().unwrap_or_default().to_owned())
}

/// What a server said about each second in which it answered.
fn reports_of(server: &Guest) -> Result<Vec<String>> {
    let marks = server.marks()?;
    let reports = marks.lines().filter(|line| line.contains("served n="));
    Ok(reports.map(str::to_owned).collect())
}

/// The share of the time in which it worked for an answer, by its own clock and these reports; the first and the last of them may
/// be of seconds in which nobody asked.
fn works_for_answers(reports: &[String]) -> Result<f64> {
    let (mut worked, mut all) = (0.0, 0.0);
    for line in reports.iter().skip(1).rev().skip(1) {
        let numbers = numbers_of(line);
        worked += numbers("worked_us")?;
        all += numbers("us")?;
    }
    ensure!(all > 0.0, "the server answered nothing");
    Ok(worked / all)
}

/// How the client spent the time up to its last answer in the recording: the server works for the next one, but that it wakes the
/// client is not in it.
fn explain_answers(recorded: &mut Recorded, asker: &str) -> Result<Answer> {
    let whom = ["--vm", "client", "--thread", asker];
    if let Some(since) = recorded.explain(&whom)?.asleep_since()? {
        recorded.range.end = since;
    }
    recorded.explain(&whom)
}

/// The server that works for each answer has its vCPU beside a process with a larger weight.
fn server_waits(bed: &Bed, pair: &Pair) -> Result<()> {
    let of_server = bed.schedstat(&pair.server, 0)?;
    let (guests, files) = ([&pair.client, &pair.server], [of_server.clone()]);
    let mut hog = None;
    let before = reports_of(&pair.server)?.len();
    let mut recorded = bed.record_with("beside-hog", &guests, &files, 8, || {
        pair.client.order(ASK_AGAIN)?;
        hog = Some(bed.busy(MEASURED, "nice -n -5", "hog")?);
        Ok(())
    })?;
    let reports = reports_of(&pair.server)?.split_off(before);
    drop(hog);
    let server = machine_id(&report(&recorded.dir)?, "server")?;
    let asker = thread_of(&pair.client, &format!("ask:after_port={ASK_AGAIN}:"))?;
    let answer = explain_answers(&mut recorded, &asker)?;
    let [_, waited] = recorded.ran_and_waited(&of_server)?;
    let said = answer.share(|piece| {
        piece["depth"].as_i64() > Some(0)
            && piece["state"] == "vcpu_wait"
            && piece["machine_id"] == server
    })?;
    // The vCPU also waits while it works for no answer, for the agent in its guest.
    let works = works_for_answers(&reports)?;
    expect_share("server's vCPU beside a busy process", waited * works, &answer, said)?;
    answer.expect_first_sentence(&["in server", "for a CPU", "behind hog ("])
}

/// The server works for each answer, by its own clock.
fn server_computes(bed: &Bed, pair: &Pair) -> Result<()> {
    let of_server = bed.schedstat(&pair.server, 0)?;
    let (guests, files) = ([&pair.client, &pair.server], [of_server]);
    let mut recorded =
        bed.record_with("computes", &guests, &files, 8, || pair.client.order(ASK))?;
    let works = works_for_answers(&reports_of(&pair.server)?)?;
    // It has to be done before it is asked to begin again.
    pair.client.wait_for("asked n=").within(120)?;
    let server = machine_id(&report(&recorded.dir)?, "server")?;
    let serves = thread_of(&pair.server, "serve:port=7777")?.parse::<i64>()?;
    let asker = thread_of(&pair.client, &format!("ask:after_port={ASK}:"))?;
    let answer = explain_answers(&mut recorded, &asker)?;
    let said = answer.share(|piece| {
        piece["machine_id"] == server && piece["tid"] == serves && piece["state"] != "timer"
    })?;
    expect_share("innocent: a server that computes", works, &answer, said)?;
    answer.expect_first_sentence(&["for workload (", "in server", "which ran"])
}
